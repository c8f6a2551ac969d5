//! Object versions: positive decimal integers that fit 64 bits, compared as numbers.
//!
//! The API server's resource versions are etcd's revisions, which have 64 bits. A longer number is no
//! version: whoever sends one could otherwise claim to be newer than anything that is ever true.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

/// When an object was last changed, as its source counts. Versions of objects of one resource can be
/// compared.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Version(NonZeroU64);

impl Version {
    /// The number.
    pub const fn get(&self) -> u64 {
        self.0.get()
    }

    /// The one before, if there is one.
    pub(crate) fn before(&self) -> Option<Self> {
        NonZeroU64::new(self.get() - 1).map(Self)
    }
}

/// Why a text is not a version. A retry does not help: the same text gives the same error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VersionError {
    /// The text is empty.
    #[error("a version cannot be empty")]
    Empty,
    /// The number is zero or has leading zeros.
    #[error("a version is a positive number without leading zeros")]
    NotCanonical,
    /// A character is not a digit from 0 to 9.
    #[error("a version has only decimal digits")]
    NotDecimal,
    /// The number needs more than 64 bits.
    #[error("a version is at most 18446744073709551615")]
    TooLarge,
}

impl FromStr for Version {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<Self, VersionError> {
        if text.is_empty() {
            return Err(VersionError::Empty);
        }
        // Checked here because the standard parser accepts a plus sign.
        if !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(VersionError::NotDecimal);
        }
        if text.starts_with('0') {
            return Err(VersionError::NotCanonical);
        }
        text.parse().map(Self).map_err(|_| VersionError::TooLarge)
    }
}

impl From<NonZeroU64> for Version {
    fn from(number: NonZeroU64) -> Self {
        Self(number)
    }
}

impl From<Version> for NonZeroU64 {
    fn from(version: Version) -> Self {
        version.0
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{self}")
    }
}

#[cfg(test)]
mod tests;
