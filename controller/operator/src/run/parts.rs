//! The parts of the operator, and what connects them.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use kube::Client;
use prometheus_client::registry::Registry;
use sandgate_cache::Group;
use sandgate_cache::daemon::{identity, metrics_page};
use sandgate_envs::NoRouter;
use sandgate_follow::{Access, Timing};
use sandgate_peering::{ActivityClient, ActivitySettings};
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

use super::followers::{FirstLists, Followers, missing};
use super::ports::{self, Port};
use super::settings::{batch_settings, env_settings, pool_settings, snapshot_settings, workers_of};
use super::{Operator, RunError};
use crate::{
    Activity, Args, BatchSandboxReconciler, Candidate, CandidateStatus, Clock, ClusterEvents, ClusterExec,
    Controller, ControllerName, EnvPoolReconciler, Events, Followed, Gateways, HttpExecutors, IdleRelease,
    Key, Leadership, Limits, Metrics, NoInstanceTypes, Pace, Pages, Pauses, PoolAdoptionReconciler,
    PoolReconciler, Probes, Queue, Random, Reconciler, SandboxEnvReconciler, SandboxReconciler,
    SandboxSetReconciler, SandboxSnapshotReconciler, Scraped, SystemClock, Times, TokenFile, View, Workers,
    Writes,
};

/// The provider of environments, as gateways name it.
const ENVIRONMENTS: &str = "sandbox-env";

/// A lease task that has begun nothing for so many lease durations is stuck.
const STUCK: u32 = 3;

