//! Files with keys and certificates, read again when they change.
//!
//! What cannot be read or is wrong changes nothing: the last good value holds, and the error says so. Kubernetes swaps
//! the files of a mounted Secret together, so all of them are read as one value. Files are looked at once a second.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;

/// How often files are looked at.
pub(crate) const LOOK: Duration = Duration::from_secs(1);

type Load<T> = Box<dyn Fn() -> Result<T, String> + Send + Sync>;
/// Device, inode, length, times of change: of each file, as far as it is there.
type Signature = Vec<Option<(u64, u64, u64, i64, i64, i64, i64)>>;

pub(crate) struct Reloaded<T> {
    value: ArcSwap<T>,
    paths: Vec<PathBuf>,
    load: Load<T>,
    seen: Mutex<Signature>,
}

impl<T> Reloaded<T> {
    /// Reads the files for the first time.
    pub(crate) fn new(
        paths: Vec<PathBuf>,
        load: impl Fn() -> Result<T, String> + Send + Sync + 'static,
    ) -> Result<Self, String> {
        // Taken before the files are read: a change in between is seen by the next look.
        let seen = signature(&paths);
        let value = load()?;
        Ok(Self { value: ArcSwap::from_pointee(value), paths, load: Box::new(load), seen: Mutex::new(seen) })
    }

    /// The value as it is now.
    pub(crate) fn get(&self) -> Arc<T> {
        self.value.load_full()
    }

    /// Looks whether the files changed, and reads them if so. May block.
    pub(crate) fn look(&self) -> Option<Result<(), String>> {
        let now = signature(&self.paths);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
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
        let times = (found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec());
        Some((found.dev(), found.ino(), found.len(), times.0, times.1, times.2, times.3))
    };
    paths.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(path: PathBuf) -> impl Fn() -> Result<u32, String> {
        move || {
            let text = std::fs::read_to_string(&path).map_err(|error| error.to_string())?;
            text.trim().parse().map_err(|_| "no number".to_owned())
        }
    }

    #[test]
    fn a_changed_file_is_taken_over_and_a_bad_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("number");
        assert!(Reloaded::new(vec![file.clone()], number(file.clone())).is_err());
        std::fs::write(&file, "7").unwrap();
        let reloaded = Reloaded::new(vec![file.clone()], number(file.clone())).unwrap();
        assert_eq!((*reloaded.get(), reloaded.look()), (7, None));
        std::fs::write(&file, "seven").unwrap();
        assert_eq!(reloaded.look(), Some(Err("no number".to_owned())));
        assert_eq!((*reloaded.get(), reloaded.look()), (7, None));
        std::fs::write(folder.path().join("fresh"), "8").unwrap();
        std::fs::rename(folder.path().join("fresh"), &file).unwrap();
        assert_eq!((reloaded.look(), *reloaded.get()), (Some(Ok(())), 8));
        std::fs::remove_file(&file).unwrap();
        assert!(reloaded.look().is_some_and(|result| result.is_err()));
        assert_eq!(*reloaded.get(), 8);
    }
}
