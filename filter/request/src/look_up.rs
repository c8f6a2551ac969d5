//! The route that an address names.
//!
//! The ID is looked up as it is; one that came from a host in lower case first. Where nobody has it, the
//! dialect of OpenSandbox goes on with names: its own gateway also serves objects of agent-sandbox, whose
//! IDs in the table are `{namespace}--{name}`, and finds them by names that its server makes of an ID. Those
//! are tried in its order, each in all the namespaces of `agent-sandbox-namespaces`:
//! 1. the ID as a DNS label: in lower case, with one dash for whatever a label cannot have, without dashes
//!    at the ends, and behind `sandbox-` where it does not begin with a letter. What is too long ends with
//!    a hash of the ID instead of its rest;
//! 2. the ID itself;
//! 3. the ID behind `sandbox-`, the way of older servers.

#[cfg(test)]
mod tests;

use ring::digest::{SHA256, digest};
use sandgate_routes::{MAX_ID, Pinned, Route};

use crate::{Address, Dialect, FilterConfig, Refusal};

const SEPARATOR: &[u8] = b"--";
const PREFIX: &[u8] = b"sandbox-";
/// The longest DNS label.
const MAX_LABEL: usize = 63;

/// The route that an address names. Never allocates, never panics.
///
/// # Errors
/// [`Refusal::Unknown`] where the table has none, or another object than the one that is named;
/// [`Refusal::Ambiguous`] where several objects have the ID or the name.
#[inline]
pub fn look_up<'t>(
    address: &Address,
    table: &'t Pinned<'_>,
    config: &FilterConfig,
) -> Result<&'t Route, Refusal> {
    match by_id(address, table) {
        // It stands for several objects and is not compared with the one that was named.
        Some(route) if route.is_ambiguous() => Err(Refusal::Ambiguous),
        Some(route) if is_named(address, route) => Ok(route),
        Some(_) => Err(Refusal::Unknown),
        None if names_objects(address, config) => by_name(address, table, config),
        None => Err(Refusal::Unknown),
    }
}

/// Whether the table has what the address names. An ID that several objects claim may stand for it.
pub(crate) fn is_known(address: &Address, table: &Pinned<'_>, config: &FilterConfig) -> bool {
    matches!(look_up(address, table, config), Ok(_) | Err(Refusal::Ambiguous))
}

/// Every ID that [`look_up`] may ask the table for, for those who fetch routes beforehand. It allocates.
pub fn lookup_ids(address: &Address, config: &FilterConfig) -> Vec<String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut ids: Vec<String> = Vec::new();
    ids.extend(address.with_folded_id(|id| Some(text(id))));
    ids.push(address.id().to_owned());
    if names_objects(address, config) {
        for name in names(address.id_bytes()) {
            let namespaces = config.opensandbox.agent_sandbox_namespaces.iter();
            ids.extend(namespaces.filter_map(|namespace| Some(text(id_of(namespace, &name)?.bytes()))));
        }
    }
    ids
}

/// Whether it is the object that the address names, where it names one.
fn is_named(address: &Address, route: &Route) -> bool {
    address.object().is_none_or(|object| object == (route.key().namespace(), route.key().name()))
}

/// The route of the ID. One that came from a host is meant in lower case, whatever case it was sent in: only
/// where nobody has that ID it is looked up as it was sent. Otherwise whoever took the ID in another case
/// would get the requests of clients that do not write hosts in lower case.
fn by_id<'t>(address: &Address, table: &'t Pinned<'_>) -> Option<&'t Route> {
    address.with_folded_id(|id| table.get_bytes(id)).or_else(|| table.get_bytes(address.id_bytes()))
}

fn names_objects(address: &Address, config: &FilterConfig) -> bool {
    !config.opensandbox.agent_sandbox_namespaces.is_empty() && address.dialect() == Dialect::OpenSandbox
}

