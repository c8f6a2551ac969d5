//! What happens around every request: its ID, its line in the log, the body of a failure, the end of a panic.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use axum::extract::{MatchedPath, Request};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use futures_util::FutureExt as _;
use http::header::{ALLOW, CACHE_CONTROL};
use http::{HeaderName, HeaderValue};
use tokio::time::Instant;

use super::auth::KeyId;
use super::failure::Failure;
use crate::{Secrets as _, SystemSecrets};

/// The header of a request's ID.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// An ID that is longer is not taken.
const LONGEST: usize = 128;

/// A request's ID: the caller's, if it is one, or a new one.
#[derive(Clone, Debug)]
pub(super) struct RequestId(pub(super) HeaderValue);

impl RequestId {
    fn of(request: &Request) -> Self {
        let given = request.headers().get(&REQUEST_ID).filter(|value| is_id(value.as_bytes()));
        Self(given.cloned().unwrap_or_else(|| {
            let made = SystemSecrets::new().token().ok();
            made.and_then(|text| HeaderValue::from_str(&text).ok())
                .unwrap_or(HeaderValue::from_static("unknown"))
        }))
    }

    pub(super) fn as_str(&self) -> &str {
        self.0.to_str().unwrap_or_default()
    }
}

fn is_id(bytes: &[u8]) -> bool {
    let fine = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(byte);
    (1..=LONGEST).contains(&bytes.len()) && bytes.iter().all(fine)
}

/// The outermost layer.
pub(super) async fn around(mut request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let id = RequestId::of(&request);
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    request.extensions_mut().insert(id.clone());
    let mut reply = match AssertUnwindSafe(next.run(request)).catch_unwind().await {
        Ok(reply) => reply,
        Err(_) => Failure::new(500, "Internal Server Error").final_answer().into_response(),
    };
    let key = reply.extensions().get::<KeyId>().cloned();
    if let Some(failure) = reply.extensions_mut().remove::<Failure>() {
        let allow = reply.headers().get(ALLOW).cloned();
        reply = failure.allowing(allow).reply(id.as_str());
    }
    // An answer may have a token in it.
    reply.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    reply.headers_mut().insert(REQUEST_ID, id.0.clone());
    tracing::info!(
        %method,
        // Not the path: it has IDs in it, and nobody could count the lines by it.
        route = route.as_ref().map_or("none", MatchedPath::as_str),
        status = reply.status().as_u16(),
        request_id = id.as_str(),
        key = key.as_ref().map_or("none", |key| &key.0),
        ms = milliseconds(begun.elapsed()),
        "request"
    );
    reply
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
