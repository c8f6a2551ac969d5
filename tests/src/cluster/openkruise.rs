//! A double of OpenKruise's own controllers of Sandbox and SandboxSet, for clusters that have them in the
//! place of our operator.
//!
//! It writes what theirs write, as far as others see it. What differs from our operator is the point of it:
//! - **Status.** All of it is one merge patch, without a version.
//! - **Pause.** The phase is `Paused` at once. `SandboxPaused` is `False` until the pod is gone, then `True`.
//!   `podInfo` keeps the address of the pod that is gone. The finalizer comes with the first pause.
//! - **Resume.** The phase is `Running` before the new pod is ready. Then the runtime is initialised, and
//!   only then the sandbox is ready.
//! - **Readiness.** A container that waits for anything, be it `ContainerCreating`, makes the reason
//!   `StartContainerFailed`. The reason stays until the pod is ready.
//! - **Time.** With the annotation of a retention a pause by `pauseTime` moves both deadlines. A sandbox that
//!   has failed stays, whatever its `shutdownTime` says.
//!
//! Not here: upgrades, updates of a pod, recycling, volumes, checkpoints, rolling updates and scaling down of
//! sets, rate limits, events. It follows no watch: it reads every object of its namespace again and again,
//! and remembers nothing.

mod status;

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use futures_util::future::join_all;
use http_body_util::Full;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::DeleteParams;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::{Cluster, Objects, Resource};
use crate::kubernetes::timestamp;
use crate::{Client, Request};
use status::{INITIALIZED, PAUSED, READY, RESUMED, Status};

/// Between two looks at everything.
const PACE: Duration = Duration::from_millis(50);
/// The port of a sandbox's runtime, and how long a call of it may take.
const RUNTIME: (u16, Duration) = (49983, Duration::from_secs(1));
/// What they take for ever.
const FOREVER: SignedDuration = SignedDuration::from_hours(100 * 365 * 24);

const API_VERSION: &str = "agents.kruise.io/v1alpha1";
const HASH: &str = "sandbox.agents.kruise.io/hash-immutable-part";
const RETENTION: &str = "agents.kruise.io/reserve-paused-sandbox-duration";

/// The double of one namespace. Dropping it ends it.
pub struct OpenKruise(JoinHandle<()>);

impl OpenKruise {
    pub(super) fn start(cluster: &Cluster, namespace: &str) -> Self {
        let of = |resource| cluster.objects(resource, namespace);
        let (sets, sandboxes) = (of(Resource::SandboxSet), of(Resource::Sandbox));
        Self(tokio::spawn(Controllers { sets, sandboxes, pods: of(Resource::Pod) }.run()))
    }

    /// Fails when it has ended by itself; the output has the reason.
    pub fn assert_alive(&self) {
        assert!(!self.0.is_finished(), "the double of OpenKruise's controllers has ended");
    }
}

impl Drop for OpenKruise {
    fn drop(&mut self) {
        self.0.abort();
    }
}

struct Controllers {
    sets: Objects,
    sandboxes: Objects,
    pods: Objects,
}

/// An object that is gone, or not as it was seen, is no failure: the next look decides anew.
fn written<T>(answer: kube::Result<T>) {
    match answer {
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
        Err(error) => panic!("the double of OpenKruise's controllers: {error}"),
        Ok(_) => {}
    }
}

