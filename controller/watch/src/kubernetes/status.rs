//! What the watch has to say about itself, for other threads to read without a lock.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;

/// How many objects that could not be read are remembered by name.
const NAMES: usize = 10;

/// What a scope is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScopeState {
    /// Nothing has been asked yet, or another scope is listing.
    Starting,
    /// The cluster does not know the resource: its CRD is not installed.
    WaitingForResource,
    /// A list is being read.
    Listing,
    /// The table follows the cluster.
    Watching,
    /// Something failed and will be tried again.
    BackingOff,
}

impl ScopeState {
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

impl fmt::Display for ScopeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// How the last list was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListMode {
    /// As the beginning of a watch.
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

/// One scope: a provider's objects in a namespace or all, that match a selector.
#[derive(Clone, Debug)]
pub struct ScopeStatus {
    /// The provider.
    pub provider: Arc<str>,
    /// The resource, as `plural.group/version`.
    pub resource: Arc<str>,
    /// The namespace; none is all.
    pub namespace: Option<Arc<str>>,
    /// The label selector; empty is every object.
    pub selector: Arc<str>,
    /// What it is doing.
    pub state: ScopeState,
    /// Whether a complete list has been in the table once.
    pub listed: bool,
    /// How the last list was read.
    pub mode: Option<ListMode>,
    /// Complete lists that are in the table.
    pub lists: u64,
    /// Objects the API server has, as of the last event.
    pub objects: u64,
    /// Events since the start.
    pub events: u64,
    /// When the last event came.
    pub last_event: Option<SystemTime>,
    /// When the API server was last heard of here: anything it sent, a bookmark too.
    pub last_contact: Option<SystemTime>,
    /// Why the scope is not watching; none when it is.
    pub error: Option<Arc<str>>,
    /// Objects that could not be read, counted each time.
    pub unreadable: u64,
    /// The last of them, each with what is wrong.
    pub unreadable_names: VecDeque<Arc<str>>,
    /// Observations whose address is outside the pod ranges, or none of one machine.
    pub outside: u64,
    /// How often the API server's versions went back.
    pub rewinds: u64,
    /// Objects not served since then, because the table knows a newer version of them.
    pub held_back: u64,
}

impl ScopeStatus {
    /// How long ago the API server was last heard of here; for a scope that never was, since the clock's beginning.
    pub fn contact_age(&self) -> Duration {
        SystemTime::now().duration_since(self.last_contact.unwrap_or(UNIX_EPOCH)).unwrap_or_default()
    }

    /// Whether the table follows the cluster now.
    pub fn is_up(&self) -> bool {
        self.listed && matches!(self.state, ScopeState::Watching)
    }
}

/// A view of a source's status for other threads. Reading it takes no lock.
#[derive(Clone, Debug)]
pub struct KubernetesStatusReader(pub(super) Arc<[Arc<StatusCell>]>);

impl KubernetesStatusReader {
    /// Every scope, as it is now.
    pub fn scopes(&self) -> Vec<ScopeStatus> {
        self.0.iter().map(|cell| cell.load()).collect()
    }

    /// Whether every scope's first complete list is in the table.
    pub fn is_complete(&self) -> bool {
        self.0.iter().all(|cell| cell.slow.load().listed)
    }
}

/// The status of one scope. What changes with every event is beside the rest, so that an event copies nothing.
pub(super) struct StatusCell {
    slow: ArcSwap<ScopeStatus>,
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
    pub(super) fn new(provider: &str, resource: String, namespace: Option<&str>, selector: &str) -> Self {
        StatusCell {
            slow: ArcSwap::from_pointee(ScopeStatus {
                provider: provider.into(),
                resource: resource.into(),
                namespace: namespace.map(Into::into),
                selector: selector.into(),
                state: ScopeState::Starting,
                listed: false,
                mode: None,
                lists: 0,
                objects: 0,
                events: 0,
                last_event: None,
                last_contact: None,
                error: None,
                unreadable: 0,
                unreadable_names: VecDeque::new(),
                outside: 0,
                rewinds: 0,
                held_back: 0,
            }),
            objects: AtomicU64::new(0),
            events: AtomicU64::new(0),
            last_event: AtomicU64::new(0),
            last_contact: AtomicU64::new(0),
        }
    }

    pub(super) fn load(&self) -> ScopeStatus {
        let slow = self.slow.load();
        ScopeStatus {
            objects: self.objects.load(Ordering::Relaxed),
            events: self.events.load(Ordering::Relaxed),
            last_event: from_millis(self.last_event.load(Ordering::Relaxed)),
            last_contact: from_millis(self.last_contact.load(Ordering::Relaxed)),
            ..(**slow).clone()
        }
    }

    pub(super) fn resource(&self) -> Arc<str> {
        Arc::clone(&self.slow.load().resource)
    }

    /// Changes the rest. Only the scope's own task calls this.
    pub(super) fn update(&self, change: impl FnOnce(&mut ScopeStatus)) {
        let mut status = (**self.slow.load()).clone();
        change(&mut status);
        self.slow.store(Arc::new(status));
    }

    pub(super) fn contact(&self) {
        self.last_contact.store(millis(), Ordering::Relaxed);
    }

    pub(super) fn event(&self) {
        self.events.fetch_add(1, Ordering::Relaxed);
        self.last_event.store(millis(), Ordering::Relaxed);
    }

    pub(super) fn set_objects(&self, objects: u64) {
        self.objects.store(objects, Ordering::Relaxed);
    }

    pub(super) fn outside(&self) {
        self.update(|status| status.outside += 1);
    }

    pub(super) fn unreadable(&self, what: &str) {
        self.update(|status| {
            status.unreadable += 1;
            if status.unreadable_names.len() == NAMES {
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
