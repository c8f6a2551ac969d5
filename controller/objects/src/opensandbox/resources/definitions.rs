//! The CustomResourceDefinitions of the kinds, made from their types.
//!
//! `envoy/deploy/crds` has them as files; a test writes these and fails where they differ.

use kube_core::CustomResourceExt;

use super::{BatchSandbox, Pool, SandboxSnapshot};
use crate::whole::Definition;
use crate::whole::definition::finished;

/// The definitions of the kinds in this module.
pub fn definitions() -> [Definition; 3] {
    [
        finished(BatchSandbox::crd(), None),
        finished(Pool::crd(), Some("its pods have it as a label")),
        finished(SandboxSnapshot::crd(), None),
    ]
}
