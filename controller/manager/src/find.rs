//! Which sandbox an ID means, and whether it is the caller's.
//!
//! The cache answers almost always. A sandbox that another replica has just made may not be in it yet, so a
//! miss is asked of the API server: by the label with the ID, and for an ID of the form `namespace--name` by
//! the name. Few of these questions are under way at a time, and fewer of one owner, so that nobody waits for
//! what another asks: see [`Lookups`]. An ID that was not found is not asked for again for a moment: IDs are
//! random, so nobody asks for one before it exists.
//!
//! Another owner's sandbox is answered like one that does not exist.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sandgate_cache::predicates::is_claimed;
use sandgate_cache::{Key, ReadError, Seen};
use sandgate_objects::Kind as _;
use sandgate_objects::openkruise::SANDBOX_ID;
use sandgate_objects::openkruise::resources::SandboxFacts;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};
use tokio::time::Instant;

use crate::core::Core;
use crate::describe::{id as id_of, shown};
use crate::{Caller, Error, ErrorKind};

/// How many questions to the API server are under way at a time.
const AT_A_TIME: usize = 8;
/// How many of them are one owner's.
const OF_ONE: usize = 4;
/// How many questions of one owner wait for a turn or have one. What comes then is told to come later.
const WAITING: usize = 64;
/// How long an ID that was not found is not asked for again.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(1);
/// How many such IDs are remembered.
const REMEMBERED: usize = 1024;
/// The longest value of a label.
const MAX_LABEL: usize = 63;
/// The longest ID: a namespace, two hyphens and a name.
const MAX_ID: usize = 63 + 2 + 253;
/// How many ways there are to read an ID as `namespace--name`.
const SPLITS: usize = 4;

/// What limits the questions to the API server.
///
/// A question first waits for a turn of its owner, then for a turn among those of all owners, which is given
/// in the order of asking. So no more than [`OF_ONE`] questions of any other owner go before it.
pub(crate) struct Lookups {
    turns: Semaphore,
    owners: Mutex<BTreeMap<Arc<str>, Line>>,
    /// Until when an ID is not asked for, by the namespace that was searched (empty is all) and the ID.
    missing: Mutex<BTreeMap<(String, String), Instant>>,
}

/// The questions of one owner.
struct Line {
    turns: Arc<Semaphore>,
    asked: usize,
}

/// A place in the line of an owner, until it is dropped.
struct Asking<'a> {
    lookups: &'a Lookups,
    owner: Arc<str>,
    turns: Arc<Semaphore>,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let mut owners = self.lookups.owners.lock();
        if let Some(line) = owners.get_mut(&self.owner) {
            line.asked -= 1;
            if line.asked == 0 {
                owners.remove(&self.owner);
            }
        }
    }
}

/// A turn, until it is dropped. The fields are dropped in this order: the place goes last.
pub(crate) struct Asked<'a> {
    _turn: SemaphorePermit<'a>,
    _own: OwnedSemaphorePermit,
    _asking: Asking<'a>,
}

impl Default for Lookups {
    fn default() -> Self {
        Self { turns: Semaphore::new(AT_A_TIME), owners: Mutex::default(), missing: Mutex::default() }
    }
}

