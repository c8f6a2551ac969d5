//! The operator's part of what is shipped: definitions, rights, and the Deployment.

mod installed;

use std::fs;

use sandgate_tests::deploy::{NAMESPACE, committed, documents, folder, granted, object, template};
use serde_json::{Value, json};

use super::chart::plain;
use super::{
    OF_ENVIRONMENTS, OF_OPENSANDBOX, OPERATOR, OPERATOR_ENVIRONMENTS, OPERATOR_OPENSANDBOX, file, rendered,
};

/// The groups of the kinds, with which the names of their definitions' files begin.
const KRUISE: &str = "agents.kruise.io_";
const OPENSANDBOX: &str = "sandbox.opensandbox.io_";
const ENVIRONMENTS: &str = "agents.navix.sh_";

/// The definitions that are made from the types (`make crds`), each with the name of its file.
fn definitions() -> Vec<(String, String)> {
    let files = fs::read_dir(folder().join("crds")).expect("the definitions").flatten();
    let mut found: Vec<(String, String)> = files
        .map(|file| (file.file_name(), fs::read_to_string(file.path()).expect("read")))
        .map(|(name, text)| (name.into_string().expect("a name of text"), text))
        .collect();
    found.sort();
    assert!(found.len() > 2, "{} definitions", found.len());
    found
}

/// Neither Helm nor Kustomize reads a file outside of its folder.
#[test]
fn the_copies_of_the_definitions_are_those_that_are_made_from_the_types() {
    for (name, text) in definitions() {
        committed(&folder().join("chart/files/crds").join(&name), &text);
    }
    let components =
        [(OPERATOR, KRUISE), (OPERATOR_OPENSANDBOX, OPENSANDBOX), (OPERATOR_ENVIRONMENTS, ENVIRONMENTS)];
    for (component, group) in components {
        let mut all = "# Copies of envoy/deploy/crds: `make deploy-rendered` brings them here.\n".to_owned();
        for (_, text) in definitions().iter().filter(|(name, _)| name.starts_with(group)) {
            all.push_str("---\n");
            all.push_str(text.trim_start_matches("---\n"));
        }
        committed(&folder().join("kustomize/components").join(component).join("crds.yaml"), &all);
    }
    let copies = fs::read_dir(folder().join("chart/files/crds")).expect("the copies");
    assert_eq!(copies.count(), definitions().len(), "a copy of a definition that is gone");
}

#[tokio::test]
async fn the_chart_installs_the_definitions_with_the_operator_and_leaves_them_when_it_goes() {
    let defined = |manifests: &str| -> Vec<Value> {
        let all = documents(manifests).into_iter();
        all.filter(|object| object["kind"] == "CustomResourceDefinition").collect()
    };
    let of = async |controllers: &str| {
        let controllers = format!("operator.controllers={{{controllers}}},operator.localClusterId=here");
        template(&["--set", "operator.enabled=true", "--set", &controllers]).await.expect("manifests")
    };
    for (manifests, groups) in [
        (rendered(OPERATOR).await, &[KRUISE][..]),
        (rendered(OPERATOR_OPENSANDBOX).await, &[OPENSANDBOX]),
        (of("pooladoption").await, &[ENVIRONMENTS]),
        (of("sandbox,sandboxset,batchsandbox,pool,sandboxsnapshot").await, &[KRUISE, OPENSANDBOX]),
        (of("sandboxset,pool,sandboxenv,sandboxpool").await, &[KRUISE, OPENSANDBOX, ENVIRONMENTS]),
    ] {
        let here = defined(&manifests);
        let of_groups = |name: &str| groups.iter().any(|group| name.starts_with(group));
        let wanted: Vec<_> = definitions().into_iter().filter(|(name, _)| of_groups(name)).collect();
        assert_eq!(here.len(), wanted.len(), "{groups:?}");
        for (name, text) in wanted {
            let made = &documents(&text)[0];
            let there = here.iter().find(|there| there["metadata"]["name"] == made["metadata"]["name"]);
            let there = there.unwrap_or_else(|| panic!("{name} is not installed"));
            assert_eq!(there["spec"], made["spec"], "{name}");
            assert_eq!(there["metadata"]["annotations"]["helm.sh/resource-policy"], "keep", "{name}");
        }
    }
    // Not for whoever has them from elsewhere, and not without the operator.
    let without = ["--set", "operator.enabled=true", "--set", "operator.crds.install=false"];
    for arguments in [&without[..], &[]] {
        assert!(defined(&template(arguments).await.expect("manifests")).is_empty(), "{arguments:?}");
    }
}

