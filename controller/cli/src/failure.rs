use std::fmt;
use std::process::ExitCode;

use crate::admin::AdminError;
use crate::run::RenderError;

/// Why a command did not do what it was asked, and the exit code that says so: 2 where the command line or a
/// file named on it has to change, else 1.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    message: String,
}

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Failure { code: 1, message: message.into() }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Failure { code: 2, message: message.into() }
    }

    pub(crate) fn with_code(code: u8, message: impl Into<String>) -> Self {
        Failure { code, message: message.into() }
    }

    pub(crate) fn code(&self) -> ExitCode {
        ExitCode::from(self.code)
    }
}

impl From<AdminError> for Failure {
    fn from(error: AdminError) -> Self {
        Failure::new(error.to_string())
    }
}

impl From<RenderError> for Failure {
    fn from(error: RenderError) -> Self {
        Failure::new(error.to_string())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
