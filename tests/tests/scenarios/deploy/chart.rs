//! The chart itself: what it renders, what it refuses, and that it says what the other files say.

use std::fs;
use std::path::Path;

use sandgate_tests::deploy::{NAMESPACE, committed, documents, folder, object, template, tool};
use sandgate_tests::{Authority, Cli};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{SETUPS, file, rendered};

#[tokio::test]
async fn what_the_chart_renders_is_what_is_committed() {
    for setup in SETUPS {
        let file = folder().join("rendered").join(setup).with_extension("yaml");
        committed(&file, &rendered(setup).await);
    }
}

#[tokio::test]
async fn helm_finds_no_fault_with_the_chart() {
    let chart = folder().join("chart");
    let said = tool("helm", &["lint", "--strict", chart.to_str().expect("text")]).await;
    assert!(said.as_ref().is_ok_and(|said| said.contains("0 chart(s) failed")), "{said:?}");
}

/// The keys of the config are checked by the same schemas as the gateway's own: `$defs` are made of them.
#[test]
fn the_schema_of_the_values_has_the_gateways_schemas_in_it() {
    let read = |path: &str| -> Value { serde_json::from_str(&file(path)).expect("JSON") };
    let mut schema = read("envoy/deploy/chart/values.schema.json");
    let gateway = read("envoy/config/gateway.schema.json");
    let section = |name: &str| {
        let mut schema = read(&format!("envoy/config/{name}.schema.json"));
        schema.as_object_mut().expect("a schema").remove("$schema");
        schema
    };
    let some = |all: &Value, keys: &[&str]| -> Value {
        keys.iter()
            .map(|key| ((*key).to_owned(), all["properties"][key].clone()))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    let (refresh, jwt) = (&gateway["$defs"]["RawRefresh"], &gateway["$defs"]["RawJwt"]);
    let keys_of_jwt = [
        "discovery-url",
        "jwks-url",
        "issuer",
        "clock-skew-seconds",
        "refresh-seconds",
        "min-refetch-seconds",
    ];
    let review = &gateway["$defs"]["RawReview"];
    schema["$defs"] = json!({
        "filter": section("filter"),
        "cluster": section("cluster"),
        "listen": section("listen"),
        "timeouts": section("timeouts"),
        "providers": gateway["$defs"]["RawKubernetes"]["properties"]["providers"],
        "gateway": { "properties": some(&gateway, &["tombstone-lifetime-seconds", "max-tombstones"]) },
        "refresh": { "properties": some(refresh, &["lease-seconds", "confirmation-seconds", "max-connections"]) },
        "auth": {
            "jwt": { "properties": some(jwt, &keys_of_jwt) },
            "review": { "properties": some(review, &["audiences", "remember-seconds"]) },
        },
    });
    assert!(!schema["$defs"].to_string().contains("\"$ref\""), "a reference inside would lead nowhere");
    committed(&folder().join("chart/values.schema.json"), &format!("{schema:#}\n"));
}

/// `additionalProperties: false` everywhere but where a map or an object of Kubernetes' own is meant.
#[test]
fn the_schema_of_the_values_is_strict() {
    fn look(at: &str, schema: &Value, loose: &mut Vec<String>) {
        if schema["type"] == "object" && schema["additionalProperties"].is_null() {
            loose.push(at.to_owned());
        }
        for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
            look(&format!("{at}/{name}"), inner, loose);
        }
        if schema["items"].is_object() {
            look(&format!("{at}/*"), &schema["items"], loose);
        }
    }
    let schema: Value = serde_json::from_str(&file("envoy/deploy/chart/values.schema.json")).expect("JSON");
    let mut loose = Vec::new();
    look("", &schema, &mut loose);
    let kubernetes = [
        "/affinity",
        "/global",
        "/manager/affinity",
        "/manager/tolerations/*",
        "/networkPolicy/api/*",
        "/networkPolicy/clients/*",
        "/networkPolicy/manager/*",
        "/networkPolicy/metrics/*",
        "/networkPolicy/push/*",
        "/networkPolicy/sandboxes/*",
        "/operator/affinity",
        "/operator/tolerations/*",
        "/tolerations/*",
        "/topologySpreadConstraints/*",
    ];
    assert_eq!(loose, kubernetes);
}

