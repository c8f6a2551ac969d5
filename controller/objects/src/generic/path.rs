//! Paths to fields: JSONPath queries of RFC 9535, of which the first value counts.
//!
//! The leading `$` or `$.` may be left out: `status.podIP` and `.status.podIP` are `$.status.podIP`,
//! and `["a b"].c` is `$["a b"].c`.

use jsonpath_rust::parser::model::{JpQuery, Segment, Selector};
use jsonpath_rust::parser::parse_json_path;
use jsonpath_rust::query::js_path_process;
use serde_json::Value;

#[cfg(test)]
mod tests;

pub(crate) const MAX_PATH: usize = 512;

const EXPECTED: &str = "expected a JSONPath query of at most 512 bytes, as in status.podIP, metadata.labels[\"x/y\"], \
                        status.podIPs[0] or status.conditions[?@.type=='Ready'].status; a key with other characters \
                        than A-Z, a-z, 0-9 and '_' is written [\"key\"]";

/// A query, and how it was written.
#[derive(Clone, Debug)]
pub(crate) struct FieldPath {
    text: String,
    query: JpQuery,
}

/// Two spellings of one query are equal.
impl PartialEq for FieldPath {
    fn eq(&self, other: &Self) -> bool {
        self.query == other.query
    }
}

impl FieldPath {
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        let root = match text.bytes().next() {
            Some(b'$') => "",
            Some(b'.' | b'[') => "$",
            _ => "$.",
        };
        // The library reads `a b` as one key, which the standard does not.
        let is_loose = text.contains(char::is_whitespace) && !text.contains('[');
        if is_loose || text.len() > MAX_PATH {
            return Err(EXPECTED);
        }
        let query = parse_json_path(&format!("{root}{text}")).map_err(|_| EXPECTED)?;
        Ok(Self { text: text.to_owned(), query })
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether all values are in the object's status.
    pub(crate) fn is_in_status(&self) -> bool {
        let first = match self.query.segments.first() {
            Some(Segment::Selector(selector)) => Some(selector),
            Some(Segment::Selectors(selectors)) if selectors.len() == 1 => selectors.first(),
            _ => None,
        };
        matches!(first, Some(Selector::Name(name)) if name == "status")
    }

    /// The first value that is not null.
    pub(crate) fn find<'a>(&self, object: &'a Value) -> Option<&'a Value> {
        let found = js_path_process(&self.query, object).ok()?;
        found.into_iter().map(|node| node.val).find(|value| !value.is_null())
    }
}
