//! The providers of the watch. A provider is one file here and one line in the registry below.

use sandgate_routes::Clash;

use super::provider::Provider;

mod agent_sandbox;
mod config;
mod decode;
mod generic;
mod observe;
mod openkruise;
mod opensandbox;

#[cfg(test)]
mod fixture;

pub use config::{ProviderConfig, ProviderError, RawProvider, Strict};

/// A provider's name and how it is made.
type Registered = (&'static str, fn(Clash) -> Box<dyn Provider>);

/// The kinds of config whose providers need no further keys.
/// The built-in provider of this name, as it is when nothing is configured.
pub(crate) fn built_in(name: &str) -> Option<Box<dyn Provider>> {
    BUILT_IN.iter().find(|(known, _)| *known == name).map(|(_, provider)| provider(Clash::default()))
}

const BUILT_IN: [Registered; 3] = [
    (openkruise::NAME, openkruise::provider),
    (agent_sandbox::NAME, agent_sandbox::provider),
    (opensandbox::NAME, opensandbox::provider),
];
