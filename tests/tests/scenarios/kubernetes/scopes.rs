//! Which objects are watched: namespaces and label selectors.

use sandgate_tests::kubernetes::{ApiServer, Kind, kruise};
use sandgate_tests::{Gateway, Request};
use serde_json::json;

use super::{ask, refused, sandbox, served};

const NOT_FOUND: (u16, &str) = (502, "sandbox_not_found");

fn request(namespace: &str, name: &str) -> Request {
    ask(Kind::OpenKruise, namespace, name)
}

#[tokio::test]
async fn only_the_namespaces_that_are_named_are_served() {
    let api = ApiServer::shared().await;
    let [a, b, other] = [api.namespace("a").await, api.namespace("b").await, api.namespace("c").await];
    let place = sandbox("here").await;
    let providers = json!([{ "kind": "openkruise", "namespaces": [a, b] }]);
    kruise(&api, &other, "x").running(place.ip()).create().await;
    kruise(&api, &a, "x").running(place.ip()).create().await;
    let gateway = Gateway::builder().kubernetes(&api.admin_kubeconfig(), &providers).start().await;
    kruise(&api, &other, "y").running(place.ip()).create().await;
    let last = kruise(&api, &b, "x").running(place.ip()).create().await;
    gateway.follows(&last).await;
    for namespace in [&a, &b] {
        served(&gateway, || request(namespace, "x"), &place).await;
    }
    for name in ["x", "y"] {
        refused(&gateway, || request(&other, name), NOT_FOUND).await;
    }
    assert_eq!(gateway.table().await.len(), 2);
    assert_eq!(gateway.scope(0).await["namespace"], json!(a));
    assert_eq!(gateway.scope(1).await["namespace"], json!(b));
}

#[tokio::test]
async fn an_object_relabelled_out_of_the_selector_leaves_and_comes_back_with_its_label() {
    let api = ApiServer::shared().await;
    let namespace = api.namespace("labels").await;
    let place = sandbox("here").await;
    let providers = json!([
        { "kind": "openkruise", "namespaces": [namespace], "label-selector": "tier in (a, b),example.com/out!=yes" },
    ]);
    let draft = |name: &str| kruise(&api, &namespace, name).running(place.ip());
    let listed = draft("listed").label("tier", "a").create().await;
    draft("unlisted").label("tier", "z").create().await;
    draft("unlabelled").create().await;
    let gateway = Gateway::builder().kubernetes(&api.admin_kubeconfig(), &providers).start().await;
    served(&gateway, || request(&namespace, "listed"), &place).await;
    for name in ["unlisted", "unlabelled"] {
        refused(&gateway, || request(&namespace, name), NOT_FOUND).await;
    }
    for _ in 0..3 {
        listed.patch(json!({ "metadata": { "labels": { "example.com/out": "yes" } } })).await;
        refused(&gateway, || request(&namespace, "listed"), NOT_FOUND).await;
        listed.patch(json!({ "metadata": { "labels": { "example.com/out": null } } })).await;
        served(&gateway, || request(&namespace, "listed"), &place).await;
    }
    // Gone while it is out of sight: nothing tells the gateway, and nothing must.
    listed.patch(json!({ "metadata": { "labels": { "tier": "z" } } })).await;
    refused(&gateway, || request(&namespace, "listed"), NOT_FOUND).await;
    listed.delete().await;
    let new = draft("listed").label("tier", "b").create().await;
    let reply = served(&gateway, || request(&namespace, "listed"), &place).await;
    assert_eq!(reply.seen("x-sandbox-uid"), [new.uid()]);
    assert_eq!(gateway.scope(0).await["lists"], 1);
}
