//! How much Envoy may take: the numbers of the shipped config that depend on the machine.
//!
//! Both limits are those of the process that Envoy will be: `sandgate run` raises the limit of open files as
//! far as it may before it starts Envoy, and Envoy runs in the same cgroup.

use std::fs::read_to_string;
use std::path::{Path, PathBuf};

use rustix::process::{Resource, getrlimit};

#[cfg(test)]
mod tests;

/// Files that Envoy and the module have open before the first client comes, and those each worker adds.
const OWN_FILES: u64 = 64;
const OWN_FILES_OF_A_WORKER: u64 = 8;
const FEWEST_CONNECTIONS: u64 = 16;
const MOST_CONNECTIONS: u64 = 1_000_000;
/// Less than Envoy needs to start is no limit.
const SMALLEST_HEAP: u64 = 128 << 20;
/// Where the system does not say how much memory there is.
const UNKNOWN_MEMORY: u64 = 2 << 30;

/// What Envoy may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) connections: Connections,
    /// Bytes of heap.
    pub(super) heap: u64,
}

/// How many connections may be open. Together they are no more than the files that Envoy may open.
///
/// Clients and sandboxes have limits of their own, because one HTTP/2 connection of a client can need a
/// hundred to sandboxes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Connections {
    /// Of clients.
    pub(super) clients: u64,
    /// To sandboxes, for one request at a time. Past it Envoy opens one for each port that has none, and no
    /// more.
    pub(super) sandboxes: u64,
    /// To sandboxes, for many requests at a time. They are fewer, but how many share one is for the sandbox
    /// to say.
    pub(super) shared: u64,
}

impl Limits {
    /// What this machine, and the limits of this process, leave to an Envoy with so many workers that needs
    /// so many more files.
    pub(super) fn here(workers: Option<u32>, more: u64) -> Self {
        let cpus = || std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u64);
        let workers = workers.map_or_else(cpus, u64::from);
        Self {
            connections: connections(
                getrlimit(Resource::Nofile).maximum.map(|files| files.saturating_sub(more)),
                workers,
            ),
            heap: heap(memory(Path::new("/"))),
        }
    }
}

/// `None` is no limit.
fn connections(files: Option<u64>, workers: u64) -> Connections {
    let own = OWN_FILES + OWN_FILES_OF_A_WORKER.saturating_mul(workers);
    let fifth = files.unwrap_or(u64::MAX).saturating_sub(own) / 5;
    let fifths = |count: u64| fifth.saturating_mul(count).clamp(FEWEST_CONNECTIONS, MOST_CONNECTIONS);
    Connections { clients: fifths(2), sandboxes: fifths(2), shared: fifths(1) }
}

/// A tenth is left for what is no heap: stacks, sockets' buffers, the program itself.
fn heap(memory: u64) -> u64 {
    (memory / 10 * 9).max(SMALLEST_HEAP)
}

/// The memory of the machine, or of the smallest cgroup around this process.
fn memory(root: &Path) -> u64 {
    let groups = read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let limits = groups.lines().flat_map(|line| limit_files(root, line));
    let limits = limits.filter_map(|file| read_to_string(file).ok()?.trim().parse().ok());
    let machine = read_to_string(root.join("proc/meminfo")).ok().and_then(|text| total(&text));
    limits.chain(machine).min().unwrap_or(UNKNOWN_MEMORY)
}

/// `MemTotal` of `/proc/meminfo`, in bytes.
fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Where the memory limits stand of a cgroup, a line of `/proc/self/cgroup`, and of the cgroups around it. A
/// file that is not there, or says `max`, is no limit.
fn limit_files(root: &Path, line: &str) -> Vec<PathBuf> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { return Vec::new() };
    let (mount, file) = if controllers.is_empty() {
        ("sys/fs/cgroup", "memory.max")
    } else if controllers.split(',').any(|controller| controller == "memory") {
        ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
    } else {
        return Vec::new();
    };
    let path = Path::new(path.trim_start_matches('/'));
    path.ancestors().map(|group| root.join(mount).join(group).join(file)).collect()
}
