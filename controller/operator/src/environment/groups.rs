//! Keeps the scaling groups of an environment those that its members name.

use std::collections::BTreeSet;

use sandgate_objects::sandbox_env::resources::{Autoscaling, SandboxEnvSpec, ScalingGroup};

/// The spec with one group for each name that a member of any cluster has; none if it has them already. A
/// group that is kept stays as it is, one that nobody names is dropped with its policy, and one that is new
/// does not scale yet.
pub(super) fn synced(spec: &SandboxEnvSpec) -> Option<SandboxEnvSpec> {
    let members = spec.clusters.iter().flat_map(|segment| &segment.members);
    let named = members.map(|member| member.config.scaling_group.as_str()).filter(|name| !name.is_empty());
    let named: BTreeSet<&str> = named.collect();
    let known =
        spec.autoscaling.as_ref().map(|autoscaling| autoscaling.groups.as_slice()).unwrap_or_default();

    let mut groups: Vec<_> =
        known.iter().filter(|group| named.contains(group.name.as_str())).cloned().collect();
    let has = |name: &str| known.iter().any(|group| group.name == name);
    let missing = named.iter().filter(|name| !has(name));
    groups.extend(missing.map(|name| ScalingGroup { name: (*name).to_owned(), ..ScalingGroup::default() }));
    if groups == known {
        return None;
    }
    Some(SandboxEnvSpec { autoscaling: Some(Autoscaling { groups }), ..spec.clone() })
}
