//! A thread of the gateway dies: requests are served from the last table, the metrics say so, and it comes
//! back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sandgate_tests::kubernetes::{ApiServer, kruise};
use sandgate_tests::{Builder, Gateway, locations, replace_by_rename, route, routes};
use serde_json::{Value, json};

use crate::support::{ask, sandbox};

const SOURCES: &str = "sandgate";
const PUSHES: &str = "sandgate-push";

fn breakable() -> Builder {
    Gateway::builder().module(locations::module_with_failpoints())
}

async fn kill(gateway: &Gateway, thread: &str) {
    let reply = gateway.admin(&format!("/sandgate/failpoint?kill={thread}")).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
}

/// What the status says of a thread.
async fn thread(gateway: &Gateway, name: &str) -> Value {
    let status = gateway.status().await;
    let threads = status["threads"].as_array().expect("threads are a list");
    threads.iter().find(|thread| thread["name"] == name).unwrap_or_else(|| panic!("{status}")).clone()
}

async fn is_back(gateway: &Gateway, name: &str, restarts: u64) {
    gateway
        .until(&format!("{name} is back"), async || {
            let thread = thread(gateway, name).await;
            (thread["up"] == true && thread["restarts"] == restarts).then_some(())
        })
        .await;
}

#[tokio::test]
async fn a_dead_thread_comes_back_and_the_table_follows_the_file_again_while_requests_go_on() {
    let (first, second) = (sandbox("first").await, sandbox("second").await);
    let builder = breakable().routes(&routes([route("first").ip(first.ip())]));
    let gateway = Arc::new(builder.start().await);
    gateway.stat_is("sandgate.thread_up", 1).await;
    assert_eq!(thread(&gateway, SOURCES).await["restarts"], 0);
    let over = Arc::new(AtomicBool::new(false));
    let asking = tokio::spawn({
        let (gateway, over) = (Arc::clone(&gateway), Arc::clone(&over));
        async move {
            let mut client = gateway.client().await;
            let mut asked = 0;
            while !over.load(Ordering::Relaxed) {
                assert_eq!(client.send(ask("default--first")).await.expect("an answer").sandbox(), "first");
                asked += 1;
            }
            asked
        }
    });
    kill(&gateway, SOURCES).await;
    gateway.stat_is("sandgate.thread_up", 0).await;
    assert_eq!(gateway.stat("sandgate.ready").await, Some(1), "the last table serves");
    // A change of the file that the dead thread cannot see.
    let both = routes([route("first").ip(first.ip()), route("second").ip(second.ip())]);
    replace_by_rename(&gateway.routes_file(), &both);
    is_back(&gateway, SOURCES, 1).await;
    gateway.stat_is("sandgate.thread_up", 1).await;
    gateway.generation(2).await;
    assert_eq!(gateway.send(ask("default--second")).await.sandbox(), "second");
    // And one after its return, by the numbers that go on from those of the life before.
    replace_by_rename(&gateway.routes_file(), &routes([route("first").ip(first.ip())]));
    gateway.generation(3).await;
    assert_eq!(gateway.send(ask("default--second")).await.status, 502);
    gateway.stat_is("sandgate.thread_restarts", 1).await;
    gateway.stat_is("sandgate.panics", 1).await;
    assert_eq!(gateway.status().await["panics"], 1);
    over.store(true, Ordering::Relaxed);
    assert!(asking.await.expect("every request is served") > 0);
    let log = gateway.log();
    assert!(log.contains("the thread sandgate panicked and is started again in 1s"), "{log}");
}

#[tokio::test]
async fn a_dead_receiver_comes_back_and_takes_pushes_again() {
    let demo = sandbox("demo").await;
    let gateway = breakable().refresh(json!({ "insecure": true })).start().await;
    let message = |state: &str, version: u64| {
        json!({
            "ip": demo.ip().to_string(), "id": "team--demo", "namespace": "team", "name": "demo", "uid": "u-1",
            "owner": "alice", "state": state, "resourceVersion": version.to_string(),
        })
    };
    assert_eq!(gateway.push(&message("running", 5)).await.status, 204);
    gateway.stat_is("sandgate.refresh_up", 1).await;
    kill(&gateway, PUSHES).await;
    gateway.stat_is("sandgate.thread_up", 0).await;
    gateway.stat_is("sandgate.refresh_up", 0).await;
    assert_eq!(thread(&gateway, SOURCES).await["up"], true, "the other thread goes on");
    assert_eq!(gateway.send(ask("team--demo")).await.sandbox(), "demo");
    is_back(&gateway, PUSHES, 1).await;
    gateway.stat_is("sandgate.refresh_up", 1).await;
    gateway.stat_is("sandgate.thread_up", 1).await;
    gateway.stat_is("sandgate.refresh_connections", 0).await;
    assert_eq!(gateway.push(&message("running", 4)).await.status, 204, "stale, as the table is kept");
    assert_eq!(gateway.send(ask("team--demo")).await.sandbox(), "demo");
    assert_eq!(gateway.push(&message("paused", 6)).await.status, 204);
    assert_eq!(gateway.send(ask("team--demo")).await.status, 502);
}

#[tokio::test]
async fn the_true_age_of_the_table_is_visible_while_the_thread_that_watches_is_dead() {
    let api = ApiServer::shared().await;
    let namespace = api.namespace("dead-thread").await;
    let place = sandbox("here").await;
    let object = kruise(&api, &namespace, "a").running(place.ip()).create().await;
    let id = format!("{namespace}--a");
    let gateway = breakable()
        .kubernetes(&api.admin_kubeconfig(), &json!([{ "kind": "openkruise", "namespaces": [namespace] }]))
        .start()
        .await;
    gateway.stat_is("sandgate.kubernetes_up", 1).await;
    // The third wait is four seconds: long enough to see an age grow.
    for restarts in 0..3 {
        is_back(&gateway, SOURCES, restarts).await;
        gateway.stat_is("sandgate.kubernetes_up", 1).await;
        kill(&gateway, SOURCES).await;
        gateway.stat_is("sandgate.thread_up", 0).await;
    }
    assert_eq!(gateway.stat("sandgate.kubernetes_up").await, Some(0), "what is dead does not watch");
    assert_eq!(gateway.scope(0).await["state"], "stopped");
    gateway
        .until("the age grows although nobody is there to say so", async || {
            let age = gateway.stat("sandgate.kubernetes_last_contact_age_seconds").await?;
            (age >= 2 && gateway.stat("sandgate.thread_up").await == Some(0)).then_some(())
        })
        .await;
    assert_eq!(gateway.send(ask(&id)).await.sandbox(), "here");
    // Deleted behind its back: the list after its return says so.
    object.delete().await;
    is_back(&gateway, SOURCES, 3).await;
    gateway
        .until("the table follows the cluster again", async || {
            (gateway.send(ask(&id)).await.status == 502).then_some(())
        })
        .await;
    gateway.stat_is("sandgate.kubernetes_up", 1).await;
}

#[tokio::test]
async fn the_shipped_module_cannot_be_told_to_break() {
    let gateway = Gateway::serving(&routes([])).await;
    assert_eq!(gateway.admin("/sandgate/failpoint?kill=sandgate").await.status, 404);
    assert_eq!(thread(&gateway, SOURCES).await["up"], true);
}
