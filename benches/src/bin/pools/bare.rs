//! The limit: the patches of allocations, without an operator.
//!
//! For each batch, as many at a time as the operator's own limit ([`AT_A_TIME`]), each patch for the version
//! that was read:
//! 1. the pod is claimed: annotation and label;
//! 2. the batch gets the pod, its endpoint and the finalizer.
//!
//! The lists of both are read before the clock starts. It decides nothing and watches nothing. The status of
//! the batch, which the operator writes as well, is written after the two only if that is asked for.

use futures_util::stream::{self, StreamExt as _};
use http::Request;
use kube::Client;
use sandgate_tests::cluster::Resource;
use serde_json::{Value, json};

use crate::site::Site;

/// The operator's `SYNC_SANDBOX_ALLOC_CONCURRENCY`.
const AT_A_TIME: usize = 256;

const GROUP: &str = "/apis/sandbox.opensandbox.io/v1alpha1";

/// Everything that is needed to give each batch a pod.
pub(crate) struct Bare {
    client: Client,
    namespace: String,
    batches: Vec<Value>,
    pods: Vec<Value>,
    writes_statuses: bool,
}

impl Bare {
    /// Reads batches and pods.
    pub(crate) async fn prepare(site: &Site, namespace: &str, writes_statuses: bool) -> Self {
        let batches = site.cluster.objects(Resource::BatchSandbox, namespace).list().await;
        let pods = site.cluster.objects(Resource::Pod, namespace).list().await;
        // A client of its own, as the operator has.
        let client = site.cluster.api().client_with(site.cluster.api().admin_token()).await;
        Self { client, namespace: namespace.to_owned(), batches, pods, writes_statuses }
    }

    /// Gives each batch a pod, and returns when everything is answered.
    pub(crate) async fn run(self) {
        let this = &self;
        let each = |(batch, pod)| async move { this.allocate(batch, pod).await };
        stream::iter(this.batches.iter().zip(&this.pods)).for_each_concurrent(AT_A_TIME, each).await;
    }

    async fn allocate(&self, batch: &Value, pod: &Value) {
        let (name, uid) = (text(batch, "name"), text(batch, "uid"));
        let (pod_name, ip) = (text(pod, "name"), pod["status"]["podIP"].as_str().unwrap_or_default());
        let claim = json!({ "metadata": {
            "resourceVersion": text(pod, "resourceVersion"),
            "annotations": { "sandgate.dev/allocated-to": format!("{uid}/{name}") },
            "labels": { "batch-sandbox.sandbox.opensandbox.io/name": name },
        }});
        self.patch("/api/v1", "pods", pod_name, &claim).await;
        let allocation = json!({ "metadata": {
            "resourceVersion": text(batch, "resourceVersion"),
            "annotations": {
                "sandbox.opensandbox.io/alloc-status": json!({ "pods": [pod_name] }).to_string(),
                "sandbox.opensandbox.io/endpoints": json!([ip]).to_string(),
            },
            "finalizers": ["pool.sandbox.opensandbox.io/pool-allocation"],
        }});
        let batch = self.patch(GROUP, "batchsandboxes", name, &allocation).await;
        if self.writes_statuses {
            let status = json!({
                "metadata": { "resourceVersion": text(&batch, "resourceVersion") },
                "status": {
                    "observedGeneration": 1, "replicas": 1, "allocated": 1, "ready": 1, "taskRunning": 0,
                    "taskSucceed": 0, "taskFailed": 0, "taskPending": 0, "taskUnknown": 0, "phase": "Succeed",
                    "conditions": [{
                        "type": "Ready", "status": "True", "reason": "PodsReady", "message": "",
                        "lastTransitionTime": "2026-01-01T00:00:00Z",
                    }],
                },
            });
            self.patch(GROUP, "batchsandboxes", &format!("{name}/status"), &status).await;
        }
    }

    async fn patch(&self, root: &str, plural: &str, name: &str, body: &Value) -> Value {
        let path = format!("{root}/namespaces/{}/{plural}/{name}?fieldManager=bare", self.namespace);
        let request = Request::patch(path).header("content-type", "application/merge-patch+json");
        let request = request.body(body.to_string().into_bytes()).expect("a request");
        let answer = self.client.request_text(request).await;
        let answer = answer.unwrap_or_else(|error| panic!("a write of the bare loop: {error}"));
        serde_json::from_str(&answer).expect("JSON")
    }
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}
