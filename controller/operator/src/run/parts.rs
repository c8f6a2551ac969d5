//! The parts of the operator, and what connects them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use prometheus_client::registry::Registry;
use sandgate_cache::Group;
use sandgate_cache::daemon::{identity, metrics_page};
use sandgate_follow::{Access, Timing};
use sandgate_objects::openkruise::resources::{Sandbox, SandboxSet, SandboxTemplate};
use tokio::task::AbortHandle;

use super::followers::{FirstLists, Followers, missing};
use super::{Operator, RunError};
use crate::{
    Args, Candidate, CandidateStatus, Clock, ClusterEvents, Controller, ControllerName, Events, Kind,
    Leadership, Limits, Metrics, Pace, Pages, Pauses, PodFacts, Queue, Random, Reconciler, SandboxReconciler,
    SandboxSetReconciler, Scraped, Server, SystemClock, Times, View, Workers, Writes,
};

/// A lease task that has begun nothing for so many lease durations is stuck.
const STUCK: u32 = 3;

pub(super) async fn assemble(
    args: &Args,
    times: Times,
    client: Client,
    timing: Timing,
) -> Result<Operator, RunError> {
    let cannot = |source| RunError::Listen { address: args.listen, source };
    let server = Server::bind(args.listen).await.map_err(cannot)?;
    let address = server.address().map_err(cannot)?;
    tracing::info!("/healthz, /readyz and /metrics are on http://{address}");
    let (mut random, clock) = (Random::new(), Arc::new(SystemClock));
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let [mut workers, mut events, mut election, mut service] = <[Group; 4]>::default();

    let mut queues = BTreeMap::new();
    for name in args.controllers() {
        queues.insert(watched(name), Queue::new(Pace::default(), Random::seeded(random.number())));
    }
    let marked = queues.clone();
    let view = View::new(Box::new(move |controller, key| {
        if let Some(queue) = marked.get(&controller) {
            queue.add(key.clone());
        }
    }));

    let mut followers = Followers::new(args, timing);
    followers.follow::<Sandbox>(&view, &mut service);
    followers.follow::<SandboxSet>(&view, &mut service);
    followers.follow::<SandboxTemplate>(&view, &mut service);
    followers.follow::<PodFacts>(&view, &mut service);
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
            limits: Limits { workers: args.workers.into(), ..Limits::default() },
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
        }
    }

    let scraped = Scraped {
        queues: queues.iter().map(|(controller, queue)| (name(*controller), queue.clone())).collect(),
        leadership,
        candidate: candidate.clone(),
        followed: followed.clone(),
        objects: Box::new(move || {
            let kinds = [
                ("Sandbox", Kind::Sandbox),
                ("SandboxSet", Kind::SandboxSet),
                ("SandboxTemplate", Kind::SandboxTemplate),
                ("Pod", Kind::Pod),
            ];
            kinds.map(|(name, kind)| (name, view.count(kind))).into()
        }),
    };
    scraped.register(&mut registry);
    let pages = Pages {
        ailing: Box::new(move || {
            // Before, the candidate waits.
            let candidate = candidate.as_deref().filter(|_| listed.complete());
            ailing(&tasks, candidate, times)
        }),
        missing: Box::new(move || missing(&followed)),
        metrics: Box::new(move || metrics_page(&registry)),
    };
    service.spawn("the server", |stop| server.run(pages, stop));
    Ok(Operator { address, queues: queues.into_values().collect(), workers, events, election, service })
}

fn watched(name: ControllerName) -> Controller {
    match name {
        ControllerName::Sandbox => Controller::Sandbox,
        ControllerName::SandboxSet => Controller::SandboxSet,
    }
}

fn name(controller: Controller) -> &'static str {
    match controller {
        Controller::Sandbox => SandboxReconciler::NAME,
        Controller::SandboxSet => SandboxSetReconciler::NAME,
    }
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
}

impl Start<'_> {
    fn spawn<R: Reconciler>(&mut self, reconciler: R) {
        let (queue, leadership, events) = (self.queue.clone(), self.leadership.clone(), self.events.clone());
        let metrics = self.metrics.controller(R::NAME);
        let workers = Workers::new(reconciler, queue, leadership, events, metrics, self.limits);
        let listed = self.listed.clone();
        self.workers.spawn(&format!("the controller {}", R::NAME), |stop| {
            listed.then(stop, |stop| workers.run(stop))
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
