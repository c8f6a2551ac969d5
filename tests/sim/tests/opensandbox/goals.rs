//! What must be reached once nothing goes wrong any more.

mod tasks;

use std::collections::BTreeSet;

use sandgate_objects::opensandbox::names;
use sandgate_sim::is_orphan;
use sandgate_sim::model::object::{condition, controller, deleting, label, list, number, text, uid};
use sandgate_sim::model::{BATCHES, JOBS, Model, PODS, POOLS, Place, SNAPSHOTS};
use serde_json::Value;

use crate::held::{Lists, has_finalizer, is_of_pool, mark, mark_of};
use crate::laws::{Broken, broken, done, endpoints, is_ready};
use crate::users::{NAMESPACE, SHARD, has_tasks, image_of, is_evicted, pool_of_pod};

/// Checks a cluster that has come to rest.
pub(crate) fn check(model: &Model) -> Result<(), Broken> {
    for kind in [&BATCHES, &SNAPSHOTS, &PODS] {
        if let Some(left) = model.list(kind).find(|object| deleting(object)) {
            return broken(format!("{} is still being deleted", Place::of(kind, left)));
        }
    }
    for kind in [&PODS, &SNAPSHOTS, &JOBS] {
        if let Some(left) = model.list(kind).find(|object| is_orphan(model, object)) {
            return broken(format!("{} has lost its owner and is still there", Place::of(kind, left)));
        }
    }
    for batch in model.list(&BATCHES) {
        check_batch(model, batch)?;
    }
    for pool in model.list(&POOLS) {
        check_pool(model, pool)?;
    }
    for pod in model.list(&PODS).filter(|pod| is_of_pool(pod)) {
        check_mark(model, pod)?;
    }
    Ok(())
}

fn check_mark(model: &Model, pod: &Value) -> Result<(), Broken> {
    let name = text(pod, "/metadata/name");
    let holder = holder(model, name);
    if mark(pod) != holder.map(mark_of).unwrap_or_default() {
        let holder = holder.map(|batch| text(batch, "/metadata/name"));
        return broken(format!("pod {name} is held by {holder:?} and is marked {:?}", mark(pod)));
    }
    let says = label(pod, names::LABEL_BATCH_NAME);
    if says != holder.map(|batch| text(batch, "/metadata/name")).unwrap_or_default() {
        return broken(format!("pod {name} is labelled as of batch {says:?}"));
    }
    Ok(())
}

fn holder<'a>(model: &'a Model, pod: &str) -> Option<&'a Value> {
    let holds = |batch: &&Value| Lists::of(batch).is_some_and(|lists| lists.holds(pod));
    model.list(&BATCHES).map(|batch| &**batch).find(holds)
}

fn pod<'a>(model: &'a Model, name: &str) -> Option<&'a Value> {
    model.get(&Place::new(&PODS, NAMESPACE, name)).ok().map(|pod| &**pod)
}

fn has_ended(pod: &Value) -> bool {
    matches!(text(pod, "/status/phase"), "Failed" | "Succeeded")
}

fn idle<'a>(model: &'a Model, pool: &'a Value) -> impl Iterator<Item = &'a Value> {
    let pods = model.list(&PODS).map(|pod| &**pod);
    pods.filter(move |pod| {
        controller(pod) == uid(pool) && holder(model, text(pod, "/metadata/name")).is_none()
    })
}

fn check_batch(model: &Model, batch: &Value) -> Result<(), Broken> {
    let name = text(batch, "/metadata/name");
    let ends: Option<jiff::Timestamp> = text(batch, "/spec/expireTime").parse().ok();
    if ends.is_some_and(|ends| ends < model.now()) {
        return broken(format!("batch {name} is past its end"));
    }
    let Some(lists) = Lists::of(batch) else { return broken(format!("batch {name} cannot be read")) };
    let phase = text(batch, "/status/phase");
    let pool = text(batch, "/spec/poolRef");
    let wanted = usize::try_from(number(batch, "/spec/replicas").unwrap_or(1)).unwrap_or(0);
    let holds_some = lists.held().next().is_some();
    if holds_some != has_finalizer(batch, names::FINALIZER_POOL_ALLOCATION) && (holds_some || pool.is_empty())
    {
        return broken(format!("batch {name} holds {:?} and has not the finalizer for it", lists.slots));
    }
    let pods: Vec<&Value> = if pool.is_empty() {
        if holds_some {
            return broken(format!("batch {name} has no pool and holds {:?}", lists.slots));
        }
        own_pods(model, batch, wanted)?
    } else {
        pooled_pods(model, batch, &lists, wanted)?
    };
    if phase == names::PHASE_PAUSED {
        return match pods.is_empty() && condition(batch, names::CONDITION_PAUSED) == "True" {
            true => Ok(()),
            false => broken(format!("batch {name} is paused and has {} pods", pods.len())),
        };
    }
    if let Some(name) = lists
        .release
        .iter()
        .filter(|name| !lists.released.contains(*name))
        .find(|name| pod(model, name).is_some_and(|pod| !deleting(pod) && mark(pod) == mark_of(batch)))
    {
        return broken(format!("the wish to release {name} is not granted"));
    }
    if has_tasks(batch) {
        tasks::check(batch, &pods)?;
    }
    check_status(batch, &pods)
}

