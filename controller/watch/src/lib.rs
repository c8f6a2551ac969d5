//! Where routes come from.
//!
//! A source turns what it watches into observations and hands them to the one `RouteWriter`; the table
//! decides what they change. A source that loses what it watches changes nothing: the last known table
//! serves, and the source's status says how old it is and why.
//!
//! The routes file ([`FileSource`]) is the embedded default, and the way to try Sandgate with no cluster. The
//! Kubernetes watch ([`KubernetesSource`]) follows a cluster. Peers push to the [`Receiver`]. Every address
//! from outside passes one [`AddressPolicy`](sandgate_routes::AddressPolicy).

#![forbid(unsafe_code)]

mod file;
mod gateway;
mod kubernetes;
mod settings;

pub use file::{
    FileError, FileSource, FileStatus, FileStatusReader, Format, MAX_BYTES, MAX_ROUTES, PROVIDER,
    parse_routes, read_routes, routes_file_schema,
};
pub use gateway::{Gateway, ThreadStatus};
pub use kubernetes::{
    KubernetesSource, KubernetesStatusReader, ListMode, Probe, ProbeError, Right, ScopeState, ScopeStatus,
    Trouble, Watched,
};
pub use sandgate_keyring::{AuthSettings, Keyring, KeyringError, KeyringStatus};
pub use sandgate_objects::{Projection, Provider, ProviderConfig, Resource, Unreadable};
pub use sandgate_peering::{
    Active, Activity, Observed, Receiver, RefreshDrain, RefreshSettings, RefreshStatus, RefreshStatusReader,
    Uncounted,
};
pub use settings::{KubernetesSettings, Settings, SettingsError};
