//! The label of a host that may name a sandbox.
//!
//! A port and one trailing dot are dropped first. With base domains configured, the host must lie under one of them (in
//! any case, the longest wins) and all that stands before it is the label, dots included, since object names may have
//! dots. With none configured, the label ends at the first dot and some domain must follow it; `localhost` will do.

use sandgate_routes::is_valid_id;

use super::{Absence, is_digits};
use crate::Part;

#[derive(Debug)]
pub(crate) struct Host<'a> {
    pub(crate) label: &'a [u8],
    sound: bool,
}

impl Host<'_> {
    /// What surrounds the label only matters once the label has the shape of an address.
    pub(crate) fn checked(&self) -> Result<(), Part> {
        if self.sound { Ok(()) } else { Err(Part::Host) }
    }
}

pub(crate) fn split<'a>(value: Option<&'a [u8]>, domains: &[String]) -> Result<Host<'a>, Absence> {
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
