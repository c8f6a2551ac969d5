//! The limit: the operator's writes for a set, without an operator.
//!
//! For each sandbox, with the operator's bodies ([`Mould`]) and its client library:
//! 1. the sandbox is created. These go out as the operator's do: 16 at a time, then 32, 64, 128 and 256 when
//!    all of the last batch are answered, then 16 again;
//! 2. its pod is created, and the first status is written, by one of as many workers as the operator has for
//!    sandboxes ([`WORKERS`]);
//! 3. the last status is written by one of the same workers once the pod is seen to be ready, by a watch of
//!    the pods that the operator has too.
//!
//! It decides nothing and knows nothing: no watch of sandboxes, sets or templates, no cache, no status of the
//! set, no revision of it, no events. The set itself is there, as an object, since the garbage collector
//! would take sandboxes without it.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::TryStreamExt as _;
use futures_util::future::join_all;
use http::Request;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, WatchParams};
use serde_json::Value;
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;

use crate::mould::{Identity, Mould, text};
use crate::observer::{FROM_NOTHING, shown};

/// The operator's `--workers`.
pub(crate) const WORKERS: usize = 8;
/// The operator's batches.
const BATCHES: [usize; 5] = [16, 32, 64, 128, 256];
/// What the operator watches of the pods.
const PODS: &str = "agents.kruise.io/created-by=sandbox";

/// Makes one set's sandboxes. Clones are the same.
#[derive(Clone)]
pub(crate) struct Bare {
    pub(crate) client: Client,
    pub(crate) mould: Arc<Mould>,
    pub(crate) namespace: String,
    pub(crate) set_uid: String,
}

/// A sandbox on its way.
struct Sandbox {
    identity: Identity,
    version: String,
}

enum Work {
    /// The sandbox was created.
    Pod(Sandbox),
    /// Its pod is ready and has this address.
    Ready(Sandbox, String),
}

/// Sandboxes that wait for their pod, and pods that wait for theirs: whichever comes first.
#[derive(Default)]
struct Meeting {
    sandboxes: BTreeMap<String, Sandbox>,
    addresses: BTreeMap<String, String>,
}

impl Bare {
    /// Makes so many, and returns when everything is answered.
    pub(crate) async fn run(&self, count: usize) {
        let (queue, work) = mpsc::unbounded_channel();
        let (work, meeting) = (Arc::new(Mutex::new(work)), Arc::new(Mutex::new(Meeting::default())));
        let watch = self.watch_pods(queue.clone(), Arc::clone(&meeting));
        let mut workers = JoinSet::new();
        let left = Arc::new(std::sync::atomic::AtomicUsize::new(count));
        for _ in 0..WORKERS {
            let (this, work, meeting, left) = (self.clone(), work.clone(), meeting.clone(), left.clone());
            let queue = queue.clone();
            workers.spawn(async move {
                loop {
                    let next = work.lock().await.recv().await;
                    match next.expect("the queue stays open") {
                        Work::Pod(sandbox) => this.begin(sandbox, &meeting, &queue).await,
                        Work::Ready(sandbox, ip) => {
                            this.finish(sandbox, ip).await;
                            left.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
                        }
                    }
                }
            });
        }
        self.create_sandboxes(count, &queue).await;
        while left.load(std::sync::atomic::Ordering::Relaxed) > 0 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        watch.abort();
        workers.shutdown().await;
    }

    async fn create_sandboxes(&self, count: usize, queue: &mpsc::UnboundedSender<Work>) {
        let mut names = (0..count).map(|number| format!("{}-{number:05}", crate::site::SET)).peekable();
        for size in BATCHES.iter().cycle() {
            if names.peek().is_none() {
                return;
            }
            let batch: Vec<String> = names.by_ref().take(*size).collect();
            join_all(batch.into_iter().map(|name| async {
                let mut identity = Identity { set_uid: self.set_uid.clone(), name, ..Identity::default() };
                let made = self.post(SANDBOXES, self.mould.sandbox(&identity)).await;
                identity.uid = text(&made["metadata"]["uid"]);
                let version = text(&made["metadata"]["resourceVersion"]);
                let _open = queue.send(Work::Pod(Sandbox { identity, version }));
            }))
            .await;
        }
    }

