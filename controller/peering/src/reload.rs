//! Files with keys and certificates, read again when they change.
//!
//! If a file cannot be read or is wrong, the last good value stays in use and the error is reported.
//! Kubernetes replaces the files of a mounted Secret together, so all of them are read as one value. They are
//! checked once a second.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use crate::credential::CredentialError;

/// How often files are checked for changes.
pub(crate) const PERIOD: Duration = Duration::from_secs(1);

type Load<T, E> = Box<dyn Fn() -> Result<T, E> + Send + Sync>;
/// Device, inode, length, times of change: of each file, as far as it is there.
type Signature = Vec<Option<(u64, u64, u64, SystemTime, (i64, i64))>>;

/// A value that is made from files, and made again when one of them changes. Reading it takes no lock.
pub struct Reloaded<T, E = CredentialError> {
    value: ArcSwap<T>,
    paths: Vec<PathBuf>,
    load: Load<T, E>,
    seen: Mutex<Signature>,
}

impl<T, E> Reloaded<T, E> {
    /// How often to [`reload`](Self::reload).
    pub const PERIOD: Duration = PERIOD;

    /// Reads the files for the first time.
    ///
    /// # Errors
    /// What `load` says.
    pub fn new(
        paths: Vec<PathBuf>,
        load: impl Fn() -> Result<T, E> + Send + Sync + 'static,
    ) -> Result<Self, E> {
        // Taken before the files are read, so that the next check sees a change in between.
        let seen = signature(&paths);
        let value = load()?;
        Ok(Self { value: ArcSwap::from_pointee(value), paths, load: Box::new(load), seen: Mutex::new(seen) })
    }

    /// The value as it is now.
    pub fn get(&self) -> Arc<T> {
        self.value.load_full()
    }

    /// Reads the files again if they have changed. What is wrong leaves the old value in use. May block.
    pub fn reload(&self) -> Option<Result<(), E>> {
        let now = signature(&self.paths);
        let mut seen = self.seen.lock();
        if *seen == now {
            return None;
        }
        *seen = now;
        drop(seen);
        Some((self.load)().map(|value| self.value.store(Arc::new(value))))
    }
}

fn signature(paths: &[PathBuf]) -> Signature {
    let of = |path: &PathBuf| {
        let found = std::fs::metadata(path).ok()?;
        let changed = (found.ctime(), found.ctime_nsec());
        Some((found.dev(), found.ino(), found.len(), found.modified().ok()?, changed))
    };
    paths.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credential::read;

    fn number(path: PathBuf) -> impl Fn() -> Result<u32, CredentialError> {
        move || {
            let text = String::from_utf8(read(&path)?).unwrap();
            text.trim().parse().map_err(|_| CredentialError::content(&path, "a number"))
        }
    }

    #[test]
    fn a_changed_file_is_taken_over_and_a_bad_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("number");
        assert!(Reloaded::new(vec![file.clone()], number(file.clone())).is_err());
        std::fs::write(&file, "7").unwrap();
        let reloaded = Reloaded::new(vec![file.clone()], number(file.clone())).unwrap();
        assert!(reloaded.reload().is_none() && *reloaded.get() == 7);
        std::fs::write(&file, "seven").unwrap();
        let error = reloaded.reload().unwrap().unwrap_err().to_string();
        assert!(error.ends_with("number: expected a number"), "{error}");
        assert!(reloaded.reload().is_none() && *reloaded.get() == 7);
        std::fs::write(folder.path().join("fresh"), "8").unwrap();
        std::fs::rename(folder.path().join("fresh"), &file).unwrap();
        assert!(reloaded.reload().is_some_and(|result| result.is_ok()));
        assert_eq!(*reloaded.get(), 8);
        std::fs::remove_file(&file).unwrap();
        assert!(reloaded.reload().is_some_and(|result| result.is_err()));
        assert_eq!(*reloaded.get(), 8);
    }
}
