//! What a tenant can write into its own objects, and what it does not get by that.

use std::fs;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use sandgate_tests::kubernetes::{ApiServer, Kind, kruise, opensandbox};
use sandgate_tests::{DEADLINE, Gateway, WebSocket, eventually, locations};
use serde_json::{Value, json};

use super::{a_second_after, ask, refused, sandbox, served};
use crate::support::PORT;

const ENDPOINTS: &str = "sandbox.opensandbox.io/endpoints";
const NOT_FOUND: (u16, &str) = (502, "sandbox_not_found");
const NOT_RUNNING: (u16, &str) = (503, "sandbox_not_running");

/// A gateway of two tenants, each with a namespace of its own.
async fn two_tenants(api: &ApiServer, kinds: &[Kind]) -> ([String; 2], Gateway) {
    let namespaces = [api.namespace("attacker").await, api.namespace("victim").await];
    let providers: Vec<Value> =
        kinds.iter().map(|kind| json!({ "kind": kind.provider(), "namespaces": namespaces })).collect();
    let gateway = Gateway::builder().kubernetes(&api.admin_kubeconfig(), &json!(providers)).start().await;
    (namespaces, gateway)
}

/// Waits until everything that has happened in a namespace is in the table, by one more object there.
async fn settle(api: &ApiServer, gateway: &Gateway, kind: Kind, namespace: &str, name: &str) {
    let last = kind.draft(api, namespace, &format!("{name}-of-{namespace}")).create().await;
    gateway.follows(&last).await;
}

#[tokio::test]
async fn a_deleted_sandboxs_id_goes_to_a_successor_of_its_namespace_and_to_nobody_elses() {
    let api = ApiServer::shared().await;
    let ([elsewhere, home], gateway) = two_tenants(&api, &[Kind::OpenKruise]).await;
    let (there, here) = (sandbox("elsewhere").await, sandbox("home").await);
    let id = format!("shared-{home}");
    let claim =
        |namespace: &str, name: &str| kruise(&api, namespace, name).label("agents.kruise.io/sandbox-id", &id);
    let request = || crate::support::ask(&id);
    let first = claim(&home, "first").running(here.ip()).create().await;
    served(&gateway, request, &here).await;
    a_second_after(&first).await;
    claim(&elsewhere, "heir").running(there.ip()).create().await;
    settle(&api, &gateway, Kind::OpenKruise, &elsewhere, "a").await;
    first.delete().await;
    refused(&gateway, request, NOT_FOUND).await;
    let second = claim(&home, "second").running(here.ip()).create().await;
    let reply = served(&gateway, request, &here).await;
    assert_eq!(reply.seen("x-sandbox-uid"), [second.uid()]);
    assert_eq!(there.requests(), 0);
}

