//! From a pod that is ready to its batch that says so, with many batches at once.
//!
//! Two watches of the bench's own see the pods and the batches. For each batch, the time is from the event
//! that showed its pod ready to the event that showed the batch ready; it is not below zero by more than the
//! two watches differ. Three conditions:
//! - *own*: each batch has a pod of its own, made from its template;
//! - *pooled*: the pool has no pods, and makes them because batches wait. A pod that is ready is then
//!   claimed, allocated and told of;
//! - *held*: as *own*, but the pods run and are not ready until all of them are there and everything rests.
//!   Then all are let go at once.
//!
//! In the first two all batches are created at once, so that scheduler, node and API server are busy with the
//! other pods while the first are ready: a figure has the wait for a core in it.
//!
//! What the machine allows is measured in the same run: *bare* is the bare loop of an allocation's three
//! writes ([`bare`](crate::bare)), for as many batches and ready pods at once, from its start to the event
//! that shows a batch ready. Nothing else happens in the cluster then.

use futures_util::future::join_all;
use sandgate_benches::operator::{Metrics, at_rest};
use sandgate_benches::record::Record;
use sandgate_benches::stats::percentile;
use sandgate_tests::cluster::{Resource, batch_sandbox, pool};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::Common;
use crate::bare::Bare;
use crate::observer::{ready_batch, ready_pod, see_batches, see_pods};
use crate::site::{POOL, Site, template};

/// The pods are let go at once.
const HELD: &str = "held";
/// The annotation by which the node says that a pod is not ready.
const NOT_READY: &str = "node.sandgate.test/ready";

pub(crate) async fn run(common: &Common, record: &mut Record) {
    let site = Site::start().await;
    for size in common.pods(&[128]) {
        for condition in ["own", "pooled", HELD] {
            let namespace = site.cluster.namespace(condition).await;
            let operator = site.operator(&namespace).await;
            if condition == "pooled" {
                let object = pool(POOL, &template(), [0, 0], [0, size]);
                site.cluster.objects(Resource::Pool, &namespace).create(&object).await;
            }
            // The first round finds caches and connections cold.
            for round in 0..=common.rounds(5) {
                at_rest(&operator).await;
                let make = Make { site: &site, namespace: &namespace, condition, round, size };
                if condition == HELD {
                    make.create().await;
                    make.all_run().await;
                    at_rest(&operator).await;
                }
                let before = Metrics::of(&operator).await;
                let mut times = make.measure().await;
                if round > 0 {
                    let after = Metrics::of(&operator).await;
                    let mut add = |what: &str, value: f64| {
                        record.add(what, "operator", size as usize, condition, round - 1, value);
                    };
                    let mean = |name: &str, label: &str| {
                        let delta = |end: &str| {
                            let name = format!("sandgate_operator_{name}_seconds_{end}");
                            after.sum(&name, &[label]) - before.sum(&name, &[label])
                        };
                        1e3 * delta("sum") / delta("count")
                    };
                    add("a write, mean ms", mean("write_duration", ""));
                    add("wait for a worker, mean ms", mean("queue_wait", "controller=\"batchsandbox\""));
                    let writes = |metrics: &Metrics| metrics.sum("sandgate_operator_writes_total", &[]);
                    add("writes/batch", (writes(&after) - writes(&before)) / f64::from(size));
                    keep(&mut times, "operator", condition, round - 1, record);
                }
                site.end_batches(&namespace).await;
                site.cluster
                    .objects(Resource::Pod, &namespace)
                    .until_all("no pod is left", <[_]>::is_empty)
                    .await;
            }
        }
        bare(&site, common, size, record).await;
    }
}

/// Records the percentiles of a round.
fn keep(times: &mut [f64], subject: &str, condition: &str, round: usize, record: &mut Record) {
    let size = times.len();
    for (measure, percent) in [("p50, ms", 50.0), ("p99, ms", 99.0), ("longest, ms", 100.0)] {
        let value = percentile(times, percent);
        println!("round {round}: {condition}: {measure} {value:.1}");
        record.add(measure, subject, size, condition, round, value);
    }
}

