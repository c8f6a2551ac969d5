//! Why a request to the API server came to nothing. No text here contains a credential: errors of the client are
//! quoted only where they cannot quote a config or the output of a credential plugin.

use std::error::Error as StdError;
use std::time::Duration;

use sandgate_follow::{AccessError, chain};

/// The longest message of a server that is passed on.
const MAX_MESSAGE: usize = 600;

/// Why a list or a watch ended early. Every one is tried again; what differs is when, and from where.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// No client could be made: config, certificates or credentials.
    #[error("{0}")]
    Access(String),
    /// The API server could not be reached, or the connection broke.
    #[error("{0}")]
    Connection(String),
    /// Nothing arrived for as long as is allowed.
    #[error("the API server was silent for {} s", .0.as_secs_f32())]
    Silent(Duration),
    /// The response ended within a line.
    #[error("the response was cut off")]
    Cut,
    /// The response ended before the list was complete.
    #[error("the response ended before the list was complete")]
    Incomplete,
    /// What arrived is not what an API server sends.
    #[error("the response is garbled: {0}")]
    Garbled(String),
    /// The API server refused.
    #[error("{code} {message}")]
    Refused { code: u16, message: String, retry_after: Option<Duration> },
    /// The version to go on from is too old (or the token of the next page is): list again.
    #[error("410 {0}")]
    Gone(String),
    /// An event was too large to read: list again.
    #[error("an event has more than {} MiB", .0 >> 20)]
    TooLarge(usize),
    /// The API server's versions went back: list again.
    #[error("the API server is at version {found}, and was at {known} before")]
    Rewound { found: String, known: String },
}

impl Failure {
    /// The error of a body or of a request, with what caused it: the outermost text alone says next to nothing.
    pub(super) fn broken(error: &(dyn StdError + 'static)) -> Self {
        match chain(error) {
            Ok(text) => Failure::Connection(shorten(&text)),
            Err(credentials) => Failure::Access(credentials),
        }
    }

    pub(super) fn refused(code: u16, message: &str, retry_after: Option<Duration>) -> Self {
        let message = shorten(message);
        match code {
            410 => Failure::Gone(message),
            _ => Failure::Refused { code, message, retry_after },
        }
    }

    pub(super) fn code(&self) -> Option<u16> {
        match self {
            Failure::Refused { code, .. } => Some(*code),
            Failure::Gone(_) => Some(410),
            _ => None,
        }
    }

    pub(super) fn retry_after(&self) -> Option<Duration> {
        match self {
            Failure::Refused { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Whether fresh credentials, or a fresh look at the config, may be the cure.
    pub(super) fn doubts_the_client(&self) -> bool {
        matches!(self, Failure::Access(_) | Failure::Connection(_) | Failure::Refused { code: 401, .. })
    }

    /// Whether nothing but a new list helps.
    pub(super) fn needs_a_list(&self) -> bool {
        match self {
            Failure::Gone(_) | Failure::TooLarge(_) | Failure::Rewound { .. } => true,
            // The resource is gone and with it every object; or the version is of a future that the server lost.
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

/// A text from elsewhere, fit for a log line.
pub(super) fn shorten(text: &str) -> String {
    let mut line: String =
        text.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_MESSAGE).collect();
    if text.trim().chars().nth(MAX_MESSAGE).is_some() {
        line.push('…');
    }
    line
}
