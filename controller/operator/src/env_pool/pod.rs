//! The pods that a pool makes.

use sandgate_objects::sandbox_env::names;
use sandgate_objects::sandbox_env::resources::{SandboxPhase, SandboxPool, SandboxPoolSpec};
use serde_json::{Value, json};

use super::revision::idle_image;
use crate::Key;
use crate::view::{Seen, env_of};

/// What says that a pod is somebody's. Who copies the manifest of a sandbox into a template does not mean it.
const OF_A_SANDBOX: [&str; 13] = [
    names::SANDBOX_ID,
    names::ANNOTATION_CLAIMED_AT,
    names::ANNOTATION_STARTED_AT,
    names::ANNOTATION_LAST_ACTIVE,
    names::ANNOTATION_METADATA,
    names::ANNOTATION_STOP_REASON,
    names::ANNOTATION_TERMINATED_AT,
    names::ANNOTATION_SCALE_DOWN,
    names::ANNOTATION_INPLACE_STATE,
    names::ANNOTATION_ARMED,
    names::ANNOTATION_OWNER,
    names::ANNOTATION_ACCESS_TOKEN,
    names::ANNOTATION_TRAFFIC_ACCESS_TOKEN,
];

fn template(spec: &SandboxPoolSpec) -> Value {
    spec.template.as_ref().and_then(|template| template.parse().ok()).unwrap_or_default()
}

/// Why no pod can be made from a spec.
pub(super) fn invalid(spec: &SandboxPoolSpec) -> Option<&'static str> {
    let template = template(spec);
    let containers = template["spec"]["containers"].as_array().map_or(0, Vec::len);
    (containers == 0).then_some("spec.template: it has no container")
}

/// A pod of the pool. Its labels are those of the template, then those of the pool, then what this controller
/// goes by: nobody else can say what a pod is.
pub(super) fn manifest(pool: &Seen<SandboxPool>, revision: &str, key: &Key) -> Value {
    let mut template = template(&pool.spec);
    let texts = |field: &str| template["metadata"][field].as_object().cloned().unwrap_or_default();
    let (mut labels, mut annotations) = (texts("labels"), texts("annotations"));
    for name in OF_A_SANDBOX {
        labels.remove(name);
        annotations.remove(name);
    }
    let of_pool = pool.metadata.labels.iter().flatten().filter(|(name, _)| *name != names::SANDBOX_ID);
    labels.extend(of_pool.map(|(name, value)| (name.clone(), json!(value))));
    let mut say = |name: &str, value: &str| labels.insert(name.to_owned(), json!(value));
    if let Some(env) = env_of(pool, &pool.key.namespace) {
        say(names::LABEL_ENV, &env.name);
    }
    say(names::LABEL_POOL, &pool.key.name);
    say(names::LABEL_PHASE, SandboxPhase::Idle.as_str());
    say(names::LABEL_TEMPLATE_HASH, revision);
    say(names::LABEL_MANAGED_BY, names::MANAGED_BY);
    let mut finalizers = template["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    if !finalizers.contains(&json!(names::FINALIZER_POD)) {
        finalizers.push(json!(names::FINALIZER_POD));
    }
    if let (Some(idle), Some(first)) =
        (idle_image(&pool.spec), template.pointer_mut("/spec/containers/0").filter(|it| it.is_object()))
    {
        first["image"] = json!(idle);
    }
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": &*key.name,
            "namespace": &*key.namespace,
            "labels": labels,
            "annotations": annotations,
            "finalizers": finalizers,
            "ownerReferences": [{
                "apiVersion": names::API_VERSION,
                "kind": names::KIND_POOL,
                "name": &*pool.key.name,
                "uid": &*pool.uid,
                "controller": true,
                "blockOwnerDeletion": true,
            }],
        },
        "spec": template["spec"],
    })
}
