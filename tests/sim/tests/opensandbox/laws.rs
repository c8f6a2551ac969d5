//! What must hold after every step.

mod given;
mod pools;
mod tasks;

use std::collections::{BTreeMap, BTreeSet};

use sandgate_objects::opensandbox::names;
use sandgate_sim::model::object::{
    annotation, condition, controller, deleting, label, list, number, text, uid,
};
use sandgate_sim::model::{BATCHES, JOBS, Model, PODS, POOLS, Patch, Place};
use sandgate_sim::network::{Guard, Operation};
use sandgate_sim::{Committed, is_orphan};
use serde_json::Value;

use crate::held::{Lists, has_finalizer, is_of_pool, is_replaced, lets_go, mark, mark_of};
use crate::users::{NAMESPACE, is_evicted, pool_of_pod};
use crate::{executors, surroundings};
use given::Given;
use tasks::Tasks;
pub(crate) use tasks::{done, index_of};

/// A law that was broken.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Broken(pub(crate) String);

pub(crate) fn broken(what: String) -> Result<(), Broken> {
    Err(Broken(what))
}

/// What the laws have to remember of a run.
#[derive(Default)]
pub(crate) struct Laws {
    /// How far the cluster and the executors were when they were looked at last.
    looked_at: (u64, u64),
    /// Whether two operators may believe at the same time that they lead. No version and no mark protects an
    /// executor, or a container, from the one that is wrong: the lease alone does.
    may_overlap: bool,
    /// The lists of each batch when they could be read last, by UID.
    lists: BTreeMap<String, Lists>,
    /// The pods that were given away, by UID.
    given: BTreeMap<String, Given>,
    /// Since which revision a batch wants a pod of its own that it did not want before, by UID of the pod.
    wanted: BTreeMap<String, Option<u64>>,
    /// When an operator was last told what a batch asks for.
    reads: BTreeMap<(u64, Place), u64>,
    /// The newest generation that a status was of, by UID.
    observed: BTreeMap<String, i64>,
    /// The most pods that each pool may have, by UID.
    most: BTreeMap<String, pools::Most>,
    /// The tasks.
    tasks: Tasks,
    /// What has happened that no line of the trace tells.
    noted: BTreeSet<&'static str>,
}

impl Laws {
    /// Those of a run. `may_overlap` is whether two operators may believe at the same time that they lead.
    pub(crate) fn new(may_overlap: bool) -> Self {
        Self { may_overlap, ..Self::default() }
    }

