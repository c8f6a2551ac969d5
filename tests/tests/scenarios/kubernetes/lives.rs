//! The lives of sandboxes, of each kind and in each dialect.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use sandgate_tests::kubernetes::{ApiServer, Kind, agent_sandbox, kruise, opensandbox};
use sandgate_tests::{Client, Gateway, WebSocket};
use serde_json::json;

use super::{KINDS, a_second_after, ask, asks, gateway, one, refusals, refused, sandbox, served};
use crate::support::PORT;

/// One sandbox from its creation to its end, asked for in every form that its kind has.
async fn life(kind: Kind) {
    let api = ApiServer::shared().await;
    let namespace = api.namespace("life").await;
    let name = format!("one-of-{namespace}");
    let (first, second) = (sandbox("first").await, sandbox("second").await);
    let gateway =
        Gateway::builder().kubernetes(&api.admin_kubeconfig(), &one(kind, &namespace)).start().await;
    let forms = asks(kind, &namespace, &name).len();
    let form = |number: usize| asks(kind, &namespace, &name).swap_remove(number);
    let [not_found, not_running] = refusals(kind);
    for number in 0..forms {
        refused(&gateway, || form(number), not_found).await;
    }

    let object = kind.draft(&api, &namespace, &name).create().await;
    refused(&gateway, || form(0), not_running).await;
    object.resume(first.ip()).await;
    for number in 0..forms {
        let reply = served(&gateway, || form(number), &first).await;
        assert_eq!(reply.seen("x-sandbox-uid"), [object.uid()]);
        assert_eq!(reply.seen("x-sandbox-id"), [object.id()]);
    }

    object.pause().await;
    refused(&gateway, || form(0), not_running).await;
    let asked = first.requests();
    for number in 0..forms {
        refused(&gateway, || form(number), not_running).await;
    }

    object.resume(second.ip()).await;
    for number in 0..forms {
        served(&gateway, || form(number), &second).await;
    }

    object.fail().await;
    refused(&gateway, || form(0), not_found).await;
    object.resume(second.ip()).await;
    served(&gateway, || form(0), &second).await;

    object.delete().await;
    refused(&gateway, || form(0), not_found).await;
    let last = second.requests();
    for number in 0..forms {
        refused(&gateway, || form(number), not_found).await;
    }
    assert_eq!((first.requests(), second.requests()), (asked, last));
    let scope = gateway.scope(0).await;
    assert_eq!((&scope["lists"], &scope["objects"], &scope["error"]), (&json!(1), &json!(0), &json!(null)));
    assert!(gateway.table().await.is_empty());
}

#[tokio::test]
async fn an_openkruise_sandbox_is_served_while_it_runs_and_never_else() {
    life(Kind::OpenKruise).await;
}

#[tokio::test]
async fn an_agent_sandbox_is_served_while_it_runs_and_never_else() {
    life(Kind::AgentSandbox).await;
}

#[tokio::test]
async fn an_opensandbox_sandbox_is_served_while_it_runs_and_never_else() {
    life(Kind::OpenSandbox).await;
}

