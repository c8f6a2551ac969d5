//! What must be reached once nothing goes wrong any more.

use std::collections::BTreeSet;
use std::sync::Arc;

use sandgate_objects::openkruise::names;
use sandgate_sim::World;
use sandgate_sim::model::object::{annotation, controller, label, number, text, uid};
use sandgate_sim::model::{CONFIG_MAPS, Model, SANDBOX_SETS, SANDBOXES};
use serde_json::Value;

use crate::laws::{Broken, LABEL_ID};
use crate::process::Manager;
use crate::surroundings::{has_ended, is_available, is_to_pause, time};
use crate::users::{Order, Users};

fn broken(what: String) -> Result<(), Broken> {
    Err(Broken(what))
}

/// Checks a cluster that has come to rest.
pub(crate) fn check(world: &mut World<Manager>, users: &Users) -> Result<(), Broken> {
    let mut knowing = BTreeSet::new();
    for slot in 0..world.copies() {
        if !world.process(slot).has_left_something() {
            knowing.insert(world.number(slot));
        }
    }
    let model = &world.model;
    if users.waiting() > 0 {
        return broken(format!("{} requests are never answered", users.waiting()));
    }
    check_pools(model)?;
    let mut seen = BTreeSet::new();
    for sandbox in model.list(&SANDBOXES).filter(|sandbox| is_claimed(sandbox)) {
        let (number, order) = users.order_of(sandbox)?;
        let is_one_more = !seen.insert(number) || order.accepted.is_some();
        if order.accepted.as_deref() == Some(label(sandbox, LABEL_ID)) {
            continue;
        }
        check_stray(sandbox, number, order, is_one_more, &knowing)?;
    }
    Ok(())
}

/// A sandbox that no user was told of is there only if its user may still ask for it, or a process died over
/// it, or has said that it cannot take it back; and it ends by itself. One beside another of its order is
/// there only after that, or if nobody could say how an attempt ended: who loses the key to another takes its
/// sandbox back.
fn check_stray(
    sandbox: &Value,
    number: usize,
    order: &Order,
    is_one_more: bool,
    knowing: &BTreeSet<u64>,
) -> Result<(), Broken> {
    let name = text(sandbox, "/metadata/name");
    let ends = order.in_doubt.iter().chain(&order.refused_by).chain(&order.given_up);
    let is_lost = ends.into_iter().any(|by| !knowing.contains(by));
    if order.in_doubt.is_empty() && !is_lost {
        let how =
            if order.accepted.is_some() { "has another one" } else { "was told that it failed, or left" };
        return broken(format!("{name} is left of order {number}, whose user {how}"));
    }
    if is_one_more && !is_lost && !order.unsettled {
        return broken(format!("order {number} has two sandboxes, one of them {name}"));
    }
    let ends = time(sandbox, "/spec/shutdownTime").or_else(|| time(sandbox, "/spec/pauseTime"));
    if ends.is_none() {
        return broken(format!("{name} is left of order {number} and never ends"));
    }
    Ok(())
}

/// The sandboxes that are one too many for an order with a key: another one was given to its user, or will be
/// if the user asks again.
pub(crate) fn strays(model: &Model, users: &Users) -> Result<Vec<Arc<Value>>, Broken> {
    let (mut seen, mut strays) = (BTreeSet::new(), Vec::new());
    for sandbox in model.list(&SANDBOXES).filter(|sandbox| is_claimed(sandbox)) {
        let (number, order) = users.order_of(sandbox)?;
        let is_the_one = match &order.accepted {
            Some(id) => id == label(sandbox, LABEL_ID),
            None => seen.insert(number),
        };
        if order.wanted.idempotency_key.is_some() && !is_the_one {
            strays.push(Arc::clone(sandbox));
        }
    }
    Ok(strays)
}

/// Checks that the managers have swept: one key has one sandbox, whoever died.
pub(crate) fn check_swept(model: &Model, users: &Users) -> Result<(), Broken> {
    strays(model, users)?.first().map_or(Ok(()), |stray| {
        let (name, order) = (text(stray, "/metadata/name"), annotation(stray, "order"));
        broken(format!("{name} is one too many for order {order}, and is not swept"))
    })
}

fn is_claimed(sandbox: &Value) -> bool {
    !annotation(sandbox, names::ANNOTATION_OWNER).is_empty()
}

fn check_pools(model: &Model) -> Result<(), Broken> {
    for set in model.list(&SANDBOX_SETS) {
        let wanted = usize::try_from(number(set, "/spec/replicas").unwrap_or(0)).unwrap_or(0);
        let children = model.list(&SANDBOXES).filter(|child| controller(child) == uid(set));
        let available = children.filter(|child| is_available(child)).count();
        if available != wanted {
            return broken(format!("a pool of {wanted} has {available} sandboxes"));
        }
    }
    for sandbox in model.list(&SANDBOXES) {
        let name = text(sandbox, "/metadata/name");
        let locked = !annotation(sandbox, names::ANNOTATION_LOCK).is_empty();
        if is_claimed(sandbox) && (!locked || !controller(sandbox).is_empty()) {
            return broken(format!("{name} is half claimed"));
        }
        // Made for a create that did not come to claim it.
        let is_left = !is_claimed(sandbox) && controller(sandbox).is_empty();
        if is_left && time(sandbox, "/spec/shutdownTime").is_none() {
            return broken(format!("{name} is nobody's and never ends"));
        }
    }
    Ok(())
}

/// Checks what is left after a day: what ends by itself has ended, and no marker is kept.
pub(crate) fn check_late(model: &Model) -> Result<(), Broken> {
    check_pools(model)?;
    for sandbox in model.list(&SANDBOXES).filter(|sandbox| is_claimed(sandbox)) {
        let is_kept = is_to_pause(sandbox) || has_ended(sandbox, model.now());
        if !is_kept {
            return broken(format!("{} never ends", text(sandbox, "/metadata/name")));
        }
    }
    for map in model.list(&CONFIG_MAPS) {
        let name = text(map, "/metadata/name");
        if name.starts_with("sandgate-create-") {
            return broken(format!("the marker {name} is kept for ever"));
        }
    }
    Ok(())
}