#[tokio::test]
async fn the_operators_rights_are_those_of_the_file() {
    for (name, more) in [
        (OPERATOR, &[][..]),
        (OPERATOR_OPENSANDBOX, &["--set", OF_OPENSANDBOX]),
        (OPERATOR_ENVIRONMENTS, &["--set", OF_ENVIRONMENTS]),
    ] {
        let arguments = [&["--set", "operator.enabled=true"], more].concat();
        let objects = documents(&template(&arguments).await.expect("manifests"));
        let wanted = documents(&file(&format!("envoy/deploy/rbac/{name}.yaml")));
        for wanted in &wanted {
            let text = |value: &Value| value.as_str().expect("text").to_owned();
            let (kind, name) = (text(&wanted["kind"]), text(&wanted["metadata"]["name"]));
            assert_eq!(&plain(object(&objects, &kind, &name)), wanted);
        }
        assert_eq!(rights(&objects).count(), wanted.len(), "no right beside these: {name}");
    }
}

/// Roles and bindings of the operator.
fn rights(objects: &[Value]) -> impl Iterator<Item = &Value> {
    objects.iter().filter(|object| {
        let of_operator = object["metadata"]["name"].as_str().is_some_and(|name| name.contains("operator"));
        of_operator && object["kind"].as_str().is_some_and(|kind| kind.contains("Role"))
    })
}

/// One operator for the kinds of all has the rights of all, and a right of one alone with that one alone.
#[tokio::test]
async fn the_rights_for_all_kinds_are_those_of_all_files() {
    let granted_to = async |controllers: &str| {
        let controllers = format!("operator.controllers={{{controllers}}},operator.localClusterId=here");
        let arguments = ["--set", "operator.enabled=true", "--set", &controllers];
        let objects = documents(&template(&arguments).await.expect("manifests"));
        let mut of_operator = String::new();
        for object in rights(&objects) {
            of_operator.push_str(&format!("---\n{object}\n"));
        }
        granted(&of_operator)
    };
    let [kruise, opensandbox, environments] = [OPERATOR, OPERATOR_OPENSANDBOX, OPERATOR_ENVIRONMENTS]
        .map(|name| granted(&file(&format!("envoy/deploy/rbac/{name}.yaml"))));
    let both = &kruise | &opensandbox;
    assert_eq!(granted_to("sandbox,sandboxset,batchsandbox,pool,sandboxsnapshot").await, both);
    assert_eq!(granted_to("sandbox,pool,sandboxenv").await, &both | &environments);
    for (controllers, wanted) in [
        ("sandbox", &kruise),
        ("pool,batchsandbox", &opensandbox),
        ("sandboxpool", &environments),
        ("pooladoption", &environments),
    ] {
        assert_eq!(&granted_to(controllers).await, wanted, "{controllers}");
    }
    assert!(!both.iter().any(|right| right.contains(" secrets.")), "{both:?}");
    // Whether an environment's pull secret is there, and nothing else of Secrets.
    let secrets: Vec<_> = environments.iter().filter(|right| right.contains(" secrets.")).collect();
    assert_eq!(secrets, ["get secrets."]);
}

/// What the values of OpenSandbox's kinds become, and that none of it is there without these kinds.
#[tokio::test]
async fn the_operator_gets_opensandboxs_options_with_its_kinds_alone() {
    let operator = async |controllers: &str, values: &str| -> Value {
        let controllers = format!("operator.controllers={{{controllers}}}");
        let arguments = ["--set", "operator.enabled=true", "--set", &controllers, "--set-json", values];
        let objects = documents(&template(&arguments).await.expect("manifests"));
        object(&objects, "Deployment", "sandgate-operator")["spec"]["template"]["spec"].clone()
    };
    let snapshot = json!({
        "imageCommitterImage": "i:1", "containerdSocketPath": "/run/c.sock", "commitJobTimeout": "1h30m",
        "registry": "r.test/s", "registryInsecure": true, "pushSecret": "push", "pullSecret": "pull",
    });
    let values = json!({
        "concurrency": "batchsandbox=8;pool=4", "strictRecovery": true, "snapshot": snapshot,
        "taskExecutorToken": { "secret": "s", "key": "k" },
    });
    let values = format!("operator.opensandbox={values}");
    let pod = operator("batchsandbox,pool,sandboxsnapshot", &values).await;
    let container = &pod["containers"][0];
    let given = container["args"].as_array().expect("arguments");
    for wanted in [
        "--controllers=batchsandbox,pool,sandboxsnapshot",
        "--concurrency=batchsandbox=8;pool=4",
        "--strict-recovery=true",
        "--task-executor-token-file=/etc/sandgate/task-executor/token",
        "--image-committer-image=i:1",
        "--containerd-socket-path=/run/c.sock",
        "--commit-job-timeout=1h30m",
        "--snapshot-registry=r.test/s",
        "--snapshot-registry-insecure=true",
        "--snapshot-push-secret=push",
        "--resume-pull-secret=pull",
    ] {
        assert!(given.contains(&json!(wanted)), "no {wanted}: {given:?}");
    }
    assert_eq!(container["env"][0]["name"], "POD_NAMESPACE");
    assert_eq!(container["volumeMounts"][0]["mountPath"], "/etc/sandgate/task-executor");
    let secret =
        json!({ "secretName": "s", "defaultMode": 0o440, "items": [{ "key": "k", "path": "token" }] });
    assert_eq!(pod["volumes"][0]["secret"], secret);

    let without = operator("sandbox,sandboxset", &values).await;
    assert_eq!((&without["volumes"], &without["containers"][0]["env"]), (&Value::Null, &Value::Null));
    assert!(!without.to_string().contains("snapshot"), "{without}");
}

