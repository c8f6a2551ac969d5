//! Memory of the manager that follows 100,000 sandboxes of a real API server.
//!
//! Nine of ten are claimed by one of a hundred keys, one waits in the pool; each has a pod template of 6 KiB,
//! and that of a claimed one is its own, because a claim labels the pod. Measured are the resident bytes of
//! the process when it has read the list, and their peak.

use std::fs;
use std::time::Duration;

use sandgate_benches::record::Record;
use tokio::time::Instant;

use crate::Common;
use crate::site::{Site, address, name};

pub(crate) async fn run(common: &Common, record: &mut Record) {
    let site = Site::start().await;
    let size = common.sandboxes(100_000);
    let empty = site.cluster.manager().start().await;
    record.add("resident, MB", "manager", 0, "empty", 0, megabytes(empty.pid(), "VmRSS"));
    drop(empty);
    let began = Instant::now();
    let sandboxes = (0..size).map(|number| match number % 10 {
        0 => site.member(&name("base", number), address(number)),
        _ => site.claimed(number, address(number)),
    });
    site.cluster.api().seed(sandboxes).await;
    println!("{size} sandboxes written after {:.0} s", began.elapsed().as_secs_f64());
    for round in 0..common.rounds(3) {
        let began = Instant::now();
        let manager = site.cluster.manager().spawn();
        site.until_followed(&manager, size).await;
        record.add("start, s", "manager", size, "", round, began.elapsed().as_secs_f64());
        record.add(
            "resident, MB",
            "manager",
            size,
            "after its list",
            round,
            megabytes(manager.pid(), "VmRSS"),
        );
        tokio::time::sleep(Duration::from_secs(if common.quick { 5 } else { 30 })).await;
        record.add("resident, MB", "manager", size, "at rest", round, megabytes(manager.pid(), "VmRSS"));
        record.add("resident, MB", "manager", size, "peak", round, megabytes(manager.pid(), "VmHWM"));
    }
}

fn megabytes(pid: u32, field: &str) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    let kibibytes: f64 =
        line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(f64::NAN);
    kibibytes * 1024.0 / 1e6
}
