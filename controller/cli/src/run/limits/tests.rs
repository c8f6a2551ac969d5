use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::{Connections, FEWEST_CONNECTIONS, Limits, connections, heap, memory};

#[test]
fn clients_and_sandboxes_share_the_files_that_envoy_does_not_need_itself() {
    let connections = |files, workers| {
        let Connections { clients, sandboxes, shared } = connections(files, workers);
        [clients, sandboxes, shared]
    };
    assert_eq!(connections(Some(256), 2), [70, 70, 35]);
    assert_eq!(connections(Some(1_048_576), 8), [419_378, 419_378, 209_689]);
    // So few that Envoy can hardly start: a limit of zero would be refused.
    assert_eq!(connections(Some(64), 2), [16; 3]);
    assert_eq!(connections(Some(u64::MAX), 2), [1_000_000; 3]);
    assert_eq!(connections(None, 2), [1_000_000; 3]);
}

fn machine(files: &[(&str, &str)]) -> TempDir {
    let root = TempDir::new().unwrap();
    for (file, text) in files {
        let file = root.path().join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
    root
}

const MEMINFO: (&str, &str) = ("proc/meminfo", "MemTotal:        8000000 kB\nMemFree: 1 kB\n");

#[test]
fn the_smallest_limit_around_the_process_counts() {
    let memory = |files: &[(&str, &str)]| memory(machine(files).path());
    assert_eq!(memory(&[MEMINFO]), 8_000_000 * 1024);
    // In a container its own cgroup is the root it sees.
    let own = ("proc/self/cgroup", "0::/\n");
    assert_eq!(memory(&[MEMINFO, own, ("sys/fs/cgroup/memory.max", "536870912\n")]), 536_870_912);
    assert_eq!(memory(&[MEMINFO, own, ("sys/fs/cgroup/memory.max", "max\n")]), 8_000_000 * 1024);
    let nested = ("proc/self/cgroup", "0::/a/b\n");
    let outer = ("sys/fs/cgroup/a/memory.max", "1000000000\n");
    assert_eq!(memory(&[MEMINFO, nested, outer, ("sys/fs/cgroup/a/b/memory.max", "max\n")]), 1_000_000_000);
    let old = ("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/pod\n0::/\n");
    let limit = ("sys/fs/cgroup/memory/pod/memory.limit_in_bytes", "300000000\n");
    assert_eq!(memory(&[MEMINFO, old, limit]), 300_000_000);
    assert_eq!(memory(&[]), 2 << 30, "a system that says nothing");
}

#[test]
fn a_tenth_of_the_memory_is_left_for_what_is_no_heap() {
    assert_eq!(heap(1_000_000_000), 900_000_000);
    assert_eq!(heap(1), 128 << 20);
}

#[test]
fn this_machine_has_limits() {
    let limits = Limits::here(Some(2), 0);
    assert!(limits.connections.clients >= 16 && limits.heap >= 128 << 20, "{limits:?}");
    assert!(memory(Path::new("/")) > 0);
}

#[test]
fn files_that_are_set_aside_are_no_connections_of_clients() {
    let (all, less) = (Limits::here(Some(2), 0), Limits::here(Some(2), u64::MAX));
    assert!(less.connections.clients <= all.connections.clients);
    assert_eq!(less.connections.clients, FEWEST_CONNECTIONS);
}
