//! Environments on a real cluster: our operator makes their pools, our manager claims pods of those, the
//! gateway routes to them, and nodes run real processes.

mod bursts;
mod clusters;
mod crashes;
mod idle;
mod life;
mod rollouts;

use sandgate_tests::cluster::{Environments, Manager, api_request, new_sandbox};
use sandgate_tests::{DEADLINE, Gateway, Reply, Request, eventually};
use serde_json::{Value, json};

/// The port of the image `hello`.
const PORT: u16 = 3000;
/// The cluster that scenarios with one are in.
const LOCAL: &str = "local";

/// A gateway that watches the claimed pods of one namespace.
async fn gateway(place: &Environments) -> Gateway {
    let providers = json!([{ "kind": "sandbox-env", "namespaces": [place.namespace] }]);
    Gateway::builder()
        // Nothing here is agent-sandbox's, which reads the same header in another way.
        .filter(json!({ "dialects": { "agent-sandbox": { "enabled": false } } }))
        .refresh(json!({ "insecure": true, "provider": "sandbox-env" }))
        .kubernetes(&place.cluster.kubeconfig(), &providers)
        .start()
        .await
}

/// A manager that makes sandboxes in the environments of one namespace.
async fn manager(place: &Environments, gateways: &[&Gateway]) -> Manager {
    let mut manager = place
        .cluster
        .manager()
        .flag(&format!("--namespace={}", place.namespace))
        .flag("--environments")
        .flag(&format!("--local-cluster-id={LOCAL}"))
        .flag("--rate=100000")
        .flag("--burst=100000");
    for gateway in gateways {
        manager = manager.gateway(gateway).await;
    }
    manager.start().await
}

/// The ways to ask for a sandbox.
fn asks(id: &str) -> [Request; 3] {
    [
        Request::get("/").header("x-sandbox-id", id).header("x-sandbox-port", PORT.to_string()),
        Request::get(&format!("/sandboxes/{id}/{PORT}/")),
        Request::get("/").host(&format!("{PORT}-{id}.sandboxes.example")),
    ]
}

/// Asks in each way until the answer is so.
async fn answered(gateway: &Gateway, id: &str, what: &str, is: impl Fn(&Reply) -> bool) {
    for way in 0..asks(id).len() {
        let mut last = String::new();
        eventually(&format!("{id}, {what}, way {way}"), DEADLINE * 2, async || {
            let request = asks(id).into_iter().nth(way).expect("a way");
            let reply = gateway.send(request).await;
            last = format!("{} {}", reply.status, reply.text());
            is(&reply).then_some(())
        })
        .await;
    }
}

/// The ID that the API gave a sandbox.
fn id(object: &Value) -> &str {
    object["sandboxID"].as_str().unwrap_or_else(|| panic!("an ID in {object:#}"))
}

/// Asks a manager for a sandbox of an environment: the status and the answer, or none where it broke off.
async fn create(manager: &Manager, key: &str, env: &str, more: &Value) -> Option<(u16, Value)> {
    let request = api_request(key, "POST", "/sandboxes", Some(&new_sandbox(env, more)));
    let reply = manager.send(request).await.ok()?;
    let body = if reply.text().is_empty() { Value::Null } else { reply.json() };
    Some((reply.status, body))
}

/// More of a request for a sandbox in which nobody answers.
fn hollow() -> Value {
    json!({ "secure": false })
}
