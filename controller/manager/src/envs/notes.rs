//! What pools are told in annotations: how many claims of this replica wait, and when the last one was.
//!
//! - `sandgate.dev/pending-{replica}` is `{count}@{time}`. It is written when the count changes, renewed
//!   while it is not zero, and taken off at zero and at the end of the process. The operator forgets one that
//!   is not renewed. The count is that of the time: what the line has at the write, not what it told last.
//! - `agentbox.navix.sh/last-sandbox-create-time` is written a few seconds after a claim, once for all claims
//!   of that time.
//!
//! Each is one key of a merge patch with the UID of the pool and without its version: two replicas write
//! different keys, so nothing of the other's is lost. Of the time of the last claim the last writer's is as
//! good as the other's, a few seconds apart.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use sandgate_cache::Key;
use sandgate_envs::change::written;
use sandgate_envs::scheduler::Scheduler;
use sandgate_objects::sandbox_env::names::{ANNOTATION_LAST_CREATE, PREFIX_PENDING};
use sandgate_objects::sandbox_env::resources::SandboxPool;
use serde_json::{Map, Value, json};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::pods::EnvPods;
use crate::core::Core;

/// How often the count of claims that wait is said anew. The operator believes it for 30 s.
const RENEWED: Duration = Duration::from_secs(10);
/// How long after a claim its time is written.
const GATHERED: Duration = Duration::from_secs(5);
/// How long after a failure it is tried again.
const AGAIN: Duration = Duration::from_secs(1);

/// What is to be told.
pub(super) struct Notes {
    core: Weak<Core>,
    /// The annotation of this replica.
    pending: String,
    pools: Mutex<BTreeMap<Key, Note>>,
    bell: Notify,
}

/// What one pool is to be told.
#[derive(Debug, Default)]
struct Note {
    /// How many claims wait.
    waiting: usize,
    /// Whether the pool has the annotation, as far as is known.
    is_told: bool,
    /// When the count is written.
    count_due: Option<Instant>,
    /// The last claim.
    claimed: Option<Timestamp>,
    /// When its time is written.
    claim_due: Option<Instant>,
}

impl Note {
    fn due(&self) -> Option<Instant> {
        [self.count_due, self.claim_due].into_iter().flatten().min()
    }
}

impl Notes {
    pub(super) fn new(core: &Arc<Core>, replica: &str) -> Self {
        Self {
            core: Arc::downgrade(core),
            pending: format!("{PREFIX_PENDING}{replica}"),
            pools: Mutex::default(),
            bell: Notify::new(),
        }
    }

    /// So many claims wait for a pod of the pool.
    pub(super) fn waiting(&self, pool: &Key, claims: usize) {
        let mut pools = self.pools.lock();
        let note = pools.entry(pool.clone()).or_default();
        note.waiting = claims;
        note.count_due = Some(Instant::now());
        self.bell.notify_one();
    }

    /// A pod of the pool was claimed now.
    pub(super) fn claimed(&self, pool: &Key) {
        let Some(core) = self.core.upgrade() else { return };
        let mut pools = self.pools.lock();
        let note = pools.entry(pool.clone()).or_default();
        note.claimed = Some(core.now());
        if note.claim_due.is_none() {
            note.claim_due = Some(Instant::now() + GATHERED);
            self.bell.notify_one();
        }
    }

    /// Writes what is due, for ever.
    pub(super) async fn keep(&self, lines: &Scheduler<EnvPods>) {
        loop {
            let next = self.pools.lock().values().filter_map(Note::due).min();
            tokio::select! {
                biased;
                () = self.bell.notified() => {}
                () = async { match next {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                } } => {}
            }
            for pool in self.all_due() {
                self.write(&pool, lines).await;
            }
        }
    }

    /// Takes the annotations of this replica off, and writes the last claims.
    pub(super) async fn end(&self, lines: &Scheduler<EnvPods>) {
        let pools: Vec<Key> = {
            let mut pools = self.pools.lock();
            for note in pools.values_mut() {
                note.waiting = 0;
                note.count_due = note.is_told.then(Instant::now);
                note.claim_due = note.claimed.map(|_| Instant::now());
            }
            pools.iter().filter(|(_, note)| note.due().is_some()).map(|(pool, _)| pool.clone()).collect()
        };
        for pool in pools {
            self.write(&pool, lines).await;
        }
    }

    fn all_due(&self) -> Vec<Key> {
        let now = Instant::now();
        let pools = self.pools.lock();
        let is_due = |note: &Note| note.due().is_some_and(|due| due <= now);
        pools.iter().filter(|(_, note)| is_due(note)).map(|(pool, _)| pool.clone()).collect()
    }

    /// Writes what a pool is to be told. What could not be written is due again soon.
    async fn write(&self, pool: &Key, lines: &Scheduler<EnvPods>) {
        let Some(core) = self.core.upgrade() else { return };
        let Some(known) = core.cache.get::<SandboxPool>(pool) else {
            // Nobody asks a pool that is gone.
            self.pools.lock().remove(pool);
            return;
        };
        let (annotations, said) = {
            let mut pools = self.pools.lock();
            let Some(note) = pools.get_mut(pool) else { return };
            (note.count_due, note.claim_due) = (None, None);
            let is_counted = match lines.demand(pool) {
                // The line says so itself, in a moment. Until then the old count keeps its old time.
                0 if note.waiting > 0 => {
                    note.count_due = Some(Instant::now() + AGAIN);
                    false
                }
                demand => {
                    if note.waiting > 0 {
                        note.waiting = demand;
                    }
                    true
                }
            };
            let annotations = self.annotations(note, is_counted, core.now());
            // A write without an answer may have been done.
            note.is_told |= is_counted && note.waiting > 0;
            (annotations, (is_counted.then_some(note.waiting), note.claimed))
        };
        if !annotations.is_empty() {
            let patch = json!({"metadata": {"annotations": annotations}});
            if let Err(error) = core.writes.patch_any_version(&known, patch).await {
                tracing::warn!(%pool, "the pool was not told of its claims: {error}");
                let mut pools = self.pools.lock();
                let note = pools.entry(pool.clone()).or_default();
                note.count_due.get_or_insert(Instant::now() + AGAIN);
                if note.claimed.is_some() {
                    note.claim_due.get_or_insert(Instant::now() + AGAIN);
                }
                return;
            }
        }
        self.was_written(pool, said);
    }

    /// What is left to say of a pool after this was said.
    fn was_written(&self, pool: &Key, (waiting, claimed): (Option<usize>, Option<Timestamp>)) {
        let mut pools = self.pools.lock();
        let Some(note) = pools.get_mut(pool) else { return };
        note.is_told = waiting.map_or(note.is_told, |waiting| waiting > 0);
        if note.claimed == claimed {
            note.claimed = None;
        }
        if note.waiting > 0 {
            note.count_due.get_or_insert(Instant::now() + RENEWED);
        }
        if note.due().is_none() {
            pools.remove(pool);
        }
    }

    fn annotations(&self, note: &Note, is_counted: bool, now: Timestamp) -> Map<String, Value> {
        let mut annotations = Map::new();
        if is_counted && note.waiting > 0 {
            annotations.insert(self.pending.clone(), format!("{}@{}", note.waiting, written(now)).into());
        } else if is_counted && note.is_told {
            annotations.insert(self.pending.clone(), Value::Null);
        }
        if let Some(claimed) = note.claimed {
            annotations.insert(ANNOTATION_LAST_CREATE.to_owned(), written(claimed).into());
        }
        annotations
    }
}
