//! Pods of a SandboxPool as sandboxes: a real API server, a real Envoy. The scenario claims and releases the
//! pods itself, as a manager does.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use sandgate_tests::kubernetes::ApiServer;
use sandgate_tests::{DEADLINE, Gateway, Reply, Request, Sandbox, eventually};
use serde_json::{Value, json};

use crate::support::PORT;

const SANDBOX_ID: &str = "agentbox.navix.sh/sandbox-id";
const PHASE: &str = "agentbox.navix.sh/sandbox-phase";
const ARMED: &str = "agentbox.navix.sh/sandbox-armed";

const NOT_FOUND: (u16, &str) = (404, "sandbox_not_found");
const NOT_RUNNING: (u16, &str) = (502, "sandbox_not_running");

/// One pod of a pool, at the address of a sandbox.
struct PoolPod {
    api: Api<Pod>,
    name: &'static str,
    uid: String,
}

impl PoolPod {
    /// Makes an idle pod, as a pool's controller and a kubelet would.
    async fn idle(api: &ApiServer, namespace: &str, name: &'static str, sandbox: &Sandbox) -> Self {
        let api: Api<Pod> = Api::namespaced(api.client(), namespace);
        let pod = json!({
            "metadata": {
                "name": name, "namespace": namespace,
                "labels": { (PHASE): "idle", "agentbox.navix.sh/sandbox-pool": "env-2c4gi" },
            },
            "spec": {
                "automountServiceAccountToken": false,
                "containers": [{ "name": "main", "image": "registry.example/idle:1" }],
            },
        });
        let pod = serde_json::from_value(pod).expect("a pod");
        let made = api.create(&PostParams::default(), &pod).await.expect("the pod is made");
        let this = Self { api, name, uid: made.metadata.uid.expect("a UID") };
        let ip = sandbox.ip();
        let status = json!({ "status": { "phase": "Running", "podIP": ip, "podIPs": [{ "ip": ip }] } });
        let status = Patch::Merge(&status);
        this.api.patch_status(name, &PatchParams::default(), &status).await.expect("its status is written");
        this
    }

    async fn merge(&self, metadata: Value) {
        let patch = json!({ "metadata": metadata });
        let patch = Patch::Merge(&patch);
        self.api.patch(self.name, &PatchParams::default(), &patch).await.expect("the pod is written");
    }

    /// A sandbox has the pod.
    async fn claimed(&self, id: &str, phase: &str) {
        self.merge(json!({ "labels": { (SANDBOX_ID): id, (PHASE): phase } })).await;
    }

    async fn phase(&self, phase: &str) {
        self.merge(json!({ "labels": { (PHASE): phase } })).await;
    }

    async fn released(&self) {
        self.merge(json!({ "labels": { (SANDBOX_ID): null, (PHASE): "idle" } })).await;
    }

    async fn armed(&self, id: &str) {
        self.merge(json!({ "annotations": { (ARMED): id } })).await;
    }

    async fn deleted(&self) {
        let at_once = DeleteParams::default().grace_period(0);
        self.api.delete(self.name, &at_once).await.expect("the pod is deleted");
    }
}

/// Both forms of the dialect.
fn asks(id: &str) -> [Request; 2] {
    [
        Request::get("/here").header("x-sandbox-id", id).header("x-sandbox-port", PORT.to_string()),
        Request::get(&format!("/sandboxes/{id}/{PORT}/here")),
    ]
}

async fn eventually_each(gateway: &Gateway, id: &str, what: &str, is: impl Fn(&Reply) -> bool) -> Vec<Reply> {
    let mut replies = Vec::new();
    for way in 0..asks(id).len() {
        let what = format!("{id}, {what}, way {way}");
        let answer = eventually(&what, DEADLINE, async || {
            let request = asks(id).into_iter().nth(way).expect("a way");
            let reply = gateway.send(request).await;
            is(&reply).then_some(reply)
        });
        replies.push(answer.await);
    }
    replies
}

async fn refused(gateway: &Gateway, id: &str, (status, reason): (u16, &str)) {
    let is = |reply: &Reply| reply.status == status && reply.json()["reason"] == reason;
    eventually_each(gateway, id, &format!("{status} {reason}"), is).await;
}

/// Asks until the sandbox answers, and checks what it was told.
async fn served(gateway: &Gateway, pod: &PoolPod, id: &str, sandbox: &Sandbox) {
    for reply in eventually_each(gateway, id, "is served", |reply| reply.status == 200).await {
        assert_eq!(reply.sandbox(), sandbox.name());
        assert_eq!((reply.seen_path().as_str(), reply.seen_port()), ("/here", PORT.into()));
        assert_eq!(reply.seen("x-sandbox-id"), [id]);
        assert_eq!(reply.seen("x-sandbox-uid"), [format!("{}/{id}", pod.uid)]);
    }
}

async fn gateway(api: &ApiServer, namespace: &str) -> Gateway {
    let providers = json!([{ "kind": "sandbox-env", "namespaces": [namespace] }]);
    Gateway::builder()
        .kubernetes(&api.admin_kubeconfig(), &providers)
        .filter(json!({ "dialects": { "agent-sandbox": { "enabled": false } } }))
        .start()
        .await
}

