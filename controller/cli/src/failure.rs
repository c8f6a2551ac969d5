use std::process::{ExitCode, ExitStatus};

use crate::admin::AdminError;
use crate::run::RunError;

/// Why a command did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The command line or a file named on it has to change: a retry does not help.
    #[error("{0}")]
    Usage(String),
    /// A retry may help.
    #[error("{0}")]
    Failed(String),
    /// Envoy ended by itself, with this exit code.
    #[error("Envoy ended before it was ready ({status}); its own messages above say why")]
    Envoy { code: u8, status: ExitStatus },
    #[error(transparent)]
    Admin(#[from] AdminError),
    #[error(transparent)]
    Run(#[from] RunError),
}

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Failure::Failed(message.into())
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Failure::Usage(message.into())
    }

    pub(crate) fn code(&self) -> ExitCode {
        ExitCode::from(match self {
            Failure::Usage(_) => 2,
            Failure::Envoy { code, .. } => *code,
            Failure::Failed(_) | Failure::Admin(_) | Failure::Run(_) => 1,
        })
    }
}

/// A [`Failure`] that a retry may cure, from a format string.
macro_rules! failed {
    ($($message:tt)*) => { $crate::failure::Failure::new(format!($($message)*)) };
}

/// A [`Failure`] of the command line or of a file, from a format string.
macro_rules! usage {
    ($($message:tt)*) => { $crate::failure::Failure::usage(format!($($message)*)) };
}

pub(crate) use {failed, usage};
