//! Answers: JSON, and for what went wrong OpenSandbox's body with the text of the status.

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{ALLOW, CONNECTION, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use hyper::{Response, StatusCode};
use sandgate_executor_wire::ErrorBody;
use serde::Serialize;

use crate::manager::Refused;

/// What is sent.
pub(crate) type Answered = Response<Full<Bytes>>;

/// A body of JSON.
pub(crate) fn json(status: StatusCode, body: &impl Serialize) -> Answered {
    // Our own types have no keys that are not text, which is all that can fail.
    let text = serde_json::to_vec(body).unwrap_or_default();
    let mut answer = Response::new(Full::new(Bytes::from(text)));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}

/// Nothing to say but that it is done.
pub(crate) fn empty() -> Answered {
    let mut answer = Response::new(Full::default());
    *answer.status_mut() = StatusCode::NO_CONTENT;
    answer
}

/// An error.
pub(crate) fn error(status: StatusCode, message: impl Into<String>) -> Answered {
    json(status, &ErrorBody { code: text(status).to_owned(), message: message.into() })
}

/// As Go's `http.StatusText` has it.
fn text(status: StatusCode) -> &'static str {
    match status {
        StatusCode::PAYLOAD_TOO_LARGE => "Request Entity Too Large",
        _ => status.canonical_reason().unwrap_or("Unknown"),
    }
}

/// A path that is there, with another method.
pub(crate) fn method_not_allowed(allowed: &'static str) -> Answered {
    let mut answer = error(StatusCode::METHOD_NOT_ALLOWED, format!("this path has {allowed}"));
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    answer
}

/// No token, or a wrong one.
pub(crate) fn unauthorized() -> Answered {
    let mut answer = error(StatusCode::UNAUTHORIZED, "a bearer token is required");
    let challenge = HeaderValue::from_static("Bearer realm=\"task-executor\"");
    answer.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    answer
}

/// A body that was not read to its end: the connection cannot be used again.
pub(crate) fn and_close(mut answer: Answered) -> Answered {
    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    answer
}

/// A command that was not carried out. `what` is what it was to do, as OpenSandbox words it.
pub(crate) fn refused(what: &str, why: &Refused) -> Answered {
    let status = match why {
        Refused::Invalid(_) => StatusCode::BAD_REQUEST,
        Refused::Unsupported(_) => StatusCode::NOT_IMPLEMENTED,
        Refused::Exists(_)
        | Refused::Busy
        | Refused::Full
        | Refused::Start(_)
        | Refused::Disk(_)
        | Refused::Several(_) => StatusCode::INTERNAL_SERVER_ERROR,
    };
    tracing::warn!("{what}: {why}");
    error(status, format!("{what}: {why}"))
}