    /// What has happened that no line of the trace tells.
    pub(crate) fn noted(self) -> BTreeSet<&'static str> {
        self.noted
    }

    /// The lists of a batch. While they cannot be read, it has what it had.
    fn lists_of(&self, batch: &Value) -> Lists {
        Lists::of(batch).or_else(|| self.lists.get(uid(batch)).cloned()).unwrap_or_default()
    }

    /// The batch that holds a pod.
    fn holder<'a>(&self, model: &'a Model, pod: &str) -> Option<&'a Value> {
        model.list(&BATCHES).map(|batch| &**batch).find(|batch| self.lists_of(batch).holds(pod))
    }

    /// Checks what a request of the operator was, and did. `leaders` are the operators that believe to lead.
    pub(crate) fn check_request(
        &mut self,
        request: &Committed,
        model: &Model,
        leaders: &[u64],
    ) -> Result<(), Broken> {
        let Committed { operation, code, before, caller, awaited } = request;
        if operation.guard() == Guard::None {
            return broken(format!("a write carries neither version nor UID nor name: {operation}"));
        }
        if *code >= 300 {
            return Ok(());
        }
        if let Operation::Get(place) = &**operation {
            self.reads.insert((*caller, place.clone()), model.revision());
        }
        if let Operation::Create(kind, _, pod) = &**operation
            && *kind == &PODS
        {
            return self.check_creation(model, pod, *awaited && *leaders == [*caller]);
        }
        let (Some(before), Some(place)) = (before.as_deref(), operation.target()) else { return Ok(()) };
        let after = model.get(&place).ok().filter(|after| uid(after) == uid(before)).map(|after| &**after);
        if let Operation::Delete(..) = &**operation {
            return self.check_deletion(model, *caller, &place, before);
        }
        match (place.kind, after) {
            (kind, Some(after)) if kind == &PODS => self.check_claim(model, before, after),
            (kind, Some(after)) if kind == &BATCHES => self.check_batch(model, &place, before, after),
            (kind, None) if kind == &BATCHES => self.check_end(model, &place, before, operation),
            _ => Ok(()),
        }
    }

    /// The operator deletes what nobody needs.
    fn check_deletion(
        &mut self,
        model: &Model,
        caller: u64,
        place: &Place,
        before: &Value,
    ) -> Result<(), Broken> {
        if deleting(before) {
            return Ok(());
        }
        if place.kind == &POOLS {
            return broken(format!("the operator has deleted {place}"));
        }
        if place.kind == &BATCHES {
            let ends = text(before, "/spec/expireTime").parse::<jiff::Timestamp>().ok();
            return match ends {
                Some(ends) if ends <= model.now() => {
                    self.noted.insert("a batch is deleted at its end");
                    Ok(())
                }
                _ => broken(format!("{place} was deleted before its time")),
            };
        }
        if place.kind != &PODS {
            return Ok(());
        }
        if is_of_pool(before) {
            let Some(batch) = self.holder(model, &place.name) else { return Ok(()) };
            // Somebody may scribble on the batch while the pod is on its way back: what it let go before
            // counts.
            if !lets_go(batch, &self.lists_of(batch), before) {
                let name = text(batch, "/metadata/name");
                return broken(format!("{place} was deleted though batch {name} holds it"));
            }
            return Ok(());
        }
        let owner = model.list(&BATCHES).find(|batch| uid(batch) == controller(before));
        let Some(owner) = owner else { return Ok(()) };
        // Between the operator's question what the batch asks for and the deletion somebody may ask for more.
        let asked = self.reads.get(&(caller, Place::of(&BATCHES, owner))).copied().unwrap_or(0);
        let since = match self.wanted.get(uid(before)) {
            None => 0,
            // It was not wanted until a moment ago.
            Some(since) => since.unwrap_or(u64::MAX),
        };
        if wants(owner, before) && since <= asked {
            return broken(format!("{place} was deleted though its batch needs it"));
        }
        Ok(())
    }

    /// The mark of a pod changes only when nobody holds the pod; and only a ready pod is given away.
    fn check_claim(&self, model: &Model, before: &Value, after: &Value) -> Result<(), Broken> {
        let name = text(before, "/metadata/name");
        let (was, is) = (mark(before), mark(after));
        if was == is {
            return Ok(());
        }
        if let Some(batch) = self.holder(model, name)
            && mark_of(batch) != is
            && (mark_of(batch) == was || was.is_empty())
            && !deleting(batch)
        {
            let batch = text(batch, "/metadata/name");
            return broken(format!("batch {batch} holds pod {name}, whose mark goes from {was:?} to {is:?}"));
        }
        let holds = self.holder(model, name).is_some();
        if is.is_empty() || holds {
            return Ok(());
        }
        if !was.is_empty() {
            return broken(format!("pod {name} goes from {was} to {is} without having been free"));
        }
        if deleting(before) || !is_ready(before) || is_evicted(before) {
            return broken(format!("pod {name} is claimed and is not ready, or is to go"));
        }
        Ok(())
    }

    fn check_batch(
        &mut self,
        model: &Model,
        place: &Place,
        before: &Value,
        after: &Value,
    ) -> Result<(), Broken> {
        if text(before, "/spec/poolRef") == names::POOL_ANY && text(after, "/spec/poolRef") != names::POOL_ANY
        {
            self.noted.insert("a batch of any pool is given one");
        }
        for field in ["labels", "ownerReferences"] {
            let pointer = format!("/metadata/{field}");
            if before.pointer(&pointer) != after.pointer(&pointer) {
                return broken(format!("the operator has changed {field} of {place}"));
            }
        }
        let foreign = |batch: &Value| -> Vec<String> {
            let finalizers = list(batch, "/metadata/finalizers").iter().filter_map(Value::as_str);
            finalizers.filter(|name| name.starts_with("example.com")).map(str::to_owned).collect()
        };
        if foreign(before) != foreign(after) {
            return broken(format!("the operator has dropped somebody else's finalizer of {place}"));
        }
        let Some(lists) = Lists::of(before) else {
            return match Lists::of(after) {
                None => Ok(()),
                Some(_) => broken(format!("what cannot be read of {place} was overwritten")),
            };
        };
        let Some(new) = Lists::of(after) else {
            return broken(format!("the operator has written what it cannot read itself onto {place}"));
        };
        self.check_gifts(model, place, after, &lists, &new)?;
        let wanted = number(after, "/spec/replicas").and_then(|it| usize::try_from(it).ok()).unwrap_or(1);
        let is_wanted = |name: &&String| lists.slots.iter().take(wanted).any(|slot| slot == *name);
        if new.release.difference(&lists.release).any(|name| is_wanted(&name)) {
            self.noted.insert("a pod is released because its task has ended");
        }
        let pod = |name: &str| model.get(&Place::new(&PODS, NAMESPACE, name)).ok();
        for name in lists.held().filter(|name| !new.holds(name)) {
            let Some(pod) = pod(name) else { continue };
            let is_foreign = !mark(pod).is_empty() && mark(pod) != mark_of(before);
            let goes = lets_go(before, &lists, pod) || lets_go(after, &lists, pod);
            if !deleting(pod) && !is_foreign && !goes && !is_replaced(after, &lists, &new, pod) {
                return broken(format!("{place} loses its pod {name}, which lives"));
            }
        }
        match deleting(after) && !has_finalizer(after, names::FINALIZER_POOL_ALLOCATION) {
            true => check_finalizer(model, place, before, &new),
            false => Ok(()),
        }
    }

    /// A batch is gone when its last finalizer is.
    fn check_end(
        &self,
        model: &Model,
        place: &Place,
        before: &Value,
        operation: &Operation,
    ) -> Result<(), Broken> {
        if !deleting(before) {
            return broken(format!("{place} is gone though nobody has deleted it"));
        }
        let mut lists = self.lists_of(before);
        // Nobody has seen the batch with what the last patch has changed.
        if let Operation::Patch(_, _, Patch::Merge(patch)) = operation
            && let Some(released) = Lists::of(patch).map(|lists| lists.released)
        {
            lists.released.extend(released);
        }
        check_finalizer(model, place, before, &lists)
    }

    /// A batch is given pods that are marked as its own, and that are as its pool gives them away.
    fn check_gifts(
        &self,
        model: &Model,
        place: &Place,
        batch: &Value,
        before: &Lists,
        after: &Lists,
    ) -> Result<(), Broken> {
        for name in after.held().filter(|name| !before.holds(name)) {
            let Ok(pod) = model.get(&Place::new(&PODS, NAMESPACE, name)) else { continue };
            if deleting(pod) {
                continue;
            }
            if mark(pod) != mark_of(batch) {
                return broken(format!("{place} is given pod {name}, which is marked {:?}", mark(pod)));
            }
            let pool = text(batch, "/spec/poolRef");
            if pool_of_pod(pod) != pool {
                return broken(format!(
                    "{place} is of pool {pool} and is given {name} of {}",
                    pool_of_pod(pod)
                ));
            }
        }
        Ok(())
    }

    /// Checks the cluster after a step.
    pub(crate) fn check(&mut self, model: &Model) -> Result<(), Broken> {
        let looked_at = (model.revision(), executors::changes());
        if let Some(wrong) = surroundings::wrong().filter(|_| !self.may_overlap) {
            return broken(wrong);
        }
        if self.looked_at == looked_at {
            return Ok(());
        }
        self.looked_at = looked_at;
        for pod in model.list(&PODS) {
            if let Some(owner) = model.list(&BATCHES).find(|batch| uid(batch) == controller(pod)) {
                let is_wanted = wants(owner, pod);
                let before = self.wanted.get(uid(pod)).copied();
                let since = match (is_wanted, before) {
                    (false, _) => None,
                    (true, None) => Some(0),
                    (true, Some(since)) => since.or(Some(model.revision())),
                };
                self.wanted.insert(uid(pod).to_owned(), since);
            }
        }
        self.check_slots(model)?;
        self.check_holders(model)?;
        check_endpoints(model)?;
        self.tasks.check(model, self.may_overlap)?;
        self.take_in_pools(model);
        self.check_statuses(model)
    }
}