/// The pods of a batch without a pool: as many as it wants, made from its template.
fn own_pods<'a>(model: &'a Model, batch: &Value, wanted: usize) -> Result<Vec<&'a Value>, Broken> {
    let name = text(batch, "/metadata/name");
    let pods = model.list(&PODS).map(|pod| &**pod);
    let mut pods: Vec<&Value> = pods.filter(|pod| controller(pod) == uid(batch)).collect();
    pods.sort_by_key(|pod| text(pod, "/metadata/name"));
    if text(batch, "/status/phase") == names::PHASE_PAUSED {
        return Ok(pods);
    }
    let is: Vec<String> = pods.iter().map(|pod| text(pod, "/metadata/name").to_owned()).collect();
    let expected: Vec<String> = (0..wanted).map(|index| format!("{name}-{index}")).collect();
    if is != expected {
        return Err(Broken(format!("batch {name} has the pods {is:?}, not {expected:?}")));
    }
    let patched = !list(batch, "/spec/shardPatches").is_empty();
    for (index, pod) in pods.iter().enumerate() {
        let expected = if index == 0 && patched { "first" } else { "" };
        if label(pod, names::LABEL_POD_INDEX) != index.to_string() || label(pod, SHARD) != expected {
            return Err(Broken(format!("the labels of pod {} are not those of its shard", is[index])));
        }
    }
    Ok(pods)
}

/// The pods of a batch of a pool: as many as it wants, as far as the pool has them.
fn pooled_pods<'a>(
    model: &'a Model,
    batch: &Value,
    lists: &Lists,
    wanted: usize,
) -> Result<Vec<&'a Value>, Broken> {
    let (name, pool_name) = (text(batch, "/metadata/name"), text(batch, "/spec/poolRef"));
    if pool_name == names::POOL_ANY {
        return Err(Broken(format!("batch {name} has no pool yet")));
    }
    if lists.slots.len() > wanted {
        return Err(Broken(format!("batch {name} wants {wanted} pods and has {:?}", lists.slots)));
    }
    let kept = |slot: &&String| !lists.release.contains(*slot) && !lists.released.contains(*slot);
    let kept: Vec<&String> = lists.slots.iter().filter(kept).collect();
    let pods: Vec<&Value> = kept.iter().filter_map(|slot| pod(model, slot)).collect();
    let of_pool = pods.iter().filter(|pod| pool_of_pod(pod) == pool_name).count();
    if of_pool < wanted
        && let Ok(pool) = model.get(&Place::new(&POOLS, NAMESPACE, pool_name))
    {
        let most = number(pool, "/spec/capacitySpec/poolMax").unwrap_or(0);
        let has = model.list(&PODS).filter(|pod| controller(pod) == uid(pool)).count();
        let ready = idle(model, pool).filter(|pod| is_ready(pod)).count();
        // A slot that was given back because its task has ended stays empty, as in OpenSandbox.
        let given_back = lists.slots.iter().take(wanted).filter(|slot| !kept.contains(slot)).count();
        let releases = text(batch, "/spec/taskResourcePolicyWhenCompleted") == "Release";
        let ended = if releases { done(batch).range(..wanted).count() } else { 0 };
        let given_up = given_back.min(ended);
        if of_pool + given_up < wanted && (ready > 0 || i64::try_from(has).unwrap_or(0) < most) {
            return Err(Broken(format!(
                "batch {name} wants {wanted} pods of {pool_name} and has {of_pool}; {has} of {most} pods, {ready} ready"
            )));
        }
    }
    Ok(pods)
}

