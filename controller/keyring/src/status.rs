//! What a keyring says of itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use tokio::time::Instant;

/// What a source of keys is for: a section of the config.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// OpenSandbox's route keys.
    SecureAccessKeys,
    /// The secrets of scoped tokens.
    ScopedToken,
    /// Bearer tokens.
    Bearer,
    /// The issuer's keys of traffic JWTs.
    TrafficJwt,
}

impl KeySource {
    /// The section's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SecureAccessKeys => "secure-access-keys",
            Self::ScopedToken => "scoped-token",
            Self::Bearer => "bearer",
            Self::TrafficJwt => "traffic-jwt",
        }
    }
}

/// The state of a keyring. It has no key and no token.
#[derive(Clone, Debug)]
pub struct KeyringStatus {
    /// One for each source of keys that is configured.
    pub sources: Vec<KeySourceStatus>,
    /// The reviews of bearer tokens, where they are configured.
    pub reviews: Option<ReviewStatus>,
}

impl KeyringStatus {
    /// The age of the source that is worst off; nothing if there is no source.
    pub fn age(&self) -> Duration {
        self.sources.iter().map(|source| source.age).max().unwrap_or_default()
    }

    /// Whether the last try of every source was good, and the API server answers about tokens.
    pub fn is_good(&self) -> bool {
        self.sources.iter().all(|source| source.error.is_none())
            && self.reviews.as_ref().is_none_or(|reviews| reviews.error.is_none())
    }
}

/// The state of one source of keys.
#[derive(Clone, Debug)]
pub struct KeySourceStatus {
    /// What the keys are for.
    pub source: KeySource,
    /// The files or the URL.
    pub from: Vec<String>,
    /// How many keys or tokens are in use.
    pub keys: usize,
    /// Their IDs, where they have any. An ID is no secret: every token has it.
    pub key_ids: Vec<String>,
    /// Keys that the source has and that cannot be used, and why.
    pub left_out: Vec<String>,
    /// The issuer, for JWTs.
    pub issuer: Option<String>,
    /// When the keys in use were read.
    pub loaded_at: Option<SystemTime>,
    /// The time since the source last had the keys that are in use; without any, since the keyring was made.
    pub age: Duration,
    /// Why the source as it is now is not what is in use. `None` when it is.
    pub error: Option<String>,
    /// How often the keys were read or fetched.
    pub reads: u64,
    /// How often that failed.
    pub failures: u64,
}

/// What a source says of new keys.
#[derive(Default)]
pub(crate) struct Loaded {
    pub(crate) keys: usize,
    pub(crate) key_ids: Vec<String>,
    pub(crate) left_out: Vec<String>,
    pub(crate) issuer: Option<String>,
}

/// One source's side of its status.
pub(crate) struct SourceStatus {
    created: Instant,
    state: Mutex<State>,
}

struct State {
    status: KeySourceStatus,
    confirmed: Option<Instant>,
}

impl SourceStatus {
    pub(crate) fn new(source: KeySource, from: Vec<String>) -> Arc<Self> {
        let status = KeySourceStatus {
            source,
            from,
            keys: 0,
            key_ids: Vec::new(),
            left_out: Vec::new(),
            issuer: None,
            loaded_at: None,
            age: Duration::ZERO,
            error: None,
            reads: 0,
            failures: 0,
        };
        let state = Mutex::new(State { status, confirmed: None });
        Arc::new(Self { created: Instant::now(), state })
    }

    pub(crate) fn name(&self) -> &'static str {
        self.state.lock().status.source.as_str()
    }

    /// New keys are in use.
    pub(crate) fn loaded(&self, loaded: Loaded) {
        let mut state = self.state.lock();
        let Loaded { keys, key_ids, left_out, issuer } = loaded;
        let status = &mut state.status;
        (status.keys, status.key_ids, status.left_out, status.issuer) = (keys, key_ids, left_out, issuer);
        (status.loaded_at, status.error) = (Some(SystemTime::now()), None);
        status.reads += 1;
        state.confirmed = Some(Instant::now());
    }

    /// The keys were fetched, and are those in use. Returns whether the fetch before had failed.
    pub(crate) fn confirmed(&self) -> bool {
        let mut state = self.state.lock();
        state.status.reads += 1;
        state.confirmed = Some(Instant::now());
        state.status.error.take().is_some()
    }

    /// Nothing changed since the last look. What was wrong then still is.
    pub(crate) fn unchanged(&self) {
        let mut state = self.state.lock();
        if state.status.error.is_none() {
            state.confirmed = Some(Instant::now());
        }
    }

    pub(crate) fn failed(&self, error: String) {
        let mut state = self.state.lock();
        state.status.failures += 1;
        state.status.error = Some(error);
    }

    pub(crate) fn read(&self) -> KeySourceStatus {
        let state = self.state.lock();
        let age = state.confirmed.unwrap_or(self.created).elapsed();
        KeySourceStatus { age, ..state.status.clone() }
    }
}

/// The reviews of bearer tokens, counted since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReviewStatus {
    /// Questions to the API server.
    pub asked: u64,
    /// Of these, answered that the token is good.
    pub good: u64,
    /// Of these, answered that it is not.
    pub bad: u64,
    /// Of these, not answered.
    pub failed: u64,
    /// Tokens that were not asked about, because there were too many questions, of all or of their source.
    pub refused: u64,
    /// Answers that are remembered now.
    pub remembered: u64,
    /// Why the last question was not answered. `None` when it was.
    pub error: Option<String>,
}

/// The reviewer's side of its status.
#[derive(Default)]
pub(crate) struct ReviewCounters {
    pub(crate) asked: Counter,
    pub(crate) good: Counter,
    pub(crate) bad: Counter,
    pub(crate) failed: Counter,
    pub(crate) refused: Counter,
    pub(crate) error: Mutex<Option<String>>,
}

impl ReviewCounters {
    pub(crate) fn read(&self, remembered: usize) -> ReviewStatus {
        ReviewStatus {
            asked: self.asked.get(),
            good: self.good.get(),
            bad: self.bad.get(),
            failed: self.failed.get(),
            refused: self.refused.get(),
            remembered: remembered as u64,
            error: self.error.lock().clone(),
        }
    }
}

#[derive(Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn up(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
