//! The label of a host that may name a sandbox.
//!
//! A port and one trailing dot are dropped first. With base domains configured, the host must lie under one
//! of them (in any case, the longest wins) and all that stands before it is the label, dots included, since
//! object names may have dots. With none configured, the label ends at the first dot and some domain must
//! follow it; `localhost` will do.
//!
//! A label may fit both host forms: `80-web-3000`, or a UUID that begins with digits and has a port behind
//! it. A reading with a part that cannot be (port 12345678) is none while the other one is good. Of two good
//! ones the table decides.

use sandgate_routes::is_valid_id;

use super::{Absence, Attempt, forms, is_digits, parse_port};
use crate::{Address, FilterConfig, Form, Part};

/// One valid way to read a label.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading<'a> {
    pub(crate) form: Form,
    pub(crate) id: &'a [u8],
    pub(crate) port: u16,
}

/// How a form splits a label into ID and port.
type Split<'a> = fn(&'a [u8]) -> Option<(&'a [u8], &'a [u8])>;

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
                Some((id, port)) => host.reading(form, id, port).map_err(NoReading::Malformed),
                None => none(Absence::PlainLabel),
            }
        };
        let id_first = |label| forms::port_and_id(label).map(|(port, id)| (id, port));
        Self {
            label: host.label,
            kruise: read(Form::KruiseHost, config.kruise.host, id_first),
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
}

impl Host<'_> {
    /// What surrounds the label only matters once the label has the shape of an address.
    fn reading<'a>(&self, form: Form, id: &'a [u8], port: &[u8]) -> Result<Reading<'a>, Part> {
        if !self.sound {
            return Err(Part::Host);
        }
        if !is_valid_id(id) {
            return Err(Part::Id);
        }
        Ok(Reading { form, id, port: parse_port(port)? })
    }
}

fn split<'a>(value: Option<&'a [u8]>, domains: &[String]) -> Result<Host<'a>, Absence> {
    let value = value.filter(|value| !value.is_empty()).ok_or(Absence::NoHost)?;
    if value.first() == Some(&b'[') {
        return Err(Absence::Ipv6Host);
    }
    let (name, port_sound) = match super::split_once(value, b':') {
        Some((name, port)) => (name, port.is_empty() || port.len() <= 5 && is_digits(port)),
        None => (value, true),
    };
    let name = name.strip_suffix(b".").unwrap_or(name);
    if domains.is_empty() {
        return match super::split_once(name, b'.') {
            Some((label, domain)) if !domain.is_empty() => {
                Ok(Host { label, sound: port_sound && is_domain(domain) })
            }
            _ => Err(Absence::NoDomain),
        };
    }
    let label = under(name, domains).ok_or(Absence::ForeignDomain)?;
    Ok(Host { label, sound: port_sound })
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
