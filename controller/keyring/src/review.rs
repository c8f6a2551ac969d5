//! Bearer tokens: the Kubernetes API server reviews them (TokenReview), and its answers are remembered.
//!
//! A token is good if the API server authenticates it for one of our audiences. An answer is remembered for
//! `remember-seconds`, good or bad; that there was none, for a third of that and at least a second. Good
//! answers have a store of their own, so that made-up tokens cannot push them out. Only digests of tokens are
//! kept.
//!
//! There are at most [`QUESTIONS`] questions at a time, and few of them for one source, so a sender of many
//! unknown tokens waits for its own. A source whose tokens keep being bad gets a few questions a second
//! ([`Sources`]); a token that was good once is always asked about. What is over the limits is not asked
//! about, and fails for a second.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use parking_lot::Mutex;
use ring::digest;
use sandgate_auth::{Caller, Reviewed};
use sandgate_follow::{AccessError, Failure, shorten};
use sandgate_peering::{LogLimit, Sources, review_token, source_of};
use tokio::sync::{AcquireError, Semaphore};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::Wake;
use crate::settings::ReviewSettings;
use crate::status::{ReviewCounters, ReviewStatus};

mod inbox;
mod remembered;

#[cfg(test)]
mod tests;

use inbox::{Inbox, Question};
use remembered::Remembered;

/// Questions to the API server at a time.
const QUESTIONS: usize = 8;
/// How long a question waits until it may be asked, and how long an answer may take.
const TURN: Duration = Duration::from_secs(3);
const PATIENCE: Duration = Duration::from_secs(3);
/// How long it may take to read the credentials for the API server.
const CONNECT: Duration = Duration::from_secs(10);
/// How long it is remembered that a token was not asked about.
const REFUSED_FOR: Duration = Duration::from_secs(1);
/// Longer than any token.
const MAX_TOKEN: usize = 16 << 10;

type Digest = [u8; 32];

/// Why there is no answer. A retry may help. No text has a token.
#[derive(Debug, thiserror::Error)]
enum ReviewError {
    #[error("no answer within {} s", PATIENCE.as_secs())]
    Timeout,
    #[error(transparent)]
    Access(#[from] AccessError),
    #[error("{0}")]
    Refused(String),
    #[error(transparent)]
    Broken(Failure),
}

/// Why a token was not asked about. A retry helps in a while.
#[derive(Debug, thiserror::Error)]
enum NotAsked {
    #[error("too many questions")]
    Busy,
    #[error("too many bad tokens of this source")]
    TooManyBad,
    #[error(transparent)]
    Closed(#[from] AcquireError),
}

pub(crate) struct Reviewer {
    settings: ReviewSettings,
    /// Made again after a failure: credentials are read anew, and a connection that hangs is left.
    client: Mutex<Option<Client>>,
    connecting: tokio::sync::Mutex<()>,
    questions: Semaphore,
    sources: Sources,
    inbox: Inbox,
    good: Remembered,
    other: Remembered,
    bad: Arc<Reviewed>,
    failed: Arc<Reviewed>,
    counters: ReviewCounters,
    log: LogLimit,
}

impl Reviewer {
    pub(crate) fn new(settings: ReviewSettings) -> Self {
        Self {
            settings,
            client: Mutex::default(),
            connecting: tokio::sync::Mutex::default(),
            questions: Semaphore::new(QUESTIONS),
            sources: Sources::default(),
            inbox: Inbox::default(),
            good: Remembered::default(),
            other: Remembered::default(),
            bad: Arc::new(Reviewed::Bad),
            failed: Arc::new(Reviewed::Failed),
            counters: ReviewCounters::default(),
            log: LogLimit::default(),
        }
    }

    pub(crate) fn status(&self) -> ReviewStatus {
        self.counters.read(self.good.count() + self.other.count())
    }

    pub(crate) fn reviewed(&self, token: &[u8]) -> Option<Arc<Reviewed>> {
        match text(token) {
            Some(token) => self.known(&digest_of(token)),
            None => Some(Arc::clone(&self.bad)),
        }
    }

    fn known(&self, digest: &Digest) -> Option<Arc<Reviewed>> {
        self.good.get(digest).or_else(|| self.other.get(digest))
    }

    pub(crate) fn review(&self, token: &[u8], source: Option<IpAddr>, wake: Wake) -> bool {
        let Some(token) = text(token) else { return false };
        // Those without an address share one.
        let source = source_of(source.unwrap_or(Ipv4Addr::UNSPECIFIED.into()));
        let taken = self.inbox.ask(digest_of(token), token, source, wake);
        if !taken {
            self.counters.refused.up();
        }
        taken
    }

