//! The tasks, and what is done with them. One thread owns this; see [`crate::actor`].
//!
//! # Desired tasks
//! [`Manager::set`] takes the tasks that shall exist. One that is not among them is deleted: it is stopped,
//! and then its folder is removed. One that does not exist is started if no other task is active. A task is
//! active until its processes are gone, also while it is deleted or its timeout has passed.
//!
//! What cannot start yet waits in the queue, in the order of the list: a second desired task until the
//! first has ended, and a task whose namesake is still being deleted until that is gone. The queue is on
//! the disk before the answer is given.
//!
//! A task in the queue's file that exists has left the queue. So the file is written before a task is marked
//! as deleted: an older one could name the task, which would run again when it is gone.
//!
//! # A disk that cannot be written
//! What is new is refused. What exists is stopped all the same, by its deletion or its timeout: its mark is
//! in memory at first, and is written as soon as that works. An answer says that a task is deleted only if
//! the mark is on the disk.

mod check;
mod look;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use sandgate_executor_wire::Task;

use crate::failpoint::failpoint;
use crate::launch::launch;
use crate::record::{Record, State};
use crate::shim::Word;
use crate::start::{self, Started};
use crate::status;
use crate::store::{Store, StoreError};

/// How many tasks are kept, finished ones too. A pod runs one at a time.
const MOST_TASKS: usize = 64;
/// When what failed is tried again.
const RETRY: Duration = Duration::from_secs(2);

/// How the manager works.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) data_dir: PathBuf,
    /// In sidecar mode: the main container.
    pub(crate) main_container: Option<String>,
    /// How long a process may take after SIGTERM.
    pub(crate) grace: Duration,
}

/// A moment on both clocks: the time of day is for people and files, the other one for waiting.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) now: Timestamp,
    pub(crate) instant: Instant,
}

/// Why a command was not carried out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refused {
    #[error("{0}")]
    Invalid(String),
    #[error("{0}")]
    Unsupported(String),
    #[error("task {0} already exists")]
    Exists(String),
    #[error("maximum concurrent tasks (1) reached, cannot create new task")]
    Busy,
    #[error("{MOST_TASKS} tasks are kept already; delete finished ones")]
    Full,
    #[error("failed to start task: {0}")]
    Start(String),
    #[error("failed to persist task: {0}")]
    Disk(#[from] io::Error),
    #[error("{0}")]
    Several(String),
}

/// A task and what is only in memory.
#[derive(Debug)]
struct Entry {
    record: Record,
    /// When the record is written again, if it could not be.
    unsaved: Option<Instant>,
    /// Who has claimed its start, once that has been read: it does not change.
    started: Option<Started>,
    /// Since when it is being stopped.
    stopping: Option<Instant>,
    /// Why its shim could not start the command.
    hindrance: Option<String>,
    /// When to try what failed again.
    retry_at: Option<Instant>,
}

impl Entry {
    fn new(record: Record) -> Self {
        Self { record, unsaved: None, started: None, stopping: None, hindrance: None, retry_at: None }
    }

    /// Writes the record. If that fails, what is in memory counts until it is written.
    fn keep(&mut self, store: &Store, now: Instant) -> io::Result<()> {
        let saved = store.save(&self.record);
        self.unsaved = saved.is_err().then(|| now + RETRY);
        saved
    }

    /// Whether no other task may start: until it has ended, and if it is to be deleted until it is gone.
    fn is_active(&self) -> bool {
        !self.record.status.state.is_final() || self.record.is_deleting()
    }
}

/// All tasks of a data folder.
#[derive(Debug)]
pub(crate) struct Manager {
    settings: Settings,
    store: Store,
    tasks: BTreeMap<String, Entry>,
    queue: Vec<Task>,
    /// The queue as it is on the disk, and when it is written again if it could not be.
    queue_kept: Vec<Task>,
    queue_unsaved: Option<Instant>,
    sequence: u64,
}

