//! The manifests at a real API server.

use std::fs;
use std::net::SocketAddr;

use sandgate_tests::deploy::{NAMESPACE, documents, folder, object, tool};
use sandgate_tests::kubernetes::{ApiServer, Kind};
use sandgate_tests::{
    Client, DEADLINE, LoopbackPort, Place, Request, Running, Sandbox, eventually, locations,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{SETUPS, rendered};
use crate::support::PORT;

/// Makes the namespaces that the manifests name; whoever installs them has them.
async fn namespaces(api: &ApiServer) {
    for name in [NAMESPACE, "agent-sandbox-system", "team-a", "team-b"] {
        let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
        api.apply(&namespace.to_string()).await;
    }
}

/// Installs the definitions of ServiceMonitor and PodMonitor as the Prometheus operator publishes them.
async fn monitors(api: &ApiServer) {
    for kind in ["servicemonitors", "podmonitors"] {
        let file = locations::tools().join("crds").join(kind).with_extension("yaml");
        api.apply(&fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()))).await;
    }
}

/// What the server would say; a kind that was installed a moment ago may take one to be served.
pub(crate) async fn dry_run(api: &ApiServer, object: &Value) -> kube::Result<()> {
    eventually("the kind is served", DEADLINE, async || match api.dry_run(object).await {
        Err(error) if ["404", "not found"].iter().any(|word| error.to_string().contains(word)) => None,
        answer => Some(answer),
    })
    .await
}

#[tokio::test]
async fn every_object_of_every_setup_passes_a_dry_run_at_the_api_server() {
    let api = ApiServer::shared().await;
    namespaces(&api).await;
    monitors(&api).await;
    let mut kinds = std::collections::BTreeSet::new();
    for setup in SETUPS {
        for object in documents(&rendered(setup).await) {
            let what = format!("{setup}: {} {}", object["kind"], object["metadata"]["name"]);
            dry_run(&api, &object).await.unwrap_or_else(|e| panic!("{what}: {e}"));
            kinds.insert(object["kind"].as_str().expect("a kind").to_owned());
        }
    }
    for kind in
        ["DaemonSet", "HorizontalPodAutoscaler", "PodMonitor", "ServiceMonitor", "ValidatingAdmissionPolicy"]
    {
        assert!(kinds.contains(kind), "no setup has a {kind}");
    }
    // The dry run is one that can fail: on an unknown field, of a definition that was installed too.
    for (setup, kind, path) in
        [("default", "Deployment", "/spec/template/spec"), ("openkruise", "PodMonitor", "/spec")]
    {
        let objects = documents(&rendered(setup).await);
        let mut spoilt = object(&objects, kind, "sandgate").clone();
        spoilt.pointer_mut(path).expect("a place")["colour"] = json!("blue");
        let refused = dry_run(&api, &spoilt).await.expect_err("an unknown field is refused").to_string();
        assert!(refused.contains("colour"), "{refused}");
    }
}

/// The pod of a workload, or the pod itself, as one in this namespace.
fn pod(object: &Value, namespace: &str) -> Option<Value> {
    let spec = match object["kind"].as_str()? {
        "Deployment" | "DaemonSet" => &object["spec"]["template"]["spec"],
        "Pod" => &object["spec"],
        _ => return None,
    };
    let metadata = json!({ "name": "one", "namespace": namespace });
    Some(json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec }))
}

#[tokio::test]
async fn the_pods_are_admitted_where_pod_security_is_restricted() {
    let api = ApiServer::shared().await;
    let namespace = api.namespace("restricted").await;
    let labels = json!({ "pod-security.kubernetes.io/enforce": "restricted" });
    let labelled = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace, "labels": labels } });
    api.apply(&labelled.to_string()).await;
    let mut pods = Vec::new();
    for setup in SETUPS {
        pods.extend(documents(&rendered(setup).await).iter().filter_map(|object| pod(object, &namespace)));
    }
    assert_eq!(
        pods.len(),
        2 * SETUPS.len() + 6,
        "a gateway and a `helm test` each, four operators, two managers"
    );
    for pod in &pods {
        api.dry_run(pod).await.unwrap_or_else(|e| panic!("{e}: {pod}"));
    }
    // Each of these is asked for: without it the pod is refused.
    for missing in ["allowPrivilegeEscalation", "capabilities"] {
        let mut spoilt = pods[0].clone();
        spoilt["spec"]["containers"][0]["securityContext"]
            .as_object_mut()
            .expect("a context")
            .remove(missing);
        let refused = api.dry_run(&spoilt).await.expect_err("the policy is enforced");
        assert!(refused.to_string().contains("restricted"), "{refused}");
    }
}

