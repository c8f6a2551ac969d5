//! Strategic merge patches, held against kubectl: the record that the operator's patches are tested with says
//! what kubectl does.

use std::fs;
use std::process::{Command, Stdio};

use sandgate_tests::{Cli, locations};
use serde_json::{Value, json};

/// One case, as the record has it.
fn cases() -> Vec<Value> {
    let text = include_str!("../../../controller/operator/tests/strategic_merge/cases.json");
    serde_json::from_str(text).expect("the cases are JSON")
}

/// What kubectl makes of it, without what names the kind. None if it refuses.
async fn by_kubectl(folder: &std::path::Path, pod: &Value, patch: &Value) -> Option<Value> {
    let of_a_pod = |value: &Value| {
        let mut value = value.clone();
        value["apiVersion"] = json!("v1");
        value["kind"] = json!("Pod");
        value.to_string()
    };
    let file = folder.join("pod.json");
    fs::write(&file, of_a_pod(pod)).expect("write the pod");
    let mut command = Command::new(locations::cluster());
    command.args(["kubectl", "patch", "--local", "--type=strategic", "--output=json", "--filename"]);
    command.arg(file).arg("--patch").arg(of_a_pod(patch));
    command.env("HOME", folder).env("KUBECONFIG", folder.join("none")).stdin(Stdio::null());
    let done = Cli::finish(command).await;
    if done.code != Some(0) {
        assert!(done.stderr.starts_with("error: "), "kubectl refuses with a reason: {}", done.stderr);
        return None;
    }
    let mut patched: Value = serde_json::from_str(&done.stdout).expect("kubectl prints JSON");
    let fields = patched.as_object_mut().expect("a pod");
    fields.retain(|name, _| !matches!(&**name, "apiVersion" | "kind"));
    Some(patched)
}

#[tokio::test]
async fn kubectl_does_what_the_record_of_strategic_merge_patches_says() {
    let folder = tempfile::tempdir().expect("a folder");
    for case in cases() {
        let is = by_kubectl(folder.path(), &case["pod"], &case["patch"]).await;
        let recorded = match case.get("kubectl") {
            Some(Value::String(refuses)) if refuses == "refuses" => None,
            Some(other) => Some(other),
            None => case.get("expected"),
        };
        assert_eq!(is.as_ref(), recorded, "{}", case["case"]);
    }
}
