//! The providers of the watch. A provider is one file here and one line in the registry below.

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
type Registered = (&'static str, fn() -> Box<dyn Provider>);

/// The kinds of config whose providers need no further keys.
const BUILT_IN: [Registered; 3] = [
    (openkruise::NAME, openkruise::provider),
    (agent_sandbox::NAME, agent_sandbox::provider),
    (opensandbox::NAME, opensandbox::provider),
];
