//! The providers of the watch. A provider is one file here and one line in the registry below.

use super::provider::Provider;

mod agent_sandbox;
mod decode;
mod observe;
mod openkruise;
mod opensandbox;

#[cfg(test)]
mod fixture;

/// The kinds of config whose providers need no further keys.
const BUILT_IN: [(&str, fn() -> Box<dyn Provider>); 3] = [
    (openkruise::NAME, openkruise::provider),
    (agent_sandbox::NAME, agent_sandbox::provider),
    (opensandbox::NAME, opensandbox::provider),
];

/// The provider of that name, if it is one of the built-in.
pub fn built_in(name: &str) -> Option<Box<dyn Provider>> {
    BUILT_IN.iter().find(|(known, _)| *known == name).map(|(_, provider)| provider())
}
