//! Who is told of the changes of a kind: handlers, and waiters by object.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::{Mutex, RwLock};
use sandgate_objects::openkruise::resources::{Checkpoint, SandboxFacts, SandboxSet, SandboxTemplate};
use sandgate_objects::sandbox_env::resources::{EnvPod, SandboxEnv, SandboxPool};
use sandgate_routes::Version;

use super::{Inner, Kept, News};
use crate::{Change, Check, ConfigMapFacts, Key, PvcFacts, SecretFacts, Seen, WaitError};

/// Called for every change of a kind, in the order of the changes.
pub(crate) type Handler<T> = Box<dyn Fn(&Change<T>) + Send + Sync>;

/// What a waiter asks of every version that it is shown. It is called under the waiter's lock, so it must not
/// change the cache.
pub(crate) type Predicate<T> = Box<dyn FnMut(&Seen<T>) -> Check + Send>;

/// How a wait ended.
pub(crate) type Outcome<T> = Result<Arc<Seen<T>>, WaitError>;

/// The hubs of all kinds.
#[derive(Default)]
pub struct Hubs {
    pub(super) sandboxes: Hub<SandboxFacts>,
    pub(super) sets: Hub<SandboxSet>,
    pub(super) checkpoints: Hub<Checkpoint>,
    pub(super) templates: Hub<SandboxTemplate>,
    pub(super) secrets: Hub<SecretFacts>,
    pub(super) config_maps: Hub<ConfigMapFacts>,
    pub(super) pvcs: Hub<PvcFacts>,
    pub(super) envs: Hub<SandboxEnv>,
    pub(super) env_pools: Hub<SandboxPool>,
    pub(super) env_pods: Hub<EnvPod>,
}

impl Hubs {
    pub(super) fn tell(&self, news: &News) {
        match news {
            News::Sandbox(change) => self.sandboxes.tell(change),
            News::SandboxSet(change) => self.sets.tell(change),
            News::Checkpoint(change) => self.checkpoints.tell(change),
            News::SandboxTemplate(change) => self.templates.tell(change),
            News::Secret(change) => self.secrets.tell(change),
            News::ConfigMap(change) => self.config_maps.tell(change),
            News::Pvc(change) => self.pvcs.tell(change),
            News::SandboxEnv(change) => self.envs.tell(change),
            News::SandboxPool(change) => self.env_pools.tell(change),
            News::EnvPod(change) => self.env_pods.tell(change),
        }
    }

    /// Ends every wait.
    pub(super) fn cancel(&self) {
        self.sandboxes.cancel();
        self.sets.cancel();
        self.checkpoints.cancel();
        self.templates.cancel();
        self.secrets.cancel();
        self.config_maps.cancel();
        self.pvcs.cancel();
        self.envs.cancel();
        self.env_pools.cancel();
        self.env_pods.cancel();
    }
}

/// Who is told of the changes of one kind.
pub struct Hub<T> {
    pub(super) handlers: Vec<Handler<T>>,
    waiters: Mutex<Waiters<T>>,
}

impl<T> Default for Hub<T> {
    fn default() -> Self {
        Self { handlers: Vec::new(), waiters: Mutex::new(Waiters { next: 0, by_key: BTreeMap::new() }) }
    }
}

/// The waiters of one object, each by the number that it is taken out by: in the order in which they came.
type Numbered<T> = BTreeMap<u64, Arc<Mutex<Waiter<T>>>>;

struct Waiters<T> {
    next: u64,
    /// By object, so that a change costs nothing to those who wait for others.
    by_key: BTreeMap<Key, Numbered<T>>,
}

impl<T> Waiters<T> {
    /// Returns the number of the waiter.
    fn insert(&mut self, key: &Key, waiter: &Arc<Mutex<Waiter<T>>>) -> u64 {
        self.next += 1;
        self.by_key.entry(key.clone()).or_default().insert(self.next, Arc::clone(waiter));
        self.next
    }
}

/// One wait.
pub(crate) struct Waiter<T> {
    uid: Arc<str>,
    /// The newest version that the predicate was asked about.
    newest: Option<Version>,
    predicate: Predicate<T>,
    outcome: Option<Outcome<T>>,
    waker: Option<Waker>,
}

impl<T: Kept> Hub<T> {
    fn tell(&self, change: &Change<T>) {
        for handler in &self.handlers {
            if catch_unwind(AssertUnwindSafe(|| handler(change))).is_err() {
                tracing::error!("a handler of {} panicked", T::PLURAL);
            }
        }
        let Some(seen) = change.after.as_ref().or(change.before.as_ref()) else { return };
        let waiters: Vec<_> = {
            let waiters = self.waiters.lock();
            let Some(waiters) = waiters.by_key.get(&seen.key) else { return };
            waiters.values().cloned().collect()
        };
        for waiter in waiters {
            waiter.lock().told(change);
        }
    }

    fn cancel(&self) {
        let waiters: Vec<_> = {
            let waiters = self.waiters.lock();
            waiters.by_key.values().flat_map(BTreeMap::values).cloned().collect()
        };
        for waiter in waiters {
            waiter.lock().end(Err(WaitError::Cancelled));
        }
    }

