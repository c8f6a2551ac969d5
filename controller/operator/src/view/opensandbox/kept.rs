//! Where the view keeps OpenSandbox's kinds, and who has to look when one of them changes.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use sandgate_cache::{Change, Seen, Store, Viewed, seen};
use sandgate_follow::Rejected;
use sandgate_objects::openkruise::resources::decode;
use sandgate_objects::opensandbox::names;
use sandgate_objects::opensandbox::resources::{BatchSandbox, Pool, SandboxSnapshot};
use serde::Deserialize;

use super::super::decode::Kept;
use super::super::{Controller, Inner, index::forget_one};
use super::pod::became_ready;
use super::{OwnPod, PoolPod};
use crate::Key;

fn key_of<T>(change: &Change<T>) -> Option<Key> {
    change.after.as_ref().or(change.before.as_ref()).map(|seen| seen.key.clone())
}

/// The controller of an object, if it is of this kind and of OpenSandbox's group.
fn controller<'a>(metadata: &'a ObjectMeta, kind: &str) -> Option<&'a OwnerReference> {
    let mut owners = metadata.owner_references.iter().flatten();
    owners.find(|owner| {
        owner.controller == Some(true) && owner.kind == kind && owner.api_version.starts_with(names::GROUP)
    })
}

impl Kept for BatchSandbox {
    fn store(inner: &mut Inner) -> &mut Store<Self> {
        &mut inner.opensandbox.batches
    }

    fn peek(inner: &Inner) -> &Store<Self> {
        &inner.opensandbox.batches
    }

    fn changed(inner: &mut Inner, change: Change<Self>) {
        let Some(key) = key_of(&change) else { return };
        inner.opensandbox.batch_changed(&key, &mut inner.dirty);
        inner.dirty.insert((Controller::BatchSandbox, key));
    }
}

impl Kept for Pool {
    fn store(inner: &mut Inner) -> &mut Store<Self> {
        &mut inner.opensandbox.pools
    }

    fn peek(inner: &Inner) -> &Store<Self> {
        &inner.opensandbox.pools
    }

    /// A pool concerns itself, and those of the batches that wait for a pool to be chosen that it may fit now
    /// and did not before.
    fn changed(inner: &mut Inner, change: Change<Self>) {
        let Some(key) = key_of(&change) else { return };
        let waiting = inner.opensandbox.of_pool.get(&Key::new(&key.namespace, names::POOL_ANY));
        let may_fit = |batch: &&Key| may_fit(&change, inner.opensandbox.batches.get(batch));
        let woken = waiting.into_iter().flatten().filter(may_fit).cloned();
        inner.dirty.extend(woken.map(|batch| (Controller::BatchSandbox, batch)));
        if let Some(before) = change.before
            && change.after.is_none_or(|after| after.uid != before.uid)
        {
            inner.reserved.retain(|_, reserved| reserved.set != before.uid);
        }
        inner.dirty.insert((Controller::Pool, key));
    }
}

/// Whether a batch may find a pool in this change that has not found one before. The status of a pool changes
/// with each of its pods, so it counts only when the pool comes to have room for as many as the batch wants.
fn may_fit(change: &Change<Pool>, batch: Option<&Arc<Seen<BatchSandbox>>>) -> bool {
    let (Some(before), Some(after)) = (&change.before, &change.after) else { return true };
    if before.spec != after.spec || before.metadata.labels != after.metadata.labels {
        return true;
    }
    let room = |pool: &Pool| {
        let allocated = pool.status.as_ref().map_or(0, |status| status.allocated);
        pool.spec.capacity_spec.pool_max.saturating_sub(allocated)
    };
    let wanted = batch.map_or(1, |batch| batch.spec.replicas.unwrap_or(1).max(1));
    room(before) < wanted && wanted <= room(after)
}

impl Kept for SandboxSnapshot {
    fn store(inner: &mut Inner) -> &mut Store<Self> {
        &mut inner.opensandbox.snapshots
    }

    fn peek(inner: &Inner) -> &Store<Self> {
        &inner.opensandbox.snapshots
    }

    /// A snapshot concerns itself, and the batch that waits for it.
    fn changed(inner: &mut Inner, change: Change<Self>) {
        let Some(key) = key_of(&change) else { return };
        for seen in [&change.before, &change.after].into_iter().flatten() {
            if let Some(owner) = controller(&seen.metadata, "BatchSandbox") {
                let batch = Key::new(&key.namespace, &owner.name);
                inner.dirty.insert((Controller::BatchSandbox, batch));
            }
        }
        inner.dirty.insert((Controller::SandboxSnapshot, key));
    }
}

