//! The pods that a pool makes, and what is written onto them.

use std::fmt::Write as _;
use std::sync::Arc;

use ring::digest::{SHA256, digest};
use sandgate_objects::opensandbox::names;
use sandgate_objects::opensandbox::resources::{BatchSandbox, Pool, PoolSpec};
use serde_json::{Map, Value, json};

use crate::Key;
use crate::revision::canonical;
use crate::view::{Seen, mark_of};

/// The kind, as owner references name it.
pub(super) const POOL: &str = "Pool";

/// What a label's value may have at most.
const MAX_LABEL: usize = 63;
/// How much of the hash is in a revision.
const REVISION_BYTES: usize = 8;

fn template(spec: &PoolSpec) -> Value {
    spec.template.as_ref().and_then(|template| template.parse().ok()).unwrap_or_default()
}

/// The revision of a pool's template. Equal templates have equal revisions, in every process.
pub(crate) fn revision(spec: &PoolSpec) -> Arc<str> {
    let mut text = String::new();
    canonical(&template(spec), &mut text);
    let hash = digest(&SHA256, text.as_bytes());
    let mut revision = String::new();
    for byte in &hash.as_ref()[..REVISION_BYTES] {
        let _ = write!(revision, "{byte:02x}");
    }
    revision.into()
}

/// A pod of the pool.
pub(super) fn manifest(pool: &Seen<Pool>, revision: &str, key: &Key) -> Value {
    let template = template(&pool.spec);
    let texts = |field: &str| template["metadata"][field].as_object().cloned().unwrap_or_default();
    let mut labels = texts("labels");
    labels.insert(names::LABEL_POOL_NAME.to_owned(), (*pool.key.name).into());
    labels.insert(names::LABEL_POOL_REVISION.to_owned(), revision.into());
    // Who copies the manifest of a pod that was in use into a template does not mean these.
    for name in [names::LABEL_BATCH_NAME, names::LABEL_POD_INDEX, names::LABEL_EVICT] {
        labels.remove(name);
    }
    let mut annotations = texts("annotations");
    for name in [names::ANNOTATION_ALLOCATED_TO, names::ANNOTATION_RESTART_RECORD] {
        annotations.remove(name);
    }
    let mut metadata = json!({
        "name": &*key.name,
        "namespace": &*key.namespace,
        "labels": labels,
        "annotations": annotations,
        "ownerReferences": [{
            "apiVersion": names::API_VERSION,
            "kind": POOL,
            "name": &*pool.key.name,
            "uid": &*pool.uid,
            "controller": true,
            "blockOwnerDeletion": true,
        }],
    });
    if let Some(finalizers) = template["metadata"].get("finalizers") {
        metadata["finalizers"] = finalizers.clone();
    }
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]})
}

/// The patch that makes a pod a batch's.
pub(super) fn claim(batch: &Seen<BatchSandbox>) -> Value {
    let name = &*batch.key.name;
    let mut labels = Map::new();
    let label = if name.len() <= MAX_LABEL { name.into() } else { Value::Null };
    labels.insert(names::LABEL_BATCH_NAME.to_owned(), label);
    let mut annotations = Map::new();
    annotations.insert(names::ANNOTATION_ALLOCATED_TO.to_owned(), mark_of(batch).into());
    // Left by an operator that did not clear it.
    annotations.insert(names::ANNOTATION_RESTART_RECORD.to_owned(), Value::Null);
    json!({"metadata": {"labels": labels, "annotations": annotations}})
}

/// The patch that makes a pod nobody's.
pub(super) fn unclaim() -> Value {
    json!({"metadata": {
        "labels": {names::LABEL_BATCH_NAME: null},
        "annotations": {names::ANNOTATION_ALLOCATED_TO: null, names::ANNOTATION_RESTART_RECORD: null},
    }})
}

/// The patch that keeps the record of a restart.
pub(super) fn record(text: &str) -> Value {
    json!({"metadata": {"annotations": {names::ANNOTATION_RESTART_RECORD: text}}})
}

#[cfg(test)]
mod tests {
    use sandgate_objects::opensandbox::resources::PodTemplate;

    use super::*;

    fn spec(template: &Value) -> PoolSpec {
        PoolSpec { template: Some(PodTemplate::new(template)), ..PoolSpec::default() }
    }

    #[test]
    fn a_revision_is_of_the_template_alone_and_stays_from_release_to_release() {
        let one = spec(&json!({"spec": {"containers": [{"name": "main", "image": "base:1"}]}}));
        let same = spec(&json!({"spec": {"containers": [{"image": "base:1", "name": "main", "tty": null}]}}));
        let other = spec(&json!({"spec": {"containers": [{"name": "main", "image": "base:2"}]}}));
        assert_eq!(revision(&one), revision(&same));
        assert_ne!(revision(&one), revision(&other));
        // Another value here would roll every pool of every cluster.
        assert_eq!(&*revision(&one), "75b59c2326687fdc");
    }
}
