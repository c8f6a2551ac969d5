//! Why a request to the API server came to nothing. No text here contains a credential: errors of the client are
//! quoted only where they cannot quote a config or the output of a credential plugin.

use std::error::Error as StdError;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use kube::client::AuthError;
use kube::config::KubeconfigError;

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
        let mut text = String::new();
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(error) = error.downcast_ref::<AuthError>() {
                return Failure::Access(auth(error));
            }
            let said = error.to_string();
            if !text.contains(&said) {
                let _ = write!(text, "{}{said}", if text.is_empty() { "" } else { ": " });
            }
            next = error.source();
        }
        Failure::Connection(shorten(&text))
    }

    pub(super) fn kubeconfig(path: Option<&PathBuf>, error: &KubeconfigError) -> Self {
        let what = match error {
            // Its text shows the lines around the mistake, and one of them may be a token.
            KubeconfigError::Parse(_) => "it is not a YAML file of the expected shape".to_owned(),
            other => other.to_string(),
        };
        Failure::Access(match path {
            Some(path) => format!("kubeconfig {}: {what}", path.display()),
            None => format!("kubeconfig: {what}"),
        })
    }

    pub(super) fn client(error: &kube::Error) -> Self {
        match error {
            kube::Error::Auth(error) => Failure::Access(auth(error)),
            other => match Self::broken(other) {
                Failure::Connection(text) => Failure::Access(text),
                failure => failure,
            },
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

fn auth(error: &AuthError) -> String {
    match error {
        AuthError::ReadTokenFile(error, path) => format!("token file {}: {error}", path.display()),
        AuthError::AuthExecStart(error) => format!("the credential plugin cannot be started: {error}"),
        // Not its output: that is where a plugin writes the token.
        AuthError::AuthExecRun { out, .. } => format!("the credential plugin failed: {}", out.status),
        AuthError::InvalidBearerToken(_) => {
            "the token has characters that no token has (a line break?)".to_owned()
        }
        AuthError::MissingCommand => "the kubeconfig's exec section names no command".to_owned(),
        _ => "the credentials in the kubeconfig cannot be used".to_owned(),
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
