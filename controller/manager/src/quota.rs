//! What a key may use at most.
//!
//! A key without limits costs nothing. A key with limits has a ledger, a ConfigMap in the system namespace
//! with one [entry](ledger) for each of its sandboxes. An entry is written before the sandbox is, by a write
//! that holds the version of the ledger that was read: of two replicas that would exceed a limit together,
//! one reads again and refuses. So a limit is never exceeded, whoever dies in between. A resume is admitted
//! like a create where a limit counts what runs.
//!
//! Where the ledger cannot be read or written, the request is refused.
//!
//! Entries of sandboxes that nobody has any more are dropped with the next write, once they are old enough
//! that no replica can still be making the sandbox. What the cache does not have is gone only if the cache
//! has followed the cluster for a while, and only for managers that look after the same sandboxes: of the
//! same `--namespace` and `--selector`. If these flags change for all managers, entries of sandboxes that
//! ended meanwhile stay, and count; a ledger that is deleted is made anew from what lives. A ledger has room
//! for about ten thousand entries.

mod ledger;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use ring::digest::{SHA256, digest};
use sandgate_cache::predicates::wants_pause;
use sandgate_cache::{Cache, ConfigMapFacts, Key, Kind, Seen, WriteError};
use sandgate_objects::openkruise::names::ANNOTATION_LOCK;
use sandgate_objects::openkruise::resources::SandboxFacts;
use serde_json::{Value, json};

use crate::describe::{Size, annotation, template_of};
use crate::envs::{is_live, size_of_pod};
use crate::names::LABEL_KIND;
use crate::secrets::hex;
use crate::{Caller, Error, ErrorKind, Scope, Settings, Writes};
use ledger::{Entry, Exceeded, Ledger, Used};

/// What the scope of an entry ends with that is of an environment's sandbox.
const ENVIRONMENTS: &str = "env";
/// The value of the label that says what the ConfigMap is for.
const KIND_QUOTA: &str = "quota";
/// The key of the ledger in the ConfigMap.
const DATA: &str = "ledger";
/// How often a write is decided anew because somebody else was faster.
const TRIES: usize = 16;

/// How many sandboxes without an entry are looked at before a refusal: another replica may have killed them.
const LOOKS: usize = 16;

/// A cache that has followed the cluster for so long has what happened while it did not.
const CAUGHT_UP: Duration = Duration::from_secs(10);

/// The quotas of all keys.
pub(crate) struct Quota {
    cache: Cache,
    writes: Writes,
    namespace: String,
    grace: Duration,
    /// What managers have in common that look after the same sandboxes.
    scope: String,
    /// The same for sandboxes of environments, which not every manager looks after.
    env_scope: String,
    /// One write at a time for each owner in this process: the others would only be in conflict.
    turns: Mutex<BTreeMap<Arc<str>, Arc<tokio::sync::Mutex<()>>>>,
}

impl Quota {
    /// Quotas of a manager with these settings.
    pub(crate) fn new(cache: Cache, writes: Writes, settings: &Settings) -> Self {
        let namespace = settings.system_namespace.clone();
        let (grace, scope) = (settings.quota_grace, scope_of(settings));
        let env_scope = format!("{scope}{ENVIRONMENTS}");
        Self { cache, writes, namespace, grace, scope, env_scope, turns: Mutex::default() }
    }

    /// Admits a new sandbox of this size. A lock that was admitted before stays admitted, and is not dropped
    /// for a while from now: whoever has waited for long asks again before the sandbox is written. While the
    /// entry is young nothing is written.
    pub(crate) async fn admit(&self, caller: &Caller, lock: &str, size: Size) -> Result<(), Error> {
        if caller.quota.is_empty() {
            return Ok(());
        }
        self.change(caller, |ledger, others, now| {
            let entry = Entry::new(size, &self.scope, now);
            ledger.admit(lock, entry, others, &caller.quota, self.grace / 4)
        })
        .await
    }

