//! The Jobs that commit containers, and what they say when they are done.

use std::collections::BTreeMap;

use sandgate_objects::opensandbox::names;
use sandgate_objects::opensandbox::resources::{ContainerSnapshot, SandboxSnapshot};
use serde::Deserialize;
use serde_json::{Value, json};

use super::SnapshotSettings;
use super::observe::{commit_job, unpause_job};
use crate::view::Seen;

/// The container of a Job, whose last words are the result.
pub(super) const CONTAINER: &str = "commit";
/// Where the Job's container finds the socket of containerd, wherever the node has it.
const SOCKET: &str = "/var/run/containerd/containerd.sock";
/// What a label may have at most.
const MAX_LABEL: usize = 63;

/// What is to be committed.
#[derive(Clone, Copy, Debug)]
pub struct CommitWork<'a> {
    /// The snapshot.
    pub snapshot: &'a Seen<SandboxSnapshot>,
    /// The pod.
    pub pod: &'a str,
    /// Its node.
    pub node: &'a str,
    /// Its containers, each with the image that it is kept as.
    pub containers: &'a [ContainerSnapshot],
}

/// Makes the Jobs of snapshots. The name, the namespace and the controller of a Job are not its choice.
pub trait Committer: Send + Sync + 'static {
    /// The Job that commits and pushes. Its container [`commit`](CONTAINER) ends with a message that
    /// [`digests`](Self::digests) reads.
    fn commit(&self, work: CommitWork<'_>) -> Value;

    /// The Job that lets the containers go on after a commit that failed.
    fn unpause(&self, work: CommitWork<'_>) -> Value;

    /// The digests of the images, by container, of the message that the Job ended with.
    fn digests(&self, message: &str) -> BTreeMap<String, String>;
}

/// OpenSandbox's `image-committer`, by containerd's socket.
#[derive(Clone, Debug)]
pub struct ImageCommitter(pub SnapshotSettings);

#[derive(Deserialize)]
struct Said {
    #[serde(default)]
    containers: Vec<SaidOf>,
}

#[derive(Deserialize)]
struct SaidOf {
    name: String,
    #[serde(default)]
    digest: String,
}

impl Committer for ImageCommitter {
    fn commit(&self, work: CommitWork<'_>) -> Value {
        let images = work.containers.iter().map(|it| format!("{}:{}", it.container_name, it.image_uri));
        let args = [work.pod.to_owned(), work.snapshot.key.namespace.to_string()];
        let mut env = vec![json!({"name": "CONTAINERD_SOCKET", "value": SOCKET})];
        if self.0.registry_insecure {
            env.push(json!({"name": "SNAPSHOT_REGISTRY_INSECURE", "value": "true"}));
        }
        let mut job = self.job(&work, 3, &args.into_iter().chain(images).collect::<Vec<_>>(), &env);
        job["metadata"]["name"] = (&*commit_job(&work.snapshot.key).name).into();
        if let Some(secret) = self.0.push_secret.as_deref().filter(|secret| !secret.is_empty()) {
            let spec = &mut job["spec"]["template"]["spec"];
            push(
                &mut spec["volumes"],
                json!({
                    "name": "registry-creds",
                    "secret": {
                        "secretName": secret,
                        "items": [{"key": ".dockerconfigjson", "path": "config.json"}],
                    },
                }),
            );
            push(
                &mut spec["containers"][0]["volumeMounts"],
                json!({
                    "name": "registry-creds", "mountPath": "/var/run/opensandbox/registry", "readOnly": true,
                }),
            );
        }
        job
    }

    fn unpause(&self, work: CommitWork<'_>) -> Value {
        let args = ["unpause".to_owned(), work.pod.to_owned(), work.snapshot.key.namespace.to_string()];
        let containers = work.containers.iter().map(|it| it.container_name.clone());
        let env = [json!({"name": "CONTAINERD_SOCKET", "value": SOCKET})];
        let mut job = self.job(&work, 0, &args.into_iter().chain(containers).collect::<Vec<_>>(), &env);
        job["metadata"]["name"] = (&*unpause_job(&work.snapshot.key).name).into();
        job
    }

    fn digests(&self, message: &str) -> BTreeMap<String, String> {
        let said: Option<Said> = serde_json::from_str(message.trim()).ok();
        let all = said.map(|said| said.containers).unwrap_or_default().into_iter();
        all.filter(|it| !it.digest.is_empty()).map(|it| (it.name, it.digest)).collect()
    }
}

fn push(list: &mut Value, value: Value) {
    if let Some(list) = list.as_array_mut() {
        list.push(value);
    }
}

impl ImageCommitter {
    fn job(&self, work: &CommitWork<'_>, tries: u32, args: &[String], env: &[Value]) -> Value {
        let key = &work.snapshot.key;
        let mut labels = json!({names::LABEL_PRIVILEGED: "true"});
        if key.name.len() <= MAX_LABEL {
            labels[names::LABEL_SNAPSHOT_NAME] = (&*key.name).into();
        }
        let mut job = json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "namespace": &*key.namespace,
                "labels": labels,
                "ownerReferences": [{
                    "apiVersion": names::API_VERSION,
                    "kind": "SandboxSnapshot",
                    "name": &*key.name,
                    "uid": &*work.snapshot.uid,
                    "controller": true,
                    "blockOwnerDeletion": true,
                }],
            },
            "spec": {
                "backoffLimit": tries,
                "ttlSecondsAfterFinished": 300,
                "activeDeadlineSeconds": self.0.commit_timeout.as_secs(),
                "template": {
                    "spec": {
                        "restartPolicy": "Never",
                        // The node of the containers, whatever the scheduler thinks of it.
                        "nodeName": work.node,
                        "containers": [{
                            "name": CONTAINER,
                            "image": self.0.committer_image,
                            "imagePullPolicy": "IfNotPresent",
                            "command": ["/usr/local/bin/image-committer"],
                            "args": args,
                            "env": env,
                            "securityContext": {
                                "runAsUser": 0,
                                "allowPrivilegeEscalation": false,
                                "capabilities": {"drop": ["ALL"]},
                            },
                            "volumeMounts": [{"name": "containerd-sock", "mountPath": SOCKET}],
                        }],
                        "volumes": [{"name": "containerd-sock", "hostPath": {"path": self.0.containerd_socket}}],
                    },
                },
            },
        });
        if let Some(secret) = &self.0.pull_secret {
            job["spec"]["template"]["spec"]["imagePullSecrets"] = json!([{"name": secret}]);
        }
        job
    }
}
