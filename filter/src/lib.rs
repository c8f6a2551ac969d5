//! `libsandgate.so`: Sandgate inside Envoy.
//!
//! Four extension points, each a thin translation between Envoy's hooks and plain Rust:
//!
//! * [`bootstrap`] owns the process-wide [gateway](bootstrap::gateway): the route table, the thread that
//!   keeps it true, the admin pages and the gauges. There is one per process, whatever the number of
//!   listeners and reloads.
//! * [`http`] runs on Envoy's workers for every request: read the address, look it up, decide, then answer
//!   or let it through. What is decided lives in `sandgate-request`, which knows nothing of Envoy.
//!
//! * [`cluster`] owns the connections to sandboxes: hosts that come with requests and go with their sandbox.
//! * [`connections`] gives each client address its share of a listener's connections.
//!
//! Nothing here may unwind into Envoy, block a worker, or log what a client sent.

#![forbid(unsafe_code)]

mod admin;
mod bootstrap;
mod cluster;
mod connections;
mod http;
mod log;

use envoy_proxy_dynamic_modules_rust_sdk::declare_all_init_functions;

declare_all_init_functions!(
    init,
    bootstrap: bootstrap::new_config,
    http: http::new_config,
    http_per_route: http::new_route_config,
    cluster: cluster::new_config,
    network: connections::new_config,
);

/// Runs once for each config that loads the module; must be idempotent.
fn init() -> bool {
    log::install();
    true
}

/// Envoy refused to define this metric. Trying again does not help: the name is taken, or metrics cannot be
/// defined any more.
#[derive(Debug, thiserror::Error)]
#[error("cannot define the metric {0}")]
struct UndefinedMetric(&'static str);
