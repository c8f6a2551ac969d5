//! The CustomResourceDefinitions of the kinds, made from their types.
//!
//! `envoy/deploy/crds` has them as files; a test writes these and fails where they differ.

use kube_core::CustomResourceExt;

use super::{Checkpoint, Sandbox, SandboxSet, SandboxTemplate};
use crate::whole::Definition;
use crate::whole::definition::finished;

/// The definitions of the kinds in this module.
pub fn definitions() -> [Definition; 4] {
    [
        finished(Sandbox::crd(), Some("its pod and its volume claims have it as a label")),
        finished(SandboxSet::crd(), Some("its sandboxes have it as a label")),
        finished(SandboxTemplate::crd(), None),
        finished(Checkpoint::crd(), None),
    ]
}
