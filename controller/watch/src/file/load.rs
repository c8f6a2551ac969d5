//! From the file on disk to the table.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Read as _};
use std::num::NonZeroU64;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::ArcSwap;
use sandgate_routes::{Capability, Fate, Observation, Outcome, RouteWriter, Scope, Version, verdict};

use super::check::{Doubt, Doubts};
use super::error::Place;
use super::parse::parse_at_most;
use super::{FileError, Format, MAX_BYTES, MAX_ROUTES, PROVIDER, parse_routes};

/// What a [`FileSource`](super::FileSource) last did. A new value replaces the old one as a whole, after the
/// table has changed, so a reader never sees a count that is ahead of the table.
#[derive(Clone, Debug, Default)]
pub struct FileStatus {
    /// The file, as it was given.
    pub path: PathBuf,
    /// How many loads went into the table: 0 before the first. Also the version of every route of the last
    /// one.
    pub generation: u64,
    /// Routes of the last good load that are in the table.
    pub routes: usize,
    /// When the last good load was complete.
    pub loaded_at: Option<SystemTime>,
    /// Why the file as it is now is not what the table has. `None` when it is.
    pub error: Option<String>,
    /// The first unknown state of the file as it is in the table. The route is kept and not served.
    pub warning: Option<String>,
    /// Good loads since the start.
    pub loads_ok: u64,
    /// Failed loads since the start. The same content is counted once.
    pub loads_failed: u64,
}

/// What makes the loader read the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trigger {
    /// The start, or an event of the file system: read the file.
    Event,
    /// The poll: read the file if its metadata changed.
    Poll,
}

/// What the last read found. An equal finding is not dealt with again.
#[derive(Debug, PartialEq, Eq)]
enum Finding {
    Content(u64),
    /// Read again at every trigger. The kind is kept so that one error is reported once.
    Unreadable(io::ErrorKind),
    NotAFile,
    TooLarge,
}

/// Device, inode, length, time of change of the content and of the inode.
type Signature = (u64, u64, u64, (i64, i64), (i64, i64));

pub(super) struct Loader {
    path: PathBuf,
    writer: RouteWriter,
    pub(super) status: FileStatusReader,
    pub(super) on_status: Box<dyn Fn(&FileStatus) + Send>,
    pub(super) on_first_load: Option<Box<dyn FnOnce() + Send>>,
    /// Loads that reached the table, complete or not: a version is never used twice.
    begun: u64,
    finding: Option<Finding>,
    signature: Option<Signature>,
    /// How the file is read.
    pub(super) read: Read,
}

type Read = Box<dyn FnMut(&Path) -> Result<Vec<u8>, FileError> + Send>;