impl Controllers {
    async fn run(self) {
        let mut looks = interval(PACE);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            let (sets, sandboxes, pods) =
                tokio::join!(self.sets.list(), self.sandboxes.list(), self.pods.list());
            for set in &sets {
                self.set(set, &sandboxes).await;
            }
            let pod = |seen| pods.iter().find(|pod| name(pod) == name(seen));
            join_all(sandboxes.iter().map(|seen| self.sandbox(seen, pod(seen)))).await;
        }
    }

    /// Fills a set. Sandboxes of it that have ended make room.
    async fn set(&self, set: &Value, sandboxes: &[Value]) {
        let revision = revision(&set["spec"]["template"]);
        let (mut kept, mut available) = (0, 0);
        for one in sandboxes {
            let owner = &one["metadata"]["ownerReferences"][0]["uid"];
            if *owner != set["metadata"]["uid"] || is_deleting(one) {
                continue;
            }
            let status = Status::of(one);
            if status.has_ended() {
                self.sandboxes.delete(name(one)).await;
                continue;
            }
            kept += 1;
            available += u64::from(status.phase() == "Running" && status.is(READY, "True"));
        }
        for _ in kept..set["spec"]["replicas"].as_u64().unwrap_or_default() {
            written(self.sandboxes.try_create(&warm(set, &revision)).await);
        }
        let status = json!({
            "observedGeneration": set["metadata"]["generation"],
            "replicas": kept, "availableReplicas": available,
            "updatedReplicas": kept, "updatedAvailableReplicas": available,
            "currentRevision": revision, "updateRevision": revision,
        });
        write(&self.sets, set, &status).await;
    }

    /// One reconcile of a sandbox.
    async fn sandbox(&self, seen: &Value, pod: Option<&Value>) {
        if is_deleting(seen) {
            match pod {
                Some(pod) if is_deleting(pod) => {}
                Some(pod) => self.pods.delete(name(pod)).await,
                None => self.keep(seen, false).await,
            }
            return;
        }
        let mut status = Status::of(seen);
        if status.has_ended() || self.is_due(seen).await {
            return;
        }
        if seen["metadata"]["annotations"][HASH].is_null() {
            let hash = revision(&seen["spec"]["template"]["spec"]);
            let patch = json!({ "metadata": { "annotations": { HASH: hash } } });
            written(self.sandboxes.try_patch(name(seen), &patch).await);
        }
        status.observe(&seen["metadata"]["generation"], &revision(&seen["spec"]["template"]));
        status.turn(seen["spec"]["paused"] == true, pod);
        let runs = pod.is_some_and(|pod| pod["status"]["phase"] == "Running" && !is_deleting(pod));
        match (status.phase(), pod) {
            ("Pending" | "Resuming", None) => self.make_pod(seen).await,
            ("Pending", Some(pod)) if runs => {
                status.enter("Running");
                status.show(pod);
            }
            ("Running", Some(pod)) => {
                if status.awaits_runtime() && is_ready(pod) && init(seen, pod).await {
                    status.put(INITIALIZED, "True", "Succeeded", "");
                }
                if !status.awaits_runtime() {
                    status.show(pod);
                }
            }
            ("Paused", pod) if !status.is(PAUSED, "True") => self.pause(seen, pod, &mut status).await,
            ("Resuming", Some(pod)) if runs => {
                status.enter("Running");
                status.place(pod);
                status.put(RESUMED, "True", "CreatePod", "");
                status.put(INITIALIZED, "False", "Pending", "");
                status.remove(PAUSED);
                self.keep(seen, false).await;
            }
            _ => {}
        }
        write(&self.sandboxes, seen, status.whole()).await;
    }

    async fn pause(&self, seen: &Value, pod: Option<&Value>, status: &mut Status) {
        if !status.is(PAUSED, "False") {
            status.put(PAUSED, "False", "Pending", "");
            self.keep(seen, true).await;
        }
        if status.is(READY, "True") {
            status.put(READY, "False", "PodReady", "");
        }
        match pod {
            None => status.put(PAUSED, "True", "StopPauseSucceed", ""),
            Some(pod) if is_deleting(pod) => {}
            Some(pod) => self.pods.delete_with(name(pod), &DeleteParams::default().grace_period(5)).await,
        }
    }

    /// Whether a deadline was due: then there is nothing else to do now.
    async fn is_due(&self, seen: &Value) -> bool {
        let (spec, now) = (&seen["spec"], Timestamp::now());
        let is_past = |field: &str| {
            spec[field].as_str().is_some_and(|at| at.parse::<Timestamp>().expect("a time") < now)
        };
        let retention = seen["metadata"]["annotations"][RETENTION].as_str();
        let pauses = spec["paused"] != true && is_past("pauseTime");
        if is_past("shutdownTime") && !(pauses && retention.is_some()) {
            self.sandboxes.delete(name(seen)).await;
            return true;
        }
        if pauses {
            let version = &seen["metadata"]["resourceVersion"];
            let mut patch = json!({ "metadata": { "resourceVersion": version }, "spec": { "paused": true } });
            if let (Some(kept), true) = (retention, spec["shutdownTime"].is_string()) {
                let kept = if kept == "forever" { FOREVER } else { kept.parse().expect("a duration") };
                let until = timestamp(SystemTime::from(now + kept));
                patch["spec"]["shutdownTime"] = until.as_str().into();
                patch["spec"]["pauseTime"] = until.into();
            }
            written(self.sandboxes.try_patch(name(seen), &patch).await);
        }
        pauses
    }

    async fn make_pod(&self, seen: &Value) {
        let template = &seen["spec"]["template"];
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": template["metadata"], "spec": template["spec"],
        });
        let metadata = &mut pod["metadata"];
        metadata["name"] = name(seen).into();
        metadata["labels"]["agents.kruise.io/created-by"] = "sandbox".into();
        metadata["labels"]["pod-template-hash"] = revision(template).into();
        metadata["annotations"]["agents.kruise.io/created-by"] = "sandbox".into();
        metadata["ownerReferences"] = json!([controller("Sandbox", seen)]);
        written(self.pods.try_create(&pod).await);
    }

    /// Sets or removes the finalizer.
    async fn keep(&self, seen: &Value, keeps: bool) {
        let finalizers = if keeps { json!(["agents.kruise.io/sandbox"]) } else { Value::Null };
        let patch = json!({ "metadata": { "finalizers": finalizers } });
        written(self.sandboxes.try_patch(name(seen), &patch).await);
    }
}

