//! One try: messages go to a peer over HTTP, alone or as a batch, and each gets a status.
//!
//! A try that takes too long fails (see [`Pace`]). A batch that fails is halved for the next try: over a slow
//! or lossy network a large one might never get through. A batch that succeeds doubles the size again.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use hyper::body::Bytes;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::{Instant, timeout};

use super::connection::{Answer, Connection, TryError};
use super::pace::Pace;
use super::peer::BATCH_MESSAGES;
use super::queue::Pending;
use super::{PeerAddress, Shared};

/// The answer to one message, and what the peer says is wrong with it.
pub(super) type Status = (StatusCode, String);

/// The HTTP client of one peer: it has at most one connection, and sends one request at a time.
pub(super) struct Client {
    address: PeerAddress,
    shared: Arc<Shared>,
    connection: Option<Connection>,
    connect_pace: Pace,
    answer_pace: Pace,
    /// How long the peer wants to be left alone, by its last answer.
    pub(super) retry_after: Option<Duration>,
    /// Whether the peer takes batches, as far as it is known.
    pub(super) batches: bool,
    /// The messages that go into one batch.
    batch_size: usize,
}

impl Client {
    pub(super) fn new(address: PeerAddress, shared: Arc<Shared>) -> Self {
        let settings = &shared.settings;
        Self {
            address,
            connection: None,
            connect_pace: Pace::new(settings.connect_timeout, settings.max_try_timeout),
            answer_pace: Pace::new(settings.try_timeout, settings.max_try_timeout),
            retry_after: None,
            batches: settings.batch,
            batch_size: BATCH_MESSAGES,
            shared,
        }
    }

    pub(super) fn disconnect(&mut self) {
        self.connection = None;
    }

    /// Sends the first of these messages, as many as one try may have. Returns the status of each that was
    /// answered, in their order.
    pub(super) async fn send(&mut self, messages: &[Pending]) -> Result<Vec<Status>, TryError> {
        let first = &messages[..messages.len().min(self.batch_size)];
        let sent =
            if self.batches && first.len() > 1 { self.batch(first).await } else { self.singles(first).await };
        match sent {
            Ok(_) => self.batch_size = (self.batch_size * 2).min(BATCH_MESSAGES),
            Err(_) => {
                self.batch_size = (self.batch_size / 2).max(1);
                self.disconnect();
            }
        }
        sent
    }

    async fn batch(&mut self, messages: &[Pending]) -> Result<Vec<Status>, TryError> {
        let lines: Vec<&[u8]> = messages.iter().map(|message| message.body.as_ref()).collect();
        let body = Bytes::from(lines.join(&b'\n'));
        let answer = self.post("/refresh/batch", "application/x-ndjson", body).await?;
        match answer.status {
            StatusCode::OK => read_batch(&answer.body, messages.len()),
            // The peer takes no batches, and gets none from here on.
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => {
                self.batches = false;
                self.singles(messages).await
            }
            status => Ok(vec![(status, explanation(&answer.body)); messages.len()]),
        }
    }

    /// Sends one message after the other, up to the first that gets no answer.
    async fn singles(&mut self, messages: &[Pending]) -> Result<Vec<Status>, TryError> {
        let mut statuses = Vec::with_capacity(messages.len());
        for message in messages {
            match self.post("/refresh", "application/json", message.body.clone()).await {
                Ok(answer) => statuses.push((answer.status, explanation(&answer.body))),
                Err(error) if statuses.is_empty() => return Err(error),
                Err(_) => {
                    self.disconnect();
                    break;
                }
            }
        }
        Ok(statuses)
    }

    async fn post(
        &mut self,
        path: &'static str,
        content_type: &'static str,
        body: Bytes,
    ) -> Result<Answer, TryError> {
        let connection = match self.connection.take().filter(Connection::is_open) {
            Some(connection) => self.connection.insert(connection),
            None => {
                let tls = self.shared.proofs.tls.as_ref().map(|tls| tls.get());
                let opening = Connection::open(&self.address, tls);
                let opened = in_time(&mut self.connect_pace, opening, TryError::ConnectTimeout).await?;
                self.connection.insert(opened)
            }
        };
        let authorization = self.shared.proofs.authorization("POST", path, &body)?;
        let posting = connection.post(path, content_type, authorization.as_deref(), body);
        let answer = in_time(&mut self.answer_pace, posting, TryError::AnswerTimeout).await?;
        self.retry_after = answer.retry_after;
        Ok(answer)
    }
}

/// Waits as long as the pace allows, and tells it how long that took.
async fn in_time<T>(
    pace: &mut Pace,
    work: impl Future<Output = Result<T, TryError>>,
    late: TryError,
) -> Result<T, TryError> {
    let since = Instant::now();
    let Ok(done) = timeout(pace.allowed(), work).await else {
        pace.missed();
        return Err(late);
    };
    let done = done?;
    pace.answered(since.elapsed());
    Ok(done)
}

/// What the peer says is wrong. Nothing if the body has another form.
pub(super) fn explanation(body: &[u8]) -> String {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    body["error"].as_str().unwrap_or_default().to_owned()
}

/// One line of the answer to a batch.
#[derive(Deserialize)]
struct LineAnswer {
    line: usize,
    status: u16,
    #[serde(default)]
    error: String,
}

/// Reads the answer to a batch of `count` messages. Each of them has to have its line, in order.
fn read_batch(body: &[u8], count: usize) -> Result<Vec<Status>, TryError> {
    let lines = body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let read = |(number, line)| {
        let LineAnswer { line, status, error } = serde_json::from_slice(line).ok()?;
        (line == number).then_some((StatusCode::from_u16(status).ok()?, error))
    };
    let statuses: Option<Vec<Status>> = (1..).zip(lines).map(read).collect();
    statuses.filter(|statuses| statuses.len() == count).ok_or(TryError::BatchAnswer)
}
