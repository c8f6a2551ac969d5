//! Paths to fields: JSONPath queries of RFC 9535, of which the first value counts.
//!
//! The leading `$` or `$.` may be left out: `status.podIP` and `.status.podIP` are `$.status.podIP`,
//! and `["a b"].c` is `$["a b"].c`.
//!
//! The standard says that a step into a value of another type selects nothing. Here it is an error: a
//! condition such as `traffic-auth` must not take an object that it does not understand for one that lacks
//! the field. What is missing or null selects nothing.
//!
//! Two limits keep that check complete. A filter reads its element (`@`), not the whole object (`$`). It
//! calls only the functions of the standard. The segment `..` visits values of every type, so only the
//! steps after it are checked.

use jsonpath_rust::parser::model::{JpQuery, Segment, Selector};
use jsonpath_rust::parser::parse_json_path;
use jsonpath_rust::query::js_path_process;
use serde_json::Value;

mod steps;
#[cfg(test)]
mod tests;

use crate::provider::Unreadable;
use steps::Steps;

pub(crate) const MAX_PATH: usize = 512;

const EXPECTED: &str = "expected a JSONPath query of at most 512 bytes, as in status.podIP, metadata.labels[\"x/y\"], \
                        status.podIPs[0] or status.conditions[?@.type=='Ready'].status; a key with other characters \
                        than A-Z, a-z, 0-9 and '_' is written [\"key\"]";

/// A query, and how it was written.
#[derive(Clone, Debug)]
pub(crate) struct FieldPath {
    text: String,
    query: JpQuery,
    steps: Steps,
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
        Ok(Self { text: text.to_owned(), steps: Steps::of(&query.segments)?, query })
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
    ///
    /// # Errors
    /// The path meets a value that it cannot step into.
    pub(crate) fn find<'a>(&self, object: &'a Value) -> Result<Option<&'a Value>, Unreadable> {
        let found = js_path_process(&self.query, object)
            .map_err(|_| Unreadable::new(self.as_str(), "the query gives no part of the object"))?;
        let found = found.into_iter().map(|node| node.val).find(|value| !value.is_null());
        // A path without branches that found its value has passed only through values that it fits.
        if found.is_none() || self.steps.have_branches() {
            self.steps.check(object).map_err(Unreadable::from)?;
        }
        Ok(found)
    }
}
