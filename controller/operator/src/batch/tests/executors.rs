//! Task executors in memory.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use sandgate_executor_wire::{ProcessStatus, Running, Task, Terminated};

use crate::tasks::{ExecutorError, Executors};

/// The executors of all pods, by address.
#[derive(Default)]
pub(crate) struct Played {
    tasks: Mutex<BTreeMap<String, Vec<Task>>>,
    silent: Mutex<BTreeSet<String>>,
    /// Addresses at which no task ends that is told to.
    stubborn: Mutex<BTreeSet<String>>,
    /// Every task that was started: the address and the name.
    started: Mutex<Vec<(String, String)>>,
}

impl Played {
    pub(crate) fn silence(&self, ip: &str) {
        self.silent.lock().insert(ip.to_owned());
    }

    /// What runs there does not end when it is told to.
    pub(crate) fn harden(&self, ip: &str) {
        self.stubborn.lock().insert(ip.to_owned());
    }

    /// Every task that runs ends with this code.
    pub(crate) fn finish(&self, exit_code: i32) {
        for task in self.tasks.lock().values_mut().flatten() {
            let ended = Terminated { exit_code, ..Terminated::default() };
            task.process_status = Some(ProcessStatus { terminated: Some(ended), ..ProcessStatus::default() });
        }
    }

    pub(crate) fn running(&self) -> Vec<String> {
        let tasks = self.tasks.lock();
        let all = tasks.iter().flat_map(|(ip, tasks)| tasks.iter().map(move |task| (ip, task)));
        all.map(|(ip, task)| format!("{} at {ip}", task.name)).collect()
    }

    pub(crate) fn started(&self) -> Vec<String> {
        self.started.lock().iter().map(|(ip, name)| format!("{name} at {ip}")).collect()
    }

    /// The pod is gone, and what ran in it.
    pub(crate) fn gone(&self, ip: &str) {
        self.tasks.lock().remove(ip);
    }

    fn reach(&self, ip: &str) -> Result<(), ExecutorError> {
        match self.silent.lock().contains(ip) {
            true => Err(ExecutorError::Unreachable("silent".to_owned())),
            false => Ok(()),
        }
    }
}

impl Executors for Played {
    fn tasks<'a>(&'a self, ip: &'a str) -> BoxFuture<'a, Result<Vec<Task>, ExecutorError>> {
        let list = self.reach(ip).map(|()| self.tasks.lock().get(ip).cloned().unwrap_or_default());
        async move { list }.boxed()
    }

    fn set<'a>(&'a self, ip: &'a str, wanted: &'a [Task]) -> BoxFuture<'a, Result<Vec<Task>, ExecutorError>> {
        let list = self.reach(ip).map(|()| {
            let mut all = self.tasks.lock();
            let tasks = all.entry(ip.to_owned()).or_default();
            let is_stubborn = self.stubborn.lock().contains(ip);
            tasks.retain(|task| is_stubborn || wanted.iter().any(|it| it.name == task.name));
            for task in wanted {
                if !tasks.iter().any(|it| it.name == task.name) {
                    self.started.lock().push((ip.to_owned(), task.name.clone()));
                    let running =
                        ProcessStatus { running: Some(Running::default()), ..ProcessStatus::default() };
                    tasks.push(Task { process_status: Some(running), ..task.clone() });
                }
            }
            tasks.clone()
        });
        async move { list }.boxed()
    }
}
