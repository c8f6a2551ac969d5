//! The CustomResourceDefinitions of the kinds, made from their types.

use kube_core::CustomResourceExt;

use super::{SandboxEnv, SandboxPool, SandboxTemplate};
use crate::whole::Definition;
use crate::whole::definition::finished;

/// The definitions of the kinds in this module.
pub fn definitions() -> [Definition; 3] {
    [
        finished(SandboxEnv::crd(), Some("its pools and their pods have it as a label")),
        finished(SandboxPool::crd(), Some("its pods have it as a label")),
        finished(SandboxTemplate::crd(), None),
    ]
}
