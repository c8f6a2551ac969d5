//! What the router keeps of an environment.

use std::sync::Arc;

use jiff::Timestamp;
use sandgate_objects::sandbox_env::resources::{
    EnvMode, MemberState, ObservedCluster, ObservedMember, SandboxEnv, SandboxEnvSpec,
};

/// How many members of a cluster are looked at. The rest of an environment that has more is not routed to.
const MEMBERS: usize = 1024;
/// How many other clusters are looked at.
const CLUSTERS: usize = 256;

/// An environment. It never changes: another version is another entry.
#[derive(Debug)]
pub(super) struct EnvRoutes {
    /// Whether pods wait for claims in it.
    pub(super) is_warm: bool,
    /// The members in this cluster, by name.
    pub(super) members: Vec<Member>,
    /// The other clusters, by name.
    pub(super) foreign: Vec<ForeignCluster>,
}

/// A member in this cluster.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) name: Arc<str>,
    pub(super) group: String,
    pub(super) priority: i32,
    /// The most pods that it may have: its own limit, and what its group leaves it. None is no limit.
    pub(super) max: Option<i64>,
    pub(super) desired: i64,
    /// The idle pods that were last observed.
    pub(super) idle: i64,
    /// Whether it scales by itself.
    pub(super) scales: bool,
    pub(super) saturated_until: Option<Timestamp>,
    pub(super) state: Option<MemberState>,
}

/// Another cluster, as it was last heard of.
#[derive(Debug)]
pub(super) struct ForeignCluster {
    pub(super) id: Arc<str>,
    pub(super) heard: Option<Timestamp>,
    pub(super) members: Vec<ForeignMember>,
}

/// A member in another cluster.
#[derive(Debug)]
pub(super) struct ForeignMember {
    pub(super) group: String,
    pub(super) idle: i64,
    /// By how much it can grow by itself.
    pub(super) headroom: i64,
    pub(super) saturated_until: Option<Timestamp>,
}

impl EnvRoutes {
    /// What is kept of an environment by a router in this cluster.
    pub(super) fn of(env: &SandboxEnv, cluster: &str) -> Self {
        let observed = env.status.as_ref().map_or(&[][..], |status| status.observed_in(cluster));
        let clusters = env.status.as_ref().map_or(&[][..], |status| &status.clusters);
        let mut foreign: Vec<ForeignCluster> = clusters
            .iter()
            .filter(|heard| heard.cluster_id != cluster && !heard.is_local && !heard.cluster_id.is_empty())
            .take(CLUSTERS)
            .map(foreign)
            .collect();
        foreign.sort_by(|one, other| one.id.cmp(&other.id));
        Self {
            is_warm: env.spec.mode == EnvMode::WarmPool,
            members: members(&env.spec, cluster, observed),
            foreign,
        }
    }
}

fn members(spec: &SandboxEnvSpec, cluster: &str, observed: &[ObservedMember]) -> Vec<Member> {
    let mut members: Vec<Member> = spec
        .members_in(cluster)
        .iter()
        .take(MEMBERS)
        .map(|member| {
            let observed = observed.iter().find(|observed| observed.name == member.name);
            let config = &member.config;
            Member {
                name: member.name.as_str().into(),
                group: config.scaling_group.clone(),
                priority: config.priority,
                max: (config.max_replicas > 0).then(|| i64::from(config.max_replicas)),
                // What is asked for stands in for what was not observed yet.
                desired: observed
                    .map_or(member.spec.replicas, |observed| observed.desired_replicas)
                    .max(0)
                    .into(),
                idle: observed.map_or(0, |observed| observed.idle_count).max(0).into(),
                scales: false,
                saturated_until: observed.and_then(saturated_until),
                state: observed.and_then(|observed| observed.state),
            }
        })
        .collect();
    members.sort_by(|one, other| one.name.cmp(&other.name));
    members.dedup_by(|one, other| one.name == other.name);
    for group in spec.autoscaling.iter().flat_map(|autoscaling| &autoscaling.groups) {
        // A member without a group is in none, whatever the groups are called.
        if group.name.is_empty() {
            continue;
        }
        let all: i64 =
            members.iter().filter(|member| member.group == group.name).map(|member| member.desired).sum();
        for member in members.iter_mut().filter(|member| member.group == group.name) {
            member.scales = group.enabled;
            if let Some(max) = group.max_replicas {
                let left = (i64::from(max) - (all - member.desired)).max(0);
                member.max = Some(member.max.map_or(left, |own| own.min(left)));
            }
        }
    }
    members
}

fn foreign(heard: &ObservedCluster) -> ForeignCluster {
    let is_there = |member: &&ObservedMember| {
        !matches!(member.state, Some(MemberState::Missing | MemberState::Inconsistent))
    };
    ForeignCluster {
        id: heard.cluster_id.as_str().into(),
        heard: heard.last_snapshot_time.as_ref().map(|time| time.0),
        members: heard
            .observed_members
            .iter()
            .filter(is_there)
            .take(MEMBERS)
            .map(|member| ForeignMember {
                group: member.scaling_group.clone(),
                idle: member.idle_count.max(0).into(),
                headroom: match member.scale_up_headroom {
                    // Missing is "not by itself" or "without a limit"; the switch tells which.
                    None if member.autoscaling_enabled => i32::MAX.into(),
                    headroom => headroom.unwrap_or(0).max(0).into(),
                },
                saturated_until: saturated_until(member),
            })
            .collect(),
    }
}

fn saturated_until(member: &ObservedMember) -> Option<Timestamp> {
    member.saturated_until.as_ref().map(|time| time.0)
}