#[tokio::test]
async fn wrong_values_are_refused_with_the_place_and_the_reason() {
    let cases: &[(&[&str], &[&str])] = &[
        (&["colour=blue"], &["colour", "not allowed"]),
        (&["image.tga=1"], &["/image", "tga"]),
        (&["replicas=0"], &["/replicas"]),
        (&["replicas=many"], &["/replicas"]),
        (&["kind=StatefulSet"], &["/kind", "DaemonSet"]),
        (&["providers[0].kind=other"], &["/providers/0/kind", "openkruise"]),
        (&["providers[0].namespace=a"], &["/providers/0", "namespace"]),
        (&["providers[0].kind=opensandbox"], &["pod-ranges"]),
        (&["filter.enable-auth=maybe"], &["/filter/enable-auth", "boolean"]),
        (&["filter.colour=blue"], &["/filter", "colour"]),
        (&["cluster.idle-seconds=-1"], &["/cluster/idle-seconds"]),
        (&["gateway.routes-file=x"], &["/gateway", "routes-file"]),
        (&["gateway.pod-ranges={10.0.0.0}"], &["/gateway/pod-ranges/0"]),
        (&["tls.certificates[0].domains={a.test}"], &["/tls/certificates/0", "secret"]),
        (&["push.enabled=true"], &["push.keys", "push.tokenReview"]),
        (&["push.tls.clientNames={a}"], &["/push/tls", "secret"]),
        (&["auth.bearer[0].secret=a"], &["/auth/bearer/0", "key"]),
        (&["auth.trafficJwt.issuer=i"], &["/auth/trafficJwt", "discovery-url"]),
        (&["auth.trafficJwt.discovery-url=http://a"], &["/auth/trafficJwt/discovery-url"]),
        (&["auth.tokenReview.remember-seconds=30"], &["/auth/tokenReview", "audiences"]),
        (&["push.keys[0].id=a/b"], &["/push/keys/0"]),
        (&["sigAlias.enabled=true", "tls.certificates[0].secret=a"], &["sigAlias", "plain HTTP"]),
        (&["autoscaling.enabled=true", "kind=DaemonSet"], &["autoscaling", "Deployment"]),
        (&["autoscaling.minReplicas=20"], &["minReplicas"]),
        (&["drain.timeSeconds=100000"], &["/drain/timeSeconds"]),
        (&["image.digest=latest"], &["/image/digest"]),
        (&["operator.colour=blue"], &["/operator", "colour"]),
        (&["operator.controllers={pods}"], &["/operator/controllers/0", "sandboxset"]),
        (&["operator.opensandbox.snapshot.colour=blue"], &["/operator/opensandbox/snapshot", "colour"]),
        (&["operator.opensandbox.concurrency=many"], &["/operator/opensandbox/concurrency"]),
        (&["operator.lease.renewDeadlineSeconds=15"], &["renewDeadlineSeconds", "durationSeconds"]),
        (&["operator.lease.retryPeriodSeconds=6"], &["retryPeriodSeconds", "half"]),
        (&["operator.localClusterId=East_1"], &["/operator/localClusterId"]),
        (&["operator.enabled=true", "operator.controllers={sandboxenv}"], &["sandboxenv", "localClusterId"]),
        (&["manager.enabled=true", "manager.environments.enabled=true"], &["environments", "localClusterId"]),
        (&["manager.environments.colour=blue"], &["/manager/environments", "colour"]),
        (&["manager.colour=blue"], &["/manager", "colour"]),
        (&["manager.replicas=0"], &["/manager/replicas"]),
        (&["manager.address=nowhere"], &["/manager/address"]),
        (&["manager.noInternetNamespaces={*}"], &["/manager/noInternetNamespaces/0"]),
        (&["manager.enabled=true", "manager.address=m:80"], &["manager.address", "manager.enabled"]),
        (&["admission.openkruise.writers={a'b}"], &["/admission/openkruise/writers/0"]),
    ];
    for (values, parts) in cases {
        let arguments: Vec<&str> = values.iter().flat_map(|value| ["--set", value]).collect();
        let refused = template(&arguments).await.err().unwrap_or_else(|| panic!("{values:?} is taken")).0;
        for part in *parts {
            assert!(refused.contains(part), "no {part} in what {values:?} gets: {refused}");
        }
    }
}

/// The gateway's own workload, a Deployment or a DaemonSet.
fn workload(objects: &[Value]) -> &Value {
    let mut found = objects.iter().filter(|object| object["apiVersion"] == "apps/v1");
    found.find(|object| object["metadata"]["name"] == "sandgate").expect("a workload")
}

