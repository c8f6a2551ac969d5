//! From decoded fields to an observation: the limits of everything an object may bring, checked in one place.

use std::net::{IpAddr, Ipv6Addr};
use std::time::SystemTime;

use sandgate_routes::{
    Clash, KeyError, MAX_ID, MAX_OWNER, MAX_TOKEN, MAX_UID, ObjectKey, Observation, Secret, State, Version,
    is_valid_id,
};
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::decode::{Keep, Text, object};
use crate::provider::{Projection, Unreadable};

/// Where OpenSandbox puts the token of its secure access, on the objects of either provider that it works with.
pub(crate) const SECURE_ACCESS: &str = r#"metadata.annotations["opensandbox.io/secure-access-token"]"#;

/// An address that is said and is none of one machine, on its way from [`address`] to [`Head::projection`]: the object is
/// known and not routed to, as it is when its address is outside the pod ranges.
const NOWHERE: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);

/// Longest date-time: far more than RFC 3339 needs.
const MAX_TIME: usize = 64;

/// An object's metadata: what every provider needs, and of labels, annotations and owners what this one asks for.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Metadata<'a, L = IgnoredAny, A = IgnoredAny, O = IgnoredAny> {
    #[serde(borrow)]
    name: Option<Text<'a>>,
    #[serde(borrow)]
    namespace: Option<Text<'a>>,
    #[serde(borrow)]
    uid: Option<Text<'a>>,
    #[serde(borrow)]
    resource_version: Option<Text<'a>>,
    #[serde(borrow)]
    creation_timestamp: Option<Text<'a>>,
    #[serde(borrow)]
    deletion_timestamp: Option<Text<'a>>,
    #[serde(deserialize_with = "object", bound(deserialize = "L: Default + Deserialize<'de>"))]
    pub(crate) labels: L,
    #[serde(deserialize_with = "object", bound(deserialize = "A: Default + Deserialize<'de>"))]
    pub(crate) annotations: A,
    pub(crate) owner_references: O,
}

impl<L, A, O> Metadata<'_, L, A, O> {
    pub(crate) fn head(&self) -> Result<Head<'_>, Unreadable> {
        let namespace = self.namespace.as_deref().filter(|text| !text.is_empty());
        Head {
            namespace: namespace.ok_or_else(|| Unreadable::new("metadata.namespace", "missing"))?,
            name: self.name.as_deref().unwrap_or_default(),
            uid: self.uid.as_deref().unwrap_or_default(),
            version: self.resource_version.as_deref().unwrap_or_default(),
            created: created(self.creation_timestamp.as_deref())?,
            deleting: self.deletion_timestamp.is_some(),
        }
        .checked()
    }
}

/// Which object it is and when it was so.
#[derive(Clone, Copy)]
pub(crate) struct Head<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) uid: &'a str,
    pub(crate) version: &'a str,
    /// When it was made, in seconds since 1970.
    pub(crate) created: Option<u64>,
    /// Whether it is being deleted.
    pub(crate) deleting: bool,
}

/// What a provider makes of an object, besides its head.
pub(crate) struct Findings {
    pub(crate) id: String,
    /// Whether the ID comes from the object's own name.
    pub(crate) own_id: bool,
    pub(crate) owner: String,
    pub(crate) state: State,
    pub(crate) ip: Option<IpAddr>,
    /// Whether the address is the word of the object's owner.
    pub(crate) ip_is_claimed: bool,
    pub(crate) token: Option<Secret>,
    pub(crate) require_traffic_auth: bool,
    /// What becomes of an ID that two objects claim.
    pub(crate) clash: Clash,
    /// When it ends by itself, whether that is past or to come.
    pub(crate) ends: Option<SystemTime>,
}

impl Head<'_> {
    pub(crate) fn checked(self) -> Result<Self, Unreadable> {
        if self.uid.is_empty() || self.uid.len() > MAX_UID || has_control(self.uid) {
            let reason = format!("expected 1 to {MAX_UID} bytes without control characters");
            return Err(Unreadable::new("metadata.uid", reason));
        }
        Ok(self)
    }

    /// `namespace--name`; the name alone for an object that has no namespace.
    pub(crate) fn default_id(self) -> Result<String, Unreadable> {
        let id = match self.namespace {
            "" => self.name.to_owned(),
            namespace => format!("{namespace}--{}", self.name),
        };
        if is_valid_id(id.as_bytes()) {
            return Ok(id);
        }
        let reason =
            format!("with its namespace it is no ID: 1 to {MAX_ID} of A-Z, a-z, 0-9, '.', '_' and '-'");
        Err(Unreadable::new("metadata.name", reason))
    }

    /// Whether a label says no more than the name does.
    pub(crate) fn has_own_id(self, id: &str) -> bool {
        self.default_id().is_ok_and(|own| own == id)
    }

    pub(crate) fn projection(
        self,
        provider: &str,
        mut findings: Findings,
        now: SystemTime,
    ) -> Result<Projection, Unreadable> {
        let is_nowhere = findings.ip.take_if(|ip| *ip == NOWHERE).is_some();
        let key = ObjectKey::new(provider, self.namespace, self.name).map_err(|error| {
            let path = match error {
                KeyError::Namespace => "metadata.namespace",
                KeyError::Name | KeyError::Provider => "metadata.name",
            };
            Unreadable::new(path, error.to_string())
        })?;
        let version: Version = self.version.parse().map_err(|error: sandgate_routes::VersionError| {
            Unreadable::new("metadata.resourceVersion", error.to_string())
        })?;
        let state = match (findings.state, findings.ip) {
            (State::Running, None) => State::Creating,
            (state, _) => state,
        };
        let dead_at = findings.ends.filter(|ends| state != State::Dead && *ends >= now);
        Ok(Projection {
            observation: Observation {
                key,
                id: findings.id,
                own_id: findings.own_id,
                uid: self.uid.to_owned(),
                owner: findings.owner,
                state,
                version,
                ip: findings.ip,
                token: findings.token,
                require_traffic_auth: findings.require_traffic_auth,
                clash: findings.clash,
                created: self.created,
                ip_is_claimed: findings.ip_is_claimed,
            },
            is_nowhere,
            dead_at,
        })
    }
}