    /// The same for the sandbox of this ID in a pod of an environment.
    pub(crate) async fn admit_pod(&self, caller: &Caller, id: &str, size: Size) -> Result<(), Error> {
        if caller.quota.is_empty() {
            return Ok(());
        }
        self.change(caller, |ledger, others, now| {
            let entry = Entry::new(size, &self.env_scope, now);
            ledger.admit(id, entry, others, &caller.quota, self.grace / 4)
        })
        .await
    }

    /// Admits that a paused sandbox, as it was seen, runs again. If it does not come to run, it counts until
    /// the next write sees that it is paused.
    pub(crate) async fn resumed(&self, caller: &Caller, seen: &Seen<SandboxFacts>) -> Result<(), Error> {
        if !caller.quota.iter().any(|limit| limit.scope == Scope::Running) {
            return Ok(());
        }
        let (lock, size) = (annotation(seen, ANNOTATION_LOCK), self.size_of(seen));
        self.change(caller, |ledger, others, now| {
            let entry = Entry::new(size, &self.scope, now).resumed(seen.version.get());
            ledger.resume(lock, entry, others, &caller.quota)
        })
        .await
    }

    /// A sandbox was seen to be paused, and does not count as one that runs. If that cannot be written down,
    /// it counts until the next write sees that it is paused.
    pub(crate) async fn paused(&self, caller: &Caller, seen: &Seen<SandboxFacts>) {
        if caller.quota.iter().any(|limit| limit.scope == Scope::Running) {
            let (lock, version) = (annotation(seen, ANNOTATION_LOCK), seen.version.get());
            let done = self.change(caller, |ledger, _, now| Ok(ledger.pause(lock, version, now))).await;
            note(caller, done);
        }
    }

    /// A sandbox is gone. If that cannot be written down, it counts until its entry is old.
    pub(crate) async fn release(&self, caller: &Caller, lock: &str) {
        if !caller.quota.is_empty() {
            let done = self.change(caller, |ledger, _, _| Ok(ledger.release(lock))).await;
            note(caller, done);
        }
    }

    /// Changes the ledger of an owner. `decide` says whether it has changed anything; it may be called more
    /// than once.
    async fn change(
        &self,
        caller: &Caller,
        mut decide: impl FnMut(&mut Ledger, &[Used], Timestamp) -> Result<bool, Exceeded>,
    ) -> Result<(), Error> {
        let turn = self.turn(&caller.owner);
        let _turn = turn.lock().await;
        let key = Key::new(&self.namespace, &format!("sandgate-quota-{}", caller.owner));
        let mut seen = self.cache.get::<ConfigMapFacts>(&key);
        let (mut is_live, mut has_looked) = (false, false);
        for _ in 0..TRIES {
            let mut ledger = match seen.as_deref().map(read).transpose() {
                Ok(ledger) => ledger.unwrap_or_default(),
                // Nobody knows what is used, so nothing is admitted.
                Err(error) => return Err(unavailable(&error)),
            };
            let now = self.cache.clock().now();
            let (others, keys) = self.look(caller, &mut ledger, now);
            let is_changed = match decide(&mut ledger, &others, now) {
                Ok(is_changed) => is_changed,
                // What the cache says may be old: a refusal is decided on what is true now.
                Err(_) if !is_live => {
                    (seen, is_live) = (self.writes.read(&key).await.map_err(unread)?, true);
                    continue;
                }
                Err(_) if !has_looked && !keys.is_empty() => {
                    for key in keys.iter().take(LOOKS) {
                        self.writes.read::<SandboxFacts>(key).await.map_err(unread)?;
                    }
                    has_looked = true;
                    continue;
                }
                Err(exceeded) => return Err(Error::new(ErrorKind::QuotaExceeded, exceeded.to_string())),
            };
            if !is_changed {
                return Ok(());
            }
            match self.write(&key, seen.as_deref(), &ledger).await {
                Ok(()) => return Ok(()),
                // The next look says what is there. What was written without an answer is in it.
                Err(
                    WriteError::Conflict(_)
                    | WriteError::AlreadyExists(_)
                    | WriteError::NotFound(_)
                    | WriteError::Unanswered(_),
                ) => {}
                Err(error) => return Err(unread(error)),
            }
            (seen, is_live) = (self.writes.read(&key).await.map_err(unread)?, true);
        }
        Err(unavailable("it is changed all the time"))
    }

