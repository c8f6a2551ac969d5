//! What one change costs the operator, by the size of the set that the sandbox belongs to.
//!
//! The set grows from one size to the next. At each, changes of one kind are made at a fixed rate, and the
//! operator's CPU from before the first until it rests again is divided by how many there were:
//! - *touch*: an annotation of a sandbox changes: one look at the sandbox, which finds nothing to do;
//! - *flap*: a pod is not ready for a while: looks, two writes of the sandbox's status, two of the set's;
//! - *replace*: a sandbox is deleted, as a claim that ends would do it: the set makes another one.
//!
//! What a scrape of the metrics costs is not in it. At the end of each size the same objects are read into a
//! view in this process, where nothing else is measured: see [`memory`].

use std::time::Duration;

use sandgate_benches::operator::{Metrics, at_rest};
use sandgate_benches::proc;
use sandgate_benches::record::Record;
use sandgate_benches::stats::Spread;
use sandgate_tests::cluster::{Objects, Operator, Resource};
use serde_json::{Value, json};
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::site::Site;
use crate::{Common, memory};

/// How many changes of each kind a round makes, and how many a second.
const CHANGES: [(&str, usize, u32); 3] = [("touch", 400, 100), ("flap", 100, 25), ("replace", 50, 10)];

const EACH: &str = "CPU, µs/change";

pub(crate) async fn run(common: &Common, record: &mut Record) {
    let site = Site::start().await;
    let namespace = site.cluster.namespace("reconcile").await;
    let operator = site.operator().await;
    site.make_set(&namespace, 0).await;
    let sizes = common.sandboxes(&[100, 1000, 10_000]);
    for &size in &sizes {
        let began = Instant::now();
        site.scale(&namespace, size).await;
        println!("{size} sandboxes after {:.0} s", began.elapsed().as_secs_f64());
        for round in 0..common.rounds(5) {
            for (kind, count, rate) in CHANGES {
                let count = if common.quick { count / 10 } else { count };
                let change = Change { site: &site, namespace: &namespace, kind, count, rate, round };
                change.measure(&operator, size, record).await;
                site.settled(&namespace, size).await;
            }
        }
        memory::measure(&site, &namespace, size, common.rounds(5), record).await;
    }
    let (Some(&first), Some(&last)) = (sizes.first(), sizes.last()) else { return };
    let series: Vec<(&str, &str, &str)> = CHANGES
        .iter()
        .map(|(kind, ..)| (EACH, "operator", *kind))
        .chain(memory::SERIES.map(|condition| (memory::EACH, "in memory", condition)))
        .collect();
    for (measure, subject, condition) in series {
        let median =
            |size: u32| Spread::of(&record.rounds(measure, subject, size as usize, condition)).median;
        println!(
            "{subject}, {condition}: {last} : {first} sandboxes is {:.2} (medians {:.1} and {:.1})",
            median(last) / median(first),
            median(last),
            median(first)
        );
    }
}

struct Change<'a> {
    site: &'a Site,
    namespace: &'a str,
    kind: &'static str,
    count: usize,
    rate: u32,
    round: usize,
}

impl Change<'_> {
    async fn measure(&self, operator: &Operator, size: u32, record: &mut Record) {
        let sandboxes = self.site.cluster.objects(Resource::Sandbox, self.namespace);
        let pods = self.site.cluster.objects(Resource::Pod, self.namespace);
        let names = names(&sandboxes).await;
        let before = Metrics::of(operator).await;
        at_rest(operator).await;
        let cpu = proc::cpu_nanos(operator.pid());
        let mut ticks = interval(Duration::from_secs(1) / self.rate);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // A step that visits all before any twice, for sizes that it does not divide.
        let chosen = (0..self.count).map(|number| &names[(number * 7919 + self.round) % names.len()]);
        for (number, name) in chosen.enumerate() {
            ticks.tick().await;
            match self.kind {
                "touch" => {
                    let text = format!("{}-{number}", self.round);
                    sandboxes
                        .patch(name, &json!({"metadata": {"annotations": {"bench/touched": text}}}))
                        .await;
                }
                "flap" => {
                    pods.patch(name, &ready(&json!("false"))).await;
                }
                _ => sandboxes.delete(name).await,
            }
        }
        if self.kind == "flap" {
            for number in 0..self.count {
                ticks.tick().await;
                let name = &names[(number * 7919 + self.round) % names.len()];
                pods.patch(name, &ready(&Value::Null)).await;
            }
        }
        at_rest(operator).await;
        let used = proc::cpu_nanos(operator.pid()) - cpu;
        let after = Metrics::of(operator).await;
        let count = self.count as f64;
        let mut add = |what: &str, value: f64| {
            record.add(what, "operator", size as usize, self.kind, self.round, value);
        };
        add(EACH, used as f64 / 1e3 / count);
        for (what, controller) in [("sandbox looks/change", "sandbox"), ("set looks/change", "sandboxset")] {
            add(what, (after.reconciles(controller) - before.reconciles(controller)) / count);
        }
    }
}

/// The annotation by which the node says that a pod is not ready.
fn ready(value: &Value) -> Value {
    json!({ "metadata": { "annotations": { "node.sandgate.test/ready": value } } })
}

async fn names(objects: &Objects) -> Vec<String> {
    let listed = objects.list().await;
    let name = |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    listed.iter().map(name).collect()
}
