//! The paths of the port, their handlers, and which requests are admitted to them.
//!
//! | request | answer |
//! |---|---|
//! | `POST /refresh`, one message | 204 applied or ignored, 400 wrong, 413 over 1 MiB, 503 no room |
//! | `POST /refresh/batch`, one message a line | 200 and a line of JSON for each line, in order |
//! | `GET /activity?provider=NAME` | 200 and a line of JSON for each sandbox that was used ([`activity`]) |
//! | `GET /healthz` | 200 |
//! | `GET /readyz` | 200 once the first lists are in the table, until the process drains; else 503 |
//!
//! The lines of a batch are applied in order, and each is accepted or refused on its own. The answer has one
//! line of JSON for each: its number from 1, the status that it would have got alone, and what was wrong.
//! Empty lines are skipped and not answered. A batch over a limit is refused whole, and nothing of it is
//! applied.
//!
//! The order of admission is the defence. A sender is authenticated by the head of its request before a byte
//! of the body is kept, and takes one of the [`Permits`] only then.
//!
//! [`activity`]: super::activity

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use http::header::{CONNECTION, CONTENT_TYPE};
use http::{HeaderValue, StatusCode};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::{Body as _, Bytes};
use sandgate_routes::{AddressPolicy, RouteReader, RouteWriter};
use serde_json::json;
use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout, timeout_at};

use super::activity::{self, Asked};
use super::auth::{Auth, Denied};
use super::connections::Slot;
use super::settings::Pushed;
use super::status::{Counter, LogLimit, StatusWriter};
use super::timeouts::{Timeouts, Watchdog};

/// The largest message.
pub(crate) const MAX_MESSAGE: usize = 1 << 20;
/// The messages and batches that are read at a time. They bound the memory.
const MESSAGES_AT_ONCE: usize = 64;
const BATCHES_AT_ONCE: usize = 4;
/// The answers about activity that are made at a time.
const REPORTS_AT_ONCE: usize = 2;
/// How much of a refused body is read, so that its sender reads the answer and not a reset.
const DISCARD: usize = 4 << 20;

/// The largest batch, and the most messages in it.
pub(crate) const MAX_BATCH: usize = 8 << 20;
pub(crate) const MAX_LINES: usize = 10_000;
/// The messages that are applied before other tasks get a turn.
const TURN: usize = 64;

/// What every request shares.
pub(crate) struct App {
    pub(crate) auth: Auth,
    pub(crate) writer: RouteWriter,
    pub(crate) reader: RouteReader,
    pub(crate) pushed: Pushed,
    pub(crate) policy: AddressPolicy,
    pub(crate) timeouts: Timeouts,
    pub(crate) asked: Option<Arc<Asked>>,
    pub(crate) status: Arc<StatusWriter>,
    /// The table has changed and its subscribers have not been woken.
    pub(crate) changed: Notify,
    pub(crate) permits: Permits,
    pub(crate) denials: LogLimit,
    pub(crate) refusals: LogLimit,
    pub(crate) unroutable: LogLimit,
}

/// The connection that a request came on.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    /// It presented a good client certificate.
    pub(crate) certificate: bool,
    pub(crate) watchdog: Arc<Watchdog>,
    pub(crate) slot: Arc<Slot>,
}

impl Peer {
    /// Its sender is authenticated.
    pub(crate) fn prove(&self) {
        self.watchdog.prove();
        self.slot.prove();
    }
}

pub(crate) fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/refresh", post(refresh))
        .route("/refresh/batch", post(refresh_batch))
        .route("/activity", get(report))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .with_state(app)
}

async fn healthz(Extension(peer): Extension<Peer>) -> StatusCode {
    peer.slot.probe();
    StatusCode::OK
}

async fn readyz(State(app): State<Arc<App>>, Extension(peer): Extension<Peer>) -> StatusCode {
    peer.slot.probe();
    if app.reader.is_ready() && !app.status.is_draining() {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    }
}

async fn report(
    State(app): State<Arc<App>>,
    Extension(peer): Extension<Peer>,
    request: Request,
) -> Result<Response, Response> {
    let query = request.uri().query().unwrap_or_default().to_owned();
    let (_, _permit) = app.admit(&peer, request, &app.permits.reports, 0).await?;
    let answer = match &app.asked {
        Some(asked) => asked.report(&app.reader, &query).await,
        None => Err(activity::Unanswered::Uncounted),
    };
    match answer {
        Ok(lines) => {
            app.status.counters.reports.up();
            Ok(([(CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"))], lines).into_response())
        }
        Err(unanswered) => Err(explained(unanswered.status(), &unanswered.to_string())),
    }
}

async fn refresh(
    State(app): State<Arc<App>>,
    Extension(peer): Extension<Peer>,
    request: Request,
) -> Result<Response, Response> {
    let (body, _permit) = app.admit(&peer, request, &app.permits.messages, MAX_MESSAGE).await?;
    let (status, error) = app.apply(&peer, &[&*body]).pop().unwrap_or((StatusCode::NO_CONTENT, None));
    Ok(error.map_or_else(|| status.into_response(), |error| explained(status, &error)))
}

async fn refresh_batch(
    State(app): State<Arc<App>>,
    Extension(peer): Extension<Peer>,
    request: Request,
) -> Result<Response, Response> {
    let (body, _permit) = app.admit(&peer, request, &app.permits.batches, MAX_BATCH).await?;
    let mut lines =
        (1..).zip(body.split(|byte| *byte == b'\n')).filter(|(_, line)| !line.trim_ascii().is_empty());
    if lines.clone().count() > MAX_LINES {
        app.status.counters.too_large.up();
        return Err(explained(StatusCode::PAYLOAD_TOO_LARGE, &format!("more than {MAX_LINES} lines")));
    }
    app.status.counters.batches.up();
    let mut answer = String::new();
    loop {
        let (numbers, messages): (Vec<usize>, Vec<&[u8]>) = lines.by_ref().take(TURN).unzip();
        if messages.is_empty() {
            break;
        }
        for (line, (status, error)) in numbers.into_iter().zip(app.apply(&peer, &messages)) {
            let status = status.as_u16();
            // Writing to a string does not fail.
            let _ = match error {
                None => writeln!(answer, r#"{{"line":{line},"status":{status}}}"#),
                Some(error) => {
                    writeln!(answer, r#"{{"line":{line},"status":{status},"error":{}}}"#, json!(error))
                }
            };
        }
        tokio::task::yield_now().await;
    }
    Ok(([(CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"))], answer).into_response())
}

/// What bounds the bodies in memory.
pub(crate) struct Permits {
    messages: Semaphore,
    batches: Semaphore,
    reports: Semaphore,
}

impl Default for Permits {
    fn default() -> Self {
        Self {
            messages: Semaphore::new(MESSAGES_AT_ONCE),
            batches: Semaphore::new(BATCHES_AT_ONCE),
            reports: Semaphore::new(REPORTS_AT_ONCE),
        }
    }
}

/// A permit of a request, until it is dropped.
struct Permit<'a> {
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
    async fn admit<'a>(
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

fn explained(status: StatusCode, error: &str) -> Response {
    let body = json!({ "error": error }).to_string() + "\n";
    (status, [(CONTENT_TYPE, HeaderValue::from_static("application/json"))], body).into_response()
}
