//! One create, from the name of an environment to a sandbox that runs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use sandgate_cache::{Key, Seen, WaitError};
use sandgate_envs::change::{Claim, Stop};
use sandgate_envs::router::{Candidates, Missing, Route, TemplateId, Wish};
use sandgate_envs::scheduler::ClaimError;
use sandgate_objects::sandbox_env::names::{GROUP, KIND_ENV, STOP_CANCELED, STOP_FAILED};
use sandgate_objects::sandbox_env::resources::{SandboxEnv, SandboxPool};
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout};

use super::describe::{e2b_at, e2b_port, size_of, token};
use super::pods::One;
use super::wish::Wishes;
use super::{Environments, STARTUP, unsupported};
use crate::find::unread;
use crate::tasks::Asked;
use crate::{Caller, Described, Error, ErrorKind, NewSandbox};

/// How long a caller that gets an error waits for what is taken back.
const UNDO_FIRST: Duration = Duration::from_secs(1);
/// When a create may be tried again that found no pod.
const RETRY: Duration = Duration::from_secs(2);

/// What a template names.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    template: TemplateId,
    /// Where the environment or the pool is.
    namespace: Arc<str>,
}

/// What is asked for, and what was drawn for it.
pub(super) struct Order {
    pub(super) caller: Caller,
    pub(super) target: Target,
    pub(super) wishes: Wishes,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) env_vars: BTreeMap<String, String>,
    /// The ID of the sandbox to be.
    pub(super) id: String,
    /// The token of its runtime.
    token: String,
    /// The token without which nobody reaches it; none if it is open.
    traffic_token: Option<String>,
    began: Instant,
}

impl Order {
    /// Until when it waits for a pod.
    pub(super) fn patience(&self) -> Duration {
        self.wishes.claim_timeout.or(self.wishes.startup_timeout).unwrap_or(STARTUP)
    }

    /// How long the sandbox may take to run.
    pub(super) fn startup(&self, pool: Option<&SandboxPool>) -> Duration {
        let of_pool = || pool.and_then(|pool| pool.spec.startup_timeout()).filter(|time| !time.is_zero());
        self.wishes.startup_timeout.or_else(of_pool).unwrap_or(STARTUP)
    }
}

impl Environments {
    /// What a template names, if that is for an environment to make. A SandboxSet or a snapshot of the name
    /// comes first.
    pub(crate) async fn target(&self, caller: &Caller, text: &str) -> Result<Option<Target>, Error> {
        let (cache, namespace) = (&self.core.cache, self.core.namespace_of(caller));
        if cache.set(namespace, text).is_some() || cache.checkpoint(namespace, text).is_some() {
            return Ok(None);
        }
        let Ok(template) = text.parse::<TemplateId>() else { return Ok(None) };
        let name = &template.name;
        let found = if template.cluster.is_some() {
            let pool = cache.env_pool(namespace, name);
            Some(pool.map(|pool| Arc::clone(&pool.key.namespace)))
        } else if let Some(env) = cache.env(namespace, name) {
            Some(Some(Arc::clone(&env.key.namespace)))
        } else if let Some(namespace) = namespace {
            // It may have been made a moment ago.
            let read =
                self.core.writes.read::<SandboxEnv>(&Key::new(namespace, name)).await.map_err(unread)?;
            read.map(|env| Some(Arc::clone(&env.key.namespace)))
        } else {
            None
        };
        let namespace = |of: Option<Arc<str>>| of.unwrap_or_else(|| namespace.unwrap_or_default().into());
        Ok(found.map(|of| Target { template, namespace: namespace(of) }))
    }