/// The name of the cluster is asked for, handed on with the controllers that need it, and with no others.
#[tokio::test]
async fn the_operator_of_environments_gets_the_name_of_its_cluster() {
    let arguments = async |values: &str| -> Value {
        let arguments = ["--set", "operator.enabled=true", "--set", values];
        let objects = documents(&template(&arguments).await.expect("manifests"));
        let deployment = object(&objects, "Deployment", "sandgate-operator");
        deployment["spec"]["template"]["spec"]["containers"][0]["args"].clone()
    };
    let given = arguments("operator.controllers={sandboxpool},operator.localClusterId=east").await;
    assert!(given.as_array().expect("arguments").contains(&json!("--local-cluster-id=east")), "{given}");
    let without = arguments("operator.controllers={sandbox},operator.localClusterId=east").await;
    assert!(!without.to_string().contains("cluster-id"), "{without}");
}

/// Gateways say which sandboxes are used. They are asked with the credentials of pushes, and only where there
/// is a port to ask and a controller that wants to know.
#[tokio::test]
async fn the_operator_of_environments_asks_the_gateways_which_sandboxes_are_used() {
    let objects = async |values: &[&str]| {
        let values = values.iter().flat_map(|value| ["--set", value]);
        let arguments: Vec<&str> = ["--set", "operator.enabled=true", "--set", "push.enabled=true"]
            .into_iter()
            .chain(values)
            .collect();
        documents(&template(&arguments).await.expect("manifests"))
    };
    let review = ["push.tokenReview.audience=a", "push.tokenReview.subjects={b}"];
    let key = ["push.keys[0].id=main", "push.keys[0].secret=s", "push.keys[0].key=k", "push.tls.secret=t"];
    let token = [("--gateway-token-file=/etc/sandgate/gateways/token", true), ("--gateway-https", false)];
    let signed = [
        ("--gateway-hmac-key=main=/etc/sandgate/gateways/key", true),
        ("--gateway-https", true),
        ("--gateway-ca=/etc/sandgate/gateways/ca.crt", true),
    ];
    for (push, wanted) in [(&review[..], &token[..]), (&key, &signed)] {
        let made = objects(&[push, &[OF_ENVIRONMENTS]].concat()).await;
        let pod = &object(&made, "Deployment", "sandgate-operator")["spec"]["template"]["spec"];
        let given = pod["containers"][0]["args"].as_array().expect("arguments");
        let asked = format!("--gateway-activity=service:{NAMESPACE}/sandgate-push:7789");
        for (argument, is_there) in [&[(asked.as_str(), true)], wanted].concat() {
            assert_eq!(given.contains(&json!(argument)), is_there, "{argument}: {given:?}");
        }
        // Each file that is named is in the volume.
        let sources = pod["volumes"][0]["projected"]["sources"].to_string();
        for file in given.iter().filter_map(|argument| argument.as_str()?.rsplit_once("/gateways/")) {
            assert!(sources.contains(&format!("\"path\":\"{}\"", file.1)), "{file:?} in {sources}");
        }
        assert_eq!(pod["containers"][0]["volumeMounts"][0]["mountPath"], "/etc/sandgate/gateways");
        let role = object(&made, "Role", "sandgate-operator-gateways");
        assert_eq!(
            granted(&role.to_string()).into_iter().collect::<Vec<_>>(),
            ["list endpointslices.discovery.k8s.io"]
        );
        assert_eq!(role["metadata"]["namespace"], NAMESPACE);
        let egress = &object(&made, "NetworkPolicy", "sandgate-operator")["spec"]["egress"];
        let gateway = &object(&made, "NetworkPolicy", "sandgate")["spec"]["podSelector"];
        let way =
            json!({ "to": [{ "podSelector": gateway }], "ports": [{ "protocol": "TCP", "port": 7789 }] });
        assert!(egress.as_array().expect("rules").contains(&way), "{egress}");
    }
    let others = objects(&[&review[..], &["operator.controllers={sandbox}"]].concat()).await;
    let others: Vec<_> = others.iter().filter(|object| object.to_string().contains("operator")).collect();
    assert!(!others.iter().any(|object| object.to_string().contains("gateway-activity")));
    assert!(!others.iter().any(|object| object["metadata"]["name"] == "sandgate-operator-gateways"));
}

