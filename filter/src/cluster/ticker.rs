//! A clock for the main thread: Envoy gives a cluster no timer there.
//!
//! One thread, asleep until the next time it was asked for. It is started by the first request for a tick, so that a
//! config that is only validated starts nothing, and it has ended when [`Ticker::stop`] returns.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use super::shared::Shared;

#[derive(Default)]
struct State {
    due: Option<Instant>,
    stopped: bool,
}

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    changed: Condvar,
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
        let mut state = self.inner.lock();
        if state.stopped || state.due.is_some_and(|known| known <= due) {
            return;
        }
        state.due = Some(due);
        drop(state);
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
        self.inner.lock().stopped = true;
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
    let mut state = inner.lock();
    while !state.stopped {
        let now = Instant::now();
        state = match state.due {
            Some(due) if due <= now => {
                state.due = None;
                drop(state);
                match shared.upgrade() {
                    Some(shared) => shared.tell_now(),
                    None => return,
                }
                inner.lock()
            }
            Some(due) => {
                inner.changed.wait_timeout(state, due - now).unwrap_or_else(PoisonError::into_inner).0
            }
            None => inner.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
        };
    }
}
