//! scitix's environments: `SandboxEnv`, `SandboxPool` and `SandboxTemplate` of `agents.navix.sh/v1alpha1`.
//!
//! There is no kind for a sandbox. A sandbox is a pod of a pool that was claimed; what it is and how it is
//! stands in the pod's labels and annotations (`names`). [`Pod`] reads them for the gateway.

pub mod names;
mod pod;
#[cfg(feature = "resources")]
pub mod resources;

pub(crate) use pod::provider;
pub use pod::{Annotations, Labels, NAME, Pod, SELECTOR, Status, identity_uid};
