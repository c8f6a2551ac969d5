//! The way to the task executors of pods.

use futures_util::future::BoxFuture;
use sandgate_executor_wire::Task;

/// Asks and tells the task executor of a pod. The pods' network is one way; the simulation has another.
///
/// An implementation bounds the time that an answer may take, and its size. A call may be cancelled at its
/// await: as with an error, nobody knows then whether it was done.
pub trait Executors: Send + Sync + 'static {
    /// The tasks that the executor of the pod at `ip` has.
    fn tasks<'a>(&'a self, ip: &'a str) -> BoxFuture<'a, Result<Vec<Task>, ExecutorError>>;

    /// Makes these the tasks of the executor: others are stopped and dropped, new ones are started, and those
    /// that it has are left alone. The answer lists all that it has then, which those that it is about to
    /// stop may be among.
    fn set<'a>(&'a self, ip: &'a str, tasks: &'a [Task]) -> BoxFuture<'a, Result<Vec<Task>, ExecutorError>>;
}

/// Why there is no list of tasks. Trying again may help with each of them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExecutorError {
    /// Nobody listens, the connection broke, or there was no answer in time. Whether a change was made is
    /// not known.
    #[error("the task executor does not answer: {0}")]
    Unreachable(String),
    /// It wants another token, or one at all.
    #[error(
        "the task executor refuses the operator's token (401): --task-executor-token-file must name a file \
         with the token that the executor has"
    )]
    Unauthorized,
    /// It refused.
    #[error("the task executor answers {status}: {message}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// What it says, shortened.
        message: String,
    },
    /// It answered something that is no list of tasks. Whether a change was made is not known.
    #[error("the answer of the task executor is no list of tasks: {0}")]
    Malformed(String),
    /// The token cannot be read, so nothing was sent.
    #[error("{0}")]
    NoToken(String),
}

impl ExecutorError {
    /// A fixed word: the label of a metric, and the reason of an event.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Unreachable(_) => "Unreachable",
            Self::Unauthorized => "Unauthorized",
            Self::Refused { .. } => "Refused",
            Self::Malformed(_) => "Malformed",
            Self::NoToken(_) => "NoToken",
        }
    }
}
