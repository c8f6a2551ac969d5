//! Pods of a batch's own whose images their nodes cannot pull. Another node may be able to, and a pod never
//! leaves its node: so it is deleted, and the replica gets a new pod.
//!
//! Only a pod that was never ready is replaced, and only if the image is not to blame, as far as the kubelet
//! says why. What has been tried is kept in memory: after a restart of this process it begins anew, which
//! costs [`MOST`] more pods at most.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use sandgate_objects::opensandbox::resources::BatchSandbox;

use super::BatchSandboxReconciler;
use super::observe::Observed;
use crate::Key;
use crate::events::EventKind;
use crate::view::{BatchPod, PodPhase, PodState, Seen, SeenPod};
use crate::writes::WriteError;

/// How often the pod of a replica is replaced in one generation of the batch.
const MOST: u32 = 3;

/// How long the first pod is waited for. Each time it is twice as long: the registry may be away for all of
/// the nodes.
const PATIENCE: SignedDuration = SignedDuration::from_secs(60);

/// Why a container waits whose image could not be pulled.
const WAITING: [&str; 2] = ["ErrImagePull", "ImagePullBackOff"];

/// What is said of an image that no node can pull.
const OF_THE_IMAGE: [&str; 9] = [
    "not found",
    "unauthorized",
    "denied",
    "forbidden",
    "manifest unknown",
    "does not exist",
    "authentication required",
    "authorization failed",
    "invalid reference",
];

/// The pods that are to be replaced, and when that is to be looked at again.
#[derive(Clone, Debug, Default)]
pub(super) struct Stuck {
    /// The pods.
    pub(super) pods: Vec<BatchPod>,
    /// When the next one is.
    pub(super) next: Option<Timestamp>,
}

/// What is known of the batches that have such pods.
#[derive(Debug, Default)]
pub(super) struct Pulls {
    batches: Mutex<BTreeMap<Key, Known>>,
}

#[derive(Debug)]
struct Known {
    uid: Arc<str>,
    generation: Option<i64>,
    /// By the UID of the pod.
    waits: BTreeMap<Arc<str>, Wait>,
    /// How often it was done, by the name of the pod.
    replaced: BTreeMap<Arc<str>, u32>,
}

#[derive(Debug)]
struct Wait {
    since: Timestamp,
    /// Whether the image is to blame. The kubelet says it now and then only.
    is_of_the_image: bool,
}

impl Pulls {
    /// Looks at the pods of a batch.
    pub(super) fn look(&self, observed: &Observed) -> Stuck {
        let mut stuck = Stuck::default();
        let batch = &observed.batch;
        let waiting: Vec<_> = observed.pods.iter().filter_map(|pod| waiting(pod, batch)).collect();
        let mut batches = self.batches.lock();
        if waiting.is_empty() && !batches.contains_key(&batch.key) {
            return stuck;
        }
        let known = batches.entry(batch.key.clone()).or_insert_with(|| Known::of(batch));
        if known.uid != batch.uid || known.generation != batch.metadata.generation {
            *known = Known { waits: std::mem::take(&mut known.waits), ..Known::of(batch) };
        }
        known.waits.retain(|uid, _| waiting.iter().any(|(_, waits, _)| *waits == uid));
        for (pod, uid, is_of_the_image) in waiting {
            let begun = || Wait { since: observed.now, is_of_the_image };
            let wait = known.waits.entry(Arc::clone(uid)).or_insert_with(begun);
            wait.is_of_the_image |= is_of_the_image;
            let times = known.replaced.get(&pod.key.name).copied().unwrap_or_default();
            if wait.is_of_the_image || times >= MOST {
                continue;
            }
            let due = wait.since.saturating_add(PATIENCE * (1 << times)).unwrap_or(Timestamp::MAX);
            if due <= observed.now {
                stuck.pods.push(pod.clone());
            } else {
                stuck.next = Some(stuck.next.map_or(due, |next| next.min(due)));
            }
        }
        if known.waits.is_empty() && known.replaced.is_empty() {
            batches.remove(&batch.key);
        }
        stuck
    }

    /// The pod of this name is about to be replaced.
    fn replaced(&self, batch: &Seen<BatchSandbox>, name: &Arc<str>) {
        if let Some(known) = self.batches.lock().get_mut(&batch.key) {
            *known.replaced.entry(Arc::clone(name)).or_default() += 1;
        }
    }

    /// The batch is gone.
    pub(super) fn forget(&self, batch: &Key) {
        self.batches.lock().remove(batch);
    }
}

impl Known {
    fn of(batch: &Seen<BatchSandbox>) -> Self {
        Self {
            uid: Arc::clone(&batch.uid),
            generation: batch.metadata.generation,
            waits: BTreeMap::new(),
            replaced: BTreeMap::new(),
        }
    }
}

/// The pod with its UID, and whether the image is to blame; none if it does not wait for an image, or may not
/// be replaced.
fn waiting<'a>(pod: &'a BatchPod, batch: &BatchSandbox) -> Option<(&'a BatchPod, &'a Arc<str>, bool)> {
    let Some(SeenPod::Own(seen)) = &pod.pod else { return None };
    let state: &PodState = seen;
    // A pod is pending until each of its containers has been started once.
    if state.is_deleting || state.phase != PodPhase::Pending || state.node.is_none() {
        return None;
    }
    // The task of this pod may be under way.
    if batch.spec.task_template.is_some() && state.containers.iter().any(|container| container.is_running) {
        return None;
    }
    let mut waiting = state
        .containers
        .iter()
        .filter(|container| container.waiting.as_deref().is_some_and(|reason| WAITING.contains(&reason)));
    let blames = |message: &Arc<str>| {
        let message = message.to_lowercase();
        OF_THE_IMAGE.iter().any(|words| message.contains(words))
    };
    let first = waiting.next()?;
    let mut all = std::iter::once(first).chain(waiting);
    Some((pod, &seen.uid, all.any(|container| container.waiting_message.as_ref().is_some_and(blames))))
}

impl BatchSandboxReconciler {
    /// Deletes pods whose nodes cannot pull their images. The next look makes new ones.
    pub(super) async fn replace(
        &self,
        batch: &Seen<BatchSandbox>,
        pods: &[BatchPod],
    ) -> Result<(), WriteError> {
        for pod in pods {
            let name = &pod.key.name;
            // Before the request: it may be done and never answered.
            self.pulls.replaced(batch, name);
            let node = pod.pod.as_ref().and_then(|pod| pod.node.as_deref()).unwrap_or_default();
            let note = format!("pod {name} is replaced: its node {node} cannot pull its image");
            self.publish(batch, EventKind::Warning, "PodReplaced", "DeletePod", note);
        }
        self.delete(pods).await
    }
}
