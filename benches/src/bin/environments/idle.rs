//! CPU of the operator by the number of environments.
//!
//! An environment is looked at every ten seconds, so what they take while nothing changes grows with their
//! number; what is told is the cost of one look. What must not grow is the cost of a change: so many
//! environments are changed at a fixed rate, and what the others take meanwhile is taken off.

use std::time::Duration;

use sandgate_benches::operator::Metrics;
use sandgate_benches::proc;
use sandgate_benches::record::Record;
use sandgate_benches::stats::Spread;
use serde_json::json;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::Common;
use crate::site::Site;

/// How long nothing happens.
const SILENCE: Duration = Duration::from_secs(30);
/// How many changes, and how many a second.
const CHANGES: (u32, u32) = (100, 10);
const LOOK: &str = "CPU of a look, µs";
const CHANGE: &str = "CPU of a change, µs";

pub(crate) async fn run(common: &Common, record: &mut Record) {
    let site = Site::start().await;
    let mut there = 0;
    let sizes = common.sizes(&[100, 1000]);
    for &size in &sizes {
        for number in there..size {
            site.env(&format!("e{number}"), 0).await;
        }
        there = size;
        let last = format!("e{}", size - 1);
        site.place.envs.until(&last, "it has a status", |env| env["status"]["memberCount"] == 1).await;
        for round in 0..common.rounds(3) {
            let (used, looks, writes) = used_in(&site, SILENCE, 0).await;
            assert_eq!(writes, 0.0, "something was written though nothing changed");
            record.add(LOOK, "operator", size as usize, "", round, used / looks);
            let idle = used / SILENCE.as_secs_f64();
            let (count, rate) = CHANGES;
            let time = Duration::from_secs(u64::from(count / rate)) + Duration::from_secs(2);
            let (used, _, _) = used_in(&site, time, count).await;
            let own = used - idle * time.as_secs_f64();
            record.add(CHANGE, "operator", size as usize, "", round, own / f64::from(count));
        }
    }
    let (Some(&first), Some(&last)) = (sizes.first(), sizes.last()) else { return };
    for measure in [LOOK, CHANGE] {
        let median = |size: u32| Spread::of(&record.rounds(measure, "operator", size as usize, "")).median;
        println!(
            "{measure}: {last} : {first} environments is {:.2} ({:.0} and {:.0})",
            median(last) / median(first),
            median(last),
            median(first)
        );
    }
}

/// The operator's CPU in this time, in µs, its looks at environments, and its writes; so many environments
/// are changed meanwhile.
async fn used_in(site: &Site, time: Duration, changes: u32) -> (f64, f64, f64) {
    let pid = site.operator.pid();
    let before = Metrics::of(&site.operator).await;
    let (cpu, began) = (proc::cpu_nanos(pid), Instant::now());
    let mut ticks = interval(Duration::from_secs(1) / CHANGES.1);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for number in 0..changes {
        ticks.tick().await;
        let env = format!("e{}", number % 10);
        let label = json!({ "metadata": { "labels": { "round": format!("{number}-{cpu}") } } });
        site.place.envs.patch(&env, &label).await;
    }
    tokio::time::sleep_until(began + time).await;
    let used = (proc::cpu_nanos(pid) - cpu) as f64 / 1e3;
    let after = Metrics::of(&site.operator).await;
    let looks = after.reconciles("sandboxenv") - before.reconciles("sandboxenv");
    let writes =
        after.sum("sandgate_operator_writes_total", &[]) - before.sum("sandgate_operator_writes_total", &[]);
    (used, looks, writes)
}
