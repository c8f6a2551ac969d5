//! The controller of environments.
//!
//! Each look at an environment
//! 1. takes the segments of clusters out that are gone;
//! 2. brings the scaling groups in line with the members;
//! 3. renders the members of this cluster that follow their template;
//! 4. makes, changes and deletes the pools of this cluster;
//! 5. writes what it has observed;
//! 6. tells the router.
//!
//! # Who writes what
//! An environment has several writers: people, autoscalers, and this controller in each cluster. Of the spec
//! and the status only the segment of this cluster is changed here, and each write carries the version it
//! was decided on; see [`mod@write`]. Of a pool the spec is written here alone, besides people.
//!
//! # What it costs
//! A look at an environment of which nothing has changed compares versions, sends nothing and renders
//! nothing. Only where other clusters have a part in it, its snapshot is renewed every half minute. Whether
//! the pull secret exists is asked again after five minutes, or when the spec changes: the cluster's secrets
//! are not watched.
//!
//! # Deletion
//! There is no finalizer: the garbage collector deletes the pools. An environment that is being deleted gets
//! no new ones.

pub(crate) mod adoption;
pub(crate) mod content;
mod groups;
mod memory;
mod pools;
mod prune;
pub(crate) mod render;
mod rollout;
mod status;
#[cfg(test)]
mod tests;
pub(crate) mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use sandgate_envs::{EnvRouterSync, NoRouter};
use sandgate_objects::sandbox_env::names;
use sandgate_objects::sandbox_env::resources::{MemberState, SandboxEnv, SandboxPool, SandboxTemplate};

use crate::events::{EventKind, Events};
use crate::reference::reference;
use crate::view::{Seen, View};
use crate::writes::{Merge, Only, WriteError, Writes};
use crate::{Again, Clock, Failed, Key, Random, Reconciler};
use memory::{Memory, Read};
use pools::Step;
use status::Observed;

pub use adoption::{InstanceTypes, NoInstanceTypes, PoolAdoptionReconciler};
pub(crate) use pools::is_owned;
pub use prune::{Catalog, ListedClusters};

/// Each environment is looked at again after a time between these two.
const PERIOD: (Duration, Duration) = (Duration::from_secs(8), Duration::from_secs(12));

/// What the reconciler of environments is told.
#[derive(Clone)]
pub struct EnvSettings {
    /// The cluster that this is.
    pub cluster: Arc<str>,
    /// Which clusters there are.
    pub catalog: Arc<dyn Catalog>,
    /// Who is told of environments.
    pub router: Arc<dyn EnvRouterSync>,
}

impl EnvSettings {
    /// Of a cluster that knows no other and tells nobody.
    pub fn of_cluster(cluster: &str) -> Self {
        let (catalog, router) = (Arc::new(ListedClusters::default()), Arc::new(NoRouter));
        Self { cluster: cluster.into(), catalog, router }
    }
}

/// The reconciler of environments.
pub struct SandboxEnvReconciler {
    view: View,
    writes: Writes,
    events: Arc<dyn Events>,
    clock: Arc<dyn Clock>,
    random: parking_lot::Mutex<Random>,
    settings: EnvSettings,
    memory: Memory,
}

/// The pools that have the name of a member, whosever they are.
type Named = BTreeMap<String, Arc<Seen<SandboxPool>>>;

/// One look.
struct Look {
    env: Arc<Seen<SandboxEnv>>,
    now: Timestamp,
    /// Whether there was something to do, so that the next look has to be a whole one.
    busy: bool,
    warnings: BTreeSet<String>,
}

impl SandboxEnvReconciler {
    /// A reconciler of the environments of one cluster.
    pub fn new(
        view: View,
        writes: Writes,
        events: Arc<dyn Events>,
        clock: Arc<dyn Clock>,
        random: Random,
        settings: EnvSettings,
    ) -> Self {
        let (random, memory) = (parking_lot::Mutex::new(random), Memory::default());
        Self { view, writes, events, clock, random, settings, memory }
    }

