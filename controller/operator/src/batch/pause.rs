//! Pause and resume: what is to be done while one of them is asked for or under way.

use std::collections::BTreeSet;
use std::sync::Arc;

use sandgate_objects::opensandbox::resources::{BatchSandbox, ContainerSnapshot, SandboxSnapshot};
use sandgate_objects::opensandbox::{Allocation, names};
use serde_json::{Map, Value, json};

use super::observe::{Observed, SnapshotOf};
use super::plan::{
    IN_THE_WAY, Plan, Settle, SnapshotStep, TaskStep, Turn, detach, phase, sooner, steady, without,
};
use super::pod::{InvalidPod, patched_template};
use crate::Again;
use crate::merge::merge_patch;
use crate::snapshot::is_terminal;
use crate::view::{Seen, has_finalizer, pool_of};

/// [`names::CONDITION_RESUME_FAILED`]: there is no template to make a pod from.
pub(super) const REASON_TEMPLATE_NOT_FOUND: &str = "TemplateNotFound";

/// [`names::CONDITION_RESUME_FAILED`]: the first of `shardPatches` has no meaning for the template.
const REASON_PATCH_INVALID: &str = "ShardPatchInvalid";

/// Whether a pause or a resume is under way, or the batch is paused.
pub(super) fn is_under_way(phase: &str) -> bool {
    matches!(phase, names::PHASE_PAUSING | names::PHASE_PAUSED | names::PHASE_RESUMING)
}

/// Whether the batch's wish about a pause has not been heard yet.
fn is_unheard(batch: &BatchSandbox) -> bool {
    let heard = batch.status.as_ref().and_then(|status| status.pause_observed_generation).unwrap_or_default();
    batch.metadata.generation.unwrap_or_default() > heard
}