#[tokio::test]
async fn a_pod_is_a_sandbox_while_it_is_claimed_and_each_claim_is_another_one() {
    let api = ApiServer::shared().await;
    let namespace = api.namespace("sandbox-env").await;
    let sandbox = Sandbox::on_ports("box", &[PORT]).await;
    let pod = PoolPod::idle(&api, &namespace, "env-2c4gi-x7k2p", &sandbox).await;
    let gateway = gateway(&api, &namespace).await;
    refused(&gateway, "sbx-1", NOT_FOUND).await;
    assert_eq!(gateway.scope(0).await["objects"], json!(0), "idle pods stay with the API server");

    pod.claimed("sbx-1", "starting").await;
    refused(&gateway, "sbx-1", NOT_RUNNING).await;
    pod.phase("running").await;
    served(&gateway, &pod, "sbx-1", &sandbox).await;
    // Another dialect has its own statuses for the same sandbox.
    let kruise =
        || Request::get("/").header("e2b-sandbox-id", "sbx-1").header("e2b-sandbox-port", PORT.to_string());
    assert_eq!(gateway.send(kruise()).await.status, 200);

    pod.phase("stopping").await;
    refused(&gateway, "sbx-1", NOT_RUNNING).await;
    let opensandbox = gateway.send(Request::get(&format!("/sbx-1/{PORT}/"))).await;
    assert_eq!((opensandbox.status, gateway.send(kruise()).await.status), (503, 502));
    let asked = sandbox.requests();
    pod.released().await;
    refused(&gateway, "sbx-1", NOT_FOUND).await;
    assert_eq!(gateway.send(kruise()).await.status, 502);
    gateway
        .until("its connections are closed", async || (sandbox.open_connections() == 0).then_some(()))
        .await;
    assert_eq!(sandbox.requests(), asked);

    let connections = sandbox.connections();
    pod.claimed("sbx-2", "running").await;
    served(&gateway, &pod, "sbx-2", &sandbox).await;
    assert!(sandbox.connections() > connections, "a connection of the sandbox before was used");
    refused(&gateway, "sbx-1", NOT_FOUND).await;

    // It changes hands in one write.
    let connections = sandbox.connections();
    pod.claimed("sbx-3", "running").await;
    served(&gateway, &pod, "sbx-3", &sandbox).await;
    assert!(sandbox.connections() > connections, "a connection of the sandbox before was used");
    for before in ["sbx-1", "sbx-2"] {
        refused(&gateway, before, NOT_FOUND).await;
    }

    pod.armed("sbx-2").await;
    refused(&gateway, "sbx-3", NOT_RUNNING).await;
    pod.armed("sbx-3").await;
    served(&gateway, &pod, "sbx-3", &sandbox).await;

    pod.phase("failed").await;
    refused(&gateway, "sbx-3", NOT_RUNNING).await;
    pod.phase("running").await;
    served(&gateway, &pod, "sbx-3", &sandbox).await;
    pod.deleted().await;
    refused(&gateway, "sbx-3", NOT_FOUND).await;
    let scope = gateway.scope(0).await;
    assert_eq!((&scope["lists"], &scope["objects"], &scope["error"]), (&json!(1), &json!(0), &json!(null)));
    assert!(gateway.table().await.is_empty());
}

#[tokio::test]
async fn a_gateway_that_starts_later_knows_the_claimed_pods_and_their_tokens() {
    let api = ApiServer::shared().await;
    let namespace = api.namespace("sandbox-env").await;
    let (open, closed) =
        (Sandbox::on_ports("open", &[PORT]).await, Sandbox::on_ports("closed", &[PORT]).await);
    let first = PoolPod::idle(&api, &namespace, "env-2c4gi-aaaaa", &open).await;
    let second = PoolPod::idle(&api, &namespace, "env-2c4gi-bbbbb", &closed).await;
    first.claimed("local.1", "running").await;
    second.claimed("local.2", "running").await;
    second.merge(json!({ "annotations": { "sandgate.dev/access-token": "s3cret" } })).await;
    let providers = json!([{ "kind": "sandbox-env", "namespaces": [namespace] }]);
    let filter = json!({ "enable-auth": true, "dialects": { "agent-sandbox": { "enabled": false } } });
    let gateway =
        Gateway::builder().kubernetes(&api.admin_kubeconfig(), &providers).filter(filter).start().await;
    for request in asks("local.1") {
        assert_eq!(gateway.send(request).await.sandbox(), "open");
    }
    for way in 0..2 {
        let ask = || asks("local.2").into_iter().nth(way).expect("a way");
        let refused = gateway.send(ask()).await;
        assert_eq!((refused.status, refused.json()["reason"].as_str()), (401, Some("unauthorized")));
        assert_eq!(gateway.send(ask().header("x-access-token", "s3cret")).await.sandbox(), "closed");
    }
    let scope = gateway.scope(0).await;
    assert_eq!((&scope["objects"], &scope["unreadable"]), (&json!(2), &json!(0)));
}
