//! Who waits for newer keys.

use parking_lot::Mutex;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::Wake;

/// The most that wait at a time.
pub(super) const MAX_WAITING: usize = 1024;
/// The next fetch must begin within this time, or nobody waits for it.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Default)]
pub(super) struct Waiters {
    state: Mutex<State>,
    asked: Notify,
}

#[derive(Default)]
struct State {
    /// Whether there is a task that fetches.
    open: bool,
    fetching: bool,
    /// When the next fetch for those who wait may begin; `None` is at once.
    earliest: Option<Instant>,
    waiting: Vec<Wake>,
}

impl State {
    fn is_soon(&self) -> bool {
        self.earliest.is_none_or(|earliest| earliest.saturating_duration_since(Instant::now()) <= PATIENCE)
    }
}

/// Those whom one fetch is for. They are woken when this is dropped, however the fetch ended.
pub(super) struct Round(Vec<Wake>);

impl Drop for Round {
    fn drop(&mut self) {
        self.0.drain(..).for_each(|wake| wake());
    }
}

/// The task that fetches. When it ends, whoever waits is woken, and nobody may wait.
pub(super) struct Open<'a>(&'a Waiters);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        (state.open, state.fetching) = (false, false);
        let round = Round(std::mem::take(&mut state.waiting));
        drop(state);
        drop(round);
    }
}

impl Waiters {
    pub(super) fn open(&self) -> Open<'_> {
        self.state.lock().open = true;
        Open(self)
    }

    /// Waits for the next fetch, unless there is none soon or too many wait.
    pub(super) fn ask(&self, wake: Wake) -> bool {
        let mut state = self.state.lock();
        // A fetch that is under way may bring news, and then the next one follows at once.
        if !state.open || state.waiting.len() >= MAX_WAITING || !(state.fetching || state.is_soon()) {
            return false;
        }
        state.waiting.push(wake);
        drop(state);
        self.asked.notify_one();
        true
    }

    /// A fetch begins, for those who wait now. The next may begin at `next`.
    pub(super) fn begin(&self, next: Instant) -> Round {
        let mut state = self.state.lock();
        state.fetching = true;
        state.earliest = Some(next);
        Round(std::mem::take(&mut state.waiting))
    }

    /// The fetch is over. The next may begin when `begin` was told, or at `sooner`.
    pub(super) fn end(&self, round: Round, sooner: Option<Instant>) {
        let mut state = self.state.lock();
        state.fetching = false;
        if sooner.is_some() {
            state.earliest = sooner;
        }
        // For those who came meanwhile there may be no fetch soon.
        let late = if state.is_soon() { Vec::new() } else { std::mem::take(&mut state.waiting) };
        drop(state);
        drop((round, Round(late)));
    }

    /// Completes when somebody waits and the next fetch may begin.
    pub(super) async fn asked(&self) {
        loop {
            let (waits, earliest) = {
                let state = self.state.lock();
                (!state.waiting.is_empty(), state.earliest)
            };
            match (waits, earliest) {
                (false, _) => self.asked.notified().await,
                (true, None) => return,
                (true, Some(earliest)) => return sleep_until(earliest).await,
            }
        }
    }
}