pub(super) async fn assemble(
    args: &Args,
    times: Times,
    client: Client,
    timing: Timing,
) -> Result<Operator, RunError> {
    let token = args.opensandbox.task_executor_token_file.as_deref().map(TokenFile::open).transpose();
    let token = token.map_err(RunError::Token)?;
    let servers = ports::bind(args).await?;
    let address = servers[0].1;
    for (option, why) in args.opensandbox.without_effect() {
        tracing::warn!("--{option} has no effect: {why}");
    }
    let (mut random, clock) = (Random::new(), Arc::new(SystemClock));
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let [mut workers, mut events, mut election, mut service] = <[Group; 4]>::default();

    let mut queues = BTreeMap::new();
    for name in args.controllers() {
        queues.insert(watched(name), Queue::new(Pace::default(), Random::seeded(random.number())));
    }
    let marked = queues.clone();
    let view = View::new(Box::new(move |controller, key, haste| {
        if let Some(queue) = marked.get(&controller) {
            queue.add_in(key.clone(), haste);
        }
    }));

    let mut followers = Followers::new(args, timing);
    let kinds = followers.follow_all(&args.controllers(), &view, &mut service);
    let listed = followers.first_lists();
    let Followers { followed, tasks, .. } = followers;

    let me = identity("sandgate-operator", &mut random);
    let (leadership, candidate) = if args.leader_elect {
        let namespace = lease_namespace(args, &client);
        tracing::info!("{me} takes part in the election by the lease {namespace}/{}", args.lease_name);
        let random = Random::seeded(random.number());
        let (client, clock) = (client.clone(), Arc::clone(&clock) as Arc<dyn Clock>);
        let (candidate, leadership) =
            Candidate::new(client, &namespace, &args.lease_name, &me, times, clock, random);
        let status = candidate.status();
        // A replica that cannot watch the cluster leaves the lease to one that can.
        election.spawn("the election", |stop| listed.clone().then(stop, |stop| candidate.run(stop)));
        (leadership, Some(status))
    } else {
        tracing::info!("{me} leads without an election");
        (Leadership::always(), None)
    };

    let writes = Writes::new(client.clone(), view.clone(), leadership.clone(), metrics.writes.clone());
    for (controller, queue) in &queues {
        let name = name(*controller);
        let (sink, task) = ClusterEvents::new(client.clone(), name, &me, metrics.events.clone());
        events.spawn(&format!("the events of {name}"), |stop| task.run(stop));
        let sink: Arc<dyn Events> = Arc::new(sink);
        let mut start = Start {
            workers: &mut workers,
            listed: listed.clone(),
            queue: queue.clone(),
            leadership: leadership.clone(),
            events: Arc::clone(&sink),
            metrics: &metrics,
            limits: Limits { workers: workers_of(args, *controller), ..Limits::default() },
            kept_out: args.opensandbox.strict_recovery.then(|| view.clone()),
        };
        let (view, writes) = (view.clone(), writes.clone());
        let clock = Arc::clone(&clock) as Arc<dyn Clock>;
        match controller {
            Controller::Sandbox => {
                start.spawn(SandboxReconciler::new(view, writes, sink, clock, Pauses::default()));
            }
            Controller::SandboxSet => {
                let random = Random::seeded(random.number());
                start.spawn(SandboxSetReconciler::new(view, writes, sink, clock, random));
            }
            Controller::BatchSandbox => {
                let executors = Arc::new(HttpExecutors::new(token.clone()));
                let (metrics, settings) = (metrics.tasks.clone(), batch_settings(args));
                start.spawn(BatchSandboxReconciler::new(
                    view, writes, sink, clock, executors, metrics, settings,
                ));
            }
            Controller::Pool => {
                let (random, exec) =
                    (Random::seeded(random.number()), Arc::new(ClusterExec::new(client.clone())));
                let (metrics, settings) = (metrics.pools.clone(), pool_settings(args));
                start.spawn(PoolReconciler::new(view, writes, sink, clock, random, exec, settings, metrics));
            }
            Controller::SandboxSnapshot => {
                let settings = snapshot_settings(args);
                start.spawn(SandboxSnapshotReconciler::new(view, writes, sink, clock, settings));
            }
            Controller::SandboxEnv => {
                let (random, cluster) = (Random::seeded(random.number()), local_cluster(args, name)?);
                let settings = env_settings(args, cluster, Arc::new(NoRouter));
                start.spawn(SandboxEnvReconciler::new(view, writes, sink, clock, random, settings));
            }
            Controller::EnvPool => {
                let cluster = local_cluster(args, name)?;
                let [random, drawn] = [random.number(), random.number()].map(Random::seeded);
                let counted = metrics.env_pools.clone();
                let (of_idle, of_writes, at) = (view.clone(), writes.clone(), Arc::clone(&clock));
                let idle = IdleRelease::new(of_idle, of_writes, at, drawn, gateways(args)?, counted.clone());
                start.beside("the release of unused sandboxes", |stop| idle.run(stop));
                start.spawn(EnvPoolReconciler::new(view, writes, sink, clock, random, cluster, counted));
            }
            Controller::PoolAdoption => {
                let (cluster, sizes) = (local_cluster(args, name)?, Arc::new(NoInstanceTypes));
                start.spawn(PoolAdoptionReconciler::new(view, writes, sink, cluster, sizes));
            }
        }
    }

    let malformed = match args.opensandbox.strict_recovery {
        true => unreadable(view.clone(), listed.clone()).boxed(),
        false => pending().boxed(),
    };
    let [counted, levelled, unread] = [&view, &view, &view].map(View::clone);
    let scraped = Scraped {
        queues: queues.iter().map(|(controller, queue)| (name(*controller), queue.clone())).collect(),
        leadership,
        candidate: candidate.clone(),
        followed: followed.clone(),
        objects: Box::new(move || {
            // The pods of all controllers are one number.
            let mut counts = BTreeMap::new();
            for kind in &kinds {
                *counts.entry(kind.name()).or_default() += counted.count(*kind);
            }
            counts.into_iter().collect()
        }),
        pools: Box::new(move || levelled.pool_levels()),
        malformed: Box::new(move || unread.malformed_batches().len()),
    };
    scraped.register(&mut registry);
    let shown = Arc::new(Shown { tasks, candidate, listed, followed, registry, times });
    for (server, at, port) in servers {
        let pages = shown.pages(port);
        service.spawn(&format!("the server on {at}"), |stop| server.run(pages, stop));
    }
    let queues = queues.into_values().collect();
    Ok(Operator { address, queues, workers, events, election, service, malformed })
}

/// Completes with a batch whose annotations cannot be read, if there is one after the first lists.
async fn unreadable(view: View, listed: FirstLists) -> Key {
    let mut first = None;
    listed
        .then(CancellationToken::new(), async |_| first = view.malformed_batches().into_iter().next())
        .await;
    match first {
        Some(batch) => batch,
        None => pending().await,
    }
}

/// What the pages show.
struct Shown {
    tasks: Vec<(String, AbortHandle)>,
    candidate: Option<Arc<CandidateStatus>>,
    listed: FirstLists,
    followed: Vec<Followed>,
    registry: Registry,
    times: Times,
}

impl Shown {
    /// What a port has of it.
    fn pages(self: &Arc<Self>, port: Port) -> Pages {
        let [one, two, three] = [self, self, self].map(Arc::clone);
        let probes = Probes {
            ailing: Box::new(move || {
                // Before, the candidate waits.
                let candidate = one.candidate.as_deref().filter(|_| one.listed.complete());
                ailing(&one.tasks, candidate, one.times)
            }),
            missing: Box::new(move || missing(&two.followed)),
        };
        Pages {
            probes: port.has_probes.then_some(probes),
            metrics: port.has_metrics.then(|| Box::new(move || metrics_page(&three.registry)) as _),
        }
    }
}

