use std::fmt;
use std::process::ExitCode;

use crate::admin::AdminError;
use crate::run::{DemoError, InstallError, RenderError, RestartError, StartError, VersionError};

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

/// Errors that no change of the command line cures: exit code 1.
macro_rules! failures {
    ($($error:ty),*) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Failure::new(error.to_string())
            }
        })*
    };
}

failures!(AdminError, DemoError, InstallError, RenderError, RestartError, StartError, VersionError);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