impl Manager {
    /// The tasks that an earlier executor left. Nothing is started here; see [`Manager::look`].
    pub(crate) fn recover(settings: Settings, now: Timestamp) -> Result<Self, StoreError> {
        let mut store = Store::open(&settings.data_dir)?;
        let unusable = |source| StoreError::Unusable { path: settings.data_dir.clone(), source };
        let mut tasks = BTreeMap::new();
        let mut sequence = 0;
        for mut record in store.load().map_err(unusable)? {
            let folder = store.folder(&record.name);
            if matches!(start::read(&folder), Ok(Some(started)) if started.is_cancelled()) {
                // It was refused, and the executor died before it had removed it.
                store.remove(&record.name).map_err(unusable)?;
                continue;
            }
            if record.status.state == State::Timeout {
                record.sandgate.timed_out_at.get_or_insert(now);
            }
            tracing::info!(task = record.name, state = ?record.status.state, "recovered");
            sequence = sequence.max(record.sandgate.sequence);
            tasks.insert(record.name.clone(), Entry::new(record));
        }
        let queue_kept = store.load_queue().map_err(unusable)?;
        // A task that is there has left the queue, and the executor died before that was written.
        let waits =
            |task: &&Task| tasks.get(&task.name).is_none_or(|entry: &Entry| entry.record.is_deleting());
        let queue = queue_kept.iter().filter(waits).cloned().collect();
        let mut manager = Self { settings, store, tasks, queue, queue_kept, queue_unsaved: None, sequence };
        if let Err(error) = manager.keep_queue() {
            tracing::warn!("{error}");
        }
        Ok(manager)
    }

    /// Every task: first those that shall exist, in the order of their creation, then those that wait, then
    /// those that are being deleted. A name is there once: a task that waits hides the namesake that it
    /// waits for.
    pub(crate) fn list(&self) -> Vec<Task> {
        let waits: BTreeSet<&str> = self.queue.iter().map(|task| task.name.as_str()).collect();
        let shown = self.tasks.values().filter(|entry| !waits.contains(entry.record.name.as_str()));
        let mut shown: Vec<&Entry> = shown.collect();
        shown.sort_by_key(|entry| (entry.record.is_deleting(), entry.record.sandgate.sequence));
        let split = shown.partition_point(|entry| !entry.record.is_deleting());
        let answer = |entry: &&Entry| status::answer(&entry.record, entry.hindrance.as_deref());
        let wanted = shown[..split].iter().map(answer);
        let waiting = self.queue.iter().map(|task| self.waiting(task));
        wanted.chain(waiting).chain(shown[split..].iter().map(answer)).collect()
    }

    fn waiting(&self, task: &Task) -> Task {
        let behind = self.tasks.values().find(|entry| entry.is_active()).map(|entry| &entry.record.name);
        let message = behind
            .map_or_else(String::new, |name| format!("it starts when task {name} is gone or has ended"));
        let process_status = Some(status::waiting("Queued", message));
        Task { deletion_timestamp: None, process_status, pod_status: None, ..task.clone() }
    }

    /// One task.
    pub(crate) fn get(&self, name: &str) -> Option<Task> {
        if let Some(task) = self.queue.iter().find(|task| task.name == name) {
            return Some(self.waiting(task));
        }
        let entry = self.tasks.get(name)?;
        Some(status::answer(&entry.record, entry.hindrance.as_deref()))
    }

    /// Creates a task and starts it. It does not wait for another one: then it is refused.
    pub(crate) fn create(&mut self, task: Task) -> Result<Task, Refused> {
        check::task(&task)?;
        let name = task.name.clone();
        if self.get(&name).is_some() {
            return Err(Refused::Exists(name));
        }
        if !self.queue.is_empty() || self.tasks.values().any(Entry::is_active) {
            return Err(Refused::Busy);
        }
        self.begin(task)?;
        self.start_or_undo(&name)?;
        Ok(self.get(&name).unwrap_or_default())
    }

    /// Makes these the desired tasks.
    ///
    /// What is wrong with one of them is found before anything is changed. If a task cannot be started or
    /// marked, the others are seen to all the same.
    pub(crate) fn set(&mut self, wanted: Vec<Task>, at: Moment) -> Result<(), Refused> {
        let wanted: Vec<Task> = wanted.into_iter().filter(|task| !task.name.is_empty()).collect();
        check::list(&wanted)?;
        let names: BTreeSet<&str> = wanted.iter().map(|task| task.name.as_str()).collect();
        let absent = self.tasks.keys().filter(|name| !names.contains(name.as_str())).cloned();
        let absent: Vec<String> = absent.collect();
        let waits = |task: &Task| self.tasks.get(&task.name).is_none_or(|entry| entry.record.is_deleting());
        self.queue = wanted.into_iter().filter(waits).collect();
        let mut failed = Vec::new();
        if let Err(error) = self.mark_deleted(&absent, at) {
            failed.push(error.to_string());
        }
        failpoint("set.marked");
        while let Some(name) = self.next_of_queue() {
            let begun = name.and_then(|name| self.start_or_undo(&name).map_err(|error| (name, error)));
            if let Err((name, error)) = begun {
                failed.push(format!("failed to create task {name}: {error}"));
            }
        }
        if let Err(error) = self.keep_queue() {
            failed.push(error.to_string());
        }
        failpoint("set.queue-kept");
        if failed.is_empty() { Ok(()) } else { Err(Refused::Several(failed.join("; "))) }
    }