    /// Answers questions for ever.
    pub(crate) async fn run(self: Arc<Self>) {
        let _open = self.inbox.open();
        let mut answers = JoinSet::new();
        loop {
            tokio::select! {
                question = self.inbox.next() => {
                    let reviewer = Arc::clone(&self);
                    answers.spawn(async move { reviewer.answer(question).await });
                }
                // An error is a panic, which was counted and logged.
                Some(_) = answers.join_next() => {}
            }
        }
    }

    async fn answer(&self, question: Question) {
        // However this ends, those who wait are woken; and after the answer is remembered.
        let waiting = self.inbox.waiting(question.digest);
        let source = self.sources.get(question.source);
        let permits = timeout(TURN, async { Ok((source.turn().await?, self.questions.acquire().await?)) });
        let permits = match permits.await.unwrap_or(Err(NotAsked::Busy)) {
            // A token that was good once is reviewed again, whatever else its source has sent.
            Ok(_) if !self.good.knew(&question.digest) && !source.may_ask() => Err(NotAsked::TooManyBad),
            permits => permits,
        };
        // It may have been answered since somebody asked.
        if self.known(&question.digest).is_some() {
            return;
        }
        let (answer, lifetime) = match permits {
            Ok(_permits) => self.ask(&question.token).await,
            Err(reason) => {
                self.counters.refused.up();
                self.log.log(|more| tracing::warn!(more, "auth: a token was not reviewed: {reason}"));
                (Arc::clone(&self.failed), REFUSED_FOR)
            }
        };
        match &*answer {
            Reviewed::Good(_) => {
                self.other.forget(&question.digest);
                self.good.add(question.digest, answer, lifetime);
            }
            Reviewed::Bad => {
                source.was_bad();
                self.good.forget(&question.digest);
                self.other.add(question.digest, answer, lifetime);
            }
            Reviewed::Failed => self.other.add(question.digest, answer, lifetime),
        }
        drop(waiting);
    }

    /// Asks the API server, and says for how long the answer counts.
    async fn ask(&self, token: &str) -> (Arc<Reviewed>, Duration) {
        self.counters.asked.up();
        let remember = self.settings.remember;
        match self.try_ask(token).await {
            Ok(answer) => {
                self.counters.error.lock().take();
                match answer {
                    Some(caller) => {
                        self.counters.good.up();
                        (Arc::new(Reviewed::Good(caller)), remember)
                    }
                    None => {
                        self.counters.bad.up();
                        (Arc::clone(&self.bad), remember)
                    }
                }
            }
            Err(error) => {
                self.counters.failed.up();
                let error = error.to_string();
                self.log.log(|more| tracing::warn!(more, "auth: a token could not be reviewed: {error}"));
                *self.counters.error.lock() = Some(error);
                (Arc::clone(&self.failed), (remember / 3).max(Duration::from_secs(1)))
            }
        }
    }

    async fn try_ask(&self, token: &str) -> Result<Option<Caller>, ReviewError> {
        let client = self.client().await?;
        let question = review_token(client, token, &self.settings.audiences);
        let error = match timeout(PATIENCE, question).await {
            // A good token is somebody's.
            Ok(Ok(user)) => {
                return Ok(user.and_then(|user| {
                    let username = user.username.filter(|name| !name.is_empty())?;
                    Some(Caller { username, groups: user.groups.unwrap_or_default() })
                }));
            }
            Ok(Err(kube::Error::Api(status))) if status.code != 401 => {
                return Err(ReviewError::Refused(shorten(&format!("{} {}", status.code, status.message))));
            }
            Ok(Err(kube::Error::Api(status))) => {
                ReviewError::Refused(shorten(&format!("{} {}", status.code, status.message)))
            }
            Ok(Err(error)) => ReviewError::Broken(Failure::broken(&error)),
            Err(_) => ReviewError::Timeout,
        };
        *self.client.lock() = None;
        Err(error)
    }

    async fn client(&self) -> Result<Client, AccessError> {
        // One after the other: the second finds what the first has made.
        let _turn = self.connecting.lock().await;
        if let Some(client) = self.client.lock().clone() {
            return Ok(client);
        }
        let client = self.settings.access.connect(CONNECT).await?;
        *self.client.lock() = Some(client.clone());
        Ok(client)
    }
}

/// A text that may be a token.
fn text(token: &[u8]) -> Option<&str> {
    str::from_utf8(token).ok().filter(|token| (1..=MAX_TOKEN).contains(&token.len()))
}

fn digest_of(token: &str) -> Digest {
    let mut digest = Digest::default();
    digest.copy_from_slice(digest::digest(&digest::SHA256, token.as_bytes()).as_ref());
    digest
}
