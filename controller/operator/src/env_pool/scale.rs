//! Carries out what the autoscaler decides about a pool.
//!
//! # Protocol
//! 1. A snapshot is taken from the view: of the environment only what it says about this cluster. The number
//!    of replicas is that of the member, as the pool may not have it yet.
//! 2. If the pool is to grow, its plugins are asked.
//! 3. The replicas of the member are written, with the version of the environment that was decided on. Pools
//!    that share the limits of a group share the environment, so of two decisions on one version one fails
//!    and is made anew.
//! 4. `status.autoscaling` of the pool is written, then people are told, then this process remembers it.
//!
//! A process that dies after step 3 has scaled and not said so: the next one decides from the new number.

use std::sync::Arc;

use jiff::Timestamp;
use sandgate_objects::sandbox_env::names;
use sandgate_objects::sandbox_env::resources::{
    AutoscalingStatus, EnvPod, Member, SandboxEnv, SandboxPool, ScalingGroup,
};
use serde_json::{Value, json};

use super::EnvPoolReconciler;
use super::admission::Asked;
use super::pending::pending;
use crate::Key;
use crate::autoscale::{
    AdmissionLadder, ScaleDecision, ScaleLevels, ScaleLimits, ScalePlan, ScalePool, ScaleSnapshot,
};
use crate::environment::is_owned;
use crate::merge::merge_patch;
use crate::view::{EnvPodClass, Seen, env_of};
use crate::writes::{Merge, WriteError};

/// How often a decision is made anew because something had changed.
const TRIES: usize = 3;

