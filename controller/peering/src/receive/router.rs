//! The paths of the port, and their handlers.
//!
//! | request | answer |
//! |---|---|
//! | `POST /refresh`, one message | 204 applied or ignored, 400 wrong, 413 over 1 MiB, 503 no room |
//! | `POST /refresh/batch`, one message a line | 200 and a line of JSON for each line, in order |
//! | `GET /healthz` | 200 |
//! | `GET /readyz` | 200 once the first lists are in the table, until the process drains; else 503 |
//!
//! The lines of a batch are applied in order, and each is accepted or refused on its own. The answer has one
//! line of JSON for each: its number from 1, the status that it would have got alone, and what was wrong.
//! Empty lines are skipped and not answered. A batch over a limit is refused whole, and nothing of it is
//! applied.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Extension, Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};
use sandgate_routes::{AddressPolicy, RouteReader, RouteWriter};
use serde_json::json;
use tokio::sync::Notify;

use super::admission::{MAX_MESSAGE, Permits, explained};
use super::auth::Auth;
use super::connections::Slot;
use super::settings::Pushed;
use super::status::{LogLimit, StatusWriter};
use super::timeouts::{Timeouts, Watchdog};

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
