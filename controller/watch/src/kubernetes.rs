//! The Kubernetes watch: custom resources of several providers become routes.
//!
//! Each provider's objects are watched in all namespaces or some, with a label selector or none. Each such
//! scope has its own follower of the list/watch engine (`sandgate-follow`), with a [`RouteSink`] that fills
//! the table. The followers share one client, one request rate and one turn to list. The engine's
//! documentation has its guarantees: memory, retries, rewinds, credentials.
//!
//! A list becomes a relist of the scope, an event an observation or a delete, each at the version that the
//! API server gave it. An object that cannot be read loses its route; the others keep theirs. When the watch
//! fails, the last table serves.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use sandgate_follow::{Access, Api, Follower, Hooks, Target, Timing, supervise};
use sandgate_objects::Provider;
use sandgate_routes::{AddressPolicy, RouteWriter};
use tokio::task::JoinSet;

use crate::settings::KubernetesSettings;

mod deadlines;
mod probe;
mod sink;
mod status;

#[cfg(test)]
mod tests;

pub use probe::{Probe, ProbeError, Right, Trouble};
pub use sandgate_follow::{FollowState as ScopeState, ListMode};
pub use status::{KubernetesStatusReader, ScopeStatus};

use deadlines::Deadlines;
use sink::RouteSink;
use status::ScopeCell;

/// One provider, and where its objects are.
#[derive(Clone)]
pub struct Watched {
    /// What reads the objects.
    pub provider: Arc<dyn Provider>,
    /// The namespaces; none is all of them.
    pub namespaces: Vec<String>,
    /// A label selector, as `kubectl -l` takes it; empty is every object.
    pub label_selector: String,
}

/// Keeps a table true to a cluster. A clone is the same source with the same status, to be run again after a
/// run has ended. At most one of them may run at a time. Each run starts with a list of every scope.
#[derive(Clone)]
pub struct KubernetesSource {
    access: Access,
    timing: Timing,
    table: TableAccess,
    scopes: Vec<WatchedScope>,
    on_status: Arc<dyn Fn() + Send + Sync>,
    on_first_lists: Arc<dyn Fn() + Send + Sync>,
}

/// What the sinks of all scopes share.
#[derive(Clone)]
struct TableAccess {
    writer: RouteWriter,
    addresses: AddressPolicy,
    deadlines: Arc<Deadlines>,
}

/// What the follower of a scope is made of, also after a panic.
#[derive(Clone)]
struct WatchedScope {
    number: usize,
    provider: Arc<dyn Provider>,
    target: Target,
    status: ScopeCell,
}

impl KubernetesSource {
    /// Nothing is read or requested before [`run`](Self::run).
    pub fn new(settings: &KubernetesSettings, writer: RouteWriter) -> Self {
        Self::watching(settings.access(), settings.watched(), writer)
    }

    fn watching(access: Access, watched: &[Watched], writer: RouteWriter) -> Self {
        let mut scopes = Vec::new();
        for Watched { provider, namespaces, label_selector } in watched {
            let all = namespaces.is_empty().then_some(None);
            for namespace in all.into_iter().chain(namespaces.iter().map(Some)) {
                scopes.push(WatchedScope::new(scopes.len(), provider, namespace, label_selector));
            }
        }
        KubernetesSource {
            access,
            timing: Timing::default(),
            table: TableAccess { writer, addresses: AddressPolicy::default(), deadlines: Arc::default() },
            scopes,
            on_status: Arc::new(|| ()),
            on_first_lists: Arc::new(|| ()),
        }
    }

    /// Routes only to the addresses that this policy allows. Without it the default policy holds.
    #[must_use]
    pub fn admitting(mut self, addresses: AddressPolicy) -> Self {
        self.table.addresses = addresses;
        self
    }

    /// Calls `hook` after each change of the status other than counts and times. It must not block.
    #[must_use]
    pub fn on_status(mut self, hook: impl Fn() + Send + Sync + 'static) -> Self {
        self.on_status = Arc::new(hook);
        self
    }

    /// Calls `hook` when the first complete list of every scope is in the table. A later run calls it at its
    /// start.
    #[must_use]
    pub fn on_first_lists(mut self, hook: impl Fn() + Send + Sync + 'static) -> Self {
        self.on_first_lists = Arc::new(hook);
        self
    }

    /// A view of the status for other threads.
    pub fn status(&self) -> KubernetesStatusReader {
        KubernetesStatusReader(self.scopes.iter().map(|scope| scope.status.clone()).collect())
    }

    /// Runs until the future is dropped. Needs a Tokio runtime with time and I/O enabled; files are read on
    /// its blocking threads.
    pub async fn run(self) {
        let KubernetesSource { access, timing, mut table, scopes, on_status, on_first_lists } = self;
        // The lists of this run say anew when objects end.
        table.deadlines = Arc::default();
        for scope in &scopes {
            // An earlier run may have left another state.
            scope.status.follow.restart();
        }
        // A scope that an earlier run has listed is not missing.
        let missing = scopes.iter().filter(|scope| !scope.status.follow.is_listed()).count();
        if missing == 0 {
            on_first_lists();
        }
        let missing = AtomicUsize::new(missing);
        let first_list = Arc::new(move || {
            if missing.fetch_sub(1, Ordering::AcqRel) == 1 {
                on_first_lists();
            }
        });
        let hooks = Hooks { changed: on_status, first_list };
        let api = Api::new(access, timing);
        let mut followers = JoinSet::new();
        for scope in scopes {
            let (api, table, hooks) = (Arc::clone(&api), table.clone(), hooks.clone());
            followers.spawn(async move {
                supervise(&scope.name(), || scope.follower(&api, &table, &hooks)).await;
            });
        }
        tokio::join!(followers.join_all(), table.deadlines.run(&table.writer));
    }
}

impl WatchedScope {
    fn new(number: usize, provider: &Arc<dyn Provider>, namespace: Option<&String>, selector: &str) -> Self {
        let resource = provider.resource();
        let target = Target {
            group: resource.group.clone(),
            version: resource.version.clone(),
            plural: resource.plural.clone(),
            namespace: namespace.cloned(),
            selector: selector.to_owned(),
        };
        let status = ScopeStatus {
            provider: provider.name().into(),
            resource: target.to_string().into(),
            namespace: namespace.map(|namespace| namespace.as_str().into()),
            selector: selector.into(),
            ..ScopeStatus::default()
        };
        let status = ScopeCell { scope: status, outside: Arc::default(), follow: Arc::default() };
        WatchedScope { number, provider: Arc::clone(provider), target, status }
    }

    /// The name in the log.
    fn name(&self) -> String {
        let Target { namespace, selector, .. } = &self.target;
        let parts = ["kubernetes", self.provider.name(), namespace.as_deref().unwrap_or_default(), selector];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
    }

    fn follower(&self, api: &Arc<Api>, table: &TableAccess, hooks: &Hooks) -> Follower<RouteSink> {
        let sink = RouteSink::new(self, table.clone());
        let (api, target, status) = (Arc::clone(api), self.target.clone(), Arc::clone(&self.status.follow));
        Follower::new(self.name(), api, target, sink, status, hooks.clone())
    }
}
