//! Signed routes of OpenSandbox: an address that carries its own permission until a time.
//!
//! The tag is no HMAC, and it is short: the first 4 bytes of `SHA-256(be32(len secret) ‖ secret ‖ be32(len
//! text) ‖ text)` in hex, and the ID of the key, where `text` is `v1\nshort\n{id}\n{port}\n{expires}\n`.
//! Nobody can make it longer and stay compatible. So failures are counted: see [`Failures`](crate::Failures).

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{Context, SHA256};
use subtle::ConstantTimeEq;

use crate::keys::{KeyFileError, MAX_KEY, MAX_KEYS};

/// The bytes of a tag: 8 hex digits and the ID of the key.
pub const TAG: usize = 9;

/// The keys of signed routes. All of them verify at once, so that one can take the place of another.
#[derive(Clone)]
pub struct SignedKeys(Box<[Key]>);

#[derive(Clone)]
struct Key {
    id: u8,
    /// After the secret and its length.
    begun: Context,
}

impl SignedKeys {
    /// Reads keys as OpenSandbox's ingress takes them: `a=BASE64,b=BASE64`. Line ends part them as well, and
    /// lines that begin with `#` do not count.
    ///
    /// # Errors
    /// When an entry is no key, and when there is none.
    pub fn parse(text: &[u8]) -> Result<Self, KeyFileError> {
        let lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
        let entries = lines
            .filter(|line| !line.starts_with(b"#"))
            .flat_map(|line| line.split(|byte| *byte == b','))
            .map(<[u8]>::trim_ascii)
            .filter(|entry| !entry.is_empty());
        let mut keys: Vec<Key> = Vec::new();
        for (index, entry) in entries.enumerate() {
            let number = index + 1;
            let at = entry.iter().position(|byte| *byte == b'=').ok_or(KeyFileError::Form(number))?;
            let (id, secret) = (entry[..at].trim_ascii(), entry[at + 1..].trim_ascii());
            let [id @ (b'0'..=b'9' | b'a'..=b'z')] = id else { return Err(KeyFileError::Id(number)) };
            let secret = STANDARD.decode(secret).map_err(|_| KeyFileError::Form(number))?;
            if secret.is_empty() {
                return Err(KeyFileError::Form(number));
            }
            if secret.len() > MAX_KEY {
                return Err(KeyFileError::TooLong);
            }
            if keys.iter().any(|key| key.id == *id) {
                return Err(KeyFileError::Twice(number));
            }
            if keys.len() == MAX_KEYS {
                return Err(KeyFileError::TooMany);
            }
            let mut begun = Context::new(&SHA256);
            begun.update(&length(secret.len()));
            begun.update(&secret);
            keys.push(Key { id: *id, begun });
        }
        if keys.is_empty() { Err(KeyFileError::Empty) } else { Ok(Self(keys.into())) }
    }

    /// The IDs of the keys, which are no secrets.
    pub fn ids(&self) -> impl Iterator<Item = char> {
        self.0.iter().map(|key| char::from(key.id))
    }

    /// Whether the tag is that of this sandbox, port and time, by the key that it names. `expires` is the
    /// text as it was sent. Whether the time is over is not asked here. Compared in constant time; allocates
    /// nothing.
    pub fn verifies(&self, tag: &[u8; TAG], id: &[u8], port: u16, expires: &[u8]) -> bool {
        let [hex @ .., key_id] = tag;
        let Some(key) = self.0.iter().find(|key| key.id == *key_id) else { return false };
        let expected = key.tag(id, port, expires);
        expected.ct_eq(hex.as_slice()).into()
    }

    /// The tag of a sandbox, port and time, by this key: what OpenSandbox's server makes. For tests and
    /// tools.
    pub fn sign(&self, key_id: char, id: &[u8], port: u16, expires: &[u8]) -> Option<[u8; TAG]> {
        let key = self.0.iter().find(|key| char::from(key.id) == key_id)?;
        let mut tag = [key.id; TAG];
        tag[..TAG - 1].copy_from_slice(&key.tag(id, port, expires));
        Some(tag)
    }
}

impl Key {
    fn tag(&self, id: &[u8], port: u16, expires: &[u8]) -> [u8; TAG - 1] {
        const VERSION: &[u8] = b"v1\nshort\n";
        let mut digits = [0; 5];
        let port = decimal(port, &mut digits);
        let mut context = self.begun.clone();
        context.update(&length(VERSION.len() + id.len() + port.len() + expires.len() + 3));
        for part in [VERSION, id, b"\n", port, b"\n", expires, b"\n"] {
            context.update(part);
        }
        let digest = context.finish();
        let mut hex = [0; TAG - 1];
        for (pair, byte) in hex.chunks_exact_mut(2).zip(digest.as_ref()) {
            pair[0] = digit(byte >> 4);
            pair[1] = digit(byte & 15);
        }
        hex
    }
}

