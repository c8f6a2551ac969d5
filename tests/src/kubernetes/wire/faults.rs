//! What the wire is told to spoil, and what it has seen.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::{Method, Request, StatusCode};
use tokio::sync::watch;

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// A list, or one page of it.
    List,
    /// A watch that begins with all objects (`sendInitialEvents`).
    StreamingList,
    /// A watch from a version.
    Watch,
    /// A write: whatever is no `GET`.
    Write,
    /// Anything else.
    Other,
}

impl Ask {
    pub(super) fn of<B>(request: &Request<B>) -> Self {
        let query = request.uri().query().unwrap_or_default();
        let says = |key: &str| {
            query.split('&').any(|pair| {
                let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                name == key && matches!(value, "1" | "true")
            })
        };
        // apis/GROUP/VERSION[/namespaces/NAMESPACE]/PLURAL: one more segment is a single object.
        let segments: Vec<&str> = request.uri().path().trim_start_matches('/').split('/').collect();
        let collection = matches!(segments[..], ["apis", _, _, _] | ["apis", _, _, "namespaces", _, _]);
        match (request.method() == Method::GET, says("watch"), says("sendInitialEvents")) {
            (false, ..) => Self::Write,
            (true, true, true) => Self::StreamingList,
            (true, true, false) => Self::Watch,
            (true, false, _) if collection => Self::List,
            _ => Self::Other,
        }
    }
}

/// How an answer is spoiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The connection breaks, between two lines.
    Cut,
    /// Half of the next line passes, then the connection breaks.
    CutMidLine,
    /// The next line has bytes in it that no JSON has.
    Garble,
    /// Every byte comes alone.
    Dribble,
    /// Nothing passes any more, and the connection stays. What is held back comes after
    /// [`Wire::clear`](super::Wire::clear). Where it is to happen once, one line comes late: when the next
    /// one is behind it, or after that too.
    Stall,
    /// Requests get no answer at all, not even its head, and the connection stays.
    Silence,
    /// The server does what the request asks for, and then the connection breaks before its answer.
    LoseAnswer,
    /// Requests get this status in the place of the server's answer.
    Answer(u16),
    /// Watches get one event of type `ERROR` with this code, as servers tell a version that is too old.
    ErrorEvent(u16),
}

impl Fault {
    /// Whether it befalls a request, not a line of its answer.
    fn is_of_requests(self) -> bool {
        matches!(self, Self::Answer(_) | Self::ErrorEvent(_) | Self::Silence | Self::LoseAnswer)
    }
}

/// A request that passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// What it asked for.
    pub ask: Ask,
    /// The path.
    pub path: String,
    /// The query, as it was.
    pub query: String,
    /// What the server said, once it has.
    pub status: Option<u16>,
}

struct Rule {
    ask: Ask,
    fault: Fault,
    left: Option<u32>,
    /// How often it lets its occasion pass first.
    spared: u32,
}

#[derive(Default)]
struct Inner {
    rules: Vec<Rule>,
    seen: Vec<Seen>,
    running: Vec<Ask>,
    bookmarks: usize,
}

/// What all connections of one wire share.
#[derive(Default)]
pub(super) struct State {
    inner: Mutex<Inner>,
    /// Counts the calls of `cut_running`; every change wakes the answers that run.
    cuts: watch::Sender<u32>,
}

impl State {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        self.cuts.send_modify(|_| {});
    }

    pub(super) fn add(&self, ask: Ask, fault: Fault, left: Option<u32>, spared: u32) {
        self.inner().rules.push(Rule { ask, fault, left, spared });
        self.wake();
    }

    pub(super) fn clear(&self) {
        self.inner().rules.clear();
        self.wake();
    }

    pub(super) fn is_spent(&self) -> bool {
        self.inner().rules.iter().all(|rule| rule.left.is_none())
    }

    pub(super) fn cut_running(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }

    pub(super) fn seen(&self) -> Vec<Seen> {
        self.inner().seen.clone()
    }

    pub(super) fn running(&self, ask: Ask) -> usize {
        self.inner().running.iter().filter(|running| **running == ask).count()
    }

    pub(super) fn bookmarks(&self) -> usize {
        self.inner().bookmarks
    }

    pub(super) fn record<B>(&self, ask: Ask, request: &Request<B>) -> usize {
        let mut inner = self.inner();
        let (path, query) =
            (request.uri().path().to_owned(), request.uri().query().unwrap_or_default().to_owned());
        inner.seen.push(Seen { ask, path, query, status: None });
        inner.seen.len() - 1
    }

    pub(super) fn answered(&self, seen: usize, status: StatusCode) {
        self.inner().seen[seen].status = Some(status.as_u16());
    }

    /// The fault that a request meets before it reaches the server.
    pub(super) fn for_request(&self, ask: Ask) -> Option<Fault> {
        self.take(ask, Fault::is_of_requests)
    }

    fn take(&self, ask: Ask, fits: impl Fn(Fault) -> bool) -> Option<Fault> {
        let mut inner = self.inner();
        let at = inner.rules.iter().position(|rule| rule.ask == ask && fits(rule.fault))?;
        if inner.rules[at].spared > 0 {
            inner.rules[at].spared -= 1;
            return None;
        }
        let fault = inner.rules[at].fault;
        if let Some(left) = &mut inner.rules[at].left {
            *left -= 1;
            if *left == 0 {
                inner.rules.remove(at);
            }
        }
        Some(fault)
    }

    pub(super) fn start(self: &Arc<Self>, ask: Ask) -> Running {
        self.inner().running.push(ask);
        let changes = self.cuts.subscribe();
        let began = *changes.borrow();
        Running { began, changes, ask, state: self.clone() }
    }
}

/// An answer that is on its way.
pub(super) struct Running {
    ask: Ask,
    began: u32,
    changes: watch::Receiver<u32>,
    state: Arc<State>,
}

impl Running {
    /// Returns when the rules may have changed.
    pub(super) async fn changed(&mut self) {
        // The sender lives in `state`, which this holds.
        let _changed = self.changes.changed().await;
    }

    pub(super) fn is_cut(&mut self) -> bool {
        *self.changes.borrow_and_update() != self.began
            || self.state.take(self.ask, |fault| fault == Fault::Cut).is_some()
    }

    /// What becomes of a line. [`Fault::Stall`] means: not now.
    pub(super) fn for_line(&self, line: &[u8]) -> Option<Fault> {
        let fault = self.state.take(self.ask, |fault| !fault.is_of_requests() && fault != Fault::Cut);
        if fault.is_none() && line.starts_with(br#"{"type":"BOOKMARK""#) {
            self.state.inner().bookmarks += 1;
        }
        fault
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut inner = self.state.inner();
        if let Some(at) = inner.running.iter().position(|ask| *ask == self.ask) {
            inner.running.swap_remove(at);
        }
    }
}
