//! What is observed of an environment, as a function of the environment and its pools.
//!
//! Only the segment of this cluster is made here. The time of its snapshot changes if something else of it
//! does, so that an environment to which nothing happens is not written. But other clusters take a segment
//! for gone whose snapshot is a minute old. So in an environment that other clusters have a part in, it is
//! renewed after [`RENEWED_AFTER`].

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use sandgate_objects::sandbox_env::names;
use sandgate_objects::sandbox_env::resources::{
    AttemptResult, AutoscalingStatus, Condition, GroupTotals, Member, MemberState, ObservedCluster,
    ObservedMember, ResourceRequirements, SandboxEnv, SandboxEnvSpec, SandboxEnvStatus, SandboxPool,
    SandboxPoolStatus, ScalingGroup, Time,
};
use serde_json::Value;

use super::pools::is_owned;
use crate::conditions::{Verdict, put, remove, whole_seconds};
use crate::view::Seen;

/// All members have their pools.
const READY: &str = "Ready";
/// All pools are of the environment's template, and roll to no other revision of it.
const TEMPLATE_CONSISTENT: &str = "TemplateConsistent";
/// What older programs wrote.
const CREDENTIALS_RESOLVABLE: &str = "CredentialsResolvable";

/// How old a snapshot gets that other clusters read. They believe it for a minute.
const RENEWED_AFTER: SignedDuration = SignedDuration::from_secs(30);

/// What is read to observe an environment.
pub(super) struct Observed<'a> {
    pub(super) env: &'a Seen<SandboxEnv>,
    pub(super) cluster: &'a str,
    /// The pools that have the name of a member, whosever they are.
    pub(super) named: &'a BTreeMap<String, Arc<Seen<SandboxPool>>>,
    pub(super) now: Timestamp,
}

/// The pool of a member.
struct Of<'a> {
    member: &'a Member,
    group: Option<&'a ScalingGroup>,
    /// None if there is none, or another's.
    pool: Option<&'a SandboxPool>,
    state: MemberState,
}

impl Of<'_> {
    fn status(&self) -> SandboxPoolStatus {
        self.pool.and_then(|pool| pool.status.clone()).unwrap_or_default()
    }

    fn desired(&self) -> i32 {
        self.pool.map_or(0, |pool| pool.spec.replicas)
    }

    fn scales(&self) -> bool {
        self.group.is_some_and(|group| group.enabled)
    }

    fn is_rolling(&self) -> bool {
        let status = self.status();
        self.desired() > 0 && status.current_revision != status.update_revision
    }

    /// By how much the pool may grow: as far as the member may, and as far as its group may.
    fn headroom(&self, group_desired: i64) -> Option<i32> {
        let group = self.group.filter(|group| group.enabled)?;
        let max = i64::from(self.member.config.max_replicas);
        let own = (max > 0).then(|| max - i64::from(self.desired()));
        let groups = group.max_replicas.map(|max| i64::from(max) - group_desired);
        let room = own.into_iter().chain(groups).min()?;
        Some(i32::try_from(room.max(0)).unwrap_or(i32::MAX))
    }

    fn saturated_until(&self, now: Timestamp) -> Option<Time> {
        let AutoscalingStatus { last_scale_up_attempt_time, last_scale_up_attempt_result, .. } =
            self.status().autoscaling?;
        let failed = [AttemptResult::Insufficient, AttemptResult::JustRight, AttemptResult::Failed];
        last_scale_up_attempt_result.filter(|result| failed.contains(result))?;
        let cooldown = self.group?.scale_up_policy.saturation_cooldown_seconds;
        let until =
            last_scale_up_attempt_time?.0.checked_add(SignedDuration::from_secs(cooldown.into())).ok()?;
        let until = whole_seconds(until);
        (until > now).then_some(Time(until))
    }
}

/// The state of a member with this pool.
pub(super) fn state_of(env: &Seen<SandboxEnv>, pool: Option<&Seen<SandboxPool>>) -> MemberState {
    match pool {
        None => MemberState::Missing,
        Some(pool) if !is_owned(pool, env) => MemberState::Inconsistent,
        Some(pool) if pool.metadata.deletion_timestamp.is_some() => MemberState::Missing,
        Some(pool) if pool.spec.template_name != env.spec.template_ref.name => MemberState::Inconsistent,
        Some(_) => MemberState::Active,
    }
}

