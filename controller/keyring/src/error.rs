//! Files that a keyring cannot be made from.

use std::io;
use std::path::{Path, PathBuf};

use sandgate_auth::{KeyFileError, KeySetError};
use sandgate_peering::CredentialError;

/// The largest file with keys or tokens.
const MAX_FILE: u64 = 1 << 20;

/// Why a file cannot be used. A retry helps once the file is replaced. No text here has a part of a key.
#[derive(Debug, thiserror::Error)]
pub enum KeyringError {
    /// The file cannot be read.
    #[error("{}: {source}", .file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The file is larger than any file of keys.
    #[error("{}: larger than 1 MiB", .file.display())]
    TooLarge {
        /// The file.
        file: PathBuf,
    },
    /// The file has no keys, or wrong ones.
    #[error("{}: {source}", .file.display())]
    Keys {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        source: KeyFileError,
    },
    /// The files are good one by one, and not together.
    #[error("{}: {source}", .files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(", "))]
    Together {
        /// The files.
        files: Vec<PathBuf>,
        /// What is wrong.
        source: KeyFileError,
    },
    /// The file is no JSON Web Key Set that can be used.
    #[error("{}: {source}", .file.display())]
    KeySet {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        source: KeySetError,
    },
    /// A file of authorities. The text names it.
    #[error(transparent)]
    Authorities(#[from] CredentialError),
}

/// Reads a whole file of bounded size.
pub(crate) fn read(file: &Path) -> Result<Vec<u8>, KeyringError> {
    use std::io::Read as _;
    let cannot = |source| KeyringError::Read { file: file.to_owned(), source };
    // Checked before the file is opened: opening a pipe would wait for a writer.
    if !std::fs::metadata(file).map_err(cannot)?.is_file() {
        return Err(cannot(io::Error::other("not a file")));
    }
    let mut content = Vec::new();
    let opened = std::fs::File::open(file).map_err(cannot)?;
    opened.take(MAX_FILE + 1).read_to_end(&mut content).map_err(cannot)?;
    if content.len() as u64 > MAX_FILE {
        return Err(KeyringError::TooLarge { file: file.to_owned() });
    }
    Ok(content)
}
