//! A safe binding to the dynamic-module ABI of Envoy 1.40, for four extension points: the [`bootstrap`]
//! extension, the [`http`] filter, the [`network`] filter and the [`cluster`].
//!
//! A module is a `cdylib` that Envoy loads into its own process. It names its factories once, with
//! [`declare_all_init_functions!`], and implements this crate's traits; this crate exports the C hooks Envoy looks for
//! and calls the traits from them. It is the only place in the project with `unsafe` code.
//!
//! # The official SDK
//! Envoy ships a Rust SDK of the same name. It is not on crates.io and needs libclang to build, so this crate stands in
//! for it: names, module paths and signatures are the same for everything offered here, and a module written against
//! this crate compiles against the official one after changing one line of `Cargo.toml`. What is *added* here would not,
//! and is marked: [`panics`], [`report_panic`], [`EnvoyCluster::use_persistent_host_map`],
//! [`EnvoyHttpFilter::visit_response_headers`] and [`EnvoyHttpFilter::is_request_header_repeated`]. What the official SDK
//! has beyond this crate is left out because nothing here uses it, or because its signature cannot be sound (each such
//! omission is explained where it would stand).
//!
//! # Threads
//! Envoy has one main thread and a number of workers. Configs, the bootstrap extension and the cluster live on the main
//! thread; an HTTP filter and a cluster's load balancer live on one worker each. A hook runs on the thread of its
//! object, and must not block it. The one thing that may be used from any thread is a scheduler: `commit(id)` makes Envoy
//! call the object's `on_scheduled` on the object's own thread, or does nothing if the object is gone. The module's own
//! threads must stop committing before Envoy's threads shut down.
//!
//! # Re-entrance
//! Envoy may call a hook of an object while another hook of the same object is on the stack (sending a local reply
//! calls `on_local_reply` and `on_stream_complete` from inside), and may destroy the object meanwhile. Objects are
//! therefore reference counted around each hook: one destroyed inside its own hook is dropped when that hook returns.
//! Where a trait's hooks take `&self`, nested calls are simply made. Where they take `&mut self`, a nested call on the
//! same object is refused and logged, because it would alias; calls from *different* threads wait for each other.
//!
//! # Panics
//! See [`panics`]: a panic never reaches Envoy, the request it happened in fails closed, the process goes on.

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
mod timer;

pub use bootstrap::{
    BootstrapExtension, BootstrapExtensionConfig, CompletionCallback, EnvoyBootstrapExtension,
    EnvoyBootstrapExtensionConfig, EnvoyBootstrapExtensionConfigScheduler, EnvoyBootstrapExtensionTimer,
    FILE_WATCHER_EVENT_MODIFIED, FILE_WATCHER_EVENT_MOVED_TO,
};
pub use buffer::{EnvoyBuffer, EnvoyMutBuffer};
pub use cluster::{
    AsyncHostSelectionHandle, Cluster, ClusterConfig, ClusterLb, ClusterLbContext, ClusterLbContextRef,
    EnvoyAsyncHostSelectionComplete, EnvoyCluster, EnvoyClusterLoadBalancer, EnvoyClusterMetrics,
    EnvoyClusterMetricsImpl, EnvoyClusterScheduler, EnvoyClusterWorkerTimer, HostSelectionResult,
    PackedAddress,
};
pub use http::{
    EnvoyHttpFilter, EnvoyHttpFilterConfig, EnvoyHttpFilterConfigImpl, EnvoyHttpFilterConfigScheduler,
    EnvoyHttpFilterImpl, EnvoyHttpFilterScheduler, HttpFilter, HttpFilterConfig,
};
pub use init::{
    ClusterHostCount, NEW_BOOTSTRAP_EXTENSION_CONFIG_FUNCTION, NEW_CLUSTER_CONFIG_FUNCTION,
    NEW_HTTP_FILTER_CONFIG_FUNCTION, NEW_NETWORK_FILTER_CONFIG_FUNCTION, NewBootstrapExtensionConfigFunction,
    NewClusterConfigFunction, NewHttpFilterConfigFunction, NewNetworkFilterConfigFunction,
    ProgramInitFunction, get_server_concurrency, is_validation_mode,
};
#[doc(hidden)]
pub use log::log_message;
pub use log::{get_log_level, is_log_enabled};
pub use metrics::{
    EnvoyCounterId, EnvoyCounterVecId, EnvoyGaugeId, EnvoyGaugeVecId, EnvoyHistogramId, EnvoyHistogramVecId,
};
pub use network::{
    EnvoyNetworkFilter, EnvoyNetworkFilterConfig, EnvoyNetworkFilterConfigImpl, EnvoyNetworkFilterImpl,
    NetworkFilter, NetworkFilterConfig,
};
#[doc(hidden)]
pub use panic::program_init;
pub use panic::{panics, report_panic};
