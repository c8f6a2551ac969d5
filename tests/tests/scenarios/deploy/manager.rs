//! The manager's part of what is shipped: rights, the Deployment, and the gateway's way to it.

mod installed;

use sandgate_tests::deploy::{NAMESPACE, documents, object, template};
use serde_json::{Value, json};

use super::chart::plain;
use super::{MANAGER, file, rendered};

async fn manifests(values: &[&str]) -> Vec<Value> {
    let arguments: Vec<&str> = values.iter().flat_map(|value| ["--set", value]).collect();
    documents(&template(&arguments).await.unwrap_or_else(|e| panic!("{values:?}: {e}")))
}

fn pod(objects: &[Value]) -> &Value {
    &object(objects, "Deployment", "sandgate-manager")["spec"]["template"]["spec"]
}

fn arguments(objects: &[Value]) -> Vec<&str> {
    let arguments = pod(objects)["containers"][0]["args"].as_array().expect("arguments");
    arguments.iter().map(|argument| argument.as_str().expect("text")).collect()
}

fn config(objects: &[Value]) -> Value {
    let config = &object(objects, "ConfigMap", "sandgate")["data"]["gateway.yaml"];
    serde_saphyr::from_str(config.as_str().expect("a config")).expect("YAML")
}

#[tokio::test]
async fn the_managers_rights_are_those_of_the_file() {
    let objects = manifests(&["manager.enabled=true"]).await;
    let wanted = documents(&file("envoy/deploy/rbac/manager.yaml"));
    for wanted in &wanted {
        let text = |value: &Value| value.as_str().expect("text").to_owned();
        let (kind, name) = (text(&wanted["kind"]), text(&wanted["metadata"]["name"]));
        assert_eq!(&plain(object(&objects, &kind, &name)), wanted);
    }
    let rights = objects.iter().filter(|object| {
        let of_manager = object["metadata"]["name"].as_str().is_some_and(|name| name.contains("manager"));
        of_manager && object["kind"].as_str().is_some_and(|kind| kind.contains("Role"))
    });
    assert_eq!(rights.count(), wanted.len(), "no right beside these");
}

/// Environments need rights to pods, which a manager without them has not got.
#[tokio::test]
async fn environments_need_rights_of_their_own_and_the_name_of_the_cluster() {
    let environments = ["manager.enabled=true", "manager.environments.enabled=true"];
    let objects = manifests(&[&environments[..], &["manager.localClusterId=east"]].concat()).await;
    let name = "sandgate-manager-environments";
    let wanted = documents(&file("envoy/deploy/rbac/manager-environments.yaml"));
    assert_eq!(wanted.len(), 2);
    for wanted in &wanted {
        let kind = wanted["kind"].as_str().expect("a kind");
        assert_eq!(&plain(object(&objects, kind, name)), wanted);
    }
    assert!(arguments(&objects).contains(&"--environments"));
    assert!(arguments(&objects).contains(&"--local-cluster-id=east"));
    // The operator's name of the cluster is taken where the manager has none.
    let objects = manifests(&[&environments[..], &["operator.localClusterId=west"]].concat()).await;
    assert!(arguments(&objects).contains(&"--local-cluster-id=west"));

    let without = manifests(&["manager.enabled=true", "manager.localClusterId=east"]).await;
    assert!(!without.iter().any(|object| object["metadata"]["name"] == name));
    assert!(!arguments(&without).iter().any(|argument| argument.contains("cluster-id")));

    let here = manifests(
        &[&environments[..], &["manager.localClusterId=east", "manager.namespace=team-a"]].concat(),
    )
    .await;
    assert_eq!(object(&here, "RoleBinding", name)["metadata"]["namespace"], "team-a");
    let bound = here.iter().filter(|object| object["kind"] == "ClusterRoleBinding");
    assert!(!bound.into_iter().any(|bound| bound["roleRef"]["name"] == name));
}

/// A Secret may be anybody's. What holds for all namespaces names none.
#[test]
fn secrets_and_config_maps_are_read_and_written_in_the_managers_own_namespace_alone() {
    for object in documents(&file("envoy/deploy/rbac/manager.yaml")) {
        let rules = object["rules"].to_string();
        let own = object["kind"] == "Role" && object["metadata"]["namespace"] == NAMESPACE;
        for kind in ["secrets", "configmaps", "endpointslices"] {
            assert!(own || !rules.contains(kind), "{kind} in a {}", object["kind"]);
        }
        assert!(!rules.contains('*') && !rules.contains("\"pods"), "{rules}");
    }
}

