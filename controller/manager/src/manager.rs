//! The manager: everything that the API can ask for, without HTTP.

#[cfg(test)]
pub(crate) mod tests;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join_all, join3};
use jiff::Timestamp;
use sandgate_cache::predicates::wants_pause;
use sandgate_cache::{Cache, Random};

use crate::claim::{ClaimParts, ClaimSettings};
use crate::core::Core;
use crate::describe::{describe, describe_template};
use crate::envs::{Environments, Found, unsupported as not_of_environments};
use crate::find::Lookups;
use crate::gateways::{Gateways, Pushed};
use crate::network::unsupported;
use crate::quota::Quota;
use crate::resume::Wish;
use crate::runtime::Runtime;
use crate::settings::Settings;
use crate::tasks::{Asked, Drain, Tasks};
use crate::timeouts::Policy;
use crate::{
    Caller, Claims, Connected, Described, EnvCounts, EnvFeed, Error, ErrorKind, Filter, LogLine, Metric,
    Network, NewSandbox, NewSnapshot, Page, Secrets, Snapshot, Template, Writes,
};

/// How often what creates have left is looked for.
const SWEEP: Duration = Duration::from_secs(300);
/// How long the snapshot of a fork is kept.
const FORK_KEPT: &str = "24h";

/// What a manager is made of.
pub struct ManagerParts {
    /// What is known of the cluster. Somebody else starts it.
    pub cache: Cache,
    /// The way to the API server.
    pub writes: Writes,
    /// The way to the gateways.
    pub gateways: Gateways,
    /// The way to the sandboxes' runtimes.
    pub runtime: Runtime,
    /// Where IDs and tokens come from.
    pub secrets: Arc<dyn Secrets>,
    /// What spreads retries, and replicas over a pool.
    pub random: Random,
    /// How it behaves.
    pub settings: Settings,
    /// What tells of environments; none if they are not served.
    pub environments: Option<EnvFeed>,
}

/// The lifecycle of sandboxes. Clones are the same manager.
///
/// Every method checks that what it is asked about is the caller's. What is another's is answered with the
/// same words as what does not exist.
#[derive(Clone)]
pub struct Manager {
    core: Arc<Core>,
    claims: Claims<Core>,
    tasks: Tasks,
    envs: Option<Arc<Environments>>,
    /// What spreads the sweeps of replicas.
    random: Random,
}

/// The errors of every method have a kind, which says what a caller can do about it: see [`ErrorKind`].
#[expect(clippy::missing_errors_doc, reason = "it is the same for all of them, and said above")]
impl Manager {
    /// A manager of these parts. With environments it has to be made where a runtime is.
    pub fn new(parts: ManagerParts) -> Self {
        let ManagerParts { cache, writes, gateways, runtime, secrets, random, settings, environments } =
            parts;
        let claim_settings = ClaimSettings {
            claim_timeout: settings.claim_timeout,
            ready_timeout: settings.ready_timeout,
            system_namespace: settings.system_namespace.clone(),
            namespace: settings.namespace.clone(),
            no_internet: settings.no_internet.clone(),
            ..ClaimSettings::default()
        };
        let quota = Quota::new(cache.clone(), writes.clone(), &settings);
        let core = Arc::new(Core {
            cache: cache.clone(),
            writes: writes.clone(),
            gateways,
            runtime,
            quota,
            secrets: Arc::clone(&secrets),
            settings,
            lookups: Lookups::default(),
        });
        let envs = environments.map(|feed| {
            let of_envs = Random::seeded(random.clone().number());
            Environments::new(&core, feed, of_envs)
        });
        let (prepare, sweeps) = (Arc::clone(&core), random.clone());
        let parts = ClaimParts { cache, writes, prepare, secrets, random, settings: claim_settings };
        Self { core, claims: Claims::new(parts), tasks: Tasks::default(), envs, random: sweeps }
    }

    /// How it behaves.
    pub fn settings(&self) -> &Settings {
        &self.core.settings
    }

    /// What has become of the pushes to the gateways.
    pub fn pushed(&self) -> Pushed {
        self.core.gateways.pushed()
    }

