//! What can go wrong in a run, in words for the person at the terminal.

use std::fmt::Display;
use std::io;

/// What a step of a run gives.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

/// Why a run cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The system refused.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: String,
        /// What it said.
        source: io::Error,
    },
    /// A process of the run ended or did not get ready.
    #[error("{name} {problem}; the end of its log:\n{log}")]
    Process {
        /// Which one.
        name: String,
        /// What is wrong with it.
        problem: String,
        /// The end of its log.
        log: String,
    },
    /// What was asked for cannot be done.
    #[error("{0}")]
    Asked(String),
    /// The person at the terminal had enough.
    #[error("interrupted: what was measured is kept, the same command goes on from there")]
    Interrupted,
}

/// Says what was tried when the system refused it.
pub trait Doing<T> {
    /// Names what was tried.
    ///
    /// # Errors
    /// When it was refused.
    fn doing(self, what: impl Display) -> Result<T>;
}

impl<T, E: Into<io::Error>> Doing<T> for Result<T, E> {
    fn doing(self, what: impl Display) -> Result<T> {
        self.map_err(|error| Failure::System { what: what.to_string(), source: error.into() })
    }
}