/// The object of agent-sandbox with the first name that one has. A second namespace with that name makes it
/// ambiguous.
#[cold]
fn by_name<'t>(
    address: &Address,
    table: &'t Pinned<'_>,
    config: &FilterConfig,
) -> Result<&'t Route, Refusal> {
    for name in names(address.id_bytes()) {
        let mut found = None;
        for namespace in &config.opensandbox.agent_sandbox_namespaces {
            let Some(id) = id_of(namespace, &name) else { continue };
            let Some(route) = table.get_bytes(id.bytes()) else { continue };
            let key = route.key();
            let is_it = key.namespace() == namespace && key.name().as_bytes() == name.bytes();
            if route.is_ambiguous() || (is_it && found.is_some()) {
                return Err(Refusal::Ambiguous);
            }
            if is_it {
                found = Some(route);
            }
        }
        if let Some(route) = found {
            return Ok(route);
        }
    }
    Err(Refusal::Unknown)
}

/// A name or an ID that is put together without an allocation.
struct Text {
    bytes: [u8; MAX_ID],
    len: usize,
}

impl Text {
    /// The parts, one behind the other, if there is room for them.
    fn of(parts: &[&[u8]]) -> Option<Self> {
        let mut text = Self { bytes: [0; MAX_ID], len: 0 };
        for part in parts {
            let end = text.len + part.len();
            text.bytes.get_mut(text.len..end)?.copy_from_slice(part);
            text.len = end;
        }
        Some(text)
    }

    /// The ID as a DNS label.
    fn label(id: &[u8]) -> Option<Self> {
        let mut label = Self::of(&[])?;
        for byte in id.iter().map(u8::to_ascii_lowercase) {
            let byte = if byte.is_ascii_lowercase() || byte.is_ascii_digit() { byte } else { b'-' };
            if byte != b'-' || !matches!(label.bytes().last(), None | Some(b'-')) {
                *label.bytes.get_mut(label.len)? = byte;
                label.len += 1;
            }
        }
        let label = match trim_dash(label.bytes()) {
            [] => return Self::of(&[PREFIX, &hash(id)]),
            label @ [b'a'..=b'z', ..] => Self::of(&[label])?,
            label => Self::of(&[PREFIX, label])?,
        };
        if label.len <= MAX_LABEL {
            return Some(label);
        }
        let hash = hash(id);
        let base = label.bytes().get(..MAX_LABEL - hash.len() - 1)?;
        Self::of(&[trim_dash(base), b"-", &hash])
    }

    fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

fn trim_dash(label: &[u8]) -> &[u8] {
    label.strip_suffix(b"-").unwrap_or(label)
}

/// The first eight hexadecimal digits of the hash of an ID.
fn hash(id: &[u8]) -> [u8; 8] {
    let digest = digest(&SHA256, id);
    let digit = |at: usize| {
        let byte = digest.as_ref().get(at / 2).copied().unwrap_or_default();
        let half = if at.is_multiple_of(2) { byte >> 4 } else { byte & 15 };
        b"0123456789abcdef".get(usize::from(half)).copied().unwrap_or_default()
    };
    std::array::from_fn(digit)
}

/// The names that an object may have whose ID in OpenSandbox is this one, in the order they are tried.
fn names(id: &[u8]) -> impl Iterator<Item = Text> {
    let label = Text::label(id);
    let is_label = |name: &Text| label.as_ref().is_some_and(|label| label.bytes() == name.bytes());
    let itself = Text::of(&[id]).filter(|name| !is_label(name));
    let behind_prefix = if id.starts_with(PREFIX) { None } else { Text::of(&[PREFIX, id]) };
    let behind_prefix = behind_prefix.filter(|name| !is_label(name));
    [label, itself, behind_prefix].into_iter().flatten()
}

/// The ID of an object in the table.
fn id_of(namespace: &str, name: &Text) -> Option<Text> {
    Text::of(&[namespace.as_bytes(), SEPARATOR, name.bytes()])
}