/// The container's arguments and the config in the rendered ConfigMap, as `sandgate run` gets them.
async fn assert_taken(what: &str, manifests: &str) {
    let objects = documents(manifests);
    let folder = TempDir::with_prefix("sandgate-config-").expect("create a folder");
    let at = |path: &str| folder.path().join(path.trim_start_matches('/'));
    let pod = &workload(&objects)["spec"]["template"]["spec"];
    let config =
        object(&objects, "ConfigMap", "sandgate")["data"]["gateway.yaml"].as_str().expect("a config");
    let moved = config.replace("/etc/sandgate", at("/etc/sandgate").to_str().expect("text"));
    write(&at("/etc/sandgate/gateway.yaml"), &moved);
    let authority = Authority::new(folder.path());
    let settings: Value = serde_saphyr::from_str(config).expect("YAML");
    for path in secret_files(pod) {
        let file = format!("/etc/sandgate/{path}");
        let certificates = settings["tls"]["certificates"].as_array().into_iter().flatten();
        let used = certificates
            .into_iter()
            .find(|used| [&used["certificate"], &used["key"]].contains(&&json!(file)));
        let domain = used.and_then(|used| used["domains"][0].as_str()).unwrap_or("example.test");
        write(&at(&file), &secret(&path, &authority, domain));
    }
    // Every file that the config names is one that the volume has.
    for named in config.split(|c: char| c.is_whitespace()).filter(|word| word.starts_with("/etc/sandgate/")) {
        assert!(at(named).is_file(), "{what}: the config names {named}, and no volume has it");
    }
    let arguments = pod["containers"][0]["args"].as_array().expect("arguments");
    let arguments: Vec<String> = arguments
        .iter()
        .map(|argument| argument.as_str().expect("text"))
        .map(|argument| argument.replace("/etc/sandgate", at("/etc/sandgate").to_str().expect("text")))
        .chain(["--print-config".to_owned()])
        .collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = Cli::run(&arguments).await;
    assert_eq!(done.code, Some(0), "{what}: {}\n{moved}", done.stderr);
    let printed: Value = serde_json::from_str(&done.stdout).expect("Envoy's config as JSON");
    assert_eq!(printed.pointer("/admin/address/socket_address/address"), Some(&json!("127.0.0.1")), "{what}");
}

fn write(file: &Path, text: &str) {
    fs::create_dir_all(file.parent().expect("a folder")).expect("make a folder");
    fs::write(file, text).expect("write");
}

/// The files of secrets in the pod's volumes, by their path in the volume.
fn secret_files(pod: &Value) -> Vec<String> {
    let volumes = pod["volumes"].as_array().expect("volumes").iter();
    let sources = volumes.flat_map(|volume| volume["projected"]["sources"].as_array().into_iter().flatten());
    let items = sources.flat_map(|source| source["secret"]["items"].as_array().into_iter().flatten());
    items.map(|item| item["path"].as_str().expect("a path").to_owned()).collect()
}

/// What stands in such a file. A certificate and its key are made once.
fn secret(path: &str, authority: &Authority, domain: &str) -> String {
    let read = |file: &Path| fs::read_to_string(file).expect("read");
    let pair = || {
        let folder = authority.file().parent().expect("a folder").to_owned();
        let made = (folder.join(format!("{domain}.pem")), folder.join(format!("{domain}.key")));
        if made.0.exists() { made } else { authority.client(domain) }
    };
    match Path::new(path).file_name().and_then(|name| name.to_str()) {
        Some("tls.crt") => read(&pair().0),
        Some("tls.key") => read(&pair().1),
        Some("ca.crt") => read(&authority.file()),
        _ if path.starts_with("auth/secure-access-keys/") => format!("a={}=", "k".repeat(43)),
        _ => "k".repeat(32),
    }
}

