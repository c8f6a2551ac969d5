//! Drives its own names over its own addresses, as a controller would: one thing after the other, chosen by
//! the seed.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use sandgate_tests::kubernetes::{ApiServer, Ask, Fault, Object, Wire};

use super::ledger::{Departure, Ledger};
use super::{DRIVERS, KINDS, NAMES, Name, Random};

/// A sandbox that exists.
pub(super) struct Life {
    object: Object,
    /// Which of the driver's addresses it has.
    pub(super) at: Option<usize>,
    pub(super) failed: bool,
}

pub(super) struct Driver {
    pub(super) api: ApiServer,
    pub(super) namespace: String,
    pub(super) names: Arc<[Name]>,
    /// Its names, by their numbers.
    pub(super) own: Range<usize>,
    /// Its addresses, and the ledger's number of the first.
    pub(super) addresses: Vec<IpAddr>,
    pub(super) first: usize,
    /// The scope of the gateway that its objects are in.
    pub(super) scope: usize,
    /// Free addresses. The one that was freed last is taken first.
    pub(super) free: Vec<usize>,
    pub(super) alive: BTreeMap<usize, Life>,
    pub(super) ledger: Arc<Ledger>,
    pub(super) hot: Arc<[AtomicUsize; DRIVERS]>,
    /// What to break now and then.
    pub(super) wire: Option<Arc<Wire>>,
    /// Whether each scope of the gateway has followed the cluster since the wire was last broken.
    pub(super) followed: Arc<[AtomicBool; KINDS.len()]>,
    pub(super) random: Random,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Create,
    Pause,
    Resume,
    Move,
    Fail,
    Delete,
    /// Delete it and make the name anew at once, where it was.
    Anew,
    /// Delete it and give its address to another name at once.
    HandOver,
}

impl Driver {
    pub(super) async fn step(&mut self) {
        self.break_the_wire();
        let mut steps = Vec::new();
        let running = self.alive.values().filter(|life| life.at.is_some()).count();
        let resting = self.alive.len() - running;
        let more = self.alive.len() < NAMES;
        let free = !self.free.is_empty();
        for (step, possible) in [
            (Step::Create, free && more),
            (Step::Pause, running > 0),
            (Step::Resume, free && resting > 0),
            (Step::Move, free && running > 0),
            (Step::Fail, running > 0),
            (Step::Delete, !self.alive.is_empty()),
            (Step::Anew, running > 0),
            (Step::HandOver, running > 0 && more),
        ] {
            if possible {
                steps.push(step);
            }
        }
        let step = *self.random.pick(&steps);
        match step {
            Step::Create => {
                let name = self.unused();
                let at = self.free.pop().expect("a free address");
                self.create(name, at).await;
            }
            Step::Pause | Step::Fail => {
                let name = self.choose(|life| life.at.is_some());
                let (at, gone_first) = (self.vacate(name), self.random.one_in(2));
                let early = gone_first.then(|| self.leave(at));
                let life = self.alive.get_mut(&name).expect("alive");
                match step {
                    Step::Fail => life.object.fail().await,
                    _ => life.object.pause().await,
                }
                life.failed = matches!(step, Step::Fail);
                self.told(early, at);
                self.free.push(at);
            }
            Step::Resume => {
                let name = self.choose(|life| life.at.is_none());
                let at = self.free.pop().expect("a free address");
                self.settle_at(name, at).await;
            }
            Step::Move => {
                let name = self.choose(|life| life.at.is_some());
                let (from, to) = (self.vacate(name), self.free.pop().expect("a free address"));
                self.settle_at(name, to).await;
                self.told(None, from);
                self.free.push(from);
            }
            Step::Delete => {
                let name = self.choose(|_| true);
                let life = self.alive.remove(&name).expect("alive");
                let early = life.at.filter(|_| self.random.one_in(2)).map(|at| self.leave(at));
                life.object.delete().await;
                if let Some(at) = life.at {
                    self.told(early, at);
                    self.free.push(at);
                }
            }
            Step::Anew | Step::HandOver => {
                let name = self.choose(|life| life.at.is_some());
                let life = self.alive.remove(&name).expect("alive");
                let at = life.at.expect("it runs");
                life.object.delete().await;
                self.told(None, at);
                let next = if matches!(step, Step::Anew) { name } else { self.unused() };
                self.create(next, at).await;
            }
        }
    }

    /// Takes the address from a life; the sandbox is still there.
    fn vacate(&mut self, name: usize) -> usize {
        self.alive.get_mut(&name).and_then(|life| life.at.take()).expect("it runs")
    }

    fn leave(&self, at: usize) -> Departure {
        self.ledger.leave(self.first + at)
    }

    /// The API server knows by now: of a departure that was earlier, or of one that is now.
    fn told(&self, early: Option<Departure>, at: usize) {
        self.ledger.told(self.scope, early.unwrap_or_else(|| self.leave(at)));
    }

    async fn create(&mut self, name: usize, at: usize) {
        let Name { kind, name: text } = &self.names[name];
        let object = kind.draft(&self.api, &self.namespace, text).create().await;
        self.ledger.named(object.uid(), name, text);
        self.alive.insert(name, Life { object, at: None, failed: false });
        self.settle_at(name, at).await;
    }

    async fn settle_at(&mut self, name: usize, at: usize) {
        self.hot[self.own.start / NAMES].store(name, Ordering::Relaxed);
        let life = self.alive.get_mut(&name).expect("alive");
        self.ledger.arrive(self.first + at, life.object.uid());
        life.object.resume(self.addresses[at]).await;
        (life.at, life.failed) = (Some(at), false);
    }

    fn unused(&mut self) -> usize {
        let unused: Vec<usize> = self.own.clone().filter(|name| !self.alive.contains_key(name)).collect();
        *self.random.pick(&unused)
    }

    fn choose(&mut self, fits: impl Fn(&Life) -> bool) -> usize {
        let fitting: Vec<usize> =
            self.alive.iter().filter(|(_, life)| fits(life)).map(|(name, _)| *name).collect();
        let name = *self.random.pick(&fitting);
        self.hot[self.own.start / NAMES].store(name, Ordering::Relaxed);
        name
    }

    fn break_the_wire(&mut self) {
        let Some(wire) = self.wire.clone() else { return };
        if !self.random.one_in(2) {
            return;
        }
        // One fault at a time: the gateway waits longer after each failure in a row, and where faults pile up
        // it would sit the rest of the scenario out.
        if !wire.is_spent() || !self.followed.iter().all(|scope| scope.load(Ordering::Relaxed)) {
            return;
        }
        self.followed.iter().for_each(|scope| scope.store(false, Ordering::Relaxed));
        let fault = match self.random.below(5) {
            0 => Fault::Cut,
            1 => Fault::CutMidLine,
            2 => Fault::Garble,
            3 => Fault::Stall,
            // The server has forgotten: the scope lists anew while its objects change.
            _ => Fault::ErrorEvent(410),
        };
        let ask = if self.random.one_in(4) { Ask::StreamingList } else { Ask::Watch };
        if !matches!(fault, Fault::ErrorEvent(_)) {
            wire.once(ask, fault);
        }
        // For a list to be spoiled there has to be one.
        if matches!(fault, Fault::ErrorEvent(_)) || ask == Ask::StreamingList {
            wire.once(Ask::Watch, Fault::ErrorEvent(410));
            wire.cut_running();
        } else if wire.running(Ask::Watch) == 0 {
            // A list that is streamed goes on as the watch: only a cut makes watches of their own.
            wire.cut_running();
        }
    }
}
