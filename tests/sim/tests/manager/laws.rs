//! What must hold after every step.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use sandgate_manager::{Caller, Dimension, Scope};
use sandgate_objects::openkruise::names;
use sandgate_sim::model::object::{annotation, condition, controller, deleting, label, text, uid};
use sandgate_sim::model::{Model, SANDBOXES};
use sandgate_sim::network::{Guard, Operation};
use sandgate_sim::{Committed, World};
use serde_json::Value;

use crate::process::Manager;
use crate::surroundings::{has_ended, is_available, is_to_pause, time};
use crate::users::Users;

/// The label with the ID.
pub(crate) const LABEL_ID: &str = "agents.kruise.io/sandbox-id";

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
    /// The IDs that there are, with their sandbox as it was last seen.
    ids: BTreeMap<String, Arc<Value>>,
    /// The IDs that were there and are not any more.
    gone: BTreeSet<String>,
    /// The earliest end that the sandbox of each ID has had.
    earliest: BTreeMap<String, Timestamp>,
}

impl Laws {
    /// Whether a sandbox of this ID was there once.
    pub(crate) fn has_gone(&self, id: &str) -> bool {
        self.gone.contains(id)
    }

    /// Whether a manager that lags may take the sandbox of this ID for ended: another one has moved the end.
    pub(crate) fn may_seem_ended(&self, id: &str, now: Timestamp) -> bool {
        self.earliest.get(id).is_some_and(|end| *end < now)
    }

    /// Checks what a request of a manager was, and did.
    pub(crate) fn check_request(
        &self,
        request: &Committed,
        world: &World<Manager>,
        users: &Users,
    ) -> Result<(), Broken> {
        let Committed { operation, code, before, .. } = request;
        if operation.guard() == Guard::None {
            return broken(format!("a write carries neither version nor UID nor name: {operation}"));
        }
        let Some(before) = before.as_deref().filter(|_| *code < 300) else { return Ok(()) };
        match &**operation {
            Operation::Delete(place, _) if place.kind == &SANDBOXES => check_delete(before, users),
            Operation::Patch(place, ..) | Operation::Replace(place, ..) if place.kind == &SANDBOXES => {
                let Ok(after) = world.model.get(place) else { return Ok(()) };
                check_write(before, after, world.now())?;
                check_end(before, after, users, world.now())
            }
            _ => Ok(()),
        }
    }

    /// Checks the cluster after a step.
    pub(crate) fn check(&mut self, world: &World<Manager>, users: &Users) -> Result<(), Broken> {
        self.check_ids(&world.model, users)?;
        check_quotas(&world.model, &users.callers, 0)
    }

    /// One ID is one sandbox, for ever. What a user was told of is there until somebody asks to kill it, or
    /// until its end.
    fn check_ids(&mut self, model: &Model, users: &Users) -> Result<(), Broken> {
        let mut now = BTreeMap::new();
        for sandbox in model.list(&SANDBOXES) {
            let id = label(sandbox, LABEL_ID);
            if id.is_empty() {
                continue;
            }
            if now.insert(id.to_owned(), Arc::clone(sandbox)).is_some() {
                return broken(format!("two sandboxes have the ID {id}"));
            }
            if self.gone.contains(id) {
                return broken(format!("the ID {id} was another sandbox's"));
            }
            let is_known = self.ids.get(id).is_some_and(|was| Arc::ptr_eq(was, sandbox));
            if let Some(end) = time(sandbox, "/spec/shutdownTime").filter(|_| !is_known) {
                let earliest = self.earliest.entry(id.to_owned()).or_insert(end);
                *earliest = end.min(*earliest);
            }
        }
        for (id, was) in &self.ids {
            match now.get(id) {
                Some(is) if uid(is) != uid(was) => {
                    return broken(format!("the ID {id} went to another sandbox"));
                }
                Some(_) => {}
                None => {
                    let is_wanted = users.owned.get(id).is_some_and(|owned| !owned.to_die);
                    let has_come = time(was, "/spec/shutdownTime").is_some_and(|end| end < model.now());
                    if is_wanted && !has_come {
                        return broken(format!("{id} was given to a user and is gone before its end"));
                    }
                    self.gone.insert(id.clone());
                }
            }
        }
        self.ids = now;
        Ok(())
    }
}