#[tokio::test]
async fn a_tenant_that_claims_anothers_id_by_label_gets_none_of_its_requests() {
    let api = ApiServer::shared().await;
    let ([attacker, victim], gateway) = two_tenants(&api, &[Kind::OpenKruise]).await;
    let (here, there) = (sandbox("victim").await, sandbox("attacker").await);
    let owner = kruise(&api, &victim, "box").running(here.ip()).create().await;
    let request = || ask(Kind::OpenKruise, &victim, "box");
    served(&gateway, request, &here).await;
    let (id, port) = (owner.id(), PORT.to_string());
    let headers = [("e2b-sandbox-id", id.as_str()), ("e2b-sandbox-port", port.as_str())];
    let mut socket = WebSocket::open(gateway.address(), None, "/ws", &headers).await.expect("an upgrade");
    assert_eq!(socket.next().await.as_deref(), Some("victim"));

    let evil = kruise(&api, &attacker, "evil").label("agents.kruise.io/sandbox-id", &id).running(there.ip());
    let first = evil.clone().create().await;
    settle(&api, &gateway, Kind::OpenKruise, &attacker, "a").await;
    for _ in 0..8 {
        assert_eq!(gateway.send(request()).await.sandbox(), "victim");
    }
    let page = gateway.admin("/sandgate/routes?displaced=1").await.json();
    assert_eq!((&page["total"], &page["routes"][0]["name"]), (&json!(1), &json!("evil")), "{page}");
    // Neither by a change of its object, nor by its end.
    first.patch(json!({ "metadata": { "annotations": { "touched": "yes" } } })).await;
    settle(&api, &gateway, Kind::OpenKruise, &attacker, "b").await;
    assert_eq!(gateway.send(request()).await.sandbox(), "victim");
    first.delete().await;
    settle(&api, &gateway, Kind::OpenKruise, &attacker, "c").await;
    for _ in 0..8 {
        assert_eq!(gateway.send(request()).await.sandbox(), "victim");
    }
    socket.send("still there").await;
    assert_eq!(socket.next().await.as_deref(), Some("still there"));

    // And not as the heir of the dead, whose clients still ask.
    evil.create().await;
    owner.delete().await;
    refused(&gateway, request, NOT_FOUND).await;
    settle(&api, &gateway, Kind::OpenKruise, &victim, "d").await;
    for _ in 0..8 {
        let reply = gateway.send(request()).await;
        assert_eq!((reply.status, &reply.json()["reason"]), (502, &json!("sandbox_not_found")));
    }
    assert_eq!(there.requests(), 0);
    // Whoever makes it anew in its own namespace has the ID again.
    kruise(&api, &victim, "box").running(here.ip()).create().await;
    served(&gateway, request, &here).await;
    assert_eq!(there.requests(), 0);
}

#[tokio::test]
async fn a_tenant_that_names_its_sandbox_like_anothers_neither_gets_its_requests_nor_stops_them() {
    let api = ApiServer::shared().await;
    let ([attacker, victim], gateway) = two_tenants(&api, &[Kind::OpenSandbox]).await;
    let (here, there) = (sandbox("victim").await, sandbox("attacker").await);
    let name = format!("box-of-{victim}");
    let owner = opensandbox(&api, &victim, &name).running(here.ip()).create().await;
    let request = || ask(Kind::OpenSandbox, &victim, &name);
    served(&gateway, request, &here).await;
    a_second_after(&owner).await;
    // On its way, and then up.
    let evil = opensandbox(&api, &attacker, &name).create().await;
    settle(&api, &gateway, Kind::OpenSandbox, &attacker, "a").await;
    for _ in 0..8 {
        assert_eq!(gateway.send(request()).await.sandbox(), "victim");
    }
    evil.resume(there.ip()).await;
    settle(&api, &gateway, Kind::OpenSandbox, &attacker, "b").await;
    for _ in 0..8 {
        assert_eq!(gateway.send(request()).await.sandbox(), "victim");
    }
    evil.delete().await;
    settle(&api, &gateway, Kind::OpenSandbox, &attacker, "c").await;
    for _ in 0..8 {
        assert_eq!(gateway.send(request()).await.sandbox(), "victim");
    }
    assert_eq!(there.requests(), 0);
}

#[tokio::test]
async fn an_endpoint_outside_the_pod_ranges_leads_nowhere_however_it_is_spelled() {
    let api = ApiServer::shared().await;
    let ([namespace, _], gateway) = two_tenants(&api, &[Kind::OpenSandbox]).await;
    let here = sandbox("here").await;
    let name = format!("box-of-{namespace}");
    let object = opensandbox(&api, &namespace, &name).running(here.ip()).create().await;
    let request = || ask(Kind::OpenSandbox, &namespace, &name);
    for address in [
        "10.96.0.1",
        "203.0.113.7",
        "169.254.169.254",
        "::ffff:169.254.169.254",
        "64:ff9b::169.254.169.254",
        "64:ff9b::7f00:1",
        "2002:7f00:1::1",
        "fd00::5efe:127.0.0.1",
    ] {
        object.resume(here.ip()).await;
        served(&gateway, request, &here).await;
        object.resume(address).await;
        refused(&gateway, request, NOT_RUNNING).await;
        let page = gateway.admin(&format!("/sandgate/routes?id={name}")).await.json();
        assert_eq!((&page["ip"], &page["state"]), (&Value::Null, &json!("creating")), "{address}");
    }
    gateway.logged(&["warn", &name, "is outside the pod ranges"]).await;
}