/// The status of an environment.
pub(super) fn status(observed: &Observed<'_>) -> SandboxEnvStatus {
    let &Observed { env, cluster, named, now } = observed;
    let spec = &env.spec;
    let groups = spec.autoscaling.as_ref().map(|it| it.groups.as_slice()).unwrap_or_default();
    let mut members: Vec<Of<'_>> = spec
        .members_in(cluster)
        .iter()
        .map(|member| {
            let pool = named.get(&member.name).map(|pool| &**pool);
            let group = groups.iter().find(|group| group.name == member.config.scaling_group);
            let group = group.filter(|group| !group.name.is_empty());
            let state = state_of(env, pool);
            let pool = pool.filter(|pool| is_owned(pool, env)).map(|pool| &pool.object);
            Of { member, group, pool, state }
        })
        .collect();
    members.sort_by(|one, other| one.member.name.cmp(&other.member.name));

    let mut status = env.status.clone().unwrap_or_default();
    let mut totals = BTreeMap::<&str, (i64, i64, i64)>::new();
    let mut all = (0, 0, 0);
    for of in &members {
        let pool = of.status();
        let of_pool = [pool.idle_replicas, pool.running_replicas, of.desired()].map(i64::from);
        let add = |sums: &mut (i64, i64, i64)| {
            let [idle, running, desired] = of_pool;
            *sums = (sums.0 + idle, sums.1 + running, sums.2 + desired);
        };
        add(&mut all);
        if !of.member.config.scaling_group.is_empty() {
            add(totals.entry(&of.member.config.scaling_group).or_default());
        }
    }
    let observed_members = members.iter().map(|of| {
        let desired = totals.get(of.member.config.scaling_group.as_str()).map_or(0, |sums| sums.2);
        observe_member(of, desired, now)
    });
    let is_due = renewal(env, cluster).is_some_and(|due| due <= now);
    put_segment(&mut status.clusters, cluster, observed_members.collect(), is_due, now);
    status.scaling_groups = totals
        .iter()
        .map(|(name, (idle, running, desired))| GroupTotals {
            name: (*name).to_owned(),
            total_idle: count(*idle),
            total_running: count(*running),
            total_desired: count(*desired),
        })
        .collect();
    status.member_count = count(i64::try_from(members.len()).unwrap_or(i64::MAX));
    (status.idle_replicas, status.running_replicas, status.desired_replicas) =
        (count(all.0), count(all.1), count(all.2));
    put_conditions(&mut status.conditions, spec, &members, env.metadata.generation, now);
    status
}

fn count(sum: i64) -> i32 {
    i32::try_from(sum).unwrap_or(i32::MAX)
}

fn observe_member(of: &Of<'_>, group_desired: i64, now: Timestamp) -> ObservedMember {
    let (config, pool) = (&of.member.config, of.status());
    let sum = [pool.idle_replicas, pool.running_replicas, pool.starting_replicas, pool.stopping_replicas];
    let text = |texts: Option<&BTreeMap<String, String>>, key: &str| {
        texts.and_then(|texts| texts.get(key)).cloned().unwrap_or_default()
    };
    let annotations = of.pool.and_then(|pool| pool.metadata.annotations.as_ref());
    ObservedMember {
        name: of.member.name.clone(),
        instance_type: config.instance_type.clone(),
        multiplier: config.multiplier,
        effective_resources: effective_resources(of),
        state: Some(of.state),
        idle_count: pool.idle_replicas,
        running_count: pool.running_replicas,
        desired_replicas: of.desired(),
        current_replicas: count(sum.into_iter().map(i64::from).sum()),
        pending_requests: pool.pending_requests,
        saturated_until: of.saturated_until(now),
        scaling_group: config.scaling_group.clone(),
        autoscaling_enabled: of.scales(),
        scale_up_headroom: of.headroom(group_desired),
        update_revision: pool.update_revision,
        updated_replicas: pool.updated_replicas,
        template_version: text(annotations, names::ANNOTATION_TEMPLATE_VERSION),
    }
}

/// The resources of the first container.
fn effective_resources(of: &Of<'_>) -> Option<ResourceRequirements> {
    let spec = of.pool.map_or(&of.member.spec, |pool| &pool.spec);
    let pods = spec.template.as_ref()?.parse().ok()?;
    let resources = pods.pointer("/spec/containers/0/resources")?;
    resources.as_object().filter(|resources| !resources.is_empty())?;
    Some(ResourceRequirements::new(resources))
}

