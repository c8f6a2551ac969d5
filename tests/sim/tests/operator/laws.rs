//! What must hold after every step.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use sandgate_objects::openkruise::names;
use sandgate_sim::Committed;
use sandgate_sim::model::object::{condition, controller, deleting, label, list, number, text, uid};
use sandgate_sim::model::{Model, PODS, Place, SANDBOX_SETS, SANDBOXES, VOLUME_CLAIMS};
use sandgate_sim::network::{Guard, Operation};
use serde_json::{Value, json};

use crate::users::{is_available, is_claimed};

/// A law that was broken.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Broken(pub(crate) String);

fn broken(what: String) -> Result<(), Broken> {
    Err(Broken(what))
}

/// What the laws have to remember of a run.
#[derive(Default)]
pub(crate) struct Laws {
    /// Pods whose sandbox has asked for their end, by UID.
    asked: BTreeSet<String>,
    /// The pods that a sandbox has said it has had, by UID of the sandbox; the last is the one it has.
    shown: BTreeMap<String, Vec<String>>,
    /// The sandbox that a pod was made for, by UID.
    made_for: BTreeMap<String, String>,
    /// When a pod was first there, by UID.
    born: BTreeMap<String, u64>,
    /// When an operator was last told that there is no object at a place.
    missing: BTreeMap<Place, u64>,
    /// The newest generation that a status was of, by UID.
    observed: BTreeMap<String, i64>,
    /// The most replicas that each set has asked for, by UID.
    most: BTreeMap<String, i64>,
    /// Nobody but the operator takes sandboxes away: rolling stays within its budget.
    rolling_only: bool,
    /// Sets that were full once, by UID.
    full: BTreeSet<String>,
}

impl Laws {
    /// The laws at the beginning of a run.
    pub(crate) fn new(rolling_only: bool) -> Self {
        Self { rolling_only, ..Self::default() }
    }

