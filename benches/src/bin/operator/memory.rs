//! The same looks without a cluster: the reconcilers over a view in this process, which holds the objects
//! that the real API server has.
//!
//! Everything is settled, so a look reads, plans and finds nothing to write; a request would fail the bench.
//! A change of a sandbox is what its watch would show: the object with another version. The clock is the
//! thread's own, which stands still while somebody else has the core.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use rustix::time::{ClockId, clock_gettime};
use sandgate_benches::record::Record;
use sandgate_operator::{
    Again, Key, Kind, Leadership, Metrics, NoEvents, Pauses, Random, Reconciler, SandboxReconciler,
    SandboxSetReconciler, SystemClock, View, Writes,
};
use sandgate_tests::cluster::Resource;
use serde_json::Value;

use crate::site::{SET, Site};

pub(crate) const EACH: &str = "CPU, µs/look";
/// A change of a sandbox that is read and indexed, a look at it, and a look at its set.
pub(crate) const SERIES: [&str; 3] = ["observe", "sandbox", "set"];

/// How often each is done in a round.
const TIMES: usize = 2000;

pub(crate) async fn measure(site: &Site, namespace: &str, size: u32, rounds: usize, record: &mut Record) {
    let view = View::new(Box::new(|_, _, _| {}));
    let mut sandboxes = Vec::new();
    for (resource, kind) in [
        (Resource::SandboxSet, Kind::SandboxSet),
        (Resource::SandboxTemplate, Kind::SandboxTemplate),
        (Resource::Pod, Kind::Pod),
        (Resource::Sandbox, Kind::Sandbox),
    ] {
        let mut objects = site.cluster.objects(resource, namespace).list().await;
        let version = |object: &Value| object["metadata"]["resourceVersion"].as_str()?.parse::<u64>().ok();
        objects.sort_by_key(version);
        for object in &objects {
            view.observe_json(kind, object.to_string().as_bytes()).expect("an object of the API server");
        }
        if kind == Kind::Sandbox {
            sandboxes = objects;
        }
    }
    let client = Client::new(
        tower::service_fn(|request: Request<Body>| async move {
            Err::<Response<Body>, _>(format!("a settled set asks for {} {}", request.method(), request.uri()))
        }),
        namespace,
    );
    let (leadership, metrics) = (Leadership::always(), Metrics::default());
    let writes = Writes::new(client, view.clone(), leadership, metrics.writes);
    let (events, clock) = (Arc::new(NoEvents), Arc::new(SystemClock));
    let one = SandboxReconciler::new(
        view.clone(),
        writes.clone(),
        events.clone(),
        clock.clone(),
        Pauses::default(),
    );
    let set = SandboxSetReconciler::new(view.clone(), writes, events, clock, Random::seeded(1));
    let set_key = Key::new(namespace, SET);
    let keys: Vec<Key> = sandboxes.iter().map(|sandbox| Key::new(namespace, name(sandbox))).collect();
    let chosen = |number: usize| (number * 7919) % keys.len();
    let mut version = u64::MAX / 2;
    for round in 0..rounds {
        let mut add = |condition: &str, began: Duration| {
            let value = (thread_time() - began).as_secs_f64() * 1e6 / TIMES as f64;
            record.add(EACH, "in memory", size as usize, condition, round, value);
        };
        let changed: Vec<String> = (0..TIMES)
            .map(|number| {
                version += 1;
                let mut sandbox = sandboxes[chosen(number)].clone();
                sandbox["metadata"]["resourceVersion"] = version.to_string().into();
                sandbox.to_string()
            })
            .collect();
        let began = thread_time();
        for object in &changed {
            view.observe_json(Kind::Sandbox, object.as_bytes()).expect("an object that was read before");
        }
        add("observe", began);
        let began = thread_time();
        for number in 0..TIMES {
            settled(one.reconcile(&keys[chosen(number)]).await);
        }
        add("sandbox", began);
        let began = thread_time();
        for _ in 0..TIMES {
            settled(set.reconcile(&set_key).await);
        }
        add("set", began);
    }
}

fn settled(look: Result<Again, sandgate_operator::Failed>) {
    black_box(look.unwrap_or_else(|failed| panic!("a settled sandbox: {failed}")));
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// What this thread has had of a core.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).expect("a time that was used is positive")
}
