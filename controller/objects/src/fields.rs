//! The texts of an object, checked: the limits of everything that an object may bring.
//!
//! Each function gets the place of the field, which an error names, and the text. An empty text is the same
//! as none.

use std::fmt;
use std::net::IpAddr;
use std::time::SystemTime;

use sandgate_routes::{MAX_ID, MAX_OWNER, MAX_TOKEN, Secret, is_valid_id};

use crate::provider::Unreadable;

/// The annotation with OpenSandbox's token for secure access, on the objects of every kind that OpenSandbox
/// works with.
pub const SECURE_ACCESS_TOKEN: &str = "opensandbox.io/secure-access-token";

/// The annotation with the token that the clients of a sandbox must present on every port but that of its
/// runtime, on the objects of every built-in kind.
pub const TRAFFIC_ACCESS_TOKEN: &str = "sandgate.dev/traffic-access-token";

/// Longest date-time: far more than RFC 3339 needs.
const MAX_TIME: usize = 64;

/// Where a field is in an object.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place<'a> {
    Path(&'a str),
    Label(&'a str),
    Annotation(&'a str),
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => f.write_str(path),
            Self::Label(key) => write!(f, "metadata.labels[{key:?}]"),
            Self::Annotation(key) => write!(f, "metadata.annotations[{key:?}]"),
        }
    }
}

impl Place<'_> {
    pub(crate) fn wrong(self, reason: impl Into<String>) -> Unreadable {
        Unreadable::new(self.to_string(), reason)
    }
}

/// Where a sandbox can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Address {
    /// The object has no address.
    Missing,
    /// The object has an address that is not the address of one machine. It is known and not routed to.
    Nowhere,
    /// The address of one machine.
    At(IpAddr),
}

impl Address {
    /// Reads an address. Unspecified and multicast addresses are [`Nowhere`](Self::Nowhere).
    pub(crate) fn read(text: &str) -> Self {
        match text.parse::<IpAddr>() {
            _ if text.is_empty() => Self::Missing,
            Ok(ip) if !ip.is_unspecified() && !ip.is_multicast() => Self::At(ip),
            _ => Self::Nowhere,
        }
    }

    /// The address, if it is one.
    pub fn ip(self) -> Option<IpAddr> {
        match self {
            Self::At(ip) => Some(ip),
            Self::Missing | Self::Nowhere => None,
        }
    }
}

pub(crate) fn has_control(text: &str) -> bool {
    text.chars().any(char::is_control)
}

/// A lookup ID.
pub(crate) fn id<'a>(place: Place<'_>, text: &'a str) -> Result<Option<&'a str>, Unreadable> {
    match text {
        "" => Ok(None),
        text if is_valid_id(text.as_bytes()) => Ok(Some(text)),
        _ => Err(place.wrong(format!("expected an ID: 1 to {MAX_ID} of A-Z, a-z, 0-9, '.', '_' and '-'"))),
    }
}

/// An access token.
pub(crate) fn token(place: Place<'_>, text: &str) -> Result<Option<Secret>, Unreadable> {
    bounded_token(place, text).map(|text| text.map(Secret::new))
}

/// A token of OpenSandbox's secure access. OpenSandbox trims white space; a token of white space alone is
/// none.
pub(crate) fn secure_access(place: Place<'_>, text: &str) -> Result<Option<Secret>, Unreadable> {
    bounded_token(place, text.trim()).map(|text| text.map(Secret::secure_access))
}

/// A traffic token. White space is no part of it: no header could carry it.
pub(crate) fn traffic_token(place: Place<'_>, text: &str) -> Result<Option<Secret>, Unreadable> {
    token(place, text.trim())
}

/// The traffic token of [`TRAFFIC_ACCESS_TOKEN`].
pub(crate) fn annotated_traffic_token(text: &str) -> Result<Option<Secret>, Unreadable> {
    traffic_token(Place::Annotation(TRAFFIC_ACCESS_TOKEN), text)
}

fn bounded_token<'a>(place: Place<'_>, text: &'a str) -> Result<Option<&'a str>, Unreadable> {
    if text.len() > MAX_TOKEN {
        return Err(place.wrong(format!("expected at most {MAX_TOKEN} bytes")));
    }
    Ok(Some(text).filter(|text| !text.is_empty()))
}

/// An owner, which may be empty.
pub(crate) fn owner<'a>(place: Place<'_>, text: &'a str) -> Result<&'a str, Unreadable> {
    if text.len() > MAX_OWNER || has_control(text) {
        return Err(place.wrong(format!("expected at most {MAX_OWNER} bytes without control characters")));
    }
    Ok(text)
}

/// A date-time of RFC 3339.
pub(crate) fn time(place: Place<'_>, text: &str) -> Result<Option<SystemTime>, Unreadable> {
    if text.is_empty() {
        return Ok(None);
    }
    let time = Some(text).filter(|text| text.len() <= MAX_TIME).and_then(|text| text.parse().ok());
    let wrong = || place.wrong("expected a date-time as in RFC 3339");
    time.map(|time: jiff::Timestamp| Some(time.into())).ok_or_else(wrong)
}

/// `metadata.creationTimestamp` in seconds since 1970. It ranks the objects that claim one ID.
pub(crate) fn created(text: Option<&str>) -> Result<Option<u64>, Unreadable> {
    let time = time(Place::Path("metadata.creationTimestamp"), text.unwrap_or_default())?;
    Ok(time.and_then(since_1970))
}

/// Whole seconds since 1970; none for a time before.
pub(crate) fn since_1970(time: SystemTime) -> Option<u64> {
    time.duration_since(SystemTime::UNIX_EPOCH).ok().map(|since| since.as_secs())
}