    /// Gives the caller a sandbox of an environment.
    pub(crate) async fn create(
        self: &Arc<Self>,
        caller: &Caller,
        new: NewSandbox,
        target: Target,
        asked: &Asked,
    ) -> Result<Made, Error> {
        asked.begin();
        let wishes = Wishes::read(&new, &target.template)?;
        let order = Order {
            caller: caller.clone(),
            target,
            wishes,
            labels: new.labels.clone(),
            env_vars: new.env_vars.clone(),
            id: uuid(&self.core.secrets.token()?),
            token: self.core.secrets.token()?,
            traffic_token: new.private_traffic.then(|| self.core.secrets.token()).transpose()?,
            began: Instant::now(),
        };
        let order = Arc::new(order);
        let made = match &new.idempotency_key {
            Some(key) => self.keyed(&order, &new, key).await,
            None => {
                let made = self.made(&order, asked.gone()).await;
                made.map(|pod| (pod, "env"))
            }
        };
        let how = made.as_ref().map_or("failed", |(_, how)| how);
        self.core.writes.observer().created(how, order.began.elapsed());
        let (pod, _) = made?;
        let described = self.describe(&self.newest(&pod));
        // With a key the caller may come back for it.
        let undo = new.idempotency_key.is_none().then(|| (Arc::clone(self), order, pod));
        Ok(Made { described: Some(described), undo })
    }

    /// Claims a pod, and makes it ready. If the caller goes, nothing remains.
    async fn made(
        self: &Arc<Self>,
        order: &Arc<Order>,
        gone: impl Future<Output = ()>,
    ) -> Result<One, Error> {
        let mut gone = std::pin::pin!(gone);
        let pod = tokio::select! {
            biased;
            claimed = self.claim(order) => claimed?,
            () = &mut gone => {
                self.core.quota.release(&order.caller, &order.id).await;
                return Err(cancelled());
            }
        };
        let finished = tokio::select! {
            biased;
            finished = self.admitted(order, &pod) => finished,
            () = &mut gone => Err(cancelled()),
        };
        match finished {
            Ok(pod) => Ok(pod),
            Err(error) => {
                self.undo(order, &pod, failed(&error)).await;
                Err(error)
            }
        }
    }

    /// A pod of the best pool whose line takes the claim.
    pub(super) async fn claim(&self, order: &Order) -> Result<One, Error> {
        let claimed = self.claim_of_any(order).await;
        let outcome = match &claimed {
            Ok(_) => "claimed",
            Err(error) if error.kind == ErrorKind::Busy => "busy",
            Err(_) => "failed",
        };
        self.core.writes.observer().env_claimed(outcome);
        claimed
    }

    async fn claim_of_any(&self, order: &Order) -> Result<One, Error> {
        let until = Instant::now() + order.patience();
        let mut full = None;
        for pool in self.pools(order)? {
            let Some(known) = self.core.cache.get::<SandboxPool>(&pool) else { continue };
            if !self.is_to_serve(&order.target, &known) {
                continue;
            }
            let claim = self.request(order, &known)?;
            self.core.quota.admit_pod(&order.caller, &order.id, size_of(&known)).await?;
            let error = match self.lines.claim(&pool, claim, until).await {
                Ok(pod) => return Ok(pod),
                Err(error) => error,
            };
            self.core.quota.release(&order.caller, &order.id).await;
            match error {
                ClaimError::Full { retry_after } => full = Some(retry_after),
                ClaimError::Deadline => {
                    let seconds = order.patience().as_secs();
                    let message = format!("no pod of {} became free within {seconds} s", pool.name);
                    return Err(busy(message, RETRY));
                }
                ClaimError::Refused(error) => return Err(error),
                ClaimError::Closed => {
                    return Err(Error::new(ErrorKind::Unavailable, "the manager is stopping"));
                }
                ClaimError::Interrupted => {
                    let message = "the claim broke off: nobody knows what it did";
                    return Err(Error::new(ErrorKind::Unknown, message));
                }
            }
        }
        let name = &order.target.template.name;
        match full {
            Some(after) => Err(busy(format!("too many creates wait for pods of {name}"), after)),
            None => {
                let message = format!("{name} has no pool of its own yet");
                Err(Error { retry_after: Some(RETRY), ..Error::new(ErrorKind::Unavailable, message) })
            }
        }
    }

    /// Whether a pool is what the target names: an environment's own, or the one that is named itself. A
    /// member may have the name of a pool that another environment has, whose pods are not to be taken.
    fn is_to_serve(&self, target: &Target, pool: &Seen<SandboxPool>) -> bool {
        if target.template.cluster.is_some() {
            return true;
        }
        let env = self.core.cache.env(Some(&target.namespace), &target.template.name);
        env.is_some_and(|env| {
            pool.metadata.owner_references.iter().flatten().any(|owner| {
                owner.kind == KIND_ENV
                    && owner.api_version.split('/').next() == Some(GROUP)
                    && *owner.uid == *env.uid
                    && *owner.name == *env.key.name
            })
        })
    }

