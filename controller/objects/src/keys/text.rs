//! The text of a key, which is shown once.

use std::fmt;

use ring::rand::{SecureRandom as _, SystemRandom};

use super::Digest;
use super::digest::hex;

/// E2B's SDK accepts keys of this beginning with hexadecimal digits behind it, and no others.
const PREFIX: &str = "e2b_";
/// 160 random bits.
const BYTES: usize = 20;
/// So many digits at either end are shown for people to know a key again. 128 bits remain.
const SHOWN: usize = 4;

/// The system has no random numbers. A retry may help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the system has no random numbers")]
pub struct RandomError;

/// The text of a key. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyText(String);

impl KeyText {
    /// A new key.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn generate() -> Result<Self, RandomError> {
        Ok(Self(format!("{PREFIX}{}", hex(&random::<BYTES>()?))))
    }

    /// What a Secret keeps of it.
    pub fn digest(&self) -> Digest {
        Digest::of(self.0.as_bytes())
    }

    /// Its beginning and its end.
    pub fn mask(&self) -> String {
        mask(&self.0)
    }

    /// The key itself, for the one who asked for it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for KeyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyText({})", self.mask())
    }
}

/// The beginning and the end of a key; nothing of one that is too short to show anything of.
pub(super) fn mask(key: &str) -> String {
    let digits = key.strip_prefix(PREFIX).unwrap_or(key);
    let prefix = &key[..key.len() - digits.len()];
    if !digits.is_ascii() || digits.len() < 6 * SHOWN {
        return format!("{prefix}...");
    }
    format!("{prefix}{}...{}", &digits[..SHOWN], &digits[digits.len() - SHOWN..])
}

/// A random UUID (version 4).
///
/// # Errors
/// If the system has no random numbers.
pub fn new_id() -> Result<String, RandomError> {
    let mut bytes = random::<16>()?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let digits = hex(&bytes);
    let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
    Ok(parts.join("-"))
}

fn random<const N: usize>() -> Result<[u8; N], RandomError> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).map_err(|_| RandomError)?;
    Ok(bytes)
}
