//! Who has which pod, as the annotations of the objects say. This is read here anew, without the program's
//! own code: a mistake there must show.

use std::collections::BTreeSet;

use sandgate_objects::opensandbox::names;
use sandgate_sim::model::object::{annotation, deleting, label, list, text, uid};
use serde_json::Value;

/// The three lists of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lists {
    /// Its pods, by slot.
    pub(crate) slots: Vec<String>,
    /// What it does not want any more.
    pub(crate) release: BTreeSet<String>,
    /// What was taken back.
    pub(crate) released: BTreeSet<String>,
}

impl Lists {
    /// Those of a batch; none if one of them cannot be read.
    pub(crate) fn of(batch: &Value) -> Option<Self> {
        Some(Self {
            slots: pods(annotation(batch, names::ANNOTATION_ALLOC_STATUS))?,
            release: pods(annotation(batch, names::ANNOTATION_ALLOC_RELEASE))?.into_iter().collect(),
            released: pods(annotation(batch, names::ANNOTATION_ALLOC_RELEASED))?.into_iter().collect(),
        })
    }

    /// The pods that the batch holds.
    pub(crate) fn held(&self) -> impl Iterator<Item = &String> {
        self.slots.iter().filter(|pod| !self.released.contains(*pod))
    }

    /// Whether the batch holds a pod.
    pub(crate) fn holds(&self, pod: &str) -> bool {
        self.held().any(|held| held == pod)
    }
}

fn pods(text: &str) -> Option<Vec<String>> {
    if text.is_empty() {
        return Some(Vec::new());
    }
    let value: Value = serde_json::from_str(text).ok()?;
    value.get("pods")?.as_array()?.iter().map(|pod| pod.as_str().map(str::to_owned)).collect()
}

/// The mark of a pod that is this batch's.
pub(crate) fn mark_of(batch: &Value) -> String {
    format!("{}/{}", uid(batch), text(batch, "/metadata/name"))
}

/// The mark of a pod; empty if it is nobody's.
pub(crate) fn mark(pod: &Value) -> &str {
    annotation(pod, names::ANNOTATION_ALLOCATED_TO)
}

/// Whether a pod is of a pool.
pub(crate) fn is_of_pool(pod: &Value) -> bool {
    !label(pod, names::LABEL_POOL_NAME).is_empty()
}

/// Whether a batch has a finalizer.
pub(crate) fn has_finalizer(batch: &Value, name: &str) -> bool {
    list(batch, "/metadata/finalizers").iter().any(|finalizer| finalizer == name)
}

/// Whether a batch lets this pod of a pool go: it says so, is going itself, or has no pool any more.
pub(crate) fn lets_go(batch: &Value, lists: &Lists, pod: &Value) -> bool {
    let pool = text(batch, "/spec/poolRef");
    (deleting(batch) && !has_finalizer(batch, names::FINALIZER_TASK_CLEANUP))
        || pool.is_empty()
        || lists.release.contains(text(pod, "/metadata/name"))
        || lists.released.contains(text(pod, "/metadata/name"))
}

/// Whether a pod of another pool than the batch's has lost its slot to a pod of the batch's pool, in the same
/// write: until then a batch that moves keeps what it has.
pub(crate) fn is_replaced(batch: &Value, before: &Lists, after: &Lists, pod: &Value) -> bool {
    let name = text(pod, "/metadata/name");
    let slot = before.slots.iter().position(|slot| slot == name);
    let next = slot.and_then(|slot| after.slots.get(slot));
    label(pod, names::LABEL_POOL_NAME) != text(batch, "/spec/poolRef")
        && next.is_some_and(|next| next != name && after.holds(next))
}