fn has_control(text: &str) -> bool {
    text.chars().any(char::is_control)
}

/// A lookup ID; nothing if the text is empty.
pub(crate) fn id(path: &str, text: Option<&str>) -> Result<Option<String>, Unreadable> {
    match text {
        None | Some("") => Ok(None),
        Some(text) if is_valid_id(text.as_bytes()) => Ok(Some(text.to_owned())),
        Some(_) => {
            let reason = format!("expected an ID: 1 to {MAX_ID} of A-Z, a-z, 0-9, '.', '_' and '-'");
            Err(Unreadable::new(path, reason))
        }
    }
}

/// An access token; nothing if the text is empty.
pub(crate) fn token(path: &str, text: Option<&str>) -> Result<Option<Secret>, Unreadable> {
    match text {
        None | Some("") => Ok(None),
        Some(text) if text.len() <= MAX_TOKEN => Ok(Some(Secret::new(text))),
        Some(_) => Err(Unreadable::new(path, format!("expected at most {MAX_TOKEN} bytes"))),
    }
}

/// A token of OpenSandbox's secure access, without white space at either end, as OpenSandbox reads it. Nothing if no more
/// is left: such a sandbox is not closed.
pub(crate) fn secure_access(path: &str, text: Option<&str>) -> Result<Option<Secret>, Unreadable> {
    match text.map_or("", str::trim) {
        "" => Ok(None),
        text if text.len() <= MAX_TOKEN => Ok(Some(Secret::secure_access(text))),
        _ => Err(Unreadable::new(path, format!("expected at most {MAX_TOKEN} bytes"))),
    }
}

/// An owner, which may be empty.
pub(crate) fn owner(path: &str, text: Option<&str>) -> Result<String, Unreadable> {
    let text = text.unwrap_or_default();
    if text.len() > MAX_OWNER || has_control(text) {
        let reason = format!("expected at most {MAX_OWNER} bytes without control characters");
        return Err(Unreadable::new(path, reason));
    }
    Ok(text.to_owned())
}

/// The address of one machine; nothing if the text is empty. A text that is none becomes [`NOWHERE`].
#[expect(clippy::unnecessary_wraps, reason = "every field is read by a function of this shape")]
pub(crate) fn address(_path: &str, text: Option<&str>) -> Result<Option<IpAddr>, Unreadable> {
    let read = |text: &str| {
        let ip = text.parse::<IpAddr>().ok();
        ip.filter(|ip| !ip.is_unspecified() && !ip.is_multicast()).unwrap_or(NOWHERE)
    };
    Ok(text.filter(|text| !text.is_empty()).map(read))
}

/// A date-time of RFC 3339; nothing if the text is empty.
pub(crate) fn time(path: &str, text: Option<&str>) -> Result<Option<SystemTime>, Unreadable> {
    match text {
        None | Some("") => Ok(None),
        Some(text) if text.len() <= MAX_TIME => match text.parse::<jiff::Timestamp>() {
            Ok(time) => Ok(Some(time.into())),
            Err(_) => Err(Unreadable::new(path, "expected a date-time as in RFC 3339")),
        },
        Some(_) => Err(Unreadable::new(path, "expected a date-time as in RFC 3339")),
    }
}

/// What `metadata.creationTimestamp` says, in seconds since 1970: it ranks the objects that claim one ID.
pub(crate) fn created(text: Option<&str>) -> Result<Option<u64>, Unreadable> {
    let time = time("metadata.creationTimestamp", text)?;
    Ok(time.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok()).map(|since| since.as_secs()))
}

/// Whether an object that ends at a time has ended.
pub(crate) fn is_past(ends: Option<SystemTime>, now: SystemTime) -> bool {
    ends.is_some_and(|ends| now > ends)
}

/// A condition of a status.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Condition<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Text<'a>>,
    #[serde(borrow)]
    status: Option<Text<'a>>,
    #[serde(borrow)]
    reason: Option<Text<'a>>,
}

impl Keep for Condition<'_> {
    /// The only ones any provider asks for.
    fn keep(&self) -> bool {
        matches!(self.kind.as_deref(), Some("Ready" | "Finished"))
    }
}

/// Whether the condition of that kind is there and true.
pub(crate) fn is_true(conditions: &[Condition<'_>], kind: &str) -> bool {
    find(conditions, kind).is_some_and(|condition| condition.status.as_deref() == Some("True"))
}

/// Why the condition of that kind is as it is.
pub(crate) fn reason_of<'a>(conditions: &'a [Condition<'_>], kind: &str) -> &'a str {
    find(conditions, kind).and_then(|condition| condition.reason.as_deref()).unwrap_or_default()
}

fn find<'a, 'b>(conditions: &'a [Condition<'b>], kind: &str) -> Option<&'a Condition<'b>> {
    conditions.iter().find(|condition| condition.kind.as_deref() == Some(kind))
}
