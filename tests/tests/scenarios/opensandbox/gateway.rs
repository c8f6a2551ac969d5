//! The way of a request: from a pool to a batch, from its task to a server, through Envoy to it, and to
//! nowhere when it is gone.

use std::net::SocketAddr;

use sandgate_tests::cluster::{Batches, allocated, pod_template, pool, pooled};
use sandgate_tests::{DEADLINE, Gateway, OpenSandboxSdk, Reply, Request, eventually, locations};
use serde_json::{Value, json};

/// Where the server of the task listens.
const PORT: u16 = 3000;

async fn gateway(place: &Batches) -> Gateway {
    let providers = json!([{ "kind": "opensandbox", "namespaces": [place.namespace] }]);
    Gateway::builder().kubernetes(&place.cluster.kubeconfig(), &providers).start().await
}

/// All the ways to ask for a sandbox.
fn asks(sandbox: &str) -> [Request; 3] {
    [
        Request::get("/").host(&format!("{sandbox}-{PORT}.sandboxes.example")),
        Request::get("/").header("opensandbox-ingress-to", format!("{sandbox}-{PORT}")),
        Request::get(&format!("/{sandbox}/{PORT}/")),
    ]
}

/// Asks in each way until the answer is so.
async fn answered(gateway: &Gateway, sandbox: &str, what: &str, is: impl Fn(&Reply) -> bool) {
    for way in 0..asks(sandbox).len() {
        eventually(&format!("{sandbox}, {what}, way {way}"), DEADLINE, async || {
            let [host, header, path] = asks(sandbox);
            let request = [Some(host), Some(header), Some(path)].into_iter().nth(way).flatten();
            let reply = gateway.send(request.expect("a way")).await;
            is(&reply).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn a_request_finds_the_sandbox_of_a_pool_and_its_task_until_it_is_released() {
    let place = Batches::shared("door").await;
    locations::task_executor();
    let _operator = place.operator().start().await;
    let gateway = gateway(&place).await;
    let not_found = |reply: &Reply| reply.status == 404 && reply.json()["reason"] == "sandbox_not_found";
    answered(&gateway, "one", "it is not there", not_found).await;

    place.pools.create(&pool("p", &pod_template("task-executor:dev"), [2, 2], [0, 4])).await;
    let hello = locations::repository().join("tests/cluster/hello.py");
    let script = format!("exec python3 {} $POD_IP {PORT}", hello.display());
    let serving = |name: &str| {
        let mut batch = pooled(name, 1, "p");
        batch["spec"]["taskTemplate"] = json!({ "spec": { "process": { "command": ["sh", "-c", script] } } });
        batch
    };
    for name in ["one", "two"] {
        place.batches.create(&serving(name)).await;
    }
    for name in ["one", "two"] {
        let runs = |batch: &Value| batch["status"]["taskRunning"] == 1;
        let pod = allocated(&place.batches.until(name, "its task runs", runs).await).remove(0);
        let hello = format!("hello from {pod}\n");
        answered(&gateway, name, "it answers", |reply| {
            assert!(reply.status != 200 || reply.text() == hello, "another answered: {}", reply.text());
            reply.status == 200
        })
        .await;
    }

    // Its pod is lost: another one takes its place, and requests follow.
    let lost = allocated(&place.ready("one", 1).await).remove(0);
    place.pods.delete_at_once(&lost).await;
    let moved = |one: &Value| allocated(one)[0] != lost && one["status"]["taskRunning"] == 1;
    let moved = allocated(&place.batches.until("one", "it has another pod", moved).await).remove(0);
    let hello = format!("hello from {moved}\n");
    answered(&gateway, "one", "it answers again", |reply| reply.status == 200 && reply.text() == hello).await;

    place.end("one").await;
    answered(&gateway, "one", "it is gone", not_found).await;
    answered(&gateway, "two", "it is not concerned", |reply| reply.status == 200).await;
}

#[tokio::test]
async fn the_published_sdk_works_in_a_sandbox_of_a_pool() {
    let place = Batches::shared("sdk").await;
    let _operator = place.operator().start().await;
    let gateway = gateway(&place).await;
    place.pools.create(&pool("p", &pod_template("execd"), [0, 1], [1, 1])).await;
    let mut batch = pooled("one", 1, "p");
    batch["metadata"]["annotations"] = json!({ "opensandbox.io/secure-access-token": "open sesame" });
    place.batches.create(&batch).await;
    let one = place.ready("one", 1).await;
    let pod = allocated(&one).remove(0);
    let ip = sandgate_tests::cluster::endpoints(&one)[0].parse().expect("an address");
    eventually("its server listens", DEADLINE, async || {
        let server = SocketAddr::new(ip, 44772);
        sandgate_tests::Client::http1(server).await.ok().map(drop)
    })
    .await;
    let seen = OpenSandboxSdk::work(gateway.address(), "one", "open sesame").await;
    for way in ["path", "header", "host"] {
        let done = json!({
            "healthy": true, "stdout": [format!("{pod}\n"), "second\n"], "exit": [0, 3], "same": true, "missing": 404,
        });
        assert_eq!(seen[way], done, "{way}");
    }
    let refused = gateway.send(Request::get("/one/44772/ping")).await;
    assert_eq!(refused.status, 401, "{}", refused.text());
}
