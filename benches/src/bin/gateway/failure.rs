//! What can go wrong in a run, in words for the person at the terminal.

use std::fmt::Display;
use std::io;

pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The system refused.
    #[error("{what}: {source}")]
    System { what: String, source: io::Error },
    /// A process of the run ended or did not get ready.
    #[error("{name} {problem}; the end of its log:\n{log}")]
    Process { name: String, problem: String, log: String },
    /// What was asked for cannot be done.
    #[error("{0}")]
    Asked(String),
    /// The person at the terminal had enough.
    #[error("interrupted: what was measured is kept, the same command goes on from there")]
    Interrupted,
}

/// Says what was tried when the system refused it.
pub(crate) trait Doing<T> {
    fn doing(self, what: impl Display) -> Result<T>;
}

impl<T, E: Into<io::Error>> Doing<T> for Result<T, E> {
    fn doing(self, what: impl Display) -> Result<T> {
        self.map_err(|error| Failure::System { what: what.to_string(), source: error.into() })
    }
}
