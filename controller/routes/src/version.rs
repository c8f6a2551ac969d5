//! Object versions: positive decimal integers of any length, compared as numbers.
//!
//! The API server's resource versions fit a `u64` today and are not promised to. The common case is a plain integer; a longer one is
//! kept as its digits, where canonical form makes "longer" mean "greater".

use std::cmp::Ordering;
use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

use crate::MAX_VERSION_DIGITS;

/// When an object was last changed, as its source counts. Only versions of one object can be compared with meaning.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Version(Repr);

// `Long` is only made for numbers that do not fit: so equal numbers have equal representations, and every `Long` is greater.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Repr {
    Short(NonZeroU64),
    Long(Box<str>),
}

impl Version {
    /// The number, if it fits.
    pub(crate) fn as_u64(&self) -> Option<u64> {
        match &self.0 {
            Repr::Short(number) => Some(number.get()),
            Repr::Long(_) => None,
        }
    }

    /// The digits, if the number does not fit.
    pub(crate) fn long_digits(&self) -> Option<&str> {
        match &self.0 {
            Repr::Short(_) => None,
            Repr::Long(digits) => Some(digits),
        }
    }
}

/// Why a text is not a version. Trying again does not help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionError {
    /// No text at all.
    Empty,
    /// Zero, which is no version, or a number written with leading zeros.
    NotCanonical,
    /// Something other than the digits 0 to 9.
    NotDecimal,
    /// More than [`MAX_VERSION_DIGITS`] digits.
    TooLong,
}

impl fmt::Display for VersionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "a version cannot be empty",
            Self::NotCanonical => "a version is a positive number without leading zeros",
            Self::NotDecimal => "a version has only decimal digits",
            Self::TooLong => "a version has at most 1024 digits",
        })
    }
}

impl std::error::Error for VersionError {}

impl FromStr for Version {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<Self, VersionError> {
        if text.is_empty() {
            return Err(VersionError::Empty);
        }
        if text.len() > MAX_VERSION_DIGITS {
            return Err(VersionError::TooLong);
        }
        // Checked here because the standard parser accepts a plus sign.
        if !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(VersionError::NotDecimal);
        }
        if text.starts_with('0') {
            return Err(VersionError::NotCanonical);
        }
        Ok(Self(match text.parse() {
            Ok(number) => Repr::Short(number),
            Err(_) => Repr::Long(text.into()),
        }))
    }
}

impl From<NonZeroU64> for Version {
    fn from(number: NonZeroU64) -> Self {
        Self(Repr::Short(number))
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        match (&self.0, &other.0) {
            (Repr::Short(a), Repr::Short(b)) => a.cmp(b),
            (Repr::Short(_), Repr::Long(_)) => Ordering::Less,
            (Repr::Long(_), Repr::Short(_)) => Ordering::Greater,
            (Repr::Long(a), Repr::Long(b)) => a.len().cmp(&b.len()).then_with(|| a.cmp(b)),
        }
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Short(number) => fmt::Display::fmt(number, f),
            Repr::Long(digits) => f.pad(digits),
        }
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{self}")
    }
}

#[cfg(test)]
mod tests;