#[tokio::test]
async fn a_manager_of_one_namespace_has_rights_there_and_in_its_own() {
    let objects = manifests(&["manager.enabled=true", "manager.namespace=team-a"]).await;
    let bound = objects.iter().filter(|object| {
        object["kind"].as_str().is_some_and(|kind| kind.ends_with("Binding"))
            && object["subjects"][0]["name"] == "sandgate-manager"
    });
    let mut bound: Vec<_> =
        bound.map(|object| (&object["metadata"]["namespace"], &object["roleRef"]["kind"])).collect();
    bound.sort_by_key(|(namespace, _)| namespace.to_string());
    assert_eq!(bound, [(&json!(NAMESPACE), &json!("Role")), (&json!("team-a"), &json!("ClusterRole"))]);
    assert!(arguments(&objects).contains(&"--namespace=team-a"));
}

#[tokio::test]
async fn the_gateways_lead_to_the_manager_where_there_is_one_and_may_reach_it() {
    let none = manifests(&[]).await;
    assert!(config(&none).get("manager").is_none());
    assert!(!none.iter().any(|object| object.to_string().contains("sandgate-manager")));

    let own = manifests(&["manager.enabled=true"]).await;
    let address = format!("sandgate-manager.{NAMESPACE}.svc:80");
    assert_eq!(config(&own)["manager"], json!({ "address": address }));
    let service = object(&own, "Service", "sandgate-manager");
    assert_eq!(service["spec"]["ports"][0]["port"], 80);
    let labels = &object(&own, "Deployment", "sandgate-manager")["spec"]["template"]["metadata"]["labels"];
    assert_eq!(&service["spec"]["selector"], labels);
    let egress = object(&own, "NetworkPolicy", "sandgate")["spec"]["egress"].to_string();
    assert!(egress.contains("sandgate-manager") && egress.contains("\"port\":53,"), "{egress}");
    let ingress = &object(&own, "NetworkPolicy", "sandgate-manager")["spec"]["ingress"][0];
    let gateway = &object(&own, "NetworkPolicy", "sandgate")["spec"]["podSelector"];
    assert_eq!(ingress["from"], json!([{ "podSelector": gateway }]), "nobody else");

    let elsewhere = manifests(&["manager.address=manager.example.com:8080"]).await;
    assert_eq!(config(&elsewhere)["manager"], json!({ "address": "manager.example.com:8080" }));
    assert!(!elsewhere.iter().any(|object| object["metadata"]["name"] == "sandgate-manager"));

    let tls = manifests(&["manager.enabled=true", "manager.tls.secret=manager-tls"]).await;
    let section = json!({
        "address": format!("sandgate-manager.{NAMESPACE}.svc:443"),
        "tls": { "ca": "/etc/sandgate/manager/ca.crt" },
    });
    assert_eq!(config(&tls)["manager"], section);
    assert!(arguments(&tls).contains(&"--tls-cert=/etc/sandgate/tls/tls.crt"));
}

#[tokio::test]
async fn rules_for_networks_need_a_right_of_their_own() {
    for (value, granted) in [("false", false), ("true", true)] {
        let value = format!("manager.trafficPolicies={value}");
        let objects = manifests(&["manager.enabled=true", &value]).await;
        let rules = object(&objects, "ClusterRole", "sandgate-manager")["rules"].to_string();
        assert_eq!(rules.contains("trafficpolicies"), granted);
        assert!(arguments(&objects).contains(&format!("--traffic-policies={granted}").as_str()));
    }
}

/// What the policy selects is what a create writes: `installed` looks at that in a cluster.
#[tokio::test]
async fn sandboxes_can_be_without_the_internet_where_a_policy_says_so_and_the_manager_knows() {
    let policies = |objects: &[Value]| -> Vec<Value> {
        let name = "sandgate-manager-no-internet";
        objects.iter().filter(|object| object["metadata"]["name"] == name).cloned().collect()
    };
    let none = manifests(&["manager.enabled=true"]).await;
    assert!(policies(&none).is_empty());
    assert!(!arguments(&none).iter().any(|argument| argument.contains("no-internet")));

    let two = manifests(&["manager.enabled=true", "manager.noInternetNamespaces={team-a,team-b}"]).await;
    assert!(arguments(&two).contains(&"--no-internet-namespaces=team-a,team-b"));
    let policies = policies(&two);
    for (policy, namespace) in policies.iter().zip(["team-a", "team-b"]) {
        assert_eq!(
            (&policy["kind"], &policy["metadata"]["namespace"]),
            (&json!("NetworkPolicy"), &json!(namespace))
        );
        // Egress is the policy's business, and it lets nothing through.
        assert_eq!(
            (&policy["spec"]["policyTypes"], &policy["spec"]["egress"]),
            (&json!(["Egress"]), &json!([]))
        );
    }
    assert_eq!(policies.len(), 2);
}