    /// The pools that the claim may go to, the best first.
    fn pools(&self, order: &Order) -> Result<Vec<Key>, Error> {
        let Target { template, namespace } = &order.target;
        let name = &template.name;
        let wish = Wish {
            namespace,
            cluster: template.cluster.as_deref(),
            name,
            scaling_group: order.wishes.scaling_group.as_deref(),
        };
        let all = |here: &Candidates| here.iter().map(|pool| Key::new(namespace, pool)).collect();
        match self.feed.router().route(&wish, self.core.now(), &self.load()) {
            Route::Here(here) | Route::Forward { here: Some(here), .. } => Ok(all(&here)),
            Route::Pool => {
                let pool = Key::new(namespace, name);
                let is_known = self.core.cache.get::<SandboxPool>(&pool).is_some();
                let missing =
                    || Error::invalid("templateID", &format!("there is no pool {name} in this cluster"));
                is_known.then(|| vec![pool]).ok_or_else(missing)
            }
            Route::Forward { cluster, here: None } => {
                let what = format!("templateID: {name} has pods in the cluster {cluster}");
                Err(unsupported(&what, "This server makes none elsewhere: ask the one of that cluster."))
            }
            Route::Saturated => Err(busy(format!("too many creates wait for pods of {name}"), RETRY)),
            Route::Inconsistent => {
                let message = format!("the pools of {name} are another's, or of another template");
                Err(Error::new(ErrorKind::Unavailable, message))
            }
            Route::NoSuchGroup => {
                let group = order.wishes.scaling_group.as_deref().unwrap_or_default();
                let message = format!("no pool of {name} has the scaling group {group}");
                Err(Error::new(ErrorKind::Unavailable, message))
            }
            Route::NotSupported => {
                Err(unsupported("templateID", "This environment makes jobs, which nobody runs."))
            }
            Route::NotFound(Missing::Env) => {
                Err(Error::invalid("templateID", &format!("there is no template and no snapshot {name}")))
            }
            Route::NotFound(Missing::Members) => {
                Err(Error::new(ErrorKind::NotFound, format!("the environment {name} has no pool")))
            }
        }
    }

    /// The claim of a pod of this pool.
    fn request(&self, order: &Order, pool: &SandboxPool) -> Result<Claim, Error> {
        let Order { caller, wishes, labels, env_vars, id, token, .. } = order;
        let is_initialised = e2b_port(pool).is_some() && !wishes.skip_init;
        if !is_initialised && !env_vars.is_empty() {
            let expected = "expected none: nothing in the pods of this environment takes them";
            return Err(Error::invalid("envVars", expected));
        }
        Ok(Claim {
            sandbox: id.clone(),
            owner: caller.owner.as_ref().to_owned(),
            image: wishes.image.clone(),
            idle_timeout: Some(wishes.idle_timeout),
            startup_timeout: wishes.startup_timeout,
            metadata: wishes.metadata.clone(),
            labels: labels.clone(),
            annotations: BTreeMap::new(),
            access_token: is_initialised.then(|| token.clone()),
            traffic_access_token: order.traffic_token.clone(),
            at: self.core.now(),
        })
    }

    /// Makes a pod ready that was claimed now. The quota is asked again: a claim may have waited for longer
    /// than the quota keeps a place for a sandbox that is not there.
    pub(super) async fn admitted(self: &Arc<Self>, order: &Arc<Order>, pod: &One) -> Result<One, Error> {
        if let Some(pool) = self.core.cache.get::<SandboxPool>(&super::pods::pool_of(pod)) {
            self.core.quota.admit_pod(&order.caller, pod.sandbox_id(), size_of(&pool)).await?;
        }
        self.ready(order, pod).await
    }

