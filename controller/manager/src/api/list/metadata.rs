//! The filter by metadata, as it is written in a query.
//!
//! E2B's SDK encodes each key and value, joins them as a form, which encodes them again, and puts the form
//! into the query, which encodes it a third time. OpenKruise's users write the form without the first of the
//! three. After the query and the form are decoded, a text of the SDK has nothing in it but letters, digits,
//! a few marks and `%XX`; it is decoded once more. A text with anything else was not encoded a first time, so
//! it is taken as it is. What remains open is a text such as `100%25` that somebody encoded twice and means
//! as it stands: it is read as the SDK would have meant it.

use std::collections::BTreeMap;

use crate::api::failure::Failure;

/// So many pairs a filter may have.
const MOST: usize = 64;

/// Adds the pairs of a `metadata` parameter.
pub(super) fn decoded(text: &str, into: &mut BTreeMap<String, String>) -> Result<(), Failure> {
    for pair in text.split('&').filter(|pair| !pair.is_empty()) {
        if !pair.contains('=') {
            return Err(Failure::field("metadata", "expected key=value pairs, separated by &"));
        }
        for (key, value) in form_urlencoded::parse(pair.as_bytes()) {
            let once_more = encoded(&key) && encoded(&value);
            let (key, value) = if once_more {
                (percent_decoded(&key)?, percent_decoded(&value)?)
            } else {
                (key.into_owned(), value.into_owned())
            };
            insert(into, key, value)?;
        }
    }
    Ok(())
}

/// Adds a pair. Two values for one key would match nothing.
pub(super) fn insert(into: &mut BTreeMap<String, String>, key: String, value: String) -> Result<(), Failure> {
    if into.get(&key).is_some_and(|old| *old != value) {
        return Err(Failure::field("metadata", "expected each key once"));
    }
    into.insert(key, value);
    if into.len() > MOST {
        return Err(Failure::field("metadata", &format!("expected at most {MOST} pairs")));
    }
    Ok(())
}

/// Whether this is what Python's `quote` or JavaScript's `encodeURIComponent` could have written.
fn encoded(text: &str) -> bool {
    let mut rest = text.as_bytes();
    loop {
        rest = match rest {
            [] => return true,
            [b'%', high, low, rest @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => rest,
            [byte, rest @ ..] if byte.is_ascii_alphanumeric() || b"-_.~/!*'()".contains(byte) => rest,
            _ => return false,
        }
    }
}

fn percent_decoded(text: &str) -> Result<String, Failure> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        if let ([high, low, after @ ..], b'%') = (tail, first)
            && let (Some(high), Some(low)) = (digit(*high), digit(*low))
        {
            bytes.push(high << 4 | low);
            rest = after;
        } else {
            bytes.push(*first);
        }
    }
    String::from_utf8(bytes).map_err(|_| Failure::field("metadata", "expected UTF-8, percent-encoded"))
}
