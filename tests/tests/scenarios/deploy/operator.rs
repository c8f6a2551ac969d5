//! The operator's part of what is shipped: definitions, rights, and the Deployment.

mod installed;

use std::fs;

use sandgate_tests::deploy::{NAMESPACE, committed, documents, folder, object, template};
use serde_json::{Value, json};

use super::chart::plain;
use super::{OPERATOR, file, rendered};

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
    let mut all = "# Copies of envoy/deploy/crds: `make deploy-rendered` brings them here.\n".to_owned();
    for (name, text) in definitions() {
        committed(&folder().join("chart/files/crds").join(&name), &text);
        all.push_str("---\n");
        all.push_str(text.trim_start_matches("---\n"));
    }
    committed(&folder().join("kustomize/components/operator/crds.yaml"), &all);
    let copies = fs::read_dir(folder().join("chart/files/crds")).expect("the copies");
    assert_eq!(copies.count(), definitions().len(), "a copy of a definition that is gone");
}

#[tokio::test]
async fn the_chart_installs_the_definitions_with_the_operator_and_leaves_them_when_it_goes() {
    let defined = |manifests: &str| -> Vec<Value> {
        let all = documents(manifests).into_iter();
        all.filter(|object| object["kind"] == "CustomResourceDefinition").collect()
    };
    let here = defined(&rendered(OPERATOR).await);
    for (name, text) in definitions() {
        let made = &documents(&text)[0];
        let there = here.iter().find(|there| there["metadata"]["name"] == made["metadata"]["name"]);
        let there = there.unwrap_or_else(|| panic!("{name} is not installed"));
        assert_eq!(there["spec"], made["spec"], "{name}");
        assert_eq!(there["metadata"]["annotations"]["helm.sh/resource-policy"], "keep", "{name}");
    }
    // Not for whoever has them from elsewhere, and not without the operator.
    let without = ["--set", "operator.enabled=true", "--set", "operator.crds.install=false"];
    for arguments in [&without[..], &[]] {
        assert!(defined(&template(arguments).await.expect("manifests")).is_empty(), "{arguments:?}");
    }
}

#[tokio::test]
async fn the_operators_rights_are_those_of_the_file() {
    let objects = documents(&template(&["--set", "operator.enabled=true"]).await.expect("manifests"));
    let wanted = documents(&file("envoy/deploy/rbac/operator.yaml"));
    for wanted in &wanted {
        let text = |value: &Value| value.as_str().expect("text").to_owned();
        let (kind, name) = (text(&wanted["kind"]), text(&wanted["metadata"]["name"]));
        assert_eq!(&plain(object(&objects, &kind, &name)), wanted);
    }
    let rights = objects.iter().filter(|object| {
        let of_operator = object["metadata"]["name"].as_str().is_some_and(|name| name.contains("operator"));
        of_operator && object["kind"].as_str().is_some_and(|kind| kind.contains("Role"))
    });
    assert_eq!(rights.count(), wanted.len(), "no right beside these");
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
