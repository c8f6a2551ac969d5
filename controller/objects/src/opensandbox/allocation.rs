//! The pods of a batch, as the annotations about its allocation name them.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::decode::object;

#[cfg(test)]
mod tests;

/// What a pod's name may have at most.
const MAX_NAME: usize = 253;

/// A list of pods: what the annotations `alloc-status`, `alloc-release` and `alloc-released` have as JSON,
/// `{"pods":["a","b"]}`.
///
/// In `alloc-status` the position of a pod is the slot of the batch that it has, so the order is kept, and so
/// is a name that comes twice: see [`repeated`](Self::repeated).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allocation {
    /// The names of the pods.
    #[serde(default, deserialize_with = "or_none")]
    pub pods: Vec<String>,
}

/// An annotation about the allocation of a batch is not what it has to be. Reading it again does not help:
/// whoever wrote it has to mend it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("annotation {key}: {why}")]
pub struct Malformed {
    /// The annotation.
    pub key: String,
    /// What is wrong with it. The value is not quoted.
    pub why: &'static str,
}

impl Allocation {
    /// Reads an annotation. `None` if it is missing or empty; `null` and `{"pods":null}` are a list of none.
    ///
    /// Each name must be one that a pod can have. A name is put into the path of a request, so that any other
    /// text could lead to another object.
    ///
    /// # Errors
    /// [`Malformed`]: another type, or a name that no pod can have.
    pub fn read(annotations: &BTreeMap<String, String>, key: &str) -> Result<Option<Self>, Malformed> {
        let text = annotations.get(key).map_or("", String::as_str);
        Self::parse(text).map_err(|why| Malformed { key: key.to_owned(), why })
    }

    /// Reads the text of an annotation. `None` if it is empty.
    ///
    /// # Errors
    /// What is wrong with it, without a quotation.
    pub fn parse(text: &str) -> Result<Option<Self>, &'static str> {
        if text.is_empty() {
            return Ok(None);
        }
        let mut json = serde_json::Deserializer::from_str(text);
        let read: Result<Self, _> = object(&mut json).and_then(|read| json.end().map(|()| read));
        let read = read.map_err(|_| "expected {\"pods\": [names of pods]}")?;
        if !read.pods.iter().all(|name| is_pod_name(name)) {
            return Err("expected names of pods");
        }
        Ok(Some(read))
    }

    /// The text of the annotation.
    pub fn text(&self) -> String {
        // A list of texts is always JSON.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The positions whose pod has come before. A pod cannot fill two slots, so these are lost.
    pub fn repeated(&self) -> impl Iterator<Item = usize> {
        let mut known = BTreeSet::new();
        self.pods
            .iter()
            .enumerate()
            .filter(move |(_, name)| !known.insert(name.as_str()))
            .map(|(slot, _)| slot)
    }

    /// Every word of an annotation that can be the name of a pod. Of an annotation that cannot be read, each
    /// of them counts as a pod that the batch holds: it is given to no one else.
    pub fn words(text: &str) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        words_of(text, &mut found);
        // In JSON a name can be written with escapes.
        if let Ok(value) = serde_json::from_str(text) {
            words_in(&value, &mut found);
        }
        found
    }
}

impl FromIterator<String> for Allocation {
    fn from_iter<I: IntoIterator<Item = String>>(pods: I) -> Self {
        Self { pods: pods.into_iter().collect() }
    }
}

/// `null` is a list of none, as a nil list of Go is written.
fn or_none<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

fn words_of(text: &str, found: &mut BTreeSet<String>) {
    let words = text.split(|c: char| !is_of_name(c)).map(|word| word.trim_matches(['.', '-']));
    found.extend(words.filter(|word| is_pod_name(word)).map(str::to_owned));
}

/// The parser has bounded how deep a value nests.
fn words_in(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => words_of(text, found),
        Value::Array(list) => list.iter().for_each(|value| words_in(value, found)),
        Value::Object(fields) => {
            for (name, value) in fields {
                words_of(name, found);
                words_in(value, found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.'
}

/// Whether a pod can have this name: labels of a domain, with dots between them.
fn is_pod_name(name: &str) -> bool {
    let is_end = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_label = |label: &str| label.starts_with(is_end) && label.ends_with(is_end);
    name.len() <= MAX_NAME && name.chars().all(is_of_name) && name.split('.').all(is_label)
}
