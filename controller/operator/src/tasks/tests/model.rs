//! A scheduler against pods that die, answers that get lost and restarts, at random.
//!
//! After every step:
//! - no task is on two pods that live, whether it runs or is being stopped;
//! - no task is started whose result is kept;
//! - no task is started again that has ended by itself, unless it was lost with its pod or by its executor;
//! - no pod is released while a task is still on its way to it.
//!
//! Left alone, every task ends and has a result; and a batch that is deleted lets go of all its pods.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

use super::fixture::{BATCH, Doing, World};
use crate::tasks::scheduler::{Ask, Request};
use crate::tasks::{Intent, Report, TaskPod, WhenCompleted};

#[derive(Clone, Debug)]
enum Happens {
    Pass,
    Time(i64),
    /// The address of this index does not get requests, or its answers get lost, until the next such step.
    Silent(usize),
    Mute(usize),
    Heals,
    /// The pod is deleted, and another takes its place.
    Dies(usize),
    /// The pod's processes have ended, and it says so.
    Fails(usize),
    /// The pod is not seen for a while.
    Hidden(usize),
    Seen,
    /// A task ends where it runs.
    Ends(usize, i32),
    /// What was told to stop has stopped.
    Stops(usize),
    /// An executor forgets its tasks, with their processes.
    Forgets(usize),
    Restart,
    /// A restart while requests are on their way, which arrive later.
    Handover,
    Arrives,
    Scaled(usize),
    Paused(bool),
}

fn happens() -> impl Strategy<Value = Happens> {
    let pod = || 0..6_usize;
    prop_oneof![
        12 => Just(Happens::Pass),
        6 => (0..4000_i64).prop_map(Happens::Time),
        2 => pod().prop_map(Happens::Silent),
        2 => pod().prop_map(Happens::Mute),
        2 => Just(Happens::Heals),
        2 => pod().prop_map(Happens::Dies),
        1 => pod().prop_map(Happens::Fails),
        1 => pod().prop_map(Happens::Hidden),
        1 => Just(Happens::Seen),
        3 => (pod(), 0..2_i32).prop_map(|(task, code)| Happens::Ends(task, code)),
        2 => pod().prop_map(Happens::Stops),
        1 => pod().prop_map(Happens::Forgets),
        1 => Just(Happens::Restart),
        2 => Just(Happens::Handover),
        1 => Just(Happens::Arrives),
        1 => (1..6_usize).prop_map(Happens::Scaled),
        1 => any::<bool>().prop_map(Happens::Paused),
    ]
}

/// The batch, and what its controller and its pool do about it.
struct Batch {
    world: World,
    /// Pods that live and are not seen.
    hidden: Vec<TaskPod>,
    next_uid: u32,
    /// Requests on their way, and until when: nobody waits longer for an answer.
    late: Vec<(Timestamp, Request)>,
    /// How often each task had been started when its result was kept.
    kept: BTreeMap<String, u32>,
    started: BTreeMap<String, u32>,
    /// The tasks that have ended before they were told to stop: where, and how often each had been started.
    ended: BTreeMap<String, (String, u32)>,
}

impl Batch {
    fn new(replicas: usize, policy: WhenCompleted, slowly: bool) -> Self {
        let mut world = World::new(replicas);
        world.policy = policy;
        world.executors.values_mut().for_each(|executor| executor.stops_slowly = slowly);
        let (hidden, kept, started) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
        let (late, ended) = (Vec::new(), BTreeMap::new());
        Self { world, hidden, next_uid: 0, late, kept, started, ended }
    }

    fn at(&self, index: usize) -> Option<usize> {
        self.world.pods.iter().position(|pod| pod.index == Some(index))
    }

    fn replace(&mut self, index: usize) {
        let slowly = self.world.executors.values().any(|executor| executor.stops_slowly);
        let executor = self.world.executors.get(&format!("ip{index}"));
        let starts = executor.map(|executor| executor.starts.clone()).unwrap_or_default();
        self.count(&starts);
        self.world.remove_pod(index);
        self.hidden.retain(|pod| pod.index != Some(index));
        self.next_uid += 1;
        let uid = format!("next{}", self.next_uid);
        self.world.add_pod_as(index, &uid);
        self.world.executor(index).stops_slowly = slowly;
    }

    fn count(&mut self, starts: &BTreeMap<String, u32>) {
        for (name, times) in starts {
            *self.started.entry(name.clone()).or_default() += times;
        }
    }

    /// How often each task was started so far.
    fn starts(&self) -> BTreeMap<String, u32> {
        let mut all = self.started.clone();
        for (name, times) in self.world.executors.values().flat_map(|executor| &executor.starts) {
            *all.entry(name.clone()).or_default() += times;
        }
        all
    }

