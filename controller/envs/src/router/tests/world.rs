//! Environments, loads and a time for the router's tests.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use sandgate_objects::sandbox_env::resources::{
    Autoscaling, ClusterSegment, GroupTotals, Member, ObservedCluster, ObservedMember, SandboxEnv,
    SandboxEnvStatus, ScalingGroup, Time,
};

use crate::router::{Candidates, EnvRouter, Fed, Load, PoolLoad, Route, RouterSettings, Wish};

pub(super) const HERE: &str = "here";

pub(super) fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

pub(super) fn after(seconds: i64) -> Timestamp {
    now() + SignedDuration::from_secs(seconds)
}

/// Live loads: idle pods, claims that wait, whether the line is full.
#[derive(Default)]
pub(super) struct Loads(BTreeMap<String, Load>);

impl Loads {
    pub(super) fn of(loads: &[(&str, usize, usize)]) -> Self {
        let load = |&(pool, idle_ready, queued): &(&str, usize, usize)| {
            (pool.to_owned(), Load { idle_ready, queued, is_full: false })
        };
        Self(loads.iter().map(load).collect())
    }

    pub(super) fn full(mut self, pool: &str) -> Self {
        self.0.entry(pool.to_owned()).or_default().is_full = true;
        self
    }
}

impl PoolLoad for Loads {
    fn load(&self, namespace: &str, pool: &str) -> Option<Load> {
        assert_eq!(namespace, "ns");
        self.0.get(pool).copied()
    }
}

/// A member, and what was observed of it.
#[derive(Clone)]
pub(super) struct Of(pub(super) Member, pub(super) ObservedMember);

pub(super) fn member(name: &str) -> Of {
    let mut member = Member { name: name.to_owned(), ..Member::default() };
    member.config.scaling_group = "g".to_owned();
    let observed =
        ObservedMember { name: name.to_owned(), scaling_group: "g".to_owned(), ..Default::default() };
    Of(member, observed)
}

impl Of {
    pub(super) fn priority(mut self, priority: i32) -> Self {
        self.0.config.priority = priority;
        self
    }

    pub(super) fn max(mut self, max: i32) -> Self {
        self.0.config.max_replicas = max;
        self
    }

    pub(super) fn desired(mut self, desired: i32) -> Self {
        self.1.desired_replicas = desired;
        self
    }

    pub(super) fn idle(mut self, idle: i32) -> Self {
        self.1.idle_count = idle;
        self
    }

    pub(super) fn headroom(mut self, headroom: Option<i32>) -> Self {
        self.1.scale_up_headroom = headroom;
        self.1.autoscaling_enabled = true;
        self
    }

    pub(super) fn group(mut self, group: &str) -> Self {
        self.0.config.scaling_group = group.to_owned();
        self.1.scaling_group = group.to_owned();
        self
    }

    pub(super) fn saturated(mut self, seconds: i64) -> Self {
        self.1.saturated_until = Some(Time(after(seconds)));
        self
    }
}

/// An environment of the namespace `ns` with these members here.
pub(super) fn env(name: &str, version: u64, members: &[Of]) -> SandboxEnv {
    let mut env = SandboxEnv::default();
    env.metadata.namespace = Some("ns".to_owned());
    env.metadata.name = Some(name.to_owned());
    env.metadata.uid = Some(format!("{name}-1"));
    env.metadata.resource_version = Some(version.to_string());
    let of = |Of(member, _): &Of| member.clone();
    env.spec.clusters =
        vec![ClusterSegment { cluster_id: HERE.to_owned(), members: members.iter().map(of).collect() }];
    let mut status = SandboxEnvStatus { scaling_groups: vec![GroupTotals::default()], ..Default::default() };
    status.clusters.push(observed(HERE, 0, members));
    env.status = Some(status);
    env
}

fn observed(cluster: &str, heard: i64, members: &[Of]) -> ObservedCluster {
    ObservedCluster {
        cluster_id: cluster.to_owned(),
        is_local: cluster == HERE,
        observed_members: members.iter().map(|Of(_, observed)| observed.clone()).collect(),
        last_snapshot_time: Some(Time(after(heard))),
    }
}

/// The environment with a scaling group that is on.
pub(super) fn grouped(mut env: SandboxEnv, name: &str, max: Option<i32>) -> SandboxEnv {
    let group =
        ScalingGroup { name: name.to_owned(), enabled: true, max_replicas: max, ..Default::default() };
    env.spec.autoscaling.get_or_insert_with(Autoscaling::default).groups.push(group);
    env
}

/// The environment with what another cluster said of itself that many seconds ago.
pub(super) fn heard(mut env: SandboxEnv, cluster: &str, ago: i64, members: &[Of]) -> SandboxEnv {
    env.status.as_mut().unwrap().clusters.push(observed(cluster, -ago, members));
    env
}

pub(super) fn router() -> EnvRouter {
    EnvRouter::new(RouterSettings::of(HERE))
}

/// Tells of an environment as a cache has it.
pub(super) fn tell(router: &EnvRouter, env: &SandboxEnv) -> Fed {
    router.upsert(&sandgate_cache::seen(env.clone(), |env| &env.metadata).unwrap())
}

pub(super) fn knows(env: &SandboxEnv) -> EnvRouter {
    let router = router();
    assert_eq!(tell(&router, env), Fed::Taken);
    router
}

pub(super) fn wish(name: &str) -> Wish<'_> {
    Wish { namespace: "ns", cluster: None, name, scaling_group: None }
}

pub(super) fn names(candidates: &Candidates) -> Vec<&str> {
    candidates.iter().map(|name| &**name).collect()
}

/// The decision in a few words.
pub(super) fn routed(router: &EnvRouter, wish: &Wish<'_>, load: &Loads) -> String {
    match router.route(wish, now(), load) {
        Route::Here(candidates) => names(&candidates).join(" "),
        Route::Forward { cluster, here: Some(here) } => format!("{cluster}, else {}", names(&here).join(" ")),
        Route::Forward { cluster, here: None } => format!("{cluster}"),
        other => format!("{other:?}"),
    }
}

/// The decision about a claim of the environment `e` that has these members.
pub(super) fn of_members(members: &[Of], load: &Loads) -> String {
    routed(&knows(&env("e", 1, members)), &wish("e"), load)
}
