//! The way to a first complete table: nothing is served before it, and what stands in its way is told.

use sandgate_tests::kubernetes::{ApiServer, Ask, Fault, Kind, Wire, kruise};
use sandgate_tests::{Builder, Gateway, Request};
use serde_json::json;

use super::{ask, gateway, refused, sandbox, served, watching};
use crate::support::assert_refused;

const KIND: Kind = Kind::OpenKruise;
const OWNER: &str = "agents.kruise.io/owner";
const MANY: usize = 20_000;
const NOT_FOUND: (u16, &str) = (502, "sandbox_not_found");

/// Not ready in every way that an operator looks at, and alive.
async fn assert_closed(gateway: &mut Gateway) {
    gateway.learn_listeners().await;
    gateway.refuses(gateway.address()).await;
    assert_ne!(gateway.readiness().await, "LIVE");
    assert_eq!(gateway.status().await["ready"], false);
    assert!(gateway.is_alive());
}

/// Starts Envoy and waits until it would serve, were it not for the lists.
async fn spawned(builder: Builder) -> Gateway {
    let gateway = builder.spawn().await;
    gateway
        .until("listeners are made", async || {
            let listeners = gateway.admin("/listeners?format=json").await.json();
            listeners["listener_statuses"].as_array().is_some_and(|all| !all.is_empty()).then_some(())
        })
        .await;
    gateway
}

#[tokio::test]
async fn twenty_thousand_objects_are_in_the_table_before_the_first_request() {
    let api = ApiServer::shared().await;
    let (namespace, wire) = (api.namespace("many").await, Wire::to(&api).await);
    let place = sandbox("here").await;
    api.seed((0..MANY).map(|n| kruise(&api, &namespace, &format!("s{n}")).running(place.ip()))).await;
    wire.always(Ask::StreamingList, Fault::Stall);
    let mut gateway = spawned(watching(&wire.kubeconfig(wire.admin_token()), &namespace)).await;
    gateway.scope_where(0, "the list has begun", |scope| scope["state"] == "listing").await;
    assert_closed(&mut gateway).await;
    wire.clear();
    gateway.live().await;
    let scope = gateway.scope(0).await;
    assert_eq!(
        (&scope["objects"], &scope["lists"], &scope["listMode"]),
        (&json!(MANY), &json!(1), &json!("streaming")),
        "{scope}"
    );
    assert_eq!(gateway.status().await["routes"]["running"], json!(MANY));
    for n in [0, 1, MANY / 2, MANY - 1] {
        let reply = gateway.send(ask(KIND, &namespace, &format!("s{n}"))).await;
        assert_eq!(reply.sandbox(), "here", "the first request finds it");
    }
    // Large tables follow too.
    kruise(&api, &namespace, "later").running(place.ip()).create().await;
    served(&gateway, || ask(KIND, &namespace, "later"), &place).await;
}

#[tokio::test]
async fn listeners_that_may_not_wait_open_early_and_answer_503_until_the_list_is_in() {
    let api = ApiServer::shared().await;
    let (namespace, wire) = (api.namespace("early").await, Wire::to(&api).await);
    let place = sandbox("here").await;
    kruise(&api, &namespace, "a").running(place.ip()).create().await;
    wire.always(Ask::StreamingList, Fault::Stall);
    let builder = watching(&wire.kubeconfig(wire.admin_token()), &namespace).open_after(1);
    let probed = json!({ "health-paths": ["/healthz", "/readyz"] });
    let mut gateway = builder.filter(probed).spawn().await;
    gateway.live().await;
    gateway.logged(&["listeners open before"]).await;
    let probe = async |path: &str| gateway.send(Request::get(path)).await.status;
    assert_eq!((probe("/healthz").await, probe("/readyz").await), (200, 503));
    for name in ["a", "b"] {
        let reply = gateway.send(ask(KIND, &namespace, name)).await;
        assert_refused(&gateway, &reply, 503, "gateway_not_ready").await;
    }
    assert_eq!(gateway.status().await["ready"], false);
    gateway.stat_is("sandgate.ready", 0).await;
    wire.clear();
    served(&gateway, || ask(KIND, &namespace, "a"), &place).await;
    refused(&gateway, || ask(KIND, &namespace, "b"), NOT_FOUND).await;
    gateway.stat_is("sandgate.ready", 1).await;
    assert_eq!((probe("/healthz").await, probe("/readyz").await), (200, 200));
}