/// The phase of a snapshot; empty if it has none.
pub(super) fn snapshot_phase(snapshot: &SandboxSnapshot) -> &str {
    snapshot.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

/// What a pause or a resume asks for. None if there is none: the batch goes on as usual.
pub(super) fn plan(observed: &Observed, phase: &str, pull_secret: Option<&str>) -> Option<Plan> {
    let batch = &observed.batch;
    let asked = batch.spec.pause.filter(|_| is_unheard(batch));
    match (phase, asked) {
        // What is under way goes first.
        (names::PHASE_PAUSING, _) => Some(pausing(observed)),
        (names::PHASE_RESUMING, _) => resuming(observed, pull_secret),
        // A batch that is to be resumed and is not paused has nothing to resume from.
        (names::PHASE_PAUSED, Some(false)) => Some(Settle::new(Turn::Resuming).plan()),
        (names::PHASE_PAUSED, _) => Some(paused(observed)),
        (_, Some(true)) => Some(asked_to_pause(observed)),
        (_, _) => None,
    }
}

/// What there is goes on until a snapshot is out of the way. The batch may live for long meanwhile: its pods
/// are made again, and its status and its addresses say what they are.
fn wait(observed: &Observed) -> Settle {
    let mut settle = match phase(&observed.batch) {
        names::PHASE_PAUSING => Settle::new(Turn::Hold),
        _ => Settle { turn: Turn::Waiting, ..steady(observed) },
    };
    settle.again = sooner(settle.again, Again::After(IN_THE_WAY));
    settle
}

/// Waits for a snapshot of an earlier batch of the name, which the garbage collector deletes. A stranger's
/// stays, and there is no other name for the batch's own: then the turn is what `taken` makes of the message.
fn other(observed: &Observed, snapshot: &Seen<SandboxSnapshot>, taken: fn(String) -> Turn) -> Plan {
    let is_leaving = snapshot.metadata.deletion_timestamp.is_some();
    if is_leaving || crate::snapshot::batch_uid(snapshot).is_some() {
        return wait(observed).plan();
    }
    let name = &snapshot.key.name;
    Settle::new(taken(format!("the SandboxSnapshot {name} is there already, and is not of this batch")))
        .plan()
}

fn asked_to_pause(observed: &Observed) -> Plan {
    let replicas = observed.batch.spec.replicas();
    if replicas != 1 {
        let message = format!("a batch of {replicas} replicas cannot be paused: it must have one");
        let reason = names::REASON_UNSUPPORTED_REPLICAS;
        return Settle::new(Turn::PauseRefused { reason, message }).plan();
    }
    match &observed.snapshot {
        SnapshotOf::Other(snapshot) => other(observed, snapshot, |message| Turn::PauseRefused {
            reason: names::REASON_SNAPSHOT_FAILED,
            message,
        }),
        SnapshotOf::Own(snapshot) if snapshot.metadata.deletion_timestamp.is_some() => wait(observed).plan(),
        // Of an earlier pause.
        SnapshotOf::Own(snapshot) if is_terminal(snapshot_phase(snapshot)) => {
            let mut settle = wait(observed);
            settle.snapshot = SnapshotStep::Delete(Arc::clone(snapshot));
            settle.plan()
        }
        SnapshotOf::Own(_) | SnapshotOf::None => Settle::new(Turn::Pausing).plan(),
    }
}

fn pausing(observed: &Observed) -> Plan {
    let snapshot = match &observed.snapshot {
        SnapshotOf::None => {
            let mut settle = Settle::new(Turn::Hold);
            settle.snapshot = SnapshotStep::Create;
            let has_tasks = observed.batch.spec.task_template.is_some();
            settle.tasks = if has_tasks { TaskStep::Stop } else { TaskStep::None };
            return settle.plan();
        }
        SnapshotOf::Other(snapshot) => return other(observed, snapshot, Turn::PauseFailed),
        SnapshotOf::Own(snapshot) if snapshot.metadata.deletion_timestamp.is_some() => {
            return wait(observed).plan();
        }
        SnapshotOf::Own(snapshot) => snapshot,
    };
    match snapshot_phase(snapshot) {
        names::PHASE_SUCCEED if observed.is_pooled => Plan::Unpool(Arc::clone(snapshot)),
        names::PHASE_SUCCEED => paused(observed),
        names::PHASE_FAILED => {
            let failed = snapshot.status.as_ref().and_then(|it| it.condition(names::CONDITION_FAILED));
            let message = failed.map(|failed| match failed.message.as_str() {
                "" => failed.reason.clone(),
                message => format!("{}: {message}", failed.reason),
            });
            Settle::new(Turn::PauseFailed(message.unwrap_or_else(|| "the snapshot failed".to_owned()))).plan()
        }
        // Its change brings the next look.
        _ => Settle::new(Turn::Hold).plan(),
    }
}

/// The batch has no pods while it is paused.
fn paused(observed: &Observed) -> Plan {
    let mut settle = Settle::new(Turn::Paused);
    settle.tasks = TaskStep::Forget;
    if !observed.is_pooled {
        let alive = observed.pods.iter().filter(|pod| pod.pod.as_ref().is_some_and(|it| !it.is_deleting));
        settle.delete = alive.cloned().collect();
    }
    // What it held of a pool before may be gone only now.
    let is_at_rest = phase(&observed.batch) == names::PHASE_PAUSED && settle.delete.is_empty();
    detach(observed).filter(|_| is_at_rest).unwrap_or_else(|| settle.plan())
}

fn resuming(observed: &Observed, pull_secret: Option<&str>) -> Option<Plan> {
    let failed = |reason, message: &str| {
        Some(Settle::new(Turn::ResumeFailed { reason, message: message.to_owned() }).plan())
    };
    let snapshot = match &observed.snapshot {
        SnapshotOf::Own(snapshot) => snapshot,
        SnapshotOf::None | SnapshotOf::Other(_) => {
            let is_back = |pod: &crate::view::SeenPod| pod.is_ready && !pod.is_deleting;
            if observed.pods.iter().any(|pod| pod.pod.as_ref().is_some_and(is_back)) {
                return Some(steady(observed).plan());
            }
            return failed(names::REASON_SNAPSHOT_NOT_FOUND, "there is no snapshot to resume from");
        }
    };
    if snapshot_phase(snapshot) != names::PHASE_SUCCEED {
        let message = format!("the snapshot {} is not made", snapshot.key.name);
        return failed(names::REASON_SNAPSHOT_NOT_READY, &message);
    }
    let template = observed.batch.spec.template.as_ref().and_then(|template| template.parse().ok());
    let Some(template) = template else {
        return failed(REASON_TEMPLATE_NOT_FOUND, "the batch has no template");
    };
    let images = snapshot.status.as_ref().map(|status| status.containers.as_slice()).unwrap_or_default();
    match resumed(&observed.batch, &template, images, pull_secret) {
        Ok(Some(patch)) => Some(Plan::Patch(patch)),
        Ok(None) => Some(steady(observed).plan()),
        Err(invalid) => failed(REASON_PATCH_INVALID, &invalid.to_string()),
    }
}

/// The patch by which a batch gets the images of its snapshot; none if it has them. Where the first of
/// `shardPatches` names an image it gets the new one, too: it is laid over the template, and would bring the
/// old one back.
///
/// # Errors
/// What is wrong with the first of `shardPatches`.
fn resumed(
    batch: &BatchSandbox,
    template: &Value,
    images: &[ContainerSnapshot],
    pull_secret: Option<&str>,
) -> Result<Option<Value>, InvalidPod> {
    let mut new = template.clone();
    for image in images {
        if let Some(container) = named(&mut new, &image.container_name) {
            container["image"] = pinned(image).into();
        }
    }
    if let Some(secret) = pull_secret.filter(|secret| !secret.is_empty()) {
        let secrets = &mut new["spec"]["imagePullSecrets"];
        if !secrets.is_array() {
            *secrets = json!([]);
        }
        let secret = json!({"name": secret});
        if let Some(secrets) = secrets.as_array_mut().filter(|secrets| !secrets.contains(&secret)) {
            secrets.push(secret);
        }
    }
    let mut spec = Map::new();
    if let Some(change) = merge_patch(template, &new) {
        spec.insert("template".to_owned(), change);
    }
    if let Some(first) = first_patch_with(batch, &new, images)? {
        let others = batch.spec.shard_patches.iter().skip(1).cloned();
        spec.insert("shardPatches".to_owned(), std::iter::once(first).chain(others).collect());
    }
    if pool_of(batch).is_some() {
        spec.insert("poolRef".to_owned(), Value::Null);
    }
    Ok((!spec.is_empty()).then(|| json!({"spec": spec})))
}

/// The container of this name in a pod, a template or a patch.
fn named<'a>(pod: &'a mut Value, name: &str) -> Option<&'a mut Value> {
    let containers = pod.get_mut("spec")?.get_mut("containers")?.as_array_mut()?;
    containers.iter_mut().find(|container| container["name"] == *name)
}

