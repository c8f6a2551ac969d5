//! The folders of the tasks: `{data-dir}/{name}/` with `task.json` and what the shim writes beside it.
//!
//! A file is written under another name, synced, and renamed, and then its folder is synced: after a crash
//! there is the old one or the new one. A folder is moved to `.trash` before it is emptied: after a crash
//! there is the whole task or none. What cannot be deleted there, as a file that a process of NFS still has
//! open, is left, and tried again with the next removal and the next start.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use sandgate_executor_wire::Task;

use crate::failpoint::{failpoint, fault};
use crate::record::Record;

const TASK: &str = "task.json";
const QUEUE: &str = ".queue.json";
const TRASH: &str = ".trash";
const LOCK: &str = ".lock";
/// How long an executor that was killed a moment ago may take to be gone, and how often that is looked at.
const PATIENCE: Duration = Duration::from_secs(2);
const BREATH: Duration = Duration::from_millis(20);

/// The data folder.
#[derive(Debug)]
pub(crate) struct Store {
    root: PathBuf,
    removed: u64,
    /// Locked as long as this process lives.
    _lock: File,
}

/// Why the data folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It cannot be made, read or written.
    #[error("the data folder {path}: {source}")]
    Unusable {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another executor has it.
    #[error("the data folder {path} is another executor's; give each its own with --data-dir")]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// Its file system cannot do what a start is claimed with.
    #[error(
        "the data folder {path}: its file system has no hard links ({source}); choose another with --data-dir"
    )]
    NoLinks {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl Store {
    /// Makes the folder if there is none, and finishes what a crash left half removed.
    pub(crate) fn open(root: &Path) -> Result<Self, StoreError> {
        let unusable = |source| StoreError::Unusable { path: root.to_owned(), source };
        fs::create_dir_all(root).map_err(unusable)?;
        let root = root.canonicalize().map_err(unusable)?;
        let lock = File::create(root.join(LOCK)).map_err(unusable)?;
        let deadline = Instant::now() + PATIENCE;
        // Where there are no locks, two executors are not told apart.
        while flock(&lock, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
            if Instant::now() >= deadline {
                return Err(StoreError::InUse { path: root });
            }
            std::thread::park_timeout(BREATH);
        }
        let trash = root.join(TRASH);
        fs::create_dir_all(&trash).map_err(unusable)?;
        empty(&trash);
        let (one, two) = (trash.join("one"), trash.join("two"));
        fs::write(&one, "").map_err(unusable)?;
        fs::hard_link(&one, &two).map_err(|source| StoreError::NoLinks { path: root.clone(), source })?;
        fs::remove_file(&one).and_then(|()| fs::remove_file(&two)).map_err(unusable)?;
        Ok(Self { root, removed: 0, _lock: lock })
    }

    /// The folder of a task. The name has been checked.
    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Makes the folder of a task that is not there yet, with its file. If that fails there is no folder.
    pub(crate) fn create(&mut self, record: &Record) -> io::Result<()> {
        fs::create_dir(self.folder(&record.name))?;
        failpoint("create.folder-made");
        let written = self.save(record).and_then(|()| sync(&self.root));
        if written.is_err()
            && let Err(error) = self.remove(&record.name)
        {
            tracing::warn!(task = record.name, "its folder cannot be removed: {error}");
        }
        written
    }

    /// Writes the file of a task.
    pub(crate) fn save(&self, record: &Record) -> io::Result<()> {
        fault("save.task")?;
        replace(&self.folder(&record.name), TASK, &serde_json::to_vec_pretty(record)?)
    }

    /// Removes a task with everything in its folder. It is removed once the folder is moved away: what
    /// fails after that is no error, as to do it again would find no folder.
    pub(crate) fn remove(&mut self, name: &str) -> io::Result<()> {
        let trash = self.root.join(TRASH);
        let place = loop {
            self.removed += 1;
            let place = trash.join(self.removed.to_string());
            if !place.try_exists()? {
                break place;
            }
        };
        match fs::rename(self.folder(name), place) {
            Err(_) if !self.folder(name).try_exists()? => return Ok(()),
            moved => moved?,
        }
        if let Err(error) = sync(&self.root) {
            tracing::warn!(task = name, "its removal may not outlive the machine: {error}");
        }
        failpoint("remove.moved");
        empty(&trash);
        Ok(())
    }

    /// Every task in the folder. One that cannot be read stays where it is, and its name is not free.
    pub(crate) fn load(&self) -> io::Result<Vec<Record>> {
        let mut records = Vec::new();
        for entry in fs::read_dir(&self.root)? {
            let entry = entry?;
            let Some(name) = entry.file_name().to_str().map(str::to_owned) else { continue };
            if name.starts_with('.') || !entry.file_type()?.is_dir() {
                continue;
            }
            match self.load_one(&name) {
                Ok(Some(record)) => records.push(record),
                Ok(None) => tracing::info!("task {name} had not been accepted: its empty folder is removed"),
                Err(error) => {
                    tracing::warn!("the folder {name} has no readable task.json and is left alone: {error}");
                }
            }
        }
        records.sort_by(|a, b| (a.sandgate.sequence, &a.name).cmp(&(b.sandgate.sequence, &b.name)));
        Ok(records)
    }

    fn load_one(&self, name: &str) -> io::Result<Option<Record>> {
        let folder = self.folder(name);
        match fs::read(folder.join(TASK)) {
            Ok(text) => {
                let record: Record = serde_json::from_slice(&text)?;
                if record.name != name {
                    return Err(io::Error::other(format!("it is of a task {:?}", record.name)));
                }
                Ok(Some(record))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // Nothing but what a crash while the task was accepted leaves: a folder of someone else is
                // no task.
                remove_if_there(&folder.join(temporary(TASK)))?;
                fs::remove_dir(&folder)?;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The tasks that wait until another has ended.
    pub(crate) fn load_queue(&self) -> io::Result<Vec<Task>> {
        match fs::read(self.root.join(QUEUE)) {
            Ok(text) => Ok(serde_json::from_slice(&text)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Writes them.
    pub(crate) fn save_queue(&self, queue: &[Task]) -> io::Result<()> {
        if queue.is_empty() {
            remove_if_there(&self.root.join(QUEUE))?;
            return sync(&self.root);
        }
        fault("save.queue")?;
        replace(&self.root, QUEUE, &serde_json::to_vec_pretty(queue)?)
    }
}

/// Deletes what it can of what is in the trash.
fn empty(trash: &Path) {
    let deleted = |entry: io::Result<fs::DirEntry>| {
        fault("remove.emptying")?;
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())
        } else {
            fs::remove_file(entry.path())
        }
    };
    match fs::read_dir(trash) {
        Ok(entries) => {
            for error in entries.filter_map(|entry| deleted(entry).err()) {
                tracing::warn!("left in {} until the next removal: {error}", trash.display());
            }
        }
        Err(error) => tracing::warn!("{} cannot be read: {error}", trash.display()),
    }
}

fn temporary(name: &str) -> String {
    format!("{name}.tmp")
}

fn replace(folder: &Path, name: &str, content: &[u8]) -> io::Result<()> {
    let written = folder.join(temporary(name));
    let mut file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o644).open(&written)?;
    file.write_all(content)?;
    file.sync_all()?;
    failpoint("save.written");
    fs::rename(&written, folder.join(name))?;
    sync(folder)
}

fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use sandgate_executor_wire::Task;

    use super::Store;
    use crate::record::Record;

    fn record(name: &str, sequence: u64) -> Record {
        Record::new(Task { name: name.to_owned(), ..Task::default() }, sequence)
    }

    fn opened() -> (tempfile::TempDir, Store) {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("made/on/the/way")).unwrap();
        (folder, store)
    }

    #[test]
    fn a_task_is_created_read_changed_and_removed() {
        let (_folder, mut store) = opened();
        let mut kept = record("a", 1);
        store.create(&kept).unwrap();
        assert_eq!(store.load().unwrap(), [kept.clone()]);
        kept.sandgate.timed_out_at = Some(jiff::Timestamp::UNIX_EPOCH);
        store.save(&kept).unwrap();
        assert_eq!(store.load().unwrap(), [kept]);
        store.remove("a").unwrap();
        assert!(store.load().unwrap().is_empty());
        assert!(!store.folder("a").exists());
    }

    #[test]
    fn a_folder_that_exists_is_not_taken() {
        let (_folder, mut store) = opened();
        fs::create_dir(store.folder("a")).unwrap();
        assert_eq!(store.create(&record("a", 1)).unwrap_err().kind(), std::io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn the_file_is_indented_and_everybody_may_read_it() {
        let (_folder, mut store) = opened();
        store.create(&record("a", 1)).unwrap();
        let path = store.folder("a").join("task.json");
        assert!(fs::read_to_string(&path).unwrap().starts_with("{\n  \"name\": \"a\",\n"));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o644);
    }

    #[test]
    fn tasks_are_listed_in_the_order_of_their_creation() {
        let (_folder, mut store) = opened();
        for (name, sequence) in [("b", 1), ("c", 2), ("a", 3)] {
            store.create(&record(name, sequence)).unwrap();
        }
        let names: Vec<_> = store.load().unwrap().into_iter().map(|record| record.name).collect();
        assert_eq!(names, ["b", "c", "a"]);
    }

    #[test]
    fn a_task_whose_file_was_not_complete_was_never_accepted() {
        let (_folder, store) = opened();
        fs::create_dir(store.folder("a")).unwrap();
        fs::write(store.folder("a").join("task.json.tmp"), "{").unwrap();
        assert!(store.load().unwrap().is_empty());
        assert!(!store.folder("a").exists());
    }

    #[test]
    fn a_folder_of_someone_else_is_left_alone() {
        let (_folder, store) = opened();
        fs::create_dir(store.folder("photos")).unwrap();
        fs::write(store.folder("photos").join("1.jpg"), "x").unwrap();
        fs::create_dir(store.folder("broken")).unwrap();
        fs::write(store.folder("broken").join("task.json"), "{").unwrap();
        assert!(store.load().unwrap().is_empty());
        assert!(store.folder("photos").join("1.jpg").exists());
        assert!(store.folder("broken").join("task.json").exists());
    }

    #[test]
    fn a_removal_that_was_cut_is_finished() {
        let (folder, store) = opened();
        let root = folder.path().join("made/on/the/way");
        fs::create_dir_all(root.join(".trash/1/deep")).unwrap();
        drop(store);
        Store::open(&root).unwrap();
        assert_eq!(fs::read_dir(root.join(".trash")).unwrap().count(), 0);
    }

    #[test]
    fn the_queue_is_kept_in_order_and_an_empty_one_is_no_file() {
        let (folder, store) = opened();
        assert!(store.load_queue().unwrap().is_empty());
        let queue = ["b", "a"].map(|name| Task { name: name.to_owned(), ..Task::default() });
        store.save_queue(&queue).unwrap();
        assert_eq!(store.load_queue().unwrap(), queue);
        store.save_queue(&[]).unwrap();
        assert!(!folder.path().join("made/on/the/way/.queue.json").exists());
    }
}
