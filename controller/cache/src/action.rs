//! What is done to an object while somebody waits, and why a wait ends without success.

use std::fmt;

/// What a waiter waits for.
///
/// [`Pause`](Self::Pause) and [`Resume`](Self::Resume) change the object, so they take turns: while one of
/// them is under way the other is refused at once, and whoever wants the same joins. The others only look.
/// They take no turn and hinder nobody: a create that waits for its sandbox to be ready must not make a pause
/// fail, nor fail because of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// A sandbox is paused.
    Pause,
    /// A sandbox is resumed.
    Resume,
    /// A sandbox becomes ready.
    Ready,
    /// A checkpoint is made.
    Checkpoint,
    /// A volume claim gets its volume.
    Bind,
}

impl Action {
    /// A fixed name, for messages and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Ready => "ready",
            Self::Checkpoint => "checkpoint",
            Self::Bind => "bind",
        }
    }

    /// Whether only one of these may be under way on an object.
    pub const fn takes_turns(self) -> bool {
        matches!(self, Self::Pause | Self::Resume)
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What a predicate says of one version of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// Not yet.
    Not,
    /// This is what was waited for.
    Done,
    /// It will never be, for this reason.
    Failed(String),
}

impl Check {
    /// Done if it holds, otherwise not yet.
    pub fn holds(holds: bool) -> Self {
        if holds { Self::Done } else { Self::Not }
    }
}

/// Why a wait ended without what was waited for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WaitError {
    /// It is not so, and the caller gave no time to wait. Waiting may help.
    #[error("the object is not there yet, and there is no time to wait")]
    NotSatisfied,
    /// Another action has its turn. It may be tried again when that is over.
    #[error("cannot {wanted}: another action is under way ({existing})")]
    Conflict {
        /// What is under way.
        existing: Action,
        /// What was asked for.
        wanted: Action,
    },
    /// The object is gone, or another has its name now. Waiting does not help.
    #[error("the object is gone")]
    Gone,
    /// The caller, or the stop of the cache, ended the wait. Nothing is known of the object.
    #[error("the wait was cancelled")]
    Cancelled,
    /// It did not happen in time. It may happen later.
    #[error("it did not happen in time")]
    Timeout,
    /// The predicate said that it will never be.
    #[error("{0}")]
    Failed(String),
    /// The turn was used or released before.
    #[error("this turn was used or released before")]
    Used,
}
