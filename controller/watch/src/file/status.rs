use std::path::PathBuf;
use std::time::SystemTime;

/// What a [`FileSource`](super::FileSource) last did. A new value replaces the old one as a whole, after the table
/// has been changed, so a reader never sees a count that the table does not have yet.
#[derive(Clone, Debug)]
pub struct FileStatus {
    /// The file, as it was given.
    pub path: PathBuf,
    /// How many loads went into the table: 0 before the first. Also the version of every route of the last one.
    pub generation: u64,
    /// Routes of the last good load that are in the table.
    pub routes: usize,
    /// When the last good load was taken over.
    pub loaded_at: Option<SystemTime>,
    /// Why the file as it is now is not what the table has. `None` when it is.
    pub error: Option<String>,
    /// What is odd about the file as it is in the table: a state that is none of ours, whose route is known and not served.
    pub warning: Option<String>,
    /// Loads taken over since the start.
    pub loads_ok: u64,
    /// Loads refused since the start, each content counted once.
    pub loads_failed: u64,
}

impl FileStatus {
    pub(super) fn new(path: PathBuf) -> Self {
        FileStatus {
            path,
            generation: 0,
            routes: 0,
            loaded_at: None,
            error: None,
            warning: None,
            loads_ok: 0,
            loads_failed: 0,
        }
    }
}
