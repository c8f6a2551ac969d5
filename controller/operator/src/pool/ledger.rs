//! The lists of a batch after something was done for it: one patch, from one version of the batch.
//!
//! - `alloc-status`: a pod that is given takes the slot of one that is lost or was given back, or the next
//!   one. Slots keep their places. Those at the end that are given back are cut off, unless their tasks are
//!   done.
//! - `alloc-released`: pods that were given back, and pods that the batch must not be given any more. A name
//!   without a slot is taken out once the pod is known not to be the batch's.
//! - `endpoints`, whenever the batch gets or gives back a pod: it is served at once, and does not name the
//!   address of a pod that the next batch is given.
//! - The pool's finalizer stands while the batch holds a pod, and goes with the last one.

use std::collections::BTreeSet;
use std::sync::Arc;

use sandgate_objects::opensandbox::resources::BatchSandbox;
use sandgate_objects::opensandbox::{Allocation, names};
use serde_json::{Map, Value, json};

use crate::view::{Seen, Slots, has_finalizer, is_leaving, pool_of};

/// What was done for a batch.
#[derive(Clone, Debug, Default)]
pub(super) struct Happened {
    /// Pods that it is given, each with the slot that it takes; none is the next one.
    pub(super) given: Vec<(Option<usize>, Arc<str>)>,
    /// How many slots at its end may be cut off, whatever the replicas.
    pub(super) cut: usize,
    /// Pods that it has given back, or must not be given.
    pub(super) back: BTreeSet<Arc<str>>,
    /// Pods that are gone, are going, or are marked as somebody else's or nobody's: a live read or our own
    /// write has said so after this version of the batch was seen.
    pub(super) parted: BTreeSet<Arc<str>>,
}

/// A pod, as far as an entry of the lists depends on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Known {
    /// Its address.
    pub(super) ip: Option<Arc<str>>,
}

/// The patch; none if the batch is as it has to be. `pod` knows the pods of the namespace that exist.
pub(super) fn compose(
    batch: &Seen<BatchSandbox>,
    before: &Slots,
    happened: &Happened,
    pod: impl Fn(&str) -> Option<Known>,
) -> Option<Value> {
    let mut after = before.clone();
    let Slots { pods, release, released } = &mut after;
    let mut replaced = Vec::new();
    for (slot, name) in &happened.given {
        match slot.and_then(|slot| pods.get_mut(slot)) {
            Some(slot) => replaced.push(std::mem::replace(slot, Arc::clone(name))),
            None => pods.push(Arc::clone(name)),
        }
    }
    released.extend(happened.back.iter().cloned());
    let in_slots: BTreeSet<_> = pods.iter().cloned().collect();
    for old in replaced.into_iter().filter(|old| !in_slots.contains(old)) {
        release.remove(&old);
        // A late answer must not bring back a pod that still exists.
        if pod(&old).is_some() {
            released.insert(old);
        }
    }
    let is_over = |name: &Arc<str>| released.contains(name) && happened.parted.contains(name);
    let most = if is_leaving(batch) { usize::MAX } else { batch.spec.replicas() };
    let mut may_cut = happened.cut;
    while (may_cut > 0 || pods.len() > most) && pods.last().is_some_and(is_over) {
        may_cut = may_cut.saturating_sub(1);
        let Some(name) = pods.pop() else { break };
        if !pods.contains(&name) {
            release.remove(&name);
        }
    }
    let in_slots: BTreeSet<_> = pods.iter().cloned().collect();
    released.retain(|name| in_slots.contains(name) || !happened.parted.contains(name));
    let annotations = annotations(batch, before, &after, pod);
    let finalizers = finalizers(batch, &after);
    if annotations.is_empty() && finalizers.is_none() {
        return None;
    }
    let mut metadata = Map::new();
    if !annotations.is_empty() {
        metadata.insert("annotations".to_owned(), annotations.into());
    }
    if let Some(finalizers) = finalizers {
        metadata.insert("finalizers".to_owned(), finalizers);
    }
    Some(json!({ "metadata": metadata }))
}

fn annotations(
    batch: &BatchSandbox,
    before: &Slots,
    after: &Slots,
    pod: impl Fn(&str) -> Option<Known>,
) -> Map<String, Value> {
    fn text<'a>(names: impl Iterator<Item = &'a Arc<str>>) -> Value {
        names.map(|name| name.to_string()).collect::<Allocation>().text().into()
    }
    let mut annotations = Map::new();
    if before.pods != after.pods {
        annotations.insert(names::ANNOTATION_ALLOC_STATUS.to_owned(), text(after.pods.iter()));
    }
    for (name, before, after) in [
        (names::ANNOTATION_ALLOC_RELEASE, &before.release, &after.release),
        (names::ANNOTATION_ALLOC_RELEASED, &before.released, &after.released),
    ] {
        if before != after {
            let value = if after.is_empty() { Value::Null } else { text(after.iter()) };
            annotations.insert(name.to_owned(), value);
        }
    }
    if !before.kept().eq(after.kept()) {
        let address =
            |name: &Arc<str>| pod(name).and_then(|pod| pod.ip).map_or_else(String::new, |ip| ip.to_string());
        let addresses: Vec<_> = after.kept().map(address).collect();
        let known = batch.metadata.annotations.as_ref().and_then(|all| all.get(names::ANNOTATION_ENDPOINTS));
        if known.is_some() || !addresses.is_empty() {
            annotations
                .insert(names::ANNOTATION_ENDPOINTS.to_owned(), Value::from(addresses).to_string().into());
        }
    }
    annotations
}

/// The finalizers, whole, if they change.
fn finalizers(batch: &Seen<BatchSandbox>, after: &Slots) -> Option<Value> {
    let has_it = has_finalizer(batch, names::FINALIZER_POOL_ALLOCATION);
    let holds_some = after.held().next().is_some();
    let is_to_have_it = match (is_leaving(batch), pool_of(batch)) {
        // Whoever has tasks to stop needs the pods for it.
        (true, _) => has_it && (holds_some || has_finalizer(batch, names::FINALIZER_TASK_CLEANUP)),
        (false, None) => has_it && holds_some,
        (false, Some(_)) => has_it || holds_some,
    };
    (has_it != is_to_have_it).then(|| with_finalizer(batch, is_to_have_it))
}

/// The finalizers of a batch, with the pool's or without it.
pub(super) fn with_finalizer(batch: &BatchSandbox, has_it: bool) -> Value {
    let others = batch.metadata.finalizers.iter().flatten();
    let others = others.filter(|name| *name != names::FINALIZER_POOL_ALLOCATION).map(String::as_str);
    others.chain(has_it.then_some(names::FINALIZER_POOL_ALLOCATION)).collect::<Vec<_>>().into()
}
