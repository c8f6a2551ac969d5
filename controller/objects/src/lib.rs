//! What a custom resource means.
//!
//! A [`Provider`] reads one kind of custom resource. It gets an object's JSON and the time, and returns what
//! a route needs. Four kinds are built in; a config describes any other ([`ProviderConfig`] with the kind
//! `generic`).
//!
//! The crate does no I/O and has no clock, so equal objects make equal routes in every process.

#![forbid(unsafe_code)]

use sandgate_routes::Clash;

pub mod agent_sandbox;
mod condition;
mod config;
mod decode;
pub mod duration;
mod fields;
mod generic;
#[cfg(feature = "keys")]
pub mod keys;
mod kind;
mod metadata;
pub mod openkruise;
pub mod opensandbox;
mod provider;
pub mod quantity;
pub mod sandbox_env;
mod text;
#[cfg(feature = "resources")]
mod whole;

#[cfg(test)]
mod fixture;

pub use condition::{Condition, FINISHED, READY};
pub use config::ProviderConfig;
pub use decode::decode;
pub use fields::{Address, SECURE_ACCESS_TOKEN, TRAFFIC_ACCESS_TOKEN};
pub use kind::{Id, Kind};
pub use metadata::{Identity, Ignored, Metadata, Owner};
pub use provider::{Projection, Provider, Resource, Unreadable};
pub use text::Text;

/// A provider's name and its constructor.
type Registered = (&'static str, fn(Clash) -> Box<dyn Provider>);

const BUILT_IN: [Registered; 4] = [
    (openkruise::NAME, openkruise::provider),
    (agent_sandbox::NAME, agent_sandbox::provider),
    (opensandbox::NAME, opensandbox::provider),
    (sandbox_env::NAME, sandbox_env::provider),
];

/// The built-in provider of this name with its default config.
pub fn built_in(name: &str) -> Option<Box<dyn Provider>> {
    BUILT_IN.iter().find(|(known, _)| *known == name).map(|(_, provider)| provider(Clash::default()))
}
