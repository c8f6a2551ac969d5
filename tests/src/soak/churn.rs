//! What all who take part in a churn share: their pace, its end, and what they did.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Interval, MissedTickBehavior, interval};

/// How many unexpected things are told; all are counted.
const TOLD: usize = 20;

pub(super) struct Churn {
    speed: f64,
    over: watch::Sender<bool>,
    numbers: AtomicU32,
    done: Mutex<BTreeMap<&'static str, u64>>,
    unexpected: Mutex<Vec<String>>,
}

impl Churn {
    /// A churn whose rates are all multiplied with `speed`.
    pub(super) fn new(speed: f64) -> Self {
        Self {
            speed,
            over: watch::channel(false).0,
            numbers: AtomicU32::new(0),
            done: Mutex::default(),
            unexpected: Mutex::default(),
        }
    }

    /// Rounds at this rate a second, until the churn is over.
    pub(super) fn turns(&self, rate: f64) -> Turns {
        let mut ticks = interval(Duration::from_secs_f64(1.0 / (rate * self.speed)));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Turns { ticks, over: self.over.subscribe() }
    }

    pub(super) fn stop(&self) {
        self.over.send_replace(true);
    }

    /// A number that no other call gives.
    pub(super) fn number(&self) -> u32 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn did(&self, what: &'static str) {
        *lock(&self.done).entry(what).or_default() += 1;
    }

    pub(super) fn done(&self) -> Vec<(&'static str, u64)> {
        lock(&self.done).iter().map(|(what, count)| (*what, *count)).collect()
    }

    /// Whether each of these has been done so often.
    pub(super) fn has_done(&self, kinds: &[&str], least: u64) -> bool {
        let done = lock(&self.done);
        kinds.iter().all(|kind| done.get(kind).is_some_and(|count| *count >= least))
    }

    pub(super) fn unexpected(&self, what: String) {
        self.did("unexpected");
        let mut unexpected = lock(&self.unexpected);
        if unexpected.len() < TOLD {
            unexpected.push(what);
        }
    }

    pub(super) fn unexpected_so_far(&self) -> Vec<String> {
        lock(&self.unexpected).clone()
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The rounds of one who takes part.
pub(super) struct Turns {
    ticks: Interval,
    over: watch::Receiver<bool>,
}

impl Turns {
    /// Waits for the next round; `false` when there is none.
    pub(super) async fn next(&mut self) -> bool {
        tokio::select! {
            biased;
            _ = self.over.wait_for(|over| *over) => false,
            _ = self.ticks.tick() => true,
        }
    }
}