    /// The pod, and the first status.
    async fn begin(
        &self,
        mut sandbox: Sandbox,
        meeting: &Mutex<Meeting>,
        queue: &mpsc::UnboundedSender<Work>,
    ) {
        let pod = self.post(PODS_PATH, self.mould.pod(&sandbox.identity)).await;
        sandbox.identity.pod_uid = text(&pod["metadata"]["uid"]);
        self.write_status(&mut sandbox, 0).await;
        let mut meeting = meeting.lock().await;
        match meeting.addresses.remove(&sandbox.identity.name) {
            Some(ip) => drop(queue.send(Work::Ready(sandbox, ip))),
            None => drop(meeting.sandboxes.insert(sandbox.identity.name.clone(), sandbox)),
        }
    }

    async fn finish(&self, mut sandbox: Sandbox, ip: String) {
        sandbox.identity.pod_ip = ip;
        for number in 1..self.mould.statuses() {
            self.write_status(&mut sandbox, number).await;
        }
    }

    async fn write_status(&self, sandbox: &mut Sandbox, number: usize) {
        let path = format!("{}/{}/status", self.path(SANDBOXES), sandbox.identity.name);
        let body = self.mould.status(number, &sandbox.identity, &sandbox.version);
        let request = Request::patch(format!("{path}?fieldManager=bare"))
            .header("content-type", "application/merge-patch+json");
        let answer = self.send(request.body(body.into_bytes()).expect("a request")).await;
        sandbox.version = text(&answer["metadata"]["resourceVersion"]);
    }

    async fn post(&self, plural: (&str, &str), body: String) -> Value {
        let request = Request::post(format!("{}?fieldManager=bare", self.path(plural)))
            .header("content-type", "application/json");
        self.send(request.body(body.into_bytes()).expect("a request")).await
    }

    async fn send(&self, request: Request<Vec<u8>>) -> Value {
        let answer = self.client.request_text(request).await;
        let answer = answer.unwrap_or_else(|error| panic!("a write of the bare loop: {error}"));
        serde_json::from_str(&answer).expect("JSON")
    }

    fn path(&self, (root, plural): (&str, &str)) -> String {
        format!("{root}/namespaces/{}/{plural}", self.namespace)
    }

    fn watch_pods(
        &self,
        queue: mpsc::UnboundedSender<Work>,
        meeting: Arc<Mutex<Meeting>>,
    ) -> tokio::task::JoinHandle<()> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Pod"));
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &self.namespace, &resource);
        tokio::spawn(async move {
            let events =
                api.watch(&WatchParams::default().labels(PODS), FROM_NOTHING).await.expect("a watch");
            let mut events = std::pin::pin!(events);
            let mut seen = std::collections::BTreeSet::new();
            while let Some(event) = events.try_next().await.expect("an event") {
                let Some(pod) = shown(event) else { continue };
                let name = pod.metadata.name.unwrap_or_default();
                if !is_ready(&pod.data["status"]) || !seen.insert(name.clone()) {
                    continue;
                }
                let ip = text(&pod.data["status"]["podIP"]);
                let mut meeting = meeting.lock().await;
                match meeting.sandboxes.remove(&name) {
                    Some(sandbox) => drop(queue.send(Work::Ready(sandbox, ip))),
                    None => drop(meeting.addresses.insert(name, ip)),
                }
            }
        })
    }
}

const SANDBOXES: (&str, &str) = ("/apis/agents.kruise.io/v1alpha1", "sandboxes");
const PODS_PATH: (&str, &str) = ("/api/v1", "pods");

fn is_ready(status: &Value) -> bool {
    let conditions = status["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == "True")
}
