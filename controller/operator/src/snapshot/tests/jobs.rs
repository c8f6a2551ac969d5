//! The Jobs, field by field.

use std::collections::BTreeMap;

use sandgate_objects::opensandbox::resources::{ContainerSnapshot, SandboxSnapshot};
use serde_json::{Value, json};

use crate::snapshot::SnapshotSettings;
use crate::snapshot::job::{CommitWork, Committer, ImageCommitter};
use crate::view::{Seen, Viewed as _};

fn snapshot(name: &str) -> Seen<SandboxSnapshot> {
    let object = json!({
        "metadata": {"name": name, "namespace": "n", "uid": "u", "resourceVersion": "7"},
        "spec": {"sandboxName": "b"},
    });
    SandboxSnapshot::read(object.to_string().as_bytes()).unwrap()
}

fn containers() -> Vec<ContainerSnapshot> {
    let one = |name: &str| ContainerSnapshot {
        container_name: name.to_owned(),
        image_uri: format!("r/b-{name}:t"),
        image_digest: None,
    };
    vec![one("main"), one("side")]
}

fn made(settings: SnapshotSettings, make: fn(&ImageCommitter, CommitWork<'_>) -> Value) -> Value {
    let (snapshot, containers) = (snapshot("s"), containers());
    let work = CommitWork { snapshot: &snapshot, pod: "b-0", node: "node-7", containers: &containers };
    make(&ImageCommitter(settings), work)
}

fn whole() -> SnapshotSettings {
    SnapshotSettings {
        registry: Some("r".to_owned()),
        registry_insecure: true,
        committer_image: "committer:1".to_owned(),
        containerd_socket: "/run/c.sock".to_owned(),
        commit_timeout: std::time::Duration::from_secs(90),
        push_secret: Some("push".to_owned()),
        pull_secret: Some("pull".to_owned()),
    }
}

#[test]
fn the_job_that_commits_is_opensandboxs() {
    assert_eq!(
        made(whole(), ImageCommitter::commit),
        json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": "s-commit",
                "namespace": "n",
                "labels": {
                    "sandbox.opensandbox.io/sandbox-snapshot-name": "s",
                    "sandbox.opensandbox.io/privileged-node-access": "true",
                },
                "ownerReferences": [{
                    "apiVersion": "sandbox.opensandbox.io/v1alpha1", "kind": "SandboxSnapshot", "name": "s",
                    "uid": "u", "controller": true, "blockOwnerDeletion": true,
                }],
            },
            "spec": {
                "backoffLimit": 3,
                "ttlSecondsAfterFinished": 300,
                "activeDeadlineSeconds": 90,
                "template": {"spec": {
                    "restartPolicy": "Never",
                    "nodeName": "node-7",
                    "imagePullSecrets": [{"name": "pull"}],
                    "containers": [{
                        "name": "commit",
                        "image": "committer:1",
                        "imagePullPolicy": "IfNotPresent",
                        "command": ["/usr/local/bin/image-committer"],
                        "args": ["b-0", "n", "main:r/b-main:t", "side:r/b-side:t"],
                        "env": [
                            {"name": "CONTAINERD_SOCKET", "value": "/var/run/containerd/containerd.sock"},
                            {"name": "SNAPSHOT_REGISTRY_INSECURE", "value": "true"},
                        ],
                        "securityContext": {
                            "runAsUser": 0, "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]},
                        },
                        "volumeMounts": [
                            {
                                "name": "containerd-sock",
                                "mountPath": "/var/run/containerd/containerd.sock",
                            },
                            {
                                "name": "registry-creds", "mountPath": "/var/run/opensandbox/registry",
                                "readOnly": true,
                            },
                        ],
                    }],
                    "volumes": [
                        {"name": "containerd-sock", "hostPath": {"path": "/run/c.sock"}},
                        {"name": "registry-creds", "secret": {
                            "secretName": "push", "items": [{"key": ".dockerconfigjson", "path": "config.json"}],
                        }},
                    ],
                }},
            },
        })
    );
}

#[test]
fn without_credentials_and_with_tls_there_is_less_of_it() {
    let settings =
        SnapshotSettings { registry_insecure: false, push_secret: None, pull_secret: None, ..whole() };
    let spec = &made(settings, ImageCommitter::commit)["spec"]["template"]["spec"];
    assert_eq!(spec.get("imagePullSecrets"), None);
    assert_eq!(spec["volumes"].as_array().unwrap().len(), 1);
    assert_eq!(spec["containers"][0]["env"].as_array().unwrap().len(), 1);
    assert_eq!(spec["containers"][0]["volumeMounts"].as_array().unwrap().len(), 1);
}

#[test]
fn the_job_that_lets_containers_go_on_is_tried_once_and_cannot_push() {
    let job = made(whole(), ImageCommitter::unpause);
    assert_eq!((&job["metadata"]["name"], &job["spec"]["backoffLimit"]), (&json!("s-unpause"), &json!(0)));
    let spec = &job["spec"]["template"]["spec"];
    assert_eq!(spec["imagePullSecrets"], json!([{"name": "pull"}]));
    assert_eq!(spec["containers"][0]["args"], json!(["unpause", "b-0", "n", "main", "side"]));
    assert_eq!(spec["volumes"].as_array().unwrap().len(), 1);
}

#[test]
fn digests_are_read_as_far_as_they_can_be() {
    let committer = ImageCommitter(whole());
    let both = r#" {"containers":[{"name":"a","image":"i","digest":"sha256:1"},{"name":"b"}]}"#;
    assert_eq!(committer.digests(both), BTreeMap::from([("a".to_owned(), "sha256:1".to_owned())]));
    for nothing in ["", "{}", "pushed", "[1]", "{\"containers\":null}"] {
        assert_eq!(committer.digests(nothing), BTreeMap::new(), "{nothing}");
    }
}
