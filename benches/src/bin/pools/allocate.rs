//! Batches that all wait for a pod of a pool whose pods are all ready: allocated by the operator, and by a
//! bare loop of the same patches.
//!
//! A round does it four times: by the loop, by the loop again, by the operator, and by a loop that writes
//! the batch's status too, in an order that rotates. The limit of a round is the mean of its first two
//! loops, and what one of them has of the other is the noise. Before each, all pods are free, the
//! operator is gone, and the batches have been made. So what is timed is the allocation alone: from the
//! first batch that a watch of the bench's own sees with a pod until the last. For the operator that is
//! after its start, while it also writes the batches' statuses. What the loop writes, and what it leaves
//! out, stands in [`bare`](crate::bare).

use sandgate_benches::operator::{Metrics, at_rest};
use sandgate_benches::proc;
use sandgate_benches::record::Record;
use sandgate_benches::stats::Spread;
use sandgate_tests::cluster::Operator;

use crate::Common;
use crate::bare::Bare;
use crate::observer::{Seen, allocated, see_batches};
use crate::site::Site;

const RATE: &str = "allocations/s";
/// The loop, the loop again, the operator, and the loop that writes as much as the operator.
const SUBJECTS: [&str; 4] = ["bare loop", "the same again", "operator", WITH_STATUSES];
const WITH_STATUSES: &str = "with statuses";

pub(crate) async fn run(common: &Common, record: &mut Record) {
    let site = Site::start().await;
    for size in common.pods(&[1000]) {
        let namespace = site.cluster.namespace("allocate").await;
        let mut operator = site.operator(&namespace).await;
        site.make_pool(&namespace, size).await;
        site.all_free(&namespace, size).await;
        let mut subject_number = 0;
        for round in 0..=common.rounds(6) {
            let mut subjects = SUBJECTS;
            subjects.rotate_left(round % SUBJECTS.len());
            for subject in subjects {
                subject_number += 1;
                operator.kill();
                site.make_batches(&namespace, &format!("b{subject_number}"), size).await;
                let rate = match subject {
                    "operator" => {
                        let seen = by_operator(&site, &namespace, &mut operator, size).await;
                        if round > 0 {
                            tell(&operator, size, round - 1, record).await;
                        }
                        rate(&seen)
                    }
                    _ => {
                        let rate = rate(&by_loop(&site, &namespace, size, subject == WITH_STATUSES).await);
                        operator.start_again().await;
                        rate
                    }
                };
                site.end_batches(&namespace).await;
                site.all_free(&namespace, size).await;
                // The first round of a fresh API server is slower than the others, whoever has it.
                if round > 0 {
                    println!("round {}: {subject}: {RATE} {rate:.0}", round - 1);
                    record.add(RATE, subject, size as usize, "", round - 1, rate);
                }
            }
        }
        let [base, again, operator, statuses] =
            SUBJECTS.map(|subject| record.rounds(RATE, subject, size as usize, ""));
        // The base of a round is both loops together.
        let limit: Vec<f64> = base.iter().zip(&again).map(|(one, two)| f64::midpoint(*one, *two)).collect();
        let ratios: Vec<f64> = operator.iter().zip(&limit).map(|(value, limit)| value / limit).collect();
        let noise: Vec<f64> = again.iter().zip(&base).map(|(one, two)| one / two).collect();
        let equal: Vec<f64> = operator.iter().zip(&statuses).map(|(value, same)| value / same).collect();
        println!(
            "{RATE}, {size}: the operator has {} of the loop, and {} of the loop that writes statuses too; the \
             loop has {} of itself",
            Spread::of(&ratios),
            Spread::of(&equal),
            Spread::of(&noise)
        );
    }
}

/// How many a second, from the first to the last.
fn rate(seen: &Seen) -> f64 {
    let times = || seen.values().map(|(at, _)| *at);
    let (Some(first), Some(last)) = (times().min(), times().max()) else { return f64::NAN };
    (seen.len() - 1) as f64 / (last - first).as_secs_f64()
}

async fn by_operator(site: &Site, namespace: &str, operator: &mut Operator, size: u32) -> Seen {
    let seen = see_batches(site.client(), namespace, size as usize, allocated);
    operator.start_again().await;
    let seen = seen.await.expect("the observer");
    let pods: std::collections::BTreeSet<&String> = seen.values().map(|(_, pod)| pod).collect();
    assert_eq!(pods.len(), size as usize, "a pod was given to two batches");
    seen
}

async fn by_loop(site: &Site, namespace: &str, size: u32, writes_statuses: bool) -> Seen {
    let bare = Bare::prepare(site, namespace, writes_statuses).await;
    let seen = see_batches(site.client(), namespace, size as usize, allocated);
    bare.run().await;
    seen.await.expect("the observer")
}

/// What the operator had to do for it, its start included.
async fn tell(operator: &Operator, size: u32, round: usize, record: &mut Record) {
    at_rest(operator).await;
    let metrics = Metrics::of(operator).await;
    let each = |value: f64| value / f64::from(size);
    let mut add = |what: &str, value: f64| record.add(what, "operator", size as usize, "", round, value);
    add("CPU with the start, ms/batch", each(proc::cpu_nanos(operator.pid()) as f64 / 1e6));
    add("looks at it/batch", each(metrics.reconciles("batchsandbox")));
    add("looks at the pool", metrics.reconciles("pool"));
    add("patches of pods/batch", each(metrics.writes("patch", "Pod")));
    add("patches of batches/batch", each(metrics.writes("patch", "BatchSandbox")));
    add("conflicts", metrics.sum("sandgate_operator_writes_total", &["outcome=\"Conflict\""]));
}
