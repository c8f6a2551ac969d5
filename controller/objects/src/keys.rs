//! API keys, and the Secret that keeps one.
//!
//! A key is `e2b_` and 40 hexadecimal digits, 160 random bits. Nobody keeps it: a Secret has its SHA-256.
//! That is enough, without a salt or a slow hash, because there is nothing to guess in a random key.
//!
//! # The Secret
//! One for each key, in the system namespace, named `sandgate-key-` and the key's ID, a UUID, with the label
//! `sandgate.dev/kind: api-key` and the type `sandgate.dev/api-key`. Its data:
//!
//! | key | value |
//! |---|---|
//! | `hash` | the SHA-256 of the key, in hexadecimal |
//! | `meta` | JSON: a [`KeyMeta`] |
//! | `previous` | JSON: a list of `{hash, until}`, the keys before a rotation that are good for a while |
//!
//! The annotation `sandgate.dev/last-used` has the last use, to some minutes. To revoke a key is to delete
//! its Secret. The ID is the owner of what the key makes, and stays the same when the key is rotated.
//!
//! The command writes Secrets and the manager reads them. Both do it by this module, which does no I/O.

mod digest;
mod openkruise;
mod quota;
#[cfg(test)]
mod tests;
mod text;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use digest::Digest;
pub use openkruise::{ADMIN_TEAM, KEY_STORE, read_entry, sdk_form, unwrap_sdk_form};
pub use quota::{Dimension, Limit, Quota, QuotaError, Scope};
pub use text::{KeyText, RandomError, new_id};

/// The label of every Secret with a key.
pub const KIND_LABEL: &str = "sandgate.dev/kind";
/// The value of [`KIND_LABEL`].
pub const KIND: &str = "api-key";
/// Selects the Secrets with keys.
pub const SELECTOR: &str = "sandgate.dev/kind=api-key";
/// The type of every Secret with a key.
pub const SECRET_TYPE: &str = "sandgate.dev/api-key";
/// The annotation with the last use of a key, in RFC 3339.
pub const LAST_USED: &str = "sandgate.dev/last-used";
/// The namespace of the Secrets, where nobody says another.
pub const SYSTEM_NAMESPACE: &str = "sandgate-system";

const NAME_PREFIX: &str = "sandgate-key-";
/// No name of a key, a team or a namespace is longer.
const MAX_NAME: usize = 63;

/// A key, as a Secret keeps it. Nobody can make the key of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredKey {
    /// What there is to say about it.
    pub meta: KeyMeta,
    /// The hash of the key.
    pub digest: Digest,
    /// The keys before it, as long as they are good.
    pub previous: Vec<PreviousKey>,
}

/// What there is to say about a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyMeta {
    /// Its ID, a UUID: the owner of what it makes.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// The team that it belongs to.
    #[serde(default = "default_team")]
    pub team: String,
    /// The namespace that it works in; none is all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The beginning and the end of the key, to know it again.
    #[serde(default)]
    pub mask: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// Who made it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub created_by: String,
    /// When it ends; none is never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// What it may use at most.
    #[serde(default, skip_serializing_if = "Quota::is_empty")]
    pub quota: Quota,
}

/// A key that was rotated away.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreviousKey {
    /// Its hash.
    #[serde(rename = "hash")]
    pub digest: Digest,
    /// When it ends.
    pub until: Timestamp,
}

/// Why a Secret is no key. It takes itself out; the other keys are good.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The name of the Secret says no ID.
    #[error("the name is not {NAME_PREFIX} and an ID")]
    Name,
    /// An entry of its data is missing or wrong.
    #[error("{entry}: {reason}")]
    Data {
        /// The entry.
        entry: &'static str,
        /// What is wrong with it. It quotes no value.
        reason: String,
    },
}

impl KeyError {
    fn data(entry: &'static str, reason: impl Into<String>) -> Self {
        Self::Data { entry, reason: reason.into() }
    }
}

fn default_team() -> String {
    "default".to_owned()
}

/// The name of the Secret of the key with this ID.
pub fn secret_name(id: &str) -> String {
    format!("{NAME_PREFIX}{id}")
}

/// Whether a team or a key can have this name: up to 63 letters, digits and `-_.@/`, with spaces within.
pub fn is_name(text: &str) -> bool {
    let inner = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | ' ' | '@' | '/');
    text.len() <= MAX_NAME && text.trim() == text && !text.is_empty() && text.chars().all(inner)
}

impl StoredKey {
    /// Reads the Secret of this name. `data` gives the value of an entry, without base64.
    ///
    /// # Errors
    /// See [`KeyError`].
    pub fn read<'a>(name: &str, data: impl Fn(&str) -> Option<&'a [u8]>) -> Result<Self, KeyError> {
        let id = name.strip_prefix(NAME_PREFIX).filter(|id| !id.is_empty()).ok_or(KeyError::Name)?;
        let get = |entry: &'static str| data(entry).ok_or_else(|| KeyError::data(entry, "missing"));
        let hash = str::from_utf8(get("hash")?).ok().and_then(|text| text.trim().parse().ok());
        let digest = hash.ok_or_else(|| KeyError::data("hash", "expected a SHA-256 in hexadecimal"))?;
        let meta: KeyMeta = json("meta", get("meta")?)?;
        // Two Secrets with one ID would be one owner, and to revoke one would not revoke the other.
        if meta.id != id {
            return Err(KeyError::data("meta", "the ID is not that of the name"));
        }
        meta.quota.check().map_err(|error| KeyError::data("meta", error.to_string()))?;
        let previous = data("previous").map(|text| json("previous", text)).transpose()?.unwrap_or_default();
        Ok(Self { meta, digest, previous })
    }

    /// The data of the Secret, without base64.
    pub fn data(&self) -> BTreeMap<String, Vec<u8>> {
        let json = |value: serde_json::Result<Vec<u8>>| value.unwrap_or_default();
        let mut data = BTreeMap::from([
            ("hash".to_owned(), self.digest.to_string().into_bytes()),
            ("meta".to_owned(), json(serde_json::to_vec(&self.meta))),
        ]);
        if !self.previous.is_empty() {
            data.insert("previous".to_owned(), json(serde_json::to_vec(&self.previous)));
        }
        data
    }

    /// Another key takes the place of this one, which stays good for `overlap`. What was rotated away before
    /// keeps its own end.
    pub fn rotate(&mut self, text: &KeyText, now: Timestamp, overlap: Duration) {
        self.previous.retain(|previous| previous.until > now);
        let until = now.checked_add(overlap).unwrap_or(Timestamp::MAX);
        if until > now {
            self.previous.push(PreviousKey { digest: self.digest, until });
        }
        self.digest = text.digest();
        self.meta.mask = text.mask();
    }

    /// Every hash that opens it, each with its end; none is never.
    pub fn digests(&self) -> impl Iterator<Item = (Digest, Option<Timestamp>)> + '_ {
        let end = self.meta.expires_at;
        let previous = self.previous.iter().map(move |previous| {
            (previous.digest, Some(end.map_or(previous.until, |end| end.min(previous.until))))
        });
        [(self.digest, end)].into_iter().chain(previous)
    }
}

fn json<T: for<'a> Deserialize<'a>>(entry: &'static str, text: &[u8]) -> Result<T, KeyError> {
    // serde_json quotes values of a wrong type; here they are names and times, never a key.
    serde_json::from_slice(text).map_err(|error| KeyError::data(entry, error.to_string()))
}
