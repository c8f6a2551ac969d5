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

/// The kinds of config whose providers need no further keys.
const BUILT_IN: [(&str, fn() -> Box<dyn Provider>); 3] = [
    (openkruise::NAME, openkruise::provider),
    (agent_sandbox::NAME, agent_sandbox::provider),
    (opensandbox::NAME, opensandbox::provider),
];
