//! What the port answers.
//!
//! | request | answer |
//! |---|---|
//! | `POST /refresh`, one message | 204 applied or ignored, 400 wrong, 413 over 1 MiB, 503 no room |
//! | `POST /refresh/batch`, one message a line | 200 and a line of JSON for each line, in order |
//! | `GET /healthz` | 200 |
//! | `GET /readyz` | 200 once the first lists are in the table, until the process is about to end; else 503 |
//!
//! What is wrong with a message may be all but its object and version: then no route of an older version serves on, as
//! with a watched object that cannot be read. Where only the address is none that a sandbox may have, the object is known
//! and not routed to, and that is no error.
//!
//! Another method gets 405. A request with both `Content-Length` and `Transfer-Encoding`, or with a length that
//! cannot be read, gets 400, whatever it asks for. The first two need credentials: wrong ones get 401 and nothing else. Where they cannot be
//! checked, or every place is taken, the answer is 503; a body that does not arrive in time gets 408. A process that is about
//! to end answers 503 in the place of 204, so that the sender tells the next one (see [`RefreshDrain`](super::RefreshDrain)).

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use http::header::{CONNECTION, CONTENT_TYPE};
use http::{HeaderValue, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Bytes};
use sandgate_routes::{Invalid, Observation, Outcome, RouteReader, RouteWriter};
use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout, timeout_at};

use super::auth::{Auth, Denied};
use super::batch;
use super::connections::Seat;
use super::guard::{Patience, Phase};
use super::meaning::Meaning;
use super::settings::Pushed;
use super::status::{Board, Counter, Rarely};
use crate::message::RouteMessage;
use sandgate_routes::AddressPolicy;

/// The largest message.
pub(crate) const MAX_MESSAGE: usize = 1 << 20;
/// Messages and batches read at a time: what bounds the memory.
const MESSAGES_AT_ONCE: usize = 64;
const BATCHES_AT_ONCE: usize = 4;
/// How much of a body nobody wants is read, so that its sender reads the answer instead of an error.
const DISCARD: usize = 4 << 20;

/// What was pushed to a process that is about to end has to be pushed to the next one too.
const DRAINING: &str =
    "applied here, but this gateway is about to end: push again to the one that takes its place";

/// The answer to one message, and what was wrong with it.
pub(crate) type Answer = (StatusCode, Option<String>);

/// What every request shares.
pub(crate) struct App {
    pub(crate) auth: Auth,
    pub(crate) writer: RouteWriter,
    pub(crate) reader: RouteReader,
    pub(crate) pushed: Pushed,
    pub(crate) policy: AddressPolicy,
    pub(crate) patience: Patience,
    pub(crate) board: Arc<Board>,
    /// The table has changed and its subscribers sleep.
    pub(crate) changed: Notify,
    pub(crate) places: Places,
    pub(crate) strangers: Rarely,
    pub(crate) mistakes: Rarely,
    pub(crate) outsiders: Rarely,
}

pub(crate) struct Places {
    messages: Semaphore,
    batches: Semaphore,
}

impl Default for Places {
    fn default() -> Self {
        Self { messages: Semaphore::new(MESSAGES_AT_ONCE), batches: Semaphore::new(BATCHES_AT_ONCE) }
    }
}

/// A place that is taken, until it is dropped.
struct Place<'a> {
    _permit: SemaphorePermit<'a>,
    under_way: &'a Counter,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.under_way.down();
    }
}

/// The connection a request came on.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    /// It presented a good client certificate.
    pub(crate) certificate: bool,
    pub(crate) phase: Arc<Phase>,
    pub(crate) seat: Arc<Seat>,
}

