//! A set of sandboxes made from nothing: by the operator, and by a bare loop of the same writes.
//!
//! A round makes the set three times: by the loop, by the loop again, and by the operator, in an order that
//! rotates, each time in a namespace of its own that is emptied afterwards. The limit of a round is the mean
//! of its two loops, and what one of them has of the other is the noise.
//!
//! The clock starts when the set is asked for (the operator runs and is ready by
//! then) or the loop begins, and stops when a watch of the bench's own has seen the last sandbox: to exist,
//! and to be available. Scheduler, controllers and node run all the time, so the API server carries the same
//! for both. What the loop writes, and what it leaves out, stands in [`bare`].

use std::sync::Arc;

use sandgate_benches::operator::Metrics;
use sandgate_benches::record::Record;
use sandgate_benches::stats::Spread;
use tokio::time::Instant;

use crate::Common;
use crate::bare::{self, Bare};
use crate::mould::{Mould, text};
use crate::observer::{Seen, observe};
use crate::site::Site;

const EXIST: &str = "exist, sandboxes/s";
const AVAILABLE: &str = "available, sandboxes/s";
/// The loop, the loop again, and the operator.
const SUBJECTS: [&str; 3] = ["bare loop", "the same again", "operator"];

pub(crate) async fn run(common: &Common, record: &mut Record) {
    let site = Site::start().await;
    let mould = Arc::new(Mould::learn(&site).await);
    println!(
        "for each sandbox: 2 creates and {} writes of its status; up to 256 creates of sandboxes and {} other writes at a time",
        mould.statuses(),
        bare::WORKERS
    );
    for size in common.sandboxes(&[1000]) {
        // The first round of a fresh API server is slower than the others, whoever has it.
        by_loop(&site, &mould, size).await;
        for round in 0..common.rounds(10) {
            let mut subjects = SUBJECTS;
            subjects.rotate_left(round % SUBJECTS.len());
            for subject in subjects {
                let rates = match subject {
                    "operator" => by_operator(&site, size, round, record).await,
                    _ => by_loop(&site, &mould, size).await,
                };
                for (measure, rate) in [EXIST, AVAILABLE].into_iter().zip(rates) {
                    println!("round {round}: {subject}: {measure} {rate:.0}");
                    record.add(measure, subject, size as usize, "", round, rate);
                }
            }
        }
        for measure in [EXIST, AVAILABLE] {
            let [base, again, operator] =
                SUBJECTS.map(|subject| record.rounds(measure, subject, size as usize, ""));
            // The base of a round is both loops together.
            let limit: Vec<f64> =
                base.iter().zip(&again).map(|(one, two)| f64::midpoint(*one, *two)).collect();
            let ratios: Vec<f64> = operator.iter().zip(&limit).map(|(value, limit)| value / limit).collect();
            let noise: Vec<f64> = again.iter().zip(&base).map(|(one, two)| one / two).collect();
            println!(
                "{measure}, {size}: the operator has {} of the loop; the loop has {} of itself",
                Spread::of(&ratios),
                Spread::of(&noise)
            );
        }
    }
}

fn rates(size: u32, began: Instant, seen: &Seen) -> [f64; 2] {
    [seen.all_exist, seen.all_available].map(|end| f64::from(size) / (end - began).as_secs_f64())
}

async fn by_operator(site: &Site, size: u32, round: usize, record: &mut Record) -> [f64; 2] {
    let namespace = site.cluster.namespace("operator").await;
    let operator = site.operator().await;
    let before = sandgate_benches::proc::cpu_nanos(operator.pid());
    let seen = observe(site.client(), &namespace, size as usize);
    let began = Instant::now();
    site.make_set(&namespace, size).await;
    let seen = seen.await.expect("the observer");
    let rates = rates(size, began, &seen);
    let cpu = sandgate_benches::proc::cpu_nanos(operator.pid()) - before;
    let metrics = Metrics::of(&operator).await;
    let each = |value: f64| value / f64::from(size);
    let mut add = |what: &str, value: f64| record.add(what, "operator", size as usize, "", round, value);
    add("CPU, ms/sandbox", each(cpu as f64 / 1e6));
    add("reconciles of it/sandbox", each(metrics.reconciles("sandbox")));
    add("reconciles of the set", metrics.reconciles("sandboxset"));
    add("creates/sandbox", each(metrics.writes("create", "Sandbox") + metrics.writes("create", "Pod")));
    add("status writes/sandbox", each(metrics.writes("patch", "Sandbox")));
    add("status writes of the set", metrics.writes("patch", "SandboxSet"));
    add("events published", metrics.sum("sandgate_operator_events_total", &["outcome=\"published\""]));
    drop(operator);
    site.clear(&namespace).await;
    rates
}

async fn by_loop(site: &Site, mould: &Arc<Mould>, size: u32) -> [f64; 2] {
    let namespace = site.cluster.namespace("loop").await;
    let set = site.make_set(&namespace, size).await;
    // A client of its own, as the operator has: connections are made in the time that is measured.
    let client = site.cluster.api().client_with(site.cluster.api().admin_token()).await;
    let bare = Bare { client, mould: Arc::clone(mould), namespace, set_uid: text(&set["metadata"]["uid"]) };
    let seen = observe(site.client(), &bare.namespace, size as usize);
    let began = Instant::now();
    bare.run(size as usize).await;
    let seen = seen.await.expect("the observer");
    site.clear(&bare.namespace).await;
    rates(size, began, &seen)
}
