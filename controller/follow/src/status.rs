//! The status of a follower, for other threads to read without a lock.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;

/// How many unreadable objects are remembered by name.
const MAX_NAMES: usize = 10;

/// What a follower is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FollowState {
    /// Nothing was requested yet, or another follower is listing.
    #[default]
    Starting,
    /// The API server does not know the resource: its CRD is not installed.
    WaitingForResource,
    /// A list is being read.
    Listing,
    /// The sink follows the cluster.
    Watching,
    /// Something failed and will be retried.
    BackingOff,
}

impl FollowState {
    /// A fixed name, for pages and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::WaitingForResource => "waiting-for-crd",
            Self::Listing => "listing",
            Self::Watching => "watching",
            Self::BackingOff => "backing-off",
        }
    }
}

impl fmt::Display for FollowState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// How a list is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListMode {
    /// As the start of a watch.
    Streaming,
    /// Page by page.
    Paged,
}

impl ListMode {
    /// A fixed name, for pages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Streaming => "streaming",
            Self::Paged => "paged",
        }
    }
}

/// The status of one follower at one moment.
#[derive(Clone, Debug, Default)]
pub struct FollowStatus {
    /// What it is doing.
    pub state: FollowState,
    /// Whether a complete list was ever committed.
    pub listed: bool,
    /// How the last list was read.
    pub mode: Option<ListMode>,
    /// Complete lists that were committed.
    pub lists: u64,
    /// Objects that the API server has, as of the last event.
    pub objects: u64,
    /// Events since the start.
    pub events: u64,
    /// When the last event arrived.
    pub last_event: Option<SystemTime>,
    /// When the API server last sent anything, bookmarks included.
    pub last_contact: Option<SystemTime>,
    /// Why the follower is not watching; none when it is.
    pub error: Option<Arc<str>>,
    /// When it began to watch, or to watch again after a failure.
    pub watching_since: Option<SystemTime>,
    /// Objects that could not be used, counted each time.
    pub unreadable: u64,
    /// The last of them, each with the reason.
    pub unreadable_names: VecDeque<Arc<str>>,
    /// How often the API server's versions went back.
    pub rewinds: u64,
    /// Objects that the sink has held back since then, because it knows a newer version of them.
    pub held_back: u64,
}

impl FollowStatus {
    /// The time since the last contact with the API server; since 1970 if there was none.
    pub fn contact_age(&self) -> Duration {
        SystemTime::now().duration_since(self.last_contact.unwrap_or(UNIX_EPOCH)).unwrap_or_default()
    }

    /// Whether the sink follows the cluster now.
    pub fn is_up(&self) -> bool {
        self.listed && matches!(self.state, FollowState::Watching)
    }
}

/// The status of one follower: one task writes, any thread reads. The values that change with every event are
/// beside the rest, so that an event copies nothing.
#[derive(Default)]
pub struct StatusCell {
    slow: ArcSwap<FollowStatus>,
    objects: AtomicU64,
    events: AtomicU64,
    last_event: AtomicU64,
    last_contact: AtomicU64,
}

impl fmt::Debug for StatusCell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.load().fmt(f)
    }
}

impl StatusCell {
    /// The status as it is now.
    pub fn load(&self) -> FollowStatus {
        FollowStatus {
            objects: self.objects.load(Ordering::Relaxed),
            events: self.events.load(Ordering::Relaxed),
            last_event: from_millis(self.last_event.load(Ordering::Relaxed)),
            last_contact: from_millis(self.last_contact.load(Ordering::Relaxed)),
            ..(**self.slow.load()).clone()
        }
    }

    /// Whether a complete list was ever committed.
    pub fn is_listed(&self) -> bool {
        self.slow.load().listed
    }

    /// Sets the state to `Starting`, before the first follower or after a run that ended.
    pub fn restart(&self) {
        self.update(|status| status.state = FollowState::Starting);
    }

    /// Changes the slow part. Only the follower's task may call this, or whoever starts it.
    pub(crate) fn update(&self, change: impl FnOnce(&mut FollowStatus)) {
        let mut status = (**self.slow.load()).clone();
        change(&mut status);
        self.slow.store(Arc::new(status));
    }

    pub(crate) fn contact(&self) {
        self.last_contact.store(millis(), Ordering::Relaxed);
    }

    pub(crate) fn event(&self) {
        self.events.fetch_add(1, Ordering::Relaxed);
        self.last_event.store(millis(), Ordering::Relaxed);
    }

    pub(crate) fn set_objects(&self, objects: u64) {
        self.objects.store(objects, Ordering::Relaxed);
    }

    pub(crate) fn unreadable(&self, what: &str) {
        self.update(|status| {
            status.unreadable += 1;
            if status.unreadable_names.len() == MAX_NAMES {
                status.unreadable_names.pop_front();
            }
            status.unreadable_names.push_back(what.into());
        });
    }
}

fn millis() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn from_millis(millis: u64) -> Option<SystemTime> {
    (millis > 0).then(|| UNIX_EPOCH + Duration::from_millis(millis))
}
