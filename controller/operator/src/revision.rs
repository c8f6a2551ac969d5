//! Short names for contents: equal contents have equal revisions, in every process.
//!
//! The contents are hashed as canonical JSON: keys in order, and without nulls, which Go's encoders write
//! where others leave a field out. The hash is FNV-1a with 32 bits, written with letters and digits that
//! spell no words, as revisions of other controllers are.

use std::fmt::Write as _;

use serde_json::Value;

/// Neither vowels nor what looks like one.
pub(crate) const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// The revision of some JSON.
pub fn revision(contents: &Value) -> String {
    let mut text = String::new();
    canonical(contents, &mut text);
    fnv(&text)
        .to_string()
        .bytes()
        .map(|digit| char::from(ALPHABET[usize::from(digit) % ALPHABET.len()]))
        .collect()
}

/// FNV-1a with 32 bits.
pub(crate) fn fnv(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// The text that a hash is made of: the same for equal contents.
pub(crate) fn canonical(value: &Value, text: &mut String) {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().filter(|(_, value)| !value.is_null()).collect();
            fields.sort_unstable_by_key(|(name, _)| *name);
            text.push('{');
            for (name, value) in fields {
                let _ = write!(text, "{}:", Value::from(name.as_str()));
                canonical(value, text);
                text.push(',');
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for item in items {
                canonical(item, text);
                text.push(',');
            }
            text.push(']');
        }
        scalar => {
            let _ = write!(text, "{scalar}");
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parsed(text: &str) -> Value {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn the_order_of_keys_and_nulls_do_not_matter() {
        let one = parsed(r#"{"b": {"y": 1, "x": [1, 2]}, "a": "t"}"#);
        let other = parsed(r#"{"a": "t", "b": {"x": [1, 2], "y": 1, "creationTimestamp": null}}"#);
        assert_eq!(revision(&one), revision(&other));
    }

    #[test]
    fn every_value_and_the_order_of_a_list_matter() {
        let of = |value| revision(&value);
        let all = [
            of(json!({"a": 1})),
            of(json!({"a": "1"})),
            of(json!({"a": 2})),
            of(json!({"b": 1})),
            of(json!({"a": [1, 2]})),
            of(json!({"a": [2, 1]})),
            of(json!({"a": [1, [2]]})),
            of(json!({"a": {}})),
            of(json!({})),
        ];
        let distinct: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), all.len());
    }

    #[test]
    fn a_revision_stays_the_same_from_release_to_release() {
        // Another value here would roll every pool of every cluster.
        let template = json!({"spec": {"containers": [{"name": "main", "image": "base:1"}]}});
        assert_eq!(revision(&template), "5f4ccf4c45");
    }
}
