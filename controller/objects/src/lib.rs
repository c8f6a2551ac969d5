//! What a custom resource means.
//!
//! A [`Provider`] reads one kind of custom resource. It gets an object's JSON and the time, and returns what a route
//! needs. Three kinds are built in; a config describes any other ([`ProviderConfig`] with the kind `generic`).
//!
//! The crate does no I/O and has no clock, so equal objects make equal routes in every process.

#![forbid(unsafe_code)]

use sandgate_routes::Clash;

mod agent_sandbox;
mod config;
mod decode;
mod generic;
mod observe;
mod openkruise;
mod opensandbox;
mod provider;

#[cfg(test)]
mod fixture;

pub use config::{ProviderConfig, ProviderError, RawProvider, Strict};
pub use provider::{Projection, Provider, Resource, Unreadable};

/// A provider's name and its constructor.
type Registered = (&'static str, fn(Clash) -> Box<dyn Provider>);

const BUILT_IN: [Registered; 3] = [
    (openkruise::NAME, openkruise::provider),
    (agent_sandbox::NAME, agent_sandbox::provider),
    (opensandbox::NAME, opensandbox::provider),
];

/// The built-in provider of this name with its default config.
pub fn built_in(name: &str) -> Option<Box<dyn Provider>> {
    BUILT_IN.iter().find(|(known, _)| *known == name).map(|(_, provider)| provider(Clash::default()))
}