#[tokio::test]
async fn endpoints_that_name_anothers_pod_lead_nowhere() {
    let api = ApiServer::shared().await;
    let kinds = [Kind::OpenKruise, Kind::OpenSandbox];
    let ([attacker, victim], gateway) = two_tenants(&api, &kinds).await;
    let name = format!("evil-of-{attacker}");
    let mine = sandbox("attacker").await;
    let evil = opensandbox(&api, &attacker, &name).create().await;
    let request = || ask(Kind::OpenSandbox, &attacker, &name);
    for kind in kinds {
        let here = sandbox("victim").await;
        let box_name = format!("{}-of-{victim}", kind.provider());
        kind.draft(&api, &victim, &box_name).running(here.ip()).create().await;
        let theirs = || ask(kind, &victim, &box_name);
        served(&gateway, theirs, &here).await;
        evil.resume(here.ip()).await;
        gateway.follows(&evil).await;
        let asked = here.requests();
        for _ in 0..8 {
            let reply = gateway.send(request()).await;
            assert_eq!(
                (reply.status, &reply.json()["reason"]),
                (503, &json!("sandbox_not_running")),
                "{kind:?}"
            );
        }
        assert_eq!(here.requests(), asked, "{kind:?}");
        if kind == Kind::OpenSandbox {
            // Of two who say the same of themselves nobody can tell whose it is, though evil is the older
            // one.
            refused(&gateway, theirs, (503, "sandbox_not_running")).await;
        } else {
            served(&gateway, theirs, &here).await;
        }
        evil.resume(mine.ip()).await;
        served(&gateway, request, &mine).await;
        served(&gateway, theirs, &here).await;
    }
}

/// A policy of `envoy/deploy/admission`, for one namespace and with the administrator as those it names.
fn policy(file: &str, name: &str, shipped: &[&str], namespace: &str) -> String {
    let file = locations::repository().join("envoy/deploy/admission").join(file);
    let mut text = fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    for account in shipped {
        assert!(text.contains(account), "the policy names {account}");
        text = text.replace(account, "admin");
    }
    let text = text.replace(name, &format!("{name}-{namespace}"));
    format!(
        "{}\n  matchResources:\n    namespaceSelector:\n      matchLabels: {{ kubernetes.io/metadata.name: {namespace} }}\n",
        text.trim_end()
    )
}

/// A tenant that may do anything with the objects of one kind in a namespace, and nothing else.
async fn tenant_of(api: &ApiServer, namespace: &str, resource: &ApiResource) -> Api<DynamicObject> {
    let tenant = api.service_account(namespace, "tenant").await;
    let (group, plural) = (&resource.group, &resource.plural);
    api.apply(&format!(
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {{ name: tenant, namespace: {namespace} }}\n\
         rules: [{{ apiGroups: ['{group}'], resources: [{plural}], verbs: ['*'] }}]\n---\n\
         apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\n\
         metadata: {{ name: tenant, namespace: {namespace} }}\n\
         roleRef: {{ apiGroup: rbac.authorization.k8s.io, kind: Role, name: tenant }}\n\
         subjects: [{{ kind: ServiceAccount, name: tenant, namespace: {namespace} }}]\n"
    ))
    .await;
    Api::namespaced_with(api.client_with(&tenant.token().await).await, namespace, resource)
}