    /// What is on its way arrives, if the pod is still the same.
    fn arrive(&mut self, by: Timestamp) {
        let late = std::mem::take(&mut self.late);
        let (now, later): (Vec<_>, Vec<_>) = late.into_iter().partition(|(until, _)| *until <= by);
        self.late = later;
        for (_, request) in now {
            let lives = |pod: &&TaskPod| pod.uid == request.pod && !pod.has_ended;
            let pods = self.world.pods.iter().chain(&self.hidden);
            let Some(executor) = pods.clone().find(lives).and_then(|pod| {
                let ip = pod.ip.as_deref()?;
                self.world.executors.get_mut(ip)
            }) else {
                continue;
            };
            match &request.ask {
                Ask::List => {}
                Ask::Clear => executor.set(&[]),
                Ask::Hold(task) => executor.set(std::slice::from_ref(task)),
            }
        }
    }

    /// The scheduler's pass. Tasks that got no answer are on their way for a while.
    fn schedule(&mut self) -> Report {
        self.arrive(self.world.now);
        self.world.is_whole = self.hidden.is_empty();
        let report = self.world.pass();
        let until = self.world.now + SignedDuration::from_secs(3);
        let sent = std::mem::take(&mut self.world.on_their_way);
        self.late.extend(sent.into_iter().map(|request| (until, request)));
        report
    }

    /// Whether a task is on its way to a pod that lives.
    fn is_expected(&self, pod: &TaskPod) -> bool {
        let is_late = |(until, request): &(Timestamp, Request)| {
            request.pod == pod.uid && *until > self.world.now && matches!(request.ask, Ask::Hold(_))
        };
        !pod.has_ended && self.late.iter().any(is_late)
    }

    /// The executor of this index is gone, and with it what has ended there.
    fn excuse(&mut self, index: usize) {
        self.ended.retain(|_, (ip, _)| *ip != format!("ip{index}"));
    }

    fn pass(&mut self) {
        let report = self.schedule();
        self.world.done = crate::tasks::Done::read(report.done.as_deref());
        // A live read: a pod is gone if it is none of those that live.
        for missing in &report.missing {
            if !self.hidden.iter().any(|pod| pod.uid == missing.uid) {
                self.world.scheduler.gone(&missing.uid);
            }
        }
        // The pool takes what is released, and what a smaller batch has let go.
        for name in report.release.iter().chain(&report.cleared) {
            let index: usize = name[1..].parse().unwrap();
            let starts = self.world.executor(index).starts.clone();
            assert!(self.world.executor(index).tasks.is_empty(), "{name} is released with a task");
            let pod = self.world.pod(index).clone();
            assert!(!self.is_expected(&pod), "a task is on its way to {name}");
            self.count(&starts);
            self.world.remove_pod(index);
        }
        let starts = self.starts();
        self.kept.retain(|name, _| self.world.done.0.keys().any(|index| *name == format!("{BATCH}-{index}")));
        for index in self.world.done.0.keys() {
            let name = format!("{BATCH}-{index}");
            let times = starts.get(&name).copied().unwrap_or_default();
            self.kept.entry(name).or_insert(times);
        }
    }

    fn scale(&mut self, replicas: usize) {
        self.world.replicas = replicas;
        let stays = |name: &str| (0..replicas).any(|index| *name == format!("{BATCH}-{index}"));
        self.ended.retain(|name, _| stays(name));
        for index in 0..6 {
            if let Some(at) = self.at(index) {
                self.world.pods[at].is_leaving = index >= replicas;
            } else if index < replicas && !self.hidden.iter().any(|pod| pod.index == Some(index)) {
                self.replace(index);
            }
        }
    }

    fn step(&mut self, happens: &Happens) {
        match *happens {
            Happens::Pass => self.pass(),
            Happens::Time(millis) => self.world.wait(millis),
            Happens::Silent(index) => drop(self.world.silent.insert(format!("ip{index}"))),
            Happens::Mute(index) => drop(self.world.mute.insert(format!("ip{index}"))),
            Happens::Heals => {
                self.world.silent.clear();
                self.world.mute.clear();
            }
            Happens::Dies(index) => {
                if self.at(index).is_some() && index < self.world.replicas {
                    self.excuse(index);
                    self.replace(index);
                }
            }
            Happens::Fails(index) => {
                if let Some(at) = self.at(index) {
                    self.excuse(index);
                    self.world.pods[at].has_ended = true;
                    self.world.executor(index).tasks.clear();
                    self.world.silent.insert(format!("ip{index}"));
                }
            }
            Happens::Hidden(index) => {
                if let Some(at) = self.at(index) {
                    self.hidden.push(self.world.pods.remove(at));
                }
            }
            Happens::Seen => self.world.pods.append(&mut self.hidden),
            Happens::Ends(task, code) => {
                let name = format!("{BATCH}-{task}");
                let times = self.starts().get(&name).copied().unwrap_or_default();
                for (ip, executor) in &mut self.world.executors {
                    if let Some(doing @ Doing::Runs) = executor.tasks.get_mut(&name) {
                        *doing = Doing::Ended(code);
                        if task < self.world.replicas
                            && !self.world.told.contains(&(ip.clone(), name.clone()))
                        {
                            self.ended.insert(name.clone(), (ip.clone(), times));
                        }
                    }
                }
            }
            Happens::Stops(index) => {
                if let Some(executor) = self.world.executors.get_mut(&format!("ip{index}")) {
                    executor.tasks.retain(|_, doing| *doing != Doing::Dies);
                }
            }
            Happens::Forgets(index) => {
                self.excuse(index);
                if let Some(executor) = self.world.executors.get_mut(&format!("ip{index}")) {
                    executor.tasks.clear();
                }
            }
            Happens::Restart => self.world.restart(),
            Happens::Handover => {
                let until = self.world.now + SignedDuration::from_secs(3);
                let sent = self.world.planned();
                sent.iter().for_each(|request| self.world.tell(request));
                self.late.extend(sent.into_iter().map(|request| (until, request)));
                self.world.restart();
            }
            Happens::Arrives => self.arrive(Timestamp::MAX),
            Happens::Scaled(replicas) => self.scale(replicas),
            Happens::Paused(is_paused) => {
                self.world.intent = if is_paused { Intent::Pause } else { Intent::Run };
            }
        }
    }

