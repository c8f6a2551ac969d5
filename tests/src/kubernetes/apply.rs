//! Objects from YAML, and the definitions of the providers.

use std::fs;

use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams};
use kube::core::TypeMeta;
use serde_json::Value;

use super::providers::Kind;
use crate::{DEADLINE, eventually, locations};

/// The files of `tests/crds`.
pub(super) const DEFINITIONS: [&str; 3] = ["openkruise", "agent-sandbox", "opensandbox"];

/// The objects of a YAML text, however many documents it has.
pub(super) fn documents(yaml: &str) -> Vec<Value> {
    let documents = serde_saphyr::from_multiple::<Value>(yaml).unwrap_or_else(|e| panic!("{e} in:\n{yaml}"));
    documents.into_iter().filter(|document| !document.is_null()).collect()
}

/// Makes or changes an object, as `kubectl apply --server-side` does.
pub(super) async fn apply(client: &Client, object: &Value) {
    let types: TypeMeta = serde_json::from_value(object.clone()).expect("apiVersion and kind");
    let gvk = GroupVersionKind::try_from(&types).expect("apiVersion and kind");
    let resource = ApiResource::from_gvk(&gvk);
    let name = object["metadata"]["name"].as_str().expect("an object with a name");
    let api: Api<DynamicObject> = match object["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let how = PatchParams::apply("sandgate-tests").force();
    api.patch(name, &how, &Patch::Apply(object)).await.unwrap_or_else(|e| panic!("apply {name}: {e}"));
}

/// Installs a definition and waits until its objects are served in every version.
pub(super) async fn install(client: &Client, provider: &str) {
    let file = locations::repository().join("tests/crds").join(provider).with_extension("yaml");
    let text = fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    for definition in documents(&text) {
        apply(client, &definition).await;
    }
    for kind in Kind::of_definition(provider) {
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &kind.resource());
        let what = format!("{kind:?} is served");
        eventually(&what, DEADLINE, async || api.list(&ListParams::default().limit(1)).await.ok()).await;
    }
}
