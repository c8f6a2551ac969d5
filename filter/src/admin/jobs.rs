//! Work for an admin page that looks at the whole table, done off Envoy's main thread.
//!
//! Envoy asks for a page on its main thread and takes the answer of that call: it cannot be told to come
//! back. So such a page is made on a thread of its own, and the main thread waits for it for [`WAIT`] at
//! most. If the page is not made by then the answer is 202 with the number of the job, and whoever asked asks
//! again for the job. A job's answer is given once.
//!
//! Everything is bounded: one thread, which ends when there is nothing to do, [`MAX`] jobs that wait or are
//! made, and as many answers that nobody has fetched, each for a minute.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

#[cfg(test)]
mod tests;

/// How long the main thread waits for a page.
const WAIT: Duration = Duration::from_millis(30);
/// How many jobs may wait or be made, and how many answers are kept.
const MAX: usize = 4;
/// How long an answer is kept.
const KEPT: Duration = Duration::from_secs(60);

/// A status and a body.
type Page = (u32, String);

/// How a job is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fetched {
    Done(Page),
    /// Ask again for this job.
    UnderWay(u64),
    /// There is no such job, or no longer.
    Unknown,
    /// There are too many jobs.
    Busy,
}

#[derive(Default)]
pub(crate) struct Jobs(Arc<Inner>);

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    done: Condvar,
}

#[derive(Default)]
struct State {
    last: u64,
    waiting: VecDeque<(u64, Box<dyn FnOnce() -> Page + Send>)>,
    making: Option<u64>,
    made: VecDeque<Made>,
    /// Whether there is a thread that looks at `waiting`.
    working: bool,
}

struct Made {
    job: u64,
    at: Instant,
    answer: Page,
}

impl Jobs {
    /// Has a page made, and waits for it for a moment.
    pub(super) fn make(&self, page: impl FnOnce() -> Page + Send + 'static) -> Fetched {
        let mut state = self.0.state.lock();
        if state.waiting.len() + usize::from(state.making.is_some()) >= MAX {
            return Fetched::Busy;
        }
        if !state.working {
            let inner = Arc::clone(&self.0);
            // Its own name for those who look at the process's threads.
            if let Err(error) =
                thread::Builder::new().name("sandgate-pages".to_owned()).spawn(move || work(&inner))
            {
                tracing::error!("cannot start the thread that makes admin pages: {error}");
                return Fetched::Busy;
            }
            state.working = true;
        }
        state.last += 1;
        let job = state.last;
        state.waiting.push_back((job, Box::new(page)));
        self.0.done.wait_while_for(&mut state, |state| state.is_pending(job), WAIT);
        drop(state);
        self.fetch(job)
    }

    /// The answer of a job, if it is there: whoever asks again does so often enough.
    pub(super) fn fetch(&self, job: u64) -> Fetched {
        let mut state = self.0.state.lock();
        state.forget(Instant::now());
        if state.is_pending(job) {
            return Fetched::UnderWay(job);
        }
        match state.made.iter().position(|made| made.job == job).and_then(|at| state.made.remove(at)) {
            Some(made) => Fetched::Done(made.answer),
            None => Fetched::Unknown,
        }
    }
}

impl State {
    fn is_pending(&self, job: u64) -> bool {
        self.making == Some(job) || self.waiting.iter().any(|(waiting, _)| *waiting == job)
    }

    /// Forgets answers that nobody has fetched.
    fn forget(&mut self, now: Instant) {
        self.made.retain(|made| now.duration_since(made.at) < KEPT);
        while self.made.len() > MAX {
            self.made.pop_front();
        }
    }
}

fn work(inner: &Inner) {
    let mut state = inner.state.lock();
    while let Some((job, page)) = state.waiting.pop_front() {
        state.making = Some(job);
        drop(state);
        // A panic has been counted and logged when it began.
        let answer = catch_unwind(AssertUnwindSafe(page))
            .unwrap_or_else(|_| (500, "{\"error\": \"internal error\"}\n".to_owned()));
        state = inner.state.lock();
        state.making = None;
        let at = Instant::now();
        state.made.push_back(Made { job, at, answer });
        state.forget(at);
        inner.done.notify_all();
    }
    state.working = false;
}
