//! Who is told of environments.

use sandgate_cache::{Key, Seen};
use sandgate_objects::sandbox_env::resources::SandboxEnv;
use sandgate_routes::Version;

/// Is told of every environment after its reconcile succeeded, and of every one that is gone.
///
/// The same environment may be told any number of times, in any order: an older version changes nothing. So
/// a call that was missed is repaired by the next one.
pub trait EnvRouterSync: Send + Sync {
    /// The environment is as it is here, its status included.
    fn on_env_upsert(&self, env: &Seen<SandboxEnv>);

    /// The environment of this name is gone, as far as this version knows.
    fn on_env_deleted(&self, env: &Key, version: Option<&Version>);
}

/// Nobody.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoRouter;

impl EnvRouterSync for NoRouter {
    fn on_env_upsert(&self, _: &Seen<SandboxEnv>) {}

    fn on_env_deleted(&self, _: &Key, _: Option<&Version>) {}
}
