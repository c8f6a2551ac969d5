//! The task executors of pods. They run what they are told to, one task at a time, until it ends or is not
//! wanted any more. Whoever asks may get no answer, before it was done or after; and a task that was to be
//! held may be begun a while after its sender was told that the connection broke.

mod entry;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, ready};
use sandgate_executor_wire::Task;
use sandgate_operator::{ExecutorError, Executors};
use sandgate_sim::Random;
use sandgate_sim::model::object::text;
use sandgate_sim::model::{Model, PODS};
use tokio::time::Instant;

use entry::Entry;

/// A request that nobody waits for any more is done no later than this after it was sent.
const LATE: Duration = Duration::from_secs(3);
/// Who was told so long ago that a task runs has to ask again before it has the executor forget the task.
const OLD: Duration = Duration::from_secs(10);

// A run of the simulation is on one thread.
thread_local! {
    static ALL: RefCell<All> = RefCell::new(All::new(0));
}

/// The executors, by the address of their pod.
struct All {
    each: BTreeMap<String, Vec<Entry>>,
    late: Vec<Late>,
    /// What has happened since somebody looked.
    events: Vec<Event>,
    /// How often anything has changed.
    changes: u64,
    random: Random,
    /// Of a thousand answers so many are missing.
    failures: u64,
    ends: Ends,
}

/// A task that is to be held, and whose sender does not wait any more.
struct Late {
    address: String,
    tasks: Vec<Task>,
    until: Instant,
}

/// Which tasks end by themselves.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ends {
    /// Some, by chance.
    Some,
    All,
    None,
}

/// What an executor has done.
pub(crate) enum Event {
    /// It has begun a task.
    Began { address: String, task: String, is_late: bool },
    /// It was told to forget a task that had ended by itself, by somebody who knew that or could have known.
    Forgot { address: String, task: String },
}

/// A task of an executor.
pub(crate) struct Held {
    pub(crate) address: String,
    pub(crate) task: String,
    pub(crate) runs: bool,
    /// Nobody has told the executor to stop it.
    pub(crate) is_wanted: bool,
    /// How it has ended, if it has.
    pub(crate) exit_code: Option<i32>,
}

impl All {
    fn new(seed: u64) -> Self {
        Self {
            each: BTreeMap::new(),
            late: Vec::new(),
            events: Vec::new(),
            changes: 0,
            random: Random::new(seed),
            failures: 0,
            ends: Ends::Some,
        }
    }

    /// Asks for the tasks; to have these and no others, if they are said.
    fn ask(&mut self, address: &str, tasks: Option<&[Task]>) -> Result<Vec<Task>, ExecutorError> {
        let lost = || ExecutorError::Unreachable("the connection broke".to_owned());
        if let Some(tasks) = tasks {
            for entry in self.each.get_mut(address).into_iter().flatten() {
                entry.is_to_stop |= !entry.is_among(tasks);
            }
        }
        if self.random.chance(self.failures) {
            if let Some(tasks) = tasks.filter(|tasks| !tasks.is_empty())
                && self.random.chance(800)
            {
                let late =
                    Late { address: address.to_owned(), tasks: tasks.to_vec(), until: Instant::now() + LATE };
                self.late.push(late);
            }
            return Err(lost());
        }
        if !self.each.contains_key(address) {
            return Err(lost());
        }
        if let Some(tasks) = tasks {
            self.set(address, tasks, false);
        }
        if self.random.chance(self.failures) {
            return Err(lost());
        }
        let entries = self.each.get_mut(address).ok_or_else(lost)?;
        Ok(entries.iter_mut().map(Entry::tell).collect())
    }

    fn set(&mut self, address: &str, tasks: &[Task], is_late: bool) {
        let Some(entries) = self.each.get_mut(address) else { return };
        let event = |task: &str| (address.to_owned(), task.to_owned());
        let at_once = self.random.chance(500);
        entries.retain_mut(|entry| {
            if entry.is_among(tasks) || entry.is_leaving {
                return true;
            }
            if entry.is_known_to_have_ended(OLD) && !is_late {
                let (address, task) = event(entry.name());
                self.events.push(Event::Forgot { address, task });
            }
            entry.leave();
            self.changes += 1;
            entry.runs() || !at_once
        });
        for task in tasks {
            let is_known = entries.iter().any(|entry| entry.name() == task.name);
            let is_busy = entries.iter().any(|entry| entry.runs() && !entry.is_leaving);
            if !is_known && !is_busy {
                let exit_code = i32::from(self.random.chance(300));
                entries.push(Entry::new(task, self.random.chance(600), exit_code));
                let (address, task) = event(&task.name);
                self.events.push(Event::Began { address, task, is_late });
                self.changes += 1;
            }
        }
    }

