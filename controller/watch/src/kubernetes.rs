//! The Kubernetes watch: custom resources of several providers become routes.
//!
//! **What is watched.** Each provider's objects, in all namespaces or some, by a label selector or none. Each such
//! scope has a task of its own with a list and a watch; they share one client, one rate of requests, and one turn to
//! list. Objects are read one at a time and only the fields that a route needs: a pod template is never more than
//! bytes passing by.
//!
//! **What the table gets.** A list is a relist of the scope, an event an observation or a delete, each at the version
//! the API server gave it, the moment it is read. An object that cannot be read loses its route, and only it does.
//!
//! **When something fails** the last table serves. What failed is in the status and once in the log; it is tried
//! again after a wait that grows to half a minute, with jitter, or as long as the server asks. A resource that the
//! cluster does not know yet is waited for.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use sandgate_follow::Access;
use sandgate_routes::{AddressPolicy, RouteWriter, Scope};
use tokio::task::JoinSet;

use crate::settings::KubernetesSettings;

mod backoff;
mod client;
mod deadlines;
mod error;
mod head;
mod lines;
mod list;
mod notes;
mod probe;
pub(crate) use sandgate_objects as provider;
mod scope;
mod sink;
mod status;
mod target;
mod timing;

#[cfg(test)]
mod tests;

pub use probe::{Probe, ProbeError, Right, Trouble};
use provider::Provider;
pub use status::{KubernetesStatusReader, ListMode, ScopeState, ScopeStatus};

use client::Api;
use deadlines::Deadlines;
use notes::Notes;
use scope::{Hooks, ScopeTask};
use sink::Sink;
use status::StatusCell;
use target::Target;
use timing::Timing;

/// One provider and where to look for its objects.
#[derive(Clone)]
pub struct Watched {
    /// What reads the objects.
    pub provider: Arc<dyn Provider>,
    /// The namespaces; none is all of them.
    pub namespaces: Vec<String>,
    /// A label selector, as `kubectl -l` takes it; empty is every object.
    pub label_selector: String,
}

/// Keeps a table true to a cluster. A clone is the same source, with the same status, to be run again when its run has
/// ended; at most one of them runs at a time. Each run begins with a list of every scope.
#[derive(Clone)]
pub struct KubernetesSource {
    access: Access,
    timing: Timing,
    writer: RouteWriter,
    addresses: AddressPolicy,
    scopes: Vec<ScopeParts>,
    on_status: Arc<dyn Fn() + Send + Sync>,
    on_first_lists: Arc<dyn Fn() + Send + Sync>,
}

/// What a scope's task is made of, also a second time.
#[derive(Clone)]
struct ScopeParts {
    number: usize,
    provider: Arc<dyn Provider>,
    namespace: Option<String>,
    selector: String,
    status: Arc<StatusCell>,
}

impl KubernetesSource {
    /// Nothing is read or asked before [`run`](Self::run).
    pub fn new(settings: &KubernetesSettings, writer: RouteWriter) -> Self {
        Self::watching(settings.access(), settings.watched(), writer)
    }

    fn watching(access: Access, watched: &[Watched], writer: RouteWriter) -> Self {
        let mut scopes = Vec::new();
        for Watched { provider, namespaces, label_selector } in watched {
            let all = namespaces.is_empty().then_some(None);
            for namespace in all.into_iter().chain(namespaces.iter().map(Some)) {
                let resource = provider.resource();
                let name = format!("{}.{}/{}", resource.plural, resource.group, resource.version);
                let namespace = namespace.cloned();
                let status = StatusCell::new(provider.name(), name, namespace.as_deref(), label_selector);
                scopes.push(ScopeParts {
                    number: scopes.len(),
                    provider: Arc::clone(provider),
                    namespace,
                    selector: label_selector.clone(),
                    status: Arc::new(status),
                });
            }
        }
        KubernetesSource {
            access,
            timing: Timing::default(),
            writer,
            addresses: AddressPolicy::default(),
            scopes,
            on_status: Arc::new(|| ()),
            on_first_lists: Arc::new(|| ()),
        }
    }

