//! A clock for the main thread: Envoy gives a cluster no timer there.
//!
//! One thread, asleep until the next time it was asked for. It is started by the first request for a tick, so
//! that a config that is only validated starts nothing, and it has ended when [`Ticker::stop`] returns.
//!
//! The thread also releases held requests a few at a time ([`Release`]), for which the main thread need not
//! be woken. If all requests whose hosts were added in one batch went on at once, their worker would serve
//! nobody else until each of them has opened its connection, and again when their answers come together. If
//! many are ready, more of them go on at a time: the last one waits for some [`SHARE`] turns longer, whatever
//! their number.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::shared::{Shared, Waker, Wakeup};

/// How many go on at a time, for each worker.
const FEW: usize = 4;
/// Or this part of those that are ready.
const SHARE: usize = 8;
/// How long the next ones wait.
const TURN: Duration = Duration::from_millis(1);

#[derive(Default)]
struct State {
    /// When the main thread is to be told.
    due: Option<Instant>,
    release: Release<Waker>,
    stopped: bool,
}

impl State {
    /// When there is something to do, if ever.
    fn next(&self) -> Option<Instant> {
        self.due.into_iter().chain(self.release.due()).min()
    }
}

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    changed: Condvar,
}

pub(crate) struct Ticker {
    shared: Weak<Shared>,
    inner: Arc<Inner>,
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        Self { shared: Arc::downgrade(shared), inner: Arc::default(), thread: None }
    }

    /// Has the main thread told at `due`, or earlier.
    pub(crate) fn at(&mut self, due: Instant) {
        let mut state = self.inner.state.lock();
        if state.stopped || state.due.is_some_and(|known| known <= due) {
            return;
        }
        state.due = Some(due);
        drop(state);
        self.wake();
    }

    /// Lets requests that were held decide again: some at once, the others in turn.
    pub(crate) fn release(&mut self, wakers: Vec<Waker>) {
        if wakers.is_empty() {
            return;
        }
        let workers = self.shared.upgrade().map_or(1, |shared| shared.workers());
        let mut state = self.inner.state.lock();
        state.release.add(wakers);
        let first = state.release.take(Instant::now(), workers);
        let more = state.release.due().is_some() && !state.stopped;
        drop(state);
        decide_again(first);
        if more {
            self.wake();
        }
    }

    /// Has the thread look again at what is next.
    fn wake(&mut self) {
        self.inner.changed.notify_one();
        if self.thread.is_none() {
            let (shared, inner) = (self.shared.clone(), Arc::clone(&self.inner));
            let started =
                thread::Builder::new().name("sandgate-hosts".to_owned()).spawn(move || run(&shared, &inner));
            match started {
                Ok(thread) => self.thread = Some(thread),
                Err(error) => tracing::error!(%error, "cannot start the thread that times the hosts"),
            }
        }
    }

    pub(crate) fn stop(&mut self) {
        let mut state = self.inner.state.lock();
        state.stopped = true;
        let held = state.release.take_all();
        drop(state);
        decide_again(held);
        self.inner.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been logged by the panic hook.
            let _ = thread.join();
        }
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.stop();
    }
}

fn run(shared: &Weak<Shared>, inner: &Inner) {
    let mut state = inner.state.lock();
    while !state.stopped {
        let now = Instant::now();
        match state.next() {
            Some(next) if next <= now => {
                let due = state.due.take_if(|due| *due <= now).is_some();
                let Some(shared) = shared.upgrade() else { return };
                let released = state.release.take(now, shared.workers());
                MutexGuard::unlocked(&mut state, || {
                    decide_again(released);
                    if due {
                        shared.notify_now();
                    }
                });
            }
            // The loop checks again after a timeout and after a notification.
            Some(next) => drop(inner.changed.wait_for(&mut state, next - now)),
            None => inner.changed.wait(&mut state),
        }
    }
}

/// Has these requests decide again.
pub(crate) fn decide_again(wakers: impl IntoIterator<Item = Waker>) {
    for waker in wakers {
        waker.wake(Wakeup::DecideAgain);
    }
}

/// Held requests that may go on, and when the next of them do.
struct Release<W> {
    ready: VecDeque<W>,
    next: Option<Instant>,
}

impl<W> Default for Release<W> {
    fn default() -> Self {
        Self { ready: VecDeque::new(), next: None }
    }
}

impl<W> Release<W> {
    /// These may go on.
    fn add(&mut self, ready: Vec<W>) {
        self.ready.extend(ready);
    }

    /// Those that go on now.
    #[must_use]
    fn take(&mut self, now: Instant, workers: usize) -> Vec<W> {
        if self.ready.is_empty() || self.next.is_some_and(|next| now < next) {
            return Vec::new();
        }
        self.next = Some(now + TURN);
        let count = (FEW * workers.max(1)).max(self.ready.len() / SHARE).min(self.ready.len());
        self.ready.drain(..count).collect()
    }

    /// When the next ones go on, if any wait.
    fn due(&self) -> Option<Instant> {
        self.next.filter(|_| !self.ready.is_empty())
    }

    /// Everybody who waits still.
    fn take_all(&mut self) -> VecDeque<W> {
        std::mem::take(&mut self.ready)
    }
}