impl Loader {
    pub(super) fn new(path: PathBuf, writer: RouteWriter) -> Self {
        let status = FileStatus { path: path.clone(), ..FileStatus::default() };
        let status = FileStatusReader(Arc::new(ArcSwap::from_pointee(status)));
        let on_status = Box::new(|_: &FileStatus| ());
        Loader {
            path,
            writer,
            status,
            on_status,
            on_first_load: None,
            begun: 0,
            finding: None,
            signature: None,
            read: Box::new(read),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn check(&mut self, trigger: Trigger) {
        let signature = fs::metadata(&self.path).ok().as_ref().map(signature);
        // A read error says nothing about the content. It may pass without a change of the metadata.
        let known = !matches!(self.finding, None | Some(Finding::Unreadable(_)));
        if trigger == Trigger::Poll && signature == self.signature && known {
            return;
        }
        self.signature = signature;
        let content = (self.read)(&self.path);
        let finding = match &content {
            Ok(content) => Finding::Content(fingerprint(content)),
            Err(FileError::Read(error)) => Finding::Unreadable(error.kind()),
            Err(FileError::TooLarge) => Finding::TooLarge,
            Err(_) => Finding::NotAFile,
        };
        if self.finding.as_ref() == Some(&finding) {
            return;
        }
        self.finding = Some(finding);
        match content.and_then(|content| self.load(&content)) {
            Ok((generation, routes, doubts)) => self.loaded(generation, routes, &doubts),
            Err(error) => self.failed(error.to_string(), error.place()),
        }
    }

    fn load(&mut self, content: &[u8]) -> Result<(u64, usize, Doubts), FileError> {
        let generation = self.begun + 1;
        let version = version(generation);
        let format = Format::of(&self.path, content);
        let (observations, doubts) = parse_at_most::<MAX_ROUTES>(content, format, &version)?;
        let kept = observations.iter().filter(|o| is_kept(o)).count();

        self.begun = generation;
        let scope = Scope::new(PROVIDER, None, &self.path.to_string_lossy());
        let mut relist = self.writer.begin_relist(scope, version);
        for observation in observations {
            let at = observation.key.to_string();
            if let Outcome::Invalid(why) = relist.observe(observation) {
                return Err(FileError::Refused(format!("{at}: {why}")));
            }
        }
        relist.commit();
        Ok((generation, kept, doubts))
    }

    fn loaded(&mut self, generation: u64, routes: usize, doubts: &Doubts) {
        let old = self.status.load();
        let warning = self.warn(doubts);
        self.announce(FileStatus {
            generation,
            routes,
            loaded_at: Some(SystemTime::now()),
            error: None,
            warning,
            loads_ok: old.loads_ok + 1,
            ..(*old).clone()
        });
        let plural = if routes == 1 { "" } else { "s" };
        tracing::info!(
            "routes file {}: load {generation} is in, {routes} route{plural}",
            self.path.display()
        );
        if let Some(hook) = self.on_first_load.take() {
            hook();
        }
    }

    /// Logs the unknown states of a loaded file, and returns the first for the status.
    fn warn(&self, doubts: &Doubts) -> Option<String> {
        let path = self.path.display();
        for Doubt { place, text } in &doubts.first {
            let (line, column) = place.map(|place| (place.line, place.column)).unzip();
            tracing::warn!(line, column, "routes file {path}: {}", placed(*place, text));
        }
        let more = doubts.count.saturating_sub(doubts.first.len());
        if more > 0 {
            tracing::warn!("routes file {path}: and {more} more unknown states");
        }
        let first = doubts.first.first()?;
        let more = if doubts.count > 1 { format!(", and {} more", doubts.count - 1) } else { String::new() };
        Some(format!("{}{more}", placed(first.place, &first.text)))
    }

    fn failed(&self, error: String, place: Option<(u64, u64)>) {
        let old = self.status.load();
        let (line, column) = place.unzip();
        tracing::error!(
            line,
            column,
            "routes file {}: {error}; the table stays as of load {}, with {} routes",
            self.path.display(),
            old.generation,
            old.routes
        );
        self.announce(FileStatus {
            error: Some(error),
            loads_failed: old.loads_failed + 1,
            ..(*old).clone()
        });
    }

    pub(super) fn panicked(&mut self) {
        self.failed("could not be loaded: internal error".to_owned(), None);
    }

    fn announce(&self, status: FileStatus) {
        let status = Arc::new(status);
        self.status.0.store(Arc::clone(&status));
        (self.on_status)(&status);
    }
}

fn placed(place: Option<Place>, text: &str) -> String {
    match place {
        Some(Place { line, column }) => format!("{line}:{column}: {text}"),
        None => text.to_owned(),
    }
}

fn version(generation: u64) -> Version {
    Version::from(NonZeroU64::new(generation).unwrap_or(NonZeroU64::MIN))
}

fn is_kept(observation: &Observation) -> bool {
    verdict(observation.state, Capability { wake: false }).fate == Fate::Keep
}

fn signature(found: &fs::Metadata) -> Signature {
    let modified = (found.mtime(), found.mtime_nsec());
    let changed = (found.ctime(), found.ctime_nsec());
    (found.dev(), found.ino(), found.len(), modified, changed)
}

fn fingerprint(content: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write_usize(content.len());
    hasher.write(content);
    hasher.finish()
}

/// Reads the file, and again if it changed meanwhile, so as not to mix two versions.
fn read(path: &Path) -> Result<Vec<u8>, FileError> {
    let mut tries = 5;
    loop {
        // Checked before the file is opened: opening a pipe would wait for a writer.
        if !fs::metadata(path)?.is_file() {
            return Err(FileError::NotAFile);
        }
        let mut file = File::open(path)?;
        let before = signature(&file.metadata()?);
        let mut content = Vec::new();
        (&mut file).take(MAX_BYTES as u64 + 1).read_to_end(&mut content)?;
        if content.len() > MAX_BYTES {
            return Err(FileError::TooLarge);
        }
        tries -= 1;
        if tries == 0 || signature(&file.metadata()?) == before {
            return Ok(content);
        }
    }
}

/// Reads a routes file once, as a first load would, for tools that check a file without serving it.
///
/// # Errors
/// What would keep a gateway from loading it.
pub fn read_routes(path: &Path) -> Result<Vec<Observation>, FileError> {
    let content = read(path)?;
    parse_routes(&content, Format::of(path, &content), &version(1))
}

/// A view of a source's status for other threads. Reading it takes no lock.
#[derive(Clone, Debug)]
pub struct FileStatusReader(Arc<ArcSwap<FileStatus>>);

impl FileStatusReader {
    /// The status as it is now.
    pub fn load(&self) -> Arc<FileStatus> {
        self.0.load_full()
    }
}
