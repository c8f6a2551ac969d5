//! A lone pool as a member of an environment.

use std::collections::BTreeMap;

use sandgate_objects::sandbox_env::names;
use sandgate_objects::sandbox_env::resources::{
    Autoscaling, ClusterSegment, EnvTemplateRef, Member, MemberConfig, MemberMetadata, MemberUpdateStrategy,
    ResourceRequirements, SandboxEnvSpec, SandboxPool, SandboxPoolSpec, ScalingGroup,
};
use serde_json::Value;

use super::super::render::is_own;
use super::size::{DEFAULT_GROUP, InstanceTypes, key};

/// The labels that say who is billed.
pub(super) fn bills(pool: &SandboxPool) -> BTreeMap<String, String> {
    let labels = pool.metadata.labels.iter().flatten();
    let bills = labels.filter(|(name, _)| [names::LABEL_TEAM, names::LABEL_USER].contains(&name.as_str()));
    bills.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// The environment of a pool alone; none if the pool does not say of which template it is.
pub(super) fn env_of(pool: &SandboxPool, cluster: &str, sizes: &dyn InstanceTypes) -> Option<SandboxEnvSpec> {
    let annotations = pool.metadata.annotations.as_ref();
    let annotated = || annotations.and_then(|all| all.get(names::ANNOTATION_TEMPLATE_NAME)).cloned();
    let name = Some(pool.spec.template_name.clone()).filter(|name| !name.is_empty());
    let name = name.or_else(annotated).filter(|name| !name.is_empty())?;
    let member = member_of(pool, sizes);
    let group = ScalingGroup { name: member.config.scaling_group.clone(), ..ScalingGroup::default() };
    Some(SandboxEnvSpec {
        template_ref: EnvTemplateRef { name, version: String::new() },
        clusters: vec![ClusterSegment { cluster_id: cluster.to_owned(), members: vec![member] }],
        autoscaling: Some(Autoscaling { groups: vec![group] }),
        ..SandboxEnvSpec::default()
    })
}

/// A pool as a member: as it is, but for what belongs to the pool alone.
pub(super) fn member_of(pool: &SandboxPool, sizes: &dyn InstanceTypes) -> Member {
    let is_ours = |name: &str| [names::LABEL_ENV, names::LABEL_SCALING_GROUP].contains(&name);
    let labels = pool.metadata.labels.clone().unwrap_or_default();
    let annotations = pool.metadata.annotations.clone().unwrap_or_default();
    let resources = resources(&pool.spec);
    let found = resources.as_ref().and_then(|resources| sizes.find(resources));
    let inline = resources.as_ref().filter(|_| found.is_none()).map(ResourceRequirements::new);
    let (instance_type, multiplier) = found.unwrap_or_default();
    Member {
        name: pool.metadata.name.clone().unwrap_or_default(),
        metadata: MemberMetadata {
            labels: labels.into_iter().filter(|(name, _)| !is_ours(name)).collect(),
            annotations: annotations.into_iter().filter(|(name, _)| !is_own(name)).collect(),
        },
        spec: pool.spec.clone(),
        config: MemberConfig {
            instance_type,
            multiplier,
            inline_resources: inline,
            scaling_group: group_of(&pool.spec),
            update_strategy: Some(MemberUpdateStrategy {
                auto_update: Some(false),
                max_unavailable: pool.spec.max_unavailable.clone(),
            }),
            ..MemberConfig::default()
        },
    }
}

/// The resources of the first container, if there are any.
fn resources(spec: &SandboxPoolSpec) -> Option<Value> {
    let pods = spec.template.as_ref()?.parse().ok()?;
    let resources = pods.pointer("/spec/containers/0/resources")?;
    Some(resources.clone()).filter(|resources| resources.as_object().is_some_and(|all| !all.is_empty()))
}

fn group_of(spec: &SandboxPoolSpec) -> String {
    resources(spec).and_then(|resources| key(&resources)).unwrap_or_else(|| DEFAULT_GROUP.to_owned())
}

/// The spec with the group of an adopted pool named after its size, where it is the literal default; none if
/// it is not, or the size is not known. The policy of the old group goes along.
///
/// The name may be what somebody wants. So it stays where another member of any cluster has it too, and where
/// the group of either name scales: the pool would begin or cease to.
pub(super) fn regrouped(spec: &SandboxEnvSpec, cluster: &str, pool: &SandboxPool) -> Option<SandboxEnvSpec> {
    let group = group_of(&pool.spec);
    let groups = spec.autoscaling.as_ref().map(|it| it.groups.as_slice()).unwrap_or_default();
    let scales = |name: &str| groups.iter().any(|known| known.name == name && known.enabled);
    if group == DEFAULT_GROUP || scales(DEFAULT_GROUP) || scales(&group) {
        return None;
    }
    let name = pool.metadata.name.as_deref().unwrap_or_default();
    let mut spec = spec.clone();
    let members = spec.clusters.iter_mut().flat_map(|segment| {
        let is_here = segment.cluster_id == cluster;
        segment.members.iter_mut().map(move |member| (is_here, member))
    });
    let mut in_default = members.filter(|(_, member)| member.config.scaling_group == DEFAULT_GROUP);
    let (is_here, member) = in_default.next()?;
    if !is_here || member.name != name || in_default.next().is_some() {
        return None;
    }
    member.config.scaling_group.clone_from(&group);
    if let Some(autoscaling) = spec.autoscaling.as_mut()
        && !autoscaling.groups.iter().any(|known| known.name == group)
        && let Some(old) = autoscaling.groups.iter_mut().find(|known| known.name == DEFAULT_GROUP)
    {
        old.name = group;
    }
    Some(spec)
}
