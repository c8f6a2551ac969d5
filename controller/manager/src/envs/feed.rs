//! From the cache to the router and to the lines of pools.
//!
//! The cache calls handlers for every change, so the router and the lines learn of it at once. A change that
//! no handler was called for is found by [`EnvFeed::repair`], which brings the router up to the cache.

use std::sync::{Arc, OnceLock, Weak};

use sandgate_cache::{Cache, CacheBuilder, Change, Key};
use sandgate_envs::EnvRouterSync as _;
use sandgate_envs::router::{EnvRouter, IdleCounts, RouterSettings};
use sandgate_objects::sandbox_env::resources::{EnvPod, SandboxEnv, SandboxPool};

use super::Environments;

/// What tells a manager of environments. It is made before the cache, which has to follow them; then it is
/// given to the manager. Clones are the same feed.
#[derive(Clone)]
pub struct EnvFeed(Arc<Shared>);

struct Shared {
    cluster: Arc<str>,
    router: EnvRouter,
    /// For the router, which takes no lock.
    idle: IdleCounts,
    /// Whoever claims pods. It has the cache, whose handlers have this: so it is not kept alive by it.
    envs: OnceLock<Weak<Environments>>,
}

impl EnvFeed {
    /// A feed in this cluster, as environments name it.
    pub fn new(cluster: &str) -> Self {
        let router = EnvRouter::new(RouterSettings::of(cluster));
        Self(Arc::new(Shared {
            cluster: cluster.into(),
            router,
            idle: IdleCounts::default(),
            envs: OnceLock::new(),
        }))
    }

    /// The cache follows environments, and tells this feed of their changes.
    #[must_use]
    pub fn follow(&self, builder: CacheBuilder) -> CacheBuilder {
        let shared = Arc::clone(&self.0);
        self.follow_pods(builder).on::<SandboxEnv>(move |change| shared.env_changed(change))
    }

    /// The same, without a word of environments themselves.
    pub(crate) fn follow_pods(&self, builder: CacheBuilder) -> CacheBuilder {
        let (pods, pools) = (Arc::clone(&self.0), Arc::clone(&self.0));
        builder
            .environments()
            .on::<EnvPod>(move |change| pods.pod_changed(change))
            .on::<SandboxPool>(move |change| pools.pool_changed(change))
    }

    /// The cluster, as environments name it.
    pub(super) fn cluster(&self) -> &str {
        &self.0.cluster
    }

    pub(super) fn router(&self) -> &EnvRouter {
        &self.0.router
    }

    pub(super) fn idle(&self) -> &IdleCounts {
        &self.0.idle
    }

    /// From now on these environments are told of pods.
    pub(super) fn serve(&self, envs: &Arc<Environments>) {
        // A feed that is given to two managers tells the first.
        let _ = self.0.envs.set(Arc::downgrade(envs));
    }

    /// Brings the router up to what the cache has.
    pub(super) fn repair(&self, cache: &Cache) {
        let shown = cache.shown_up_to::<SandboxEnv>().filter(|_| cache.synced());
        let Some(shown) = shown else { return };
        for env in cache.envs(None) {
            self.0.router.on_env_upsert(&env);
        }
        self.0.router.retain(&shown, |key| cache.get::<SandboxEnv>(key).is_some());
    }
}

impl Shared {
    fn env_changed(&self, change: &Change<SandboxEnv>) {
        match (&change.before, &change.after) {
            (_, Some(env)) => self.router.on_env_upsert(env),
            (Some(env), None) => {
                self.router.delete(&env.key, Some(&env.uid), &env.version);
            }
            (None, None) => {}
        }
    }

    fn pod_changed(&self, change: &Change<EnvPod>) {
        self.idle.changed(change);
        if let Some(pod) = change.after.as_ref().filter(|pod| pod.is_claimable()) {
            self.pool_stirred(&Key { namespace: Arc::clone(&pod.key.namespace), name: pod.pool().into() });
        }
    }

    /// Its pods cannot be claimed before the pool itself is known.
    fn pool_changed(&self, change: &Change<SandboxPool>) {
        if let Some(pool) = &change.after {
            self.pool_stirred(&pool.key);
        }
    }

    fn pool_stirred(&self, pool: &Key) {
        if let Some(envs) = self.envs.get().and_then(Weak::upgrade) {
            envs.lines.changed(pool);
        }
    }
}
