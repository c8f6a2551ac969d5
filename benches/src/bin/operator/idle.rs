//! What the operator takes while nothing happens to its sandboxes. It leads by a lease, as it is installed.

use std::time::Duration;

use sandgate_benches::operator::Metrics;
use sandgate_benches::proc;
use sandgate_benches::record::Record;
use sandgate_tests::cluster::Operator;
use tokio::time::Instant;

use crate::Common;
use crate::site::Site;

/// From the last status to the first round: what is left of the creation, events above all, has ended.
const AFTER: Duration = Duration::from_secs(60);

pub(crate) async fn run(common: &Common, record: &mut Record) {
    let site = Site::start().await;
    for size in common.sandboxes(&[10_000]) {
        let namespace = site.cluster.namespace("idle").await;
        let operator = site.elected_operator().await;
        let began = Instant::now();
        site.make_set(&namespace, size).await;
        site.settled(&namespace, size).await;
        println!("{size} sandboxes after {:.0} s", began.elapsed().as_secs_f64());
        tokio::time::sleep(if common.quick { AFTER / 10 } else { AFTER }).await;
        measure(common, &operator, size, record).await;
        drop(operator);
        site.clear(&namespace).await;
    }
}

/// What it takes now, in rounds of the same length.
pub(crate) async fn measure(common: &Common, operator: &Operator, size: u32, record: &mut Record) {
    for round in 0..common.rounds(5) {
        let (before, metrics) = (proc::cpu_nanos(operator.pid()), Metrics::of(operator).await);
        let began = Instant::now();
        tokio::time::sleep(Duration::from_secs(common.seconds())).await;
        let (used, seconds) = (proc::cpu_nanos(operator.pid()) - before, began.elapsed().as_secs_f64());
        let after = Metrics::of(operator).await;
        let looks = ["sandbox", "sandboxset"].map(|name| after.reconciles(name) - metrics.reconciles(name));
        let mut add = |what: &str, value: f64| record.add(what, "operator", size as usize, "", round, value);
        add("CPU, % of a core", used as f64 / 1e9 / seconds * 100.0);
        add("resident, MiB", proc::resident(operator.pid()) as f64 / f64::from(1 << 20));
        add("reconciles/s", looks.iter().sum::<f64>() / seconds);
    }
}