/// Templates of environments have no namespace.
#[tokio::test]
async fn an_operator_of_environments_of_one_namespace_reads_templates_of_the_cluster() {
    let values = format!("{OF_ENVIRONMENTS},operator.enabled=true,operator.namespace=team-a");
    let objects = documents(&template(&["--set", &values]).await.expect("manifests"));
    let everywhere: Vec<_> =
        rights(&objects).filter(|object| object["kind"] == "ClusterRoleBinding").collect();
    assert_eq!(everywhere.len(), 1, "{everywhere:?}");
    assert_eq!(everywhere[0]["roleRef"]["name"], "sandgate-operator-templates");
    let role = object(&objects, "ClusterRole", "sandgate-operator-templates").to_string();
    let granted = granted(&role).into_iter().collect::<Vec<_>>();
    assert_eq!(granted, ["list sandboxtemplates.agents.navix.sh", "watch sandboxtemplates.agents.navix.sh"]);
    let bound = object(&objects, "RoleBinding", "sandgate-operator");
    assert_eq!(bound["metadata"]["namespace"], "team-a");
}

#[tokio::test]
async fn an_operator_of_one_namespace_has_rights_in_that_one_alone() {
    let arguments = ["--set", "operator.enabled=true", "--set", "operator.namespace=team-a"];
    let objects = documents(&template(&arguments).await.expect("manifests"));
    let bound = objects.iter().filter(|object| {
        object["kind"].as_str().is_some_and(|kind| kind.ends_with("Binding"))
            && object["subjects"][0]["name"] == "sandgate-operator"
    });
    let mut bound: Vec<(&Value, &Value)> =
        bound.map(|object| (&object["metadata"]["namespace"], &object["roleRef"]["name"])).collect();
    bound.sort_by_key(|(namespace, _)| namespace.to_string());
    let expected =
        [(json!(NAMESPACE), json!("sandgate-operator-lease")), (json!("team-a"), json!("sandgate-operator"))];
    assert_eq!(bound, expected.iter().map(|(namespace, role)| (namespace, role)).collect::<Vec<_>>());
    let args = &object(&objects, "Deployment", "sandgate-operator")["spec"]["template"]["spec"]["containers"]
        [0]["args"];
    assert!(args.as_array().expect("arguments").contains(&json!("--namespace=team-a")), "{args}");
}

/// Whether a selector of labels selects a pod with these.
fn selects(selector: &Value, labels: &Value) -> bool {
    selector.as_object().expect("a selector").iter().all(|(name, value)| labels[name] == *value)
}

#[tokio::test]
async fn nothing_of_the_gateway_selects_the_operators_pods_and_nothing_of_the_operator_the_gateways() {
    let arguments = ["--set", "operator.enabled=true", "--set", "monitoring.serviceMonitor.enabled=true"];
    let objects = documents(&template(&arguments).await.expect("manifests"));
    let pods =
        |name: &str| object(&objects, "Deployment", name)["spec"]["template"]["metadata"]["labels"].clone();
    let (gateway, operator) = (pods("sandgate"), pods("sandgate-operator"));
    let mut seen = 0;
    for object in &objects {
        let places = ["/spec/podSelector/matchLabels", "/spec/selector/matchLabels", "/spec/selector"];
        let Some(selector) = places.iter().find_map(|place| object.pointer(place)) else { continue };
        // A ServiceMonitor selects Services.
        if object["kind"] == "ServiceMonitor" || selector.get("matchLabels").is_some() {
            continue;
        }
        let of_operator =
            object["metadata"]["name"].as_str().is_some_and(|name| name.starts_with("sandgate-operator"));
        let what = format!("{} {}", object["kind"], object["metadata"]["name"]);
        assert_eq!(selects(selector, &operator), of_operator, "{what} and the operator");
        assert_eq!(selects(selector, &gateway), !of_operator, "{what} and the gateway");
        seen += 1;
    }
    assert!(seen >= 8, "only {seen} selectors");
    for (name, count) in [("sandgate", 1), ("sandgate-operator", 1)] {
        let monitor = object(&objects, "ServiceMonitor", name);
        let selector = &monitor["spec"]["selector"]["matchLabels"];
        let services = objects.iter().filter(|object| object["kind"] == "Service");
        let found = services.filter(|service| selects(selector, &service["metadata"]["labels"])).count();
        assert_eq!(found, count, "Services of the monitor {name}");
    }
}
