//! Who may ask: agent-sandbox's ways to know a caller.

use std::fs;

use sandgate_auth::ScopedKey;
use sandgate_tests::kubernetes::ApiServer;
use sandgate_tests::{Gateway, Request, Sandbox, replace_by_rename, route, routes};
use serde_json::{Value, json};

use super::clients::Clients;
use crate::support::{assert_refused, may_review, sandbox};

const TOKEN: &str = "0123456789abcdef-known";

async fn serving(callers: Value, auth: impl FnOnce(&std::path::Path) -> Value) -> (Sandbox, Gateway) {
    let up = sandbox("up").await;
    let builder = Gateway::builder();
    let auth = auth(builder.folder());
    let entries = [route("box").ip(up.ip()), route("other").ip(up.ip()), route("asleep").state("paused")];
    let gateway = builder
        .setting("auth", auth)
        .routes(&routes(entries))
        .filter(json!({ "callers": callers }))
        .start()
        .await;
    (up, gateway)
}

fn named(name: &str) -> Request {
    Request::get("/").header("x-sandbox-id", name)
}

fn bearing(name: &str, token: &str) -> Request {
    named(name).header("authorization", format!("Bearer {token}"))
}

#[tokio::test]
async fn an_unknown_caller_learns_nothing_and_a_known_one_keeps_its_token_to_the_gateway() {
    let (up, gateway) = serving(json!({ "mode": "bearer" }), |folder| {
        fs::write(folder.join("tokens"), format!("# agents\n{TOKEN}\n")).expect("write the tokens");
        json!({ "bearer": { "files": [folder.join("tokens")] } })
    })
    .await;
    for name in ["box", "asleep", "nobody"] {
        for request in [
            named(name),
            bearing(name, "0123456789abcdef-other"),
            named(name).header("authorization", "Basic eA=="),
        ] {
            let reply = gateway.send(request).await;
            assert_refused(&gateway, &reply, 401, "caller_unauthorized").await;
            assert_eq!(reply.header("www-authenticate"), "Bearer");
        }
    }
    assert_eq!(up.requests(), 0);
    let reply = gateway.send(bearing("box", TOKEN)).await;
    assert_eq!(reply.sandbox(), "up");
    assert!(reply.seen("authorization").is_empty(), "{}", reply.text());
    assert_refused(&gateway, &gateway.send(bearing("nobody", TOKEN)).await, 502, "sandbox_not_found").await;
}

#[tokio::test]
async fn a_scoped_token_opens_its_sandbox_and_its_keys_are_rotated_under_load() {
    let [old, new] = ['o', 'n'].map(|letter| letter.to_string().repeat(32));
    let (_up, gateway) = serving(json!({ "mode": "scoped-token" }), |folder| {
        fs::write(folder.join("old"), &old).expect("write the secret");
        fs::write(folder.join("new"), &old).expect("write the secret");
        json!({ "scoped-token": { "files": [folder.join("old"), folder.join("new")] } })
    })
    .await;
    let token = |secret: &str, name: &str, end: i64| {
        ScopedKey::new(secret.as_bytes()).expect("a secret").sign("default", name, end)
    };
    let far = 4_102_444_800;
    assert_eq!(gateway.send(bearing("box", &token(&old, "box", far))).await.sandbox(), "up");
    let other = gateway.send(bearing("other", &token(&old, "box", far))).await;
    assert_refused(&gateway, &other, 403, "caller_forbidden").await;
    let over = gateway.send(bearing("box", &token(&old, "box", 1_700_000_000))).await;
    assert_refused(&gateway, &over, 401, "caller_unauthorized").await;
    let asking = |secret: &str| {
        let token = token(secret, "box", far);
        move || bearing("box", &token)
    };
    let clients = Clients::start(&gateway, asking(&old)).await;
    clients.more(30).await;
    replace_by_rename(&gateway.folder().join("new"), &new);
    gateway
        .until("the new secret is known", async || {
            let reply = gateway.send(bearing("box", &token(&new, "box", far))).await;
            (reply.status == 200).then_some(())
        })
        .await;
    clients.ask(asking(&new));
    clients.more(30).await;
    replace_by_rename(&gateway.folder().join("old"), &new);
    gateway
        .until("the old secret is gone", async || {
            let reply = gateway.send(bearing("box", &token(&old, "box", far))).await;
            (reply.status == 401).then_some(())
        })
        .await;
    clients.more(30).await;
    assert!(clients.finish().await >= 90);
}

#[tokio::test]
async fn the_api_server_says_whose_token_it_is_and_the_rules_say_who_may() {
    let api = ApiServer::shared().await;
    let namespace = api.namespace("callers").await;
    let [agent, other] =
        [api.service_account(&namespace, "agent").await, api.service_account(&namespace, "other").await];
    let kubeconfig = may_review(&api, &namespace).await;
    let up = sandbox("up").await;
    let gateway = Gateway::builder()
        .setting(
            "auth",
            json!({ "token-review": {
            "audiences": ["sandgate"], "kubeconfig": kubeconfig, "remember-seconds": 3,
        } }),
        )
        .routes(&routes([route("box").ip(up.ip()), route("mine").namespace(&namespace).ip(up.ip())]))
        .filter(json!({ "callers": { "mode": "token-review", "subjects": [agent.user()] } }))
        .listener("bound", json!({ "callers": { "mode": "token-review", "bind-namespace": true } }))
        .start()
        .await;
    let good = agent.token_for("sandgate").await;
    // Until the API server knows of the right, it says nothing, and nobody is let in.
    gateway
        .until("the right has arrived", async || {
            let reply = gateway.send(bearing("box", &good)).await;
            assert!([200, 503].contains(&reply.status), "{}", reply.text());
            (reply.status == 200).then_some(())
        })
        .await;
    let reply = gateway.send(bearing("box", &good)).await;
    assert_eq!(reply.sandbox(), "up");
    assert!(reply.seen("authorization").is_empty(), "{}", reply.text());
    for wrong in ["made-up", &agent.token().await] {
        let reply = gateway.send(bearing("box", wrong)).await;
        assert_refused(&gateway, &reply, 401, "caller_unauthorized").await;
    }
    let known = other.token_for("sandgate").await;
    assert_refused(&gateway, &gateway.send(bearing("box", &known)).await, 403, "caller_forbidden").await;
    let bound = async |name: &str, namespace: &str| {
        let request = bearing(name, &known).header("x-sandbox-namespace", namespace);
        gateway.send_to("bound", request).await
    };
    assert_eq!(bound("mine", &namespace).await.sandbox(), "up");
    assert_eq!(bound("box", "default").await.status, 403);
}

#[tokio::test]
async fn a_config_whose_keys_are_missing_is_refused_at_start() {
    for (filter, wanted) in [
        (json!({ "callers": { "mode": "bearer" } }), "auth.bearer"),
        (json!({ "callers": { "mode": "scoped-token" } }), "auth.scoped-token"),
        (json!({ "callers": { "mode": "token-review" } }), "auth.token-review"),
        (json!({ "enable-auth": true, "enable-jwt-auth": true }), "auth.traffic-jwt"),
    ] {
        let exit = Gateway::builder().filter(filter).run_to_exit().await;
        assert_ne!(exit.code, Some(0));
        assert!(exit.log.contains(wanted), "{wanted} is not in {}", exit.log);
    }
}
