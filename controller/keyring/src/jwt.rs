//! The keys of traffic JWTs: when they are fetched, and what becomes of what was fetched.
//!
//! One task fetches, one fetch at a time. It fetches
//!
//! 1. at once when it starts, and after a failure again: after 1 s, which doubles to 30 s;
//! 2. on a timer, give or take a tenth, so that many gateways do not ask at the same moment;
//! 3. when somebody waits for newer keys, but not earlier than `min-refetch-seconds` after the fetch before.
//!    If that one brought new keys, it may be asked for more at once: a stranger's made-up key ID never
//!    does that, and a rotation must not keep those waiting who came during the fetch.
//!
//! Who waits is woken after the fetch that *began* after they asked. One that began before may have read the
//! keys before the issuer added the one they look for.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use sandgate_auth::{JwtKeys, KeySet, Verifier};
use sandgate_follow::shorten;
use sandgate_peering::{LogLimit, pem};
use tokio::time::{Instant, sleep_until};

use crate::Wake;
use crate::error::{KeyringError, read};
use crate::settings::{JwtOrigin, JwtSettings};
use crate::status::{KeySource, Loaded, SourceStatus};

mod origin;
mod waiters;

#[cfg(test)]
pub(crate) mod tests;

use origin::{Fetch, Fetched, OriginError};
use waiters::Waiters;

/// The first and the longest wait after a failure.
const RETRY: Duration = Duration::from_secs(1);
const RETRY_CAP: Duration = Duration::from_secs(30);

/// A look at a file is cheap: nothing is won by looking seldom.
const FILE: Timing = Timing {
    refresh: Duration::from_secs(1),
    jitter: false,
    min_refetch: Duration::from_millis(50),
    retry_cap: Duration::from_secs(1),
};

/// What the task works on. It outlives the task: the next one goes on from the last good keys.
pub(crate) struct Jwt {
    fetch: Fetch,
    timing: Timing,
    leeway: Duration,
    waiters: Waiters,
    status: Arc<SourceStatus>,
    failures: LogLimit,
}

#[derive(Clone, Copy)]
struct Timing {
    refresh: Duration,
    /// Whether the time between two fetches varies by a tenth.
    jitter: bool,
    min_refetch: Duration,
    retry_cap: Duration,
}

impl Jwt {
    /// Checks what is in files, and returns the keys to begin with. Blocks.
    pub(crate) fn new(settings: &JwtSettings) -> Result<(Self, JwtKeys), KeyringError> {
        let make = |from: String, timing| Self {
            fetch: origin::fetch(settings),
            timing,
            leeway: settings.leeway,
            waiters: Waiters::default(),
            status: SourceStatus::new(KeySource::TrafficJwt, vec![from]),
            failures: LogLimit::default(),
        };
        match &settings.origin {
            JwtOrigin::File { path, issuer } => {
                let jwt = make(path.display().to_string(), FILE);
                let keys = KeySet::parse(&read(path)?)
                    .map_err(|source| KeyringError::KeySet { file: path.clone(), source })?;
                let keys = jwt.loaded(keys, issuer.clone());
                Ok((jwt, keys))
            }
            JwtOrigin::Url { url, .. } | JwtOrigin::Discovery { url, .. } => {
                if let Some(file) = &settings.ca_file {
                    pem::authorities(file)?;
                }
                let timing = Timing {
                    refresh: settings.refresh,
                    jitter: true,
                    min_refetch: settings.min_refetch,
                    retry_cap: RETRY_CAP,
                };
                Ok((make(url.to_string(), timing), JwtKeys::NotReady))
            }
        }
    }

    pub(crate) fn status(&self) -> &Arc<SourceStatus> {
        &self.status
    }

    /// Calls `wake` after the next fetch; false if there is none soon.
    pub(crate) fn newer_keys(&self, wake: Wake) -> bool {
        self.waiters.ask(wake)
    }

