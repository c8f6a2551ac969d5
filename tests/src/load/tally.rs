//! What the clients count.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::Instant;

use super::Outcome;

/// So many failures are kept, the first ones; all are counted.
const FAILURES: usize = 10;

/// A kind of client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// HTTP/1.1 with keep-alive.
    Http1,
    /// HTTP/2.
    Http2,
    /// A WebSocket.
    WebSocket,
}

/// What one kind of client counted.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Requests; of WebSockets upgrades and messages.
    pub sent: u64,
    /// Right answers; of WebSockets first messages and echoes.
    pub answered: u64,
    /// What was sent and had no right answer.
    pub failed: u64,
    /// Connections that were made.
    pub connections: u64,
    /// Connections that were left because the gateway said so: `connection: close`, GOAWAY. WebSockets that
    /// ended where they may.
    pub left: u64,
    /// Kept connections that the gateway closed with no word.
    pub found_closed: u64,
    /// WebSockets that ended where they must not.
    pub broken: u64,
    /// Messages under way on WebSockets that ended where they may.
    pub lost: u64,
    pub(super) latencies: Vec<Duration>,
}

/// One failure.
#[derive(Clone, Debug)]
pub struct Failure {
    /// When, since the load began.
    pub at: Duration,
    /// Whose.
    pub kind: Kind,
    /// Which gateway was spoken to.
    pub gateway: Option<SocketAddr>,
    /// What was seen.
    pub what: String,
}

pub(super) struct Tally {
    begun: Instant,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    http1: Counts,
    http2: Counts,
    websockets: Counts,
    failures: Vec<Failure>,
    /// Connections with an answer, by gateway.
    served: BTreeMap<SocketAddr, u64>,
    /// WebSockets that were ended as they may be, in order.
    ends: Vec<(SocketAddr, Duration)>,
    /// WebSockets begun before may be ended.
    may_end: BTreeMap<SocketAddr, Instant>,
}

impl State {
    fn of(&mut self, kind: Kind) -> &mut Counts {
        match kind {
            Kind::Http1 => &mut self.http1,
            Kind::Http2 => &mut self.http2,
            Kind::WebSocket => &mut self.websockets,
        }
    }

    fn note(&mut self, failure: Failure) {
        if self.failures.len() < FAILURES {
            self.failures.push(failure);
        }
    }
}

impl Tally {
    pub(super) fn new() -> Self {
        Self { begun: Instant::now(), state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    pub(super) fn sent(&self, kind: Kind) {
        self.state().of(kind).sent += 1;
    }

    pub(super) fn connection(&self, kind: Kind) {
        self.state().of(kind).connections += 1;
    }

    /// The first answer on a connection.
    pub(super) fn serves(&self, gateway: SocketAddr) {
        *self.state().served.entry(gateway).or_default() += 1;
    }

    pub(super) fn answer(&self, kind: Kind, latency: Duration) {
        let mut state = self.state();
        let counts = state.of(kind);
        counts.answered += 1;
        counts.latencies.push(latency);
    }

    pub(super) fn left(&self, kind: Kind) {
        self.state().of(kind).left += 1;
    }

    pub(super) fn found_closed(&self, kind: Kind) {
        self.state().of(kind).found_closed += 1;
    }

    pub(super) fn failure(&self, kind: Kind, gateway: Option<SocketAddr>, what: &str) {
        let at = self.begun.elapsed();
        let mut state = self.state();
        state.of(kind).failed += 1;
        state.note(Failure { at, kind, gateway, what: what.to_owned() });
    }

    /// The end of a WebSocket that was begun then, with so many messages under way.
    pub(super) fn end(&self, gateway: SocketAddr, begun: Instant, waiting: usize, why: &str) {
        let at = self.begun.elapsed();
        let waiting = u64::try_from(waiting).unwrap_or(u64::MAX);
        let mut state = self.state();
        if state.may_end.get(&gateway).is_some_and(|until| begun <= *until) {
            state.websockets.left += 1;
            state.websockets.lost += waiting;
            state.ends.push((gateway, at));
            return;
        }
        state.websockets.broken += 1;
        state.websockets.failed += waiting;
        let what = format!("ended with {waiting} messages under way: {why}");
        state.note(Failure { at, kind: Kind::WebSocket, gateway: Some(gateway), what });
    }

    pub(super) fn may_end(&self, gateway: SocketAddr) {
        self.state().may_end.insert(gateway, Instant::now());
    }

    pub(super) fn answered(&self, kind: Kind) -> u64 {
        self.state().of(kind).answered
    }

    pub(super) fn served(&self, gateway: SocketAddr) -> u64 {
        self.state().served.get(&gateway).copied().unwrap_or_default()
    }

    pub(super) fn outcome(&self) -> Outcome {
        let state = self.state();
        Outcome {
            took: self.begun.elapsed(),
            http1: state.http1.clone(),
            http2: state.http2.clone(),
            websockets: state.websockets.clone(),
            ends: state.ends.clone(),
            failures: state.failures.clone(),
        }
    }
}