    /// Brings the ledger up to what the cache knows, and returns what is used without an entry.
    fn look(&self, caller: &Caller, ledger: &mut Ledger, now: Timestamp) -> (Vec<Used>, Vec<Key>) {
        let live = self.cache.live_of(&caller.owner);
        let mut pods = self.cache.pods_of_owner(None, &caller.owner);
        pods.retain(|pod| is_live(pod));
        let by_lock: BTreeMap<&str, &Arc<Seen<SandboxFacts>>> =
            live.iter().map(|seen| (annotation(seen, ANNOTATION_LOCK), seen)).collect();
        if self.cache.healthy_for(CAUGHT_UP) {
            let is_paused = |lock: &str| by_lock.get(lock).map(|seen| wants_pause(seen));
            ledger.follow(is_paused, &self.scope, self.grace, now);
            if self.cache.kinds().any(|kind| kind == Kind::EnvPod) {
                let runs = |id: &str| pods.iter().any(|pod| pod.sandbox_id() == id).then_some(false);
                ledger.follow(runs, &self.env_scope, self.grace, now);
            }
        }
        let unknown = live.iter().filter(|seen| !ledger.has(annotation(seen, ANNOTATION_LOCK)));
        let used = |seen: &Arc<Seen<SandboxFacts>>| {
            (Used { size: self.size_of(seen), runs: !wants_pause(seen) }, seen.key.clone())
        };
        let (mut used, keys): (Vec<_>, Vec<_>) = unknown.map(used).unzip();
        let unknown = pods.iter().filter(|pod| !ledger.has(pod.sandbox_id()));
        used.extend(unknown.map(|pod| Used { size: size_of_pod(&self.cache, pod), runs: true }));
        (used, keys)
    }

    fn size_of(&self, sandbox: &Seen<SandboxFacts>) -> Size {
        let (own, named) = (sandbox.template.as_ref(), sandbox.template_ref.as_deref());
        Size::of(template_of(&self.cache, &sandbox.key.namespace, own, named))
    }

    async fn write(
        &self,
        key: &Key,
        seen: Option<&Seen<ConfigMapFacts>>,
        ledger: &Ledger,
    ) -> Result<(), WriteError> {
        let data = json!({DATA: ledger.to_text()});
        let written = match seen {
            Some(seen) => self.writes.patch(seen, json!({"data": data})).await,
            None => self.writes.create::<ConfigMapFacts>(&self.namespace, &object(key, &data)).await,
        };
        written.map(drop)
    }

    fn turn(&self, owner: &Arc<str>) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.turns.lock();
        turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        Arc::clone(turns.entry(Arc::clone(owner)).or_default())
    }
}

/// A short text that managers of the same `--namespace` and `--selector` have in common; empty for those
/// that look after everything.
fn scope_of(settings: &Settings) -> String {
    let Settings { namespace, selector, .. } = settings;
    if namespace.is_none() && selector.is_empty() {
        return String::new();
    }
    let text = format!("{}/{selector}", namespace.as_deref().unwrap_or_default());
    hex(&digest(&SHA256, text.as_bytes()).as_ref()[..4])
}

fn object(key: &Key, data: &Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": &*key.name, "namespace": &*key.namespace, "labels": {LABEL_KIND: KIND_QUOTA},
        },
        "data": data,
    })
}

fn read(seen: &Seen<ConfigMapFacts>) -> Result<Ledger, String> {
    let text = seen.data.get(DATA).map_or("{}", String::as_str);
    Ledger::read(text).map_err(|error| format!("{} cannot be read: {error}", seen.key))
}

fn note(caller: &Caller, done: Result<(), Error>) {
    if let Err(error) = done {
        tracing::warn!(owner = &*caller.owner, "the quota's ledger was not changed: {error}");
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it maps errors")]
fn unread(error: WriteError) -> Error {
    unavailable(&error.to_string())
}

fn unavailable(why: &str) -> Error {
    Error {
        kind: ErrorKind::Unavailable,
        message: format!("nobody can say whether the quota is used up: {why}"),
        retry_after: Some(Duration::from_secs(1)),
    }
}
