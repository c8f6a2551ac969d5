//! What a controller runs: the protocol between the queue and the code that knows a kind.

use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;

use crate::Key;

/// Brings one object nearer to what its spec asks for.
///
/// A reconciler is level-triggered: it is told which object to look at, not what happened to it. It reads
/// what the view knows, plans, and writes. The queue never runs it twice at a time for one
/// key. Any await may be the last thing that it does, so each write must leave the object in a state from
/// which the next call goes on.
pub trait Reconciler: Send + Sync + 'static {
    /// The controller's name: in `--controllers`, in the log, and as a metric label.
    const NAME: &'static str;

    /// Looks at one object.
    ///
    /// # Errors
    /// See [`Failed`]: the queue tries again after a back-off of the key's own.
    fn reconcile(&self, key: &Key) -> impl Future<Output = Result<Again, Failed>> + Send;

    /// The object has to be looked at after this time even if a look fails and its back-off is longer. None
    /// if there is no such time, or it has come.
    fn deadline(&self, key: &Key) -> Option<Duration> {
        let _ = key;
        None
    }

    /// The object of a key, for events on it; none where it is not known any more.
    fn object(&self, key: &Key) -> Option<ObjectReference> {
        let _ = key;
        None
    }
}

/// When to look at the object again if nothing happens to it before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// After the controller's long period, jittered: events bring what matters, and this repairs an event
    /// that was missed.
    Rarely,
    /// After this time: the object has a deadline.
    After(Duration),
    /// Never: the object is gone.
    Forget,
}

/// Why a reconcile did not finish. Trying again helps, sooner or later.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Failed {
    /// What kind of failure it is.
    pub category: Category,
    /// What happened, in one line, without secrets.
    pub message: String,
    /// The failure behind it.
    #[source]
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// A fixed word for a failure: the label of a metric, and the reason of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Category {
    /// Somebody else wrote first. Not worth an event: the next look decides anew.
    Conflict,
    /// The API server refused the write: a quota, an admission rule, a missing right.
    Refused,
    /// The API server has no time for the write, or does not know this process for the moment.
    PutOff,
    /// The API server did not answer, or not in time. Whether the write was done is not known.
    Unanswered,
    /// The object cannot be acted on as it is, such as one that names a template that does not exist.
    Invalid,
    /// This process does not lead any more.
    NotLeading,
}

impl Category {
    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Conflict => "Conflict",
            Self::Refused => "Refused",
            Self::PutOff => "PutOff",
            Self::Unanswered => "Unanswered",
            Self::Invalid => "Invalid",
            Self::NotLeading => "NotLeading",
        }
    }
}

impl Failed {
    /// This process does not lead any more.
    pub fn not_leading() -> Self {
        let message = "this process does not lead any more".to_owned();
        Self { category: Category::NotLeading, message, source: None }
    }
}
