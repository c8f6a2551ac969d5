//! Bearer tokens, asked about at the Kubernetes API server (TokenReview) and remembered for a while.
//!
//! A token is good if the API server knows it, for our audience, as one of the subjects that may push. A good answer is
//! remembered for a minute, a bad one for five seconds, each kind in a place of its own that has a bound: a stranger who
//! makes tokens up cannot push out the good ones. Only digests of tokens are kept.
//!
//! The API server is asked [`QUESTIONS`] questions at a time, and [`PER_SOURCE`] of them for one source address: whoever
//! sends many unknown tokens waits for its own. A source whose tokens keep being bad is asked about a few times a second
//! only (see [`sources`]); what is over that gets [`Standing::Unknown`].

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use kube::Client;
use parking_lot::Mutex;
use ring::digest;
use sandgate_follow::AccessError;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::{AcquireError, OnceCell, Semaphore};
use tokio::time::{Instant, timeout};

use super::settings::TokenReviewSettings;
use super::status::LogLimit;
use sources::Sources;

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

/// What is known of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Good,
    Bad,
    /// The API server could not be asked: nothing is believed, and trying again may help.
    Unknown,
}

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
    Request(#[from] http::Error),
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

    pub(crate) async fn review(&self, token: &[u8], source: IpAddr) -> Standing {
        let Some(token) = str::from_utf8(token).ok().filter(|token| (1..=MAX_TOKEN).contains(&token.len()))
        else {
            return Standing::Bad;
        };
        let mut digest = Digest::default();
        digest.copy_from_slice(digest::digest(&digest::SHA256, token.as_bytes()).as_ref());
        let known = || match (self.good.has(&digest), self.bad.has(&digest)) {
            (true, _) => Some(Standing::Good),
            (_, true) => Some(Standing::Bad),
            _ => None,
        };
        if let Some(standing) = known() {
            return standing;
        }
        let source = self.sources.get(source);
        let asked = timeout(PATIENCE, async {
            let _own = source.turns.acquire().await?;
            let _turn = self.questions.acquire().await?;
            // Another request may have asked meanwhile.
            if let Some(standing) = known() {
                return Ok(standing);
            }
            // A token that was good once is reviewed again, whatever else its source has sent.
            if !self.good.knew(&digest) && !source.may_ask() {
                return Err(ReviewError::TooManyBad);
            }
            let good = self.ask(token).await?;
            if !good {
                source.was_bad();
            }
            let (remembered, standing) =
                if good { (&self.good, Standing::Good) } else { (&self.bad, Standing::Bad) };
            remembered.add(digest);
            Ok(standing)
        });
        match asked.await.unwrap_or(Err(ReviewError::Timeout)) {
            Ok(standing) => standing,
            Err(error) => {
                self.failures.log(|more| {
                    tracing::warn!(more, "refresh: a token could not be reviewed: {error}");
                });
                Standing::Unknown
            }
        }
    }

    async fn ask(&self, token: &str) -> Result<bool, ReviewError> {
        let client = self.client.get_or_try_init(|| self.settings.access.connect(CONNECT)).await?;
        let question = json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": { "token": token, "audiences": [self.settings.audience] },
        });
        let request = http::Request::post("/apis/authentication.k8s.io/v1/tokenreviews")
            .header("content-type", "application/json")
            .body(question.to_string().into_bytes())?;
        let review: Review = client.request(request).await?;
        Ok(self.is_good(&review.status))
    }

    fn is_good(&self, status: &Status) -> bool {
        // An API server that does not know audiences names none: then the token was not made for us.
        status.authenticated
            && status.error.is_empty()
            && status.audiences.contains(&self.settings.audience)
            && self.settings.subjects.contains(&status.user.username)
    }
}

#[derive(Deserialize)]
struct Review {
    #[serde(default)]
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    authenticated: bool,
    audiences: Vec<String>,
    error: String,
    user: User,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct User {
    username: String,
}

/// Digests and until when they count.
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
        // Asked anew when its time is over, however often it is used: so a revoked one ends.
        entries.insert(digest, now + self.lifetime);
    }
}

#[cfg(test)]
mod tests;