    /// Asks for the deletion of a task. None of this name is no error.
    pub(crate) fn delete(&mut self, name: &str, at: Moment) -> Result<(), Refused> {
        self.queue.retain(|task| task.name != name);
        let marked = self.mark_deleted(&[name.to_owned()], at);
        self.keep_queue()?;
        marked
    }

    /// Marks these tasks, which are not in the queue, as deleted. An error says that a mark, now or earlier,
    /// is not on the disk yet.
    fn mark_deleted(&mut self, names: &[String], at: Moment) -> Result<(), Refused> {
        self.keep_queue_without(names)?;
        for name in names {
            let entry = self.tasks.get_mut(name).filter(|entry| !entry.record.is_deleting());
            if let Some(entry) = entry {
                entry.record.deletion_timestamp = Some(at.now);
                entry.unsaved = Some(at.instant);
                tracing::info!(task = name, "deletion asked for");
            }
        }
        let mut marked = Ok(());
        for entry in self.tasks.values_mut() {
            if entry.record.is_deleting() && entry.unsaved.is_some() {
                match entry.keep(&self.store, at.instant) {
                    Ok(()) => failpoint("delete.marked"),
                    Err(error) => marked = Err(error.into()),
                }
            }
        }
        marked
    }

    /// Writes the queue before these tasks leave. Where there is no room for it, no queue is written, which
    /// needs none.
    fn keep_queue_without(&mut self, names: &[String]) -> Result<(), Refused> {
        if names.is_empty() || self.keep_queue().is_ok() {
            return Ok(());
        }
        if self.queue_kept.iter().any(|task| names.contains(&task.name)) {
            self.store.save_queue(&[])?;
            self.queue_kept.clear();
        }
        Ok(())
    }

    /// Takes the first task out of the queue, if it can start, and writes it to the disk.
    #[allow(clippy::type_complexity, reason = "the name is needed in both cases")]
    fn next_of_queue(&mut self) -> Option<Result<String, (String, Refused)>> {
        let first = self.queue.first()?;
        if self.tasks.contains_key(&first.name) || self.tasks.values().any(Entry::is_active) {
            return None;
        }
        let task = self.queue.remove(0);
        let name = task.name.clone();
        Some(self.begin(task).map(|()| name.clone()).map_err(|error| (name, error)))
    }

    fn keep_queue(&mut self) -> Result<(), Refused> {
        if self.queue != self.queue_kept {
            self.store.save_queue(&self.queue)?;
            self.queue_kept.clone_from(&self.queue);
        }
        Ok(())
    }

    /// Writes a task to the disk. From here on it is run, whatever happens to the executor.
    fn begin(&mut self, task: Task) -> Result<(), Refused> {
        if self.tasks.len() >= MOST_TASKS {
            return Err(Refused::Full);
        }
        let record = Record::new(task, self.sequence + 1);
        match self.store.create(&record) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(Refused::Exists(record.name));
            }
            created => created?,
        }
        failpoint("create.kept");
        self.sequence += 1;
        self.tasks.insert(record.name.clone(), Entry::new(record));
        Ok(())
    }

    /// Starts a task, or removes it if it cannot start.
    fn start_or_undo(&mut self, name: &str) -> Result<(), Refused> {
        let folder = self.store.folder(name);
        let word = launch(&folder, self.settings.main_container.as_deref());
        failpoint("start.told");
        let Some(Word::Failed(why)) = word else {
            tracing::info!(task = name, "started");
            return Ok(());
        };
        // A shim of an earlier executor may have started it all the same.
        if start::cancel(&folder, crate::clock::now())? {
            failpoint("undo.cancelled");
            self.store.remove(name)?;
            self.tasks.remove(name);
            tracing::warn!(task = name, "not started: {why}");
            return Err(Refused::Start(why));
        }
        Ok(())
    }
}