    fn template(&self, env: &SandboxEnv) -> Option<Arc<Seen<SandboxTemplate>>> {
        self.view.get(&Key::new("", &env.spec.template_ref.name))
    }

    fn named(&self, env: &Seen<SandboxEnv>) -> Named {
        let members = env.spec.members_in(&self.settings.cluster).iter();
        let pool = |name: &str| self.view.get::<SandboxPool>(&Key::new(&env.key.namespace, name));
        members.filter_map(|member| Some((member.name.clone(), pool(&member.name)?))).collect()
    }

    fn read(&self, env: &Seen<SandboxEnv>) -> Read {
        let owned = self.view.env_pools(&env.key);
        let pools: BTreeMap<_, _> = self
            .named(env)
            .into_values()
            .chain(owned)
            .map(|pool| (pool.key.clone(), (Arc::clone(&pool.uid), pool.version.clone())))
            .collect();
        let template = self.template(env);
        Read {
            env: Some((Arc::clone(&env.uid), env.version.clone())),
            template: template.map(|it| (Arc::clone(&it.uid), it.version.clone())),
            pools: pools.into_iter().map(|(key, (uid, version))| (key, uid, version)).collect(),
            known: self.settings.catalog.clusters(),
        }
    }

    fn say(&self, env: &Seen<SandboxEnv>, kind: EventKind, reason: &'static str, note: String) {
        let on = reference(names::API_VERSION, names::KIND_ENV, &env.key, &env.uid);
        self.events.publish(&on, kind, reason, "Reconcile", note);
    }

    /// Everything but the router. Returns the environment as it is then.
    async fn bring_up(&self, look: &mut Look) -> Result<(), WriteError> {
        let is_deleting = look.env.metadata.deletion_timestamp.is_some();
        let mut failed = None;
        if !is_deleting {
            self.prune(look).await?;
            if let Some(spec) = groups::synced(&look.env.spec) {
                look.env = write::write_spec(&self.writes, &look.env, &spec).await?;
                look.busy = true;
            }
            let has_secret = self.pull_secret(look).await?;
            self.follow(look, has_secret).await?;
            // What could be observed is written even if not all that was planned was done.
            failed = self.pools(look, has_secret).await.err();
        }
        let written = self.status(look).await;
        failed.map_or(written, Err)
    }

    async fn prune(&self, look: &mut Look) -> Result<(), WriteError> {
        let known = self.settings.catalog.clusters();
        let env = Arc::clone(&look.env);
        let pruned = prune::prune(&env.spec, env.status.as_ref(), &self.settings.cluster, known.as_ref());
        let Some((spec, status, gone)) = pruned else { return Ok(()) };
        look.busy = true;
        look.env = write::write_spec(&self.writes, &env, &spec).await?;
        if let Some(status) = status {
            look.env = write::write_status(&self.writes, &look.env, &status, &self.settings.cluster).await?;
        }
        let names: Vec<_> = gone.iter().map(String::as_str).collect();
        let note = format!("these clusters are gone, and their segments with them: {}", names.join(", "));
        self.say(&look.env, EventKind::Normal, "StaleClusterSegmentsPruned", note);
        Ok(())
    }

    /// Whether the pull secret exists; none if that could not be found out.
    async fn pull_secret(&self, look: &mut Look) -> Result<Option<bool>, WriteError> {
        let Look { env, now, busy, .. } = look;
        if env.spec.members_in(&self.settings.cluster).is_empty() {
            return Ok(None);
        }
        let (key, generation) = (&env.key, env.metadata.generation);
        if let Some(known) = self.memory.secret(key, &env.uid, generation, *now) {
            return Ok(known);
        }
        let secret = Key::new(&key.namespace, &render::pull_secret(&key.name));
        let exists = match self.writes.exists(("Secret", "secrets"), &secret).await {
            Ok(exists) => Some(exists),
            Err(WriteError::NotLeading) => return Err(WriteError::NotLeading),
            Err(error) => {
                tracing::warn!("whether there is a secret {secret} is not known: {error}");
                if !matches!(error, WriteError::Refused { .. }) {
                    *busy = true;
                    return Ok(None);
                }
                None
            }
        };
        self.memory.looked_up(key, &env.uid, generation, exists, *now);
        Ok(exists)
    }

