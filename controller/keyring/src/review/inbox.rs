//! Questions that were asked by requests, and who waits for their answers.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::Digest;
use crate::Wake;

/// The most that wait at a time, and of those for one source.
pub(super) const MAX_WAITING: usize = 1024;
pub(super) const MAX_PER_SOURCE: usize = 256;

#[derive(Default)]
pub(super) struct Inbox {
    state: Mutex<State>,
    asked: Notify,
}

#[derive(Default)]
struct State {
    /// Whether somebody answers.
    open: bool,
    fresh: VecDeque<Question>,
    /// By the token, whether its question is fresh or under way: several who have one token share a question.
    waiting: HashMap<Digest, Vec<(IpAddr, Wake)>>,
    /// How many of those wait for each source, and in all.
    of_source: HashMap<IpAddr, usize>,
    count: usize,
}

pub(super) struct Question {
    pub(super) digest: Digest,
    pub(super) token: String,
    pub(super) source: IpAddr,
}

impl State {
    /// Takes out those who wait for a token.
    fn take(&mut self, digest: &Digest) -> Vec<(IpAddr, Wake)> {
        let taken = self.waiting.remove(digest).unwrap_or_default();
        self.count -= taken.len();
        for (source, _) in &taken {
            if let Some(count) = self.of_source.get_mut(source) {
                *count -= 1;
                if *count == 0 {
                    self.of_source.remove(source);
                }
            }
        }
        taken
    }
}

/// Those who wait for one answer: they are woken when this is dropped.
pub(super) struct Waiting<'a> {
    inbox: &'a Inbox,
    digest: Digest,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let taken = self.inbox.state.lock().take(&self.digest);
        taken.into_iter().for_each(|(_, wake)| wake());
    }
}

/// Whoever answers. When it ends, whoever waits is woken, and nobody may ask.
pub(super) struct Open<'a>(&'a Inbox);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        let state = std::mem::take(&mut *self.0.state.lock());
        state.waiting.into_values().flatten().for_each(|(_, wake)| wake());
    }
}

impl Inbox {
    pub(super) fn open(&self) -> Open<'_> {
        self.state.lock().open = true;
        Open(self)
    }

    pub(super) fn ask(&self, digest: Digest, token: &str, source: IpAddr, wake: Wake) -> bool {
        let mut state = self.state.lock();
        let of_source = state.of_source.get(&source).copied().unwrap_or_default();
        if !state.open || state.count >= MAX_WAITING || of_source >= MAX_PER_SOURCE {
            return false;
        }
        state.count += 1;
        state.of_source.insert(source, of_source + 1);
        let waiting = state.waiting.entry(digest).or_default();
        waiting.push((source, wake));
        if waiting.len() == 1 {
            state.fresh.push_back(Question { digest, token: token.to_owned(), source });
            drop(state);
            self.asked.notify_one();
        }
        true
    }

    /// The next question. Whoever takes it calls [`waiting`](Self::waiting) at once.
    pub(super) async fn next(&self) -> Question {
        loop {
            if let Some(question) = self.state.lock().fresh.pop_front() {
                return question;
            }
            self.asked.notified().await;
        }
    }

    pub(super) fn waiting(&self, digest: Digest) -> Waiting<'_> {
        Waiting { inbox: self, digest }
    }
}
