//! Requests signed with a shared key.
//!
//! `Authorization: SANDGATE-HMAC-SHA256 key=ID, time=UNIX, nonce=32 HEX, body=64 HEX, mac=64 HEX`, where
//! `body` is the SHA-256 of the body and `mac` the HMAC-SHA-256, by the key named `ID`, of these lines joined
//! by `\n`: `SANDGATE-HMAC-SHA256`, the ID, the method, the path with its query, the time, the nonce, the
//! body's digest. Since the digest stands in the header, a stranger is refused before a byte of the body is
//! read. Each nonce is good once (see `Replay`), so a try that is repeated is signed again.

use std::fmt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use ring::rand::{SecureRandom, SystemRandom};
use ring::{digest, hmac};

use crate::credential::{CredentialError, KeyLengthError, read};

#[cfg(test)]
mod tests;

pub(crate) const SCHEME: &str = "SANDGATE-HMAC-SHA256";

/// The fewest bytes of a key: as many as the digest has.
pub(crate) const MIN_KEY: usize = 32;
pub(crate) const MAX_KEY: usize = 4096;

/// The system has no random numbers. A retry may help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no random numbers")]
pub struct RandomError;

/// A shared key and its name.
#[derive(Clone)]
pub struct HmacKey {
    id: String,
    key: hmac::Key,
}

impl fmt::Debug for HmacKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HmacKey").field("id", &self.id).finish_non_exhaustive()
    }
}

impl HmacKey {
    /// Takes a key of at least 32 bytes.
    ///
    /// # Errors
    /// When the key is too short or too long.
    pub fn new(id: &str, key: &[u8]) -> Result<Self, KeyLengthError> {
        if !(MIN_KEY..=MAX_KEY).contains(&key.len()) {
            return Err(KeyLengthError(key.len()));
        }
        Ok(Self { id: id.to_owned(), key: hmac::Key::new(hmac::HMAC_SHA256, key) })
    }

    /// Reads a key from a file. Line ends at its end do not count.
    ///
    /// # Errors
    /// When the file cannot be read or its content cannot be a key.
    pub fn read(id: &str, file: &Path) -> Result<Self, CredentialError> {
        let content = read(file)?;
        let end = content.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r')).map_or(0, |at| at + 1);
        Self::new(id, &content[..end])
            .map_err(|source| CredentialError::Key { file: file.to_owned(), source })
    }

    /// What requests call it.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The value of the `authorization` header for a request, with a nonce of its own.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub fn sign(&self, method: &str, path: &str, body: &[u8], unix: u64) -> Result<String, RandomError> {
        let mut nonce = [0; 16];
        SystemRandom::new().fill(&mut nonce).map_err(|_| RandomError)?;
        let (nonce, body) = (hex(&nonce), hex(digest::digest(&digest::SHA256, body).as_ref()));
        let mac = hmac::sign(&self.key, text(&self.id, method, path, unix, &nonce, &body).as_bytes());
        let mac = hex(mac.as_ref());
        Ok(format!("{SCHEME} key={}, time={unix}, nonce={nonce}, body={body}, mac={mac}", self.id))
    }

    /// Whether `header` is a signature of this request by this key, whenever it was made and however often it
    /// was used.
    pub fn verifies(&self, header: &[u8], method: &str, path: &str, body: &[u8]) -> bool {
        let proof =
            Claim::parse(header).and_then(|claim| claim.verify(std::slice::from_ref(self), method, path));
        proof.is_some_and(|proof| proof.covers(body))
    }
}

fn text(id: &str, method: &str, path: &str, unix: u64, nonce: &str, body: &str) -> String {
    format!("{SCHEME}\n{id}\n{method}\n{path}\n{unix}\n{nonce}\n{body}")
}

/// What a header says, and nothing proven yet.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Claim<'a> {
    key: &'a str,
    pub(crate) time: u64,
    nonce: &'a str,
    body: &'a str,
    mac: [u8; 32],
}

/// What a header proved: who holds a key wants this body, at this time, once.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Proof {
    pub(crate) time: u64,
    pub(crate) nonce: u128,
    body: [u8; 32],
}

impl<'a> Claim<'a> {
    /// Reads the header's value: one scheme, five parts, in this order, nothing else.
    pub(crate) fn parse(value: &'a [u8]) -> Option<Self> {
        let value = str::from_utf8(value).ok()?.strip_prefix(SCHEME)?.strip_prefix(' ')?;
        let mut parts = value.split(',');
        let mut part = |name: &str| -> Option<&'a str> {
            parts.next()?.trim_start_matches(' ').strip_prefix(name)?.strip_prefix('=')
        };
        let (key, time, nonce) = (part("key")?, part("time")?, part("nonce")?);
        let (body, mac) = (part("body")?, part("mac")?);
        // The standard parser takes a plus sign.
        let time = time.bytes().all(|byte| byte.is_ascii_digit()).then(|| time.parse().ok())??;
        let claim = Self { key, time, nonce, body, mac: unhex(mac)? };
        (parts.next().is_none() && nonce.len() == 32 && unhex::<16>(nonce).is_some()).then_some(claim)
    }

    /// Checks the signature. The time and the nonce are the caller's to judge.
    pub(crate) fn verify(&self, keys: &[HmacKey], method: &str, path: &str) -> Option<Proof> {
        let key = keys.iter().find(|key| key.id == self.key)?;
        let text = text(self.key, method, path, self.time, self.nonce, self.body);
        hmac::verify(&key.key, text.as_bytes(), &self.mac).ok()?;
        let nonce = u128::from_be_bytes(unhex(self.nonce)?);
        Some(Proof { time: self.time, nonce, body: unhex(self.body)? })
    }
}

impl Proof {
    /// Whether this is the body that was signed.
    pub(crate) fn covers(&self, body: &[u8]) -> bool {
        // The digest is no secret: the sender has written it in the header.
        digest::digest(&digest::SHA256, body).as_ref() == self.body
    }
}

/// The time as signatures have it.
pub(crate) fn unix_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}

/// Lower-case digits only: one text for each number.
fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if pairs.len() != N || !rest.is_empty() {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}