fn watched(name: ControllerName) -> Controller {
    match name {
        ControllerName::Sandbox => Controller::Sandbox,
        ControllerName::SandboxSet => Controller::SandboxSet,
        ControllerName::BatchSandbox => Controller::BatchSandbox,
        ControllerName::Pool => Controller::Pool,
        ControllerName::SandboxSnapshot => Controller::SandboxSnapshot,
        ControllerName::SandboxEnv => Controller::SandboxEnv,
        ControllerName::EnvPool => Controller::EnvPool,
        ControllerName::PoolAdoption => Controller::PoolAdoption,
    }
}

fn name(controller: Controller) -> &'static str {
    match controller {
        Controller::Sandbox => SandboxReconciler::NAME,
        Controller::SandboxSet => SandboxSetReconciler::NAME,
        Controller::BatchSandbox => BatchSandboxReconciler::NAME,
        Controller::Pool => PoolReconciler::NAME,
        Controller::SandboxSnapshot => SandboxSnapshotReconciler::NAME,
        Controller::SandboxEnv => SandboxEnvReconciler::NAME,
        Controller::EnvPool => EnvPoolReconciler::NAME,
        Controller::PoolAdoption => PoolAdoptionReconciler::NAME,
    }
}

/// The cluster that this is.
fn local_cluster<'a>(args: &'a Args, controller: &'static str) -> Result<&'a str, RunError> {
    let cluster = args.environments.local_cluster_id.as_str();
    if cluster.is_empty() { Err(RunError::NoCluster(controller)) } else { Ok(cluster) }
}

/// The gateways that know which sandboxes of environments are used; none if none are asked.
fn gateways(args: &Args) -> Result<Option<Arc<dyn Activity>>, RunError> {
    let options = &args.environments.activity;
    let Some(peers) = options.gateways(&args.access())? else { return Ok(None) };
    let credentials = options.credentials()?;
    let client = ActivityClient::new(ActivitySettings::default(), peers, &credentials);
    let client = client.map_err(RunError::Gateways)?;
    Ok(Some(Arc::new(Gateways::new(client, ENVIRONMENTS))))
}

/// What the workers of one controller need.
struct Start<'a> {
    workers: &'a mut Group,
    listed: FirstLists,
    queue: Queue,
    leadership: Leadership,
    events: Arc<dyn Events>,
    metrics: &'a Metrics,
    limits: Limits,
    /// With `--strict-recovery`: where a batch may be that keeps this process from working.
    kept_out: Option<View>,
}

impl Start<'_> {
    /// Runs a task of a controller beside it, once everything is listed.
    fn beside<F: Future<Output = ()> + Send + 'static>(
        &mut self,
        name: &str,
        task: impl FnOnce(CancellationToken) -> F + Send + 'static,
    ) {
        let listed = self.listed.clone();
        self.workers.spawn(name, |stop| listed.then(stop, task));
    }

    fn spawn<R: Reconciler>(&mut self, reconciler: R) {
        let (queue, leadership, events) = (self.queue.clone(), self.leadership.clone(), self.events.clone());
        let metrics = self.metrics.controller(R::NAME);
        let workers = Workers::new(reconciler, queue, leadership, events, metrics, self.limits);
        let (listed, kept_out) = (self.listed.clone(), self.kept_out.clone());
        self.workers.spawn(&format!("the controller {}", R::NAME), |stop| {
            listed.then(stop, async move |stop| {
                match kept_out.is_some_and(|view| !view.malformed_batches().is_empty()) {
                    true => stop.cancelled().await,
                    false => workers.run(stop).await,
                }
            })
        });
    }
}

/// The tasks that do not do their work. A cluster that does not answer is no reason to restart this process.
fn ailing(tasks: &[(String, AbortHandle)], candidate: Option<&CandidateStatus>, times: Times) -> Vec<String> {
    let ended =
        tasks.iter().filter(|(_, task)| task.is_finished()).map(|(name, _)| format!("{name} has ended"));
    let silence = candidate.map_or(Duration::ZERO, |candidate| candidate.last_round().elapsed());
    let stuck = (silence > times.duration() * STUCK)
        .then(|| format!("the election has done nothing for {} s", silence.as_secs()));
    ended.chain(stuck).collect()
}

/// The pod's namespace where its access is used, else `default`.
fn lease_namespace(args: &Args, client: &Client) -> String {
    let of_the_pod =
        args.access() == Access::default() && std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();
    let default = if of_the_pod { client.default_namespace() } else { "default" };
    args.lease_namespace.clone().unwrap_or_else(|| default.to_owned())
}
