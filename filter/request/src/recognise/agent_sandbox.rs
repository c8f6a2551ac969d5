//! SIG agent-sandbox: headers only.
//!
//! `X-Sandbox-Pod-IP` is never read: where a sandbox is, is for the table to say. `X-Sandbox-UID` is no part of the
//! address; the decision compares it with the route that was found.

use super::{Absence, Attempt, port_header};
use crate::{Address, FilterConfig, Headers};

pub(crate) const ID: &str = "x-sandbox-id";
const NAMESPACE: &str = "x-sandbox-namespace";
const PORT: &str = "x-sandbox-port";

/// `X-Sandbox-ID` makes the shape, even if empty. Namespace and port have defaults, but only where they are not sent.
pub(crate) fn header<H: Headers + ?Sized>(headers: &H, config: &FilterConfig) -> Attempt {
    let dialect = &config.agent_sandbox;
    if !dialect.enabled {
        return Attempt::Absent(Absence::Off);
    }
    headers.with(ID, |name| match name {
        None => Attempt::Absent(Absence::NoHeader),
        Some(name) => headers.with(NAMESPACE, |namespace| {
            let namespace = namespace.unwrap_or(dialect.default_namespace.as_bytes());
            Address::composed(namespace, name, port_header(headers, PORT, dialect.default_port)).into()
        }),
    })
}
