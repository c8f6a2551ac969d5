//! The Kustomize folders say what the chart says.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use sandgate_tests::deploy::{committed, documents, folder, template, tool};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{
    MANAGER, OF_ENVIRONMENTS, OF_OPENSANDBOX, OPERATOR, OPERATOR_ENVIRONMENTS, OPERATOR_OPENSANDBOX, rendered,
};

/// The overlays, each with the values that make the chart say the same.
const OVERLAYS: [(&str, &[&str]); 8] = [
    ("agent-sandbox", &["--set", "providers[0].kind=agent-sandbox"]),
    ("openkruise", &["--set", "providers[0].kind=openkruise"]),
    (
        "opensandbox",
        &["--set", "providers[0].kind=opensandbox", "--set", "gateway.pod-ranges={10.244.0.0/16}"],
    ),
    ("sandbox-env", &["--set", "providers[0].kind=sandbox-env"]),
    (OPERATOR, &["--set", "providers[0].kind=openkruise", "--set", "operator.enabled=true"]),
    (
        OPERATOR_OPENSANDBOX,
        &[
            "--set",
            "providers[0].kind=opensandbox",
            "--set",
            "gateway.pod-ranges={10.244.0.0/16}",
            "--set",
            "operator.enabled=true",
            "--set",
            OF_OPENSANDBOX,
        ],
    ),
    (
        OPERATOR_ENVIRONMENTS,
        &[
            "--set",
            "providers[0].kind=sandbox-env",
            "--set",
            "operator.enabled=true",
            "--set",
            OF_ENVIRONMENTS,
        ],
    ),
    (
        MANAGER,
        &[
            "--set",
            "providers[0].kind=openkruise",
            "--set",
            "operator.enabled=true",
            "--set",
            "manager.enabled=true",
        ],
    ),
];

/// Some templates of a rendered chart, without what is Helm's.
fn without_helm(rendered: &str, wanted: impl Fn(&str) -> bool) -> String {
    let mut made = "# Made of the chart by `make deploy-rendered`: change the chart.\n".to_owned();
    for part in rendered.split("---\n# Source: sandgate/templates/").skip(1) {
        let (template, text) = part.split_once('\n').expect("a line that names the template");
        if !wanted(template) {
            continue;
        }
        made.push_str("---\n");
        for line in text.lines() {
            let word = line.trim();
            let of_helm = ["helm.sh/", "app.kubernetes.io/managed-by:", "checksum/config:"];
            // Kustomize gives a changed config another name, which is a rollout too.
            let of_rollouts = word == "annotations:" || word.starts_with("# Most of the config is read once");
            if !of_rollouts && !of_helm.iter().any(|key| word.starts_with(key)) {
                made.push_str(line);
                made.push('\n');
            }
        }
    }
    made
}

/// The base is the default chart without what is a provider's (rights and config) and what is Helm's.
#[tokio::test]
async fn the_base_is_made_of_the_default_chart() {
    let not_of_base = ["configmap.yaml", "rbac.yaml", "tests/check.yaml"];
    let base = without_helm(&rendered("default").await, |template| !not_of_base.contains(&template));
    committed(&folder().join("kustomize/base/gateway.yaml"), &base);
}

/// The component is what the chart has more with the operator, without rights and definitions.
#[tokio::test]
async fn the_component_is_made_of_the_chart_with_the_operator() {
    let copied = ["operator/rbac.yaml", "operator/crds.yaml"];
    for (component, more) in [
        (OPERATOR, &[][..]),
        (OPERATOR_OPENSANDBOX, &["--set", OF_OPENSANDBOX]),
        (OPERATOR_ENVIRONMENTS, &["--set", OF_ENVIRONMENTS]),
    ] {
        let arguments = [&["--set", "operator.enabled=true"], more].concat();
        let rendered = template(&arguments).await.expect("manifests");
        let made = without_helm(&rendered, |template| {
            template.starts_with("operator/") && !copied.contains(&template)
        });
        let folder = folder().join("kustomize/components").join(component);
        committed(&folder.join("operator.yaml"), &made);
    }
}

#[tokio::test]
async fn the_component_is_made_of_the_chart_with_the_manager() {
    let rendered = template(&["--set", "manager.enabled=true"]).await.expect("manifests");
    let component = without_helm(&rendered, |template| {
        template.starts_with("manager/") && template != "manager/rbac.yaml"
    });
    committed(&folder().join("kustomize/components/manager/manager.yaml"), &component);
}

