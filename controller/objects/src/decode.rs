//! JSON to the few fields a provider needs.
//!
//! Everything else is skipped by the parser without becoming memory, however large or deep. Texts are borrowed from
//! the input where they have no escapes. A missing field and a null are the same: Kubernetes omits what is empty.
//!
//! An object is read for speed first. Only if that fails is it read once more, keeping track of the path, to say where.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_path_to_error::{Segment, Track};

use crate::provider::Unreadable;

#[cfg(test)]
mod tests;

/// Longest text that is taken from an object; what it may be used for has tighter limits.
const MAX_TEXT: usize = 64 * 1024;
/// Most elements that are kept of a list.
const MAX_KEPT: usize = 16;
/// Longest path in an error.
const MAX_PATH: usize = 256;

/// Reads an object's needed fields.
pub(crate) fn decode<'de, T: Default + Deserialize<'de>>(object: &'de [u8]) -> Result<T, Unreadable> {
    decode_with(object, || Whole(PhantomData))
}

/// Reads an object with a seed, which is made anew where the object has to be read twice.
pub(crate) fn decode_with<'de, S: DeserializeSeed<'de>>(
    object: &'de [u8],
    seed: impl Fn() -> S,
) -> Result<S::Value, Unreadable> {
    let mut json = serde_json::Deserializer::from_slice(object);
    if let Ok(value) = seed().deserialize(&mut json)
        && json.end().is_ok()
    {
        return Ok(value);
    }
    let mut json = serde_json::Deserializer::from_slice(object);
    let mut track = Track::new();
    let read = seed().deserialize(serde_path_to_error::Deserializer::new(&mut json, &mut track));
    let whole = read.is_ok();
    match read.and_then(|value| json.end().map(|()| value)) {
        Ok(value) => Ok(value),
        Err(error) if whole => Err(Unreadable::new("object", reason(&error))),
        Err(error) => Err(Unreadable::new(path(&track.path()), reason(&error))),
    }
}

struct Whole<T>(PhantomData<T>);

impl<'de, T: Default + Deserialize<'de>> DeserializeSeed<'de> for Whole<T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        deserializer.deserialize_map(Object(PhantomData))
    }
}

/// A path as the generic provider's config writes it.
fn path(path: &serde_path_to_error::Path) -> String {
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

/// What the library found wrong, without the value it found there.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let text = text.strip_suffix(&place).unwrap_or(&text);
    let found = ["invalid type: ", "invalid value: ", "invalid length "]
        .iter()
        .find_map(|start| text.strip_prefix(start));
    match found {
        // "string \"the value\", expected a number": what is expected is a text of ours, and the last part.
        Some(found) => {
            let kind: String = found.chars().take_while(char::is_ascii_alphabetic).collect();
            let expected =
                found.rsplit_once(", expected ").map_or("something else", |(_, expected)| expected);
            match kind.as_str() {
                "" => format!("expected {expected}"),
                kind => format!("expected {expected}, found {}", kind_of(kind)),
            }
        }
        None if error.is_data() => text.to_owned(),
        // Syntax errors are fixed texts.
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

/// A text of an object.
#[derive(Debug)]
pub(crate) struct Text<'a>(Cow<'a, str>);

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor).map(Self)
    }
}

struct TextVisitor;

pub(crate) fn bounded<E: serde::de::Error>(text: &str) -> Result<&str, E> {
    if text.len() > MAX_TEXT {
        return Err(E::custom(format_args!("expected at most {MAX_TEXT} bytes, found {}", text.len())));
    }
    Ok(text)
}

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_borrowed_str<E: serde::de::Error>(self, text: &'de str) -> Result<Self::Value, E> {
        bounded(text).map(Cow::Borrowed)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Self::Value, E> {
        bounded(text).map(|text| Cow::Owned(text.to_owned()))
    }
}

/// A part of an object, or the default where it is missing or null. What `derive` makes would also take a list of the
/// fields in order.
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

/// An element of a list that is kept, or not.
pub(crate) trait Keep {
    fn keep(&self) -> bool;
}

/// The first elements of a list that are worth keeping; a list of any length costs no more than those.
pub(crate) fn kept<'de, D: Deserializer<'de>, T: Keep + Deserialize<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    deserializer.deserialize_option(List(PhantomData))
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
