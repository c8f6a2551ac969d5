//! Bearer tokens: the Kubernetes API server reviews them (TokenReview), and its answers are cached.
//!
//! A token is good if the API server authenticates it, for our audience, as one of the subjects that may
//! push. A good answer is cached for a minute, a bad one for five seconds. Each kind has a bounded cache of
//! its own, so that made-up tokens cannot evict the good ones. Only digests of tokens are kept.
//!
//! There are at most [`QUESTIONS`] reviews at a time, and [`PER_SOURCE`] of them for one source address, so a
//! sender of many unknown tokens waits for its own. A source whose tokens keep being bad gets a few reviews a
//! second (see [`sources`]). What is over that is [`Denied::Unchecked`].

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use kube::Client;
use kube::api::{Api, PostParams};
use parking_lot::Mutex;
use ring::digest;
use sandgate_follow::AccessError;
use tokio::sync::{AcquireError, OnceCell, Semaphore};
use tokio::time::{Instant, timeout};

use super::auth::Denied;
use super::settings::TokenReviewSettings;
use super::status::LogLimit;
pub use sources::{Source, Sources};

mod sources;

/// How long it may take to read the credentials for the API server.
const CONNECT: Duration = Duration::from_secs(10);

/// Questions to the API server at a time.
const QUESTIONS: usize = 8;
/// And of those for one source.
const PER_SOURCE: usize = 2;
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(3);
const GOOD_FOR: Duration = Duration::from_secs(60);
const BAD_FOR: Duration = Duration::from_secs(5);
const MAX_REMEMBERED: usize = 1024;
/// Longer than any token.
const MAX_TOKEN: usize = 16 << 10;

/// Why the API server was not asked, or did not answer. A retry may help: nothing is remembered of it.
#[derive(Debug, thiserror::Error)]
enum ReviewError {
    #[error("no answer in time")]
    Timeout,
    #[error("too many bad tokens of this source")]
    TooManyBad,
    #[error(transparent)]
    Closed(#[from] AcquireError),
    #[error(transparent)]
    Access(#[from] AccessError),
    #[error(transparent)]
    Api(#[from] kube::Error),
}

type Digest = [u8; 32];

pub(crate) struct Reviewer {
    settings: TokenReviewSettings,
    client: OnceCell<Client>,
    questions: Semaphore,
    sources: Sources,
    good: Remembered,
    bad: Remembered,
    failures: LogLimit,
}

impl fmt::Debug for Reviewer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reviewer").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Reviewer {
    pub(crate) fn new(settings: TokenReviewSettings) -> Self {
        Self {
            settings,
            client: OnceCell::new(),
            questions: Semaphore::new(QUESTIONS),
            sources: Sources::default(),
            good: Remembered::new(GOOD_FOR),
            bad: Remembered::new(BAD_FOR),
            failures: LogLimit::default(),
        }
    }

    /// Whether the holder of a token may push.
    pub(crate) async fn review(&self, token: &[u8], source: IpAddr) -> Result<(), Denied> {
        let Some(token) = str::from_utf8(token).ok().filter(|token| (1..=MAX_TOKEN).contains(&token.len()))
        else {
            return Err(Denied::Unauthorized);
        };
        let mut digest = Digest::default();
        digest.copy_from_slice(digest::digest(&digest::SHA256, token.as_bytes()).as_ref());
        let known = || match (self.good.has(&digest), self.bad.has(&digest)) {
            (true, _) => Some(Ok(())),
            (_, true) => Some(Err(Denied::Unauthorized)),
            _ => None,
        };
        if let Some(known) = known() {
            return known;
        }
        let source = self.sources.get(source);
        let asked = timeout(PATIENCE, async {
            let _own = source.turn().await?;
            let _turn = self.questions.acquire().await?;
            // Another request may have asked meanwhile.
            if let Some(known) = known() {
                return Ok(known);
            }
            // A token that was good once is reviewed again, whatever else its source has sent.
            if !self.good.knew(&digest) && !source.may_ask() {
                return Err(ReviewError::TooManyBad);
            }
            if self.ask(token).await? {
                self.good.add(digest);
                return Ok(Ok(()));
            }
            source.was_bad();
            self.bad.add(digest);
            Ok(Err(Denied::Unauthorized))
        });
        asked.await.unwrap_or(Err(ReviewError::Timeout)).unwrap_or_else(|error| {
            self.failures.log(|more| {
                tracing::warn!(more, "refresh: a token could not be reviewed: {error}");
            });
            Err(Denied::Unchecked)
        })
    }

    async fn ask(&self, token: &str) -> Result<bool, ReviewError> {
        let client = self.client.get_or_try_init(|| self.settings.access.connect(CONNECT)).await?;
        let audiences = std::slice::from_ref(&self.settings.audience);
        let user = review_token(client.clone(), token, audiences).await?;
        let username = user.and_then(|user| user.username);
        Ok(username.is_some_and(|name| self.settings.subjects.contains(&name)))
    }
}

/// Asks the API server whose token this is. `None`: nobody's, or it is for none of these audiences.
///
/// # Errors
/// The API server cannot be reached or refuses the question. A retry may help.
pub async fn review_token(
    client: Client,
    token: &str,
    audiences: &[String],
) -> Result<Option<UserInfo>, kube::Error> {
    let spec = TokenReviewSpec { token: Some(token.to_owned()), audiences: Some(audiences.to_owned()) };
    let question = TokenReview { spec, ..TokenReview::default() };
    let review = Api::all(client).create(&PostParams::default(), &question).await?;
    let status = review.status.unwrap_or_default();
    // An API server that does not know audiences names none: then the token was not made for us.
    let ours = |found: &Vec<String>| found.iter().any(|audience| audiences.contains(audience));
    let good = status.authenticated == Some(true)
        && status.error.as_deref().unwrap_or_default().is_empty()
        && status.audiences.as_ref().is_some_and(ours);
    Ok(status.user.filter(|_| good))
}

/// The digests of tokens, and until when each counts.
struct Remembered {
    lifetime: Duration,
    entries: Mutex<HashMap<Digest, Instant>>,
}

impl Remembered {
    fn new(lifetime: Duration) -> Self {
        Self { lifetime, entries: Mutex::default() }
    }

    fn has(&self, digest: &Digest) -> bool {
        let entries = self.entries.lock();
        entries.get(digest).is_some_and(|until| *until > Instant::now())
    }

    /// Whether it counts or did so once.
    fn knew(&self, digest: &Digest) -> bool {
        self.entries.lock().contains_key(digest)
    }

    #[cfg(test)]
    fn expire(&self) {
        self.entries.lock().values_mut().for_each(|until| *until = Instant::now());
    }

    fn add(&self, digest: Digest) {
        let now = Instant::now();
        let mut entries = self.entries.lock();
        if entries.len() >= MAX_REMEMBERED {
            entries.retain(|_, until| *until > now);
        }
        if entries.len() >= MAX_REMEMBERED
            && let Some(oldest) = entries.iter().min_by_key(|(_, until)| **until).map(|(digest, _)| *digest)
        {
            entries.remove(&oldest);
        }
        // Use does not extend it: a token that was revoked is reviewed again in time.
        entries.insert(digest, now + self.lifetime);
    }
}

#[cfg(test)]
mod tests;