impl fmt::Debug for SignedKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SignedKeys").field(&self.ids().collect::<String>()).finish()
    }
}

/// A length as four bytes, the highest first. What is hashed here is far shorter than 4 GiB.
fn length(bytes: usize) -> [u8; 4] {
    u32::try_from(bytes).unwrap_or(u32::MAX).to_be_bytes()
}

/// Without a table, so that the time does not depend on the digit.
fn digit(nibble: u8) -> u8 {
    b'0' + nibble + (9u8.wrapping_sub(nibble) >> 7) * 39
}

fn decimal(number: u16, digits: &mut [u8; 5]) -> &[u8] {
    let mut rest = number;
    for place in digits.iter_mut().rev() {
        *place = b'0' + u8::try_from(rest % 10).unwrap_or_default();
        rest /= 10;
    }
    let start = digits.iter().position(|digit| *digit != b'0').unwrap_or(4);
    &digits[start..]
}

#[cfg(test)]
mod tests {
    use super::*;

    // "0123456789abcdef0123456789abcdef", and "another secret".
    const KEYS: &str = "a=MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=,b=YW5vdGhlciBzZWNyZXQ=";

    #[test]
    fn the_known_answer_of_the_format_is_verified_and_made() {
        let keys = SignedKeys::parse(KEYS.as_bytes()).unwrap();
        assert!(keys.verifies(b"8c9cadf5a", b"my-sandbox", 8080, b"1vuhmo0"));
        assert_eq!(keys.sign('a', b"my-sandbox", 8080, b"1vuhmo0").as_ref(), Some(b"8c9cadf5a"));
    }

    #[test]
    fn a_tag_is_good_for_its_sandbox_port_time_and_key_alone() {
        let keys = SignedKeys::parse(KEYS.as_bytes()).unwrap();
        let tag = b"8c9cadf5a";
        assert!(!keys.verifies(tag, b"my-sandbox2", 8080, b"1vuhmo0"));
        assert!(!keys.verifies(tag, b"my-sandbox", 8081, b"1vuhmo0"));
        assert!(!keys.verifies(tag, b"my-sandbox", 808, b"1vuhmo0"));
        assert!(!keys.verifies(tag, b"my-sandbox", 8080, b"1vuhmo1"));
        for wrong in [b"8c9cadf5b", b"8c9cadf5c", b"8c9cadf4a", b"9c9cadf5a", b"8C9CADF5a"] {
            assert!(!keys.verifies(wrong, b"my-sandbox", 8080, b"1vuhmo0"));
        }
        // Parts cannot be moved between the ID and the port: line ends part them, and no ID has one.
        assert!(!keys.verifies(tag, b"my-sandbox\n8080", 8080, b"1vuhmo0"));
    }

    #[test]
    fn several_keys_verify_at_once_and_one_that_is_gone_does_not() {
        let both = SignedKeys::parse(KEYS.as_bytes()).unwrap();
        let [old, new] = ['a', 'b'].map(|id| both.sign(id, b"s", 80, b"1vuhmo0").unwrap());
        assert!(both.verifies(&old, b"s", 80, b"1vuhmo0") && both.verifies(&new, b"s", 80, b"1vuhmo0"));
        let next = SignedKeys::parse(b"# a has gone\nb=YW5vdGhlciBzZWNyZXQ=\n").unwrap();
        assert!(!next.verifies(&old, b"s", 80, b"1vuhmo0") && next.verifies(&new, b"s", 80, b"1vuhmo0"));
        assert_eq!(next.ids().collect::<String>(), "b");
    }

    #[test]
    fn a_key_file_that_is_wrong_is_refused_with_the_number_of_the_entry() {
        for (text, error) in [
            ("", KeyFileError::Empty),
            (" , \n", KeyFileError::Empty),
            ("a", KeyFileError::Form(1)),
            ("a=", KeyFileError::Form(1)),
            ("a=***", KeyFileError::Form(1)),
            ("a=QQ==,A=QQ==", KeyFileError::Id(2)),
            ("ab=QQ==", KeyFileError::Id(1)),
            ("=QQ==", KeyFileError::Id(1)),
            ("a=QQ==\na=QUE=", KeyFileError::Twice(2)),
        ] {
            assert_eq!(SignedKeys::parse(text.as_bytes()).unwrap_err(), error, "{text:?}");
        }
        let keys = SignedKeys::parse(KEYS.as_bytes()).unwrap();
        assert_eq!(format!("{keys:?}"), r#"SignedKeys("ab")"#);
    }

    #[test]
    fn ports_are_written_in_decimal() {
        for port in [1, 9, 10, 80, 443, 8080, 10_000, 65_535] {
            assert_eq!(decimal(port, &mut [0; 5]), port.to_string().as_bytes());
        }
    }
}