fn check_status(batch: &Value, pods: &[&Value]) -> Result<(), Broken> {
    let name = text(batch, "/metadata/name");
    let phase = text(batch, "/status/phase");
    let wanted = number(batch, "/spec/replicas").unwrap_or(1);
    if pods.is_empty() && phase.is_empty() && wanted > 0 {
        // A batch that waits for its first pod says nothing.
        return Ok(());
    }
    let ready = pods.iter().filter(|pod| is_ready(pod)).count();
    for (field, is) in [("replicas", pods.len()), ("allocated", pods.len()), ("ready", ready)] {
        let says = number(batch, &format!("/status/{field}")).unwrap_or(0);
        if usize::try_from(says) != Ok(is) {
            return broken(format!("the status of batch {name} says {says} {field}, of {is}"));
        }
    }
    if batch.pointer("/status/observedGeneration") != batch.pointer("/metadata/generation") {
        return broken(format!("the status of batch {name} is of an older generation"));
    }
    let has_failed = pods.iter().any(|pod| text(pod, "/status/phase") == "Failed");
    let ended = pods.iter().any(|pod| has_ended(pod));
    let expected = match (has_failed, ready > 0) {
        (true, _) => names::PHASE_FAILED,
        (false, true) => names::PHASE_SUCCEED,
        (false, false) => names::PHASE_PENDING,
    };
    // A batch is back from its pause when a pod is ready or cannot start.
    let cannot_be_back = ended || pods.is_empty();
    if phase != expected && !(phase == names::PHASE_RESUMING && cannot_be_back) {
        return broken(format!("batch {name} is {phase}, and {expected} by its pods"));
    }
    let addresses: Vec<&str> =
        pods.iter().map(|pod| if has_ended(pod) { "" } else { text(pod, "/status/podIP") }).collect();
    let says = endpoints(batch);
    // A batch that never had an address has no list of them.
    let has_none = says.is_empty() && addresses.iter().all(|address| address.is_empty());
    if says != addresses && !has_none {
        return broken(format!("batch {name} says that it is at {says:?} and is at {addresses:?}"));
    }
    Ok(())
}

fn check_pool(model: &Model, pool: &Value) -> Result<(), Broken> {
    let name = text(pool, "/metadata/name");
    let pods: Vec<&Value> =
        model.list(&PODS).map(|pod| &**pod).filter(|pod| controller(pod) == uid(pool)).collect();
    let idle: Vec<&Value> = idle(model, pool).collect();
    for pod in &idle {
        let pod_name = text(pod, "/metadata/name");
        if !is_ready(pod) || is_evicted(pod) {
            return broken(format!("pod {pod_name} of pool {name} is of no use and is still there"));
        }
        if text(pod, "/spec/containers/0/image") != image_of(pool) {
            return broken(format!("pod {pod_name} of pool {name} is of an older template"));
        }
    }
    let capacity = |field: &str| {
        let number = number(pool, &format!("/spec/capacitySpec/{field}")).unwrap_or(0);
        usize::try_from(number).unwrap_or(0)
    };
    let (least, most) = (capacity("bufferMin"), capacity("bufferMax"));
    if idle.len() < least && pods.len() < capacity("poolMax") {
        return broken(format!("pool {name} has {} idle pods, of at least {least}", idle.len()));
    }
    if idle.len() > most && pods.len() > capacity("poolMin") {
        return broken(format!("pool {name} has {} idle pods, of at most {most}", idle.len()));
    }
    if pods.len() < capacity("poolMin").min(capacity("poolMax")) {
        return broken(format!(
            "pool {name} has {} pods, and should have {}",
            pods.len(),
            capacity("poolMin")
        ));
    }
    let revision = text(pool, "/status/revision");
    let updated = pods.iter().filter(|pod| label(pod, names::LABEL_POOL_REVISION) == revision).count();
    let held: BTreeSet<&str> = pods.iter().map(|pod| text(pod, "/metadata/name")).collect();
    let allocated = held.iter().filter(|pod| holder(model, pod).is_some()).count();
    let says =
        [("total", pods.len()), ("allocated", allocated), ("available", idle.len()), ("updated", updated)];
    for (field, is) in says {
        let says = number(pool, &format!("/status/{field}")).unwrap_or(0);
        if usize::try_from(says) != Ok(is) {
            return broken(format!("the status of pool {name} says {says} {field}, of {is}"));
        }
    }
    if pool.pointer("/status/observedGeneration") != pool.pointer("/metadata/generation") {
        return broken(format!("the status of pool {name} is of an older generation"));
    }
    Ok(())
}