impl Lookups {
    /// Waits for a turn of this owner.
    pub(crate) async fn turn(&self, owner: &Arc<str>) -> Result<Asked<'_>, Error> {
        let stopped = |_| Error::new(ErrorKind::Unavailable, "the manager is stopping");
        let asking = self.ask(owner)?;
        let own = Arc::clone(&asking.turns).acquire_owned().await.map_err(stopped)?;
        let turn = self.turns.acquire().await.map_err(stopped)?;
        Ok(Asked { _turn: turn, _own: own, _asking: asking })
    }

    fn ask(&self, owner: &Arc<str>) -> Result<Asking<'_>, Error> {
        let mut owners = self.owners.lock();
        let line = owners
            .entry(Arc::clone(owner))
            .or_insert_with(|| Line { turns: Arc::new(Semaphore::new(OF_ONE)), asked: 0 });
        if line.asked >= WAITING {
            let message =
                "too many requests of this API key at a time are about sandboxes that are not known";
            let retry_after = Some(FORGOTTEN_AFTER);
            return Err(Error { kind: ErrorKind::Busy, message: message.to_owned(), retry_after });
        }
        line.asked += 1;
        Ok(Asking { lookups: self, owner: Arc::clone(owner), turns: Arc::clone(&line.turns) })
    }

    pub(crate) fn is_missing(&self, namespace: Option<&str>, id: &str) -> bool {
        let until = self.missing.lock().get(&place(namespace, id)).copied();
        until.is_some_and(|until| Instant::now() < until)
    }

    pub(crate) fn note_missing(&self, namespace: Option<&str>, id: &str) {
        let now = Instant::now();
        let mut missing = self.missing.lock();
        if missing.len() >= REMEMBERED {
            missing.retain(|_, until| now < *until);
        }
        if missing.len() < REMEMBERED {
            missing.insert(place(namespace, id), now + FORGOTTEN_AFTER);
        }
    }
}

/// Where an ID was not found. One that is missing in a namespace may be in another.
fn place(namespace: Option<&str>, id: &str) -> (String, String) {
    (namespace.unwrap_or_default().to_owned(), id.to_owned())
}

impl Core {
    /// The caller's sandbox of this ID, whatever state it is in.
    pub(crate) async fn find(&self, caller: &Caller, id: &str) -> Result<Arc<Seen<SandboxFacts>>, Error> {
        let namespace = self.namespace_of(caller);
        let found = match self.cache.claimed(namespace, id) {
            Ok(found) => Some(found),
            Err(ReadError::NotFound) => self.find_live(caller, namespace, id).await?,
            // Nobody can say whose it is.
            Err(ReadError::Ambiguous) => None,
        };
        found.filter(|found| is_owned(found, caller)).ok_or_else(|| Error::no_sandbox(id))
    }

    /// The caller's sandbox of this ID, if its owner sees it.
    pub(crate) async fn find_shown(
        &self,
        caller: &Caller,
        id: &str,
    ) -> Result<Arc<Seen<SandboxFacts>>, Error> {
        let found = self.find(caller, id).await?;
        if shown(&found, self.now()).is_some() {
            return Ok(found);
        }
        // It may not have ended: another replica may have moved its end, and the watch may lag.
        let namespace = self.namespace_of(caller);
        if self.lookups.is_missing(namespace, id) {
            return Err(Error::no_sandbox(id));
        }
        let _turn = self.lookups.turn(&caller.owner).await?;
        let again = self.again(caller, id, &found).await;
        if matches!(&again, Err(error) if error.kind == ErrorKind::NotFound) {
            self.lookups.note_missing(namespace, id);
        }
        again
    }

    /// The same as this process knows it: from its watch, or because it has written it. The API server is not
    /// asked.
    pub(crate) fn find_known(&self, caller: &Caller, id: &str) -> Option<Arc<Seen<SandboxFacts>>> {
        let found = self.cache.claimed(self.namespace_of(caller), id).ok();
        found.filter(|found| is_owned(found, caller) && shown(found, self.now()).is_some())
    }

    /// The caller's sandbox, if its owner sees it, as it is at the API server now.
    pub(crate) async fn seen_live(
        &self,
        caller: &Caller,
        id: &str,
    ) -> Result<Arc<Seen<SandboxFacts>>, Error> {
        let found = self.find(caller, id).await?;
        self.again(caller, id, &found).await
    }

    /// A sandbox that was seen, as it is at the API server now. Another object of the same name is not it.
    pub(crate) async fn again(
        &self,
        caller: &Caller,
        id: &str,
        seen: &Seen<SandboxFacts>,
    ) -> Result<Arc<Seen<SandboxFacts>>, Error> {
        let read = self.writes.read::<SandboxFacts>(&seen.key).await.map_err(unread)?;
        let is_it = |read: &Arc<Seen<SandboxFacts>>| {
            // Of what the cache does not follow nobody would see what becomes of a write.
            read.uid == seen.uid
                && is_owned(read, caller)
                && shown(read, self.now()).is_some()
                && self.cache.follows(read)
        };
        read.filter(is_it).ok_or_else(|| Error::no_sandbox(id))
    }

