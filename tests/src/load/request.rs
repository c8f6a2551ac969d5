//! What is asked, and what counts as an answer.

use std::error::Error;
use std::fmt;

use http_body_util::Full;
use hyper::body::Bytes;

use crate::{Pattern, Reply, Request, Sandbox};

/// Of so many requests one takes a while, and one carries a body.
const ROUND: u64 = 8;
/// How long the slow ones take.
const LATE: &str = "/late?milliseconds=400";
const BODY: u64 = 20_000;

/// Why a client did not get what it asked for. The load never tries again: each is counted as a failure.
#[derive(Debug, thiserror::Error)]
pub(super) enum LoadError {
    #[error("there is no gateway")]
    NoGateway,
    #[error("no {0} in time")]
    Late(&'static str),
    #[error("{during}{}", Causes(&**.source))]
    Broken { during: String, source: Box<dyn Error + Send + Sync> },
    /// Another answer, message or echo than the one that was due.
    #[error("{0}")]
    Wrong(String),
}

impl LoadError {
    /// For `map_err`: what was under way, then the error with its causes.
    pub(super) fn during<E: Into<Box<dyn Error + Send + Sync>>>(during: &str) -> impl FnOnce(E) -> Self {
        move |error| LoadError::Broken { during: during.to_owned(), source: error.into() }
    }
}

/// A sandbox that is asked for.
pub(super) struct Target {
    name: String,
    id: String,
    port: String,
    body: Bytes,
}

impl Target {
    pub(super) fn new(sandbox: &Sandbox) -> Self {
        Self {
            name: sandbox.name().to_owned(),
            id: format!("default--{}", sandbox.name()),
            port: sandbox.port().to_string(),
            body: Pattern::chunks(BODY).flatten().collect(),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The headers that address it.
    pub(super) fn headers(&self) -> [(&'static str, &str); 2] {
        [("e2b-sandbox-id", &self.id), ("e2b-sandbox-port", &self.port)]
    }

    /// The request of this number.
    pub(super) fn request(&self, number: u64) -> Request {
        let request = match number % ROUND {
            0 => Request::get(LATE),
            4 => Request::post("/upload").body(Full::new(self.body.clone())),
            _ => Request::get("/"),
        };
        self.headers().into_iter().fold(request, |request, (name, value)| request.header(name, value))
    }

    /// Whether this answers it.
    pub(super) fn judge(&self, number: u64, reply: &Reply) -> Result<(), LoadError> {
        let body: serde_json::Value = serde_json::from_slice(&reply.body).unwrap_or_default();
        let whole = number % ROUND != 4 || (body["bytes"] == BODY && body["intact"] == true);
        if reply.status == 200 && body["sandbox"] == *self.name && whole {
            return Ok(());
        }
        let (name, status, body) = (&self.name, reply.status, &reply.body);
        Err(LoadError::Wrong(format!("{name} was asked, and the answer is {status} {body:?}")))
    }
}

/// An error with what caused it.
struct Causes<'a>(&'a (dyn Error + Send + Sync + 'static));

impl fmt::Display for Causes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}