    /// Fetches for ever. `keys` are those in use, and `put` is given newer ones.
    pub(crate) async fn run(&self, keys: impl Fn() -> JwtKeys, put: impl Fn(JwtKeys)) {
        let _open = self.waiters.open();
        let mut last = None;
        let mut failures: u32 = 0;
        loop {
            let began = Instant::now();
            let round = self.waiters.begin(began + self.timing.min_refetch);
            let (wait, news) = match self.round(&keys(), &mut last).await {
                Ok(newer) => {
                    failures = 0;
                    let news = newer.is_some();
                    if let Some(newer) = newer {
                        put(newer);
                    }
                    (self.refresh(), news)
                }
                Err(error) => {
                    let wait = RETRY.saturating_mul(1 << failures.min(16)).min(self.timing.retry_cap);
                    failures = failures.saturating_add(1);
                    self.failed(&error, matches!(keys(), JwtKeys::Ready(_)));
                    (wait.min(self.timing.refresh), false)
                }
            };
            // New keys allow another fetch at once.
            self.waiters.end(round, news.then(Instant::now));
            tokio::select! {
                () = sleep_until(Instant::now() + wait) => {}
                () = self.waiters.asked() => {}
            }
        }
    }

    /// One fetch; newer keys if it brought any.
    async fn round(&self, now: &JwtKeys, last: &mut Option<Fetched>) -> Result<Option<JwtKeys>, OriginError> {
        let fetched = (self.fetch)().await?;
        let known = match now {
            JwtKeys::Ready(verifier) => Some(&**verifier),
            JwtKeys::Off | JwtKeys::NotReady => None,
        };
        // What was good before is good now.
        if known.is_some() && last.as_ref() == Some(&fetched) {
            self.confirmed();
            return Ok(None);
        }
        let of_the_issuer = known.filter(|known| known.issuer() == fetched.issuer);
        let keys = match of_the_issuer {
            Some(known) => KeySet::parse_after(&fetched.keys, known.keys())?,
            None => KeySet::parse(&fetched.keys)?,
        };
        let issuer = fetched.issuer.clone();
        *last = Some(fetched);
        if of_the_issuer.is_some_and(|known| known.keys().same_as(&keys)) {
            self.confirmed();
            return Ok(None);
        }
        Ok(Some(self.loaded(keys, issuer)))
    }

    fn loaded(&self, keys: KeySet, issuer: String) -> JwtKeys {
        let ids: Vec<String> = keys.kids().map(shorten).collect();
        let left_out: Vec<String> = keys.unusable().iter().map(ToString::to_string).collect();
        tracing::info!("auth: traffic-jwt: keys of {}: {}", shorten(&issuer), shorten(&ids.join(", ")));
        for key in &left_out {
            tracing::warn!("auth: traffic-jwt: {key}: its tokens are refused");
        }
        self.status.loaded(Loaded {
            keys: ids.len(),
            key_ids: ids,
            left_out,
            issuer: Some(shorten(&issuer)),
        });
        JwtKeys::Ready(Arc::new(Verifier::new(Arc::new(keys), issuer, self.leeway)))
    }

    fn confirmed(&self) {
        if self.status.confirmed() {
            tracing::info!("auth: traffic-jwt: the keys can be read again, and are the same");
        }
    }

    fn failed(&self, error: &OriginError, has_keys: bool) {
        let what = if has_keys { "the last good keys stay in use" } else { "there are no keys yet" };
        self.failures.log(|more| tracing::error!(more, "auth: traffic-jwt: {what}: {error}"));
        self.status.failed(error.to_string());
    }

    /// The time to the next fetch.
    fn refresh(&self) -> Duration {
        let Timing { refresh, jitter, .. } = self.timing;
        if !jitter {
            return refresh;
        }
        // A hash with random keys: a random number without another crate.
        let fraction = f64::from((RandomState::new().hash_one(0) >> 32) as u32) / f64::from(u32::MAX);
        refresh.mul_f64(0.9 + 0.2 * fraction)
    }
}
