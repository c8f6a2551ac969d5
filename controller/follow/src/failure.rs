//! Why a request to the API server failed.

use std::error::Error as StdError;
use std::time::Duration;

use sandgate_routes::Version;

use crate::access::{AccessError, causes, wrong_credentials};

/// The longest message, in characters, that is passed on.
const MAX_MESSAGE: usize = 600;

/// Why a request, a list or a watch failed. No text contains a credential.
///
/// A retry can help with every variant, and the engine retries all of them. What differs is where it resumes:
/// see [`needs_a_list`](Self::needs_a_list).
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// No client could be made: config, certificates or credentials. A retry reads them again.
    #[error("{0}")]
    Access(String),
    /// The API server could not be reached, or the connection broke.
    #[error("{0}")]
    Connection(String),
    /// Nothing arrived for as long as [`Timing`](crate::Timing) allows.
    #[error("the API server was silent for {} s", .0.as_secs_f32())]
    Silent(Duration),
    /// The response ended within a line.
    #[error("the response was cut off")]
    Cut,
    /// The response ended before the list was complete.
    #[error("the response ended before the list was complete")]
    Incomplete,
    /// The response is not what an API server sends.
    #[error("the response is garbled: {0}")]
    Garbled(String),
    /// The API server answered with an error.
    #[error("{code} {message}")]
    Refused {
        /// The HTTP status.
        code: u16,
        /// The server's message.
        message: String,
        /// How long the server asks to wait.
        retry_after: Option<Duration>,
    },
    /// The version to resume from, or the token of the next page, is too old. Needs a new list.
    #[error("410 {0}")]
    Gone(String),
    /// An event, or a page of one object, is larger than this many bytes. Needs a new list.
    #[error("an event has more than {} MiB", .0 >> 20)]
    TooLarge(usize),
    /// The versions of the API server went back. Needs a new list.
    #[error("the API server is at version {found}, and was at {known} before")]
    Rewound {
        /// The version found.
        found: Version,
        /// The newest version seen before.
        known: Version,
    },
}

impl Failure {
    /// The error of a body or of a request.
    pub fn broken(error: &(dyn StdError + 'static)) -> Self {
        match wrong_credentials(error) {
            Some(text) => Failure::Access(text),
            None => Failure::Connection(shorten(&causes(error))),
        }
    }

    pub(crate) fn refused(code: u16, message: &str, retry_after: Option<Duration>) -> Self {
        let message = shorten(message);
        match code {
            410 => Failure::Gone(message),
            _ => Failure::Refused { code, message, retry_after },
        }
    }

    /// The HTTP status, where the server answered.
    pub fn code(&self) -> Option<u16> {
        match self {
            Failure::Refused { code, .. } => Some(*code),
            Failure::Gone(_) => Some(410),
            _ => None,
        }
    }

    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Failure::Refused { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Whether reading config and credentials again may help.
    pub(crate) fn may_need_a_new_client(&self) -> bool {
        matches!(self, Failure::Access(_) | Failure::Connection(_) | Failure::Refused { code: 401, .. })
    }

    /// Whether only a new list can help; otherwise the watch is resumed.
    pub fn needs_a_list(&self) -> bool {
        match self {
            Failure::Gone(_) | Failure::TooLarge(_) | Failure::Rewound { .. } => true,
            // The resource is gone, and every object with it. Or the server has lost the time of the version.
            Failure::Refused { code, message, .. } => {
                *code == 404 || *code == 400 || message.contains("Too large resource version")
            }
            _ => false,
        }
    }
}

impl From<AccessError> for Failure {
    fn from(error: AccessError) -> Self {
        Failure::Access(error.to_string())
    }
}

/// A foreign text as one line of bounded length, without control characters.
pub fn shorten(text: &str) -> String {
    let mut line: String =
        text.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_MESSAGE).collect();
    if text.trim().chars().nth(MAX_MESSAGE).is_some() {
        line.push('…');
    }
    line
}

/// What is wrong with a JSON text, without quoting it.
pub fn describe_json_error(error: &serde_json::Error) -> &'static str {
    match error.classify() {
        serde_json::error::Category::Eof => "the JSON text ends early",
        serde_json::error::Category::Syntax => "not a JSON text",
        _ => "not of the expected shape",
    }
}
