//! What several themes share.

use std::path::PathBuf;

use sandgate_tests::kubernetes::ApiServer;
use sandgate_tests::{Builder, Gateway, Reply, Request, Sandbox, route, routes};
use serde_json::{Value, json};

/// The default port of the OpenKruise dialect.
pub(crate) const KRUISE_PORT: u16 = 49_983;
/// The default port of the agent-sandbox dialect.
pub(crate) const AGENT_SANDBOX_PORT: u16 = 8888;
/// A port that is nobody's default.
pub(crate) const PORT: u16 = 8000;

/// A sandbox that listens on the default ports and on [`PORT`].
pub(crate) async fn sandbox(name: &str) -> Sandbox {
    Sandbox::on_ports(name, &[PORT, KRUISE_PORT, AGENT_SANDBOX_PORT]).await
}

/// One sandbox, `demo`, with its gateway: for scenarios about everything but routes.
pub(crate) async fn demo() -> (Sandbox, Gateway) {
    let demo = sandbox("demo").await;
    let gateway = Gateway::serving(&routes([route("demo").ip(demo.ip())])).await;
    (demo, gateway)
}

/// A GET that addresses a sandbox by the OpenKruise header, on [`PORT`].
pub(crate) fn ask(id: &str) -> Request {
    Request::get("/").header("e2b-sandbox-id", id).header("e2b-sandbox-port", PORT.to_string())
}

/// A filter config with `clear-route-cache` and these keys.
pub(crate) fn splitting(mut filter: Value) -> Value {
    filter["clear-route-cache"] = json!(true);
    filter
}

/// Envoy's routes as the book says for `clear-route-cache`: what is for a sandbox goes to one, the rest to
/// `rest`.
pub(crate) fn split_routes(builder: Builder, rest: &Sandbox) -> Builder {
    builder
        .static_cluster("rest", rest)
        .envoy_route(json!({
            "match": { "prefix": "/", "headers": [
                { "name": "x-sandgate-route", "string_match": { "exact": "sandbox" } },
            ]},
            "route": { "cluster": "sandbox", "timeout": "0s" },
        }))
        .envoy_route(json!({ "match": { "prefix": "/" }, "route": { "cluster": "rest", "timeout": "0s" } }))
}

/// Asserts that the gateway itself answered, with this status and this reason in all three places, and that
/// the request went nowhere.
pub(crate) async fn assert_refused(gateway: &Gateway, reply: &Reply, status: u16, reason: &str) {
    assert_answered(gateway, reply, status, reason).await;
    assert_eq!(gateway.access(reply).await.upstream, "", "{}", reply.text());
}

/// The same of a request that may have been on its way to its sandbox.
pub(crate) async fn assert_answered(gateway: &Gateway, reply: &Reply, status: u16, reason: &str) {
    assert_eq!(
        (reply.status, reply.header("content-type")),
        (status, "application/json"),
        "{}",
        reply.text()
    );
    let body = reply.json();
    assert_eq!((&body["code"], &body["reason"]), (&json!(status), &json!(reason)), "{body}");
    assert!(body["message"].as_str().is_some_and(|message| !message.is_empty()), "{body}");
    let access = gateway.access(reply).await;
    assert_eq!((access.status, access.details.as_str()), (status, reason), "{body}");
}

/// The request was answered by the gateway: the sandbox is not served, or ceased to be while the request was
/// under way.
pub(crate) fn assert_turned_away(reply: &Reply) {
    let gone = reply.status == 503 && reply.json()["reason"] == "sandbox_gone";
    assert!(reply.status == 502 || gone, "{} {}", reply.status, reply.text());
}

/// Numbers that look random and are the same for the same seed (xorshift); the seed is not zero.
pub(crate) struct Seeded(pub(crate) u64);

impl Seeded {
    pub(crate) fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % below as u64).expect("below a usize")
    }
}

/// Lets the account `gateway` do these things with OpenKruise's sandboxes in its namespace.
pub(crate) async fn allow(api: &ApiServer, namespace: &str, verbs: &str) {
    api.apply(&format!(
        r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {{ namespace: {namespace}, name: gateway }}
rules: [{{ apiGroups: [agents.kruise.io], resources: [sandboxes], verbs: [{verbs}] }}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{ namespace: {namespace}, name: gateway }}
roleRef: {{ apiGroup: rbac.authorization.k8s.io, kind: Role, name: gateway }}
subjects: [{{ kind: ServiceAccount, name: gateway, namespace: {namespace} }}]
"#
    ))
    .await;
}

/// Lets the account `gateway` of the namespace ask whose a token is: the right that the shipped file gives,
/// and no other. Returns a kubeconfig for it.
pub(crate) async fn may_review(api: &ApiServer, namespace: &str) -> PathBuf {
    let file = sandgate_tests::locations::repository().join("envoy/deploy/rbac/token-review.yaml");
    api.apply(&std::fs::read_to_string(file).expect("the shipped rights")).await;
    let own = api.service_account(namespace, "gateway").await;
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": { "name": format!("{namespace}-token-review") },
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "sandgate-token-review",
        },
        "subjects": [{ "kind": "ServiceAccount", "namespace": namespace, "name": "gateway" }],
    });
    api.apply(&binding.to_string()).await;
    api.kubeconfig(&own.token().await)
}
