//! Which task is on which pod, for one batch: a value that is told and asked, and that waits for nothing.
//!
//! Each round is [`plan`](Scheduler::plan), which takes in what the batch looks like and says what to ask of
//! which executor, and [`answered`](Scheduler::answered) for each answer. [`report`](Scheduler::report) says
//! what follows for the batch.
//!
//! # A pod's goal
//! The scheduler holds each pod to a goal, and asks its executor until an answer shows that it is reached:
//! - *meet*: its executor has to answer, since it may have tasks of the batch from an earlier life of this
//!   process, or since a task waits for a pod. Pods are given tasks only after that.
//! - *hold*: it has a task that shall run. If an answer lacks the task, it is given again, to this pod.
//! - *keep*: it has a task that has ended, and keeps it.
//! - *check*: it has a task that has to leave it, and is not told to stop it yet. Whether the task has ended
//!   is asked first: an executor forgets what it drops, and with it how that has ended.
//! - *clear*: it shall have no task of the batch. Only an answer to the clearing itself shows that.
//!
//! # When a task may move
//! A task is bound to a pod before anything is sent there, and from then on no other pod gets it. The bond
//! ends if 1. the pod has ended, or a live read has confirmed that it is gone; or 2. the pod had to be
//! cleared, and an answer to the clearing shows no task. An error ends no bond, however often it comes.
//! A task that was told to stop is stopped to the end, and has no result: how it ends says nothing of it.
//!
//! A request to hold a task whose answer was given up may still arrive for some seconds. The pod is cleared
//! after that: what comes late finds the task still there.
//!
//! After a restart nobody knows the bonds. They are taken from the answers of all pods that have an address
//! at the first look. Until each of these has answered or is confirmed to be gone, no task is bound, so none
//! of the tasks that run is given out a second time. An answer without a task counts only if the question was
//! asked a while after the first look: what the one before had just sent has arrived by then.

mod answer;
mod binding;
mod look;
mod pace;
mod plan;
mod report;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use sandgate_executor_wire::Task;

use super::done::Done;
pub use report::{MissingPod, Notice, Report, TaskCounts};

/// What shall become of the tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// They run.
    Run,
    /// They are stopped, and run again later unless they have ended by now.
    Pause,
    /// They are stopped for good.
    Delete,
}

/// What becomes of a pod whose task has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenCompleted {
    /// The batch keeps it.
    #[default]
    Retain,
    /// It is released.
    Release,
}

/// A pod of the batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskPod {
    /// Its UID: a new pod of the same name is another pod.
    pub uid: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Its place in the batch. The task of this index prefers it.
    pub index: Option<usize>,
    /// Its address.
    pub ip: Option<Arc<str>>,
    /// Whether its phase is `Failed` or `Succeeded`: nothing runs in it any more.
    pub has_ended: bool,
    /// Whether it is about to leave the batch, by a scale-down or because it is being deleted. It is given no
    /// task, and what it has is stopped and runs elsewhere.
    pub is_leaving: bool,
    /// Whether it is being deleted. Its containers are stopped, so a task that fails there may have been
    /// stopped with them.
    pub is_deleting: bool,
}

/// What a batch looks like at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Look<'a> {
    /// The time.
    pub now: Timestamp,
    /// The batch's name.
    pub batch: &'a str,
    /// How many tasks there shall be.
    pub replicas: usize,
    /// The tasks, by index. None if none can be made: nothing is started then, and what runs goes on.
    pub specs: Option<&'a [Task]>,
    /// The pods.
    pub pods: &'a [TaskPod],
    /// Whether these are all that it has. It counts after a restart only.
    pub is_whole: bool,
    /// What shall become of the tasks.
    pub intent: Intent,
    /// What becomes of pods whose task has ended.
    pub when_completed: WhenCompleted,
    /// The results that the batch has kept.
    pub done: &'a Done,
}

/// Something to ask of an executor.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The pod's UID.
    pub pod: Arc<str>,
    /// Where it is.
    pub ip: Arc<str>,
    /// What to ask.
    pub ask: Ask,
}

/// What to ask of an executor.
#[derive(Clone, Debug, PartialEq)]
pub enum Ask {
    /// Which tasks it has.
    List,
    /// To have this task and no other.
    Hold(Box<Task>),
    /// To have no task.
    Clear,
}

/// The tasks of one batch.
#[derive(Clone, Debug)]
pub struct Scheduler {
    /// By index.
    tasks: BTreeMap<usize, TaskState>,
    /// By UID.
    pods: BTreeMap<Arc<str>, PodState>,
    /// Whether no look since a restart has shown all pods yet: those that are shown may have tasks.
    is_recovering: bool,
    /// When everything has arrived that was sent before the restart.
    settled: Timestamp,
    /// What shall become of the tasks, and since when.
    intent: Option<(Intent, Timestamp)>,
    /// The UIDs of pods that are confirmed to be gone.
    gone: BTreeSet<Arc<str>>,
    /// What people should hear, by reason and in the order of the reasons.
    notices: BTreeMap<&'static str, Notice>,
    /// How many tasks were given out again, since the last report.
    retried: u64,
}

/// What a task is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Known {
    /// Nobody has said.
    #[default]
    Unknown,
    /// It runs.
    Running,
}

