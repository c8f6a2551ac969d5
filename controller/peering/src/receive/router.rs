//! The paths of the port, and what they answer.
//!
//! | request | answer |
//! |---|---|
//! | `POST /refresh`, one message | 204 applied or ignored, 400 wrong, 413 over 1 MiB, 503 no room |
//! | `POST /refresh/batch`, one message a line | 200 and a line of JSON for each line, in order |
//! | `GET /healthz` | 200 |
//! | `GET /readyz` | 200 once the first lists are in the table, until the process drains; else 503 |

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Extension, Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};
use sandgate_routes::{AddressPolicy, RouteReader, RouteWriter};
use tokio::sync::Notify;

use super::admission::{MAX_MESSAGE, Permits, explained};
use super::auth::Auth;
use super::batch;
use super::connections::Slot;
use super::settings::Pushed;
use super::status::{Board, LogLimit};
use super::timeouts::{Timeouts, Watchdog};

/// What every request shares.
pub(crate) struct App {
    pub(crate) auth: Auth,
    pub(crate) writer: RouteWriter,
    pub(crate) reader: RouteReader,
    pub(crate) pushed: Pushed,
    pub(crate) policy: AddressPolicy,
    pub(crate) timeouts: Timeouts,
    pub(crate) board: Arc<Board>,
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
    if app.reader.is_ready() && !app.board.is_draining() {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    }
}

async fn refresh(
    State(app): State<Arc<App>>,
    Extension(peer): Extension<Peer>,
    request: Request,
) -> Response {
    let (body, _permit) = match app.admit(&peer, request, &app.permits.messages, MAX_MESSAGE).await {
        Ok(admitted) => admitted,
        Err(refused) => return refused,
    };
    let (status, error) = app.apply(&peer, &[&*body]).pop().unwrap_or((StatusCode::NO_CONTENT, None));
    error.map_or_else(|| status.into_response(), |error| explained(status, &error))
}

async fn refresh_batch(
    State(app): State<Arc<App>>,
    Extension(peer): Extension<Peer>,
    request: Request,
) -> Response {
    let (body, _permit) = match app.admit(&peer, request, &app.permits.batches, batch::MAX_BYTES).await {
        Ok(admitted) => admitted,
        Err(refused) => return refused,
    };
    if batch::lines(&body).count() > batch::MAX_LINES {
        app.board.counters.too_large.up();
        return explained(StatusCode::PAYLOAD_TOO_LARGE, &format!("more than {} lines", batch::MAX_LINES));
    }
    app.board.counters.batches.up();
    let answer = batch::apply(&body, |lines| app.apply(&peer, lines)).await;
    ([(CONTENT_TYPE, HeaderValue::from_static(batch::MEDIA_TYPE))], answer).into_response()
}