/// Writes a status, whole and without a version, if it is another one.
async fn write(objects: &Objects, seen: &Value, status: &Value) {
    if seen["status"] != *status {
        written(objects.try_patch_status(name(seen), &json!({ "status": status })).await);
    }
}

/// A sandbox of a set that nobody has claimed.
fn warm(set: &Value, revision: &str) -> Value {
    let (name, template) = (name(set), &set["spec"]["template"]);
    json!({
        "apiVersion": API_VERSION,
        "kind": "Sandbox",
        "metadata": {
            "generateName": format!("{name}-"),
            "labels": {
                "agents.kruise.io/sandbox-pool": name,
                "agents.kruise.io/sandbox-template": name,
                "agents.kruise.io/sandbox-claimed": "false",
                "agents.kruise.io/template-hash": revision,
            },
            "ownerReferences": [controller("SandboxSet", set)],
        },
        "spec": { "template": template },
    })
}

fn controller(kind: &str, object: &Value) -> Value {
    json!({
        "apiVersion": API_VERSION, "kind": kind, "name": name(object), "uid": object["metadata"]["uid"],
        "controller": true, "blockOwnerDeletion": true,
    })
}

/// Gives the runtime of a new pod what the last one was given.
async fn init(seen: &Value, pod: &Value) -> bool {
    let annotation = |name: &str| seen["metadata"]["annotations"][name].as_str();
    let Some(body) = annotation("agents.kruise.io/init-runtime-request") else { return true };
    let token = annotation("agents.kruise.io/runtime-access-token").unwrap_or_default();
    let request = Request::post("/init").header("content-type", "application/json");
    let request = request.header("x-access-token", token).body(Full::from(body.to_owned()));
    let ip: IpAddr = pod["status"]["podIP"].as_str().and_then(|ip| ip.parse().ok()).expect("an address");
    let (port, patience) = RUNTIME;
    let sent = async { Client::http1((ip, port).into()).await.ok()?.send(request).await.ok() };
    let answer = timeout(patience, sent).await.ok().flatten();
    answer.is_some_and(|answer| matches!(answer.status, 200..=299 | 401))
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().expect("a name")
}

fn is_deleting(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

fn is_ready(pod: &Value) -> bool {
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|one| one["type"] == READY && one["status"] == "True")
}

/// The hash of a template: FNV, as a label takes it.
fn revision(template: &Value) -> String {
    let step = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    format!("{:x}", template.to_string().bytes().fold(0x811c_9dc5, step))
}
