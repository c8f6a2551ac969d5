//! What one allocation costs the operator, and how much memory it has, by the size of the pool.
//!
//! The pool grows from one size to the next. At each, batches are made at a fixed rate, and the operator's
//! CPU from before the first until it rests again is divided by how many there were. That is everything that
//! it does for a batch: the claim, the allocation, the statuses of batch and pool, and what it is told of all
//! these by its watches. The batches are deleted between the rounds, which is not in it.
//!
//! Memory is what the process has when it rests, and what a process has that starts with so many pods.

use std::time::Duration;

use sandgate_benches::operator::{Metrics, at_rest};
use sandgate_benches::proc;
use sandgate_benches::record::Record;
use sandgate_benches::stats::Spread;
use sandgate_tests::cluster::{Operator, Resource, pooled};
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::Common;
use crate::observer::{ready_batch, see_batches};
use crate::site::{POOL, Site};

/// How many batches a round makes, and how many a second.
const BATCHES: (u32, u32) = (100, 20);

const EACH: &str = "CPU, µs/allocation";

pub(crate) async fn run(common: &Common, record: &mut Record) {
    let site = Site::start().await;
    let namespace = site.cluster.namespace("size").await;
    let mut operator = site.operator(&namespace).await;
    site.make_pool(&namespace, 0).await;
    let sizes = common.pods(&[100, 1000, 10_000]);
    for &size in &sizes {
        let began = Instant::now();
        site.resize_pool(&namespace, size).await;
        site.all_free(&namespace, size).await;
        println!("{size} pods after {:.0} s", began.elapsed().as_secs_f64());
        for round in 0..common.rounds(3) {
            measure(&site, &namespace, &operator, size, round, record).await;
            site.end_batches(&namespace).await;
            site.all_free(&namespace, size).await;
        }
        at_rest(&operator).await;
        let mut add = |condition: &str, operator: &Operator| {
            let value = proc::resident(operator.pid()) as f64 / f64::from(1 << 20);
            record.add("resident, MiB", "operator", size as usize, condition, 0, value);
        };
        add("at rest", &operator);
        operator.kill();
        operator.start_again().await;
        at_rest(&operator).await;
        add("started", &operator);
    }
    let (Some(&first), Some(&last)) = (sizes.first(), sizes.last()) else { return };
    let median = |size: u32| Spread::of(&record.rounds(EACH, "operator", size as usize, "")).median;
    println!(
        "one allocation, {last} : {first} pods is {:.2} (medians {:.0} and {:.0} µs)",
        median(last) / median(first),
        median(last),
        median(first)
    );
}

async fn measure(
    site: &Site,
    namespace: &str,
    operator: &Operator,
    size: u32,
    round: usize,
    record: &mut Record,
) {
    let (count, rate) = BATCHES;
    let count = count.min(size);
    let batches = site.cluster.objects(Resource::BatchSandbox, namespace);
    let before = Metrics::of(operator).await;
    at_rest(operator).await;
    let cpu = proc::cpu_nanos(operator.pid());
    let ready = see_batches(site.client(), namespace, count as usize, ready_batch);
    let mut ticks = interval(Duration::from_secs(1) / rate);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for number in 0..count {
        ticks.tick().await;
        batches.create(&pooled(&format!("s{size}-{round}-{number:03}"), 1, POOL)).await;
    }
    ready.await.expect("the observer");
    at_rest(operator).await;
    let used = proc::cpu_nanos(operator.pid()) - cpu;
    let after = Metrics::of(operator).await;
    let each = |value: f64| value / f64::from(count);
    let mut add = |what: &str, value: f64| record.add(what, "operator", size as usize, "", round, value);
    add(EACH, each(used as f64 / 1e3));
    add("looks at it/allocation", each(after.reconciles("batchsandbox") - before.reconciles("batchsandbox")));
    add("looks at the pool/allocation", each(after.reconciles("pool") - before.reconciles("pool")));
}