/// Nobody is sent to a pod that is somebody else's.
fn check_endpoints(model: &Model) -> Result<(), Broken> {
    let marked: BTreeMap<&str, &Value> = model
        .list(&PODS)
        .filter(|pod| !mark(pod).is_empty())
        .map(|pod| (text(pod, "/status/podIP"), &**pod))
        .collect();
    for batch in model.list(&BATCHES).filter(|batch| !deleting(batch)) {
        for address in endpoints(batch) {
            let pod = marked.get(&*address).filter(|pod| !address.is_empty() && mark(pod) != mark_of(batch));
            if let Some(pod) = pod {
                let (batch, name) = (text(batch, "/metadata/name"), text(pod, "/metadata/name"));
                return broken(format!(
                    "batch {batch} says that it is at {address}: at {name} of {}",
                    mark(pod)
                ));
            }
        }
    }
    Ok(())
}

/// Where a batch says that it is.
pub(crate) fn endpoints(batch: &Value) -> Vec<String> {
    serde_json::from_str(annotation(batch, names::ANNOTATION_ENDPOINTS)).unwrap_or_default()
}

/// Whether a batch wants this pod of its own.
fn wants(batch: &Value, pod: &Value) -> bool {
    let index: i64 = label(pod, names::LABEL_POD_INDEX).parse().unwrap_or(i64::MAX);
    let is_paused = matches!(text(batch, "/status/phase"), names::PHASE_PAUSING | names::PHASE_PAUSED);
    !deleting(batch) && !is_paused && index < number(batch, "/spec/replicas").unwrap_or(1)
}

