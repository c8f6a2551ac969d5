//! What every process of the control plane has beside its work: the port for probes and Prometheus, a server
//! of HTTP that ends in order, the metrics of the process itself, and a name of its own.

mod followed;
mod process;
mod server;

use std::fs;

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

pub use followed::FollowedMetrics;
pub use process::ProcessMetrics;
pub use server::{Limits, Pages, Probes, Reserved, Server};

use crate::Random;

/// A name that no other process has: that of the machine or pod, or else of the program, and a random number.
pub fn identity(program: &str, random: &mut Random) -> String {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = match host.trim() {
        "" => program,
        host => host,
    };
    format!("{host}_{:016x}", random.number())
}

/// The text of the metrics.
pub fn metrics_page(registry: &Registry) -> String {
    let mut text = String::new();
    if let Err(error) = encode(&mut text, registry) {
        tracing::error!("the metrics cannot be written: {error}");
    }
    text
}