    fn ends(&self, entry: &Entry) -> bool {
        match self.ends {
            Ends::All => true,
            Ends::None => false,
            Ends::Some => entry.ends,
        }
    }
}

/// The way to them.
pub(crate) struct PlayedExecutors;

impl Executors for PlayedExecutors {
    fn tasks<'a>(&'a self, ip: &'a str) -> BoxFuture<'a, Result<Vec<Task>, ExecutorError>> {
        ready(ALL.with_borrow_mut(|all| all.ask(ip, None))).boxed()
    }

    fn set<'a>(&'a self, ip: &'a str, tasks: &'a [Task]) -> BoxFuture<'a, Result<Vec<Task>, ExecutorError>> {
        ready(ALL.with_borrow_mut(|all| all.ask(ip, Some(tasks)))).boxed()
    }
}

/// A run begins.
pub(super) fn begin(seed: u64) {
    ALL.with_borrow_mut(|all| *all = All::new(seed));
}

/// Of a thousand answers so many are missing from now on.
pub(crate) fn fail(failures: u64) {
    ALL.with_borrow_mut(|all| all.failures = failures);
}

/// Says which tasks end by themselves from now on, those that run already among them.
pub(crate) fn end(ends: Ends) {
    ALL.with_borrow_mut(|all| all.ends = ends);
}

/// The executors are those of the pods that run: those of others end with their pods.
pub(crate) fn follow(model: &Model) {
    let running = model.list(&PODS).filter(|pod| text(pod, "/status/phase") == "Running");
    let addresses: Vec<&str> =
        running.map(|pod| text(pod, "/status/podIP")).filter(|address| !address.is_empty()).collect();
    ALL.with_borrow_mut(|all| {
        let before = all.each.len();
        all.each.retain(|address, _| addresses.contains(&&**address));
        all.changes += u64::from(all.each.len() != before);
        for address in addresses {
            if !all.each.contains_key(address) {
                all.each.insert(address.to_owned(), Vec::new());
            }
        }
    });
}

/// The containers of a pod were restarted: nothing runs there any more.
pub(super) fn restarted(address: &str) {
    ALL.with_borrow_mut(|all| {
        if let Some(entries) = all.each.get_mut(address) {
            entries.clear();
            all.changes += 1;
        }
    });
}

/// One step: a task ends, or is gone, or a request arrives late.
pub(super) fn step(random: &mut Random) -> Option<String> {
    ALL.with_borrow_mut(|all| {
        let now = Instant::now();
        all.late.retain(|late| now < late.until);
        let mut acts = Vec::new();
        for (address, entries) in &all.each {
            for (index, entry) in entries.iter().enumerate() {
                if entry.is_leaving || (entry.runs() && all.ends(entry)) {
                    acts.push((address.clone(), index));
                }
            }
        }
        if acts.is_empty() && all.late.is_empty() {
            return None;
        }
        all.changes += 1;
        let chosen = random.below(acts.len() + all.late.len());
        let Some((address, index)) = acts.get(chosen).cloned() else {
            let Late { address, tasks, .. } = all.late.remove(chosen - acts.len());
            all.set(&address, &tasks, true);
            return Some(format!("executor: what was asked of {address} without an answer is done"));
        };
        let entries = all.each.get_mut(&address)?;
        let entry = &mut entries[index];
        let name = entry.name().to_owned();
        if !entry.runs() {
            entries.remove(index);
            return Some(format!("executor: {name} at {address} is gone"));
        }
        if entry.is_leaving {
            entry.kill();
            return Some(format!("executor: {name} at {address} is stopped"));
        }
        let code = entry.end();
        Some(format!("executor: {name} at {address} ends with {code}"))
    })
}

/// How often anything has changed.
pub(crate) fn changes() -> u64 {
    ALL.with_borrow(|all| all.changes)
}

/// What has happened since this was asked last.
pub(crate) fn events() -> Vec<Event> {
    ALL.with_borrow_mut(|all| std::mem::take(&mut all.events))
}

/// Every task that there is, also of those that are about to go.
pub(crate) fn all() -> Vec<Held> {
    ALL.with_borrow(|all| {
        let each = all.each.iter();
        each.flat_map(|(address, entries)| entries.iter().map(|entry| entry.held(address))).collect()
    })
}
