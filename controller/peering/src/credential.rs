//! Files with keys, tokens and certificates that cannot be used.

use std::io;
use std::path::{Path, PathBuf};

/// Why such a file cannot be used. A retry helps once the file is replaced. No text here contains a secret.
#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    /// The file cannot be read.
    #[error("{}: {source}", .file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The file is not of the expected kind.
    #[error("{}: expected {expected}", .file.display())]
    Content {
        /// The file.
        file: PathBuf,
        /// What was expected.
        expected: &'static str,
    },
    /// A shared key that is too short or too long.
    #[error("{}: {source}", .file.display())]
    Key {
        /// The file.
        file: PathBuf,
        /// The length.
        source: KeyLengthError,
    },
    /// A certificate or a key that TLS does not accept.
    #[error("{}: {reason}", .file.display())]
    Tls {
        /// The file.
        file: PathBuf,
        /// Why not.
        reason: String,
    },
}

/// A shared key has the wrong length. A retry does not help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a key has {min} to {max} bytes, this one has {0}", min = crate::hmac::MIN_KEY, max = crate::hmac::MAX_KEY)]
pub struct KeyLengthError(pub(crate) usize);

impl CredentialError {
    pub(crate) fn content(file: &Path, expected: &'static str) -> Self {
        Self::Content { file: file.to_owned(), expected }
    }

    pub(crate) fn tls(file: &Path, reason: &impl ToString) -> Self {
        Self::Tls { file: file.to_owned(), reason: reason.to_string() }
    }
}

/// Reads a whole file.
pub(crate) fn read(file: &Path) -> Result<Vec<u8>, CredentialError> {
    std::fs::read(file).map_err(|source| CredentialError::Read { file: file.to_owned(), source })
}
