//! A safe binding to the dynamic-module ABI of Envoy 1.40, for four extension points: the [`bootstrap`]
//! extension, the [`http`] filter, the [`network`] filter and the [`cluster`].
//!
//! A module is a `cdylib` that Envoy loads into its own process. It names its factories once, with
//! [`declare_all_init_functions!`], and implements this crate's traits; this crate exports the C hooks Envoy
//! looks for and calls the traits from them. It is the only place in the project with `unsafe` code.
//!
//! # The official SDK
//! Envoy ships a Rust SDK of the same name. It is not on crates.io and needs libclang to build, so this crate
//! stands in for it. It has only what the modules of this repository use:
//! - [`http`]: request headers by name, one pass over the response headers, removing a response header, the
//!   size of the request's body, local replies, filter state (written), the route, its config and its
//!   cluster, string attributes, generic secrets, schedulers, plain counters, resets.
//! - [`bootstrap`]: schedulers, timers, admin handlers, plain counters and gauges, init and shutdown.
//! - [`cluster`]: adding and removing hosts, schedulers, worker events, and load balancers that pick a host
//!   at once.
//! - [`network`]: admitting and refusing connections, and plain counters.
//!
//! Names, module paths and signatures of what is here are the official ones: a module written against this
//! crate compiles against the official SDK after a change of one line in `Cargo.toml`. Additions would not
//! compile there and are marked: [`panics`], [`report_panic`], [`EnvoyCluster::use_persistent_host_map`],
//! [`EnvoyHttpFilter::visit_response_headers`], [`EnvoyHttpFilter::is_request_header_repeated`] and
//! [`EnvoyHttpFilter::get_request_headers_byte_size`]. One signature is stricter: a per-route config is
//! `Any + Send + Sync`, because it is made on one thread and read on the others; the official one is `Any`.
//!
//! # Threads
//! Envoy has one main thread and several workers. Configs, the bootstrap extension and the cluster live on
//! the main thread; an HTTP filter and a cluster's load balancer live on one worker each. A hook runs on the
//! thread of its object and must not block it. Only schedulers may be used from any thread: `commit(id)`
//! makes Envoy call the object's `on_scheduled` on the object's own thread, or does nothing if the object is
//! gone. The module's own threads must stop committing before Envoy's threads shut down.
//!
//! # Re-entrance
//! Envoy may call a hook of an object while another hook of the same object is on the stack (sending a local
//! reply calls `on_local_reply` and `on_stream_complete` from inside), and may destroy the object meanwhile.
//! Each hook therefore holds a reference to its object: an object that is destroyed inside its own hook is
//! dropped when that hook returns. Nested calls of hooks with `&self` are made. A nested call of a hook with
//! `&mut self` on the same object would alias, so it is refused and logged; calls from *different* threads
//! wait for each other.
//!
//! # Panics
//! A panic never reaches Envoy: see [`panics`]. The request it happened in fails closed, and the process goes
//! on.

pub mod abi;
pub mod bootstrap;
pub mod buffer;
pub mod cluster;
mod ffi;
mod gate;
pub mod http;
mod init;
mod log;
mod metrics;
pub mod network;
mod panic;

pub use bootstrap::{
    BootstrapExtension, BootstrapExtensionConfig, CompletionCallback, EnvoyBootstrapExtension,
    EnvoyBootstrapExtensionConfig, EnvoyBootstrapExtensionConfigScheduler, EnvoyBootstrapExtensionTimer,
};
pub use buffer::EnvoyBuffer;
pub use cluster::{
    Cluster, ClusterConfig, ClusterLb, ClusterLbContext, EnvoyAsyncHostSelectionComplete, EnvoyCluster,
    EnvoyClusterLoadBalancer, EnvoyClusterMetrics, EnvoyClusterScheduler, HostSelectionResult, PackedAddress,
};
pub use http::{
    EnvoyGenericSecretId, EnvoyHttpFilter, EnvoyHttpFilterConfig, EnvoyHttpFilterConfigImpl,
    EnvoyHttpFilterImpl, EnvoyHttpFilterScheduler, HttpFilter, HttpFilterConfig,
};
pub use init::{
    NEW_BOOTSTRAP_EXTENSION_CONFIG_FUNCTION, NEW_CLUSTER_CONFIG_FUNCTION, NEW_HTTP_FILTER_CONFIG_FUNCTION,
    NEW_HTTP_FILTER_PER_ROUTE_CONFIG_FUNCTION, NEW_NETWORK_FILTER_CONFIG_FUNCTION,
    NewBootstrapExtensionConfigFunction, NewClusterConfigFunction, NewHttpFilterConfigFunction,
    NewHttpFilterPerRouteConfigFunction, NewNetworkFilterConfigFunction, ProgramInitFunction,
};
pub use log::is_log_enabled;
#[doc(hidden)]
pub use log::log_message;
pub use metrics::{EnvoyCounterId, EnvoyGaugeId};
pub use network::{
    EnvoyNetworkFilter, EnvoyNetworkFilterConfig, EnvoyNetworkFilterConfigImpl, EnvoyNetworkFilterImpl,
    NetworkFilter, NetworkFilterConfig,
};
#[doc(hidden)]
pub use panic::program_init;
pub use panic::{panics, report_panic};