/// The environment of a pool, with what it says about it here.
struct Of {
    env: Arc<Seen<SandboxEnv>>,
    group: ScalingGroup,
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// A member whose pool is not there yet.
fn unmade(member: &Member) -> ScalePool {
    ScalePool {
        name: member.name.clone(),
        levels: ScaleLevels { replicas: member.spec.replicas, ..ScaleLevels::default() },
        limits: ScaleLimits::from(&member.config),
        ..ScalePool::default()
    }
}

impl EnvPoolReconciler {
    /// Decides, and carries it out. When to decide again, if nothing happens before.
    pub(super) async fn autoscale(&self, pool: &Seen<SandboxPool>) -> Result<Option<Timestamp>, WriteError> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            let Some(pool) = self.view.get::<SandboxPool>(&pool.key) else { return Ok(None) };
            let of = self.env_of(&pool);
            let snapshot = self.scale_snapshot(&pool, of.as_ref());
            let plan = match snapshot.decide() {
                ScaleDecision::Plan(plan) => plan,
                ScaleDecision::Ask(growth) => {
                    let ladder = AdmissionLadder::new(growth.from, growth.to);
                    growth.settle(&ladder.climb(&Asked(self, &pool)).await)
                }
            };
            match self.commit(&pool, of.as_ref(), &plan).await {
                Err(WriteError::Conflict(_)) if attempt < TRIES => {}
                done => return done.map(|()| plan.wake_at),
            }
        }
    }

    /// None if the pool does not scale by itself.
    fn env_of(&self, pool: &Seen<SandboxPool>) -> Option<Of> {
        let env = self.view.get::<SandboxEnv>(&env_of(pool, &pool.key.namespace)?)?;
        // A pool of an environment of the same name from before is not this one's, and neither is a stray one
        // that has its label.
        if env.metadata.deletion_timestamp.is_some() || !is_owned(pool, &env) {
            return None;
        }
        let name = &member(&env, &self.cluster, &pool.key)?.config.scaling_group;
        let groups = &env.spec.autoscaling.as_ref()?.groups;
        let group = groups.iter().find(|group| !name.is_empty() && group.name == *name)?.clone();
        Some(Of { env, group })
    }

    fn scale_snapshot(&self, pool: &Seen<SandboxPool>, of: Option<&Of>) -> ScaleSnapshot {
        let now = self.clock.now();
        let own = of.and_then(|of| member(&of.env, &self.cluster, &pool.key));
        let is_enabled = of.is_some_and(|of| of.group.enabled);
        let siblings = of.filter(|of| of.group.enabled).map(|of| {
            let members = of.env.spec.members_in(&self.cluster).iter();
            let members = members.filter(|member| member.config.scaling_group == of.group.name);
            let mut pools: Vec<_> = members
                .map(|member| {
                    let key = Key::new(&pool.key.namespace, &member.name);
                    match self.view.get::<SandboxPool>(&key).filter(|pool| is_owned(pool, &of.env)) {
                        Some(pool) => self.scale_pool(&pool, Some(member), true, now),
                        // What it will have counts against the limits of the group already.
                        None => unmade(member),
                    }
                })
                .collect();
            pools.sort_by(|one, other| one.name.cmp(&other.name));
            pools
        });
        ScaleSnapshot {
            pool: self.scale_pool(pool, own, is_enabled, now),
            group: of.map(|of| of.group.clone()),
            siblings: siblings.unwrap_or_default(),
            generation: of.and_then(|of| of.env.metadata.generation),
            session: self.with_state(pool, |state| state.session.clone()),
            now,
        }
    }

    /// How many claims have no sandbox that runs. What managers say of it is some seconds old: the claims
    /// that got their pod since are not counted twice, or a pool would grow for sandboxes that run already.
    fn unserved(&self, pool: &Seen<SandboxPool>, now: Timestamp) -> i32 {
        let (pending, counts) = (pending(pool, now), self.view.env_pod_counts(&pool.key, ""));
        let claimed = |pod: &EnvPod| pod.time(names::ANNOTATION_CLAIMED_AT);
        let mut later = Vec::new();
        if let Some(since) = pending.since() {
            let is_later = |pod: &EnvPod| claimed(pod).is_some_and(|at| at >= since);
            for class in [EnvPodClass::Starting, EnvPodClass::Running] {
                let pods = self.view.env_pods_that(&pool.key, class, usize::MAX, is_later);
                later.extend(pods.iter().filter_map(|pod| claimed(pod)));
            }
        }
        pending.unserved(&later, counts.starting)
    }

    /// `is_enabled` is whether anybody asks how long its pods have been idle.
    fn scale_pool(
        &self,
        pool: &Seen<SandboxPool>,
        member: Option<&Member>,
        is_enabled: bool,
        now: Timestamp,
    ) -> ScalePool {
        let counts = self.view.env_pod_counts(&pool.key, "");
        let last_create =
            pool.metadata.annotations.as_ref().and_then(|all| all.get(names::ANNOTATION_LAST_CREATE));
        ScalePool {
            name: pool.key.name.to_string(),
            levels: ScaleLevels {
                replicas: member.map_or(pool.spec.replicas, |member| member.spec.replicas),
                idle: number(counts.idle),
                running: number(counts.running),
                starting: number(counts.starting),
                stopping: number(counts.stopping),
                failed: number(counts.failed + counts.ended),
                queue: self.unserved(pool, now),
            },
            limits: member.map(|member| ScaleLimits::from(&member.config)).unwrap_or_default(),
            status: known_status(pool),
            last_create: last_create.and_then(|text| text.parse().ok()),
            idle_since: self.view.idle_since(&pool.key, if is_enabled { counts.idle } else { 0 }),
        }
    }

    async fn commit(
        &self,
        pool: &Seen<SandboxPool>,
        of: Option<&Of>,
        plan: &ScalePlan,
    ) -> Result<(), WriteError> {
        let ScalePlan { from, replicas, status, event, session, wake_at: _, verdict } = plan;
        if let (Some(to), Some(of)) = (replicas, of) {
            self.write_replicas(&of.env, &pool.key, *to).await?;
            tracing::info!(pool = %pool.key, from, to, ?verdict, "the replicas of a member have changed");
        }
        let mut written = match status {
            Some(status) => self.write_autoscaling(pool, status).await,
            None => Ok(()),
        };
        // The pool has scaled: that it did so, and when, is true of whatever version it has by now. Nobody
        // would write it later, and the pool would not wait before it grows again.
        for _ in 1..TRIES {
            let (Some(status), Some(_), Err(WriteError::Conflict(_))) = (status, replicas, &written) else {
                break;
            };
            written = match self.writes.read::<SandboxPool>(&pool.key).await {
                Ok(Some(now)) if now.uid == pool.uid => self.write_autoscaling(&now, status).await,
                Ok(_) => Ok(()),
                Err(error) => Err(error),
            };
        }
        // What was written into the environment has happened, whatever became of the status.
        if written.is_ok() || replicas.is_some() {
            if let Some(event) = event {
                let (reason, action) = (event.reason.as_str(), event.reason.action());
                self.tell(pool, event.reason.kind(), reason, action, event.note.clone());
            }
            self.with_state(pool, |state| state.session.apply(*session));
        }
        match written {
            // Nothing is to be decided anew.
            Err(WriteError::Conflict(_)) if replicas.is_some() => Ok(()),
            written => written,
        }
    }

    /// Writes the replicas of a member of this cluster. The rest of the environment stays as it is, with what
    /// this program does not know of it.
    async fn write_replicas(&self, env: &Seen<SandboxEnv>, pool: &Key, to: i32) -> Result<(), WriteError> {
        let changed =
            || WriteError::Conflict(format!("{}: it has no member {} any more", env.key, pool.name));
        let raw = self.writes.read_raw(env).await?;
        let mut clusters = raw.pointer("/spec/clusters").cloned().ok_or_else(changed)?;
        let segments = clusters.as_array_mut().ok_or_else(changed)?;
        let here = segments.iter_mut().find(|segment| segment["clusterID"] == *self.cluster);
        let members = here.and_then(|segment| segment["members"].as_array_mut()).ok_or_else(changed)?;
        let member = members.iter_mut().find(|member| member["name"] == *pool.name).ok_or_else(changed)?;
        if !member["spec"].is_object() {
            member["spec"] = json!({});
        }
        member["spec"]["replicas"] = json!(to);
        let patch = json!({"spec": {"clusters": clusters}});
        match self.writes.patch(env, patch, Merge::Plain, None).await {
            Err(error @ WriteError::Conflict(_)) => {
                self.writes.read::<SandboxEnv>(&env.key).await?;
                Err(error)
            }
            done => done.map(drop),
        }
    }

    async fn write_autoscaling(
        &self,
        pool: &Seen<SandboxPool>,
        status: &AutoscalingStatus,
    ) -> Result<(), WriteError> {
        let json = |status: &AutoscalingStatus| serde_json::to_value(status).unwrap_or(Value::Null);
        let Some(patch) = merge_patch(&json(&known_status(pool)), &json(status)) else { return Ok(()) };
        self.patch_pool(pool, json!({"status": {"autoscaling": patch}}), Some("status")).await.map(drop)
    }
}

fn known_status(pool: &SandboxPool) -> AutoscalingStatus {
    pool.status.as_ref().and_then(|status| status.autoscaling.clone()).unwrap_or_default()
}

/// The member of an environment that a pool of this cluster is.
fn member<'a>(env: &'a SandboxEnv, cluster: &str, pool: &Key) -> Option<&'a Member> {
    env.spec.members_in(cluster).iter().find(|member| *member.name == *pool.name)
}
