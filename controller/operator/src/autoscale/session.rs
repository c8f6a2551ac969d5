//! A scale-down that takes several steps, as people are told of it: that it began, and how it ended.
//!
//! It lives in the process that leads. One that starts anew knows of none, and tells of the next step as of a
//! beginning. The pace of the steps does not depend on it: it is in the status of the pool too.

use jiff::{SignedDuration, Timestamp};

use super::now::Now;

/// The time between two events that tell of a scale-down that is stuck.
const STUCK_PAUSE: SignedDuration = SignedDuration::from_mins(5);

/// What this process remembers of a pool from one look to the next. It is kept by pool and UID.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScaleSession {
    /// Whether the pool is on its way down.
    is_open: bool,
    /// When the last step was written. The cache may not have the status with it yet.
    last_step: Option<Timestamp>,
    /// When it was last told that a scale-down is stuck.
    told_stuck: Option<Timestamp>,
}

/// What a plan means for the session. It is applied once the plan is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SessionChange {
    /// Nothing.
    #[default]
    None,
    /// The first step was made.
    Started(Timestamp),
    /// A further step was made.
    Stepped(Timestamp),
    /// There is nothing more to give up.
    Completed,
    /// A floor ends it, and people were told.
    Stuck(Timestamp),
    /// There is demand again, or the pool does not scale by itself any more.
    Aborted,
}

impl ScaleSession {
    /// Whether the pool is on its way down.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Takes over what a plan did, after it was written. If the replicas are written and the status is not,
    /// this is called nevertheless: the pool has shrunk.
    pub fn apply(&mut self, change: SessionChange) {
        match change {
            SessionChange::None => {}
            SessionChange::Started(at) | SessionChange::Stepped(at) => {
                self.is_open = true;
                self.last_step = Some(at);
            }
            SessionChange::Stuck(at) => self.told_stuck = Some(at),
            SessionChange::Completed | SessionChange::Aborted => self.is_open = false,
        }
    }

    /// When the last step was written.
    pub(super) fn last_step(&self) -> Option<Timestamp> {
        self.last_step
    }

    /// What becomes of the session where the pool does not shrink any more, of which nobody is told.
    pub(super) fn aborted(&self) -> SessionChange {
        if self.is_open { SessionChange::Aborted } else { SessionChange::None }
    }

    /// Whether it may be told now that the session is stuck.
    pub(super) fn may_tell_stuck(&self, now: &mut Now) -> bool {
        self.is_open && !self.told_stuck.is_some_and(|told| now.is_within(told, STUCK_PAUSE))
    }
}
