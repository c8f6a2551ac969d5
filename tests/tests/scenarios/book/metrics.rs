//! The pages about metrics, beside the metrics of a running gateway and the lists of the operator's and the
//! manager's.

use std::collections::BTreeSet;

use sandgate_tests::Gateway;
use sandgate_tests::book::Page;
use sandgate_tests::kubernetes::{ApiServer, Kind};
use serde_json::{Value, json};

use super::blocks;
use super::programs::PROGRAMS;

/// The names that begin so in a text.
pub(super) fn names(text: &str, prefix: &str) -> BTreeSet<String> {
    let ends = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
    let found = text.match_indices(prefix).map(|(at, _)| &text[at + prefix.len()..]);
    found
        .map(|rest| rest.split(ends).next().unwrap_or_default().to_owned())
        .filter(|name| !name.is_empty())
        .collect()
}

/// The metrics of a gateway that has every source, without the prefix `sandgate.`.
async fn of_a_gateway() -> BTreeSet<String> {
    let api = ApiServer::shared().await;
    let namespace = api.namespace("book").await;
    let provider = json!({ "kind": "openkruise", "namespaces": [namespace] });
    let gateway = Gateway::builder()
        .kubernetes(&api.admin_kubeconfig(), &json!([provider]))
        .refresh(json!({ "insecure": true, "provider": Kind::OpenKruise.provider() }))
        .setting("auth", json!({ "token-review": { "audiences": ["sandgate"] } }))
        .start()
        .await;
    let stats = gateway.admin("/stats").await;
    names(&format!("\n{}", stats.text()), "\nsandgate.")
}

#[tokio::test]
async fn the_page_names_every_metric_and_no_other() {
    let (real, page) = (of_a_gateway().await, Page::read("envoy/docs/metrics.md"));
    let named = names(&page.prose(), "`sandgate.");
    let (missing, made_up): (Vec<_>, Vec<_>) =
        (real.difference(&named).collect(), named.difference(&real).collect());
    assert!(
        missing.is_empty() && made_up.is_empty(),
        "not on the page: {missing:?}; no metrics: {made_up:?}"
    );
    for block in blocks("yaml", "alerts") {
        let rules: Value =
            serde_saphyr::from_str(&block.text).unwrap_or_else(|e| panic!("{}: {e}", block.place));
        let groups = rules["groups"].as_array().unwrap_or_else(|| panic!("{}: no groups", block.place));
        let rules = groups.iter().flat_map(|group| group["rules"].as_array().expect("rules"));
        for rule in rules {
            let (alert, expression) = (&rule["alert"], rule["expr"].as_str().expect("an expression"));
            let metrics = names(expression, "envoy_sandgate_");
            let mut named = metrics.len();
            for metric in metrics {
                assert!(real.contains(&metric), "{}: {alert}: no metric {metric}", block.place);
            }
            for program in PROGRAMS {
                for metric in names(expression, program.prefix) {
                    assert!(program.serves(&metric), "{}: {alert}: no metric {metric}", block.place);
                    named += 1;
                }
            }
            assert!(named > 0, "{alert} names no metric of Sandgate's");
            assert!(rule["annotations"]["summary"].is_string(), "{alert} says nothing");
        }
    }
}
