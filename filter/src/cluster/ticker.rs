//! A clock for the main thread: Envoy gives a cluster no timer there.
//!
//! One thread, asleep until the next time it was asked for. It is started by the first request for a tick, so
//! that a config that is only validated starts nothing, and it has ended when [`Ticker::stop`] returns. It
//! also lets the requests go on that were held and take turns ([`Release`]), which the main thread need not
//! be woken for.

use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::release::Release;
use super::shared::{Shared, Waker, Wakeup};

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