#[tokio::test]
async fn a_list_that_breaks_off_serves_nothing_of_what_it_brought() {
    let api = ApiServer::shared().await;
    let (namespace, wire) = (api.namespace("half").await, Wire::to(&api).await);
    let place = sandbox("here").await;
    api.seed((0..100).map(|n| kruise(&api, &namespace, &format!("s{n:03}")).running(place.ip()))).await;
    // Half of the objects pass, then the connection breaks.
    wire.after(50, Ask::StreamingList, Fault::Stall);
    let builder = watching(&wire.kubeconfig(wire.admin_token()), &namespace).open_after(1);
    let mut gateway = builder.spawn().await;
    gateway.live().await;
    gateway
        .until("half of the list is in", async || {
            (gateway.status().await["routes"]["total"] == 50).then_some(())
        })
        .await;
    let request = || ask(KIND, &namespace, "s000");
    assert_refused(&gateway, &gateway.send(request()).await, 503, "gateway_not_ready").await;
    wire.cut_running();
    wire.clear();
    served(&gateway, request, &place).await;
    assert_eq!(gateway.table().await.len(), 100);
}

#[tokio::test]
async fn a_resource_that_does_not_exist_is_waited_for_and_missed_when_it_goes() {
    let api = ApiServer::shared().await;
    let namespace = api.namespace("crd").await;
    let place = sandbox("here").await;
    // Nobody else's group: the definition comes and goes.
    let group = format!("{namespace}.example.com");
    let providers = json!([{
        "kind": "generic", "name": "late", "namespaces": [namespace],
        "resource": { "group": group, "version": "v1", "kind": "Box", "plural": "boxes" },
        "ip": "spec.ip",
        "states": [{ "when": [{ "path": "spec.ip", "exists": true }], "state": "running" }],
        "default-state": "creating",
    }]);
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("boxes.{group}") },
        "spec": {
            "group": group, "scope": "Namespaced", "names": { "kind": "Box", "plural": "boxes" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            }}}],
        },
    });
    let object = json!({
        "apiVersion": format!("{group}/v1"), "kind": "Box",
        "metadata": { "namespace": namespace, "name": "a" }, "spec": { "ip": place.ip() },
    });
    let request = || crate::support::ask(&format!("{namespace}--a"));
    let mut gateway = spawned(Gateway::builder().kubernetes(&api.admin_kubeconfig(), &providers)).await;
    let waits = |scope: &serde_json::Value| scope["state"] == "waiting-for-crd";
    let scope = gateway.scope_where(0, "the definition is waited for", waits).await;
    assert!(
        scope["error"].as_str().is_some_and(|text| text.contains(&format!("boxes.{group}/v1"))),
        "{scope}"
    );
    gateway.logged(&["CRD", &group]).await;
    assert_closed(&mut gateway).await;

    api.apply(&definition.to_string()).await;
    gateway.live().await;
    api.apply_when_served(&object).await;
    served(&gateway, request, &place).await;

    api.delete_definition(&format!("boxes.{group}")).await;
    refused(&gateway, request, NOT_FOUND).await;
    gateway.scope_where(0, "the definition is missed", waits).await;
    api.apply(&definition.to_string()).await;
    api.apply_when_served(&object).await;
    served(&gateway, request, &place).await;
}

#[tokio::test]
async fn an_object_that_cannot_be_read_is_named_and_has_no_route_and_the_others_go_on() {
    let api = ApiServer::shared().await;
    let namespace = api.namespace("bad").await;
    let place = sandbox("here").await;
    let draft = |name: &str| kruise(&api, &namespace, name);
    let request = |name: &str| ask(KIND, &namespace, name);
    let owner = "o".repeat(256);
    draft("listed").running(place.ip()).annotation(OWNER, &owner).create().await;
    draft("good").running(place.ip()).create().await;
    let turned = draft("turned").running(place.ip()).create().await;
    let gateway = gateway(&api, &namespace).await;
    served(&gateway, || request("turned"), &place).await;
    served(&gateway, || request("good"), &place).await;
    refused(&gateway, || request("listed"), NOT_FOUND).await;
    let line = gateway.logged(&["cannot read", &format!("{namespace}/listed")]).await;
    assert!(line.contains(OWNER), "{line}");

    turned.patch(json!({ "metadata": { "annotations": { OWNER: owner } } })).await;
    refused(&gateway, || request("turned"), NOT_FOUND).await;
    let scope = gateway.scope(0).await;
    assert_eq!(scope["unreadable"], 2, "{scope}");
    assert!(scope["unreadableObjects"].to_string().contains(&format!("{namespace}/turned")), "{scope}");
    gateway.logged(&["cannot read", &format!("{namespace}/turned")]).await;
    gateway.stat_is("sandgate.kubernetes_unreadable", 2).await;
    draft("after").running(place.ip()).create().await;
    served(&gateway, || request("after"), &place).await;

    turned.patch(json!({ "metadata": { "annotations": { OWNER: "somebody" } } })).await;
    served(&gateway, || request("turned"), &place).await;
    assert_eq!(gateway.scope(0).await["state"], "watching");
}

