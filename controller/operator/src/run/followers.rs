//! The followers that fill the view, and what waits for them.

use std::collections::BTreeSet;
use std::sync::Arc;

use sandgate_cache::Group;
use sandgate_follow::{Api, Follower, Hooks, StatusCell, Target, Timing, supervise};
use sandgate_objects::openkruise::resources::{Sandbox, SandboxSet, SandboxTemplate};
use sandgate_objects::opensandbox::resources::{BatchSandbox, Pool, SandboxSnapshot};
use sandgate_objects::sandbox_env::resources::{
    EnvPod, SandboxEnv, SandboxPool as EnvPool, SandboxTemplate as EnvTemplate,
};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

use crate::view::Kept;
use crate::{Args, ControllerName, Followed, JobFacts, Kind, OwnPod, PodFacts, PoolPod, View};

/// Whether every resource has had its first list.
#[derive(Clone)]
pub(super) struct FirstLists {
    /// How many have had theirs.
    listed: watch::Receiver<usize>,
    all: usize,
}

impl FirstLists {
    pub(super) fn complete(&self) -> bool {
        *self.listed.borrow() == self.all
    }

    /// Does the work once they are complete, unless it is stopped before.
    pub(super) async fn then<F: Future<Output = ()>>(
        mut self,
        stop: CancellationToken,
        work: impl FnOnce(CancellationToken) -> F,
    ) {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            // The sender lives as long as the followers.
            _ = self.listed.wait_for(|listed| *listed == self.all) => {}
        }
        work(stop).await;
    }
}

/// The followers of all kinds.
pub(super) struct Followers {
    api: Arc<Api>,
    namespace: Option<String>,
    pub(super) followed: Vec<Followed>,
    pub(super) tasks: Vec<(String, AbortHandle)>,
    /// How many of them have had their first list.
    listed: watch::Sender<usize>,
}

impl Followers {
    pub(super) fn new(args: &Args, timing: Timing) -> Self {
        Self {
            api: Api::new(args.access(), timing),
            namespace: args.namespace.clone().filter(|name| !name.is_empty()),
            followed: Vec::new(),
            tasks: Vec::new(),
            listed: watch::Sender::new(0),
        }
    }

    /// To be called when all are there.
    pub(super) fn first_lists(&self) -> FirstLists {
        FirstLists { listed: self.listed.subscribe(), all: self.followed.len() }
    }

    /// Follows what these controllers need, and nothing else. Returns the kinds.
    pub(super) fn follow_all(
        &mut self,
        controllers: &BTreeSet<ControllerName>,
        view: &View,
        service: &mut Group,
    ) -> BTreeSet<Kind> {
        let kinds: BTreeSet<Kind> = controllers.iter().flat_map(|name| needed(*name)).copied().collect();
        for kind in &kinds {
            match kind {
                Kind::Sandbox => self.follow::<Sandbox>(view, service),
                Kind::SandboxSet => self.follow::<SandboxSet>(view, service),
                Kind::SandboxTemplate => self.follow::<SandboxTemplate>(view, service),
                Kind::Pod => self.follow::<PodFacts>(view, service),
                Kind::BatchSandbox => self.follow::<BatchSandbox>(view, service),
                Kind::Pool => self.follow::<Pool>(view, service),
                Kind::SandboxSnapshot => self.follow::<SandboxSnapshot>(view, service),
                Kind::PoolPod => self.follow::<PoolPod>(view, service),
                Kind::OwnPod => self.follow::<OwnPod>(view, service),
                Kind::Job => self.follow::<JobFacts>(view, service),
                Kind::SandboxEnv => self.follow::<SandboxEnv>(view, service),
                Kind::EnvPool => self.follow::<EnvPool>(view, service),
                Kind::EnvTemplate => self.follow::<EnvTemplate>(view, service),
                Kind::EnvPod => self.follow::<EnvPod>(view, service),
            }
        }
        kinds
    }

    fn follow<T: Kept>(&mut self, view: &View, service: &mut Group) {
        let target = T::target(self.namespace.as_deref());
        let followed = Followed {
            resource: resource(&target),
            namespace: self.namespace.clone(),
            status: Arc::<StatusCell>::default(),
        };
        let (name, status) = (format!("the watch of {followed}"), Arc::clone(&followed.status));
        let listed = self.listed.clone();
        let first_list = move || listed.send_modify(|listed| *listed += 1);
        let hooks = Hooks { changed: Arc::new(|| {}), first_list: Arc::new(first_list) };
        let (api, view, log) = (Arc::clone(&self.api), view.clone(), followed.to_string());
        let task = service.spawn(&name, async move |stop: CancellationToken| {
            let make = || {
                let (api, target, feed) = (Arc::clone(&api), target.clone(), view.feed::<T>());
                Follower::new(log.clone(), api, target, feed, Arc::clone(&status), hooks.clone())
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = supervise(&log, make) => {}
            }
        });
        self.followed.push(followed);
        self.tasks.push((name, task));
    }
}

/// What a controller reads.
fn needed(controller: ControllerName) -> &'static [Kind] {
    match controller {
        ControllerName::Sandbox | ControllerName::SandboxSet => {
            &[Kind::Sandbox, Kind::SandboxSet, Kind::SandboxTemplate, Kind::Pod]
        }
        ControllerName::BatchSandbox => {
            &[Kind::BatchSandbox, Kind::Pool, Kind::SandboxSnapshot, Kind::PoolPod, Kind::OwnPod]
        }
        ControllerName::Pool => &[Kind::BatchSandbox, Kind::Pool, Kind::PoolPod],
        ControllerName::SandboxSnapshot => {
            &[Kind::SandboxSnapshot, Kind::BatchSandbox, Kind::PoolPod, Kind::OwnPod, Kind::Job]
        }
        ControllerName::SandboxEnv => &[Kind::SandboxEnv, Kind::EnvPool, Kind::EnvTemplate],
        ControllerName::EnvPool => &[Kind::SandboxEnv, Kind::EnvPool, Kind::EnvPod],
        ControllerName::PoolAdoption => &[Kind::SandboxEnv, Kind::EnvPool],
    }
}

/// As RBAC names it: `pods`, `sandboxes.agents.kruise.io`.
fn resource(target: &Target) -> String {
    if target.group.is_empty() {
        target.plural.clone()
    } else {
        format!("{}.{}", target.plural, target.group)
    }
}

/// The resources without a first list, each with what it waits for.
pub(super) fn missing(followed: &[Followed]) -> Vec<String> {
    let unlisted = followed.iter().filter(|followed| !followed.status.is_listed());
    let describe = |followed: &Followed| {
        let status = followed.status.load();
        let why = status.error.map(|error| format!(": {error}")).unwrap_or_default();
        format!("{followed}: {}{why}", status.state)
    };
    unlisted.map(describe).collect()
}
