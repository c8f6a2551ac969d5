//! What `envoy/deploy` ships, and the tools that make it and judge it: Helm, Kustomize, kube-score.

mod audit;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;
use tokio::process::Command;
use tokio::time::timeout;

use crate::{DEADLINE, locations};

pub use crate::kubernetes::documents;
pub use audit::{Audit, granted};

/// The namespace that the manifests are for.
pub const NAMESPACE: &str = "sandgate-system";

/// The folder `envoy/deploy`.
pub fn folder() -> PathBuf {
    locations::repository().join("envoy/deploy")
}

/// A tool refused what it was given, and wrote this to standard error. A retry does not help.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Refused(pub String);

/// Runs one of the tools. Returns its standard output.
pub async fn tool(name: &str, arguments: &[&str]) -> Result<String, Refused> {
    let mut command = Command::new(locations::tools().join(name));
    command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    // The plugins and repositories of whoever runs the tests are none of theirs.
    for variable in ["HELM_CONFIG_HOME", "HELM_CACHE_HOME", "HELM_DATA_HOME", "HOME"] {
        command.env(variable, "/nonexistent");
    }
    let output = timeout(DEADLINE * 3, command.output()).await.expect("the tool ends within the deadline");
    let output = output.unwrap_or_else(|e| panic!("start {name}: {e}"));
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("a tool that writes text");
    if output.status.success() { Ok(text(output.stdout)) } else { Err(Refused(text(output.stderr))) }
}

/// What `helm template` makes of the chart with these arguments: all manifests, or why there are none.
pub async fn template(arguments: &[&str]) -> Result<String, Refused> {
    let (chart, version) = (folder().join("chart"), kubernetes_version());
    let chart = chart.to_str().expect("a path of text");
    let all = ["template", "sandgate", chart, "--namespace", NAMESPACE, "--kube-version", &version];
    tool("helm", &[&all[..], arguments].concat()).await
}

/// The Kubernetes of the scenarios, as `tests/cluster/go.mod` pins it.
pub fn kubernetes_version() -> String {
    let module = fs::read_to_string(locations::repository().join("tests/cluster/go.mod")).expect("go.mod");
    let pin = module.lines().find_map(|line| line.trim().strip_prefix("k8s.io/kubernetes v"));
    pin.expect("a pinned Kubernetes").to_owned()
}

/// Compares what was made with the file that is committed; with `SANDGATE_BLESS` writes the file.
pub fn committed(file: &Path, made: &str) {
    if std::env::var_os("SANDGATE_BLESS").is_some() {
        fs::create_dir_all(file.parent().expect("a folder")).expect("make the folder");
        fs::write(file, made).unwrap_or_else(|e| panic!("write {}: {e}", file.display()));
        return;
    }
    let there = fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    if there == made {
        return;
    }
    let differ = there.lines().zip(made.lines()).enumerate().find(|(_, (there, made))| there != made);
    panic!(
        "{} is not what is made now; `make deploy-rendered` writes it anew. First difference: {differ:?}; {} and {} lines",
        file.display(),
        there.lines().count(),
        made.lines().count(),
    );
}

/// The object of a kind and name.
///
/// # Panics
/// When there is none.
pub fn object<'a>(objects: &'a [Value], kind: &str, name: &str) -> &'a Value {
    let found = objects.iter().find(|object| object["kind"] == kind && object["metadata"]["name"] == name);
    found.unwrap_or_else(|| panic!("no {kind} {name}"))
}
