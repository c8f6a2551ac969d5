//! Memory and CPU of a process that follows a fleet while it changes.

use std::time::Duration;

use sandgate_benches::record::Record;
use tokio::time::Instant;

use crate::Common;
use crate::child::Role;
use crate::fleet::Fleet;
use crate::gateway::{self, Gateway};
use crate::process::{cpu, memory, mib};

pub(crate) async fn run(common: &Common, record: &mut Record) {
    let mut fleet = Fleet::start().await;
    let with_gateway = gateway::available();
    for size in common.sandboxes(&[10_000]) {
        fleet.grow(size).await;
        let mut engine = Role::engine(&fleet);
        engine.until_ready();
        let gateway = if with_gateway { Some(Gateway::start(&fleet, &fleet.namespace).await) } else { None };
        let mut subjects = vec![("watch", engine.pid())];
        subjects.extend(gateway.as_ref().map(|gateway| ("gateway", gateway.pid())));
        for round in 0..common.rounds() {
            for rate in common.rates(&[0, 100, 1000]) {
                let condition = format!("{rate} events/s");
                let before: Vec<f64> = subjects.iter().map(|(_, pid)| cpu(*pid)).collect();
                let began = Instant::now();
                let written = fleet.change(rate, Duration::from_secs(common.seconds())).await.len();
                let seconds = began.elapsed().as_secs_f64();
                record.add("written, events/s", "fleet", size, &condition, round, written as f64 / seconds);
                for ((name, pid), before) in subjects.iter().zip(before) {
                    let used = (cpu(*pid) - before) / seconds * 100.0;
                    record.add("CPU, % of a core", name, size, &condition, round, used);
                    record.add("resident, MiB", name, size, &condition, round, mib(memory(*pid).resident));
                }
            }
        }
    }
}
