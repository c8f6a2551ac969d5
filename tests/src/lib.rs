//! The harness: a real Envoy with the real module, real HTTP servers in the place of sandboxes, real clients.
//!
//! Each scenario starts what it needs and ends what it started: Envoy runs on free ports in a folder of its
//! own, sandboxes listen on addresses of 127/8 that no other test holds. Nothing waits for a time to pass;
//! [`eventually`] waits for a condition, with a deadline after which the scenario fails and shows Envoy's
//! log.
//!
//! Where the binaries are comes from the environment (see [`locations`]); `make test` sets it. A missing one
//! fails the scenario: nothing is skipped in silence.
#![forbid(unsafe_code)]

pub mod book;
mod browser;
mod cli;
mod client;
pub mod cluster;
pub mod demo;
pub mod deploy;
mod e2b;
mod fixture;
mod gateway;
pub mod image;
mod issuer;
pub mod kubernetes;
mod load;
pub mod locations;
pub mod netns;
mod opensandbox;
mod planes;
mod port;
pub mod root;
mod sandbox;
pub mod soak;
mod tls;
mod wait;

pub use browser::Browser;
pub use cli::{Cli, Running, process_exists};
pub use client::{Client, Https, Reply, Request, Secured, SocketEnd, WebSocket, raw_exchange};
pub use e2b::{E2bSdk, Edition, Envd, Where};
pub use fixture::{ConfigMap, RouteEntry, SECRET, replace_by_rename, route, routes};
pub use gateway::{Access, Builder, Exit, Gateway, Predecessor, refresh_request};
pub use issuer::Issuer;
pub use load::{Counts, Failure, Front, Kind, Load, Outcome, Traffic};
pub use opensandbox::OpenSandboxSdk;
pub use planes::{PLANES, Planes, SANDBOXES, address as sandbox_address};
pub use port::LoopbackPort;
pub use sandbox::{Pattern, Place, RawSandbox, Sandbox};
pub use tls::{Authority, Pair};
pub(crate) use wait::Tries;
pub use wait::{DEADLINE, eventually, eventually_every};