/// `helm install`, then the gateway as the cluster's nodes would start it: with the arguments of the
/// Deployment, the config of the ConfigMap and a token of the account that the API server has got from the
/// chart.
#[tokio::test]
async fn an_installed_chart_has_all_that_a_gateway_needs_to_serve() {
    let api = ApiServer::shared().await;
    let namespace = api.namespace("chart").await;
    let place = Sandbox::on_ports("here", &[PORT]).await;
    Kind::AgentSandbox.draft(&api, &namespace, "box").running(place.ip()).create().await;
    let (kubeconfig, chart) = (api.admin_kubeconfig(), folder().join("chart"));
    let (kubeconfig, chart) = (kubeconfig.to_str().expect("text"), chart.to_str().expect("text"));
    let scope = format!("providers[0].namespaces={{{namespace}}}");
    let install = [
        "install",
        &namespace,
        chart,
        "--kubeconfig",
        kubeconfig,
        "--namespace",
        &namespace,
        "--set",
        "providers[0].kind=agent-sandbox",
        "--set",
        &scope,
        "--set",
        "gateway.pod-ranges={127.0.0.0/8}",
    ];
    let notes = tool("helm", &install).await.unwrap_or_else(|e| panic!("{e}"));
    assert!(notes.contains("STATUS: deployed") && notes.contains("curl "), "{notes}");

    let name = format!("{namespace}-sandgate");
    let get = async |path: String| -> Value {
        let request = http::Request::get(path).body(Vec::new()).expect("a request");
        api.client().request(request).await.expect("an object")
    };
    let config = get(format!("/api/v1/namespaces/{namespace}/configmaps/{name}")).await;
    let deployment = get(format!("/apis/apps/v1/namespaces/{namespace}/deployments/{name}")).await;
    let pod = &deployment["spec"]["template"]["spec"];
    let account = pod["serviceAccountName"].as_str().expect("an account");
    let token = api.service_account(&namespace, account).await.token().await;

    let folder = TempDir::with_prefix("sandgate-chart-").expect("create a folder");
    let mut settings: Value =
        serde_saphyr::from_str(config["data"]["gateway.yaml"].as_str().expect("a config")).expect("YAML");
    settings["gateway"]["kubernetes"]["kubeconfig"] = json!(api.kubeconfig(&token));
    let file = folder.path().join("gateway.yaml");
    fs::write(&file, settings.to_string()).expect("write");
    let (own, admin) = (Place::reserve(), LoopbackPort::reserve());
    let arguments: Vec<String> = pod["containers"][0]["args"]
        .as_array()
        .expect("arguments")
        .iter()
        .map(|argument| argument.as_str().expect("text"))
        .map(|argument| match argument.split('=').next().unwrap_or_default() {
            "--config" => format!("--config={}", file.display()),
            "--address" => format!("--address={}", own.ip()),
            "--admin-port" => format!("--admin-port={}", admin.number()),
            _ => argument.to_owned(),
        })
        .collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut running = Running::start(&arguments);
    running.printed("the gateway is ready", |output| output.contains("is ready").then_some(())).await;

    let probe = &pod["containers"][0]["readinessProbe"]["httpGet"];
    let port = |name: &Value| -> u16 {
        let ports = pod["containers"][0]["ports"].as_array().expect("ports").iter();
        let port = ports.filter(|port| port["name"] == *name).find_map(|port| port["containerPort"].as_u64());
        port.and_then(|port| port.try_into().ok()).unwrap_or_else(|| panic!("no port {name}"))
    };
    let get = async |port: u16, request: Request| {
        let mut client = Client::http1(SocketAddr::new(own.ip(), port)).await.expect("connect");
        client.send(request).await.expect("an answer")
    };
    let path = probe["path"].as_str().expect("a path");
    assert_eq!(get(port(&probe["port"]), Request::get(path)).await.status, 200);
    let ask = Request::get("/")
        .header("x-sandbox-id", "box")
        .header("x-sandbox-namespace", &namespace)
        .header("x-sandbox-port", PORT.to_string());
    assert_eq!(get(port(&json!("gateway")), ask).await.sandbox(), "here");

    // The same again is no change, and nothing of what is installed stays.
    let upgrade: Vec<&str> = ["upgrade"].into_iter().chain(install[1..].iter().copied()).collect();
    tool("helm", &upgrade).await.unwrap_or_else(|e| panic!("{e}"));
    tool("helm", &["uninstall", &namespace, "--kubeconfig", kubeconfig, "--namespace", &namespace])
        .await
        .unwrap_or_else(|e| panic!("{e}"));
    let request =
        http::Request::get(format!("/apis/rbac.authorization.k8s.io/v1/clusterroles/{name}-agent-sandbox"));
    let role = api.client().request::<Value>(request.body(Vec::new()).expect("a request")).await;
    assert!(matches!(&role, Err(kube::Error::Api(status)) if status.code == 404), "{role:?}");
}
