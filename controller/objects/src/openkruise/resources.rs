//! OpenKruise's kinds as whole objects, for whoever makes and changes them.
//!
//! Each kind has every field of `agents.kruise.io/v1alpha1` that is known, so an object survives being read
//! and written. Parts that belong to others (pod templates, volume claims, probes) are kept as JSON text,
//! unknown fields and all. A list or a map that is missing, null or empty is empty, and is left out when
//! written.
//!
//! [`decode()`] reads an object and skips `metadata.managedFields`, which nobody here needs and which is
//! often half of the object. [`definitions()`] gives the CustomResourceDefinitions.
//!
//! [`SandboxFacts`] is what a cache of many sandboxes keeps of each.

#![allow(clippy::duplicated_attributes, reason = "two columns of a kind may have one type")]

mod checkpoint;
mod common;
mod definitions;
mod facts;
mod json;
mod kind;
mod sandbox;
mod sandbox_template;
pub(crate) mod schema;
mod set;
mod texts;

pub use checkpoint::{Checkpoint, CheckpointSpec, CheckpointStatus};
pub use common::{
    Condition, HibernateStrategy, HibernateType, PauseStrategy, PauseType, Runtime, TemplateRef,
};
pub use definitions::definitions;
pub use facts::{ConditionFacts, SandboxFacts};
pub use json::{AutoPausePolicy, PodTemplateDelta, Probe, Schedule, VolumeClaimTemplate};
pub use sandbox::{
    ExecAction, Hook, Lifecycle, PodInfo, Sandbox, SandboxSpec, SandboxStatus, UpgradePolicy, UpgradeType,
};
pub use sandbox_template::{SandboxTemplate, SandboxTemplateSpec};
pub use set::{
    DEFAULT_MAX_UNAVAILABLE, SandboxSet, SandboxSetSpec, SandboxSetStatus, ScaleStrategy, UpdateStrategy,
};
pub use texts::Texts;

pub use crate::whole::{Definition, PodTemplate, Time, decode};
