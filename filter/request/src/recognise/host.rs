//! The label of a host that may name a sandbox.
//!
//! The host is that of the configured header, and `:authority` where a request does not send it. A port and
//! one trailing dot are dropped first. With base domains configured, the host must lie under one of them (in
//! any case, the longest wins) and all that stands before it is the label, dots included, since object names
//! may have dots. With none configured, the label ends at the first dot, and `localhost` will do as what
//! follows it. A host without a dot is a label as a whole to OpenSandbox, and none to OpenKruise.
//!
//! A label may fit both host forms: `80-web-3000`, or a UUID that begins with digits and has a port behind
//! it. A reading with a part that cannot be (port 12345678) is none while the other one is good. Of two good
//! ones the table decides.

use sandgate_routes::is_valid_id;

use super::forms::{self, Label};
use super::{Absence, Attempt, RouteSignature, is_digits, parse_port};
use crate::{Address, FilterConfig, Form, Headers, Part};

const AUTHORITY: &str = ":authority";

/// The host of a request, and where it is from.
#[derive(Debug)]
pub(crate) struct SentHost<'a> {
    /// The header it is from.
    pub(crate) name: &'a str,
    pub(crate) value: Option<&'a [u8]>,
    /// Whether the request has that header more than once.
    pub(crate) repeated: bool,
}

impl SentHost<'_> {
    /// Calls `f` with the value of the configured header, or with `:authority` where that header is not sent
    /// or empty. Where both are there the configured one alone counts.
    ///
    /// Envoy joins several `Host` headers into one value, which is no host; of any other header they are
    /// apart.
    pub(crate) fn read<H: Headers + ?Sized, R>(
        headers: &H,
        config: &FilterConfig,
        f: impl FnOnce(SentHost<'_>) -> R,
    ) -> R {
        let name = config.host_header.as_str();
        headers.with(name, |value| {
            if name == AUTHORITY {
                return f(SentHost { name, value, repeated: false });
            }
            let repeated = value.is_some() && headers.repeats(name);
            match value {
                Some(host) if repeated || !host.is_empty() => f(SentHost { name, value, repeated }),
                _ => headers.with(AUTHORITY, |value| f(SentHost { name: AUTHORITY, value, repeated: false })),
            }
        })
    }
}

/// The first host form that is on.
pub(crate) fn first_form(config: &FilterConfig) -> Form {
    if config.kruise.host { Form::KruiseHost } else { Form::OpenSandboxHost }
}

/// One valid way to read a label.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading<'a> {
    pub(crate) form: Form,
    pub(crate) id: &'a [u8],
    pub(crate) port: u16,
    pub(crate) signature: Option<RouteSignature>,
}

/// How a form splits a label into ID and port.
type Split<'a> = fn(&'a [u8]) -> Option<Label<'a>>;

/// The readings of one host.
#[derive(Debug)]
pub(crate) struct Readings<'a> {
    label: &'a [u8],
    /// As [`Form::KruiseHost`].
    pub(crate) kruise: Result<Reading<'a>, NoReading>,
    /// As [`Form::OpenSandboxHost`].
    pub(crate) opensandbox: Result<Reading<'a>, NoReading>,
}

/// Why a host form does not read a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoReading {
    Absent(Absence),
    Malformed(Part),
}

