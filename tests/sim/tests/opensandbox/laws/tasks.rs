//! Where tasks run, and how often.

use std::collections::{BTreeMap, BTreeSet};

use sandgate_operator::ANNOTATION_TASKS_DONE;
use sandgate_sim::model::object::{annotation, controller, deleting, number, text, uid};
use sandgate_sim::model::{BATCHES, Model, PODS};
use serde_json::Value;

use super::{Broken, broken};
use crate::executors::{self, Event, Held};
use crate::held::{is_of_pool, mark};

/// The tasks that were begun.
#[derive(Default)]
pub(super) struct Tasks {
    /// The batch that a task is of, by UID, by address and name of the task.
    owners: BTreeMap<(String, String), String>,
    /// The tasks, by the UID of their batch and their index, that their batch has not wanted at some time.
    unwanted: BTreeSet<(String, usize)>,
    /// The results that batches have kept.
    results: BTreeMap<(String, usize), bool>,
}

impl Tasks {
    /// No task runs in two pods. And, as far as the lease keeps operators apart, a task runs in a pod of its
    /// batch only, and a result is neither lost nor made a second time.
    pub(super) fn check(&mut self, model: &Model, may_overlap: bool) -> Result<(), Broken> {
        for batch in model.list(&BATCHES) {
            for index in replicas(batch)..crate::users::REPLICAS {
                self.unwanted.insert((uid(batch).to_owned(), index));
            }
            self.check_results(batch)?;
        }
        for event in executors::events() {
            let told = match event {
                Event::Began { address, task, is_late } => self.began(model, address, task, is_late),
                Event::Forgot { address, task } => self.forgot(model, &address, &task),
            };
            if !may_overlap {
                told?;
            }
        }
        let all = executors::all();
        self.check_twice(&all, |held| held.runs && held.is_wanted)?;
        if may_overlap {
            return Ok(());
        }
        self.check_twice(&all, |_| true)?;
        all.iter().filter(|held| held.runs).try_for_each(|held| self.check_pod(model, held))
    }

    /// A result that was kept stays as it is as long as its task is wanted.
    fn check_results(&mut self, batch: &Value) -> Result<(), Broken> {
        let (name, done) = (text(batch, "/metadata/name"), done(batch));
        for (index, succeeded) in &done {
            self.results.entry((uid(batch).to_owned(), *index)).or_insert(*succeeded);
        }
        for index in 0..replicas(batch) {
            let key = (uid(batch).to_owned(), index);
            let is_lost = self.results.get(&key).is_some_and(|kept| done.get(&index) != Some(kept));
            if is_lost && !self.unwanted.contains(&key) && !deleting(batch) {
                return broken(format!("batch {name} does not keep the result of its task {index}"));
            }
        }
        Ok(())
    }

    fn began(&mut self, model: &Model, address: String, task: String, is_late: bool) -> Result<(), Broken> {
        let Some(pod) = pod_at(model, &address) else { return Ok(()) };
        let owner = owner_of(pod).to_owned();
        let Some(batch) = model.list(&BATCHES).find(|batch| uid(batch) == owner) else {
            // A pod of its own goes with its batch.
            return match is_of_pool(pod) {
                true => broken(format!("task {task} begins at {address}, in a pod of {:?}", mark(pod))),
                false => Ok(()),
            };
        };
        let name = text(batch, "/metadata/name");
        let Some(index) = index_of(name, &task) else {
            return broken(format!("task {task} begins at {address}, in a pod of batch {name}"));
        };
        if !is_late && done(batch).contains_key(&index) {
            return broken(format!("task {task} begins at {address}, and has ended before"));
        }
        self.owners.insert((address, task), owner);
        Ok(())
    }

    /// A task that has ended by itself is forgotten by its executor only once its result is kept.
    fn forgot(&self, model: &Model, address: &str, task: &str) -> Result<(), Broken> {
        let owner = self.owners.get(&(address.to_owned(), task.to_owned()));
        let batch = model.list(&BATCHES).find(|batch| Some(uid(batch)) == owner.map(String::as_str));
        let Some(batch) = batch.filter(|batch| !deleting(batch)) else { return Ok(()) };
        let Some(index) = index_of(text(batch, "/metadata/name"), task) else { return Ok(()) };
        let was_unwanted = self.unwanted.contains(&(uid(batch).to_owned(), index));
        if was_unwanted || done(batch).contains_key(&index) {
            return Ok(());
        }
        broken(format!("the result of task {task} at {address} is lost"))
    }

    /// No task is at two addresses, of those that count.
    fn check_twice(&self, all: &[Held], counts: impl Fn(&Held) -> bool) -> Result<(), Broken> {
        let mut found: BTreeMap<(&str, &str), &str> = BTreeMap::new();
        for Held { address, task, .. } in all.iter().filter(|held| counts(held)) {
            let owner = self.owners.get(&(address.clone(), task.clone())).map_or("", String::as_str);
            if let Some(other) = found.insert((owner, task), address) {
                return broken(format!("task {task} is at {address} and at {other}"));
            }
        }
        Ok(())
    }

    /// A task runs in no pod that is not its batch's (any more).
    fn check_pod(&self, model: &Model, held: &Held) -> Result<(), Broken> {
        let Held { address, task, .. } = held;
        let owner = self.owners.get(&(address.clone(), task.clone()));
        let (Some(owner), Some(pod)) = (owner, pod_at(model, address)) else { return Ok(()) };
        match deleting(pod) || owner_of(pod) == *owner {
            true => Ok(()),
            false => broken(format!("task {task} still runs at {address}, in a pod of {:?}", mark(pod))),
        }
    }
}

fn pod_at<'a>(model: &'a Model, address: &str) -> Option<&'a Value> {
    let is_there = |pod: &&Value| text(pod, "/status/podIP") == address;
    model.list(&PODS).map(|pod| &**pod).find(is_there)
}

/// The UID of the batch that a pod is of.
fn owner_of(pod: &Value) -> &str {
    match is_of_pool(pod) {
        true => mark(pod).split_once('/').map_or("", |(uid, _)| uid),
        false => controller(pod),
    }
}

fn replicas(batch: &Value) -> usize {
    number(batch, "/spec/replicas").and_then(|it| usize::try_from(it).ok()).unwrap_or(1)
}

/// The index of a task, if it is one of this batch.
pub(crate) fn index_of(batch: &str, task: &str) -> Option<usize> {
    task.strip_prefix(batch)?.strip_prefix('-')?.parse().ok()
}

/// The results that a batch has kept: whether a task has succeeded, by index.
pub(crate) fn done(batch: &Value) -> BTreeMap<usize, bool> {
    let kept: Value = serde_json::from_str(annotation(batch, ANNOTATION_TASKS_DONE)).unwrap_or_default();
    let of = |field: &str, succeeded: bool| {
        let indices = kept[field].as_array().into_iter().flatten().filter_map(Value::as_u64);
        let indices = indices.filter_map(|index| usize::try_from(index).ok());
        indices.map(|index| (index, succeeded)).collect::<BTreeMap<_, _>>()
    };
    let mut done = of("failed", false);
    done.extend(of("succeeded", true));
    done
}