    /// Routes to the addresses of this policy; without it, to those of the default one.
    #[must_use]
    pub fn admitting(mut self, addresses: AddressPolicy) -> Self {
        self.addresses = addresses;
        self
    }

    /// Calls `hook` after changes of the status other than counts and times. It must not block.
    #[must_use]
    pub fn on_status(mut self, hook: impl Fn() + Send + Sync + 'static) -> Self {
        self.on_status = Arc::new(hook);
        self
    }

    /// Calls `hook` when the first complete list of every scope is in the table; again if a run ended right then.
    #[must_use]
    pub fn on_first_lists(mut self, hook: impl Fn() + Send + Sync + 'static) -> Self {
        self.on_first_lists = Arc::new(hook);
        self
    }

    /// A view of the status for other threads.
    pub fn status(&self) -> KubernetesStatusReader {
        KubernetesStatusReader(self.scopes.iter().map(|scope| Arc::clone(&scope.status)).collect())
    }

    /// Runs until the future is dropped. Needs a Tokio runtime with time and I/O enabled; files are read on its
    /// blocking threads.
    pub async fn run(self) {
        let KubernetesSource { access, timing, writer, addresses, scopes, on_status, on_first_lists } = self;
        let api = Api::new(access, timing);
        let deadlines = Arc::new(Deadlines::default());
        for scope in &scopes {
            // What the status says is of the run before, which did not end well.
            scope.status.update(|status| status.state = ScopeState::Starting);
        }
        // A scope that has been listed in a run before is not missing.
        let missing = scopes.iter().filter(|scope| !scope.status.load().listed).count();
        if missing == 0 {
            on_first_lists();
        }
        let missing = AtomicUsize::new(missing);
        let hooks = Arc::new(Hooks {
            changed: Box::new(move || on_status()),
            listed: Box::new(move || {
                if missing.fetch_sub(1, Ordering::AcqRel) == 1 {
                    on_first_lists();
                }
            }),
        });
        let start = |tasks: &mut JoinSet<usize>, parts: &ScopeParts| {
            let task = parts.task(&api, (&writer, &addresses), &deadlines, &hooks);
            let number = parts.number;
            tasks.spawn(async move {
                task.run().await;
                number
            })
        };
        let mut tasks = JoinSet::new();
        let mut running: Vec<_> = scopes.iter().map(|parts| start(&mut tasks, parts).id()).collect();
        let watching = async {
            while let Some(ended) = tasks.join_next().await {
                // Tasks do not end: one of them panicked, which the panic hook has logged. It begins anew.
                let Err(ended) = ended else { continue };
                let Some(at) = running.iter().position(|id| *id == ended.id()) else { continue };
                tracing::error!("the watch of {} broke off and begins anew", scopes[at].name());
                tokio::time::sleep(std::time::Duration::from_secs(1)).await;
                running[at] = start(&mut tasks, &scopes[at]).id();
            }
        };
        tokio::join!(watching, deadlines.run(&writer));
    }
}

impl ScopeParts {
    fn name(&self) -> String {
        let mut name = format!("kubernetes {}", self.provider.name());
        for part in [self.namespace.as_deref().unwrap_or_default(), &self.selector] {
            if !part.is_empty() {
                name.push(' ');
                name.push_str(part);
            }
        }
        name
    }

    fn task(
        &self,
        api: &Arc<Api>,
        (writer, addresses): (&RouteWriter, &AddressPolicy),
        deadlines: &Arc<Deadlines>,
        hooks: &Arc<Hooks>,
    ) -> ScopeTask {
        let namespace = self.namespace.as_deref();
        let sink = Sink {
            provider: Arc::clone(&self.provider),
            writer: writer.clone(),
            reader: writer.reader(),
            addresses: addresses.clone(),
            scope: Scope::new(self.provider.name(), namespace, &self.selector),
            deadlines: Arc::clone(deadlines),
            status: Arc::clone(&self.status),
            notes: Notes::new(self.name()),
            number: self.number,
            list: 0,
            objects: 0,
            held_back: 0,
        };
        let target = Target::new(&*self.provider, namespace, &self.selector);
        ScopeTask::new(Arc::clone(api), target, sink, Arc::clone(hooks))
    }
}