/// What a user was told of goes only if somebody asked for that, and what waits in a pool is not the
/// manager's to delete.
fn check_delete(before: &Value, users: &Users) -> Result<(), Broken> {
    let (name, id) = (text(before, "/metadata/name"), label(before, LABEL_ID));
    if !controller(before).is_empty() {
        return broken(format!("a manager has deleted {name}, which waits in a pool"));
    }
    if users.owned.get(id).is_some_and(|owned| !owned.to_die) {
        return broken(format!("a manager has deleted {name}, which a user was told of and has not killed"));
    }
    Ok(())
}

/// A sandbox is given once, and paused and resumed in turn.
fn check_write(before: &Value, after: &Value, now: Timestamp) -> Result<(), Broken> {
    let name = text(before, "/metadata/name");
    for field in [names::ANNOTATION_LOCK, names::ANNOTATION_OWNER] {
        let (was, is) = (annotation(before, field), annotation(after, field));
        if was == is {
            continue;
        }
        if !was.is_empty() {
            return broken(format!("{field} of {name} was {was} and is {is}: it was given twice"));
        }
        // One that is in no pool was made for the create that claims it.
        let is_ready = controller(before).is_empty() || is_available(before);
        // Nobody knows before how long the write is under way, and the claim gives it another end.
        if !is_ready || has_ended(before, claimed_at(after).unwrap_or(now)) {
            return broken(format!("{name} was claimed though it was not available"));
        }
    }
    let (was, is) = (label(before, LABEL_ID), label(after, LABEL_ID));
    if !was.is_empty() && was != is {
        return broken(format!("the ID of {name} was {was} and is {is}"));
    }
    let phase = text(before, "/status/phase");
    match (is_to_pause(before), is_to_pause(after)) {
        (false, true) if phase != names::PHASE_RUNNING => {
            broken(format!("{name} was paused while it is {phase}"))
        }
        (true, false) if condition(before, names::CONDITION_PAUSED) != "True" => {
            broken(format!("{name} was resumed before it was paused"))
        }
        _ => Ok(()),
    }
}

fn claimed_at(sandbox: &Value) -> Option<Timestamp> {
    annotation(sandbox, names::ANNOTATION_CLAIM_TIMESTAMP).parse().ok()
}

/// A claim gives a sandbox the end that its order asks for. From then on the end moves only as its user asks.
fn check_end(before: &Value, after: &Value, users: &Users, now: Timestamp) -> Result<(), Broken> {
    let ends = |sandbox| (time(sandbox, "/spec/pauseTime"), time(sandbox, "/spec/shutdownTime"));
    let (was, is) = (ends(before), ends(after));
    let is_claimed = |sandbox| !annotation(sandbox, names::ANNOTATION_OWNER).is_empty();
    if !is_claimed(before) {
        if is_claimed(after) {
            let wanted = &users.order_of(after)?.1.wanted;
            let end = claimed_at(after).zip(wanted.timeout).map(|(at, timeout)| at + timeout);
            let is_right = if wanted.auto_pause { is.0 == end && is.1 > end } else { is == (None, end) };
            if !is_right {
                return broken(format!("a claim for {:?} gives the end {is:?}", wanted.timeout));
            }
        }
        return Ok(());
    }
    let id = label(before, LABEL_ID);
    let is_asked = users.owned.get(id).zip(is.0.or(is.1)).is_some_and(|(owned, end)| owned.may_end(end, now));
    // One that pauses at its end still does, and ends later than that.
    let is_alike = was.0.is_some() == is.0.is_some() && is.1 >= is.0;
    if was == is || (is_asked && is_alike) {
        return Ok(());
    }
    broken(format!("the end of {id} moves from {was:?} to {is:?}, and nobody asks for that"))
}

/// No user has more than the quota allows, at any time, nor would have with so many more. What has ended and
/// is still there takes up room, and is no use of it.
pub(crate) fn check_quotas(model: &Model, callers: &[Caller], more: usize) -> Result<(), Broken> {
    for caller in callers {
        for limit in caller.quota.iter().filter(|limit| limit.dimension == Dimension::Sandboxes) {
            let counts = |sandbox: &Value| {
                annotation(sandbox, names::ANNOTATION_OWNER) == &*caller.owner
                    && !deleting(sandbox)
                    && (more > 0 || !has_ended(sandbox, model.now()))
                    && (limit.scope == Scope::All || !is_to_pause(sandbox))
            };
            let has = more + model.list(&SANDBOXES).filter(|sandbox| counts(sandbox)).count();
            if u64::try_from(has).unwrap_or(u64::MAX) > limit.limit {
                return broken(format!(
                    "{} has {has} sandboxes of {} in {:?}",
                    caller.owner, limit.limit, limit.scope
                ));
            }
        }
    }
    Ok(())
}
