//! The kinds as whole objects, for whoever makes and changes them.
//!
//! Each kind has every field of `agents.navix.sh/v1alpha1` that is known, so an object survives being read
//! and written. Parts that belong to others (pod templates, resources, probes) are kept as JSON text, unknown
//! fields and all.
//!
//! [`decode()`] reads an object and skips `metadata.managedFields`. [`definitions()`] gives the
//! CustomResourceDefinitions.

#![allow(clippy::duplicated_attributes, reason = "two columns of a kind may have one type")]

mod autoscaling;
mod definitions;
mod env;
mod env_status;
mod json;
mod member;
mod pod;
mod pool;
mod pool_status;
mod schema;
mod template;

pub use autoscaling::{Autoscaling, Mode as ScaleMode, ScaleDownPolicy, ScaleUpPolicy, ScalingGroup};
pub use definitions::definitions;
pub use env::{
    ClusterSegment, EnvDefaults, EnvMode, EnvOverrides, EnvTemplateRef, EnvVolume, GatewaySwitch, SandboxEnv,
    SandboxEnvSpec,
};
pub use env_status::{GroupTotals, MemberState, ObservedCluster, ObservedMember, SandboxEnvStatus};
pub use json::{NetworkPolicy, ProbeSpec, ResourceRequirements, RuntimeConfig};
pub use member::{Member, MemberConfig, MemberMetadata, MemberUpdateStrategy};
pub use pod::{ContainerEnd, EnvContainer, EnvPod, SandboxPhase};
pub use pool::{DEFAULT_MAX_UNAVAILABLE, ImagePolicy, SandboxPool, SandboxPoolSpec};
pub use pool_status::{AttemptResult, AutoscalingStatus, PhaseSelectors, PoolPhase, SandboxPoolStatus};
pub use template::{
    EmbeddedTemplate, RuntimePort, SandboxTemplate, SandboxTemplateSpec, Visibility, VisibilityRule,
};

pub use crate::openkruise::resources::Condition;
pub use crate::whole::{Definition, PodTemplate, Time, decode};

use serde::de::DeserializeOwned;
use serde::{Deserialize as _, Deserializer};

/// A word of a status. One that is not known, of another version of the programs, is as good as none: nobody
/// decides by it alone.
pub(crate) fn known_word<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    let word = Option::<serde_json::Value>::deserialize(deserializer)?;
    Ok(word.and_then(|word| serde_json::from_value(word).ok()))
}