    fn check(&self) -> Result<(), TestCaseError> {
        for (name, places) in self.world.places() {
            prop_assert!(places.len() <= 1, "{name} is on {places:?}");
        }
        let starts = self.starts();
        for (name, times) in &self.kept {
            let now = starts.get(name).copied().unwrap_or_default();
            prop_assert_eq!(now, *times, "{} had a result and was started again", name);
        }
        for (name, (_, times)) in &self.ended {
            let now = starts.get(name).copied().unwrap_or_default();
            prop_assert_eq!(now, *times, "{} had ended and was started again", name);
        }
        Ok(())
    }

    /// Everything heals, pods that have ended are replaced, and what runs ends.
    fn calm(&mut self) {
        self.step(&Happens::Heals);
        self.step(&Happens::Seen);
        let ended: Vec<usize> =
            self.world.pods.iter().filter(|pod| pod.has_ended).filter_map(|pod| pod.index).collect();
        for index in ended {
            if index < self.world.replicas {
                self.replace(index);
            } else {
                self.world.remove_pod(index);
            }
        }
        (0..6).for_each(|index| {
            self.step(&Happens::Stops(index));
            self.step(&Happens::Ends(index, 0));
        });
        self.world.wait(10_000);
        self.pass();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_task_is_never_on_two_pods_and_every_task_ends(
        replicas in 1..6_usize,
        releases in any::<bool>(),
        slowly in any::<bool>(),
        history in proptest::collection::vec(happens(), 0..120),
    ) {
        let policy = if releases { WhenCompleted::Release } else { WhenCompleted::Retain };
        let mut batch = Batch::new(replicas, policy, slowly);
        for happens in &history {
            batch.step(happens);
            batch.check()?;
        }
        batch.world.intent = Intent::Run;
        // A pool fills the slots that a pod was lost from, and of them only those.
        for _ in 0..400 {
            let missing = batch.missing();
            missing.into_iter().for_each(|index| batch.replace(index));
            batch.calm();
            batch.check()?;
        }
        let report = batch.world.pass();
        let ended = report.counts.succeed + report.counts.failed;
        prop_assert_eq!(ended, batch.world.replicas, "{:?}", report);
    }

    #[test]
    fn a_deleted_batch_lets_go_of_all_pods_and_not_before_they_have_nothing(
        replicas in 1..6_usize,
        slowly in any::<bool>(),
        history in proptest::collection::vec(happens(), 0..60),
        end in proptest::collection::vec(happens(), 0..60),
    ) {
        let mut batch = Batch::new(replicas, WhenCompleted::Retain, slowly);
        for happens in &history {
            batch.step(happens);
        }
        batch.world.intent = Intent::Delete;
        for happens in end.iter().filter(|happens| !matches!(happens, Happens::Paused(_) | Happens::Scaled(_))) {
            batch.step(happens);
            batch.check()?;
            let is_released = batch.schedule().all_released;
            prop_assert!(!is_released || batch.world.places().is_empty(), "{}", batch.world.shown());
            let is_expected = batch.world.pods.iter().any(|pod| batch.is_expected(pod));
            prop_assert!(!is_released || !is_expected, "a task is on its way");
        }
        for _ in 0..40 {
            batch.calm();
        }
        let report = batch.world.pass();
        prop_assert!(report.all_released, "{:?}", report);
        prop_assert!(batch.world.places().is_empty());
    }
}

impl Batch {
    /// The slots without a pod that a pool fills: where pods are released, those of tasks that have a result
    /// stay empty.
    fn missing(&self) -> BTreeSet<usize> {
        let has = |index: &usize| {
            self.at(*index).is_some() || self.hidden.iter().any(|pod| pod.index == Some(*index))
        };
        let is_released = |index: &usize| {
            self.world.policy == WhenCompleted::Release && self.world.done.0.contains_key(index)
        };
        let needed = |index: &usize| !is_released(index) && !has(index);
        (0..self.world.replicas).filter(needed).collect()
    }
}