    /// Registers a waiter, and shows it the object as the cache has it.
    ///
    /// 1. The waiter is locked.
    /// 2. It is registered, and the object is read, under one lock of the objects.
    /// 3. Its predicate is asked about that version.
    /// 4. The waiter is unlocked.
    ///
    /// A version that is stored after step 2 is told to the waiter after step 4. One that was stored before
    /// is the one of step 2 or older, also if it is told later. So the predicate is asked about every version
    /// from that of step 2 on, in their order.
    pub(super) fn register(
        &self,
        inner: &RwLock<Inner>,
        key: &Key,
        uid: &Arc<str>,
        predicate: Predicate<T>,
    ) -> Registered<'_, T> {
        let waiter = Waiter { uid: Arc::clone(uid), newest: None, predicate, outcome: None, waker: None };
        let waiter = Arc::new(Mutex::new(waiter));
        let mut locked = waiter.lock();
        let (number, known) = {
            let inner = inner.read();
            let number = self.waiters.lock().insert(key, &waiter);
            (number, T::peek(&inner).get(key).filter(|known| known.uid == *uid).cloned())
        };
        if let Some(known) = known {
            locked.look(&known);
        }
        drop(locked);
        Registered { hub: self, key: key.clone(), number, waiter }
    }

    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn waiting(&self) -> usize {
        self.waiters.lock().by_key.values().map(BTreeMap::len).sum()
    }
}

impl<T> Waiter<T> {
    /// A change of the object's name: of this object, or of another of that name.
    fn told(&mut self, change: &Change<T>) {
        let is_it = |seen: &&Arc<Seen<T>>| seen.uid == self.uid;
        if let Some(seen) = change.after.as_ref().filter(is_it) {
            self.look(seen);
        } else if let Some(seen) = change.before.as_ref().filter(is_it)
            // An older end is told late: the object had come back when the wait began.
            && self.newest.as_ref().is_none_or(|newest| *newest <= seen.version)
        {
            self.end(Err(WaitError::Gone));
        }
    }

    /// Asks the predicate about a version, unless it has been asked about this one or a newer one.
    fn look(&mut self, seen: &Arc<Seen<T>>) {
        if self.outcome.is_some() || self.newest.as_ref().is_some_and(|newest| *newest >= seen.version) {
            return;
        }
        self.newest = Some(seen.version.clone());
        match ask(&mut self.predicate, seen) {
            Check::Not => {}
            Check::Done => self.end(Ok(Arc::clone(seen))),
            Check::Failed(why) => self.end(Err(WaitError::Failed(why))),
        }
    }

    fn end(&mut self, outcome: Outcome<T>) {
        if self.outcome.is_none() {
            self.outcome = Some(outcome);
            if let Some(waker) = self.waker.take() {
                waker.wake();
            }
        }
    }
}

/// Asks a predicate. One that panics fails its own wait, and not whoever brought the change.
fn ask<T>(predicate: &mut Predicate<T>, seen: &Seen<T>) -> Check {
    let answer = catch_unwind(AssertUnwindSafe(|| predicate(seen)));
    answer.unwrap_or_else(|_| Check::Failed("the condition of this wait panicked".to_owned()))
}

/// A waiter until it is dropped.
pub(crate) struct Registered<'a, T: Kept> {
    hub: &'a Hub<T>,
    key: Key,
    number: u64,
    waiter: Arc<Mutex<Waiter<T>>>,
}

impl<T: Kept> Registered<'_, T> {
    /// Shows the waiter an object that is not in the cache.
    pub(super) fn look(&self, seen: &Arc<Seen<T>>) {
        self.waiter.lock().look(seen);
    }

    /// Ends the wait.
    pub(super) fn end(&self, outcome: Outcome<T>) {
        self.waiter.lock().end(outcome);
    }

    /// How the wait has ended; none while it goes on.
    pub(super) fn outcome(&self) -> Option<Outcome<T>> {
        self.waiter.lock().outcome.clone()
    }

    /// Whether the predicate was asked about any version.
    pub(super) fn has_looked(&self) -> bool {
        self.waiter.lock().newest.is_some()
    }

    /// Waits for the end.
    pub(super) async fn ended(&self) -> Outcome<T> {
        std::future::poll_fn(|context| self.poll(context)).await
    }

    fn poll(&self, context: &Context<'_>) -> Poll<Outcome<T>> {
        let mut waiter = self.waiter.lock();
        if let Some(outcome) = &waiter.outcome {
            return Poll::Ready(outcome.clone());
        }
        waiter.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

impl<T: Kept> Drop for Registered<'_, T> {
    fn drop(&mut self) {
        let mut waiters = self.hub.waiters.lock();
        if let Some(of_key) = waiters.by_key.get_mut(&self.key) {
            of_key.remove(&self.number);
            if of_key.is_empty() {
                waiters.by_key.remove(&self.key);
            }
        }
    }
}

#[cfg(any(test, feature = "testing"))]
impl super::Cache {
    pub(crate) fn waiting<T: Kept>(&self) -> usize {
        T::hub(&self.shared.hubs).waiting()
    }
}