    /// How many creates wait for a sandbox of a pool.
    pub fn waiting(&self) -> usize {
        self.claims.waiting()
    }

    /// What is known of environments, and how many claims wait for their pods.
    pub fn env_counts(&self) -> EnvCounts {
        self.envs.as_deref().map(Environments::counts).unwrap_or_default()
    }

    /// Removes what crashes have left, or does what is left to do, from time to time, for ever.
    pub async fn keep_swept(&self) {
        let others = async {
            let mut random = self.random.clone();
            loop {
                tokio::time::sleep(random.between(SWEEP, SWEEP * 2)).await;
                self.core.sweep_snapshots().await;
                self.core.initialise_left().await;
            }
        };
        let envs = async {
            if let Some(envs) = &self.envs {
                envs.keep().await;
            }
        };
        join3(self.claims.keep_swept(SWEEP), others, envs).await;
    }

    /// Takes nothing more that is done in several steps, and waits for what is under way and what nobody else
    /// would finish.
    pub async fn drain(&self) {
        let envs = async {
            if let Some(envs) = &self.envs {
                envs.drain().await;
            }
        };
        join3(self.claims.drain(), self.tasks.drain(), envs).await;
    }

    /// Gives the caller a sandbox.
    pub async fn create(&self, caller: &Caller, new: NewSandbox) -> Result<Described, Error> {
        if let Some(envs) = &self.envs
            && let Some(target) = envs.target(caller, &new.template).await?
        {
            let (envs, caller) = (Arc::clone(envs), caller.clone());
            let create = |asked: Arc<Asked>| async move { envs.create(&caller, new, target, &asked).await };
            return self.tasks.run(Drain::Waits, create).await?.arrived();
        }
        let has_rules = new.network.as_ref().is_some_and(|network| !network.is_empty());
        if has_rules && !self.core.settings.traffic_policies {
            return Err(unsupported());
        }
        let sandbox = self.claims.create(caller, new).await?;
        let sandbox = self.core.newest(&sandbox);
        Ok(describe(&self.core.cache, &sandbox, self.core.now()))
    }

    /// The caller's sandbox of an environment with this ID; none if it is no sandbox of an environment.
    async fn of_env(&self, caller: &Caller, id: &str) -> Result<Option<Found>, Error> {
        match &self.envs {
            Some(envs) => envs.found(caller, id).await,
            None => Ok(None),
        }
    }

    /// Refuses what no sandbox of an environment can do.
    async fn not_of_env(&self, caller: &Caller, id: &str, what: &str) -> Result<(), Error> {
        match self.of_env(caller, id).await? {
            Some(_) => Err(not_of_environments(what, "Create a new one, or use a SandboxSet.")),
            None => Ok(()),
        }
    }

    /// What a task needs that may outlive its caller.
    fn task(&self, caller: &Caller, id: &str) -> (Arc<Core>, Caller, String) {
        (Arc::clone(&self.core), caller.clone(), id.to_owned())
    }

    /// Finds a running sandbox and lets it live at least so long from now, or resumes a paused one.
    pub async fn connect(
        &self,
        caller: &Caller,
        id: &str,
        timeout: Option<Duration>,
    ) -> Result<(Described, Connected), Error> {
        if let Some(found) = self.of_env(caller, id).await? {
            let timeout = timeout.unwrap_or_default();
            return Ok((found.set_timeout(timeout, Policy::ExtendOnly).await?, Connected::Running));
        }
        let (core, caller, id) = self.task(caller, id);
        let connect = |asked: Arc<Asked>| async move { core.connect(&caller, &id, timeout, &asked).await };
        self.tasks.run(Drain::Leaves, connect).await
    }

    /// Describes a sandbox.
    pub async fn get(&self, caller: &Caller, id: &str) -> Result<Described, Error> {
        if let Some(found) = self.of_env(caller, id).await? {
            return Ok(found.described());
        }
        let sandbox = self.core.find_shown(caller, id).await?;
        Ok(describe(&self.core.cache, &sandbox, self.core.now()))
    }

    /// One page of the caller's sandboxes.
    pub fn list(&self, caller: &Caller, filter: &Filter) -> Result<Page<Described>, Error> {
        let (namespace, now) = (self.core.namespace_of(caller), self.core.now());
        crate::list::list(&self.core.cache, self.envs.as_deref(), namespace, caller, filter, now)
    }

