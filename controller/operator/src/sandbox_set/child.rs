//! The sandboxes that a set makes, and the templates that its revisions are kept as.

use sandgate_objects::openkruise::resources::SandboxSet;
use sandgate_objects::openkruise::{API_VERSION, SANDBOX_SET, names};
use serde_json::{Map, Value, json};

use super::observe::Contents;
use super::plan::revision_name;
use crate::Key;
use crate::view::Seen;

fn owned_by(set: &Seen<SandboxSet>) -> Value {
    json!([{
        "apiVersion": API_VERSION,
        "kind": SANDBOX_SET,
        "name": &*set.key.name,
        "uid": &*set.uid,
        "controller": true,
        "blockOwnerDeletion": true,
    }])
}

/// A sandbox of the set. Its pool label and its template label are the set's name, also if the template has
/// another one: claims look for the set.
pub(super) fn sandbox(set: &Seen<SandboxSet>, contents: &Contents, key: &Key) -> Value {
    let template = contents.spec.template.as_ref().and_then(|template| template.parse().ok());
    let template = template.unwrap_or_default();
    let mut labels = inherited(&template["metadata"]["labels"]);
    let name = Value::from(&*set.key.name);
    labels.insert(names::LABEL_SANDBOX_POOL.to_owned(), name.clone());
    labels.insert(names::LABEL_SANDBOX_TEMPLATE.to_owned(), name);
    labels.insert(names::LABEL_SANDBOX_CLAIMED.to_owned(), "false".into());
    labels.insert(names::LABEL_TEMPLATE_HASH.to_owned(), (*contents.revision).into());
    json!({
        "apiVersion": API_VERSION,
        "kind": "Sandbox",
        "metadata": {
            "name": &*key.name,
            "namespace": &*key.namespace,
            "labels": labels,
            "annotations": inherited(&template["metadata"]["annotations"]),
            "ownerReferences": owned_by(set),
        },
        "spec": contents.spec,
    })
}

/// The template that keeps a revision of the set.
pub(super) fn revision(set: &Seen<SandboxSet>, contents: &Contents) -> Value {
    json!({
        "apiVersion": API_VERSION,
        "kind": "SandboxTemplate",
        "metadata": {
            "name": revision_name(&set.key.name, &contents.revision),
            "namespace": &*set.key.namespace,
            "labels": {
                names::LABEL_SANDBOX_POOL: &*set.key.name,
                names::LABEL_TEMPLATE_HASH: &*contents.revision,
            },
            "ownerReferences": owned_by(set),
        },
        "spec": contents.spec,
    })
}

/// Labels or annotations of the pod template that its sandbox has too: those that are not about the sandbox
/// itself. `cleanup` asks for the end of a sandbox, and a set would make the next one at once.
fn inherited(pairs: &Value) -> Map<String, Value> {
    let is_inherited =
        |name: &str| name.strip_prefix(names::PREFIX).is_none_or(|name| name.starts_with("cleanup-"));
    let pairs = pairs.as_object().into_iter().flatten();
    pairs.filter(|(name, _)| is_inherited(name)).map(|(name, value)| (name.clone(), value.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn internal_labels_are_not_inherited_except_those_of_the_cleanup() {
        let pairs = json!({
            "app": "x",
            "agents.kruise.io/owner": "me",
            "agents.kruise.io/cleanup": "true",
            "agents.kruise.io/cleanup-enabled": "true",
        });
        let kept: Vec<_> = inherited(&pairs).into_iter().map(|(name, _)| name).collect();
        assert_eq!(kept, ["agents.kruise.io/cleanup-enabled", "app"]);
    }
}
