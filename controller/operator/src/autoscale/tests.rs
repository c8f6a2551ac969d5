//! Decisions, case by case, and what holds for all of them.

mod admission;
mod commits;
mod down;
mod loops;
mod properties;
mod sessions;
mod up;

use jiff::{SignedDuration, Timestamp};
use sandgate_objects::sandbox_env::resources::{ScaleMode, ScalingGroup, Time};

use super::*;

/// When the tests decide.
const NOW: i64 = 100_000;

/// So many seconds before the tests decide.
fn ago(seconds: i64) -> Timestamp {
    Timestamp::from_second(NOW - seconds).unwrap()
}

fn group(mode: ScaleMode) -> ScalingGroup {
    let mut group = ScalingGroup { name: "default".to_owned(), enabled: true, ..ScalingGroup::default() };
    group.scale_up_policy.mode = mode;
    group
}

/// A pool in numbers: those that want nothing have been idle for an hour.
fn pool(name: &str, replicas: i32, running: i32, idle: i32) -> ScalePool {
    ScalePool {
        name: name.to_owned(),
        levels: ScaleLevels { replicas, running, idle, ..ScaleLevels::default() },
        idle_since: (0..idle).map(|_| ago(3600)).collect(),
        ..ScalePool::default()
    }
}

fn snapshot(replicas: i32, running: i32, idle: i32) -> ScaleSnapshot {
    ScaleSnapshot {
        pool: pool("p", replicas, running, idle),
        group: Some(group(ScaleMode::Default)),
        now: ago(0),
        ..ScaleSnapshot::default()
    }
}

impl ScaleSnapshot {
    fn queue(mut self, queue: i32) -> Self {
        self.pool.levels.queue = queue;
        self
    }

    fn mode(mut self, mode: ScaleMode) -> Self {
        self.edit(|group| group.scale_up_policy.mode = mode);
        self
    }

    fn group(mut self, edit: impl FnOnce(&mut ScalingGroup)) -> Self {
        self.edit(edit);
        self
    }

    fn edit(&mut self, edit: impl FnOnce(&mut ScalingGroup)) {
        edit(self.group.as_mut().unwrap());
    }

    fn limits(mut self, min: i32, max: i32) -> Self {
        self.pool.limits = ScaleLimits { min, max, ..self.pool.limits };
        self
    }

    /// No pod has been idle for so many seconds, and the last claim was made so many ago.
    fn out_of_idle(mut self, since: i64, last_create: i64) -> Self {
        self.pool = self.pool.out_of_idle(since, last_create);
        self
    }

    /// All idle pods wait for so many seconds.
    fn idle_for(mut self, seconds: i64) -> Self {
        self.pool.idle_since.fill(ago(seconds));
        self
    }

    fn siblings(mut self, siblings: impl IntoIterator<Item = ScalePool>) -> Self {
        self.siblings = siblings.into_iter().chain([self.pool.clone()]).collect();
        self.siblings.sort_by(|one, other| one.name.cmp(&other.name));
        self
    }

    fn after(&self, seconds: i64) -> Self {
        let now = self.now.checked_add(SignedDuration::from_secs(seconds)).unwrap();
        Self { now, ..self.clone() }
    }

    /// The plan of a pool of which everything is admitted.
    fn plan(&self) -> ScalePlan {
        match self.decide() {
            ScaleDecision::Plan(plan) => plan,
            ScaleDecision::Ask(growth) => {
                let ladder = everything(growth.from, growth.to);
                growth.settle(&ladder.outcome())
            }
        }
    }

    fn verdict(&self) -> ScaleVerdict {
        self.plan().verdict
    }

    /// The replicas that the pool is to have, if they change.
    fn to(&self) -> Option<i32> {
        self.plan().replicas
    }

    /// Carries out the plan, and says what people are told.
    fn commit(&mut self) -> Option<ScaleReason> {
        let ScalePlan { from: _, replicas, status, event, session, wake_at: _, verdict: _ } = self.plan();
        self.pool.levels.replicas = replicas.unwrap_or(self.pool.levels.replicas);
        self.pool.status = status.unwrap_or_else(|| self.pool.status.clone());
        self.session.apply(session);
        event.map(|event| event.reason)
    }

    /// So many idle pods are gone.
    fn lose(&mut self, idle: i32) {
        self.pool.levels.idle -= idle;
        let left = self.pool.idle_since.len() - usize::try_from(idle).unwrap();
        self.pool.idle_since.truncate(left);
    }
}

impl ScalePool {
    fn out_of_idle(mut self, since: i64, last_create: i64) -> Self {
        self.status.idle_zero_since = Some(Time(ago(since)));
        self.last_create = Some(ago(last_create));
        self
    }

    fn up_priority(mut self, priority: i32) -> Self {
        self.limits.up_priority = priority;
        self
    }

    fn down_priority(mut self, priority: i32) -> Self {
        self.limits.down_priority = priority;
        self
    }
}

/// A ladder that was told yes.
fn everything(from: i32, to: i32) -> AdmissionLadder {
    let mut ladder = AdmissionLadder::new(from, to);
    ladder.answered(Ok(to));
    ladder
}