    /// Renders the members that follow their template.
    async fn follow(&self, look: &mut Look, has_secret: Option<bool>) -> Result<(), WriteError> {
        let env = Arc::clone(&look.env);
        let cluster = &*self.settings.cluster;
        if env.spec.members_in(cluster).is_empty() {
            return Ok(());
        }
        let Some(template) = self.template(&env) else {
            look.warnings.insert(format!("there is no SandboxTemplate {}", env.spec.template_ref.name));
            return Ok(());
        };
        let (mut spec, mut rolled) = (env.spec.clone(), Vec::new());
        let mut has_changed = false;
        let segments = spec.clusters.iter_mut().filter(|segment| segment.cluster_id == cluster);
        for member in segments.flat_map(|segment| &mut segment.members) {
            if !rollout::follows(member, env.spec.overrides.as_ref()) {
                continue;
            }
            match rollout::follow(&env, &template, member, has_secret) {
                Ok(None) => {}
                Ok(Some(followed)) => {
                    has_changed = true;
                    rolled.extend(followed.rolls_to.map(|hash| format!("{} to {hash}", member.name)));
                    *member = followed.member;
                }
                Err(error) => {
                    look.warnings.insert(format!("the member {:?} stays as it is: {error}", member.name));
                }
            }
        }
        if has_changed {
            look.env = write::write_spec(&self.writes, &env, &spec).await?;
            look.busy = true;
        }
        if !rolled.is_empty() {
            let note = format!("the template {} rolls out: {}", template.key.name, rolled.join(", "));
            self.say(&look.env, EventKind::Normal, "TemplateRollout", note);
        }
        Ok(())
    }

    /// Makes, changes and deletes pools. What the API server refuses is a matter of one pool: the others are
    /// done, and the first refusal is returned at the end. Any other failure ends it.
    async fn pools(&self, look: &mut Look, has_secret: Option<bool>) -> Result<(), WriteError> {
        let env = Arc::clone(&look.env);
        let owned = self.view.env_pools(&env.key);
        let members = env.spec.members_in(&self.settings.cluster);
        let steps = pools::plan(&env, members, has_secret, &self.named(&env), &owned);
        let (mut is_current, mut refused) = (false, None);
        for step in steps {
            look.busy = true;
            match self.step(&env, step, &mut is_current).await {
                Ok(()) => {}
                Err(error @ WriteError::Refused { .. }) => {
                    refused.get_or_insert(error);
                }
                Err(error) => return Err(error),
            }
        }
        refused.map_or(Ok(()), Err)
    }

    /// Does one step. `is_current` is whether the environment was read since the look began.
    async fn step(
        &self,
        env: &Arc<Seen<SandboxEnv>>,
        step: Step,
        is_current: &mut bool,
    ) -> Result<(), WriteError> {
        match step {
            Step::Create(name, object) => {
                let key = Key::new(&env.key.namespace, &name);
                match self.writes.create::<SandboxPool>(&key.namespace, &object).await {
                    Ok(_) => {
                        let note = format!("made the pool {name}");
                        self.say(env, EventKind::Normal, "PoolCreated", note);
                    }
                    // Whose it is decides what it is; the view did not know of it.
                    Err(WriteError::AlreadyExists(_)) => {
                        self.writes.read::<SandboxPool>(&key).await?;
                    }
                    Err(error) => return Err(error),
                }
            }
            Step::Patch(pool, patch) => {
                self.writes.patch(&pool, patch, Merge::Plain, None).await?;
            }
            Step::Delete(pool) => {
                // The watches of environments and of pools are two: a pool may be newer here than the
                // environment that asks for it.
                if !*is_current {
                    self.writes.read_raw(env).await?;
                    *is_current = true;
                }
                let seen = (&pool.key, &pool.uid, &pool.version);
                self.writes.delete::<SandboxPool>(seen, Only::ThisUid, None).await?;
                let note = format!("deleted the pool {}, which no member asks for", pool.key.name);
                self.say(env, EventKind::Normal, "PoolDeleted", note);
            }
        }
        Ok(())
    }

