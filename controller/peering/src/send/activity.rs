//! Asks gateways which sandboxes were used, and when: the operator's side of `GET /activity`.
//!
//! Each gateway knows what went through it, and nothing of the others. So one that does not answer may have
//! seen what nobody else has: its error is in the answer, and whoever acts on idleness leaves that round out.
//! A gateway that restarted knows nothing of the time before ([`Known::complete`]).
//!
//! Each question finds the gateways anew, so that it misses none that has come since, and opens a connection
//! to each: there is one every few seconds at the most.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use form_urlencoded::byte_serialize;
use http::StatusCode;
use serde::Deserialize;
use tokio::sync::{Mutex, Semaphore};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::timeout;

use super::client::explanation;
use super::connection::{Connection, TryError};
use super::credentials::Proofs;
use super::discover::{Discovery, DiscoveryError};
use super::{Credentials, PeerAddress, Peers, PushError};

/// How gateways are asked.
#[derive(Clone, Debug)]
pub struct ActivitySettings {
    /// How long a connection may take, TLS included.
    pub connect_timeout: Duration,
    /// How long one gateway may take, all its pages included.
    pub timeout: Duration,
    /// The gateways that are asked at a time.
    pub at_once: usize,
    /// The largest page.
    pub max_page_bytes: usize,
    /// The most sandboxes that one gateway may name.
    pub max_sandboxes: usize,
}

impl Default for ActivitySettings {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(2),
            timeout: Duration::from_secs(10),
            at_once: 8,
            max_page_bytes: 16 << 20,
            max_sandboxes: 1_000_000,
        }
    }
}

/// Why one gateway has not answered. Another question may help, later.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// It took too long.
    #[error("no answer in time")]
    Timeout,
    /// There was no connection, or it broke, or an answer was larger than a page may be.
    #[error("{0}")]
    Unreached(String),
    /// It answered that it does not say.
    #[error("{status}: {reason}")]
    Refused {
        /// The status.
        status: StatusCode,
        /// Its words.
        reason: String,
    },
    /// The answer was not understood.
    #[error("the answer was not understood")]
    Malformed,
    /// It named more sandboxes than it may.
    #[error("it named more than {0} sandboxes")]
    TooMany(usize),
    /// It began anew between two pages.
    #[error("it was restarted meanwhile")]
    Restarted,
}

impl From<TryError> for AskError {
    fn from(error: TryError) -> Self {
        match error {
            TryError::ConnectTimeout | TryError::AnswerTimeout => Self::Timeout,
            error => Self::Unreached(error.to_string()),
        }
    }
}

/// What one gateway knows. Its times are seconds since 1970 by its own clock: compare them with each other
/// and not with a clock of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// When the gateway began.
    pub start: u64,
    /// From when on nothing is missing.
    pub complete: u64,
    /// When it answered.
    pub now: u64,
    /// The sandboxes that were used, by their UIDs.
    pub sandboxes: BTreeMap<String, ActiveSandbox>,
}

impl Known {
    /// For how long this gateway has certainly moved nothing of the sandbox. Nothing while a request is in
    /// flight.
    pub fn quiet_for(&self, uid: &str) -> Duration {
        let last = self.sandboxes.get(uid).map_or(0, |sandbox| match sandbox.open {
            0 => sandbox.last_active,
            _ => self.now,
        });
        Duration::from_secs(self.now.saturating_sub(last.max(self.complete)))
    }
}

/// A sandbox that was used.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ActiveSandbox {
    /// What requests say.
    pub id: String,
    /// The UID of its identity.
    pub uid: String,
    /// The object's namespace.
    pub namespace: String,
    /// The object's name.
    pub name: String,
    /// When it was last used, at the latest.
    pub last_active: u64,
    /// The requests in flight.
    pub open: u32,
}

/// The first line of a page.
#[derive(Deserialize)]
struct Head {
    start: u64,
    complete: u64,
    now: u64,
    #[serde(default)]
    next: Option<String>,
}

/// Asks gateways for the activity of sandboxes. Clones share one state.
#[derive(Clone)]
pub struct ActivityClient(Arc<Inner>);

struct Inner {
    settings: ActivitySettings,
    proofs: Proofs,
    discovery: Mutex<Discovery>,
}

impl ActivityClient {
    /// Reads the credentials. Nobody is asked yet.
    ///
    /// # Errors
    /// When a file with credentials is missing or wrong.
    pub fn new(
        settings: ActivitySettings,
        peers: Peers,
        credentials: &Credentials,
    ) -> Result<Self, PushError> {
        let proofs = Proofs::read(credentials)?;
        let discovery = Mutex::new(Discovery::new(peers).and_draining());
        Ok(Self(Arc::new(Inner { settings, proofs, discovery })))
    }