#[tokio::test]
async fn a_manager_that_is_told_to_end_has_the_time_that_its_arguments_allow_it() {
    let objects = manifests(&["manager.enabled=true"]).await;
    let seconds = |option: &str| -> u64 {
        let value = arguments(&objects).into_iter().find_map(|argument| argument.strip_prefix(option));
        value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {option}"))
    };
    // Both together, and some time for the tasks that end last.
    let longest = seconds("--drain-delay=") + seconds("--drain-timeout=") + 15;
    let grace = pod(&objects)["terminationGracePeriodSeconds"].as_u64();
    assert!(grace >= Some(longest), "{grace:?} s to end, {longest} s needed");
}

/// The manager's side and the gateway's say the same: where, and by which proof.
#[tokio::test]
async fn a_manager_that_pushes_has_what_the_gateways_ask_for() {
    let objects = documents(&rendered(MANAGER).await);
    let review = &config(&objects)["gateway"]["refresh"]["token-review"];
    let account = pod(&objects)["serviceAccountName"].as_str().expect("an account");
    assert_eq!(review["subjects"], json!([format!("system:serviceaccount:{NAMESPACE}:{account}")]));
    let sources = pod(&objects)["volumes"][0]["projected"]["sources"].as_array().expect("sources");
    let token = sources.iter().find_map(|source| source.get("serviceAccountToken")).expect("a token");
    assert_eq!(token["audience"], review["audience"]);
    assert_eq!(token["path"], "push/token");
    let service = object(&objects, "Service", "sandgate-push");
    assert_eq!(service["spec"]["ports"][0]["port"], 7789);
    let egress = object(&objects, "NetworkPolicy", "sandgate-manager")["spec"]["egress"].to_string();
    assert!(egress.contains(":7789"), "{egress}");

    let keys = ["manager.enabled=true", "push.enabled=true"];
    let key = ["push.keys[0].id=main", "push.keys[0].secret=s", "push.keys[0].key=k"];
    let objects = manifests(&[&keys[..], &key[..]].concat()).await;
    assert!(pod(&objects)["volumes"].to_string().contains("push/key"));
}

#[tokio::test]
async fn there_are_two_managers_by_default_and_a_rollout_takes_none_away_first() {
    let objects = manifests(&["manager.enabled=true"]).await;
    let spec = &object(&objects, "Deployment", "sandgate-manager")["spec"];
    assert_eq!(spec["replicas"], 2);
    assert_eq!(spec["strategy"]["rollingUpdate"], json!({ "maxSurge": 1, "maxUnavailable": 0 }));
    assert_eq!(object(&objects, "PodDisruptionBudget", "sandgate-manager")["spec"]["maxUnavailable"], 1);
    let alone = manifests(&["manager.enabled=true", "manager.replicas=1"]).await;
    let budget = |object: &&Value| {
        object["kind"] == "PodDisruptionBudget" && object["metadata"]["name"] == "sandgate-manager"
    };
    assert!(alone.iter().find(budget).is_none(), "it would keep a node from being drained");
}

#[tokio::test]
async fn nothing_of_the_others_selects_the_managers_pods() {
    let objects = documents(&rendered(MANAGER).await);
    let pods =
        |name: &str| object(&objects, "Deployment", name)["spec"]["template"]["metadata"]["labels"].clone();
    let names = ["sandgate", "sandgate-operator", "sandgate-manager"];
    let selects = |selector: &Value, labels: &Value| {
        selector.as_object().expect("a selector").iter().all(|(name, value)| labels[name] == *value)
    };
    let mut seen = 0;
    for object in &objects {
        let places = ["/spec/podSelector/matchLabels", "/spec/selector/matchLabels", "/spec/selector"];
        let Some(selector) = places.iter().find_map(|place| object.pointer(place)) else { continue };
        // A ServiceMonitor selects Services.
        if object["kind"] == "ServiceMonitor" || selector.get("matchLabels").is_some() {
            continue;
        }
        let selected: Vec<&str> = names.into_iter().filter(|name| selects(selector, &pods(name))).collect();
        let own = object["metadata"]["name"].as_str().expect("a name");
        let owner = names.into_iter().filter(|name| own.starts_with(name)).max_by_key(|name| name.len());
        assert_eq!(selected, owner.into_iter().collect::<Vec<_>>(), "{} {own}", object["kind"]);
        seen += 1;
    }
    assert!(seen >= 12, "only {seen} selectors");
    let monitor = object(&objects, "ServiceMonitor", "sandgate-manager");
    let selector = &monitor["spec"]["selector"]["matchLabels"];
    let services = objects.iter().filter(|object| object["kind"] == "Service");
    let found: Vec<&Value> = services
        .filter(|service| selects(selector, &service["metadata"]["labels"]))
        .map(|service| &service["metadata"]["name"])
        .collect();
    assert_eq!(found, ["sandgate-manager-metrics"]);
}
