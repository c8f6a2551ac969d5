//! The forms of address in paths and headers: OpenKruise with E2B, OpenSandbox, scitix Agent-Sandbox.
//!
//! Each function tries one form. The forms of the host are in [`host`], those of `X-Sandbox-ID` in
//! [`sandbox_id`](super::sandbox_id). Signed routes of OpenSandbox are not recognised: such a value is
//! malformed.

use sandgate_routes::is_valid_id;

use super::{Absence, Attempt, host, is_digits, offer, parse_port, path_only, sent_port, split_once};
use crate::address::AskedPort;
use crate::{Address, FilterConfig, Form, Headers, Part};

const KRUISE_PREFIX: &[u8] = b"/kruise/";

/// `/kruise/{id}/{port}/{rest}`. Whatever begins with `/kruise/` has the shape. `api` as the ID segment is
/// the manager's API, which no header or host can turn into a request to a sandbox; `apix` is an ID like any
/// other.
pub(crate) fn kruise_path(
    path: Option<&[u8]>,
    config: &FilterConfig,
    taken: &mut Option<Address>,
) -> Attempt {
    if !config.kruise.path {
        return Attempt::Absent(Absence::Off);
    }
    let Some(path) = path else {
        return Attempt::Absent(Absence::NoPrefix);
    };
    let Some(tail) = path_only(path).strip_prefix(KRUISE_PREFIX) else {
        return Attempt::Absent(Absence::NoPrefix);
    };
    let (id, port_on) = match split_once(tail, b'/') {
        Some((b"api", _)) => return Attempt::Reserved,
        None if tail == b"api" => return Attempt::Reserved,
        None => return Attempt::Malformed(Part::Path),
        Some(parts) => parts,
    };
    let port = split_once(port_on, b'/').map_or(port_on, |(port, _)| port);
    let cut = KRUISE_PREFIX.len() + id.len() + 1 + port.len();
    offer(taken, Form::KruisePath, id, parse_port(port).map(AskedPort::from), cut)
}

/// `e2b-sandbox-id`, with `e2b-sandbox-port` or the default port. The ID header alone makes the shape, even
/// if empty.
pub(crate) fn kruise_header<H: Headers + ?Sized>(
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
            let default = AskedPort { number: kruise.default_port, is_default: true };
            let port = sent_port(headers, &kruise.port_header);
            let port = port.map(|port| port.map_or(default, AskedPort::from));
            offer(taken, Form::KruiseHeader, id, port, 0)
        }
    })
}

/// `{port}-{id}`: digits, a dash, then an ID which may itself have dashes.
pub(crate) fn port_and_id(label: &[u8]) -> Option<(&[u8], &[u8])> {
    split_once(label, b'-').filter(|(port, _)| is_digits(port))
}

/// The header and its older name, in the order they are looked for.
pub(crate) const INGRESS: [&str; 2] = ["opensandbox-ingress-to", "open-sandbox-ingress"];

/// `OpenSandbox-Ingress-To: {id}-{port}[.{domain}]`. The header makes the shape, whatever it holds. Under
/// both of its names it must say the same.
pub(crate) fn opensandbox_header<H: Headers + ?Sized>(
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
pub(crate) fn opensandbox_path(
    path: Option<&[u8]>,
    config: &FilterConfig,
    taken: &mut Option<Address>,
) -> Attempt {
    if !config.opensandbox.path {
        return Attempt::Absent(Absence::Off);
    }
    id_and_port_path(path, b"/", Form::OpenSandboxPath, taken)
}

const SANDBOXES_PREFIX: &[u8] = b"/sandboxes/";

/// `/sandboxes/{id}/{port}/{rest}`. The prefix alone does not make the shape: E2B's API has paths such as
/// `/sandboxes/{id}/timeout`. So it is as weak as that of [`opensandbox_path`], and is tried before it.
pub(crate) fn sandbox_env_path(
    path: Option<&[u8]>,
    config: &FilterConfig,
    taken: &mut Option<Address>,
) -> Attempt {
    if !config.sandbox_env.path {
        return Attempt::Absent(Absence::Off);
    }
    id_and_port_path(path, SANDBOXES_PREFIX, Form::SandboxEnvPath, taken)
}

/// Behind the prefix, a valid ID and a segment of nothing but digits.
fn id_and_port_path(path: Option<&[u8]>, prefix: &[u8], form: Form, taken: &mut Option<Address>) -> Attempt {
    let shape = path.and_then(|path| {
        let (id, port_on) = split_once(path_only(path).strip_prefix(prefix)?, b'/')?;
        let port = split_once(port_on, b'/').map_or(port_on, |(port, _)| port);
        (is_valid_id(id) && is_digits(port)).then_some((id, port))
    });
    match shape {
        Some((id, port)) => {
            let cut = prefix.len() + id.len() + 1 + port.len();
            offer(taken, form, id, parse_port(port).map(AskedPort::from), cut)
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