    /// Asks every gateway about the sandboxes of a provider that were used in the second `since` or later,
    /// and returns what each of them said. There may be no gateway. Files with credentials that have changed
    /// are read again.
    ///
    /// # Errors
    /// When the gateways cannot be found: then nobody was asked.
    pub async fn ask(
        &self,
        provider: &str,
        since: u64,
    ) -> Result<BTreeMap<PeerAddress, Result<Known, AskError>>, DiscoveryError> {
        let inner = Arc::clone(&self.0);
        // Fails only where the runtime ends.
        let _ = spawn_blocking(move || inner.proofs.reload()).await;
        let found = self.0.discovery.lock().await.find().await?;
        let turns = Arc::new(Semaphore::new(self.0.settings.at_once.max(1)));
        let mut asking = JoinSet::new();
        let mut answers = BTreeMap::new();
        for gateway in found {
            let (inner, turns, provider) = (Arc::clone(&self.0), Arc::clone(&turns), provider.to_owned());
            // Until a task has ended well, its gateway has not answered.
            answers.insert(gateway.clone(), Err(AskError::Unreached("the question was given up".to_owned())));
            asking.spawn(async move {
                // The semaphore is never closed.
                let _turn = turns.acquire().await;
                let asked = timeout(inner.settings.timeout, inner.ask_one(&gateway, &provider, since));
                let answer = asked.await.unwrap_or(Err(AskError::Timeout));
                (gateway, answer)
            });
        }
        while let Some(answered) = asking.join_next().await {
            if let Ok((gateway, answer)) = answered {
                answers.insert(gateway, answer);
            }
        }
        Ok(answers)
    }
}

impl Inner {
    async fn ask_one(&self, gateway: &PeerAddress, provider: &str, since: u64) -> Result<Known, AskError> {
        let tls = self.proofs.tls.as_ref().map(|tls| tls.get());
        let opening = Connection::open(gateway, tls);
        let mut connection =
            timeout(self.settings.connect_timeout, opening).await.map_err(|_| AskError::Timeout)??;
        let mut whole: Option<Known> = None;
        let mut after: Option<String> = None;
        loop {
            let path = path(provider, since, after.as_deref());
            let authorization = self.proofs.authorization("GET", &path, b"").map_err(TryError::from)?;
            let answer =
                connection.get(&path, authorization.as_deref(), self.settings.max_page_bytes).await?;
            if answer.status != StatusCode::OK {
                let reason = explanation(&answer.body);
                return Err(AskError::Refused { status: answer.status, reason });
            }
            let (head, sandboxes) = page(&answer.body)?;
            let known = whole.get_or_insert_with(|| Known {
                start: head.start,
                complete: head.complete,
                now: head.now,
                sandboxes: BTreeMap::new(),
            });
            if head.start != known.start {
                return Err(AskError::Restarted);
            }
            known.complete = known.complete.max(head.complete);
            for sandbox in sandboxes {
                let place = known.sandboxes.entry(sandbox.uid.clone()).or_insert_with(|| sandbox.clone());
                // One that is named twice was in use when it was in use by either.
                place.last_active = place.last_active.max(sandbox.last_active);
                place.open = place.open.max(sandbox.open);
            }
            if known.sandboxes.len() > self.settings.max_sandboxes {
                return Err(AskError::TooMany(self.settings.max_sandboxes));
            }
            match head.next {
                None => return whole.ok_or(AskError::Malformed),
                // Each page is after the one before, so that the pages end.
                Some(next) if after.as_ref().is_none_or(|after| next > *after) => after = Some(next),
                Some(_) => return Err(AskError::Malformed),
            }
        }
    }
}

/// The path of a page, with its query.
fn path(provider: &str, since: u64, after: Option<&str>) -> String {
    let mut path = String::from("/activity?provider=");
    path.extend(byte_serialize(provider.as_bytes()));
    // Writing to a string does not fail.
    let _ = write!(path, "&since={since}");
    if let Some(after) = after {
        path.push_str("&after=");
        path.extend(byte_serialize(after.as_bytes()));
    }
    path
}

/// Reads a page.
fn page(body: &[u8]) -> Result<(Head, Vec<ActiveSandbox>), AskError> {
    let mut lines = body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let head = lines.next().and_then(|line| serde_json::from_slice(line).ok()).ok_or(AskError::Malformed)?;
    let sandboxes = lines.map(serde_json::from_slice).collect::<Result<_, _>>();
    Ok((head, sandboxes.map_err(|_| AskError::Malformed)?))
}