    /// Checks what a request of the operator was, and did.
    pub(crate) fn check_request(
        &mut self,
        request: &Committed,
        model: &Model,
        processes: u64,
    ) -> Result<(), Broken> {
        let Committed { operation, code, before, .. } = request;
        if operation.guard() == Guard::None {
            return broken(format!("a write carries neither version nor UID nor name: {operation}"));
        }
        if let Operation::Get(place) = &**operation
            && *code == 404
        {
            self.missing.insert(place.clone(), model.revision());
        }
        if *code >= 300 {
            return Ok(());
        }
        if let Operation::Create(kind, namespace, pod) = &**operation
            && *kind == &PODS
        {
            check_volumes(model, namespace, pod)?;
        }
        let Some(before) = before else { return Ok(()) };
        match &**operation {
            Operation::Delete(place, _) => {
                let is_unasked = !deleting(before) && !self.asked.contains(uid(before));
                if place.kind == &PODS && is_unasked {
                    return broken(format!("{place} was deleted though its sandbox did not ask for that"));
                }
                if place.kind == &SANDBOXES && is_claimed(before) && !has_ended(before, model.now()) {
                    return broken(format!("{place} was deleted though it is claimed"));
                }
            }
            Operation::Patch(place, _, _) if place.kind == &SANDBOXES => {
                let Ok(after) = model.get(place) else { return Ok(()) };
                for field in ["ownerReferences", "labels", "annotations"] {
                    let pointer = format!("/metadata/{field}");
                    if before.pointer(&pointer) != after.pointer(&pointer) {
                        return broken(format!("the operator changed {field} of {place}: {operation}"));
                    }
                }
                self.check_status(model, place, before, after, processes)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Checks the cluster after a step. `processes` is how many operators there were so far.
    pub(crate) fn check(&mut self, model: &Model, processes: u64) -> Result<(), Broken> {
        self.check_pods(model)?;
        self.check_statuses(model)?;
        self.check_sets(model, processes)
    }

    fn check_pods(&mut self, model: &Model) -> Result<(), Broken> {
        for pod in model.list(&PODS) {
            let owners = list(pod, "/metadata/ownerReferences");
            if owners.len() != 1 || controller(pod).is_empty() {
                return broken(format!("pod {} is owned by {owners:?}", text(pod, "/metadata/name")));
            }
            self.born.entry(uid(pod).to_owned()).or_insert(model.revision());
            let sandbox =
                self.made_for.entry(uid(pod).to_owned()).or_insert_with(|| controller(pod).to_owned());
            if sandbox != controller(pod) {
                return broken(format!("pod {} has another sandbox now", text(pod, "/metadata/name")));
            }
            let place = Place::new(&SANDBOXES, text(pod, "/metadata/namespace"), text(pod, "/metadata/name"));
            let owner = model.get(&place).ok().filter(|owner| uid(owner) == controller(pod));
            if owner.is_none_or(|owner| asks_for_the_end(owner, pod, model.now())) {
                self.asked.insert(uid(pod).to_owned());
            }
        }
        let mut served: BTreeMap<&str, &str> = BTreeMap::new();
        for sandbox in model.list(&SANDBOXES) {
            let pod = text(sandbox, "/status/podInfo/podUID");
            if pod.is_empty() {
                continue;
            }
            let name = text(sandbox, "/metadata/name");
            if self.made_for.get(pod).is_some_and(|owner| owner != uid(sandbox)) {
                return broken(format!("sandbox {name} says that it has the pod of another sandbox"));
            }
            let shown = self.shown.entry(uid(sandbox).to_owned()).or_default();
            if shown.last().is_none_or(|last| last != pod) {
                if shown.iter().any(|earlier| earlier == pod) {
                    return broken(format!("sandbox {name} says that it has a pod again that it has left"));
                }
                shown.push(pod.to_owned());
            }
            if let Some(other) = served.insert(pod, name) {
                return broken(format!("sandboxes {name} and {other} say that they have one pod"));
            }
        }
        Ok(())
    }

    /// A status that says that a pod is gone says the truth, as far as one can know: a request that was given
    /// up may be done after the server has said that there is no pod. With several operators one may just
    /// have made the pod that another does not know of.
    fn check_status(
        &self,
        model: &Model,
        place: &Place,
        before: &Value,
        after: &Value,
        processes: u64,
    ) -> Result<(), Broken> {
        let missing = self.missing.get(&Place { kind: &PODS, ..place.clone() }).copied();
        let born = |pod: &Value| self.born.get(uid(pod)).copied();
        let is_late =
            |pod: &Value| missing.is_some_and(|missing| born(pod).is_none_or(|born| born > missing));
        let mut pods = model.list(&PODS).filter(|pod| controller(pod) == uid(after) && !is_late(pod));
        let (was, is) = (text(before, "/status/phase"), text(after, "/status/phase"));
        let paused = |sandbox: &Value| {
            text(sandbox, "/status/phase") == names::PHASE_PAUSED
                && condition(sandbox, names::CONDITION_PAUSED) == "True"
        };
        if processes == 1 && paused(after) && !paused(before) && pods.next().is_some() {
            return broken(format!("{place} is said to be paused, and has a pod"));
        }
        let lives = |pod: &Value| {
            !deleting(pod)
                && !matches!(text(pod, "/status/phase"), names::PHASE_FAILED | names::PHASE_SUCCEEDED)
        };
        let ended = matches!(is, names::PHASE_FAILED | names::PHASE_SUCCEEDED);
        // One that a late request has made is not the one that it had.
        let had = text(before, "/status/podInfo/podUID");
        if ended && was != is && pods.any(|pod| lives(pod) && uid(pod) == had) {
            return broken(format!("{place} is said to be {is}, and its pod lives"));
        }
        Ok(())
    }

    fn check_statuses(&mut self, model: &Model) -> Result<(), Broken> {
        for object in model.list(&SANDBOXES).chain(model.list(&SANDBOX_SETS)) {
            let Some(observed) = number(object, "/status/observedGeneration") else { continue };
            let before = self.observed.insert(uid(object).to_owned(), observed).unwrap_or(0);
            let generation = number(object, "/metadata/generation").unwrap_or(0);
            if observed < before || observed > generation {
                let name = text(object, "/metadata/name");
                return broken(format!(
                    "the status of {name} was of generation {before} and is of {observed}, of {generation}"
                ));
            }
        }
        Ok(())
    }

    fn check_sets(&mut self, model: &Model, processes: u64) -> Result<(), Broken> {
        for set in model.list(&SANDBOX_SETS) {
            let (name, replicas) = (text(set, "/metadata/name"), number(set, "/spec/replicas").unwrap_or(0));
            let most = self.most.entry(uid(set).to_owned()).or_insert(replicas);
            *most = replicas.max(*most);
            let children = || model.list(&SANDBOXES).filter(|sandbox| controller(sandbox) == uid(set));
            let live = children().filter(|child| !deleting(child) && !has_ended(child, model.now())).count();
            // A request of an operator that died may be done after the next one has looked.
            let bound = *most * i64::try_from(processes).unwrap_or(i64::MAX);
            if i64::try_from(live).unwrap_or(i64::MAX) > bound {
                return broken(format!("set {name} has {live} sandboxes, and may have {bound}"));
            }
            if !self.rolling_only {
                continue;
            }
            let available =
                i64::try_from(children().filter(|child| is_available(child)).count()).unwrap_or(0);
            if available == replicas {
                self.full.insert(uid(set).to_owned());
            }
            // 20 %, rounded up.
            let budget = (replicas + 4) / 5;
            if self.full.contains(uid(set)) && available < replicas - budget {
                return broken(format!(
                    "set {name} has {available} of {replicas} available, with a budget of {budget}"
                ));
            }
        }
        Ok(())
    }
}

/// A pod that is made for a sandbox which lives has the volumes of that sandbox, and of no other.
pub(crate) fn check_volumes(model: &Model, namespace: &str, pod: &Value) -> Result<(), Broken> {
    let name = text(pod, "/metadata/name");
    let sandbox = model.get(&Place::new(&SANDBOXES, namespace, name));
    let Some(sandbox) = sandbox.ok().filter(|sandbox| uid(sandbox) == controller(pod)) else { return Ok(()) };
    for template in list(sandbox, "/spec/volumeClaimTemplates") {
        let claim = format!("{}-{name}", text(template, "/metadata/name"));
        let found = model.get(&Place::new(&VOLUME_CLAIMS, namespace, &claim));
        if found.is_ok_and(|claim| controller(claim) != uid(sandbox)) {
            return broken(format!("the pod of sandbox {name} has the volume of another one"));
        }
        if !list(pod, "/spec/volumes")
            .iter()
            .any(|volume| text(volume, "/persistentVolumeClaim/claimName") == claim)
        {
            return broken(format!("the pod of sandbox {name} lacks the volume {claim}"));
        }
    }
    Ok(())
}

/// Whether a sandbox is dead: nobody may use it any more.
pub(crate) fn has_ended(sandbox: &Value, now: Timestamp) -> bool {
    let phase = text(sandbox, "/status/phase");
    let ends: Option<Timestamp> = text(sandbox, "/spec/shutdownTime").parse().ok();
    matches!(phase, names::PHASE_FAILED | names::PHASE_SUCCEEDED) || ends.is_some_and(|ends| ends < now)
}

/// Whether the sandbox wants its pod to end.
fn asks_for_the_end(sandbox: &Value, pod: &Value, now: Timestamp) -> bool {
    let recreates = text(sandbox, "/spec/upgradePolicy/type") == "Recreate";
    let hash = label(pod, names::LABEL_POD_TEMPLATE_HASH);
    let is_new = !matches!(text(pod, "/status/phase"), names::PHASE_RUNNING | names::PHASE_FAILED);
    deleting(sandbox)
        || has_ended(sandbox, now)
        || sandbox.pointer("/spec/paused") == Some(&json!(true))
        || condition(sandbox, names::CONDITION_PAUSED) == "False"
        || ((recreates || is_new) && hash != text(sandbox, "/status/updateRevision"))
        || text(sandbox, "/status/phase") == names::PHASE_UPGRADING
}
