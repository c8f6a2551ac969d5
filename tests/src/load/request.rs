//! What is asked, and what counts as an answer.

use std::error::Error;

use http_body_util::Full;
use hyper::body::Bytes;

use crate::{Pattern, Reply, Request, Sandbox};

/// Of so many requests one takes a while, and one carries a body.
const ROUND: u64 = 8;
/// How long the slow ones take.
const LATE: &str = "/late?milliseconds=400";
const BODY: u64 = 20_000;

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
    pub(super) fn judge(&self, number: u64, reply: &Reply) -> Result<(), String> {
        let body: serde_json::Value = serde_json::from_slice(&reply.body).unwrap_or_default();
        let whole = number % ROUND != 4 || (body["bytes"] == BODY && body["intact"] == true);
        if reply.status == 200 && body["sandbox"] == *self.name && whole {
            return Ok(());
        }
        Err(format!("{} was asked, and the answer is {} {:?}", self.name, reply.status, reply.body))
    }
}

/// An error with what caused it.
pub(super) fn why(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
