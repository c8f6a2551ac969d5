//! What people and programs are told of keys.

use std::fmt::Write as _;

use jiff::Timestamp;
use sandgate_objects::keys::{KeyText, StoredKey};
use serde_json::{Value, json};

use super::Found;

/// A line about a key that was made.
pub(super) fn describe(key: &StoredKey) -> String {
    let meta = &key.meta;
    let place = meta.namespace.as_ref().map(|name| format!(", namespace {name}")).unwrap_or_default();
    let end = meta.expires_at.map(|end| format!(", until {}", short(end))).unwrap_or_default();
    let quota = if meta.quota.is_empty() { String::new() } else { format!(", quota {}", meta.quota) };
    format!(
        "the key {} ({}): team {}{place}{end}{quota}; it is not shown again",
        meta.id, meta.name, meta.team
    )
}

/// What may be known of a key.
pub(super) fn to_json(found: &Found) -> Value {
    let mut value = facts(&found.key);
    value["lastUsedAt"] = json!(found.last_used);
    value
}

fn facts(key: &StoredKey) -> Value {
    let mut value = serde_json::to_value(&key.meta).unwrap_or_default();
    let until: Vec<String> = key.previous.iter().map(|previous| previous.until.to_string()).collect();
    if !until.is_empty() {
        value["previousUntil"] = json!(until);
    }
    value
}

/// The same with the key itself.
pub(super) fn with_key(key: &StoredKey, text: &KeyText) -> Value {
    let mut value = facts(key);
    value["key"] = json!(text.reveal());
    value
}

pub(super) fn table(found: &[Found], now: Timestamp) -> String {
    let heads = ["ID", "NAME", "TEAM", "NAMESPACE", "KEY", "CREATED", "LAST USED", "EXPIRES", "QUOTA"];
    let mut rows = vec![heads.map(str::to_owned)];
    let dash = || "-".to_owned();
    rows.extend(found.iter().map(|Found { key, last_used, .. }| {
        let meta = &key.meta;
        let ended = |end: Timestamp| if end <= now { " (over)" } else { "" };
        [
            meta.id.clone(),
            meta.name.clone(),
            meta.team.clone(),
            meta.namespace.clone().unwrap_or_else(|| "(all)".to_owned()),
            meta.mask.clone(),
            short(meta.created_at),
            last_used.map_or_else(|| "never".to_owned(), short),
            meta.expires_at.map_or_else(dash, |end| format!("{}{}", short(end), ended(end))),
            if meta.quota.is_empty() { dash() } else { meta.quota.to_string() },
        ]
    }));
    let mut widths = [0; 9];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (width, cell) in widths.iter().zip(&row) {
            let _ = write!(line, "{cell:<width$}  ");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// To the second.
fn short(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
