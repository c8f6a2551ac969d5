//! Objects from YAML, and the definitions of the providers.

use std::fs;

use kube::Client;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams,
};
use kube::core::TypeMeta;
use serde_json::Value;

use super::providers::Kind;
use crate::{DEADLINE, eventually, locations};

/// The files of `tests/crds`.
pub(super) const DEFINITIONS: [&str; 3] = ["openkruise", "agent-sandbox", "opensandbox"];

/// The objects of a YAML text, however many documents it has.
pub fn documents(yaml: &str) -> Vec<Value> {
    let documents = serde_saphyr::from_multiple::<Value>(yaml).unwrap_or_else(|e| panic!("{e} in:\n{yaml}"));
    documents.into_iter().filter(|document| !document.is_null()).collect()
}

/// Makes or changes an object, as `kubectl apply --server-side` does.
pub(super) async fn apply(client: &Client, object: &Value) {
    let name = &object["metadata"]["name"];
    try_apply(client, object).await.unwrap_or_else(|e| panic!("apply {name}: {e}"));
}

/// The same for an object whose definition was installed a moment ago.
pub(super) async fn apply_when_served(client: &Client, object: &Value) {
    let what = format!("{} is served", object["kind"]);
    eventually(&what, DEADLINE, async || {
        let done = try_apply(client, object).await;
        if let Err(kube::Error::Api(status)) = &done
            && matches!(status.code, 404 | 405 | 429)
        {
            return None;
        }
        done.unwrap_or_else(|e| panic!("{what}: {e}"));
        Some(())
    })
    .await;
}

/// Deletes a definition, and with it every object of it, and waits until all are gone.
pub(super) async fn delete_definition(client: &Client, name: &str) {
    let gvk = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let definitions: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk(&gvk));
    let done = definitions.delete(name, &DeleteParams::default()).await;
    done.unwrap_or_else(|e| panic!("delete {name}: {e}"));
    let what = format!("{name} is gone");
    eventually(&what, DEADLINE, async || {
        definitions.get_opt(name).await.unwrap_or_else(|e| panic!("{what}: {e}")).is_none().then_some(())
    })
    .await;
}

async fn try_apply(client: &Client, object: &Value) -> kube::Result<()> {
    patch(client, object, PatchParams::apply("sandgate-tests").force()).await
}

/// What the server says of an object without making it, as `kubectl apply --server-side --dry-run=server`
/// asks it. A field that its definition does not have is an error.
pub(super) async fn dry_run(client: &Client, object: &Value) -> kube::Result<()> {
    patch(client, object, PatchParams::apply("sandgate-tests").force().dry_run().validation_strict()).await
}

async fn patch(client: &Client, object: &Value, how: PatchParams) -> kube::Result<()> {
    let types: TypeMeta = serde_json::from_value(object.clone()).expect("apiVersion and kind");
    let gvk = GroupVersionKind::try_from(&types).expect("apiVersion and kind");
    let resource = ApiResource::from_gvk(&gvk);
    let name = object["metadata"]["name"].as_str().expect("an object with a name");
    let api: Api<DynamicObject> = match object["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    api.patch(name, &how, &Patch::Apply(object)).await.map(drop)
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
