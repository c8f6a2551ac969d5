//! The autoscaler of an environment's pools: what it decides, without a client and without a clock.
//!
//! A caller takes a [`ScaleSnapshot`] of one pool and its siblings and calls [`ScaleSnapshot::decide`]. The
//! decision is a [`ScalePlan`] that can be written, or a [`Growth`] that has to be asked of the admission
//! first (`admission`) and becomes a plan by [`Growth::settle`].
//!
//! 1. Since when no pod is idle is noted, also where the pool does not scale by itself.
//! 2. A pool without a group, or of a group that is not enabled, is left alone.
//! 3. A pool with more sandboxes than replicas gets as many replicas. They are there already, so nobody is
//!    asked, and no ceiling counts.
//! 4. The pool grows (`grow`), or
//! 5. it shrinks (`shrink`).
//!
//! Whoever carries out a plan:
//! - writes `replicas` into the environment with the version that the snapshot was taken of. Siblings share
//!   the limits of the group, so two of them that decide on one version must not both write;
//! - then writes `status`, then publishes `event`;
//! - then gives `session` to the [`ScaleSession`] of the pool. A plan that was not written has not happened;
//! - takes a new snapshot at `wake_at`, if nothing happens before.
//!
//! All numbers come from objects that anybody may have written. Those below 0 count as 0, and sums are made
//! in 64 bits.

mod admission;
mod decide;
mod grow;
mod levels;
#[cfg(any(test, feature = "testing"))]
mod model;
mod now;
mod plan;
mod session;
mod shrink;
mod snapshot;
#[cfg(test)]
mod tests;

pub use admission::{Admission, AdmissionLadder, AdmissionOutcome, AdmissionRefusal, RefusalKind};
pub use levels::ScaleLevels;
#[cfg(any(test, feature = "testing"))]
pub use model::{ModelPool, ModelTimes, ScaleModel, ScaleRow};
pub use plan::{
    Growth, ScaleDecision, ScaleEvent, ScaleFloor, ScalePlan, ScaleReason, ScaleTrigger, ScaleVerdict,
};
pub use session::{ScaleSession, SessionChange};
pub use snapshot::{ScaleLimits, ScalePool, ScaleSnapshot, saturated_until};