    /// Makes a claimed pod ready; one that nobody wants to wait for later.
    pub(super) async fn ready(self: &Arc<Self>, order: &Arc<Order>, pod: &One) -> Result<One, Error> {
        if !order.wishes.no_wait {
            return self.finish(order, pod).await;
        }
        let (envs, order, claimed) = (Arc::clone(self), Arc::clone(order), Arc::clone(pod));
        self.tasks.spawn(async move {
            if let Err(error) = envs.finish(&order, &claimed).await {
                tracing::warn!(pod = %claimed.key, "a sandbox that nobody waits for did not start: {error}");
                envs.undo(&order, &claimed, failed(&error)).await;
            }
        });
        Ok(Arc::clone(pod))
    }

    /// Waits until a claimed pod runs, initialises its runtime, and tells the gateways.
    async fn finish(&self, order: &Order, pod: &One) -> Result<One, Error> {
        let id = pod.sandbox_id().to_owned();
        let pool = self.core.cache.get::<SandboxPool>(&super::pods::pool_of(pod));
        let within = order.startup(pool.as_deref().map(|pool| &pool.object));
        let waited = self.core.cache.env_running(&pod.key, &pod.uid, &id).within(within).await;
        let running = waited.map_err(|error| match error {
            WaitError::Timeout | WaitError::NotSatisfied => {
                let message = format!("the sandbox did not run within {} s", within.as_secs());
                Error::new(ErrorKind::Timeout, message)
            }
            other => Error::new(ErrorKind::Unavailable, format!("the sandbox cannot start: {other}")),
        })?;
        let init = async {
            match e2b_at(&self.core.cache, &running).filter(|_| !token(&running).is_empty()) {
                Some(at) => self.core.runtime.init_at(at, token(&running), &order.env_vars).await,
                None => Ok(()),
            }
        };
        let announce = async {
            self.core.gateways.announce_pod(&running, &id).await;
            Ok(())
        };
        tokio::try_join!(biased; init, announce)?;
        Ok(running)
    }

    /// Gives the pod of a create back that failed. The caller waits a moment for it, and it goes on after
    /// that.
    pub(super) async fn undo(self: &Arc<Self>, order: &Arc<Order>, pod: &One, stop: Stop) {
        let (envs, order, pod) = (Arc::clone(self), Arc::clone(order), Arc::clone(pod));
        let undo = self.tasks.spawn(async move {
            envs.core.give_back(&pod, &stop).await;
            envs.ended(&order.caller, pod.sandbox_id(), &pod).await;
        });
        // Usually it is done before the caller could look.
        let _ = timeout(UNDO_FIRST, undo).await;
    }
}

/// A sandbox on its way to whoever asked for it. If it is dropped on the way, the sandbox is ended.
pub(crate) struct Made {
    described: Option<Described>,
    undo: Option<(Arc<Environments>, Arc<Order>, One)>,
}

impl Made {
    /// It has arrived.
    pub(crate) fn arrived(mut self) -> Result<Described, Error> {
        self.undo = None;
        // It is there until this is called.
        self.described.take().ok_or_else(|| Error::new(ErrorKind::Internal, "a sandbox arrives once"))
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        let (Some((envs, order, pod)), Ok(runtime)) = (self.undo.take(), Handle::try_current()) else {
            return;
        };
        let tasks = envs.tasks.clone();
        let undo = async move { envs.undo(&order, &pod, failed(&cancelled())).await };
        tasks.spawn_on(undo, &runtime);
    }
}

/// Why the sandbox of a create that failed ends.
pub(super) fn failed(error: &Error) -> Stop {
    let is_cancelled = *error == cancelled();
    Stop {
        reason: if is_cancelled { STOP_CANCELED } else { STOP_FAILED },
        failure: (!is_cancelled).then(|| "StartFailed".to_owned()),
        message: error.message.clone(),
        end: None,
    }
}

pub(super) fn cancelled() -> Error {
    Error::new(ErrorKind::Unavailable, "nobody waits for the sandbox any more")
}

fn busy(message: String, after: Duration) -> Error {
    Error { kind: ErrorKind::Busy, message, retry_after: Some(after) }
}

/// Thirty-two hexadecimal digits as a UUID is written. It has no dot, so it fits into `{port}-{id}.{domain}`.
fn uuid(digits: &str) -> String {
    let part = |from: usize, to: usize| digits.get(from..to).unwrap_or_default();
    [part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)].join("-")
}
