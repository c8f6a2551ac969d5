//! UUIDs as 16 bytes. UIDs usually are UUIDs, owners and tokens often. Stored packed, a UUID takes 16 bytes
//! in place of 36.
//!
//! This is not the `uuid` crate because of two properties: only the one spelling that is given back is
//! packed, and the text is made without table lookups, so its time does not depend on the digits (tokens) and
//! the compiler vectorises it (a request needs the text of a UID).

use std::fmt;
use std::ops::Deref;
use std::str;

/// A text of a route. It is a string (it derefs to one); where the route keeps a UUID's 16 bytes, the text is
/// made on the stack.
#[derive(Clone, Copy)]
pub struct PackedText<'a>(Repr<'a>);

#[derive(Clone, Copy)]
enum Repr<'a> {
    Text(&'a str),
    Uuid([u8; UUID_TEXT]),
}

const UUID_TEXT: usize = 36;
const HYPHENS: [usize; 4] = [8, 13, 18, 23];

/// The 16 bytes of `text`, if it is a UUID in the one spelling that [`PackedText::from_uuid`] gives back.
pub(crate) fn pack_uuid(text: &[u8]) -> Option<[u8; 16]> {
    if text.len() != UUID_TEXT || HYPHENS.iter().any(|&at| text[at] != b'-') {
        return None;
    }
    let mut digits = text.iter().enumerate().filter(|(at, _)| !HYPHENS.contains(at)).map(|(_, &byte)| byte);
    let mut packed = [0; 16];
    for byte in &mut packed {
        *byte = (hex(digits.next()?)? << 4) | hex(digits.next()?)?;
    }
    Some(packed)
}

fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        // Lower case only: another spelling is another text and must come back as it was.
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

/// The text of a UUID. Subject digits it has does not show in the time this takes: it is used for secrets
/// too.
pub(crate) fn uuid_text(packed: &[u8]) -> [u8; UUID_TEXT] {
    // '0' to '9' and 'a' to 'f' are apart by 39, which is added where 9 minus the digit is negative.
    let digit = |nibble: u8| b'0' + nibble + (9u8.wrapping_sub(nibble) >> 7) * 39;
    // All digits first, in a loop without exceptions, which the compiler turns into a handful of wide
    // instructions.
    let mut digits = [b'0'; 32];
    for (pair, byte) in digits.chunks_exact_mut(2).zip(packed) {
        pair[0] = digit(byte >> 4);
        pair[1] = digit(byte & 15);
    }
    let mut text = [b'-'; UUID_TEXT];
    text[..8].copy_from_slice(&digits[..8]);
    text[9..13].copy_from_slice(&digits[8..12]);
    text[14..18].copy_from_slice(&digits[12..16]);
    text[19..23].copy_from_slice(&digits[16..20]);
    text[24..].copy_from_slice(&digits[20..]);
    text
}

impl<'a> PackedText<'a> {
    pub(crate) fn from_text(text: &'a str) -> Self {
        Self(Repr::Text(text))
    }

    pub(crate) fn from_uuid(packed: &[u8]) -> Self {
        Self(Repr::Uuid(uuid_text(packed)))
    }

    /// The text's bytes.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Repr::Text(text) => text.as_bytes(),
            Repr::Uuid(text) => text,
        }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Repr::Text(text) => text,
            Repr::Uuid(text) => str::from_utf8(text).unwrap_or_default(),
        }
    }
}

impl Deref for PackedText<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<str> for PackedText<'_> {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl PartialEq for PackedText<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for PackedText<'_> {}

impl PartialEq<str> for PackedText<'_> {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for PackedText<'_> {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl fmt::Display for PackedText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for PackedText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_comes_back_as_it_was() {
        let text = "8c1f03a2-0b4d-4e5f-9a6b-7c8d9e0f1a2b";
        let packed = pack_uuid(text.as_bytes()).unwrap();
        assert_eq!(PackedText::from_uuid(&packed), text);
        for digits in ["0123456789abcdef", "fedcba9876543210", "ffffffffffffffff", "0000000000000000"] {
            let digits = digits.repeat(2);
            let text =
                [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-");
            assert_eq!(PackedText::from_uuid(&pack_uuid(text.as_bytes()).unwrap()), text.as_str());
        }
    }

    #[test]
    fn what_would_come_back_otherwise_is_not_packed() {
        for text in [
            "8C1F03A2-0b4d-4e5f-9a6b-7c8d9e0f1a2b",
            "8c1f03a2_0b4d-4e5f-9a6b-7c8d9e0f1a2b",
            "8c1f03a20-b4d-4e5f-9a6b-7c8d9e0f1a2b",
            "8c1f03a2-0b4d-4e5f-9a6b-7c8d9e0f1a2",
            "g c1f03a2-0b4d-4e5f-9a6b-7c8d9e0f1a2",
            "éc1f03a-0b4d-4e5f-9a6b-7c8d9e0f1a2b0",
            "",
        ] {
            assert_eq!(pack_uuid(text.as_bytes()), None, "{text:?}");
        }
    }
}