#[derive(Clone, Debug, Default)]
struct TaskState {
    /// The pod that it is bound to.
    on: Option<Arc<str>>,
    /// Whether it may have been sent there.
    is_sent: bool,
    /// Whether an answer of that pod has shown it.
    is_shown: bool,
    /// Whether that pod's executor may have been told to stop it.
    is_told: bool,
    known: Known,
    /// Whether it succeeded, once it has ended.
    result: Option<bool>,
    /// How often it was lost with its pod or by it.
    retries: u32,
    /// How often in a row its executor refused to start it.
    refusals: u32,
    /// When it may be given out next.
    not_before: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Goal {
    #[default]
    Nothing,
    Meet,
    Hold(usize),
    Keep(usize),
    Check(usize),
    Clear,
}

/// A task that a pod has must leave it.
#[derive(Clone, Copy, Debug)]
struct Leaving {
    since: Timestamp,
    /// Whether its executor has answered since then, and since the pod may be cleared.
    is_heard: bool,
}

#[derive(Clone, Debug)]
struct PodState {
    name: Arc<str>,
    index: Option<usize>,
    ip: Option<Arc<str>>,
    is_leaving: bool,
    is_deleting: bool,
    /// Set while it leaves the batch, or the batch is being paused.
    leaving: Option<Leaving>,
    /// Whether the last look showed it.
    is_here: bool,
    /// Whether it may have tasks from before this scheduler.
    may_hold: bool,
    /// Whether its executor has answered, and still did when it was asked last.
    is_met: bool,
    /// The task that is bound to it.
    holds: Option<usize>,
    /// The other tasks of the batch that its last answer had. They are given to no pod meanwhile.
    strays: BTreeSet<usize>,
    /// Whether its last answer lacked the task that it shall have.
    lacks_it: bool,
    goal: Goal,
    /// How often it was asked for its goal.
    asked: u32,
    /// How often in a row it gave no list.
    failures: u32,
    /// Why, the last time.
    error: Option<String>,
    /// When it was asked last.
    asked_at: Timestamp,
    /// Whether a request to hold a task is on its way.
    is_sending: bool,
    /// When every such request has arrived that was given up.
    settled: Timestamp,
    /// When it is asked next.
    next: Timestamp,
}

impl Scheduler {
    /// For a batch of which nothing can have been started.
    pub fn fresh() -> Self {
        Self {
            tasks: BTreeMap::new(),
            pods: BTreeMap::new(),
            is_recovering: false,
            settled: Timestamp::MIN,
            intent: None,
            gone: BTreeSet::new(),
            notices: BTreeMap::new(),
            retried: 0,
        }
    }

    /// For a batch whose tasks may run already.
    pub fn recovering() -> Self {
        Self { is_recovering: true, ..Self::fresh() }
    }

    /// Whether [`Look::is_whole`] has to be found out.
    pub fn is_recovering(&self) -> bool {
        self.is_recovering
    }

    /// A live read has confirmed that the pod is gone, or is not this batch's any more.
    pub fn gone(&mut self, pod: &str) {
        if let Some((uid, _)) = self.pods.get_key_value(pod) {
            self.gone.insert(Arc::clone(uid));
        }
    }

    /// Whether a task that is bound to a pod has to leave it.
    fn must_leave(&self, look: &Look<'_>, index: usize, pod: &PodState) -> bool {
        if index >= look.replicas || look.intent == Intent::Delete {
            return true;
        }
        let Some(task) = self.tasks.get(&index) else { return true };
        if task.result.is_none() {
            return look.intent == Intent::Pause || pod.is_leaving || task.is_told;
        }
        // A result is kept with the batch before its executor forgets it.
        let is_released = look.when_completed == WhenCompleted::Release;
        look.done.0.contains_key(&index) && (look.intent == Intent::Pause || pod.is_leaving || is_released)
    }

    /// Whether it is too early to stop a task that has to leave a pod: it may have a result that nobody has
    /// heard of, or may be given to the pod once more by what is still on its way.
    fn is_open(&self, look: &Look<'_>, index: usize, pod: &PodState) -> bool {
        let is_heard = pod.leaving.is_none_or(|leaving| leaving.is_heard);
        let has_none = self.tasks.get(&index).is_some_and(|task| task.result.is_none() && !task.is_told);
        let may_have_result = has_none && index < look.replicas && look.intent != Intent::Delete;
        (may_have_result && !is_heard) || look.now < pod.settled.max(self.settled)
    }

    /// Whether tasks may run that this scheduler has not heard of.
    fn is_blocked(&self) -> bool {
        self.is_recovering || self.pods.values().any(PodState::is_suspect)
    }
}

impl PodState {
    /// Whether it may have tasks that nobody has seen yet.
    fn is_suspect(&self) -> bool {
        self.may_hold
    }

    /// Whether it has, or may have, tasks of the batch.
    fn is_used(&self) -> bool {
        self.holds.is_some() || !self.strays.is_empty() || self.is_suspect()
    }

    /// Whether a task can be given to it now.
    fn is_free(&self) -> bool {
        self.is_here && self.is_met && self.ip.is_some() && !self.is_leaving && !self.is_used()
    }
}
