//! OpenKruise's keys: the form in which its users give them to E2B's SDK, and the Secret that has them.
//!
//! OpenKruise keeps keys in plain text, all of them in one Secret. They are read for those who change from it
//! to Sandgate, are hashed at once, and keep their IDs, so that their sandboxes stay theirs.

use jiff::Timestamp;
use serde::Deserialize;

use super::digest::{hex, unhex};
use super::text::mask;
use super::{Digest, KeyError, KeyMeta, Quota, StoredKey};

/// The name of OpenKruise's Secret.
pub const KEY_STORE: &str = "e2b-key-store";
/// The team whose keys work in all namespaces. Another team's keys work in the namespace of its name.
pub const ADMIN_TEAM: &str = "admin";

const PREFIX: &str = "e2b_";
/// `okag` and the number of the form.
const MAGIC: &str = "6f6b616701";
const LENGTH_DIGITS: usize = 8;
const CHECKSUM_BYTES: usize = 8;
const CHECKSUM_CONTEXT: &[u8] = b"openkruise-agents/e2b-key-compat/v1";

/// The key within a text of the form that E2B's SDK accepts; nothing if it has another form, or a wrong
/// checksum.
pub fn unwrap_sdk_form(text: &str) -> Option<String> {
    let rest = text.strip_prefix(PREFIX)?.strip_prefix(MAGIC)?;
    let (length, rest) = rest.split_at_checked(LENGTH_DIGITS)?;
    let length = usize::try_from(u32::from_str_radix(length, 16).ok()?).ok()?;
    let bytes = unhex(rest)?;
    let (raw, sum) = bytes.split_at_checked(length)?;
    (sum == checksum(raw)).then(|| String::from_utf8(raw.to_vec()).ok()).flatten()
}

/// The form of a key that E2B's SDK accepts.
pub fn sdk_form(raw: &str) -> String {
    let sum = checksum(raw.as_bytes());
    format!("{PREFIX}{MAGIC}{:08x}{}{}", raw.len(), hex(raw.as_bytes()), hex(&sum))
}

fn checksum(raw: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let mut sum = [0; CHECKSUM_BYTES];
    let digest = ring::digest::digest(&ring::digest::SHA256, &[CHECKSUM_CONTEXT, raw].concat());
    sum.copy_from_slice(&digest.as_ref()[..CHECKSUM_BYTES]);
    sum
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    #[serde(default)]
    id: String,
    key: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    created_at: Option<Timestamp>,
    #[serde(default)]
    team: Option<Team>,
    #[serde(default)]
    quota: Option<Quota>,
}

#[derive(Deserialize)]
struct Team {
    #[serde(default)]
    name: String,
}

/// Reads one entry of OpenKruise's Secret: its name, which is the key's ID, and its JSON.
///
/// # Errors
/// If it is no key. No text has the key.
pub fn read_entry(id: &str, json: &[u8]) -> Result<StoredKey, KeyError> {
    // The text of the error could quote the key, so only the place is said.
    let entry: Entry = serde_json::from_slice(json)
        .map_err(|error| KeyError::data("entry", format!("no key at column {}", error.column())))?;
    if entry.key.is_empty() {
        return Err(KeyError::data("entry", "the key is empty"));
    }
    let quota = entry.quota.unwrap_or_default();
    quota.check().map_err(|error| KeyError::data("entry", error.to_string()))?;
    let team = entry.team.map(|team| team.name).filter(|name| !name.is_empty());
    let team = team.unwrap_or_else(|| ADMIN_TEAM.to_owned());
    let namespace = (team != ADMIN_TEAM).then(|| team.clone());
    let meta = KeyMeta {
        id: if entry.id.is_empty() { id.to_owned() } else { entry.id },
        name: entry.name,
        team,
        namespace,
        mask: mask(&entry.key),
        created_at: entry.created_at.unwrap_or(Timestamp::UNIX_EPOCH),
        created_by: "OpenKruise".to_owned(),
        expires_at: None,
        quota,
    };
    Ok(StoredKey { meta, digest: Digest::of(entry.key.as_bytes()), previous: Vec::new() })
}
