//! The signature in a route of OpenSandbox: how it is written. Whether it is good is decided elsewhere.
//!
//! It has two parts, in a label behind dashes and in a path as segments: when it expires, in Unix seconds in
//! base 36, and a tag, which is eight hexadecimal digits and the name of a key. Both are lower case, also in
//! a host: OpenSandbox reads them so.

use std::fmt;
use std::num::NonZeroU8;

/// The longest text of an expiry: that of the highest number.
const MAX_EXPIRES: usize = 13;
/// Eight digits of the digest and the name of the key.
const TAG: usize = 9;

/// The signature of a route as a request gives it: well-formed, and no more than that.
///
/// The tag is a credential, so `Debug` does not show it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RouteSignature {
    expires: u64,
    text: [u8; MAX_EXPIRES],
    text_len: NonZeroU8,
    tag: [u8; TAG],
}

impl RouteSignature {
    /// Reads the two parts, `None` where one of them is not written as OpenSandbox writes it. Without a
    /// leading zero every expiry has one text.
    pub fn parse(expires: &[u8], tag: &[u8]) -> Option<Self> {
        let tag: [u8; TAG] = tag.try_into().ok()?;
        let (key, digits) = tag.split_last()?;
        let is_tag = digits.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
            && matches!(key, b'0'..=b'9' | b'a'..=b'z');
        let starts_with_zero = expires.len() > 1 && expires.first() == Some(&b'0');
        if !is_tag || starts_with_zero {
            return None;
        }
        let mut text = [0; MAX_EXPIRES];
        text.get_mut(..expires.len())?.copy_from_slice(expires);
        let number = expires.iter().try_fold(0u64, |number, byte| {
            let digit = match byte {
                b'0'..=b'9' => byte - b'0',
                b'a'..=b'z' => byte - b'a' + 10,
                _ => return None,
            };
            number.checked_mul(36)?.checked_add(digit.into())
        })?;
        let text_len = u8::try_from(expires.len()).ok().and_then(NonZeroU8::new)?;
        Some(Self { expires: number, text, text_len, tag })
    }

    /// When it expires, in Unix seconds. It is good up to and with that second.
    pub fn expires(&self) -> u64 {
        self.expires
    }

    /// The same as it was sent, which is what is signed.
    pub fn expires_text(&self) -> &[u8] {
        self.text.get(..usize::from(self.text_len.get())).unwrap_or_default()
    }

    /// Eight hexadecimal digits of the digest, then the name of the key.
    pub fn tag(&self) -> &[u8; TAG] {
        &self.tag
    }

    /// How long it is in a path: two segments and the slash in front of each.
    pub(crate) fn path_len(&self) -> usize {
        usize::from(self.text_len.get()) + TAG + 2
    }
}

impl fmt::Debug for RouteSignature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RouteSignature").field("expires", &self.expires).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::RouteSignature;

    #[test]
    fn an_expiry_is_a_number_in_base_36_with_one_text() {
        let expires = |text: &str| {
            let signature = RouteSignature::parse(text.as_bytes(), b"0a1b2c3dk")?;
            assert_eq!(signature.expires_text(), text.as_bytes());
            assert_eq!(signature.path_len(), format!("/{text}/0a1b2c3dk").len());
            Some(signature.expires())
        };
        for (text, number) in [
            ("0", 0),
            ("1", 1),
            ("z", 35),
            ("10", 36),
            ("1vuhmo0", 4_102_444_800),
            ("3w5e11264sgsf", u64::MAX),
        ] {
            assert_eq!(expires(text), Some(number), "{text}");
        }
        for text in [
            "",
            "00",
            "01",
            "A",
            "1A",
            "-1",
            "+1",
            " 1",
            "1_0",
            "é",
            "3w5e11264sgsg",
            "zzzzzzzzzzzzz",
            "10000000000000",
        ] {
            assert_eq!(expires(text), None, "{text}");
        }
    }

    #[test]
    fn a_tag_is_eight_hexadecimal_digits_and_the_name_of_a_key() {
        let is_tag = |tag: &str| RouteSignature::parse(b"1", tag.as_bytes()).is_some();
        for tag in
            ["0123456789", "", "0a1b2c3", "0a1b2c3d", "0A1b2c3dk", "0g1b2c3dk", "0a1b2c3dK", "0a1b2c3d-"]
        {
            assert!(!is_tag(tag), "{tag}");
        }
        for tag in ["0a1b2c3dk", "000000000", "ffffffffz", "123456789"] {
            assert!(is_tag(tag), "{tag}");
        }
    }

    #[test]
    fn debug_shows_no_tag() {
        let signature = RouteSignature::parse(b"1vuhmo0", b"0a1b2c3dk").expect("it is well-formed");
        let shown = format!("{signature:?}");
        assert!(shown.contains("4102444800") && !shown.contains("0a1b2c3d"), "{shown}");
        assert_eq!(signature.tag(), b"0a1b2c3dk");
        assert!(size_of::<Option<RouteSignature>>() <= 32, "every request has room for one");
    }
}
