//! The pod that a template asks for.

use sandgate_objects::openkruise::API_VERSION;
use sandgate_objects::openkruise::names;
use sandgate_objects::openkruise::resources::{PodTemplate, Sandbox, VolumeClaimTemplate};
use serde_json::{Map, Value, json};

use crate::revision::revision;
use crate::view::Seen;

/// What a sandbox is made from, read.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Template {
    /// The pod template.
    pub(super) pod: Value,
    /// The volume claim templates.
    pub(super) claims: Vec<Value>,
    /// The revision of the pod template.
    pub(super) revision: String,
    /// The revision of what cannot be changed in a pod that runs.
    pub(super) fixed: String,
}

/// Why no pod can be made from a template. Only another template helps.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct InvalidTemplate(String);

impl Template {
    /// Reads a template.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn read(pod: &PodTemplate, claims: &[VolumeClaimTemplate]) -> Result<Self, InvalidTemplate> {
        let pod = pod.parse().map_err(|error| InvalidTemplate(error.to_string()))?;
        if !pod["spec"]["containers"].is_array() {
            return Err(InvalidTemplate("template.spec.containers: missing".to_owned()));
        }
        let claims: Result<Vec<_>, _> = claims.iter().map(VolumeClaimTemplate::parse).collect();
        let claims = claims.map_err(|error| InvalidTemplate(error.to_string()))?;
        if claims.iter().any(|claim| claim["metadata"]["name"].as_str().is_none_or(str::is_empty)) {
            return Err(InvalidTemplate("volumeClaimTemplates.metadata.name: missing".to_owned()));
        }
        Ok(Self { revision: revision(&pod), fixed: revision(&fixed_part(&pod)), pod, claims })
    }
}

/// The template without what can be changed in place: labels, annotations, and the containers' images and
/// resources.
fn fixed_part(pod: &Value) -> Value {
    let mut spec = pod["spec"].clone();
    for container in spec["containers"].as_array_mut().into_iter().flatten() {
        if let Some(container) = container.as_object_mut() {
            container.remove("image");
            container.remove("resources");
        }
    }
    spec
}

/// The name of the claim that a volume claim template becomes.
pub(super) fn claim_name(claim: &Value, sandbox: &str) -> String {
    format!("{}-{sandbox}", claim["metadata"]["name"].as_str().unwrap_or_default())
}

/// The controller reference of whatever a sandbox owns.
pub(super) fn owned_by(sandbox: &Seen<Sandbox>) -> Value {
    json!([{
        "apiVersion": API_VERSION,
        "kind": "Sandbox",
        "name": &*sandbox.key.name,
        "uid": &*sandbox.uid,
        "controller": true,
        "blockOwnerDeletion": true,
    }])
}

/// The pod of a sandbox. It has the sandbox's name, so there is never a second one.
pub(super) fn manifest(sandbox: &Seen<Sandbox>, template: &Template) -> Value {
    let name = &*sandbox.key.name;
    let mut labels = map_of(&template.pod["metadata"]["labels"]);
    let mut annotations = map_of(&template.pod["metadata"]["annotations"]);
    labels.insert(names::LABEL_CREATED_BY.to_owned(), names::CREATED_BY_SANDBOX.into());
    labels.insert(names::LABEL_SANDBOX_NAME.to_owned(), name.into());
    labels.insert(names::LABEL_POD_TEMPLATE_HASH.to_owned(), template.revision.as_str().into());
    annotations.insert(names::ANNOTATION_CREATED_BY.to_owned(), names::CREATED_BY_SANDBOX.into());
    annotations.insert(names::ANNOTATION_HASH_IMMUTABLE_PART.to_owned(), template.fixed.as_str().into());
    let mut spec = template.pod["spec"].clone();
    if !template.claims.is_empty() {
        let volumes = spec["volumes"].as_array().cloned().unwrap_or_default();
        let of_claims = template.claims.iter().map(|claim| {
            let claim_name = claim_name(claim, name);
            json!({"name": claim["metadata"]["name"], "persistentVolumeClaim": {"claimName": claim_name}})
        });
        let is_replaced =
            |volume: &Value| template.claims.iter().any(|claim| claim["metadata"]["name"] == volume["name"]);
        let kept = volumes.into_iter().filter(|volume| !is_replaced(volume));
        spec["volumes"] = kept.chain(of_claims).collect();
    }
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": &*sandbox.key.namespace,
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": owned_by(sandbox),
        },
        "spec": spec,
    })
}

/// The volume claims of a sandbox. They live as long as it does, over every pause.
pub(super) fn claims(sandbox: &Seen<Sandbox>, template: &Template) -> Vec<Value> {
    let one = |claim: &Value| {
        let mut labels = map_of(&claim["metadata"]["labels"]);
        labels.insert(names::LABEL_SANDBOX_NAME.to_owned(), (&*sandbox.key.name).into());
        json!({
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": claim_name(claim, &sandbox.key.name),
                "namespace": &*sandbox.key.namespace,
                "labels": labels,
                "annotations": map_of(&claim["metadata"]["annotations"]),
                "ownerReferences": owned_by(sandbox),
            },
            "spec": claim["spec"],
        })
    };
    template.claims.iter().map(one).collect()
}

pub(super) fn map_of(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}
