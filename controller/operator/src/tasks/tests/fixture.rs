//! A batch, its pods and their executors, in words.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use sandgate_executor_wire::{Process, ProcessStatus, Running, Task, Terminated};

use crate::tasks::scheduler::{Ask, Request};
use crate::tasks::{
    Done, ExecutorError, Intent, Look, Report, Scheduler, TaskCounts, TaskPod, WhenCompleted,
};

pub(super) const BATCH: &str = "bs";

/// What a task of an executor is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    Runs,
    Ended(i32),
    /// It was told to stop, and has not yet.
    Dies,
    /// It was told to stop, and has ended with this code, and is not dropped yet.
    Died(i32),
}

/// An executor as the real one behaves, but for its time: nothing ends by itself.
#[derive(Clone, Debug, Default)]
pub(super) struct Executor {
    pub(super) tasks: BTreeMap<String, Doing>,
    /// How often each task was started.
    pub(super) starts: BTreeMap<String, u32>,
    /// Whether what is stopped takes its time.
    pub(super) stops_slowly: bool,
    /// Whether it is one of ours, which says of a task that it was told to stop it.
    pub(super) is_ours: bool,
}

impl Executor {
    pub(super) fn set(&mut self, wanted: &[Task]) {
        let is_wanted = |name: &str| wanted.iter().any(|task| task.name == name);
        let slowly = self.stops_slowly;
        self.tasks.retain(|name, doing| {
            if !is_wanted(name) && *doing == Doing::Runs {
                *doing = Doing::Dies;
            }
            is_wanted(name) || (slowly && matches!(doing, Doing::Dies | Doing::Died(_)))
        });
        for task in wanted {
            self.tasks.entry(task.name.clone()).or_insert_with(|| {
                *self.starts.entry(task.name.clone()).or_default() += 1;
                Doing::Runs
            });
        }
    }

    pub(super) fn list(&self) -> Vec<Task> {
        self.tasks.iter().map(|(name, doing)| self.listed(name, *doing)).collect()
    }

    fn listed(&self, name: &str, doing: Doing) -> Task {
        let status = match doing {
            Doing::Runs | Doing::Dies => {
                ProcessStatus { running: Some(Running::default()), ..Default::default() }
            }
            Doing::Ended(exit_code) | Doing::Died(exit_code) => {
                let ended = Terminated { exit_code, ..Terminated::default() };
                ProcessStatus { terminated: Some(ended), ..Default::default() }
            }
        };
        let is_told = self.is_ours && matches!(doing, Doing::Dies | Doing::Died(_));
        let deletion_timestamp = is_told.then(|| "2026-01-01T00:00:00Z".to_owned());
        Task { name: name.to_owned(), deletion_timestamp, process_status: Some(status), ..Task::default() }
    }
}

pub(super) fn spec(index: usize) -> Task {
    let process = Process { command: vec!["true".to_owned()], ..Process::default() };
    Task { name: format!("{BATCH}-{index}"), process: Some(process), ..Task::default() }
}

/// One batch. Pod `p3` has index 3 and the address `ip3`.
pub(super) struct World {
    pub(super) scheduler: Scheduler,
    pub(super) pods: Vec<TaskPod>,
    pub(super) is_whole: bool,
    pub(super) executors: BTreeMap<String, Executor>,
    /// Addresses that do not answer.
    pub(super) silent: BTreeSet<String>,
    /// Addresses at which answers get lost after the work is done.
    pub(super) mute: BTreeSet<String>,
    /// What addresses answer instead.
    pub(super) errors: BTreeMap<String, ExecutorError>,
    pub(super) now: Timestamp,
    pub(super) replicas: usize,
    pub(super) intent: Intent,
    pub(super) policy: WhenCompleted,
    pub(super) done: Done,
    pub(super) specs: Option<Vec<Task>>,
    /// Everything that was sent: the address, and `list`, `clear` or the task's name.
    pub(super) sent: Vec<(String, String)>,
    /// Tasks that were given to an address that does not answer: they may arrive yet.
    pub(super) on_their_way: Vec<Request>,
    /// The tasks that executors were told to stop, whether they heard it or not: address and name.
    pub(super) told: BTreeSet<(String, String)>,
}

impl World {
    /// A new batch with as many ready pods as tasks.
    pub(super) fn new(replicas: usize) -> Self {
        let mut world = Self {
            scheduler: Scheduler::fresh(),
            pods: Vec::new(),
            is_whole: true,
            executors: BTreeMap::new(),
            silent: BTreeSet::new(),
            mute: BTreeSet::new(),
            errors: BTreeMap::new(),
            now: Timestamp::from_second(1_000_000).unwrap(),
            replicas,
            intent: Intent::Run,
            policy: WhenCompleted::Retain,
            done: Done::default(),
            specs: Some((0..64).map(spec).collect()),
            sent: Vec::new(),
            on_their_way: Vec::new(),
            told: BTreeSet::new(),
        };
        (0..replicas).for_each(|index| world.add_pod(index));
        world
    }

    pub(super) fn add_pod(&mut self, index: usize) {
        self.add_pod_as(index, &format!("uid{index}"));
    }

    /// A pod of this index with another UID: its address is the same, and its executor is new.
    pub(super) fn add_pod_as(&mut self, index: usize, uid: &str) {
        let ip = format!("ip{index}");
        self.executors.insert(ip.clone(), Executor::default());
        self.pods.push(TaskPod {
            uid: uid.into(),
            name: format!("p{index}").into(),
            index: Some(index),
            ip: Some(ip.as_str().into()),
            has_ended: false,
            is_leaving: false,
            is_deleting: false,
        });
    }

    pub(super) fn pod(&mut self, index: usize) -> &mut TaskPod {
        self.pods.iter_mut().find(|pod| pod.index == Some(index)).unwrap()
    }