impl Kept for PoolPod {
    fn store(inner: &mut Inner) -> &mut Store<Self> {
        &mut inner.opensandbox.pool_pods
    }

    fn peek(inner: &Inner) -> &Store<Self> {
        &inner.opensandbox.pool_pods
    }

    fn changed(inner: &mut Inner, change: Change<Self>) {
        if let Some(after) = &change.after {
            inner.reserved.remove(&after.key);
        }
        let Inner { opensandbox, dirty, .. } = inner;
        opensandbox.pool_pod_changed(change.before.as_ref(), change.after.as_ref(), dirty);
    }
}

impl Kept for OwnPod {
    fn store(inner: &mut Inner) -> &mut Store<Self> {
        &mut inner.opensandbox.own_pods
    }

    fn peek(inner: &Inner) -> &Store<Self> {
        &inner.opensandbox.own_pods
    }

    /// A pod concerns the batch that controls it.
    fn changed(inner: &mut Inner, Change { before, after }: Change<Self>) {
        let Inner { opensandbox, dirty, .. } = inner;
        let is_pressing = became_ready(before.as_ref(), after.as_ref());
        for (seen, is_there) in [(before, false), (after, true)] {
            let Some(seen) = seen else { continue };
            let (Some(uid), Some(owner)) = (seen.batch_uid(), seen.owner.as_ref()) else { continue };
            match is_there {
                true => drop(opensandbox.own.entry(Arc::clone(uid)).or_default().insert(seen.key.clone())),
                false => forget_one(&mut opensandbox.own, uid, &seen.key),
            }
            let batch = Key::new(&seen.key.namespace, &owner.name);
            if is_pressing {
                opensandbox.pressing.insert(batch.clone());
            }
            dirty.insert((Controller::BatchSandbox, batch));
        }
    }
}

/// What the controller of snapshots needs to know of a Job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobFacts {
    /// The snapshot that its label names.
    pub snapshot: Option<Arc<str>>,
    /// The UID of the snapshot that controls it.
    pub owner_uid: Option<Arc<str>>,
    /// Whether a pod of it has succeeded.
    pub has_succeeded: bool,
    /// Why it failed, if it did for good.
    pub failed: Option<Arc<str>>,
    /// Whether it is being deleted.
    pub is_deleting: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawJob {
    metadata: ObjectMeta,
    status: RawStatus,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawStatus {
    succeeded: u32,
    conditions: Vec<RawCondition>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawCondition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
    message: Option<String>,
}

impl Viewed for JobFacts {
    const GROUP: &'static str = "batch";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "Job";
    const PLURAL: &'static str = "jobs";
    const SELECTOR: &'static str = "sandbox.opensandbox.io/sandbox-snapshot-name";

    fn is_selected(&self) -> bool {
        self.snapshot.is_some()
    }

    fn read(object: &[u8]) -> Result<Seen<Self>, Rejected> {
        let object = decode(object).map_err(|error| Rejected(error.to_string()))?;
        let Seen { key, uid, version, object } = seen(object, |raw: &RawJob| &raw.metadata)?;
        let RawJob { metadata, status } = object;
        let owner_uid = controller(&metadata, "SandboxSnapshot").map(|owner| owner.uid.as_str().into());
        let failed = status.conditions.into_iter().find(|it| it.type_ == "Failed" && it.status == "True");
        let object = Self {
            snapshot: metadata
                .labels
                .and_then(|mut all| all.remove(names::LABEL_SNAPSHOT_NAME))
                .map(Arc::from),
            owner_uid,
            has_succeeded: status.succeeded > 0,
            failed: failed.map(|failed| failed.message.unwrap_or_default().into()),
            is_deleting: metadata.deletion_timestamp.is_some(),
        };
        Ok(Seen { key, uid, version, object })
    }
}

impl Kept for JobFacts {
    fn store(inner: &mut Inner) -> &mut Store<Self> {
        &mut inner.opensandbox.jobs
    }

    fn peek(inner: &Inner) -> &Store<Self> {
        &inner.opensandbox.jobs
    }

    /// A Job concerns the snapshot that its label names.
    fn changed(inner: &mut Inner, Change { before, after }: Change<Self>) {
        for seen in [before, after].into_iter().flatten() {
            if let Some(snapshot) = &seen.snapshot {
                let key = Key::new(&seen.key.namespace, snapshot);
                inner.dirty.insert((Controller::SandboxSnapshot, key));
            }
        }
    }
}
