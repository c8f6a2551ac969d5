//! What users ask for about a sandbox that they were told of.

use std::ops::RangeInclusive;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use sandgate_manager::{FOREVER, Settings};

use crate::process::Ask;

/// What a user asks for about a sandbox. Times are in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Get,
    /// The sandbox of another user.
    Peek,
    Connect(u64),
    Pause,
    Resume(u64),
    SetTimeout(u64),
    Kill,
}

impl Act {
    /// Whether it may change the sandbox.
    pub(super) fn is_change(self) -> bool {
        !matches!(self, Self::Get | Self::Peek)
    }

    /// The word for it in the trace.
    pub(super) fn verb(self) -> &'static str {
        match self {
            Self::Get => "looks at",
            Self::Peek => "looks at another's",
            Self::Connect(_) => "connects to",
            Self::Pause => "pauses",
            Self::Resume(_) => "resumes",
            Self::SetTimeout(_) => "sets the end of",
            Self::Kill => "kills",
        }
    }

    /// The request to the manager.
    pub(super) fn ask(self, id: &str) -> Ask {
        let id = id.to_owned();
        match self {
            Self::Get | Self::Peek => Ask::Get(id),
            Self::Connect(seconds) => Ask::Connect(id, Duration::from_secs(seconds)),
            Self::Pause => Ask::Pause(id),
            Self::Resume(seconds) => Ask::Resume(id, Duration::from_secs(seconds)),
            Self::SetTimeout(seconds) => Ask::SetTimeout(id, Duration::from_secs(seconds)),
            Self::Kill => Ask::Kill(id),
        }
    }

    /// The ends that it may give to a sandbox, if it is done at some time from `asked` to `now`; none if it
    /// gives none.
    pub(crate) fn ends(self, asked: Timestamp, now: Timestamp) -> Option<RangeInclusive<Timestamp>> {
        let floor = Settings::default().min_resume_timeout.as_secs();
        let (least, most) = match self {
            Self::SetTimeout(seconds) => (seconds, seconds),
            Self::Resume(seconds) => (seconds.max(floor), seconds.max(floor)),
            // It resumes if the sandbox is paused.
            Self::Connect(seconds) => (seconds, seconds.max(floor)),
            Self::Pause => (FOREVER.as_secs(), FOREVER.as_secs()),
            Self::Get | Self::Peek | Self::Kill => return None,
        };
        let after = |from: Timestamp, seconds: u64| {
            from + SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX))
        };
        // Times in objects have whole seconds.
        Some(after(asked, least) - SignedDuration::from_secs(1)..=after(now, most))
    }
}
