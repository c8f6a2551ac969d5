//! OpenSandbox: header, host, path. Signed routes are not recognised: such a value is malformed.

use sandgate_routes::is_valid_id;

use super::{Absence, Attempt, host, is_digits, parse_port, path_only, split_once};
use crate::{Address, FilterConfig, Form, Headers, Part};

/// The header and its older name, in the order they are looked for.
pub(crate) const INGRESS: [&str; 2] = ["opensandbox-ingress-to", "open-sandbox-ingress"];

/// `OpenSandbox-Ingress-To: {id}-{port}[.{domain}]`. The header makes the shape, whatever it holds.
pub(crate) fn header<H: Headers + ?Sized>(headers: &H, config: &FilterConfig) -> Attempt {
    if !config.opensandbox.headers {
        return Attempt::Absent(Absence::Off);
    }
    for name in INGRESS {
        let found = headers.with(name, |value| value.map(|value| ingress(value, &config.domains)));
        if let Some(result) = found {
            return result.into();
        }
    }
    Attempt::Absent(Absence::NoHeader)
}

fn ingress(value: &[u8], domains: &[String]) -> Result<Address, Part> {
    if value.is_empty() {
        return Err(Part::Id);
    }
    let label = host::under(value, domains)
        .or_else(|| split_once(value, b'.').map(|(label, _)| label))
        .unwrap_or(value);
    let (id, port) = id_and_port(label).ok_or(Part::Port)?;
    Address::new(Form::OpenSandboxHeader, id, parse_port(port), 0)
}

/// `{id}-{port}.{domain}`: an ID which may itself have dashes, a dash, then digits.
pub(crate) fn host(value: Option<&[u8]>, config: &FilterConfig) -> Attempt {
    if !config.opensandbox.host {
        return Attempt::Absent(Absence::Off);
    }
    let host = match host::split(value, &config.domains) {
        Ok(host) => host,
        Err(absence) => return Attempt::Absent(absence),
    };
    match id_and_port(host.label) {
        Some((id, port)) => {
            host.checked().and_then(|()| Address::new(Form::OpenSandboxHost, id, parse_port(port), 0)).into()
        }
        None => Attempt::Absent(Absence::PlainLabel),
    }
}

/// `/{id}/{port}/{rest}`. The shape is a valid ID, then a segment of nothing but digits: it is the weakest one, so
/// it comes last.
pub(crate) fn path(path: Option<&[u8]>, config: &FilterConfig) -> Attempt {
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
            Address::new(Form::OpenSandboxPath, id, parse_port(port), cut).into()
        }
        None => Attempt::Absent(Absence::NotIdAndPort),
    }
}

/// Splits at the last dash, if only digits follow it.
fn id_and_port(label: &[u8]) -> Option<(&[u8], &[u8])> {
    let dash = label.iter().rposition(|byte| *byte == b'-')?;
    let (id, port) = (label.get(..dash)?, label.get(dash + 1..)?);
    is_digits(port).then_some((id, port))
}