#[tokio::test]
async fn the_gateway_takes_every_config_that_the_chart_renders() {
    for setup in SETUPS {
        assert_taken(setup, &rendered(setup).await).await;
    }
    let cases: &[&[&str]] = &[
        &["address=::", "openAfterSeconds=60", "accessLog=true", "logLevel=debug"],
        &[
            "push.enabled=true",
            "push.keys[0].id=main",
            "push.keys[0].secret=s",
            "push.keys[0].key=k",
            "address=::",
        ],
        &[
            "push.enabled=true",
            "push.tls.secret=s",
            "push.tls.clientCa.secret=ca",
            "push.tls.clientNames={a.test}",
        ],
        &[
            "push.enabled=true",
            "push.tokenReview.audience=a",
            "push.tokenReview.subjects={b}",
            "push.options.lease-seconds=60",
        ],
        &[
            "tls.certificates[0].secret=a",
            "tls.certificates[1].secret=b",
            "tls.certificates[1].domains={b.test}",
            "tls.clientCa.secret=ca",
            "tls.minVersion=1.3",
        ],
        &[
            "auth.secureAccessKeys[0].secret=a",
            "auth.secureAccessKeys[0].key=k",
            "auth.scopedToken[0].secret=a",
            "auth.scopedToken[0].key=k",
            "auth.scopedToken[1].secret=a",
            "auth.scopedToken[1].key=l",
            "auth.bearer[0].secret=b",
            "auth.bearer[0].key=k",
            "auth.trafficJwt.discovery-url=https://a/.well-known/openid-configuration",
            "auth.trafficJwtCa.secret=ca",
            "auth.tokenReview.audiences={sandgate}",
        ],
        &[
            "listen.trusted-hops=1",
            "timeouts.websocket-idle-seconds=600",
            "filter.connect-window=2",
            "filter.limits.requests-per-second=50",
        ],
        &["manager.address=manager.example.com:8080"],
        &["manager.enabled=true", "manager.tls.secret=manager-tls"],
        &["gateway.max-tombstones=5", "cluster.idle-seconds=5", "filter.unaddressed=pass", "concurrency=8"],
    ];
    for case in cases {
        let arguments: Vec<&str> = case.iter().flat_map(|value| ["--set", value]).collect();
        let manifests = template(&arguments).await.unwrap_or_else(|e| panic!("{case:?}: {e}"));
        assert_taken(&format!("{case:?}"), &manifests).await;
    }
}

/// Without what Helm adds to every object, so that it can be compared with a file that was written by hand.
pub(super) fn plain(object: &Value) -> Value {
    let mut object = object.clone();
    object["metadata"].as_object_mut().expect("metadata").remove("labels");
    object
}

#[tokio::test]
async fn the_charts_rights_and_policies_are_those_of_the_files() {
    let kinds = ["openkruise", "agent-sandbox", "opensandbox", "sandbox-env"];
    for kind in kinds {
        let provider = format!("providers[0].kind={kind}");
        let more = format!("admission.{kind}.enabled=true");
        let mut arguments = vec!["--set", &provider, "--set", "gateway.pod-ranges={10.0.0.0/8}"];
        let policy = folder().join("admission").join(kind).with_extension("yaml");
        if policy.exists() {
            arguments.extend(["--set", &more]);
        }
        let objects = documents(&template(&arguments).await.expect("manifests"));
        let mut files = vec![file(&format!("envoy/deploy/rbac/{kind}.yaml"))];
        if policy.exists() {
            files.push(fs::read_to_string(&policy).expect("a policy"));
        }
        let expected: Vec<Value> = files.iter().flat_map(|file| documents(file)).collect();
        for wanted in &expected {
            let (of_kind, name) = (
                wanted["kind"].as_str().expect("a kind"),
                wanted["metadata"]["name"].as_str().expect("a name"),
            );
            assert_eq!(&plain(object(&objects, of_kind, name)), wanted);
        }
        // No right beside these.
        let rights =
            objects.iter().filter(|object| object["kind"].as_str().is_some_and(|kind| kind.contains("Role")));
        assert_eq!(rights.count(), 2, "{kind}");
    }
    let push = ["push.enabled=true", "push.tokenReview.audience=a", "push.tokenReview.subjects={b}"];
    for values in [&push[..], &["auth.tokenReview.audiences={a}"]] {
        let arguments: Vec<&str> = values.iter().flat_map(|value| ["--set", value]).collect();
        let objects = documents(&template(&arguments).await.expect("manifests"));
        for wanted in documents(&file("envoy/deploy/rbac/token-review.yaml")) {
            assert_eq!(
                plain(object(&objects, wanted["kind"].as_str().expect("a kind"), "sandgate-token-review")),
                wanted
            );
        }
    }
}

