//! What all clusters of the process share.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use super::orders::Workers;
use super::usage::Usages;

#[derive(Debug, Default)]
pub(crate) struct Process {
    pub(crate) workers: Workers,
    pub(crate) usages: Usages,
    /// Hosts that Envoy has.
    pub(crate) hosts: AtomicUsize,
    /// Requests that are held.
    pub(crate) held: AtomicUsize,
}

impl Process {
    /// This one's. Tests have others.
    pub(crate) fn current() -> &'static Arc<Self> {
        static PROCESS: LazyLock<Arc<Process>> = LazyLock::new(Arc::default);
        &PROCESS
    }
}

/// How many hosts this process has, and how many requests it holds.
pub(crate) fn in_use() -> (u64, u64) {
    let process = Process::current();
    let number = |count: &AtomicUsize| count.load(Ordering::Relaxed) as u64;
    (number(&process.hosts), number(&process.held))
}
