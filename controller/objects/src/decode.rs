//! JSON to the few fields of a kind.
//!
//! The parser skips every other field without allocating, however large or deep the field is. A missing field
//! and a null are the same: Kubernetes omits what is empty.
//!
//! An object is decoded without path tracking first. Only if that fails is it decoded once more, with the
//! path of the current field tracked, so that the error can name the field.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
pub(crate) use serde_path_to_error::Segment;
use serde_path_to_error::Track;

use crate::provider::Unreadable;

#[cfg(test)]
mod tests;

/// Most elements that are kept of a list.
const MAX_KEPT: usize = 16;
/// Longest path in an error.
const MAX_PATH: usize = 256;

/// Decodes an object of kind `T`.
///
/// # Errors
/// [`Unreadable`] names the first field of another type. Decoding the same bytes again does not help.
pub fn decode<'de, T: Default + Deserialize<'de>>(object: &'de [u8]) -> Result<T, Unreadable> {
    let mut json = serde_json::Deserializer::from_slice(object);
    if let Ok(value) = json.deserialize_map(Object(PhantomData))
        && json.end().is_ok()
    {
        return Ok(value);
    }
    let mut json = serde_json::Deserializer::from_slice(object);
    let value = tracked(&mut json)?;
    json.end().map(|()| value).map_err(|error| Unreadable::new("object", reason(&error)))
}

/// Decodes an object and names the field in an error.
pub(crate) fn tracked<'de, D, T>(json: D) -> Result<T, Unreadable>
where
    D: Deserializer<'de, Error = serde_json::Error>,
    T: Default + Deserialize<'de>,
{
    let mut track = Track::new();
    let decoded =
        serde_path_to_error::Deserializer::new(json, &mut track).deserialize_map(Object(PhantomData));
    decoded.map_err(|error| Unreadable::new(path_text(&track.path()), reason(&error)))
}

/// A path as a JSONPath query of the generic provider's config, without the `$`.
pub(crate) fn path_text<'a>(path: impl IntoIterator<Item = &'a Segment>) -> String {
    use fmt::Write as _;

    let mut text = String::new();
    for segment in path {
        let written = match segment {
            Segment::Seq { index } => write!(text, "[{index}]"),
            Segment::Map { key } if is_plain(key) && text.is_empty() => write!(text, "{key}"),
            Segment::Map { key } if is_plain(key) => write!(text, ".{key}"),
            Segment::Map { key } => write!(text, "[{key:?}]"),
            Segment::Enum { .. } | Segment::Unknown => write!(text, ".?"),
        };
        if written.is_err() || text.len() > MAX_PATH {
            text.truncate(text.floor_char_boundary(MAX_PATH));
            text.push('…');
            break;
        }
    }
    if text.is_empty() { "object".to_owned() } else { text }
}

/// Whether a key needs no quotes in a path.
pub(crate) fn is_plain(key: &str) -> bool {
    !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

/// The library's message without the value that it quotes.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let text = text.strip_suffix(&place).unwrap_or(&text);
    let found = ["invalid type: ", "invalid value: ", "invalid length "]
        .iter()
        .find_map(|start| text.strip_prefix(start));
    match found {
        // "string \"the value\", expected a number": what is expected is a fixed text and comes last.
        Some(found) => {
            let kind: String = found.chars().take_while(char::is_ascii_alphabetic).collect();
            let expected = match found.rsplit_once(", expected ") {
                Some((_, "a string")) => "a text",
                Some((_, expected)) => expected,
                None => "something else",
            };
            match kind.as_str() {
                "" => format!("expected {expected}"),
                kind => format!("expected {expected}, found {}", kind_of(kind)),
            }
        }
        None if error.is_data() => text.to_owned(),
        // Messages about syntax quote nothing.
        None => format!("not JSON: {text}"),
    }
}

fn kind_of(word: &str) -> &'static str {
    match word {
        "string" | "character" => "a text",
        "integer" | "floating" => "a number",
        "boolean" => "a boolean",
        "map" => "an object",
        "sequence" => "a list",
        "null" | "unit" | "Option" => "null",
        _ => "something else",
    }
}

/// Decodes a JSON object, or the default for null. A derived implementation alone would also accept a list of
/// the fields in order.
pub(crate) fn object<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    deserializer.deserialize_option(Object(PhantomData))
}

struct Object<T>(PhantomData<T>);

impl<'de, T: Default + Deserialize<'de>> Visitor<'de> for Object<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        deserializer.deserialize_map(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map))
    }
}

/// Whether [`kept`] keeps an element of a list.
pub(crate) trait Keep {
    fn keep(&self) -> bool;
}

/// Decodes a list and keeps the first [`MAX_KEPT`] elements that are worth keeping. The rest of the list is
/// skipped.
pub(crate) fn kept<'de, D: Deserializer<'de>, T: Keep + Deserialize<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    deserializer.deserialize_option(List(PhantomData))
}

/// Decodes a list of texts and keeps those that are not empty, as [`kept`] does.
pub(crate) fn texts<'de, D, S>(deserializer: D) -> Result<Vec<S>, D::Error>
where
    D: Deserializer<'de>,
    S: AsRef<str> + Deserialize<'de>,
{
    let kept: Vec<Option<S>> = kept(deserializer)?;
    Ok(kept.into_iter().flatten().collect())
}

impl<S: AsRef<str>> Keep for Option<S> {
    fn keep(&self) -> bool {
        self.as_ref().is_some_and(|text| !text.as_ref().is_empty())
    }
}

struct List<T>(PhantomData<T>);

impl<'de, T: Keep + Deserialize<'de>> Visitor<'de> for List<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<Vec<T>, E> {
        Ok(Vec::new())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<T>, D::Error> {
        deserializer.deserialize_seq(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
        let mut kept = Vec::new();
        while kept.len() < MAX_KEPT {
            match list.next_element::<T>()? {
                Some(element) if element.keep() => kept.push(element),
                Some(_) => {}
                None => return Ok(kept),
            }
        }
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(kept)
    }
}
