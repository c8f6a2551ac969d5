//! What a cache is made of.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use kube::Client;
use parking_lot::{ReentrantMutex, RwLock};
use sandgate_follow::{Access, Api, Timing};

use super::hub::Hubs;
use super::run::{BeforeStart, Parts, Runs};
use super::turn::Turns;
use super::{Cache, Inner, Kept, Kind, PoolWatches, Shared};
use crate::selector::{Selector, SelectorError};
use crate::{Change, Clock, SystemClock};

/// How long [`Cache::start`] waits for the first lists.
const START: Duration = Duration::from_secs(60);
/// How long it waits for a kind that the API server does not know.
const ABSENT: Duration = Duration::from_secs(10);

/// Why a cache cannot be built. A retry does not help.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// A selector that the API server would refuse at every list.
    #[error(transparent)]
    Selector(#[from] SelectorError),
    /// The name of a namespace that no namespace has.
    #[error("{0:?} is not the name of a namespace")]
    Namespace(String),
}

/// The parts of a cache. Without an API server it is fed by hand, or by somebody else's watch.
#[derive(Default)]
pub struct CacheBuilder {
    client: Option<Client>,
    access: Option<Access>,
    api: Option<Arc<Api>>,
    timing: Timing,
    clock: Option<Arc<dyn Clock>>,
    namespace: Option<String>,
    selector: String,
    system_namespace: Option<String>,
    system_selector: String,
    without: BTreeSet<Kind>,
    environments: bool,
    start: Option<Duration>,
    absent: Option<Duration>,
    pub(crate) before_start: Option<BeforeStart>,
    hubs: Hubs,
}

impl CacheBuilder {
    /// The client of live reads, and of the followers if neither [`access`](Self::access) nor
    /// [`api`](Self::api) is given. A client never reads its credentials anew, so a process that lives long
    /// gives the access too.
    #[must_use]
    pub fn client(mut self, client: Client) -> Self {
        self.client = Some(client);
        self
    }

    /// Which cluster is followed, and with which credentials.
    #[must_use]
    pub fn access(mut self, access: Access) -> Self {
        self.access = Some(access);
        self
    }

    /// The connection of the followers, shared with others.
    #[must_use]
    pub fn api(mut self, api: Arc<Api>) -> Self {
        self.api = Some(api);
        self
    }

    /// The waits and bounds of the followers, where no [`api`](Self::api) is given.
    #[must_use]
    pub fn timing(mut self, timing: Timing) -> Self {
        self.timing = timing;
        self
    }

    /// The clock; the machine's if none is given.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// The one namespace of sandboxes, sets, templates, checkpoints and volume claims. All without it.
    #[must_use]
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// The label selector of sandboxes and sets. Checkpoints, templates and volume claims are not selected by
    /// it: whoever makes them for a sandbox or a set does not give them its labels. (OpenKruise selects all
    /// of them by it.)
    #[must_use]
    pub fn selector(mut self, selector: &str) -> Self {
        selector.clone_into(&mut self.selector);
        self
    }

    /// The namespace of the Secrets and ConfigMaps. Without it none are followed.
    #[must_use]
    pub fn system_namespace(mut self, namespace: &str) -> Self {
        self.system_namespace = Some(namespace.to_owned());
        self
    }

    /// The label selector of the Secrets and ConfigMaps.
    #[must_use]
    pub fn system_selector(mut self, selector: &str) -> Self {
        selector.clone_into(&mut self.system_selector);
        self
    }

    /// Follows scitix's environments too, their pools, and the pods of pools: all of the namespace, whatever
    /// the [`selector`](Self::selector). Without it nothing of these kinds is taken in.
    #[must_use]
    pub fn environments(mut self) -> Self {
        self.environments = true;
        self
    }

    /// Does not follow a kind: nothing of it is taken in, whoever brings it.
    #[must_use]
    pub fn without(mut self, kind: Kind) -> Self {
        self.without.insert(kind);
        self
    }

    /// How long [`Cache::start`] waits for the first lists (60 s), and for a kind that the API server does
    /// not know (10 s).
    #[must_use]
    pub fn start_within(mut self, all: Duration, absent: Duration) -> Self {
        (self.start, self.absent) = (Some(all), Some(absent));
        self
    }

    /// Calls `handler` for every change of a kind, with the object before and after it: in the order of the
    /// changes, one at a time, by whichever thread brought one. It may read and change the cache. It must not
    /// block: other threads that bring changes wait for it.
    #[must_use]
    pub fn on<T: Kept>(mut self, handler: impl Fn(&Change<T>) + Send + Sync + 'static) -> Self {
        T::hub_mut(&mut self.hubs).handlers.push(Box::new(handler));
        self
    }

    /// Builds the cache. Nothing is requested before [`Cache::start`].
    ///
    /// # Errors
    /// See [`BuildError`].
    pub fn build(self) -> Result<Cache, BuildError> {
        for namespace in [&self.namespace, &self.system_namespace].into_iter().flatten() {
            if !is_namespace(namespace) {
                return Err(BuildError::Namespace(namespace.clone()));
            }
        }
        let api = match (self.api, self.access, &self.client) {
            (Some(api), _, _) => Some(api),
            (None, Some(access), _) => Some(Api::new(access, self.timing)),
            (None, None, Some(client)) => Some(Api::of(client.clone(), self.timing)),
            (None, None, None) => None,
        };
        let parts = Parts {
            api,
            client: self.client,
            selector: Selector::parse(&self.selector)?,
            system_selector: Selector::parse(&self.system_selector)?,
            namespace: self.namespace,
            system_namespace: self.system_namespace,
            without: self.without,
            environments: self.environments,
            start: self.start.unwrap_or(START),
            absent: self.absent.unwrap_or(ABSENT),
            before_start: self.before_start,
        };
        let shared = Shared {
            inner: RwLock::new(Inner::default()),
            delivery: ReentrantMutex::new(Cell::new(false)),
            hubs: self.hubs,
            pools: PoolWatches::default(),
            turns: Turns::default(),
            clock: self.clock.unwrap_or_else(|| Arc::new(SystemClock)),
            parts,
            runs: Runs::default(),
            stopped: AtomicBool::new(false),
        };
        Ok(Cache { shared: Arc::new(shared) })
    }
}

/// A label of DNS, as names of namespaces are.
fn is_namespace(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let end = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let bytes = text.as_bytes();
    bytes.len() <= 63 && text.bytes().all(inner) && end(bytes.first()) && end(bytes.last())
}
