//! SIG agent-sandbox: headers only.
//!
//! `X-Sandbox-Pod-IP` is never read: where a sandbox is, is for the table to say. `X-Sandbox-UID` is no part
//! of the address; the decision compares it with the route that was found.

use super::{Absence, Attempt, port_header};
use crate::{Address, FilterConfig, Headers, Part};

pub(crate) const ID: &str = "x-sandbox-id";
const NAMESPACE: &str = "x-sandbox-namespace";
const PORT: &str = "x-sandbox-port";

/// `X-Sandbox-ID` makes the shape, even if empty. Namespace and port have defaults, but only where they are
/// not sent.
pub(crate) fn header<H: Headers + ?Sized>(
    headers: &H,
    config: &FilterConfig,
    taken: &mut Option<Address>,
) -> Attempt {
    let dialect = &config.agent_sandbox;
    if !dialect.enabled {
        return Attempt::Absent(Absence::Off);
    }
    headers.with(ID, |name| match name {
        None => Attempt::Absent(Absence::NoHeader),
        Some(_) if headers.repeats(ID) => Attempt::Malformed(Part::Repeated),
        Some(name) => headers.with(NAMESPACE, |namespace| {
            if namespace.is_some() && headers.repeats(NAMESPACE) {
                return Attempt::Malformed(Part::Repeated);
            }
            let namespace = namespace.unwrap_or(dialect.default_namespace.as_bytes());
            let address =
                Address::composed(namespace, name, port_header(headers, PORT, dialect.default_port));
            match (address, &taken) {
                (Err(part), _) => Attempt::Malformed(part),
                (Ok(address), None) => {
                    *taken = Some(address);
                    Attempt::Addressed
                }
                (Ok(address), Some(earlier)) if earlier.agrees_with(&address) => Attempt::Addressed,
                (Ok(_), Some(earlier)) => Attempt::Conflicting(earlier.form()),
            }
        }),
    })
}