    /// The newest that is known of an object.
    pub(crate) fn newest(&self, seen: &Seen<SandboxFacts>) -> Arc<Seen<SandboxFacts>> {
        let known = self.cache.get::<SandboxFacts>(&seen.key);
        let newer = known.filter(|known| known.uid == seen.uid && known.version > seen.version);
        newer.unwrap_or_else(|| Arc::new(seen.clone()))
    }

    /// The namespace that the caller can see; none is all.
    pub(crate) fn namespace_of<'a>(&'a self, caller: &'a Caller) -> Option<&'a str> {
        caller.namespace.as_deref().or(self.settings.namespace.as_deref())
    }

    async fn find_live(
        &self,
        caller: &Caller,
        namespace: Option<&str>,
        id: &str,
    ) -> Result<Option<Arc<Seen<SandboxFacts>>>, Error> {
        if !is_id(id) || self.lookups.is_missing(namespace, id) {
            return Ok(None);
        }
        let _turn = self.lookups.turn(&caller.owner).await?;
        // The watch may have brought it meanwhile, or somebody else has looked for it.
        if let Ok(found) = self.cache.claimed(namespace, id) {
            return Ok(Some(found));
        }
        if self.lookups.is_missing(namespace, id) {
            return Ok(None);
        }
        let labelled = if id.len() <= MAX_LABEL {
            let selector = format!("{SANDBOX_ID}={id}");
            self.writes.list::<SandboxFacts>(namespace, &selector, 2).await.map_err(unread)?
        } else {
            Vec::new()
        };
        let mut claimed = labelled.into_iter().filter(|found| is_claimed(found) && self.cache.follows(found));
        let found = match (claimed.next(), claimed.next()) {
            (Some(one), None) => Some(one),
            (Some(_), Some(_)) => None,
            (None, _) => self.find_named(namespace, id).await?,
        };
        if found.is_none() {
            self.lookups.note_missing(namespace, id);
        }
        Ok(found)
    }

    /// The sandbox whose name the ID is.
    async fn find_named(
        &self,
        namespace: Option<&str>,
        id: &str,
    ) -> Result<Option<Arc<Seen<SandboxFacts>>>, Error> {
        for (at, _) in id.match_indices("--").take(SPLITS) {
            let (of, name) = (&id[..at], &id[at + 2..]);
            if of.is_empty() || name.is_empty() || namespace.is_some_and(|namespace| namespace != of) {
                continue;
            }
            let read = self.writes.read::<SandboxFacts>(&Key::new(of, name)).await.map_err(unread)?;
            let is_it = |found: &Arc<Seen<SandboxFacts>>| {
                is_claimed(found) && id_of(found) == id && self.cache.follows(found)
            };
            if let Some(found) = read.filter(is_it) {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}

/// Whether a claimed sandbox is the caller's.
fn is_owned(sandbox: &Seen<SandboxFacts>, caller: &Caller) -> bool {
    let is_visible = caller.namespace.as_deref().is_none_or(|namespace| namespace == &*sandbox.key.namespace);
    is_visible && is_claimed(sandbox) && sandbox.owner().is_ok_and(|owner| owner == &*caller.owner)
}

/// A read that failed did nothing.
pub(crate) fn unread(error: sandgate_cache::WriteError) -> Error {
    let mut error = Error::from(error);
    error.kind = ErrorKind::Unavailable;
    error.retry_after = Some(Duration::from_secs(1));
    error
}

/// Whether the text can be an ID: it has the characters of a label's value, and may be as long as a namespace
/// and a name.
pub(crate) fn is_id(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (1..=MAX_ID).contains(&text.len())
        && text.bytes().all(is_inner)
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.ends_with(|c: char| c.is_ascii_alphanumeric())
}