    /// Deletes a sandbox.
    pub async fn kill(&self, caller: &Caller, id: &str) -> Result<(), Error> {
        if let Some(found) = self.of_env(caller, id).await? {
            let kill = |asked: Arc<Asked>| async move {
                asked.begin();
                found.kill().await
            };
            return self.tasks.run(Drain::Waits, kill).await;
        }
        let (core, caller, id) = self.task(caller, id);
        let kill = |asked: Arc<Asked>| async move {
            asked.begin();
            core.kill(&caller, &id).await
        };
        self.tasks.run(Drain::Waits, kill).await
    }

    /// Lets a running sandbox live so long from now, be it more or less than before.
    pub async fn set_timeout(&self, caller: &Caller, id: &str, timeout: Duration) -> Result<(), Error> {
        if let Some(found) = self.of_env(caller, id).await? {
            return found.set_timeout(timeout, Policy::Always).await.map(drop);
        }
        self.core.set_timeout(caller, id, timeout, Policy::Always).await
    }

    /// Lets a running sandbox live at least so long from now.
    pub async fn refresh(&self, caller: &Caller, id: &str, timeout: Duration) -> Result<(), Error> {
        if let Some(found) = self.of_env(caller, id).await? {
            return found.set_timeout(timeout, Policy::ExtendOnly).await.map(drop);
        }
        self.core.set_timeout(caller, id, timeout, Policy::ExtendOnly).await
    }

    /// Pauses a sandbox, and keeps it so long; none is as it was made with. Already paused is a conflict.
    pub async fn pause(&self, caller: &Caller, id: &str, reserve: Option<Duration>) -> Result<(), Error> {
        self.not_of_env(caller, id, "pause").await?;
        let (core, caller, id) = self.task(caller, id);
        let pause = |asked: Arc<Asked>| async move { core.pause(&caller, &id, reserve, &asked).await };
        self.tasks.run(Drain::Waits, pause).await
    }

    /// Resumes a paused sandbox; none leaves a setting as it was. One that runs stays as it is.
    pub async fn resume(
        &self,
        caller: &Caller,
        id: &str,
        timeout: Option<Duration>,
        auto_pause: Option<bool>,
    ) -> Result<Described, Error> {
        self.not_of_env(caller, id, "resume").await?;
        let (core, caller, id) = self.task(caller, id);
        let wish = Wish { timeout, auto_pause };
        let resume = |asked: Arc<Asked>| async move { core.resume(&caller, &id, wish, &asked).await };
        self.tasks.run(Drain::Leaves, resume).await
    }

    /// Changes where a sandbox may connect to.
    pub async fn update_network(
        &self,
        caller: &Caller,
        id: &str,
        network: Network,
        allow_internet_access: Option<bool>,
    ) -> Result<(), Error> {
        self.not_of_env(caller, id, "network").await?;
        let (core, caller, id) = self.task(caller, id);
        let update = |asked: Arc<Asked>| async move {
            // Rules that are shown and not enforced would be half of it.
            asked.begin();
            core.update_network(&caller, &id, &network, allow_internet_access).await
        };
        self.tasks.run(Drain::Waits, update).await
    }

    /// Makes a snapshot of a running sandbox.
    pub async fn snapshot(&self, caller: &Caller, id: &str, new: NewSnapshot) -> Result<Snapshot, Error> {
        self.not_of_env(caller, id, "snapshot").await?;
        let (core, caller, id) = self.task(caller, id);
        let snapshot = |asked: Arc<Asked>| async move { core.snapshot(&caller, &id, new, &asked).await };
        self.tasks.run(Drain::Waits, snapshot).await
    }

    /// One page of the caller's snapshots.
    pub fn snapshots(
        &self,
        caller: &Caller,
        sandbox: Option<&str>,
        name: Option<&str>,
        limit: usize,
        next: Option<&str>,
    ) -> Result<Page<Snapshot>, Error> {
        self.core.snapshots(caller, sandbox, name, limit, next)
    }