/// A readiness probe that fails for a moment: what is open stays, what is new waits outside, and when the
/// sandbox is ready again it is the same one.
#[tokio::test]
async fn a_websocket_and_a_request_survive_a_readiness_flap_and_new_requests_are_refused_meanwhile() {
    let api = ApiServer::shared().await;
    let namespace = api.namespace("flap").await;
    let providers = KINDS.map(|kind| json!({ "kind": kind.provider(), "namespaces": [namespace] }));
    let gateway = Gateway::builder().kubernetes(&api.admin_kubeconfig(), &json!(providers)).start().await;
    for kind in KINDS {
        let name = format!("{}-{namespace}", kind.provider());
        let there = sandbox(kind.provider()).await;
        let object = kind.draft(&api, &namespace, &name).running(there.ip()).create().await;
        let request = || ask(kind, &namespace, &name);
        served(&gateway, request, &there).await;
        let (id, port) = (object.id(), PORT.to_string());
        let ingress = format!("{id}-{port}");
        let headers: &[(&str, &str)] = match kind {
            Kind::OpenKruise => &[("e2b-sandbox-id", &id), ("e2b-sandbox-port", &port)],
            Kind::OpenSandbox => &[("opensandbox-ingress-to", &ingress)],
            Kind::AgentSandbox | Kind::AgentSandboxV1Alpha1 => {
                &[("x-sandbox-id", &name), ("x-sandbox-namespace", &namespace), ("x-sandbox-port", &port)]
            }
        };
        let opened = WebSocket::open(gateway.address(), None, "/ws", headers).await;
        let mut socket = opened.unwrap_or_else(|error| panic!("{kind:?}: {error}"));
        assert_eq!(socket.next().await.as_deref(), Some(kind.provider()));
        let mut client = gateway.client().await;
        let slow = request().path("/slow");
        let held = tokio::spawn(async move { client.send(slow).await.expect("an answer") });
        there.holding(1).await;

        for round in 0..3 {
            object.become_unready().await;
            refused(&gateway, request, refusals(kind)[1]).await;
            let words = format!("{round} not ready");
            socket.send(&words).await;
            assert_eq!(socket.next().await, Some(words), "{kind:?}");
            object.resume(there.ip()).await;
            let reply = served(&gateway, request, &there).await;
            assert_eq!(reply.seen("x-sandbox-uid"), [object.uid()]);
            let words = format!("{round} ready again");
            socket.send(&words).await;
            assert_eq!(socket.next().await, Some(words), "{kind:?}");
        }
        there.release(1);
        let reply = held.await.expect("no panic");
        assert_eq!((reply.status, reply.sandbox().as_str()), (200, kind.provider()));

        object.delete().await;
        assert_eq!(socket.next().await, None, "{kind:?}: what is deleted is cut off");
    }
}

#[tokio::test]
async fn several_providers_are_served_at_once_and_a_generic_one_reads_what_its_config_says() {
    let api = ApiServer::shared().await;
    let namespace = api.namespace("several").await;
    let namespaces = json!([namespace]);
    // The same objects as the provider agent-sandbox reads, but asked for in their older version and under an
    // ID of their own.
    let generic = json!({
        "kind": "generic", "name": "by-rules", "namespaces": namespaces,
        "resource": { "group": "agents.x-k8s.io", "version": "v1alpha1", "kind": "Sandbox", "plural": "sandboxes" },
        "id": r#"metadata.annotations["example.com/id"]"#,
        "ip": "status.podIPs[0]",
        "dead-at": "spec.shutdownTime",
        "states": [
            { "when": [{ "path": "spec.operatingMode", "equals": "Suspended" }], "state": "paused" },
            { "when": [{ "path": "status.podIPs[0]", "exists": true }], "state": "running" },
        ],
        "default-state": "creating",
    });
    let providers = json!([
        { "kind": "openkruise", "namespaces": namespaces },
        { "kind": "agent-sandbox", "namespaces": namespaces },
        { "kind": "opensandbox", "namespaces": namespaces },
        generic,
    ]);
    let boxes = [sandbox("kruise").await, sandbox("agent").await, sandbox("open").await];
    let open_name = format!("box-of-{namespace}");
    kruise(&api, &namespace, "box").running(boxes[0].ip()).create().await;
    let gateway = Gateway::builder().kubernetes(&api.admin_kubeconfig(), &providers).start().await;
    let agent = agent_sandbox(&api, &namespace, "agent")
        .annotation("example.com/id", &format!("rules-{namespace}"))
        .running(boxes[1].ip())
        .create()
        .await;
    opensandbox(&api, &namespace, &open_name).running(boxes[2].ip()).create().await;
    served(&gateway, || ask(Kind::OpenKruise, &namespace, "box"), &boxes[0]).await;
    served(&gateway, || ask(Kind::AgentSandbox, &namespace, "agent"), &boxes[1]).await;
    served(&gateway, || ask(Kind::OpenSandbox, &namespace, &open_name), &boxes[2]).await;
    let by_rules = || crate::support::ask(&format!("rules-{namespace}"));
    let reply = served(&gateway, by_rules, &boxes[1]).await;
    assert_eq!(reply.seen("x-sandbox-uid"), [agent.uid()]);
    agent.pause().await;
    refused(&gateway, by_rules, (502, "sandbox_not_running")).await;
    refused(&gateway, || ask(Kind::AgentSandbox, &namespace, "agent"), (502, "sandbox_not_running")).await;
    served(&gateway, || ask(Kind::OpenKruise, &namespace, "box"), &boxes[0]).await;
    for number in 0..4 {
        let scope = gateway.scope(number).await;
        assert_eq!((&scope["state"], &scope["objects"]), (&json!("watching"), &json!(1)), "{scope}");
    }
}

