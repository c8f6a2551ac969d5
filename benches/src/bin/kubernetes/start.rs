//! Time and peak memory until the first complete list is in the table.
//!
//! *Above the table*: the peak (VmHWM) of the process at that moment, less what the process had before it
//! began, less what a process with nothing but the same table grows by. For the gateway, what it had before
//! is the peak of a gateway that is ready with nothing to serve.

use std::time::Duration;

use sandgate_benches::record::Record;

use crate::Common;
use crate::child::Role;
use crate::fleet::Fleet;
use crate::gateway::{self, Gateway};
use crate::process::{memory, mib};

pub(crate) async fn run(common: &Common, record: &mut Record) {
    let with_gateway = gateway::available();
    let mut fleet = Fleet::start().await;
    let nothing = fleet.api.namespace("nothing").await;
    for size in common.sandboxes(&[10_000, 100_000]) {
        fleet.grow(size).await;
        for round in 0..common.rounds() {
            let table = table(size);
            record.add("table, MiB", "table", size, "", round, table);
            engine(&fleet, size, round, table, record).await;
            if with_gateway {
                let idle = Gateway::start(&fleet, &nothing).await;
                let before = mib(memory(idle.pid()).peak);
                drop(idle);
                let gateway = Gateway::start(&fleet, &fleet.namespace).await;
                let peak = mib(memory(gateway.pid()).peak);
                record.add("until ready, s", "gateway", size, "", round, gateway.ready);
                record.add("before, MiB", "gateway", size, "", round, before);
                record.add("peak, MiB", "gateway", size, "", round, peak);
                record.add("peak above the table, MiB", "gateway", size, "", round, peak - before - table);
            }
        }
    }
}

async fn engine(fleet: &Fleet, size: usize, round: usize, table: f64, record: &mut Record) {
    let mut engine = Role::engine(fleet);
    let before = mib(memory(engine.pid()).resident);
    let seconds = engine.until_ready();
    let peak = mib(memory(engine.pid()).peak);
    tokio::time::sleep(Duration::from_secs(2)).await;
    let after = mib(memory(engine.pid()).resident);
    record.add("until ready, s", "watch", size, "", round, seconds);
    record.add("peak, MiB", "watch", size, "", round, peak);
    record.add("peak above the table, MiB", "watch", size, "", round, peak - before - table);
    record.add("2 s later, MiB", "watch", size, "", round, after);
}

/// What a process grows by when it makes a table of so many routes.
fn table(size: usize) -> f64 {
    let mut role = Role::table(size);
    let before = memory(role.pid()).resident;
    role.until_ready();
    mib(memory(role.pid()).resident - before)
}
