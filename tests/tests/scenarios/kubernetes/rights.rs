//! The rights of `envoy/deploy/rbac`: enough, none too many, and a missing one is told by its name.

use std::fs;

use sandgate_tests::kubernetes::{ApiServer, Kind, ServiceAccount, Wire};
use sandgate_tests::{Gateway, locations};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::{KINDS, ask, sandbox, served, watching};

/// A file of `envoy/deploy/rbac`.
fn shipped(name: &str) -> String {
    let file = locations::repository().join("envoy/deploy/rbac").join(name).with_extension("yaml");
    fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
}

/// The shipped account, with no right yet.
async fn account(api: &ApiServer) -> ServiceAccount {
    api.apply(r#"{ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "sandgate-system" } }"#)
        .await;
    api.apply(&shipped("serviceaccount")).await;
    api.service_account("sandgate-system", "sandgate").await
}

/// The shipped rights of a provider without one of the verbs.
fn without(kind: Kind, verb: &str) -> String {
    let text = shipped(kind.provider());
    let less = match verb {
        "list" => text.replace("verbs: [list, watch]", "verbs: [watch]"),
        _ => text.replace("verbs: [list, watch]", "verbs: [list]"),
    };
    assert_ne!(text, less, "the file has other verbs than this scenario knows");
    less
}

/// For each provider: works with exactly the shipped rights, and names the one that is missing when there is
/// one.
///
/// A server with streaming lists is asked to list only when a watch broke: for its version. One without them
/// is asked at once.
pub(super) async fn each_provider(api: &ApiServer, mode: &str) {
    let token = account(api).await.token().await;
    for kind in KINDS {
        let namespace = api.namespace("rights").await;
        let name = format!("box-of-{namespace}");
        let place = sandbox("here").await;
        kind.draft(api, &namespace, &name).running(place.ip()).create().await;
        let kubeconfig = api.kubeconfig(&token);
        // In all namespaces, as the files grant.
        let providers = json!([{ "kind": kind.provider() }]);
        let resource = kind.resource();
        let missing = |verb: &str| {
            format!("cannot {verb} resource \"{}\" in API group \"{}\"", resource.plural, resource.group)
        };
        let denied = |verb: &str| {
            let missing = missing(verb);
            move |scope: &Value| {
                scope["state"] == "backing-off"
                    && scope["error"]
                        .as_str()
                        .is_some_and(|e| e.contains("right is missing") && e.contains(&missing))
            }
        };

        api.apply(&without(kind, "watch")).await;
        let mut gateway = Gateway::builder().kubernetes(&kubeconfig, &providers).spawn().await;
        gateway.scope_where(0, "watch is missed", denied("watch")).await;
        gateway.logged(&["right is missing", &missing("watch")]).await;
        assert_eq!(gateway.scope(0).await["listed"], false);
        api.apply(&shipped(kind.provider())).await;
        gateway.live().await;
        served(&gateway, || ask(kind, &namespace, &name), &place).await;
        gateway.scope_where(0, "the watch runs", |scope| scope["state"] == "watching").await;
        drop(gateway);

        api.apply(&without(kind, "list")).await;
        let wire = Wire::to(api).await;
        let mut gateway = Gateway::builder().kubernetes(&wire.kubeconfig(&token), &providers).spawn().await;
        if mode == "streaming" {
            gateway.live().await;
            wire.cut_running();
        }
        gateway.scope_where(0, "list is missed", denied("list")).await;
        gateway.logged(&["right is missing", &missing("list")]).await;
        assert_eq!(gateway.scope(0).await["listed"], mode == "streaming");
        api.apply(&shipped(kind.provider())).await;
        gateway.live().await;
        gateway.scope_where(0, "the watch runs", |scope| scope["state"] == "watching").await;
        served(&gateway, || ask(kind, &namespace, &name), &place).await;
        assert_eq!(gateway.scope(0).await["listMode"], mode);
    }
}

/// The shipped roles are the whole cluster's: one scenario changes those of the shared server at a time.
static ROLES: Mutex<()> = Mutex::const_new(());

#[tokio::test]
async fn the_shipped_rights_are_enough_and_each_missing_one_is_told_with_streaming_lists() {
    let _alone = ROLES.lock().await;
    each_provider(&ApiServer::shared().await, "streaming").await;
}

#[tokio::test]
async fn without_any_right_the_gateway_says_so_stays_closed_and_opens_when_it_gets_them() {
    let _alone = ROLES.lock().await;
    let api = ApiServer::shared().await;
    let namespace = api.namespace("denied").await;
    let place = sandbox("here").await;
    let kind = Kind::OpenKruise;
    kind.draft(&api, &namespace, "a").running(place.ip()).create().await;
    let account = api.service_account(&namespace, "nobody").await;
    let token = account.token().await;
    let mut gateway = watching(&api.kubeconfig(&token), &namespace).spawn().await;
    let missing = "cannot watch resource \"sandboxes\" in API group \"agents.kruise.io\"";
    let scope = gateway
        .scope_where(0, "the missing right is told", |scope| {
            scope["error"].as_str().is_some_and(|error| error.contains(missing))
        })
        .await;
    assert_eq!((&scope["state"], &scope["listed"]), (&json!("backing-off"), &json!(false)), "{scope}");
    let line = gateway.logged(&["right is missing", missing]).await;
    assert!(line.contains(&account.user()) && line.contains(&namespace), "{line}");
    gateway.learn_listeners().await;
    gateway.refuses(gateway.address()).await;
    assert_ne!(gateway.readiness().await, "LIVE");
    gateway.stat_is("sandgate.ready", 0).await;
    assert!(gateway.is_alive());

    // The role of the file, in this namespace alone: as its comment says.
    api.apply(&shipped(kind.provider())).await;
    api.apply(&format!(
        r"
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{ namespace: {namespace}, name: sandgate }}
roleRef: {{ apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: sandgate-openkruise }}
subjects: [{{ kind: ServiceAccount, name: nobody, namespace: {namespace} }}]
"
    ))
    .await;
    gateway.live().await;
    served(&gateway, || ask(kind, &namespace, "a"), &place).await;
    let status = gateway.status().await.to_string();
    assert!(!gateway.log().contains(&token) && !status.contains(&token), "the token is told");
}
