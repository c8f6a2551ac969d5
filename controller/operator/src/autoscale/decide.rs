//! The order of the decision.

use sandgate_objects::sandbox_env::resources::{AutoscalingStatus, Time};

use super::grow::{self, Growing};
use super::levels::narrow;
use super::now::Now;
use super::plan::{Growth, ScaleDecision, ScalePlan, ScaleVerdict, changed};
use super::shrink;
use super::snapshot::ScaleSnapshot;

impl ScaleSnapshot {
    /// Decides.
    pub fn decide(&self) -> ScaleDecision {
        let mut now = Now::new(self.now);
        let status = self.noted();
        let levels = &self.pool.levels;
        let from = narrow(levels.replicas());
        let Some(group) = self.group.as_ref().filter(|group| group.enabled) else {
            return ScaleDecision::Plan(ScalePlan {
                from,
                status: changed(&self.pool.status, status, self.generation),
                session: self.session.aborted(),
                verdict: ScaleVerdict::Disabled,
                ..ScalePlan::default()
            });
        };
        if levels.running() > levels.replicas() {
            return ScaleDecision::Plan(ScalePlan {
                from,
                replicas: Some(narrow(levels.running())),
                status: changed(&self.pool.status, status, self.generation),
                session: self.session.aborted(),
                verdict: ScaleVerdict::RaisesToRunning,
                ..ScalePlan::default()
            });
        }
        let held = match grow::look(self, group, &status, &mut now) {
            Growing::To(to, trigger) => {
                return ScaleDecision::Ask(Growth {
                    from,
                    to,
                    trigger,
                    status,
                    generation: self.generation,
                    policy: group.scale_up_policy,
                    session: self.session.aborted(),
                    now: self.now,
                });
            }
            Growing::Held(verdict) => verdict,
        };
        let mut plan = shrink::look(self, group, status, &mut now);
        if plan.verdict != ScaleVerdict::Shrinks {
            plan.wake_at = now.until;
            plan.verdict = held.unwrap_or(plan.verdict);
        }
        ScaleDecision::Plan(plan)
    }

    /// The status, with since when no pod is idle. A time ahead of this clock is replaced: by it the pool
    /// would not be out of idle pods for long.
    fn noted(&self) -> AutoscalingStatus {
        let mut status = self.pool.status.clone();
        status.idle_zero_since = self.pool.levels.is_out_of_idle().then(|| {
            let since = status.idle_zero_since.filter(|since| since.0 <= self.now);
            since.unwrap_or(Time(self.now))
        });
        status
    }
}
