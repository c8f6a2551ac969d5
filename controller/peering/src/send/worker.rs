//! One peer and what is sent to it.
//!
//! One message, or one batch, is under way at a time and is tried again until it is delivered, refused, out of tries, or
//! needless because something newer of its object waits. What is out of tries goes back to the queue, and the peer counts
//! as not reached: then there is one try at a time, longer and longer apart, or when there is news and tries are left.
//!
//! A batch that does not get through in the time of a try is sent in smaller parts: over a slow or lossy line a large one
//! might never.
//!
//! A peer that is lost (not among those that were found) is not spoken to. What is under way then goes back to the queue, of
//! which only the deletes stay.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::StatusCode;
use hyper::body::Bytes;
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout};

use super::budget::Budget;
use super::connection::{Answer, Connection, TryError};
use super::credentials::Proofs;
use super::pace::Pace;
use super::queue::{Pending, Queue, Queued};
use super::{Delivery, PeerAddress, PeerMetrics, PushSettings};

const SINGLE: &str = "/refresh";
const BATCH: &str = "/refresh/batch";
/// Messages in one batch, and their bytes: far below what a receiver takes.
const BATCH_MESSAGES: usize = 500;
const BATCH_BYTES: usize = 4 << 20;
/// The longest pause between two of the first tries, in pauses.
const MOST_PAUSES: u32 = 20;
const LOST: &str = "not among the peers that were found";

pub(super) struct Peer {
    pub(super) address: PeerAddress,
    queue: Mutex<Queue>,
    wake: Notify,
    /// Since when the oldest of those under way waits.
    under_way: Mutex<Option<Instant>>,
    /// Since when it is not among those found.
    lost: watch::Sender<Option<Instant>>,
    error: Mutex<Option<String>>,
    counters: Counters,
}

#[derive(Default)]
struct Counters {
    sent: AtomicU64,
    refused: AtomicU64,
    failed: AtomicU64,
    coalesced: AtomicU64,
    dropped: AtomicU64,
    retries: AtomicU64,
}