/// What became of a write, by its status; `about` is what a refusal has to name.
fn code(done: kube::Result<DynamicObject>, about: &str) -> u16 {
    match done {
        Ok(_) => 200,
        Err(kube::Error::Api(status)) => {
            assert!(status.message.contains(about) || status.code == 403, "{status:?}");
            status.code
        }
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn with_the_shipped_policy_a_tenant_cannot_write_endpoints_and_the_operator_can() {
    let api = ApiServer::shared().await;
    let namespace = api.namespace("policy").await;
    let object = opensandbox(&api, &namespace, "box").running("127.0.0.1").create().await;
    let objects = tenant_of(&api, &namespace, &Kind::OpenSandbox.resource()).await;
    let patch = async |annotation: &str, value: &str| {
        let patch = json!({ "metadata": { "annotations": { annotation: value } } });
        objects.patch("box", &PatchParams::default(), &Patch::Merge(&patch)).await
    };
    let code = |done| code(done, "endpoints");
    // A right that was just given takes the server a moment to notice.
    eventually("the tenant may write its objects", DEADLINE, async || {
        (code(patch(ENDPOINTS, r#"["127.0.0.9"]"#).await) == 200).then_some(())
    })
    .await;
    let operator = "system:serviceaccount:opensandbox-system:opensandbox-controller-manager";
    api.apply(&policy("opensandbox.yaml", "sandgate-opensandbox-endpoints", &[operator], &namespace)).await;
    // Another address each time: what changes nothing is allowed.
    let mut tries = 0;
    eventually("the policy is in force", DEADLINE, async || {
        tries += 1;
        (code(patch(ENDPOINTS, &format!(r#"["127.0.1.{tries}"]"#)).await) == 422).then_some(())
    })
    .await;
    // Anything else is the tenant's as before, and so is an object that says nothing of endpoints.
    assert_eq!(code(patch("note", "mine").await), 200);
    let made = |name: &str, annotations: Value| {
        let object = json!({
            "apiVersion": Kind::OpenSandbox.resource().api_version, "kind": "BatchSandbox",
            "metadata": { "name": name, "namespace": namespace, "annotations": annotations }, "spec": {},
        });
        serde_json::from_value::<DynamicObject>(object).expect("an object")
    };
    let create = async |object: DynamicObject| code(objects.create(&Default::default(), &object).await);
    assert_eq!(create(made("plain", json!({}))).await, 200);
    assert_eq!(create(made("pointed", json!({ ENDPOINTS: r#"["127.0.0.8"]"# }))).await, 422);
    // The operator writes what it sees.
    object.resume("127.0.0.7").await;
    let now = object.get().await.expect("the object exists");
    assert_eq!(now["metadata"]["annotations"][ENDPOINTS], r#"["127.0.0.7"]"#);
}

#[tokio::test]
async fn with_the_shipped_policy_a_tenant_cannot_write_an_id_and_the_manager_can() {
    const ID: &str = "agents.kruise.io/sandbox-id";
    let api = ApiServer::shared().await;
    let namespace = api.namespace("policy").await;
    kruise(&api, &namespace, "box").label(ID, "given").running("127.0.0.1").create().await;
    let objects = tenant_of(&api, &namespace, &Kind::OpenKruise.resource()).await;
    let patch = async |label: &str, value: Value| {
        let patch = json!({ "metadata": { "labels": { label: value } } });
        code(objects.patch("box", &PatchParams::default(), &Patch::Merge(&patch)).await, "sandbox-id")
    };
    eventually("the tenant may write its objects", DEADLINE, async || {
        (patch(ID, json!("given-anew")).await == 200).then_some(())
    })
    .await;
    let accounts = [
        "system:serviceaccount:sandbox-system:sandbox-manager",
        "system:serviceaccount:sandbox-system:sandbox-controller-manager",
    ];
    api.apply(&policy("openkruise.yaml", "sandgate-openkruise-sandbox-id", &accounts, &namespace)).await;
    // Another ID each time: what changes nothing is allowed.
    let mut tries = 0;
    eventually("the policy is in force", DEADLINE, async || {
        tries += 1;
        (patch(ID, json!(format!("stolen-{tries}"))).await == 422).then_some(())
    })
    .await;
    assert_eq!(patch(ID, Value::Null).await, 422, "without the label it would have its own name again");
    assert_eq!(patch("note", json!("mine")).await, 200);
    let made = |name: &str, labels: Value| {
        let object = json!({
            "apiVersion": Kind::OpenKruise.resource().api_version, "kind": "Sandbox",
            "metadata": { "name": name, "namespace": namespace, "labels": labels }, "spec": {},
        });
        serde_json::from_value::<DynamicObject>(object).expect("an object")
    };
    let create = async |object| code(objects.create(&Default::default(), &object).await, "sandbox-id");
    assert_eq!(create(made("plain", json!({}))).await, 200);
    assert_eq!(create(made("named", json!({ ID: "stolen" }))).await, 422);
    let claimed =
        kruise(&api, &namespace, "claimed").label(ID, "given-too").running("127.0.0.1").create().await;
    let now = claimed.get().await.expect("the object exists");
    assert_eq!(now["metadata"]["labels"][ID], "given-too", "the manager gives IDs");
}

#[tokio::test]
async fn with_the_shipped_policy_a_tenant_cannot_give_a_pod_an_id_and_the_manager_can() {
    const ID: &str = "agentbox.navix.sh/sandbox-id";
    let api = ApiServer::shared().await;
    let namespace = api.namespace("policy").await;
    let resource = ApiResource::erase::<Pod>(&());
    let tenants = tenant_of(&api, &namespace, &resource).await;
    let managers: Api<DynamicObject> = Api::namespaced_with(api.client(), &namespace, &resource);
    let made = |name: &str, metadata: Value| {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": metadata,
            "spec": { "automountServiceAccountToken": false, "containers": [{ "name": "main", "image": "i" }] },
        });
        pod["metadata"]["name"] = json!(name);
        serde_json::from_value::<DynamicObject>(pod).expect("a pod")
    };
    let create = async |by: &Api<DynamicObject>, name: &str, metadata: Value| {
        code(by.create(&Default::default(), &made(name, metadata)).await, "sandbox-id")
    };
    let patch = async |by: &Api<DynamicObject>, metadata: Value| {
        let patch = json!({ "metadata": metadata });
        code(by.patch("box", &PatchParams::default(), &Patch::Merge(&patch)).await, "sandbox-id")
    };
    assert_eq!(create(&managers, "box", json!({})).await, 200);
    eventually("the tenant may write its objects", DEADLINE, async || {
        (patch(&tenants, json!({ "labels": { "note": "mine" } })).await == 200).then_some(())
    })
    .await;
    let accounts = [
        "system:serviceaccount:sandgate-system:sandgate-manager",
        "system:serviceaccount:sandgate-system:sandgate-operator",
    ];
    api.apply(&policy("sandbox-env.yaml", "sandgate-sandbox-env-sandbox-id", &accounts, &namespace)).await;
    // Another ID each time: what changes nothing is allowed.
    let mut tries = 0;
    eventually("the policy is in force", DEADLINE, async || {
        tries += 1;
        (patch(&tenants, json!({ "labels": { ID: format!("stolen-{tries}") } })).await == 422).then_some(())
    })
    .await;
    assert_eq!(patch(&tenants, json!({ "annotations": { ID: "stolen" } })).await, 422);
    assert_eq!(patch(&tenants, json!({ "labels": { "note": "still-mine" } })).await, 200);
    assert_eq!(create(&tenants, "plain", json!({})).await, 200);
    assert_eq!(create(&tenants, "named", json!({ "labels": { ID: "stolen" } })).await, 422);
    assert_eq!(create(&tenants, "noted", json!({ "annotations": { ID: "stolen" } })).await, 422);
    // A claim writes both, and a release takes both away.
    let claim = json!({ "labels": { ID: "given" }, "annotations": { ID: "given" } });
    assert_eq!(patch(&managers, claim).await, 200);
    assert_eq!(patch(&tenants, json!({ "labels": { ID: null } })).await, 422);
    assert_eq!(patch(&managers, json!({ "labels": { ID: null }, "annotations": { ID: null } })).await, 200);
}
