//! The pods that a batch makes of its own template.

use sandgate_objects::opensandbox::names;
use sandgate_objects::opensandbox::resources::BatchSandbox;
use serde_json::{Value, json};

use crate::Key;
use crate::strategic_merge;
use crate::view::Seen;

/// What a label may have at most.
const MAX_LABEL: usize = 63;

/// A pod cannot be made. Only another spec helps.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct InvalidPod(String);

/// The name of the pod of a replica. It is always the same, so there is never a second one.
pub(super) fn pod_key(batch: &Key, index: u32) -> Key {
    Key::new(&batch.namespace, &format!("{}-{index}", batch.name))
}

/// What a pod has of the metadata of its template.
const COPIED: [&str; 3] = ["labels", "annotations", "finalizers"];

/// The pod of a replica, with the patch of this replica, before it says whose it is.
fn patched(batch: &BatchSandbox, template: &Value, index: u32) -> Result<Value, InvalidPod> {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": template["spec"]});
    for field in COPIED {
        let value = &template["metadata"][field];
        if !value.is_null() {
            pod["metadata"][field] = value.clone();
        }
    }
    let patch = usize::try_from(index).ok().and_then(|index| batch.spec.shard_patches.get(index));
    match patch.filter(|patch| !patch.is_null()) {
        Some(patch) => strategic_merge::pod(&pod, patch)
            .map_err(|refused| InvalidPod(format!("shardPatches[{index}]: {refused}"))),
        None => Ok(pod),
    }
}

/// The template that the pod of a replica is made from: the batch's, with the patch of this replica in it.
///
/// # Errors
/// What is wrong with the patch.
pub(crate) fn patched_template(
    batch: &BatchSandbox,
    template: &Value,
    index: u32,
) -> Result<Value, InvalidPod> {
    let pod = patched(batch, template, index)?;
    let mut own = template.clone();
    if own["spec"] != pod["spec"] {
        own["spec"] = pod["spec"].clone();
    }
    for field in COPIED {
        let value = &pod["metadata"][field];
        if own["metadata"][field] != *value {
            own["metadata"][field] = value.clone();
        }
    }
    Ok(own)
}

/// The pod of a replica.
///
/// # Errors
/// What is wrong with the template or with the patch of this replica.
pub(super) fn manifest(
    batch: &Seen<BatchSandbox>,
    template: &Value,
    index: u32,
) -> Result<Value, InvalidPod> {
    let mut pod = patched(batch, template, index)?;
    // Whose pod it is, and which: no patch changes that.
    let metadata = &mut pod["metadata"];
    if !metadata.is_object() {
        *metadata = json!({});
    }
    metadata["name"] = (&*pod_key(&batch.key, index).name).into();
    metadata["namespace"] = (&*batch.key.namespace).into();
    metadata["ownerReferences"] = owned_by(batch);
    if !metadata["labels"].is_object() {
        metadata["labels"] = json!({});
    }
    let labels = &mut metadata["labels"];
    labels[names::LABEL_POD_INDEX] = index.to_string().into();
    if batch.key.name.len() <= MAX_LABEL {
        labels[names::LABEL_BATCH_NAME] = (&*batch.key.name).into();
    }
    // With this label it would count as a pod of that pool.
    if let Some(labels) = labels.as_object_mut() {
        labels.remove(names::LABEL_POOL_NAME);
    }
    Ok(pod)
}

/// The controller reference of whatever a batch owns.
pub(super) fn owned_by(batch: &Seen<BatchSandbox>) -> Value {
    json!([{
        "apiVersion": names::API_VERSION,
        "kind": "BatchSandbox",
        "name": &*batch.key.name,
        "uid": &*batch.uid,
        "controller": true,
        "blockOwnerDeletion": true,
    }])
}

/// The snapshot of a batch's pause.
pub(super) fn snapshot(batch: &Seen<BatchSandbox>, key: &Key) -> Value {
    json!({
        "apiVersion": names::API_VERSION,
        "kind": "SandboxSnapshot",
        "metadata": {
            "name": &*key.name,
            "namespace": &*key.namespace,
            "ownerReferences": owned_by(batch),
        },
        "spec": {"sandboxName": &*batch.key.name},
    })
}