fn up(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Peer {
    pub(super) fn new(address: PeerAddress, max_pending: usize) -> Self {
        Self {
            address,
            queue: Mutex::new(Queue::new(max_pending)),
            wake: Notify::new(),
            under_way: Mutex::default(),
            lost: watch::Sender::new(None),
            error: Mutex::default(),
            counters: Counters::default(),
        }
    }

    /// Queues a message; never waits. Says whether the peer is among those found.
    pub(super) fn push(&self, mut message: Pending) -> bool {
        let lost = self.lost.borrow().is_some();
        if lost {
            if !message.deletes {
                return false;
            }
            message.waiter = None;
        }
        let queued = self.queue.lock().push_back(message);
        self.count(queued);
        self.wake.notify_one();
        !lost
    }

    /// It is among those found.
    pub(super) fn found(&self) {
        self.lost.send_if_modified(|lost| lost.take().is_some());
    }

    /// It is not among those found. Says whether there are deletes to keep for it, for this long.
    pub(super) fn lost(&self, keep: Duration) -> bool {
        let first = self.lost.send_if_modified(|lost| {
            let first = lost.is_none();
            lost.get_or_insert_with(Instant::now);
            first
        });
        if first {
            self.give_up_the_living();
            *self.error.lock() = Some(LOST.to_owned());
            // What is under way comes back to the queue; whether that is anything shows the next time.
            return true;
        }
        let owed = self.queue.lock().len() > 0 || self.under_way.lock().is_some();
        owed && self.lost.borrow().is_some_and(|since| since.elapsed() < keep)
    }

    fn give_up_the_living(&self) {
        let given_up = self.queue.lock().retain_deletes(LOST);
        self.counters.dropped.fetch_add(given_up as u64, Ordering::Relaxed);
    }

    pub(super) fn metrics(&self) -> PeerMetrics {
        let (pending, waiting) = {
            let queue = self.queue.lock();
            (queue.len(), queue.oldest())
        };
        let oldest = self.under_way.lock().or(waiting);
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        PeerMetrics {
            peer: self.address.clone(),
            sent: read(&self.counters.sent),
            refused: read(&self.counters.refused),
            failed: read(&self.counters.failed),
            coalesced: read(&self.counters.coalesced),
            dropped: read(&self.counters.dropped),
            retries: read(&self.counters.retries),
            pending: pending as u64,
            lag: oldest.map_or(Duration::ZERO, |since| since.elapsed()),
            error: self.error.lock().clone(),
        }
    }

    /// Sends for ever.
    pub(super) async fn run(self: Arc<Self>, settings: PushSettings, proofs: Arc<Proofs>) {
        let mut line = Line {
            connection: None,
            budget: Budget::new(Instant::now()),
            pace: Pace::new(settings.try_timeout, settings.max_try_timeout),
            connect_pace: Pace::new(settings.connect_timeout, settings.max_try_timeout),
            retry_after: None,
            batches: settings.batch,
            most: BATCH_MESSAGES,
        };
        let mut lost = self.lost.subscribe();
        // While the peer is not reached: how long until the next try.
        let mut back_off = None;
        loop {
            // The sender is a part of `self`, so waiting does not fail.
            drop(lost.wait_for(Option::is_none).await);
            let mut under_way = Vec::new();
            let sending = self.send_some(&mut line, &mut under_way, &mut back_off, &settings, &proofs);
            let is_lost = tokio::select! {
                () = sending => false,
                _lost = lost.wait_for(Option::is_some) => true,
            };
            self.keep(under_way);
            *self.under_way.lock() = None;
            if is_lost {
                line.connection = None;
                back_off = None;
                self.give_up_the_living();
            }
        }
    }

    /// Sends what waits, once it does. What is left in `under_way` was not delivered, also if this ends early.
    async fn send_some(
        &self,
        line: &mut Line,
        under_way: &mut Vec<Pending>,
        back_off: &mut Option<Duration>,
        settings: &PushSettings,
        proofs: &Proofs,
    ) {
        loop {
            *under_way = self.take(line.batches, settings.keep);
            if !under_way.is_empty() {
                break;
            }
            self.wake.notified().await;
        }
        let tries = if back_off.is_some() { 1 } else { settings.tries.max(1) };
        self.deliver(line, under_way, tries, settings, proofs).await;
        if under_way.is_empty() {
            *back_off = None;
            return;
        }
        self.keep(std::mem::take(under_way));
        *self.under_way.lock() = None;
        let wait = back_off.map_or(settings.pause, |wait: Duration| wait * 2);
        let wait = wait.max(line.retry_after.take().unwrap_or_default());
        let wait = wait.clamp(Duration::from_millis(1), settings.back_off);
        *back_off = Some(wait);
        self.rest(wait, &mut line.budget).await;
    }

    /// Waits until it is time for another try, or there is news to try it with.
    async fn rest(&self, wait: Duration, budget: &mut Budget) {
        let waited = sleep(wait);
        tokio::pin!(waited);
        loop {
            tokio::select! {
                () = &mut waited => return,
                () = self.wake.notified() => if budget.again(Instant::now()) {
                    up(&self.counters.retries);
                    return;
                },
            }
        }
    }

    fn take(&self, batches: bool, keep: Duration) -> Vec<Pending> {
        let mut queue = self.queue.lock();
        let most = if batches { BATCH_MESSAGES } else { 1 };
        let (mut taken, mut bytes) = (Vec::new(), 0);
        while taken.len() < most && bytes < BATCH_BYTES {
            let Some(mut next) = queue.pop() else { break };
            if !next.deletes && next.queued.elapsed() > keep {
                up(&self.counters.dropped);
                next.resolve(Delivery::Dropped);
                continue;
            }
            bytes += next.body.len();
            taken.push(next);
        }
        // Set before the queue is let go, so that whoever looks sees it in one place or the other.
        *self.under_way.lock() = taken.iter().map(|message| message.since).min();
        taken
    }

    /// Leaves what was not delivered. Whoever waits for it has been told.
    async fn deliver(
        &self,
        line: &mut Line,
        messages: &mut Vec<Pending>,
        tries: u32,
        settings: &PushSettings,
        proofs: &Proofs,
    ) {
        let mut reason = String::new();
        line.budget.first(Instant::now());
        // Tries since something was last delivered.
        let mut vain = 0;
        let since = Instant::now();
        while vain < tries && (vain == 0 || since.elapsed() < settings.give_up) {
            if vain > 0 {
                if !line.budget.again(Instant::now()) {
                    reason.push_str("; not tried again, too much of that lately");
                    break;
                }
                let pause = settings.pause * (1 << (vain - 1).min(16)).min(MOST_PAUSES);
                sleep(pause.max(line.retry_after.take().unwrap_or_default().min(settings.back_off))).await;
                self.leave_out_the_needless(messages);
                if messages.is_empty() {
                    return;
                }
                up(&self.counters.retries);
            }
            let before = messages.len();
            match line.send(&self.address, messages, proofs).await {
                Ok(statuses) => {
                    line.most = (line.most * 2).min(BATCH_MESSAGES);
                    reason = self.resolve(messages, statuses);
                }
                Err(error) => {
                    line.most = (line.most / 2).max(1);
                    line.connection = None;
                    reason = error.to_string();
                }
            }
            if messages.len() < before {
                self.recovered();
                vain = 0;
            } else {
                vain += 1;
            }
            if messages.is_empty() {
                return;
            }
        }
        let failed = Delivery::Failed { reason: reason.clone() };
        for message in messages.iter_mut().filter(|message| message.waiter.is_some()) {
            up(&self.counters.failed);
            message.resolve(failed.clone());
        }
        // Those behind them would fare no better.
        let behind = self.queue.lock().resolve_overdue(settings.try_timeout, &failed);
        self.counters.failed.fetch_add(behind as u64, Ordering::Relaxed);
        self.failing(reason);
    }

    /// What was not delivered waits again.
    fn keep(&self, messages: Vec<Pending>) {
        let mut queue = self.queue.lock();
        for message in messages.into_iter().rev() {
            self.count(queue.push_front(message));
        }
    }

    fn count(&self, queued: Queued) {
        match queued {
            Queued::Added => {}
            Queued::Coalesced => up(&self.counters.coalesced),
            Queued::Displaced => up(&self.counters.dropped),
        }
    }

    fn leave_out_the_needless(&self, messages: &mut Vec<Pending>) {
        let queue = self.queue.lock();
        messages.retain_mut(|message| {
            let needless = queue.supersedes(message);
            if needless {
                up(&self.counters.coalesced);
                message.resolve(Delivery::Coalesced);
            }
            !needless
        });
    }

    /// Settles what has an answer for good, and keeps the rest: what the peer could not take now.
    fn resolve(&self, messages: &mut Vec<Pending>, statuses: Vec<(StatusCode, String)>) -> String {
        let mut statuses = statuses.into_iter();
        let mut reason = String::new();
        messages.retain_mut(|message| {
            let Some((status, text)) = statuses.next() else { return true };
            if status.is_success() {
                up(&self.counters.sent);
                message.resolve(Delivery::Delivered);
            } else if is_final(status) {
                up(&self.counters.refused);
                message.resolve(Delivery::Refused { status: status.as_u16(), reason: text });
            } else {
                reason = format!("the peer answered {}", status.as_u16());
                return true;
            }
            false
        });
        reason
    }

    /// A peer that fails is logged once, and once more when it does no longer.
    fn failing(&self, reason: String) {
        let mut error = self.error.lock();
        if error.is_none() {
            tracing::warn!("push: {} is not reached: {reason}", self.address);
        }
        *error = Some(reason);
    }

    fn recovered(&self) {
        if self.error.lock().take().is_some() {
            tracing::info!("push: {} is reached again", self.address);
        }
    }
}

/// Whether an answer is about the message itself, so that another try gets the same.
fn is_final(status: StatusCode) -> bool {
    let passing = [
        // The key or the token is being replaced, or the peer has just started.
        StatusCode::UNAUTHORIZED,
        StatusCode::REQUEST_TIMEOUT,
        StatusCode::TOO_EARLY,
        StatusCode::TOO_MANY_REQUESTS,
    ];
    status.is_client_error() && !passing.contains(&status)
}

/// What the worker alone has.
struct Line {
    connection: Option<Connection>,
    budget: Budget,
    pace: Pace,
    connect_pace: Pace,
    /// When the peer wants to be asked again.
    retry_after: Option<Duration>,
    batches: bool,
    /// Messages that may go together.
    most: usize,
}

impl Line {
    /// One try: a status for each of the first messages, as many as may go together, and what was said about it.
    async fn send(
        &mut self,
        peer: &PeerAddress,
        messages: &[Pending],
        proofs: &Proofs,
    ) -> Result<Vec<(StatusCode, String)>, TryError> {
        let messages = &messages[..messages.len().min(self.most)];
        if let [message] = messages {
            let answer = self.post(peer, SINGLE, "application/json", message.body.clone(), proofs).await?;
            return Ok(vec![(answer.status, explanation(&answer.body))]);
        }
        if !self.batches {
            return self.one_by_one(peer, messages, proofs).await;
        }
        let body: Vec<&[u8]> = messages.iter().map(|message| message.body.as_ref()).collect();
        let body = Bytes::from(body.join(&b'\n'));
        let answer = self.post(peer, BATCH, "application/x-ndjson", body, proofs).await?;
        match answer.status {
            StatusCode::OK => read_batch(&answer.body, messages.len()),
            // A peer that takes no batches; from now on it gets none.
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => {
                self.batches = false;
                self.one_by_one(peer, messages, proofs).await
            }
            status => Ok(messages.iter().map(|_| (status, explanation(&answer.body))).collect()),
        }
    }

    /// What got no answer before something failed is tried again by the caller.
    async fn one_by_one(
        &mut self,
        peer: &PeerAddress,
        messages: &[Pending],
        proofs: &Proofs,
    ) -> Result<Vec<(StatusCode, String)>, TryError> {
        let mut statuses = Vec::with_capacity(messages.len());
        for message in messages {
            match self.post(peer, SINGLE, "application/json", message.body.clone(), proofs).await {
                Ok(answer) => statuses.push((answer.status, explanation(&answer.body))),
                Err(error) if statuses.is_empty() => return Err(error),
                Err(_) => {
                    self.connection = None;
                    break;
                }
            }
        }
        Ok(statuses)
    }

    async fn post(
        &mut self,
        peer: &PeerAddress,
        path: &'static str,
        content_type: &'static str,
        body: Bytes,
        proofs: &Proofs,
    ) -> Result<Answer, TryError> {
        let connection = match self.connection.take().filter(Connection::is_open) {
            Some(connection) => self.connection.insert(connection),
            None => {
                let tls = proofs.tls.as_ref().map(|tls| tls.get());
                let since = Instant::now();
                let opening = Connection::open(peer, tls);
                let Ok(opened) = timeout(self.connect_pace.allowed(), opening).await else {
                    self.connect_pace.missed();
                    return Err(TryError::ConnectTimeout);
                };
                let opened = opened?;
                self.connect_pace.answered(since.elapsed());
                self.connection.insert(opened)
            }
        };
        let authorization = proofs.authorization(path, &body)?;
        let since = Instant::now();
        let posted = connection.post(path, content_type, authorization.as_deref(), body);
        let Ok(answer) = timeout(self.pace.allowed(), posted).await else {
            self.pace.missed();
            return Err(TryError::AnswerTimeout);
        };
        let answer = answer?;
        self.pace.answered(since.elapsed());
        self.retry_after = answer.retry_after;
        Ok(answer)
    }
}

#[derive(Deserialize)]
struct Explained {
    #[serde(default)]
    error: String,
}

/// What the peer said was wrong, as far as it said it in a way we know.
fn explanation(answer: &[u8]) -> String {
    serde_json::from_slice::<Explained>(answer).map(|explained| explained.error).unwrap_or_default()
}

#[derive(Deserialize)]
struct LineAnswer {
    line: usize,
    status: u16,
    #[serde(default)]
    error: String,
}

/// The answer to each line; every one has to be answered.
fn read_batch(answer: &[u8], count: usize) -> Result<Vec<(StatusCode, String)>, TryError> {
    let mut statuses = Vec::with_capacity(count);
    for line in answer.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let line: LineAnswer = serde_json::from_slice(line).map_err(|_| TryError::BatchAnswer)?;
        let status = StatusCode::from_u16(line.status).map_err(|_| TryError::BatchAnswer)?;
        if line.line != statuses.len() + 1 {
            return Err(TryError::BatchAnswer);
        }
        statuses.push((status, line.error));
    }
    if statuses.len() == count { Ok(statuses) } else { Err(TryError::BatchAnswer) }
}