    /// Writes what is observed, if that is not what the status says.
    async fn status(&self, look: &mut Look) -> Result<(), WriteError> {
        let env = Arc::clone(&look.env);
        let (cluster, named) = (&*self.settings.cluster, self.named(&env));
        let status = status::status(&Observed { env: &env, cluster, named: &named, now: look.now });
        let before = env.status.clone().unwrap_or_default();
        let written = write::write_status(&self.writes, &env, &status, cluster).await?;
        look.busy |= written.version != env.version;
        look.env = written;
        let state = |members: &[sandgate_objects::sandbox_env::resources::ObservedMember], name: &str| {
            members.iter().find(|member| member.name == name).and_then(|member| member.state)
        };
        for member in status.observed_in(cluster) {
            let is_new = state(before.observed_in(cluster), &member.name) != member.state;
            if is_new && member.state == Some(MemberState::Inconsistent) {
                let is_ours = named.get(&member.name).is_some_and(|pool| is_owned(pool, &env));
                let why = if is_ours { "of another template" } else { "not the environment's" };
                let note = format!("the pool {} is {why}", member.name);
                self.say(&look.env, EventKind::Warning, "PoolInconsistent", note);
            }
        }
        Ok(())
    }

    /// When the status changes by time alone.
    fn next_change(&self, env: &SandboxEnv) -> Option<Timestamp> {
        let cluster = &*self.settings.cluster;
        let members = env.status.as_ref()?.observed_in(cluster).iter();
        let saturated = members.filter_map(|member| member.saturated_until.as_ref()).map(|until| until.0);
        saturated.chain(status::renewal(env, cluster)).min()
    }

    fn again(&self) -> Again {
        Again::After(self.random.lock().between(PERIOD.0, PERIOD.1))
    }
}

impl Reconciler for SandboxEnvReconciler {
    const NAME: &'static str = "sandboxenv";

    async fn reconcile(&self, key: &Key) -> Result<Again, Failed> {
        let Some(env) = self.view.get::<SandboxEnv>(key) else {
            self.memory.forget(key);
            self.settings.router.on_env_deleted(key, None);
            return Ok(Again::Forget);
        };
        let (now, read) = (self.clock.now(), self.read(&env));
        if self.memory.is_quiet(key, &env.uid, &read, now) {
            self.settings.router.on_env_upsert(&env);
            return Ok(self.again());
        }
        let mut look = Look { env, now, busy: false, warnings: BTreeSet::new() };
        let done = self.bring_up(&mut look).await;
        let Look { env, busy, warnings, .. } = look;
        if done.is_ok() {
            for warning in self.memory.new_warnings(key, &env.uid, warnings) {
                self.say(&env, EventKind::Warning, "MemberNotReady", warning);
            }
        }
        done?;
        if !busy {
            self.memory.is_quiet_now(key, &env.uid, read, self.next_change(&env));
        }
        self.settings.router.on_env_upsert(&env);
        Ok(self.again())
    }

    fn object(&self, key: &Key) -> Option<ObjectReference> {
        let env = self.view.get::<SandboxEnv>(key)?;
        Some(reference(names::API_VERSION, names::KIND_ENV, key, &env.uid))
    }
}
