//! What the options mean for each controller.

use std::sync::Arc;

use sandgate_envs::EnvRouterSync;

use crate::{
    Args, BatchSettings, Concurrency, Controller, EnvSettings, ListedClusters, OpenSandboxArgs, PoolSettings,
    SnapshotSettings,
};

/// How many environments are worked on at a time.
const ENV_WORKERS: usize = 4;

/// How many objects a controller works on at a time.
pub(super) fn workers_of(args: &Args, controller: Controller) -> usize {
    let Concurrency { batch, pool, snapshot } = args.opensandbox.concurrency;
    match controller {
        Controller::Sandbox | Controller::SandboxSet | Controller::EnvPool => args.workers.into(),
        Controller::SandboxEnv | Controller::PoolAdoption => ENV_WORKERS.min(args.workers.into()),
        Controller::BatchSandbox => batch,
        Controller::Pool => pool,
        Controller::SandboxSnapshot => snapshot,
    }
}

pub(super) fn batch_settings(args: &Args) -> BatchSettings {
    let OpenSandboxArgs { own_namespace, resume_pull_secret, .. } = args.opensandbox.clone();
    BatchSettings { own_namespace, resume_pull_secret: given(resume_pull_secret) }
}

pub(super) fn pool_settings(args: &Args) -> PoolSettings {
    let OpenSandboxArgs { alloc_concurrency, recycle_concurrency, .. } = args.opensandbox;
    let [allocations, recycles] = [alloc_concurrency, recycle_concurrency].map(usize::from);
    PoolSettings { allocations, recycles, ..PoolSettings::default() }
}

pub(super) fn snapshot_settings(args: &Args) -> SnapshotSettings {
    let options = args.opensandbox.clone();
    SnapshotSettings {
        registry: given(options.snapshot_registry),
        registry_insecure: options.snapshot_registry_insecure,
        committer_image: options.image_committer_image,
        containerd_socket: options.containerd_socket_path,
        commit_timeout: options.commit_job_timeout,
        push_secret: given(options.snapshot_push_secret),
        pull_secret: given(options.image_committer_pull_secret),
    }
}

pub(super) fn env_settings(args: &Args, cluster: &str, router: Arc<dyn EnvRouterSync>) -> EnvSettings {
    let clusters = args.environments.clusters.iter().filter(|name| !name.is_empty()).cloned().collect();
    EnvSettings { cluster: cluster.into(), catalog: Arc::new(ListedClusters(clusters)), router }
}

/// An option whose default is the empty text.
fn given(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}
