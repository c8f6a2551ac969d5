//! What is told of a sandbox once it is over: when its pod is idle again, or goes.
//!
//! The write that takes the sandbox off its pod comes first, so a sandbox is told of at most once.

use sandgate_objects::sandbox_env::names;
use sandgate_objects::sandbox_env::resources::EnvPod;

use crate::EventKind;
use crate::view::Seen;

/// How a sandbox ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// By itself.
    Completed,
    /// Somebody released it, or nobody used it for long.
    Released,
    /// It could not go on.
    Failed,
    /// Nobody waited for it any more.
    Canceled,
    /// Nobody said why, and its pod was deleted.
    Lost,
}

impl Ending {
    pub(super) const ALL: [Self; 5] =
        [Self::Completed, Self::Released, Self::Failed, Self::Canceled, Self::Lost];

    /// By what its pod says.
    fn of(pod: &EnvPod) -> Self {
        match pod.annotation(names::ANNOTATION_STOP_REASON) {
            names::STOP_COMPLETED => Self::Completed,
            names::STOP_RELEASED => Self::Released,
            names::STOP_FAILED => Self::Failed,
            names::STOP_CANCELED => Self::Canceled,
            _ => Self::Lost,
        }
    }

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "Completed",
            Self::Released => "Released",
            Self::Failed => "Failed",
            Self::Canceled => "Canceled",
            Self::Lost => "Lost",
        }
    }

    /// The reason of the event.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::Completed => "SandboxCompleted",
            Self::Released => "SandboxReleased",
            Self::Failed => "SandboxFailed",
            Self::Canceled => "SandboxCanceled",
            Self::Lost => "SandboxLost",
        }
    }

    /// Whether it is good news.
    pub(super) fn kind(self) -> EventKind {
        match self {
            Self::Completed | Self::Released | Self::Canceled => EventKind::Normal,
            Self::Failed | Self::Lost => EventKind::Warning,
        }
    }
}

/// A sandbox that is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// How it ended.
    pub(super) ending: Ending,
    /// The sentence.
    pub(super) note: String,
}

impl Record {
    /// That of the sandbox that a pod is, or was until now; none if it is nobody's.
    pub(super) fn of(pod: &Seen<EnvPod>) -> Option<Self> {
        let id = pod.sandbox_id();
        if id.is_empty() {
            return None;
        }
        let ending = Ending::of(pod);
        let said = |key: &str| Some(pod.annotation(key)).filter(|text| !text.is_empty());
        let mut note = format!("Sandbox {id} of pod {} is over: {}", pod.key.name, ending.as_str());
        if let Some(failure) = said(names::ANNOTATION_FAILURE_REASON) {
            note.push_str(&format!(", {failure}"));
        }
        if let Some(message) = said(names::ANNOTATION_FAILURE_MESSAGE) {
            note.push_str(&format!(": {message}"));
        }
        Some(Self { ending, note })
    }

    /// Writes it into the log.
    pub(super) fn log(&self, pod: &Seen<EnvPod>) {
        let said = |key: &str| pod.annotation(key);
        tracing::info!(
            sandbox = pod.sandbox_id(),
            pod = %pod.key,
            pool = pod.pool(),
            ending = self.ending.as_str(),
            claimed = said(names::ANNOTATION_CLAIMED_AT),
            started = said(names::ANNOTATION_STARTED_AT),
            last_active = said(names::ANNOTATION_LAST_ACTIVE),
            terminated = said(names::ANNOTATION_TERMINATED_AT),
            failure = said(names::ANNOTATION_FAILURE_REASON),
            exit_code = said(names::ANNOTATION_EXIT_CODE),
            "a sandbox is over"
        );
    }
}