impl Peer {
    /// Its sender has proven who it is.
    pub(crate) fn trust(&self) {
        self.phase.trust();
        self.seat.befriend();
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
    peer.seat.probe();
    StatusCode::OK
}

async fn readyz(State(app): State<Arc<App>>, Extension(peer): Extension<Peer>) -> StatusCode {
    peer.seat.probe();
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
    let (body, _place) = match app.admit(&peer, request, &app.places.messages, MAX_MESSAGE).await {
        Ok(admitted) => admitted,
        Err(refused) => return refused,
    };
    let (status, error) = app.take(&peer, &[&*body]).pop().unwrap_or((StatusCode::NO_CONTENT, None));
    error.map_or_else(|| status.into_response(), |error| explained(status, &error))
}

async fn refresh_batch(
    State(app): State<Arc<App>>,
    Extension(peer): Extension<Peer>,
    request: Request,
) -> Response {
    let (body, _place) = match app.admit(&peer, request, &app.places.batches, batch::MAX_BYTES).await {
        Ok(admitted) => admitted,
        Err(refused) => return refused,
    };
    if batch::lines(&body).count() > batch::MAX_LINES {
        app.board.counters.too_large.up();
        return explained(StatusCode::PAYLOAD_TOO_LARGE, &format!("more than {} lines", batch::MAX_LINES));
    }
    app.board.counters.batches.up();
    let answer = batch::take(&body, |lines| app.take(&peer, lines)).await;
    ([(CONTENT_TYPE, HeaderValue::from_static(batch::MEDIA_TYPE))], answer).into_response()
}

impl App {
    /// Proves who sends and reads the whole body. The place is kept until the answer is made.
    async fn admit<'a>(
        &'a self,
        peer: &Peer,
        request: Request,
        places: &'a Semaphore,
        max: usize,
    ) -> Result<(Bytes, Place<'a>), Response> {
        let (head, body) = request.into_parts();
        let counters = &self.board.counters;
        let admitted = match self.auth.head(&head, peer.certificate, peer.address.ip()).await {
            Ok(admitted) => admitted,
            Err(denied) => {
                discard(body, Instant::now() + self.patience.body).await;
                return Err(self.deny(peer, denied));
            }
        };
        // Only now, so that strangers take no places.
        let Ok(Ok(permit)) = timeout(self.patience.body, places.acquire()).await else {
            counters.unavailable.up();
            return Err(last(StatusCode::SERVICE_UNAVAILABLE.into_response()));
        };
        counters.under_way.up();
        let place = Place { _permit: permit, under_way: &counters.under_way };
        let deadline = Instant::now() + self.patience.body;
        let body = match self.read(body, max, deadline).await {
            Ok(body) => body,
            Err(response) => return Err(response),
        };
        self.auth.body(&admitted, &body).map_err(|denied| self.deny(peer, denied))?;
        peer.trust();
        Ok((body, place))
    }

    async fn read(&self, mut body: Body, max: usize, deadline: Instant) -> Result<Bytes, Response> {
        let announced = body.size_hint().lower();
        let mut whole = Vec::new();
        let mut too_large = announced > max as u64;
        while !too_large {
            match timeout_at(deadline, body.frame()).await {
                Ok(None) => return Ok(whole.into()),
                Ok(Some(Ok(frame))) => {
                    let Ok(data) = frame.into_data() else { continue };
                    too_large = whole.len() + data.len() > max;
                    if !too_large {
                        whole.extend_from_slice(&data);
                    }
                }
                Ok(Some(Err(_))) => return Err(StatusCode::BAD_REQUEST.into_response()),
                Err(_) => {
                    self.board.counters.slow.up();
                    return Err(last(StatusCode::REQUEST_TIMEOUT.into_response()));
                }
            }
        }
        drop(whole);
        self.board.counters.too_large.up();
        discard(body, deadline).await;
        Err(last(explained(StatusCode::PAYLOAD_TOO_LARGE, &format!("a body has at most {max} bytes"))))
    }

    fn deny(&self, peer: &Peer, denied: Denied) -> Response {
        match denied {
            Denied::Unauthorized => {
                self.board.counters.unauthorized.up();
                self.strangers.say(|more| {
                    tracing::warn!(more, "refresh: {} pushed with wrong credentials", peer.address);
                });
                StatusCode::UNAUTHORIZED.into_response()
            }
            Denied::Unchecked => {
                self.board.counters.unavailable.up();
                StatusCode::SERVICE_UNAVAILABLE.into_response()
            }
        }
    }