#[tokio::test]
async fn a_provider_of_some_namespaces_has_rights_in_those_alone() {
    let arguments = ["--set", "providers[0].kind=openkruise", "--set", "providers[0].namespaces={a,b}"];
    let objects = documents(&template(&arguments).await.expect("manifests"));
    assert!(!objects.iter().any(|object| object["kind"] == "ClusterRoleBinding"));
    let bound = objects.iter().filter(|object| object["kind"] == "RoleBinding");
    let bound: Vec<&str> =
        bound.map(|object| object["metadata"]["namespace"].as_str().expect("a namespace")).collect();
    assert_eq!(bound, ["a", "b"]);
    // Two entries of one resource have one role; one of a resource that only the config names has a right to
    // that.
    let generic = json!([
        { "kind": "agent-sandbox", "namespaces": ["a"] },
        { "kind": "agent-sandbox", "namespaces": ["a", "b"] },
        {
            "kind": "generic", "name": "box", "ip": "status.ip", "default-state": "creating",
            "resource": { "group": "g.test", "version": "v1", "kind": "Box", "plural": "boxes" },
            "states": [{ "when": [{ "path": "status.up", "equals": true }], "state": "running" }],
        },
    ]);
    let generic = format!("providers={generic}");
    let objects = documents(&template(&["--set-json", &generic]).await.expect("manifests"));
    assert_eq!(objects.iter().filter(|object| object["kind"] == "RoleBinding").count(), 2);
    let role = object(&objects, "ClusterRole", "sandgate-generic-boxes.g.test");
    assert_eq!(
        role["rules"],
        json!([{ "apiGroups": ["g.test"], "resources": ["boxes"], "verbs": ["list", "watch"] }])
    );
}

/// A Service selects pods of its own namespace only. Elsewhere the alias is a name, and the port has to be
/// the gateway's too.
#[tokio::test]
async fn the_alias_for_sig_clients_leads_to_the_gateway_from_its_own_namespace_and_from_another() {
    let elsewhere = documents(&template(&["--set", "sigAlias.enabled=true"]).await.expect("manifests"));
    let alias = object(&elsewhere, "Service", "sandbox-router-svc");
    assert_eq!(alias["metadata"]["namespace"], "agent-sandbox-system");
    assert_eq!(alias["spec"]["externalName"], format!("sandgate.{NAMESPACE}.svc.cluster.local"));
    let ports = |service: &Value| -> Vec<u64> {
        service["spec"]["ports"]
            .as_array()
            .expect("ports")
            .iter()
            .filter_map(|port| port["port"].as_u64())
            .collect()
    };
    assert_eq!(ports(object(&elsewhere, "Service", "sandgate")), [80, 8080]);
    let arguments = ["--set", "sigAlias.enabled=true", "--set", &format!("sigAlias.namespace={NAMESPACE}")];
    let here = documents(&template(&arguments).await.expect("manifests"));
    let (alias, gateway) =
        (object(&here, "Service", "sandbox-router-svc"), object(&here, "Service", "sandgate"));
    assert_eq!(alias["spec"]["selector"], gateway["spec"]["selector"]);
    assert_eq!((ports(alias), ports(gateway)), (vec![8080], vec![80]));
}

#[tokio::test]
async fn a_rollout_takes_no_gateway_away_before_the_next_is_ready_and_lets_each_drain() {
    for setup in SETUPS {
        let objects = documents(&rendered(setup).await);
        let workload = workload(&objects);
        let spec = &workload["spec"];
        let update =
            if workload["kind"] == "Deployment" { &spec["strategy"] } else { &spec["updateStrategy"] };
        assert_eq!(update["rollingUpdate"], json!({ "maxSurge": 1, "maxUnavailable": 0 }), "{setup}");
        assert!(spec["minReadySeconds"].as_u64() > Some(0), "{setup}");
        let pod = &spec["template"]["spec"];
        let seconds = |option: &str| -> u64 {
            let arguments = pod["containers"][0]["args"].as_array().expect("arguments").iter();
            let value =
                arguments.filter_map(Value::as_str).find_map(|argument| argument.strip_prefix(option));
            value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {option}"))
        };
        let drain = seconds("--drain-delay=") + seconds("--drain-time=");
        assert!(pod["terminationGracePeriodSeconds"].as_u64() > Some(drain + 15), "{setup}");
        assert!(pod["containers"][0]["livenessProbe"].is_null(), "{setup}");
    }
}

#[test]
fn the_chart_has_the_version_of_the_program() {
    let chart: Value = serde_saphyr::from_str(&file("envoy/deploy/chart/Chart.yaml")).expect("YAML");
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!((&chart["version"], &chart["appVersion"]), (&json!(version), &json!(version)));
}

#[test]
fn the_page_about_kubernetes_names_every_value() {
    let values: Value = serde_saphyr::from_str(&file("envoy/deploy/chart/values.yaml")).expect("YAML");
    let page = file("envoy/docs/kubernetes.md");
    for name in values.as_object().expect("a mapping").keys() {
        let row = page.lines().any(|line| line.starts_with("| ") && line.contains(&format!("`{name}")));
        assert!(row, "no row of the page has `{name}`");
    }
}