    /// Deletes a snapshot.
    pub async fn delete_snapshot(&self, caller: &Caller, id: &str) -> Result<(), Error> {
        self.core.delete_snapshot(caller, id).await
    }

    /// Makes a snapshot of a sandbox, and so many sandboxes from it. Each of them may fail by itself. The
    /// snapshot is kept for a day.
    pub async fn fork(
        &self,
        caller: &Caller,
        id: &str,
        timeout: Option<Duration>,
        count: usize,
    ) -> Result<Vec<Result<Described, Error>>, Error> {
        let source = self.get(caller, id).await?;
        let kept = NewSnapshot { ttl: Some(FORK_KEPT.to_owned()), ..NewSnapshot::default() };
        let snapshot = self.snapshot(caller, id, kept).await?;
        let new = NewSandbox {
            template: snapshot.id,
            timeout,
            auto_pause: source.auto_pause,
            auto_resume: source.auto_resume,
            metadata: source.metadata,
            allow_internet_access: Some(source.allow_internet_access),
            network: source.network,
            // Each with a token of its own.
            private_traffic: source.traffic_token.is_some(),
            ..NewSandbox::default()
        };
        let forks = (0..count).map(|_| self.create(caller, new.clone()));
        Ok(join_all(forks).await)
    }

    /// The templates that the caller can use.
    pub fn templates(&self, caller: &Caller) -> Vec<Template> {
        let sets = self.core.cache.sets(self.core.namespace_of(caller));
        let mut templates: Vec<_> = sets.iter().map(|set| describe_template(&self.core.cache, set)).collect();
        let envs = self.envs.iter().flat_map(|envs| envs.templates(caller));
        // Of a set and an environment of one name creates take the set.
        let envs: Vec<_> = envs.filter(|env| templates.iter().all(|set| set.name != env.name)).collect();
        templates.extend(envs);
        templates
    }

    /// One template.
    pub fn template(&self, caller: &Caller, name: &str) -> Result<Template, Error> {
        let set = self.core.cache.set(self.core.namespace_of(caller), name);
        let missing = || Error::new(ErrorKind::NotFound, format!("template {name} was not found"));
        let set = set.map(|set| describe_template(&self.core.cache, &set));
        let env = || self.envs.as_ref().and_then(|envs| envs.template(caller, name));
        set.or_else(env).ok_or_else(missing)
    }

    /// What a sandbox used between these times. No record is kept: there is at most the present.
    pub async fn metrics(
        &self,
        caller: &Caller,
        id: &str,
        start: Option<Timestamp>,
        end: Option<Timestamp>,
    ) -> Result<Vec<Metric>, Error> {
        let found = self.of_env(caller, id).await?;
        let now = self.core.now();
        let is_asked_for = start.is_none_or(|start| start <= now) && end.is_none_or(|end| end >= now);
        if let Some(found) = found {
            let used = if is_asked_for { found.metric().await } else { None };
            return Ok(used.into_iter().collect());
        }
        let sandbox = self.core.find_shown(caller, id).await?;
        if wants_pause(&sandbox) || !is_asked_for {
            return Ok(Vec::new());
        }
        Ok(self.core.runtime.metrics(&sandbox, now).await.into_iter().collect())
    }

    /// What a sandbox uses now, if this process knows it: the API server is not asked for a sandbox that it
    /// does not know. So a request about many costs the API server nothing.
    pub async fn metric_if_known(&self, caller: &Caller, id: &str) -> Option<Metric> {
        if let Some(envs) = &self.envs
            && let Some(pod) = envs.find_known(caller, id)
        {
            return envs.metric(&pod).await;
        }
        let sandbox = self.core.find_known(caller, id).filter(|sandbox| !wants_pause(sandbox))?;
        self.core.runtime.metrics(&sandbox, self.core.now()).await
    }

    /// What a sandbox has logged. No record is kept: the list is empty.
    pub async fn logs(&self, caller: &Caller, id: &str) -> Result<Vec<LogLine>, Error> {
        if self.of_env(caller, id).await?.is_some() {
            return Ok(Vec::new());
        }
        self.core.find_shown(caller, id).await.map(|_| Vec::new())
    }
}
