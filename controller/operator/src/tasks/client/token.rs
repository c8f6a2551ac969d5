//! The token that executors want, in a file that somebody replaces now and then.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use http::HeaderValue;
use parking_lot::Mutex;

/// Why there is no token. The text of the file is not told: it is a secret.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The file cannot be read.
    #[error("the token of task executors cannot be read from {}: {source}", .path.display())]
    Unread {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is nothing but white space in the file.
    #[error("the file {} has no token for task executors", .0.display())]
    Empty(PathBuf),
    /// The token has characters that HTTP does not allow.
    #[error("the file {} has a token that no header can carry", .0.display())]
    NoHeader(PathBuf),
}

/// A file with a bearer token. Clones read it once together.
#[derive(Clone)]
pub struct TokenFile {
    path: PathBuf,
    read: Arc<Mutex<Option<(Mark, HeaderValue)>>>,
}

/// What changes when the file is written or replaced.
type Mark = (u64, u64, Option<SystemTime>);

impl TokenFile {
    /// The token is what the file has when it is needed, without white space around it.
    ///
    /// # Errors
    /// The file cannot be read, or has no token.
    pub fn open(path: &Path) -> Result<Self, TokenError> {
        let file = Self { path: path.to_owned(), read: Arc::default() };
        file.header().map(|_| file.clone())
    }

    pub(super) fn header(&self) -> Result<HeaderValue, TokenError> {
        let unread = |source| TokenError::Unread { path: self.path.clone(), source };
        let mark = mark(&fs::metadata(&self.path).map_err(unread)?);
        let mut read = self.read.lock();
        if let Some((of, token)) = &*read
            && *of == mark
        {
            return Ok(token.clone());
        }
        let text = fs::read_to_string(&self.path).map_err(unread)?;
        if text.trim().is_empty() {
            return Err(TokenError::Empty(self.path.clone()));
        }
        let mut token = HeaderValue::from_str(&format!("Bearer {}", text.trim()))
            .map_err(|_| TokenError::NoHeader(self.path.clone()))?;
        token.set_sensitive(true);
        *read = Some((mark, token.clone()));
        Ok(token)
    }
}

impl std::fmt::Debug for TokenFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("TokenFile").field(&self.path).finish()
    }
}

fn mark(file: &Metadata) -> Mark {
    (file.ino(), file.len(), file.modified().ok())
}
