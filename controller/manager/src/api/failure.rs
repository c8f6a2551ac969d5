//! What a request that failed is answered with.
//!
//! Every failure is JSON, `{"code","message","request_id","error_code"?}`, and its HTTP status is the `code`.
//! A handler returns a [`Failure`]; the outermost layer writes the body, because it alone knows the request's
//! ID. So a failure of the router itself (404, 405) looks the same.

use std::time::Duration;

use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderName, HeaderValue, StatusCode};

use super::model::ErrorBody;
use crate::{Error, ErrorKind};

/// Whether the client may send the same request again by itself. E2B's SDK obeys it.
pub(super) const SHOULD_RETRY: HeaderName = HeaderName::from_static("should-retry");

/// A request that failed.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    status: StatusCode,
    message: String,
    code: Option<&'static str>,
    after: Option<Duration>,
    retry: Option<bool>,
    allow: Option<HeaderValue>,
}

impl Failure {
    pub(super) fn new(status: u16, message: impl Into<String>) -> Self {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Self { status, message: message.into(), code: None, after: None, retry: None, allow: None }
    }

    /// A field is wrong: its path, and what was expected.
    pub(super) fn field(path: &str, expected: &str) -> Self {
        Error::invalid(path, expected).into()
    }

    /// Nothing here does this.
    pub(super) fn unsupported(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::Unsupported, message).into()
    }

    /// When to try again.
    pub(super) fn after(mut self, wait: Duration) -> Self {
        self.after = Some(wait);
        self
    }

    /// Which methods there are.
    pub(super) fn allowing(mut self, methods: Option<HeaderValue>) -> Self {
        self.allow = methods;
        self
    }

    /// Whether the request may have been done although it failed: then it must not be sent again blindly.
    pub(super) fn final_answer(mut self) -> Self {
        self.retry = Some(false);
        self
    }

    pub(super) fn body(&self, request_id: &str) -> ErrorBody {
        ErrorBody {
            code: self.status.as_u16(),
            message: self.message.clone(),
            request_id: request_id.to_owned(),
            error_code: self.code.map(str::to_owned),
        }
    }

    /// The whole answer.
    pub(super) fn reply(&self, request_id: &str) -> Response {
        let body = serde_json::to_vec(&self.body(request_id)).unwrap_or_default();
        let mut reply = (self.status, body).into_response();
        let headers = reply.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(wait) = self.after {
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds.max(1)));
        }
        if let Some(retry) = self.retry {
            headers.insert(SHOULD_RETRY, HeaderValue::from_static(if retry { "true" } else { "false" }));
        }
        if let Some(methods) = &self.allow {
            headers.insert(http::header::ALLOW, methods.clone());
        }
        reply
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let (status, code) = match error.kind {
            ErrorKind::Invalid => (400, None),
            ErrorKind::NotFound => (404, None),
            ErrorKind::Conflict => (409, None),
            ErrorKind::QuotaExceeded => (403, Some("quota_exceeded")),
            ErrorKind::Forbidden => (403, None),
            ErrorKind::Unsupported => (501, Some("not_supported")),
            ErrorKind::Busy => (429, None),
            ErrorKind::Unavailable => (503, None),
            ErrorKind::Unknown => (503, Some("outcome_unknown")),
            ErrorKind::Timeout => (504, None),
            ErrorKind::Internal => (500, None),
        };
        let mut failure = Self::new(status, error.message);
        failure.code = code;
        failure.after = error.retry_after;
        // A timeout has used up the client's patience; the same again would be as long.
        if matches!(error.kind, ErrorKind::Unknown | ErrorKind::Timeout | ErrorKind::Internal) {
            failure.retry = Some(false);
        }
        failure
    }
}

impl IntoResponse for Failure {
    /// Not yet the whole answer: see the module's docs.
    fn into_response(self) -> Response {
        let mut reply = self.status.into_response();
        reply.extensions_mut().insert(self);
        reply
    }
}