    pub(super) fn executor(&mut self, index: usize) -> &mut Executor {
        self.executors.get_mut(&format!("ip{index}")).unwrap()
    }

    /// The pod is no object any more, and its processes have ended. Nobody has confirmed it yet.
    pub(super) fn remove_pod(&mut self, index: usize) {
        self.pods.retain(|pod| pod.index != Some(index));
        self.executors.remove(&format!("ip{index}"));
    }

    /// The task has ended where it runs.
    pub(super) fn ends(&mut self, task: usize, code: i32) {
        let name = format!("{BATCH}-{task}");
        let executor = self.executors.values_mut().find(|it| it.tasks.contains_key(&name)).unwrap();
        executor.tasks.insert(name, Doing::Ended(code));
    }

    pub(super) fn restart(&mut self) {
        self.scheduler = Scheduler::recovering();
    }

    pub(super) fn wait(&mut self, millis: i64) {
        self.now += SignedDuration::from_millis(millis);
    }

    /// Remembers what is told to stop.
    pub(super) fn tell(&mut self, request: &Request) {
        let ip = request.ip.to_string();
        match &request.ask {
            Ask::List => {}
            Ask::Hold(task) => drop(self.told.remove(&(ip, task.name.clone()))),
            Ask::Clear => {
                let names = self.executors.get(&ip).into_iter().flat_map(|executor| executor.tasks.keys());
                self.told.extend(names.map(|name| (ip.clone(), name.clone())));
            }
        }
    }

    fn ask(&mut self, request: &Request) -> Result<Vec<Task>, ExecutorError> {
        self.tell(request);
        let ip = request.ip.to_string();
        let what = match &request.ask {
            Ask::List => "list",
            Ask::Clear => "clear",
            Ask::Hold(task) => &task.name,
        };
        self.sent.push((ip.clone(), what.to_owned()));
        if let Some(error) = self.errors.get(&ip) {
            return Err(error.clone());
        }
        let lost = || ExecutorError::Unreachable("lost".to_owned());
        if self.silent.contains(&ip) {
            if matches!(request.ask, Ask::Hold(_)) {
                self.on_their_way.push(request.clone());
            }
            return Err(lost());
        }
        let executor = self.executors.get_mut(&ip).ok_or_else(lost)?;
        match &request.ask {
            Ask::List => {}
            Ask::Clear => executor.set(&[]),
            Ask::Hold(task) => executor.set(std::slice::from_ref(task)),
        }
        if self.mute.contains(&ip) { Err(lost()) } else { Ok(executor.list()) }
    }

    /// What the scheduler would send now.
    pub(super) fn planned(&mut self) -> Vec<Request> {
        let (pods, done, specs) = (self.pods.clone(), self.done.clone(), self.specs.clone());
        let look = self.look(&pods, &done, specs.as_deref());
        self.scheduler.plan(&look)
    }

    pub(super) fn look<'a>(
        &self,
        pods: &'a [TaskPod],
        done: &'a Done,
        specs: Option<&'a [Task]>,
    ) -> Look<'a> {
        Look {
            now: self.now,
            batch: BATCH,
            replicas: self.replicas,
            specs,
            pods,
            is_whole: self.is_whole,
            intent: self.intent,
            when_completed: self.policy,
            done,
        }
    }

    /// One pass, as `Tasks::pass` makes it.
    pub(super) fn pass(&mut self) -> Report {
        let (pods, done, specs) = (self.pods.clone(), self.done.clone(), self.specs.clone());
        let look = self.look(&pods, &done, specs.as_deref());
        loop {
            let requests = self.scheduler.plan(&look);
            if requests.is_empty() {
                return self.scheduler.report(&look);
            }
            for request in requests {
                let answer = self.ask(&request);
                self.scheduler.answered(&look, &request, answer);
            }
        }
    }

    /// A pass after a while, in which everything is asked that is asked regularly.
    pub(super) fn later(&mut self, seconds: i64) -> Report {
        self.wait(1000 * seconds);
        self.pass()
    }

    /// A pass, and what the batch's controller does after it: the annotation, and live reads.
    pub(super) fn obey(&mut self) -> Report {
        let report = self.pass();
        self.done = Done::read(report.done.as_deref());
        for pod in &report.missing {
            if !self.executors.contains_key(&format!("ip{}", &pod.name[1..])) {
                self.scheduler.gone(&pod.uid);
            }
        }
        report
    }

    /// Where tasks run or have ended: of each task, the indexes of the pods.
    pub(super) fn places(&self) -> BTreeMap<String, Vec<String>> {
        let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (ip, executor) in &self.executors {
            for name in executor.tasks.keys() {
                places.entry(name.clone()).or_default().push(ip.clone());
            }
        }
        places
    }

    /// `bs-0@ip0 bs-1@ip1`
    pub(super) fn shown(&self) -> String {
        let places = self.places();
        let words: Vec<_> = places.iter().map(|(name, ips)| format!("{name}@{}", ips.join("+"))).collect();
        words.join(" ")
    }

    pub(super) fn sent_to(&self, ip: &str) -> Vec<&str> {
        self.sent.iter().filter(|(to, _)| to == ip).map(|(_, what)| what.as_str()).collect()
    }
}

/// Pending, running, succeeded, failed, unknown.
pub(super) fn counts(report: &Report) -> [usize; 5] {
    let TaskCounts { pending, running, succeed, failed, unknown } = report.counts;
    [pending, running, succeed, failed, unknown]
}

pub(super) fn names(names: &[Arc<str>]) -> Vec<&str> {
    names.iter().map(|name| &**name).collect()
}

pub(super) fn reasons(report: &Report) -> Vec<&'static str> {
    report.notices.iter().map(|notice| notice.reason).collect()
}