    /// Hands messages to the table. Its subscribers are woken when what else is there to do has been done: for some messages together.
    fn take(&self, peer: &Peer, messages: &[&[u8]]) -> Vec<Answer> {
        let mut observed = Vec::with_capacity(messages.len());
        let refused: Vec<Option<Answer>> = messages
            .iter()
            .map(|message| match self.understand(peer, message) {
                Ok(observation) => {
                    observed.push(observation);
                    None
                }
                Err(answer) => Some(answer),
            })
            .collect();
        let mut outcomes = self.writer.apply_quietly(observed).into_iter();
        let answers = refused.into_iter().zip(messages).filter_map(|(refused, message)| {
            let answer = refused.or_else(|| outcomes.next().map(|outcome| self.settle(peer, &outcome)))?;
            if answer.0 == StatusCode::BAD_REQUEST {
                self.withdraw(message);
            }
            Some(answer)
        });
        let answers = answers.collect();
        self.changed.notify_one();
        answers
    }

    /// Takes the route of a message that was refused out of service, at its version: an older one may lead to the wrong
    /// place or to whom it must not, and nobody can tell.
    fn withdraw(&self, message: &[u8]) {
        if let Some((key, version)) = RouteMessage::identity_of(message, &self.pushed.provider) {
            self.writer.delete(&key, Some(version));
        }
    }

    /// What a message asks of the table, or the answer to it if that is nothing.
    fn understand(&self, peer: &Peer, message: &[u8]) -> Result<Observation, Answer> {
        let counters = &self.board.counters;
        let read = RouteMessage::parse(message).and_then(|message| {
            let no_address = message.address().err();
            message.meaning(&self.pushed).map(|meaning| (meaning, no_address))
        });
        match read {
            Ok((Meaning::Apply(mut observation), no_address)) => {
                // As with a watched object: it is known, and not routed to.
                let outside = self.policy.screen(&mut observation).map(|refused| refused.to_string());
                if let Some(refused) = outside.or_else(|| no_address.map(|error| error.to_string())) {
                    counters.outside.up();
                    self.outsiders.say(|more| {
                        let (key, from) = (&observation.key, peer.address);
                        tracing::warn!(more, "refresh: {key}, pushed by {from}, is not routed to: {refused}");
                    });
                }
                Ok(observation)
            }
            Ok((Meaning::Legacy, _)) => {
                counters.legacy.up();
                Err((StatusCode::NO_CONTENT, None))
            }
            Err(error) => {
                counters.invalid.up();
                Err(self.mistake(peer, StatusCode::BAD_REQUEST, error.to_string()))
            }
        }
    }

    /// The answer to a message that the table has seen.
    fn settle(&self, peer: &Peer, outcome: &Outcome) -> Answer {
        let counters = &self.board.counters;
        match outcome {
            Outcome::Applied
            | Outcome::Takeover { .. }
            | Outcome::Displaced { .. }
            | Outcome::Ambiguous { .. } => counters.applied.up(),
            Outcome::Stale => counters.stale.up(),
            // Only this is the table's trouble, not the message's.
            Outcome::Invalid(Invalid::Full) => {
                counters.unavailable.up();
                return self.mistake(peer, StatusCode::SERVICE_UNAVAILABLE, Invalid::Full.to_string());
            }
            Outcome::Invalid(reason) => {
                counters.invalid.up();
                return self.mistake(peer, StatusCode::BAD_REQUEST, reason.to_string());
            }
        }
        if self.board.is_draining() {
            return (StatusCode::SERVICE_UNAVAILABLE, Some(DRAINING.to_owned()));
        }
        (StatusCode::NO_CONTENT, None)
    }

    fn mistake(&self, peer: &Peer, status: StatusCode, reason: String) -> Answer {
        self.mistakes.say(|more| {
            tracing::warn!(more, "refresh: a message of {} was refused: {reason}", peer.address);
        });
        (status, Some(reason))
    }
}

/// Reads on and keeps nothing.
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

/// An answer after which the connection closes: part of the request may still be under way.
pub(crate) fn last(mut response: Response) -> Response {
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

fn explained(status: StatusCode, error: &str) -> Response {
    let body = serde_json::json!({ "error": error }).to_string() + "\n";
    (status, [(CONTENT_TYPE, HeaderValue::from_static("application/json"))], body).into_response()
}
