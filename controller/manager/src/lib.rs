//! The lifecycle API for E2B's SDK, and what is behind it, as a library; `sandgate-manager` is a thin shell
//! around it.
#![forbid(unsafe_code)]

mod api;
mod args;
mod claim;
mod core;
mod describe;
mod envs;
mod error;
mod find;
mod gateways;
mod keys;
mod kill;
mod list;
mod manager;
mod metrics;
mod model;
mod names;
mod network;
mod pause;
mod quota;
mod resume;
mod run;
mod runtime;
mod secrets;
mod settings;
mod snapshots;
mod tasks;
mod timeouts;
mod writes;

pub use api::{
    ApiSettings, ApiState, CreatedKey, Doing, KeyFacts, KeyMask, Keys, Lifecycle, NewKey, Peer, Rate, Team,
    document, router,
};
pub use args::{Args, ArgsError, LogFormat};
pub use claim::{ClaimParts, ClaimSettings, Claims, Prepare, Swept};
pub use envs::{EnvCounts, EnvFeed};
pub use error::{Error, ErrorKind};
pub use gateways::{Gateways, Push, Pushed};
pub use keys::{KeyStore, LastUse, ManagedKeys, NoKeys};
pub use manager::{Manager, ManagerParts};
pub use metrics::{Metrics, Scraped};
pub use model::{
    AccessToken, Caller, Connected, Described, Dimension, Extensions, Filter, Limit, LogLine, Metric,
    Network, NewSandbox, NewSnapshot, Page, Reserve, Scope, ShownState, Snapshot, Template,
};
pub use run::{RunError, Service, run};
pub use runtime::{Runtime, Transport, Wire};
pub use secrets::{Secrets, SeededSecrets, SystemSecrets};
pub use settings::{FOREVER, NoInternet, Settings, SnapshotSettings};
pub use writes::{Observer, Writes};
