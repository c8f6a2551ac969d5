//! Which sandbox a request addresses.
//!
//! The forms are tried in the order of [`Form`]. The first whose *shape* is there wins: if one of its parts is then
//! wrong, the request is malformed, and no later form gets a say. Otherwise a client could steer a request past a check
//! by spoiling the part that was checked.
//!
//! A form costs as few header reads as it can: switched-off forms read nothing, and the two path forms share one read of
//! `:path`, the two host forms one read of the host.

pub(crate) mod agent_sandbox;
pub(crate) mod host;
pub(crate) mod kruise;
pub(crate) mod opensandbox;
#[cfg(test)]
mod tests;

use crate::{Address, FilterConfig, Form, Headers, Part};

/// What [`recognise`] found.
// Boxing the address would put an allocation on every request.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recognition {
    /// The request addresses this sandbox.
    Addressed(Address),
    /// No form is there: the request is not meant for a sandbox.
    Unaddressed,
    /// A form is there, but one of its parts is not valid.
    Malformed {
        /// The form whose shape was found.
        form: Form,
        /// The part that is wrong.
        part: Part,
    },
}

/// What came of trying one form.
#[allow(clippy::large_enum_variant)]
#[derive(Debug)]
pub(crate) enum Attempt {
    Absent(Absence),
    /// The manager's own API: settles the request as not addressed to any sandbox.
    Reserved,
    Addressed(Address),
    Malformed(Part),
}

/// Why a form is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absence {
    Off,
    NoHeader,
    NoPrefix,
    NotIdAndPort,
    NoHost,
    Ipv6Host,
    NoDomain,
    ForeignDomain,
    PlainLabel,
}

impl From<Result<Address, Part>> for Attempt {
    fn from(result: Result<Address, Part>) -> Self {
        result.map_or_else(Self::Malformed, Self::Addressed)
    }
}

impl Attempt {
    fn settle(self, form: Form) -> Option<Recognition> {
        match self {
            Self::Absent(_) => None,
            Self::Reserved => Some(Recognition::Unaddressed),
            Self::Addressed(address) => Some(Recognition::Addressed(address)),
            Self::Malformed(part) => Some(Recognition::Malformed { form, part }),
        }
    }
}

/// Reads the address of a request. Never allocates, never panics.
pub fn recognise<H: Headers + ?Sized>(headers: &H, config: &FilterConfig) -> Recognition {
    let (first, last) = paths(headers, config);
    first
        .settle(Form::KruisePath)
        .or_else(|| kruise::header(headers, config).settle(Form::KruiseHeader))
        .or_else(|| opensandbox::header(headers, config).settle(Form::OpenSandboxHeader))
        .or_else(|| agent_sandbox::header(headers, config).settle(Form::AgentSandboxHeader))
        .or_else(|| hosts(headers, config))
        .or_else(|| last.settle(Form::OpenSandboxPath))
        .unwrap_or(Recognition::Unaddressed)
}

/// The first and the last form: both are in the path, which is read once.
fn paths<H: Headers + ?Sized>(headers: &H, config: &FilterConfig) -> (Attempt, Attempt) {
    if !config.kruise.path && !config.opensandbox.path {
        return (Attempt::Absent(Absence::Off), Attempt::Absent(Absence::Off));
    }
    headers.with(":path", |path| {
        let first = kruise::path(path, config);
        let last = match first {
            Attempt::Absent(_) => opensandbox::path(path, config),
            // Never looked at: the first form has settled it.
            _ => Attempt::Absent(Absence::NotIdAndPort),
        };
        (first, last)
    })
}

fn hosts<H: Headers + ?Sized>(headers: &H, config: &FilterConfig) -> Option<Recognition> {
    if !config.kruise.host && !config.opensandbox.host {
        return None;
    }
    headers.with(&config.host_header, |value| {
        kruise::host(value, config)
            .settle(Form::KruiseHost)
            .or_else(|| opensandbox::host(value, config).settle(Form::OpenSandboxHost))
    })
}

/// A port in canonical decimal, 1 to 65535.
pub(crate) fn parse_port(digits: &[u8]) -> Result<u16, Part> {
    if !matches!(digits.len(), 1..=5) || digits.first() == Some(&b'0') || !is_digits(digits) {
        return Err(Part::Port);
    }
    let value = digits.iter().fold(0u32, |value, digit| value * 10 + u32::from(digit - b'0'));
    u16::try_from(value).map_err(|_| Part::Port)
}

/// A port header, or the default where it is not sent.
fn port_header<H: Headers + ?Sized>(headers: &H, name: &str, default: u16) -> Result<u16, Part> {
    headers.with(name, |value| value.map_or(Ok(default), parse_port))
}

pub(crate) fn is_digits(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(u8::is_ascii_digit)
}

/// The path without its query.
fn path_only(path: &[u8]) -> &[u8] {
    split_once(path, b'?').map_or(path, |(path, _)| path)
}

fn split_once(bytes: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let position = bytes.iter().position(|byte| *byte == at)?;
    Some((bytes.get(..position)?, bytes.get(position + 1..)?))
}
