//! Why a request was not done, as its user is told.

use std::time::Duration;

/// Why a request was not done. The message is for the user: it names the field and what was expected, and
/// has no secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// What kind of failure it is.
    pub kind: ErrorKind,
    /// What to tell the user.
    pub message: String,
    /// When to try again, where that is known.
    pub retry_after: Option<Duration>,
}

/// The kinds of failure. Each has one HTTP status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// A field is wrong: 400.
    Invalid,
    /// The sandbox, template or snapshot does not exist, or is another's: 404.
    NotFound,
    /// It cannot be done in the present state, or somebody else does something else to it: 409.
    Conflict,
    /// A quota is used up: 403.
    QuotaExceeded,
    /// The caller may not do this: 403.
    Forbidden,
    /// This cluster has nothing that could do it, such as no executor of checkpoints: 501.
    Unsupported,
    /// Too much at a time: 429. Nothing was done.
    Busy,
    /// The cluster cannot be reached, or did not answer: 503. Nothing was done, and trying again may help.
    Unavailable,
    /// There was no answer that says whether it was done: 503, and it must not be sent again blindly.
    Unknown,
    /// It took too long: 504. Nothing is left of it.
    Timeout,
    /// A defect here: 500.
    Internal,
}

impl Error {
    /// An error of this kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), retry_after: None }
    }

    /// A field is wrong: what it is called, and what was expected.
    pub fn invalid(field: &str, expected: &str) -> Self {
        Self::new(ErrorKind::Invalid, format!("{field}: {expected}"))
    }

    /// No sandbox of this ID is the caller's. The same words for one that does not exist and another's.
    pub fn no_sandbox(id: &str) -> Self {
        Self::new(ErrorKind::NotFound, format!("sandbox {id} was not found"))
    }
}