impl<'a> Readings<'a> {
    pub(crate) fn of(value: Option<&'a [u8]>, config: &FilterConfig) -> Self {
        let none = |absence| Err(NoReading::Absent(absence));
        let host = match split(value, &config.domains) {
            Ok(host) => host,
            Err(absence) => {
                let unless_off = |on| none(if on { absence } else { Absence::Off });
                let (kruise, opensandbox) =
                    (unless_off(config.kruise.host), unless_off(config.opensandbox.host));
                return Self { label: &[], kruise, opensandbox };
            }
        };
        let read = |form, on: bool, parts: Split<'a>| {
            if !on {
                return none(Absence::Off);
            }
            match parts(host.label) {
                Some(label) => host.reading(form, label).map_err(NoReading::Malformed),
                None => none(Absence::PlainLabel),
            }
        };
        Self {
            label: host.label,
            kruise: if config.kruise.host && host.is_whole {
                none(Absence::NoDomain)
            } else {
                read(Form::KruiseHost, config.kruise.host, forms::port_and_id)
            },
            opensandbox: read(Form::OpenSandboxHost, config.opensandbox.host, forms::id_and_port),
        }
    }

    /// The good ones.
    pub(crate) fn good(&self) -> impl Iterator<Item = &Reading<'a>> {
        [&self.kruise, &self.opensandbox].into_iter().flatten()
    }

    /// Takes what the host addresses, where nothing before it has named a sandbox, and says in which form.
    #[inline]
    pub(crate) fn attempt(&self, taken: &mut Option<Address>) -> (Form, Attempt) {
        match (&self.kruise, &self.opensandbox) {
            (Ok(first), other) => {
                *taken = Some(Address::of_label(self.label, first, other.as_ref().ok()));
                (Form::KruiseHost, Attempt::Addressed)
            }
            (Err(_), Ok(reading)) => {
                *taken = Some(Address::of_label(self.label, reading, None));
                (Form::OpenSandboxHost, Attempt::Addressed)
            }
            (Err(NoReading::Malformed(part)), Err(_)) => (Form::KruiseHost, Attempt::Malformed(*part)),
            (Err(_), Err(NoReading::Malformed(part))) => (Form::OpenSandboxHost, Attempt::Malformed(*part)),
            (Err(NoReading::Absent(absence)), Err(NoReading::Absent(_))) => {
                (Form::KruiseHost, Attempt::Absent(*absence))
            }
        }
    }
}

#[derive(Debug)]
struct Host<'a> {
    label: &'a [u8],
    sound: bool,
    /// Whether the label is all there is, with no domain behind it.
    is_whole: bool,
}

impl Host<'_> {
    /// What surrounds the label only matters once the label has the shape of an address.
    fn reading<'a>(&self, form: Form, label: Label<'a>) -> Result<Reading<'a>, Part> {
        let Label { id, port, signature } = label;
        if !self.sound {
            return Err(Part::Host);
        }
        if !is_valid_id(id) {
            return Err(Part::Id);
        }
        Ok(Reading { form, id, port: parse_port(port)?, signature })
    }
}

fn split<'a>(value: Option<&'a [u8]>, domains: &[String]) -> Result<Host<'a>, Absence> {
    let value = value.filter(|value| !value.is_empty()).ok_or(Absence::NoHost)?;
    if value.first() == Some(&b'[') {
        return Err(Absence::Ipv6Host);
    }
    let (name, sound) = without_port(value);
    if domains.is_empty() {
        return match super::split_once(name, b'.') {
            Some((label, domain)) if !domain.is_empty() => {
                Ok(Host { label, sound: sound && is_domain(domain), is_whole: false })
            }
            None if !name.is_empty() => Ok(Host { label: name, sound, is_whole: true }),
            _ => Err(Absence::NoDomain),
        };
    }
    let label = under(name, domains).ok_or(Absence::ForeignDomain)?;
    Ok(Host { label, sound, is_whole: false })
}

/// A host without its port and one trailing dot, and whether the port is one.
pub(crate) fn without_port(host: &[u8]) -> (&[u8], bool) {
    let (name, sound) = match super::split_once(host, b':') {
        Some((name, port)) => (name, port.is_empty() || port.len() <= 5 && is_digits(port)),
        None => (host, true),
    };
    (name.strip_suffix(b".").unwrap_or(name), sound)
}

/// What stands before one of the domains and its dot. The domains are lower case, longest first.
pub(crate) fn under<'a>(name: &'a [u8], domains: &[String]) -> Option<&'a [u8]> {
    domains.iter().find_map(|domain| {
        let (front, tail) = name.split_at_checked(name.len().checked_sub(domain.len())?)?;
        let label = front.strip_suffix(b".")?;
        tail.eq_ignore_ascii_case(domain.as_bytes()).then_some(label)
    })
}

/// Labels with dots between them, none of them empty. An ID may have the same characters.
fn is_domain(domain: &[u8]) -> bool {
    is_valid_id(domain)
        && domain.first() != Some(&b'.')
        && domain.last() != Some(&b'.')
        && !domain.windows(2).any(|pair| pair == b"..")
}
