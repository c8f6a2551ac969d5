//! What `envoy/deploy` ships: the chart, the Kustomize folders, what they render, and what a real API server
//! says to it.

mod chart;
mod cluster;
mod kustomize;
mod manager;
mod operator;
mod score;

use std::fs;

use sandgate_tests::deploy::{folder, template};
use sandgate_tests::locations;

pub(crate) use cluster::dry_run;

/// The setups whose rendered manifests are committed: the default, and those with the values of
/// `envoy/deploy/setups`.
const SETUPS: [&str; 8] = [
    "default",
    "openkruise",
    "opensandbox",
    "agent-sandbox",
    OPERATOR,
    OPERATOR_OPENSANDBOX,
    MANAGER,
    ENVIRONMENTS,
];

/// The setup that has the operator beside the gateway.
const OPERATOR: &str = "operator";

/// The setup that has the operator for OpenSandbox's kinds beside the gateway.
const OPERATOR_OPENSANDBOX: &str = "operator-opensandbox";

/// The values that make the operator look after OpenSandbox's kinds.
const OF_OPENSANDBOX: &str = "operator.controllers={batchsandbox,pool,sandboxsnapshot}";

/// The component that has the operator for environments.
const OPERATOR_ENVIRONMENTS: &str = "operator-environments";

/// The values that make the operator look after environments.
const OF_ENVIRONMENTS: &str =
    "operator.controllers={sandboxenv,sandboxpool,pooladoption},operator.localClusterId=local";

/// The setup that has the manager beside both.
const MANAGER: &str = "manager";

/// The setup that has both for environments too.
const ENVIRONMENTS: &str = "environments";

/// The manifests of a setup.
async fn rendered(setup: &str) -> String {
    let values = folder().join("setups").join(setup).with_extension("yaml");
    let values = values.to_str().expect("a path of text");
    let arguments: &[&str] = if setup == "default" { &[] } else { &["--values", values] };
    template(arguments).await.unwrap_or_else(|e| panic!("{setup}: {e}"))
}

/// A file of the repository.
fn file(path: &str) -> String {
    let path = locations::repository().join(path);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}