/// When the snapshot of this cluster is renewed, if nothing of it changes until then. None if no other
/// cluster has a part in the environment, or this one has none.
pub(super) fn renewal(env: &SandboxEnv, cluster: &str) -> Option<Timestamp> {
    let is_ours = |id: &str| id == cluster;
    let segments = &env.spec.clusters;
    let has_ours = segments.iter().any(|segment| is_ours(&segment.cluster_id));
    let has_others = segments.iter().any(|segment| !is_ours(&segment.cluster_id));
    let mut observed = env.status.as_ref()?.clusters.iter().filter(|_| has_ours && has_others);
    let snapshot = observed.find(|known| is_ours(&known.cluster_id))?.last_snapshot_time.as_ref()?;
    snapshot.0.checked_add(RENEWED_AFTER).ok()
}

/// Puts the segment of this cluster in its place, if it is another or its snapshot is due. Others stay as
/// they are.
fn put_segment(
    clusters: &mut Vec<ObservedCluster>,
    cluster: &str,
    observed_members: Vec<ObservedMember>,
    is_due: bool,
    now: Timestamp,
) {
    let json = |members: &[ObservedMember]| serde_json::to_value(members).unwrap_or(Value::Null);
    let known = clusters.iter_mut().find(|known| known.cluster_id == cluster);
    let is_same = |known: &ObservedCluster| {
        known.is_local
            && known.last_snapshot_time.is_some()
            && json(&known.observed_members) == json(&observed_members)
    };
    if !is_due && known.as_ref().is_some_and(|known| is_same(known)) {
        return;
    }
    let segment = ObservedCluster {
        cluster_id: cluster.to_owned(),
        is_local: true,
        observed_members,
        last_snapshot_time: Some(Time(whole_seconds(now))),
    };
    match known {
        Some(known) => *known = segment,
        None => clusters.push(segment),
    }
}

fn put_conditions(
    conditions: &mut Vec<Condition>,
    spec: &SandboxEnvSpec,
    members: &[Of<'_>],
    generation: Option<i64>,
    now: Timestamp,
) {
    remove(conditions, CREDENTIALS_RESOLVABLE);
    let names = |wanted: &dyn Fn(&Of<'_>) -> bool| {
        let names: Vec<_> =
            members.iter().filter(|of| wanted(of)).map(|of| of.member.name.as_str()).collect();
        names.join(", ")
    };
    let verdict = |kind, holds, reason, message| Verdict { kind, holds, reason, message };

    let is_in = |state| move |of: &Of<'_>| of.state == state;
    let has = |state| members.iter().any(is_in(state));
    let ready = if members.is_empty() {
        verdict(READY, false, "NoMembers", "the environment has no member in this cluster".to_owned())
    } else if has(MemberState::Missing) {
        let names = names(&is_in(MemberState::Missing));
        verdict(READY, false, "Missing", format!("these members have no pool: {names}"))
    } else if has(MemberState::Inconsistent) {
        let names = names(&is_in(MemberState::Inconsistent));
        let message = format!("these pools are of another template, or not the environment's: {names}");
        verdict(READY, false, "Inconsistent", message)
    } else {
        verdict(READY, true, "AllMembersActive", format!("all {} members have their pools", members.len()))
    };
    put(conditions, ready, generation, now);

    let template = &spec.template_ref.name;
    let mismatches = |of: &Of<'_>| of.pool.is_some_and(|pool| pool.spec.template_name != *template);
    let consistent = if members.iter().any(mismatches) {
        let message = format!("these pools are not of the template {template}: {}", names(&mismatches));
        verdict(TEMPLATE_CONSISTENT, false, "TemplateMismatch", message)
    } else if members.iter().any(Of::is_rolling) {
        let message = format!("these pools replace their pods: {}", names(&|of: &Of<'_>| of.is_rolling()));
        verdict(TEMPLATE_CONSISTENT, false, "RolloutInProgress", message)
    } else {
        verdict(
            TEMPLATE_CONSISTENT,
            true,
            "TemplatesMatch",
            format!("all pools are of the template {template}"),
        )
    };
    put(conditions, consistent, generation, now);
}
