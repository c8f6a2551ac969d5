//! A pool in numbers, and the numbers that follow from them.
//!
//! A pool is brought to its *demand*, the sandboxes that run and the claims that wait, and a *buffer* of pods
//! that wait for the next claims. Pods that were asked for and are not idle yet are *provisioning*: they are
//! counted as supply, so nobody asks for them a second time while they start.

use sandgate_objects::sandbox_env::resources::ScaleMode;

/// A pool in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScaleLevels {
    /// How many pods there are to be.
    pub replicas: i32,
    /// How many pods wait for a claim, those that are not ready yet among them.
    pub idle: i32,
    /// How many pods are sandboxes.
    pub running: i32,
    /// How many pods are claimed and not yet sandboxes.
    pub starting: i32,
    /// How many pods are released and not yet idle.
    pub stopping: i32,
    /// How many pods cannot be used.
    pub failed: i32,
    /// How many claims are not finished, in all replicas of the manager. A claim is finished when its pod
    /// runs: until then the pod counts as provisioning, and the claim as what it is provisioned for. Where
    /// the claims were counted before the pods, those whose pods have begun to run since must be taken off,
    /// or they count twice and the pool grows for nobody.
    pub queue: i32,
}

/// A number of an object: below 0 is 0.
fn count(number: i32) -> i64 {
    i64::from(number.max(0))
}

impl ScaleLevels {
    pub(super) fn replicas(&self) -> i64 {
        count(self.replicas)
    }

    pub(super) fn running(&self) -> i64 {
        count(self.running)
    }

    /// Whether no pod waits for a claim.
    pub(super) fn is_out_of_idle(&self) -> bool {
        self.idle <= 0
    }

    /// Whether claims wait.
    pub(super) fn has_queue(&self) -> bool {
        self.queue > 0
    }

    /// Sandboxes, and those to be.
    pub(super) fn demand(&self) -> i64 {
        count(self.running) + count(self.queue)
    }

    /// Pods that claims can be given, now or soon.
    fn supply(&self) -> i64 {
        let provisioning = (self.replicas() - count(self.running) - count(self.idle)).max(0);
        count(self.idle) + provisioning
    }

    /// Claims that no pod is on its way for.
    pub(super) fn unmet(&self) -> i64 {
        (count(self.queue) - self.supply()).max(0)
    }

    /// Pods that remain once every claim has one.
    fn spare(&self) -> i64 {
        (self.supply() - count(self.queue)).max(0)
    }

    /// Pods beyond the replicas: they are about to be deleted.
    pub(super) fn surplus(&self) -> i64 {
        let pods = [self.idle, self.running, self.starting, self.stopping, self.failed];
        (pods.into_iter().map(count).sum::<i64>() - self.replicas()).max(0)
    }

    /// The replicas that a pool of this mode grows to, by its own numbers alone. Never below the replicas.
    pub(super) fn target(&self, mode: ScaleMode) -> i64 {
        let (replicas, demand) = (self.replicas(), self.demand());
        let missing = (buffer(mode, demand) - self.spare()).max(0).min(replicas.max(1));
        (replicas + self.unmet() + missing).min(ceiling(mode, demand)).max(replicas)
    }
}

/// How many pods are to wait for claims beside so much demand.
fn buffer(mode: ScaleMode, demand: i64) -> i64 {
    let demand = demand.max(0);
    match mode {
        ScaleMode::Conservative => 1,
        ScaleMode::Default => part(demand, 4).max(1),
        ScaleMode::Aggressive => part(demand, 2).max(1),
    }
}

/// The most replicas for so much demand.
pub(super) fn ceiling(mode: ScaleMode, demand: i64) -> i64 {
    let demand = demand.max(0);
    match mode {
        ScaleMode::Conservative => demand.saturating_add(1),
        ScaleMode::Default => demand.saturating_add(part(demand, 2)).saturating_add(1),
        ScaleMode::Aggressive => demand.saturating_mul(2).saturating_add(2),
    }
}

/// How many of so many replicas are given up at a time. The mode is that of growing: what grows in large
/// steps shrinks in large steps.
pub(super) fn step(mode: ScaleMode, replicas: i64) -> i64 {
    let replicas = replicas.max(0);
    match mode {
        ScaleMode::Conservative => replicas.min(1),
        ScaleMode::Default => part(replicas, 4),
        ScaleMode::Aggressive => part(replicas, 2),
    }
}

/// One part of so many, rounded up.
fn part(of: i64, parts: i64) -> i64 {
    of / parts + i64::from(of % parts > 0)
}

/// A number of replicas as objects have it.
pub(super) fn narrow(replicas: i64) -> i32 {
    i32::try_from(replicas.max(0)).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODES: [ScaleMode; 3] = [ScaleMode::Conservative, ScaleMode::Default, ScaleMode::Aggressive];

    #[test]
    fn the_buffer_and_the_ceiling_follow_the_demand_by_mode() {
        for (demand, buffers, ceilings) in [
            (0, [1, 1, 1], [1, 1, 2]),
            (1, [1, 1, 1], [2, 3, 4]),
            (2, [1, 1, 1], [3, 4, 6]),
            (3, [1, 1, 2], [4, 6, 8]),
            (4, [1, 1, 2], [5, 7, 10]),
            (5, [1, 2, 3], [6, 9, 12]),
            (10, [1, 3, 5], [11, 16, 22]),
            (100, [1, 25, 50], [101, 151, 202]),
            (-1, [1, 1, 1], [1, 1, 2]),
        ] {
            assert_eq!(MODES.map(|mode| buffer(mode, demand)), buffers, "a demand of {demand}");
            assert_eq!(MODES.map(|mode| ceiling(mode, demand)), ceilings, "a demand of {demand}");
        }
    }

    #[test]
    fn the_step_follows_the_replicas_by_mode() {
        for (replicas, steps) in [
            (0, [0, 0, 0]),
            (1, [1, 1, 1]),
            (2, [1, 1, 1]),
            (4, [1, 1, 2]),
            (5, [1, 2, 3]),
            (100, [1, 25, 50]),
            (801, [1, 201, 401]),
            (-1, [0, 0, 0]),
        ] {
            assert_eq!(MODES.map(|mode| step(mode, replicas)), steps, "{replicas} replicas");
        }
    }

    #[test]
    fn the_numbers_of_objects_do_not_overflow() {
        for number in [i32::MIN, -1, 0, 1, i32::MAX] {
            let levels = ScaleLevels {
                replicas: number,
                idle: number,
                running: number,
                starting: number,
                stopping: number,
                failed: number,
                queue: number,
            };
            assert!(levels.demand() >= 0 && levels.unmet() >= 0 && levels.surplus() >= 0);
            MODES.iter().for_each(|mode| assert!(levels.target(*mode) >= levels.replicas()));
        }
        assert!(MODES.iter().all(|mode| buffer(*mode, i64::MAX) > 0 && ceiling(*mode, i64::MAX) > 0));
    }
}
