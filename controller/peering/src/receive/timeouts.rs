//! How long each part of a connection may take.
//!
//! | the connection waits for | at most |
//! |---|---|
//! | a request, before any request on it was authenticated | [`Timeouts::unproven`] |
//! | a request, after one was | [`Timeouts::proven`] |
//! | the rest of a request's head, from its first byte | [`Timeouts::head`] |
//! | the handler, which reads the body | no limit here: the body has one of its own, [`Timeouts::body`] |
//! | its peer to take an answer | [`Timeouts::head`], by `TCP_USER_TIMEOUT` |
//!
//! hyper's `header_read_timeout` does not do: it runs from the end of the last request, so that it counts the
//! silence before a head too, and a connection cannot change it once its sender is known.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    /// The silence of a connection whose sender is not known.
    pub(crate) unproven: Duration,
    /// The silence of one whose sender is.
    pub(crate) proven: Duration,
    /// A request's head; a TLS handshake; an answer that its peer does not take.
    pub(crate) head: Duration,
    /// A request's body.
    pub(crate) body: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            unproven: Duration::from_secs(5),
            proven: Duration::from_secs(90),
            head: Duration::from_secs(5),
            body: Duration::from_secs(5),
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// Nothing has come, since this moment.
    Idle(Instant),
    /// A head is being read, since this moment.
    Head(Instant),
    /// A request is handled.
    Request,
}

/// The clock of one connection.
#[derive(Debug)]
pub(crate) struct Watchdog {
    timeouts: Timeouts,
    /// The phase, and whether the sender is known.
    state: Mutex<(Phase, bool)>,
}

impl Watchdog {
    pub(crate) fn new(timeouts: Timeouts) -> Self {
        Self { timeouts, state: Mutex::new((Phase::Idle(Instant::now()), false)) }
    }

    /// Bytes have come: between two requests they begin a head.
    pub(crate) fn bytes(&self) {
        let mut state = self.state.lock();
        if matches!(state.0, Phase::Idle(_)) {
            state.0 = Phase::Head(Instant::now());
        }
    }

    /// A request's head is complete.
    pub(crate) fn request(&self) {
        self.state.lock().0 = Phase::Request;
    }

    /// The request is answered.
    pub(crate) fn answered(&self) {
        self.state.lock().0 = Phase::Idle(Instant::now());
    }

    /// The sender is known from here on.
    pub(crate) fn prove(&self) {
        self.state.lock().1 = true;
    }

    fn deadline(&self) -> Option<Instant> {
        match *self.state.lock() {
            (Phase::Idle(since), true) => Some(since + self.timeouts.proven),
            (Phase::Idle(since), false) => Some(since + self.timeouts.unproven),
            (Phase::Head(since), _) => Some(since + self.timeouts.head),
            (Phase::Request, _) => None,
        }
    }

    /// Completes when the connection has taken too long. A deadline may move while this sleeps, so it looks
    /// again several times in the shortest of them.
    pub(crate) async fn overdue(&self) {
        let step = self.timeouts.unproven.min(self.timeouts.head) / 4;
        loop {
            let now = Instant::now();
            let deadline = self.deadline();
            if deadline.is_some_and(|deadline| deadline <= now) {
                return;
            }
            sleep_until(deadline.map_or(now + step, |deadline| deadline.min(now + step))).await;
        }
    }
}
