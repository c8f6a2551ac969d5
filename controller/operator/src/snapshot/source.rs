//! What a snapshot keeps: which pod, which of its containers, and under which names.

use std::fmt::Write as _;

use sandgate_objects::opensandbox::names;
use sandgate_objects::opensandbox::resources::{BatchSandbox, ContainerSnapshot, SandboxSnapshot};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::view::{BatchPod, Seen, Slots, mark_of, pod_index, pool_of};

/// How long a tag is that is made from the name of a snapshot.
const TAG: usize = 37;

/// The names of the pods that may be the batch's, the most likely first: those of its pool, those that it
/// made itself, and the one that it makes first.
pub(super) fn candidates(batch: &Seen<BatchSandbox>, slots: &Slots, own: &[BatchPod]) -> Vec<String> {
    let pooled = slots.held().filter(|name| !slots.release.contains(*name)).map(ToString::to_string);
    let own = own.iter().map(|pod| pod.key.name.to_string());
    let pooled: Vec<_> = if pool_of(batch).is_some() { pooled.collect() } else { Vec::new() };
    let mut all = Vec::new();
    for name in pooled.into_iter().chain(own).chain([format!("{}-0", batch.key.name)]) {
        if !all.contains(&name) {
            all.push(name);
        }
    }
    all
}

/// Whether a pod is the batch's, has a node, and runs.
pub(super) fn is_source(batch: &Seen<BatchSandbox>, slots: &Slots, pod: &Value) -> bool {
    let metadata = &pod["metadata"];
    let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
    let mut controllers = owners.filter(|owner| owner["controller"] == true);
    let is_own = controllers.any(|owner| owner["uid"] == *batch.uid);
    let mark = metadata["annotations"][names::ANNOTATION_ALLOCATED_TO].as_str().unwrap_or_default();
    let name = metadata["name"].as_str().unwrap_or_default();
    // A pod that an older operator gave away has no mark.
    let is_given = slots.held().any(|held| **held == *name) && (mark.is_empty() || mark == mark_of(batch));
    (is_own || is_given)
        && metadata["deletionTimestamp"].is_null()
        && pod["status"]["phase"] == "Running"
        && pod["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty())
}

/// The index of a pod that the batch made itself.
pub(crate) fn index_of(pod: &Value) -> u32 {
    let label = pod["metadata"]["labels"][names::LABEL_POD_INDEX].as_str();
    pod_index(label, pod["metadata"]["name"].as_str().unwrap_or_default()).unwrap_or_default()
}

/// The containers that are kept. `template` is what the pod was made from: what admission has put into the
/// pod beside it is none of the batch's, will be put in again, and often cannot be committed.
pub(super) fn kept_containers(template: Option<&Value>, pod: &Value) -> Vec<String> {
    fn named(spec: &Value) -> Vec<&str> {
        let containers = spec["containers"].as_array().into_iter().flatten();
        containers.filter_map(|container| container["name"].as_str()).collect()
    }
    let all = named(&pod["spec"]);
    let asked = template.map(|template| named(&template["spec"])).unwrap_or_default();
    let kept: Vec<_> = all.iter().filter(|name| asked.contains(*name)).collect();
    // A pod of another revision may share no name with the template.
    let kept = if kept.is_empty() { all.iter().collect() } else { kept };
    kept.into_iter().map(|name| (*name).to_owned()).collect()
}

/// Each container with the image that it is kept as.
pub(super) fn images(
    registry: &str,
    batch: &Seen<BatchSandbox>,
    snapshot: &Seen<SandboxSnapshot>,
    containers: Vec<String>,
) -> Vec<ContainerSnapshot> {
    let (registry, tag) = (registry.trim_end_matches('/'), tag(batch, snapshot));
    let one = |container_name: String| ContainerSnapshot {
        image_uri: format!("{registry}/{}-{container_name}:{tag}", batch.key.name),
        container_name,
        image_digest: None,
    };
    containers.into_iter().map(one).collect()
}

/// The tag of the images: of a pause the generation of the batch, else made from the snapshot's name.
fn tag(batch: &Seen<BatchSandbox>, snapshot: &Seen<SandboxSnapshot>) -> String {
    if is_of_batch(snapshot) {
        return format!("snap-gen{}", batch.metadata.generation.unwrap_or_default());
    }
    let name = &*snapshot.key.name;
    let hex = name.strip_prefix("osb-snap-").filter(|hex| {
        hex.len() == 32 && hex.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
    });
    if let Some(hex) = hex {
        return format!("snap-{hex}");
    }
    let mut tag = "snap-".to_owned();
    for byte in Sha256::digest(name.as_bytes()) {
        let _ = write!(tag, "{byte:02x}");
    }
    tag.truncate(TAG);
    tag
}

/// Whether a batch made the snapshot, for a pause.
fn is_of_batch(snapshot: &SandboxSnapshot) -> bool {
    batch_uid(snapshot).is_some()
}

/// The UID of the batch that controls the snapshot.
pub(crate) fn batch_uid(snapshot: &SandboxSnapshot) -> Option<&str> {
    let mut owners = snapshot.metadata.owner_references.iter().flatten();
    let owner = owners.find(|owner| {
        owner.controller == Some(true)
            && owner.kind == "BatchSandbox"
            && owner.api_version.starts_with(names::GROUP)
    })?;
    Some(&owner.uid)
}
