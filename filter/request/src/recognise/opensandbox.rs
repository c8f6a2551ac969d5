//! OpenSandbox: header, host, path. Signed routes are not recognised: such a value is malformed.

use sandgate_routes::is_valid_id;

use super::{Absence, Attempt, host, is_digits, offer, parse_port, path_only, split_once};
use crate::address::AskedPort;
use crate::{Address, FilterConfig, Form, Headers, Part};

/// The header and its older name, in the order they are looked for.
pub(crate) const INGRESS: [&str; 2] = ["opensandbox-ingress-to", "open-sandbox-ingress"];

/// `OpenSandbox-Ingress-To: {id}-{port}[.{domain}]`. The header makes the shape, whatever it holds. Under
/// both of its names it must say the same.
pub(crate) fn header<H: Headers + ?Sized>(
    headers: &H,
    config: &FilterConfig,
    taken: &mut Option<Address>,
) -> Attempt {
    if !config.opensandbox.headers {
        return Attempt::Absent(Absence::Off);
    }
    let [name, old_name] = INGRESS;
    headers.with(name, |value| {
        headers.with(old_name, |old_value| {
            let Some(found) = value.or(old_value) else { return Attempt::Absent(Absence::NoHeader) };
            let differ = value.is_some() && old_value.is_some_and(|old| old != found);
            if differ || headers.repeats(name) || headers.repeats(old_name) {
                return Attempt::Malformed(Part::Repeated);
            }
            ingress(found, &config.domains, taken)
        })
    })
}

fn ingress(value: &[u8], domains: &[String], taken: &mut Option<Address>) -> Attempt {
    if value.is_empty() {
        return Attempt::Malformed(Part::Id);
    }
    let label = host::under(value, domains)
        .or_else(|| split_once(value, b'.').map(|(label, _)| label))
        .unwrap_or(value);
    match id_and_port(label) {
        Some((id, port)) => {
            offer(taken, Form::OpenSandboxHeader, id, parse_port(port).map(AskedPort::from), 0)
        }
        None => Attempt::Malformed(Part::Port),
    }
}

/// `/{id}/{port}/{rest}`. The shape is a valid ID, then a segment of nothing but digits: it is the weakest
/// one, so it comes last.
pub(crate) fn path(path: Option<&[u8]>, config: &FilterConfig, taken: &mut Option<Address>) -> Attempt {
    if !config.opensandbox.path {
        return Attempt::Absent(Absence::Off);
    }
    let shape = path.and_then(|path| {
        let (id, port_on) = split_once(path_only(path).strip_prefix(b"/")?, b'/')?;
        let port = split_once(port_on, b'/').map_or(port_on, |(port, _)| port);
        (is_valid_id(id) && is_digits(port)).then_some((id, port))
    });
    match shape {
        Some((id, port)) => {
            let cut = 1 + id.len() + 1 + port.len();
            offer(taken, Form::OpenSandboxPath, id, parse_port(port).map(AskedPort::from), cut)
        }
        None => Attempt::Absent(Absence::NotIdAndPort),
    }
}

/// `{id}-{port}`: an ID which may itself have dashes, a dash, then digits.
pub(crate) fn id_and_port(label: &[u8]) -> Option<(&[u8], &[u8])> {
    let dash = label.iter().rposition(|byte| *byte == b'-')?;
    let (id, port) = (label.get(..dash)?, label.get(dash + 1..)?);
    is_digits(port).then_some((id, port))
}
