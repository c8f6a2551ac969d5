//! Routes from a cluster: a real API server, a real Envoy, real sandboxes.
//!
//! Scenarios that share the server watch namespaces of their own. What has happened at the server is in the
//! table a moment later: [`served`] and [`refused`] wait for it, and [`Gateway::follows`] waits for one
//! object.

mod churn;
mod ends;
mod faults;
mod lives;
mod outages;
mod rights;
mod scopes;
mod start;
mod tenants;
mod tokens;

use std::path::Path;
use std::time::SystemTime;

use sandgate_tests::kubernetes::{ApiServer, Kind, Object};
use sandgate_tests::{Builder, DEADLINE, Gateway, Reply, Request, Sandbox, eventually};
use serde_json::{Value, json};

use crate::support::PORT;

/// The three kinds, each in the version that its provider reads.
const KINDS: [Kind; 3] = [Kind::OpenKruise, Kind::AgentSandbox, Kind::OpenSandbox];

/// A sandbox that listens on [`PORT`].
async fn sandbox(name: &str) -> Sandbox {
    Sandbox::on_ports(name, &[PORT]).await
}

/// A gateway's config of one provider in one namespace.
fn one(kind: Kind, namespace: &str) -> Value {
    json!([{ "kind": kind.provider(), "namespaces": [namespace] }])
}

/// A gateway to be, of OpenKruise sandboxes in one namespace.
fn watching(kubeconfig: &Path, namespace: &str) -> Builder {
    Gateway::builder().kubernetes(kubeconfig, &one(Kind::OpenKruise, namespace))
}

/// A gateway that watches OpenKruise sandboxes in one namespace of the shared server with all rights.
async fn gateway(api: &ApiServer, namespace: &str) -> Gateway {
    watching(&api.admin_kubeconfig(), namespace).start().await
}

/// All the ways to ask for a sandbox of a kind.
fn asks(kind: Kind, namespace: &str, name: &str) -> Vec<Request> {
    let id = kind.id(namespace, name);
    let port = PORT.to_string();
    match kind {
        Kind::OpenKruise => vec![
            Request::get("/").header("e2b-sandbox-id", &id).header("e2b-sandbox-port", port),
            Request::get(&format!("/kruise/{id}/{PORT}/")),
            Request::get("/").host(&format!("{PORT}-{id}.sandboxes.example")),
        ],
        Kind::AgentSandbox | Kind::AgentSandboxV1Alpha1 => vec![
            Request::get("/")
                .header("x-sandbox-id", name)
                .header("x-sandbox-namespace", namespace)
                .header("x-sandbox-port", port),
        ],
        Kind::OpenSandbox => vec![
            Request::get("/").header("opensandbox-ingress-to", format!("{id}-{PORT}")),
            Request::get(&format!("/{id}/{PORT}/")),
            Request::get("/").host(&format!("{id}-{PORT}.sandboxes.example")),
        ],
    }
}

/// The first way to ask for a sandbox of a kind.
fn ask(kind: Kind, namespace: &str, name: &str) -> Request {
    asks(kind, namespace, name).swap_remove(0)
}

/// What the dialect of a kind answers for a sandbox that is not there, and for one that does not run.
fn refusals(kind: Kind) -> [(u16, &'static str); 2] {
    match kind {
        Kind::OpenSandbox => [(404, "sandbox_not_found"), (503, "sandbox_not_running")],
        _ => [(502, "sandbox_not_found"), (502, "sandbox_not_running")],
    }
}

/// Waits until an object made now is younger than this one: ages are whole seconds.
async fn a_second_after(object: &Object) {
    let made = object.get().await.expect("the object exists");
    let made = made["metadata"]["creationTimestamp"].as_str().expect("a time").to_owned();
    let made: SystemTime = made.parse::<k8s_openapi::jiff::Timestamp>().expect("a time").into();
    eventually("the next second", DEADLINE, async || {
        let age = SystemTime::now().duration_since(made).unwrap_or_default();
        (age.as_secs() >= 1).then_some(())
    })
    .await;
}

/// Asks until `sandbox` answers. No other sandbox may.
async fn served(gateway: &Gateway, request: impl Fn() -> Request, sandbox: &Sandbox) -> Reply {
    eventually(&format!("{} answers", sandbox.name()), DEADLINE, async || {
        let reply = gateway.send(request()).await;
        if reply.status != 200 {
            return None;
        }
        assert_eq!(reply.sandbox(), sandbox.name(), "another sandbox answered");
        Some(reply)
    })
    .await
}

/// Asks until the gateway refuses with this status and reason.
async fn refused(gateway: &Gateway, request: impl Fn() -> Request, (status, reason): (u16, &str)) {
    eventually(&format!("{status} {reason}"), DEADLINE, async || {
        let reply = gateway.send(request()).await;
        (reply.status == status && reply.json()["reason"] == reason).then_some(())
    })
    .await;
}
