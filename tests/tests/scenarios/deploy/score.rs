//! kube-score, and why it is not obeyed where it is not.

use std::collections::BTreeSet;

use sandgate_tests::deploy::{folder, kubernetes_version, tool};
use serde_json::Value;

use super::{SETUPS, file};

/// Below this a check has failed; kube-score calls 1 critical, 5 a warning, 7 almost good and 10 good.
const GOOD: u64 = 10;

/// The checks that fail for an object of a setup: `(check, kind)`.
async fn findings(setup: &str) -> BTreeSet<(String, String)> {
    let manifests = folder().join("rendered").join(setup).with_extension("yaml");
    let manifests = manifests.to_str().expect("a path of text");
    let version = kubernetes_version();
    let minor = version.rsplit_once('.').expect("three parts").0;
    let arguments =
        ["score", "--kubernetes-version", &format!("v{minor}"), "--output-format", "json", manifests];
    // It fails when it finds something, and says on standard output what.
    let line = format!(
        "{} {} || true",
        sandgate_tests::locations::tools().join("kube-score").display(),
        arguments.join(" ")
    );
    let done = sandgate_tests::Cli::shell(&line).await;
    let objects: Value =
        serde_json::from_str(&done.stdout).unwrap_or_else(|e| panic!("{e}: {}", done.stderr));
    let mut found = BTreeSet::new();
    for object in objects.as_array().expect("a list of objects") {
        for check in object["checks"].as_array().expect("a list of checks") {
            if check["skipped"] == false && check["grade"].as_u64().expect("a grade") < GOOD {
                let text = |value: &Value| value.as_str().expect("text").to_owned();
                found.insert((text(&check["check"]["id"]), text(&object["type_meta"]["kind"])));
            }
        }
    }
    found
}

#[tokio::test]
async fn kube_score_finds_nothing_that_is_not_explained_and_no_explanation_is_left_over() {
    let exceptions: Value = serde_saphyr::from_str(&file("envoy/deploy/kube-score.yaml")).expect("YAML");
    let mut explained = BTreeSet::new();
    for exception in exceptions["exceptions"].as_array().expect("a list") {
        assert!(
            exception["reason"].as_str().is_some_and(|reason| reason.len() > 40),
            "no reason: {exception}"
        );
        for kind in exception["kinds"].as_array().expect("kinds") {
            let text = |value: &Value| value.as_str().expect("text").to_owned();
            explained.insert((text(&exception["check"]), text(kind)));
        }
    }
    let mut found = BTreeSet::new();
    for setup in SETUPS {
        found.extend(findings(setup).await);
    }
    assert_eq!(
        found, explained,
        "left: what kube-score finds; right: what envoy/deploy/kube-score.yaml explains"
    );
}

/// The test above would be content with a kube-score that finds nothing at all.
#[tokio::test]
async fn kube_score_is_the_real_one() {
    let checks = tool("kube-score", &["list"]).await.expect("a list of checks");
    assert!(checks.lines().count() > 30, "{checks}");
}