/// The first of `shardPatches` with the images of the snapshot; none if a pod of the template has them with
/// the patch as it is.
fn first_patch_with(
    batch: &BatchSandbox,
    template: &Value,
    images: &[ContainerSnapshot],
) -> Result<Option<Value>, InvalidPod> {
    let Some(first) = batch.spec.shard_patches.first() else { return Ok(None) };
    let mut pod = patched_template(batch, template, 0)?;
    let mut patch = first.clone();
    for image in images {
        let wanted = pinned(image);
        let is_so = |container: &mut Value| container["image"] == *wanted;
        let is_as_wanted = named(&mut pod, &image.container_name).is_none_or(is_so);
        if let Some(container) = named(&mut patch, &image.container_name).filter(|_| !is_as_wanted) {
            container["image"] = wanted.into();
        }
    }
    Ok((patch != *first).then_some(patch))
}

/// The image of a container, by its digest if that is known. A tag says the name of the batch and a small
/// number, so a later batch of the name pushes to it as well, and nodes keep what they have pulled by it.
fn pinned(image: &ContainerSnapshot) -> String {
    let uri = image.image_uri.as_str();
    // Some tools say the digest with the name of the image before it.
    let digest = image.image_digest.as_deref().and_then(|digest| digest.rsplit('@').next());
    let is_digest = |digest: &&str| {
        let hex = digest.strip_prefix("sha256:").unwrap_or_default();
        hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let Some(digest) = digest.filter(is_digest) else { return uri.to_owned() };
    let name = uri.split('@').next().unwrap_or_default();
    // A colon before the last slash is of a port.
    let name = match name.rfind(':') {
        Some(colon) if !name[colon..].contains('/') => &name[..colon],
        _ => name,
    };
    format!("{name}@{digest}")
}

/// The `shardPatches` of a batch with an empty one for its first pod; none if that is so already.
fn without_first_patch(batch: &BatchSandbox) -> Option<Value> {
    let patches = &batch.spec.shard_patches;
    let first = patches.first()?;
    let is_empty = first.is_null() || first.as_object().is_some_and(Map::is_empty);
    (!is_empty).then(|| std::iter::once(json!({})).chain(patches.iter().skip(1).cloned()).collect())
}

/// What the template of a batch becomes that had a pod of a pool: the pod, without what belongs to that one
/// pod.
pub(super) fn template_of(pod: &Value) -> Value {
    const OF_POOL: [&str; 5] = [
        names::LABEL_POD_INDEX,
        names::LABEL_BATCH_NAME,
        names::LABEL_POOL_NAME,
        names::LABEL_POOL_REVISION,
        names::LABEL_EVICT,
    ];
    const OF_POD: [&str; 2] = [names::ANNOTATION_ALLOCATED_TO, names::ANNOTATION_RESTART_RECORD];
    let without = |field: &str, names: &[&str]| -> Map<String, Value> {
        let all = pod["metadata"][field].as_object().into_iter().flatten();
        let kept = all.filter(|(name, _)| !names.contains(&name.as_str()));
        kept.map(|(name, value)| (name.clone(), value.clone())).collect()
    };
    let mut metadata = Map::new();
    for (field, names) in [("labels", OF_POOL.as_slice()), ("annotations", OF_POD.as_slice())] {
        let kept = without(field, names);
        if !kept.is_empty() {
            metadata.insert(field.to_owned(), kept.into());
        }
    }
    let mut spec = pod["spec"].as_object().cloned().unwrap_or_default();
    // Nobody may create a pod with these, or they are about the place of this one.
    for field in ["nodeName", "ephemeralContainers"] {
        spec.remove(field);
    }
    json!({"metadata": metadata, "spec": spec})
}

/// The patch by which a batch that is paused leaves its pool. A pod that the batch held is noted as released,
/// so it is never given to this batch again; its pool finds it and recycles it. The pods of a pool are not
/// patched, so the pod comes back without a patch.
pub(super) fn unpooled(observed: &Observed, template: &Value) -> Value {
    let known = observed.batch.spec.template.as_ref().and_then(|template| template.parse().ok());
    let mut spec = json!({"poolRef": null});
    if let Some(change) = merge_patch(&known.unwrap_or(Value::Null), template) {
        spec["template"] = change;
    }
    if let Some(patches) = without_first_patch(&observed.batch) {
        spec["shardPatches"] = patches;
    }
    let mut metadata = detached(observed);
    // The pod may be somebody else's as soon as this is written.
    let annotations = observed.batch.metadata.annotations.as_ref();
    if annotations.is_some_and(|all| all.contains_key(names::ANNOTATION_ENDPOINTS)) {
        metadata["annotations"][names::ANNOTATION_ENDPOINTS] = "[]".into();
    }
    json!({"metadata": metadata, "spec": spec})
}

/// The metadata of a batch that holds no pod of a pool any more: a merge patch.
pub(super) fn detached(observed: &Observed) -> Value {
    let Observed { batch, slots, there, .. } = observed;
    let known = slots.pods.iter().chain(&slots.released);
    let released: BTreeSet<_> = known.filter(|name| there.contains(*name)).map(ToString::to_string).collect();
    let released = (!released.is_empty()).then(|| released.into_iter().collect::<Allocation>().text());
    let mut metadata = json!({"annotations": {
        names::ANNOTATION_ALLOC_STATUS: null,
        names::ANNOTATION_ALLOC_RELEASE: null,
        names::ANNOTATION_ALLOC_RELEASED: released,
    }});
    if has_finalizer(batch, names::FINALIZER_POOL_ALLOCATION) {
        metadata["finalizers"] = without(batch, names::FINALIZER_POOL_ALLOCATION);
    }
    metadata
}