#[tokio::test]
async fn the_component_is_made_of_the_chart_without_internet_and_an_overlay_takes_it() {
    let namespace = "manager.noInternetNamespaces={default}";
    let rendered = template(&["--set", "manager.enabled=true", "--set", namespace]).await.expect("manifests");
    let policy = without_helm(&rendered, |template| template == "manager/nointernet.yaml");
    let component = folder().join("kustomize/components/no-internet");
    committed(&component.join("networkpolicy.yaml"), &policy);

    // Kustomize takes no absolute path.
    let own = TempDir::with_prefix("sandgate-overlay-").expect("create a folder");
    let above = own.path().canonicalize().expect("a path").components().count() - 1;
    let from_here = |path: &Path| {
        format!("{}{}", "../".repeat(above), path.display().to_string().trim_start_matches('/'))
    };
    let overlay = json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [from_here(&folder().join("kustomize/overlays").join(MANAGER))],
        "components": [from_here(&component)],
    });
    fs::write(own.path().join("kustomization.yaml"), overlay.to_string()).expect("write");
    let built = tool("kustomize", &["build", own.path().to_str().expect("text")]).await;
    let built = normal(&built.unwrap_or_else(|e| panic!("{e}")));
    let (_, values) = OVERLAYS.into_iter().find(|(overlay, _)| *overlay == MANAGER).expect("an overlay");
    let chart = template(&[values, &["--set", namespace][..]].concat()).await.expect("manifests");
    assert_eq!(built, normal(&chart));
}

/// The components with rights of their own.
const COMPONENTS: [&str; 4] = [OPERATOR, OPERATOR_OPENSANDBOX, OPERATOR_ENVIRONMENTS, MANAGER];

/// Kustomize reads no file outside of its folder, so an overlay has the provider's rights as a copy, and a
/// component those of its program.
#[test]
fn the_rights_of_an_overlay_are_those_of_the_file() {
    let overlays = OVERLAYS.into_iter().map(|(overlay, _)| overlay);
    let overlays = overlays.filter(|overlay| !COMPONENTS.contains(overlay)).map(|name| ("overlays", name));
    for (part, name) in overlays.chain(COMPONENTS.map(|name| ("components", name))) {
        let rights = fs::read_to_string(folder().join("rbac").join(name).with_extension("yaml"));
        let copy = folder().join("kustomize").join(part).join(name).join("rbac.yaml");
        committed(&copy, &rights.expect("rights"));
    }
}

/// Objects by kind and name, without what only one of the two tools adds.
fn normal(manifests: &str) -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    for mut object in documents(manifests) {
        if object["metadata"]["annotations"]["helm.sh/hook"] == "test" || object["kind"] == "Namespace" {
            continue;
        }
        let metadata = object["metadata"].as_object_mut().expect("metadata");
        metadata.remove("labels");
        // `helm.sh/resource-policy` of a definition, which has no annotation of its own.
        metadata.remove("annotations");
        if let Some(template) = object.pointer_mut("/spec/template/metadata").and_then(Value::as_object_mut) {
            template.remove("annotations");
        }
        if object["kind"] == "ConfigMap" {
            let config = object["data"]["gateway.yaml"].as_str().expect("a config");
            object["data"]["gateway.yaml"] = serde_saphyr::from_str(config).expect("YAML");
        }
        // The name that Kustomize gives a ConfigMap has a hash of its content.
        let text = object.to_string();
        let hashed = text.split('"').find(|word| word.len() == 19 && word.starts_with("sandgate-"));
        let object: Value =
            match hashed.filter(|_| ["ConfigMap", "Deployment"].map(Value::from).contains(&object["kind"])) {
                Some(hashed) => serde_json::from_str(&text.replace(&format!("\"{hashed}\""), "\"sandgate\""))
                    .expect("JSON"),
                None => object,
            };
        let key = format!("{} {}", object["kind"], object["metadata"]["name"]);
        assert!(all.insert(key.clone(), object).is_none(), "{key} twice");
    }
    all
}

#[tokio::test]
async fn each_overlay_makes_the_objects_that_the_chart_makes() {
    for (provider, values) in OVERLAYS {
        let overlay = folder().join("kustomize/overlays").join(provider);
        let built = tool("kustomize", &["build", overlay.to_str().expect("text")]).await;
        let built = built.unwrap_or_else(|e| panic!("{provider}: {e}"));
        let (here, chart) = (normal(&built), normal(&template(values).await.expect("manifests")));
        assert_eq!(here.keys().collect::<Vec<_>>(), chart.keys().collect::<Vec<_>>(), "{provider}");
        for (name, object) in &here {
            assert_eq!(object, &chart[name], "{provider}: {name}");
        }
        // The name of the config has a hash in it wherever it stands, or a change of it would be no rollout.
        assert!(built.matches("name: sandgate-").count() > 1 && !built.contains("checksum/"), "{built}");
        let namespace = documents(&built).into_iter().find(|object| object["kind"] == "Namespace");
        let labels = namespace.expect("a namespace")["metadata"]["labels"].clone();
        assert_eq!(labels["pod-security.kubernetes.io/enforce"], json!("restricted"));
    }
}