/// A batch that is being deleted keeps the pool's finalizer while it holds a pod that its pool can take back.
fn check_finalizer(model: &Model, place: &Place, before: &Value, after: &Lists) -> Result<(), Broken> {
    let pool = Place::new(&POOLS, NAMESPACE, text(before, "/spec/poolRef"));
    if !has_finalizer(before, names::FINALIZER_POOL_ALLOCATION) || model.get(&pool).is_err() {
        return Ok(());
    }
    let lives = |name: &&String| {
        let pod = model.get(&Place::new(&PODS, NAMESPACE, name));
        pod.is_ok_and(|pod| !deleting(pod) && mark(pod) == mark_of(before) && !is_orphan(model, pod))
    };
    match after.held().find(lives) {
        Some(held) => broken(format!("{place} gets rid of its finalizer and still holds {held}")),
        None => Ok(()),
    }
}

/// Whether a pod runs and is ready.
pub(crate) fn is_ready(pod: &Value) -> bool {
    text(pod, "/status/phase") == "Running" && condition(pod, "Ready") == "True"
}

/// Whether a Job has ended.
pub(crate) fn has_ended(job: &Value) -> bool {
    number(job, "/status/succeeded").unwrap_or(0) > 0 || condition(job, "Failed") == "True"
}

/// The Jobs that run.
pub(crate) fn running_jobs(model: &Model) -> Vec<Place> {
    let running = model.list(&JOBS).filter(|job| !deleting(job) && !has_ended(job));
    running.map(|job| Place::of(&JOBS, job)).collect()
}
