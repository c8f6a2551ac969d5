//! The token that executors want, in a file that somebody replaces now and then.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use http::HeaderValue;
use parking_lot::Mutex;

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
    /// The file cannot be read or has no token, in one line.
    pub fn open(path: &Path) -> Result<Self, String> {
        let file = Self { path: path.to_owned(), read: Arc::default() };
        file.header().map(|_| file.clone())
    }

    pub(super) fn header(&self) -> Result<HeaderValue, String> {
        let path = self.path.display();
        let unread = |error| format!("the token of task executors cannot be read from {path}: {error}");
        let mark = mark(&fs::metadata(&self.path).map_err(unread)?);
        let mut read = self.read.lock();
        if let Some((of, token)) = &*read
            && *of == mark
        {
            return Ok(token.clone());
        }
        let text = fs::read_to_string(&self.path).map_err(unread)?;
        if text.trim().is_empty() {
            return Err(format!("the file {path} has no token for task executors"));
        }
        // The text is not told: it is a secret.
        let mut token = HeaderValue::from_str(&format!("Bearer {}", text.trim()))
            .map_err(|_| format!("the file {path} has a token that no header can carry"))?;
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
