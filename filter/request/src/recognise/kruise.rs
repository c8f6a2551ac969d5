//! OpenKruise and E2B: path, headers, host.

use super::{Absence, Attempt, is_digits, offer, parse_port, path_only, port_header, split_once};
use crate::address::AskedPort;
use crate::{Address, FilterConfig, Form, Headers, Part};

const PREFIX: &[u8] = b"/kruise/";

/// `/kruise/{id}/{port}/{rest}`. Whatever begins with `/kruise/` has the shape. `api` as the ID segment is
/// the manager's API, which no header or host can turn into a request to a sandbox; `apix` is an ID like any
/// other.
pub(crate) fn path(path: Option<&[u8]>, config: &FilterConfig, taken: &mut Option<Address>) -> Attempt {
    if !config.kruise.path {
        return Attempt::Absent(Absence::Off);
    }
    let Some(path) = path else {
        return Attempt::Absent(Absence::NoPrefix);
    };
    let Some(tail) = path_only(path).strip_prefix(PREFIX) else {
        return Attempt::Absent(Absence::NoPrefix);
    };
    let (id, port_on) = match split_once(tail, b'/') {
        Some((b"api", _)) => return Attempt::Reserved,
        None if tail == b"api" => return Attempt::Reserved,
        None => return Attempt::Malformed(Part::Path),
        Some(parts) => parts,
    };
    let port = split_once(port_on, b'/').map_or(port_on, |(port, _)| port);
    let cut = PREFIX.len() + id.len() + 1 + port.len();
    offer(taken, Form::KruisePath, id, parse_port(port).map(AskedPort::from), cut)
}

/// `e2b-sandbox-id`, with `e2b-sandbox-port` or the default port. The ID header alone makes the shape, even
/// if empty.
pub(crate) fn header<H: Headers + ?Sized>(
    headers: &H,
    config: &FilterConfig,
    taken: &mut Option<Address>,
) -> Attempt {
    let kruise = &config.kruise;
    if !kruise.headers {
        return Attempt::Absent(Absence::Off);
    }
    // The port is read inside the ID's closure only if there is an ID, so the common request costs one read.
    headers.with(&kruise.id_header, |id| match id {
        None => Attempt::Absent(Absence::NoHeader),
        Some(_) if headers.repeats(&kruise.id_header) => Attempt::Malformed(Part::Repeated),
        Some(id) => {
            let port = port_header(headers, &kruise.port_header, kruise.default_port);
            offer(taken, Form::KruiseHeader, id, port, 0)
        }
    })
}

/// `{port}-{id}`: digits, a dash, then an ID which may itself have dashes.
pub(crate) fn port_and_id(label: &[u8]) -> Option<(&[u8], &[u8])> {
    split_once(label, b'-').filter(|(port, _)| is_digits(port))
}