#[tokio::test]
async fn where_the_config_says_refuse_two_objects_of_one_name_are_both_refused_until_one_of_them_goes() {
    let api = ApiServer::shared().await;
    let namespaces = [api.namespace("left").await, api.namespace("right").await];
    let name = format!("same-of-{}", namespaces[0]);
    let (left, right) = (sandbox("left").await, sandbox("right").await);
    let providers = json!([{ "kind": "opensandbox", "namespaces": namespaces, "clash": "refuse" }]);
    let gateway = Gateway::builder().kubernetes(&api.admin_kubeconfig(), &providers).start().await;
    let request = || ask(Kind::OpenSandbox, "", &name);
    let first = opensandbox(&api, &namespaces[0], &name).running(left.ip()).create().await;
    served(&gateway, request, &left).await;
    // Of two that were made in one second either may come first, and the ID would be kept for it when it is
    // gone.
    a_second_after(&first).await;
    let second = opensandbox(&api, &namespaces[1], &name).running(right.ip()).create().await;
    refused(&gateway, request, (502, "sandbox_ambiguous")).await;
    let asked = left.requests();
    for _ in 0..10 {
        refused(&gateway, request, (502, "sandbox_ambiguous")).await;
    }
    assert_eq!((left.requests(), right.requests()), (asked, 0));
    second.delete().await;
    served(&gateway, request, &left).await;
    assert_eq!(right.requests(), 0);
}

/// One name, again and again: each time another object at the other address, made as soon as the last one is
/// deleted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_made_anew_within_a_second_is_another_sandbox_and_the_old_address_is_never_asked_for_it() {
    let api = ApiServer::shared().await;
    let namespace = api.namespace("anew").await;
    let boxes = [sandbox("even").await, sandbox("odd").await];
    let gateway = gateway(&api, &namespace).await;
    let request = move |namespace: &str| ask(Kind::OpenKruise, namespace, "phoenix");

    // Where each object was: whoever answers for its UID must be there. Entered before the object has an
    // address.
    let homes = Arc::new(Mutex::new(HashMap::<String, String>::new()));
    let stop = Arc::new(AtomicBool::new(false));
    let asking = {
        let (stop, homes, namespace) = (Arc::clone(&stop), Arc::clone(&homes), namespace.clone());
        let address = gateway.address();
        tokio::spawn(async move {
            let mut client = Client::http1(address).await.expect("connect");
            while !stop.load(Ordering::Relaxed) {
                let reply = client.send(request(&namespace)).await.expect("an answer");
                if reply.status == 200 {
                    let [uid] = <[String; 1]>::try_from(reply.seen("x-sandbox-uid")).expect("one UID");
                    let home = homes.lock().expect("no holder panics")[&uid].clone();
                    assert_eq!(reply.sandbox(), home, "{uid} is at {home}");
                }
            }
        })
    };
    for round in 0..12 {
        let (here, there) = (&boxes[round % 2], &boxes[(round + 1) % 2]);
        let object = kruise(&api, &namespace, "phoenix").create().await;
        homes.lock().expect("no holder panics").insert(object.uid().to_owned(), here.name().to_owned());
        object.resume(here.ip()).await;
        gateway.follows(&object).await;
        // The one request of the other task may be under way since before.
        let asked = there.requests();
        for _ in 0..10 {
            let reply = gateway.send(request(&namespace)).await;
            assert_eq!(
                (reply.sandbox().as_str(), reply.seen("x-sandbox-uid")),
                (here.name(), vec![object.uid().to_owned()])
            );
        }
        assert!(there.requests() <= asked + 1, "the old address was asked");
        object.delete().await;
    }
    stop.store(true, Ordering::Relaxed);
    asking.await.expect("every answer came from where its object was");
}
