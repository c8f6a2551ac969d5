//! OpenSandbox's kinds as whole objects, for whoever makes and changes them.
//!
//! Each kind has every field of `sandbox.opensandbox.io/v1alpha1` that is known, so an object survives being
//! read and written. Pod templates are kept as JSON text, unknown fields and all.
//!
//! [`decode()`] reads an object and skips `metadata.managedFields`, which nobody here needs and which is
//! often half of the object. [`definitions()`] gives the CustomResourceDefinitions.

#![allow(clippy::duplicated_attributes, reason = "two columns of a kind may have one type")]

mod batch;
mod common;
mod definitions;
mod kind;
mod pool;
mod schema;
mod snapshot;
mod task;
mod warnings;

pub use batch::{BatchSandbox, BatchSandboxSpec, BatchSandboxStatus, ResourcePolicy};
pub use common::Condition;
pub use definitions::definitions;
pub use pool::{
    CapacitySpec, DEFAULT_MAX_UNAVAILABLE, Pool, PoolSpec, PoolStatus, RecycleStrategy, RecycleType,
    ScaleStrategy, UpdateStrategy,
};
pub use snapshot::{ContainerSnapshot, SandboxSnapshot, SandboxSnapshotSpec, SandboxSnapshotStatus};
pub use task::{EnvVar, ProcessTask, TaskSpec, TaskTemplate};

pub use crate::whole::{Definition, PodTemplate, Time, decode};
