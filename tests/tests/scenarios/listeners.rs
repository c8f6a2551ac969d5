//! Several filter configs, and listeners replaced while they serve: one table and one runtime for the
//! process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use sandgate_tests::{Client, Gateway, Request, Sandbox, replace_by_rename, route, routes};
use serde_json::{Value, json};

use crate::support::{AGENT_SANDBOX_PORT, PORT, ask, assert_refused, sandbox};

#[tokio::test]
async fn listeners_with_different_dialects_read_one_table() {
    let (first, second) = (sandbox("first").await, sandbox("second").await);
    let only = |dialect: &str| {
        let mut dialects = json!({
            "kruise": { "enabled": false }, "agent-sandbox": { "enabled": false }, "opensandbox": { "enabled": false },
            "sandbox-env": { "enabled": false },
        });
        dialects[dialect] = json!({ "enabled": true });
        json!({ "dialects": dialects, "unaddressed": "refuse" })
    };
    let gateway = Gateway::builder()
        .routes(&routes([route("first").ip(first.ip())]))
        .filter(only("kruise"))
        .listener("agent-sandbox", only("agent-sandbox"))
        .start()
        .await;
    let by_kruise = |name: &str| ask(&format!("default--{name}"));
    let by_agent_sandbox = |name: &str| {
        Request::get("/").header("x-sandbox-id", name).header("x-sandbox-port", PORT.to_string())
    };
    assert_eq!(gateway.send(by_kruise("first")).await.sandbox(), "first");
    assert_eq!(gateway.send_to("agent-sandbox", by_agent_sandbox("first")).await.sandbox(), "first");
    assert_refused(&gateway, &gateway.send(by_agent_sandbox("first")).await, 404, "not_addressed").await;
    let crossed = gateway.send_to("agent-sandbox", by_kruise("first")).await;
    assert_refused(&gateway, &crossed, 404, "not_addressed").await;
    // One reload is one reload for both.
    replace_by_rename(&gateway.routes_file(), &routes([route("second").ip(second.ip())]));
    gateway.generation(2).await;
    assert_eq!(gateway.send(by_kruise("second")).await.sandbox(), "second");
    assert_eq!(gateway.send_to("agent-sandbox", by_agent_sandbox("second")).await.sandbox(), "second");
    let gone = gateway.send_to("agent-sandbox", by_agent_sandbox("first")).await;
    assert_refused(&gateway, &gone, 502, "sandbox_not_found").await;
    assert_eq!(gateway.status().await["sources"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn the_number_of_filter_configs_does_not_change_the_number_of_threads() {
    let text = routes([route("demo").ip([127, 0, 0, 1])]);
    let one = Gateway::serving(&text).await;
    let mut builder = Gateway::builder().routes(&text);
    for number in 0..8 {
        builder = builder.listener(&format!("extra-{number}"), json!({}));
    }
    let many = builder.start().await;
    // Threads that read the file come and go; those that stay are the same.
    many.until("as many threads with nine filter configs as with one", async || {
        (many.threads() == one.threads()).then_some(())
    })
    .await;
}

/// A filter config that can be told from another by the port it defaults to.
fn version(port: u16) -> Value {
    json!({ "dialects": { "kruise": { "default-port": port } } })
}

/// A sandbox behind a listener that comes by LDS.
async fn reloadable() -> (Sandbox, Gateway) {
    let demo = sandbox("demo").await;
    let gateway = Gateway::builder()
        .routes(&routes([route("demo").ip(demo.ip())]))
        .filter(version(PORT))
        .lds()
        .start()
        .await;
    (demo, gateway)
}

#[tokio::test]
async fn replacing_the_filter_config_under_traffic_fails_no_request() {
    let (demo, mut gateway) = reloadable().await;
    let address = gateway.address();
    let request = || Request::get("/").header("e2b-sandbox-id", "default--demo");
    // One request is under way all the time, on a connection of the first listener.
    let mut early = Client::http1(address).await.expect("connect");
    let held = tokio::spawn(async move {
        let request = Request::get("/slow").header("e2b-sandbox-id", "default--demo");
        early.send(request).await.expect("an answer")
    });
    demo.holding(1).await;

    let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let traffic: Vec<_> = (0..4)
        .map(|_| {
            let (stop, answered) = (Arc::clone(&stop), Arc::clone(&answered));
            tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    let mut client = Client::http1(address).await.expect("connect");
                    let reply = client.send(request()).await.expect("an answer");
                    assert_eq!(reply.sandbox(), "demo");
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for port in [AGENT_SANDBOX_PORT, PORT, AGENT_SANDBOX_PORT, PORT, AGENT_SANDBOX_PORT] {
        gateway.update_filter(&version(port));
        gateway
            .until("new connections get the new config", async || {
                (gateway.send(request()).await.seen_port() == u64::from(port)).then_some(())
            })
            .await;
        let so_far = answered.load(Ordering::Relaxed);
        gateway
            .until("traffic goes on", async || (answered.load(Ordering::Relaxed) > so_far + 20).then_some(()))
            .await;
    }
    stop.store(true, Ordering::Relaxed);
    for task in traffic {
        task.await.expect("no request fails");
    }
    demo.release(1);
    assert_eq!(held.await.expect("no panic").sandbox(), "demo");
    assert!(gateway.is_alive());
    assert_eq!(gateway.stat("sandgate.panics").await.unwrap_or(0), 0);
    assert_eq!(gateway.status().await["sources"][0]["generation"], 1, "the routes file was loaded once");
}

#[tokio::test]
async fn a_bad_update_is_refused_and_the_old_config_serves() {
    let (_demo, mut gateway) = reloadable().await;
    gateway.update_filter(&json!({ "dialects": { "kruise": { "port": 1 } } }));
    gateway.logged(&["sandgate", "dialects.kruise", "default-port"]).await;
    gateway.stat_is("listener_manager.lds.update_rejected", 1).await;
    let request = || Request::get("/").header("e2b-sandbox-id", "default--demo");
    assert_eq!(gateway.send(request()).await.seen_port(), u64::from(PORT));
    gateway.update_filter(&version(AGENT_SANDBOX_PORT));
    gateway
        .until("a good update is taken", async || {
            (gateway.send(request()).await.seen_port() == u64::from(AGENT_SANDBOX_PORT)).then_some(())
        })
        .await;
}