#[tokio::test]
async fn an_object_with_an_address_that_is_none_is_known_and_not_routed_to() {
    let api = ApiServer::shared().await;
    let namespace = api.namespace("nowhere").await;
    let place = sandbox("here").await;
    let request = || ask(KIND, &namespace, "a");
    let object = kruise(&api, &namespace, "a").running(place.ip()).create().await;
    let gateway = gateway(&api, &namespace).await;
    served(&gateway, request, &place).await;
    for nowhere in ["not-an-address", "999.1.2.3", "0.0.0.0", "224.0.0.1"] {
        object.patch_status(json!({ "podInfo": { "podIP": nowhere } })).await;
        refused(&gateway, request, (502, "sandbox_not_running")).await;
        assert_eq!(gateway.scope(0).await["unreadable"], 0, "{nowhere}");
        object.resume(place.ip()).await;
        served(&gateway, request, &place).await;
    }
    gateway.logged(&[&format!("{namespace}/a"), "not routed to"]).await;
}

#[tokio::test]
async fn without_streaming_lists_pages_are_read_and_the_watch_goes_on_behind_them() {
    let api = ApiServer::builder().without_streaming_lists().start().await;
    let (namespace, wire) = (api.namespace("pages").await, Wire::to(&api).await);
    let place = sandbox("here").await;
    api.seed((0..1_200).map(|n| kruise(&api, &namespace, &format!("s{n}")).running(place.ip()))).await;
    wire.always(Ask::List, Fault::Stall);
    let mut gateway = spawned(watching(&wire.kubeconfig(wire.admin_token()), &namespace)).await;
    gateway.until("a page is asked for", async || (wire.count(Ask::List) > 0).then_some(())).await;
    assert_closed(&mut gateway).await;
    wire.clear();
    gateway.live().await;
    let scope = gateway.scope(0).await;
    assert_eq!((&scope["objects"], &scope["listMode"]), (&json!(1_200), &json!("paged")), "{scope}");
    assert_eq!(wire.count(Ask::List), 3, "{:?}", wire.seen());
    let request = |name: &str| -> Request { ask(KIND, &namespace, name) };
    for name in ["s0", "s600", "s1199"] {
        assert_eq!(gateway.send(request(name)).await.sandbox(), "here");
    }
    let object = kruise(&api, &namespace, "new").running(place.ip()).create().await;
    served(&gateway, || request("new"), &place).await;
    object.delete().await;
    refused(&gateway, || request("new"), NOT_FOUND).await;

    super::rights::each_provider(&api, "paged").await;
}

#[tokio::test]
async fn two_gateways_come_to_equal_tables_whatever_way_they_came() {
    let api = ApiServer::shared().await;
    let (namespace, wire) = (api.namespace("twins").await, Wire::to(&api).await);
    let namespaces = json!([namespace]);
    let providers = json!([
        { "kind": "openkruise", "namespaces": namespaces },
        { "kind": "agent-sandbox", "namespaces": namespaces },
        { "kind": "opensandbox", "namespaces": namespaces },
    ]);
    let start = async |kubeconfig: &std::path::Path| {
        Gateway::builder().kubernetes(kubeconfig, &providers).start().await
    };
    let first = start(&wire.kubeconfig(wire.admin_token())).await;
    let empty = first.digest().await;
    let mut last = Vec::new();
    for (n, kind) in super::KINDS.into_iter().enumerate() {
        let name = |what: &str| format!("{}-{what}-of-{namespace}", kind.provider());
        let ip = format!("127.3.{n}.1");
        let [gone, paused, moved] = ["gone", "paused", "moved"].map(name);
        kind.draft(&api, &namespace, &gone).running(&*ip).create().await.delete().await;
        kind.draft(&api, &namespace, &paused).running(&*ip).create().await.pause().await;
        wire.cut_running();
        let moved = kind.draft(&api, &namespace, &moved).running(&*ip).create().await;
        moved.resume("127.3.4.5").await;
        last.push(moved);
    }
    // It has seen everything happen, over a wire that broke; the other sees the end alone.
    let second = start(&api.admin_kubeconfig()).await;
    for object in &last {
        first.follows(object).await;
        second.follows(object).await;
    }
    assert_eq!(first.table().await.len(), 6);
    assert_eq!(first.digest().await, second.digest().await);
    assert_ne!(first.digest().await, empty);

    last[0].pause().await;
    first.follows(&last[0]).await;
    second.follows(&last[0]).await;
    assert_eq!(first.digest().await, second.digest().await);
}