/// The bare loop, with the operator gone while it runs.
async fn bare(site: &Site, common: &Common, size: u32, record: &mut Record) {
    let namespace = site.cluster.namespace("bare").await;
    let mut operator = site.operator(&namespace).await;
    site.make_pool(&namespace, size).await;
    for round in 0..=common.rounds(5) {
        site.all_free(&namespace, size).await;
        operator.kill();
        site.make_batches(&namespace, &format!("b{round}"), size).await;
        let bare = Bare::prepare(site, &namespace, true).await;
        let ready = see_batches(site.client(), &namespace, size as usize, ready_batch);
        let began = Instant::now();
        bare.run().await;
        let ready = ready.await.expect("the observer");
        if round > 0 {
            let time = |(at, _): &(Instant, String)| at.saturating_duration_since(began).as_secs_f64() * 1e3;
            let mut times: Vec<f64> = ready.values().map(time).collect();
            keep(&mut times, "bare loop", "bare", round - 1, record);
        }
        operator.start_again().await;
        site.end_batches(&namespace).await;
    }
}

/// The batches of one round.
struct Make<'a> {
    site: &'a Site,
    namespace: &'a str,
    condition: &'static str,
    round: usize,
    size: u32,
}

impl Make<'_> {
    /// Creates all of them at once.
    async fn create(&self) {
        let batches = self.site.cluster.objects(Resource::BatchSandbox, self.namespace);
        let create = |number: u32| {
            let mut template = template();
            if self.condition == HELD {
                template["metadata"]["annotations"] = json!({ NOT_READY: "false" });
            }
            let mut object = batch_sandbox(&format!("b{}-{number:03}", self.round), 1, &template);
            if self.condition == "pooled" {
                object["spec"] = json!({ "replicas": 1, "poolRef": POOL });
            }
            let batches = batches.clone();
            async move { drop(batches.create(&object).await) }
        };
        join_all((0..self.size).map(create)).await;
    }

    /// Waits until all pods run and their batches know it.
    async fn all_run(&self) {
        let batches = self.site.cluster.objects(Resource::BatchSandbox, self.namespace);
        batches
            .until_all("all pods run", |all| {
                let is_there = |batch: &Value| batch["status"]["allocated"] == 1;
                all.len() == self.size as usize && all.iter().all(is_there)
            })
            .await;
        let pods = self.site.cluster.objects(Resource::Pod, self.namespace);
        pods.until_all("all pods run", |all| all.iter().all(|pod| pod["status"]["phase"] == "Running")).await;
    }

    async fn let_go(&self) {
        let pods = self.site.cluster.objects(Resource::Pod, self.namespace);
        let patch = json!({ "metadata": { "annotations": { NOT_READY: null } } });
        let names = (0..self.size).map(|number| format!("b{}-{number:03}-0", self.round));
        let each = |name: String| {
            let (pods, patch) = (&pods, &patch);
            async move { drop(pods.patch(&name, patch).await) }
        };
        join_all(names.map(each)).await;
    }

    /// From pod to batch, in milliseconds.
    async fn measure(&self) -> Vec<f64> {
        let size = self.size as usize;
        let pods = see_pods(self.site.client(), self.namespace, size, ready_pod);
        let ready = see_batches(self.site.client(), self.namespace, size, ready_batch);
        if self.condition == HELD {
            self.let_go().await;
        } else {
            self.create().await;
        }
        let (pods, ready) = (pods.await.expect("the observer"), ready.await.expect("the observer"));
        let time = |(at, pod): &(Instant, String)| {
            let (since, _) = pods.get(pod).expect("its pod is ready");
            let later = at.saturating_duration_since(*since).as_secs_f64();
            (later - since.saturating_duration_since(*at).as_secs_f64()) * 1e3
        };
        ready.values().map(time).collect()
    }
}
