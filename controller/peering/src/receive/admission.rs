//! Whether a request may push: authentication, room, and the size of its body.
//!
//! The order is the defence. A sender is authenticated by the head of its request before a byte of the body
//! is kept, and takes one of the [`Permits`] only then.

use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use http::header::{CONNECTION, CONTENT_TYPE};
use http::{HeaderValue, StatusCode};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::{Body as _, Bytes};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout, timeout_at};

use super::auth::Denied;
use super::router::{App, Peer};
use super::status::Counter;

/// The largest message.
pub(crate) const MAX_MESSAGE: usize = 1 << 20;
/// The messages and batches that are read at a time. They bound the memory.
const MESSAGES_AT_ONCE: usize = 64;
const BATCHES_AT_ONCE: usize = 4;
/// How much of a refused body is read, so that its sender reads the answer and not a reset.
const DISCARD: usize = 4 << 20;

/// What bounds the bodies in memory.
pub(crate) struct Permits {
    pub(super) messages: Semaphore,
    pub(super) batches: Semaphore,
}

impl Default for Permits {
    fn default() -> Self {
        Self { messages: Semaphore::new(MESSAGES_AT_ONCE), batches: Semaphore::new(BATCHES_AT_ONCE) }
    }
}

/// A permit of a request, until it is dropped.
pub(super) struct Permit<'a> {
    _permit: SemaphorePermit<'a>,
    under_way: &'a Counter,
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.under_way.down();
    }
}

impl App {
    /// Authenticates the sender and reads the whole body. The permit is kept until the answer is made.
    pub(super) async fn admit<'a>(
        &'a self,
        peer: &Peer,
        request: Request,
        permits: &'a Semaphore,
        max: usize,
    ) -> Result<(Bytes, Permit<'a>), Response> {
        let (head, body) = request.into_parts();
        let counters = &self.status.counters;
        let admitted = match self.auth.head(&head, peer.certificate, peer.address.ip()).await {
            Ok(admitted) => admitted,
            Err(denied) => {
                discard(body, Instant::now() + self.timeouts.body).await;
                return Err(self.deny(peer, denied));
            }
        };
        // Only now, so that a sender that is not authenticated takes none.
        let Ok(Ok(acquired)) = timeout(self.timeouts.body, permits.acquire()).await else {
            counters.unavailable.up();
            return Err(closing(StatusCode::SERVICE_UNAVAILABLE.into_response()));
        };
        counters.under_way.up();
        let permit = Permit { _permit: acquired, under_way: &counters.under_way };
        let deadline = Instant::now() + self.timeouts.body;
        let body = self.read(body, max, deadline).await?;
        self.auth.body(&admitted, &body).map_err(|denied| self.deny(peer, denied))?;
        peer.prove();
        Ok((body, permit))
    }

    async fn read(&self, mut body: Body, max: usize, deadline: Instant) -> Result<Bytes, Response> {
        // A body that is announced as too large is not kept at all.
        if body.size_hint().lower() <= max as u64 {
            match timeout_at(deadline, Limited::new(&mut body, max).collect()).await {
                Ok(Ok(whole)) => return Ok(whole.to_bytes()),
                Ok(Err(error)) if error.is::<LengthLimitError>() => {}
                Ok(Err(_)) => return Err(StatusCode::BAD_REQUEST.into_response()),
                Err(_) => {
                    self.status.counters.slow.up();
                    return Err(closing(StatusCode::REQUEST_TIMEOUT.into_response()));
                }
            }
        }
        self.status.counters.too_large.up();
        discard(body, deadline).await;
        Err(closing(explained(StatusCode::PAYLOAD_TOO_LARGE, &format!("a body has at most {max} bytes"))))
    }

    fn deny(&self, peer: &Peer, denied: Denied) -> Response {
        match denied {
            Denied::Unauthorized => {
                self.status.counters.unauthorized.up();
                self.denials.log(|more| {
                    tracing::warn!(more, "refresh: {} pushed with wrong credentials", peer.address);
                });
                StatusCode::UNAUTHORIZED.into_response()
            }
            Denied::Unchecked => {
                self.status.counters.unavailable.up();
                StatusCode::SERVICE_UNAVAILABLE.into_response()
            }
        }
    }
}

/// Reads a body and keeps nothing of it.
async fn discard(mut body: Body, deadline: Instant) {
    let mut left = DISCARD;
    while let Ok(Some(Ok(frame))) = timeout_at(deadline, body.frame()).await {
        let length = frame.data_ref().map_or(0, Bytes::len);
        match left.checked_sub(length) {
            Some(less) => left = less,
            None => return,
        }
    }
}

/// An answer after which the connection closes, because part of the request may still be on its way.
pub(crate) fn closing(mut response: Response) -> Response {
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

pub(super) fn explained(status: StatusCode, error: &str) -> Response {
    let body = serde_json::json!({ "error": error }).to_string() + "\n";
    (status, [(CONTENT_TYPE, HeaderValue::from_static("application/json"))], body).into_response()
}
