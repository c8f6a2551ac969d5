use std::path::PathBuf;
use std::time::SystemTime;

/// What a [`FileSource`](super::FileSource) last did. A new value replaces the old one as a whole, after the
/// table has changed, so a reader never sees a count that is ahead of the table.
#[derive(Clone, Debug)]
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
