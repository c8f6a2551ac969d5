//! What becomes of a plan when the API server has another pod than the view.

use std::sync::Arc;

use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tower::service_fn;

use super::fixture::{Case, NOW, at};
use crate::sandbox::{Pauses, SandboxReconciler};
use crate::view::{Kind, View};
use crate::writes::Writes;
use crate::{
    Again, Category, Failed, Key, Leadership, ManualClock, Metrics, NoEvents, PodFacts, Reconciler as _,
};

/// A cluster in which a sandbox is known, and its pod may be.
struct Cluster {
    reconciler: SandboxReconciler,
    view: View,
    asked: Arc<Mutex<Vec<(Method, String, Value)>>>,
}

/// The view has `case`; the API server has this pod. Whatever is patched is answered as it was sent.
fn cluster(case: &Case, pod: Option<Value>) -> Cluster {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let (log, sandbox) = (Arc::clone(&asked), case.sandbox.clone());
    let service = service_fn(move |request: Request<Body>| {
        let (log, pod, mut sandbox) = (Arc::clone(&log), pod.clone(), sandbox.clone());
        async move {
            let (head, body) = request.into_parts();
            let body: Value =
                serde_json::from_slice(&body.collect_bytes().await.unwrap()).unwrap_or_default();
            let path = head.uri.path().to_owned();
            log.lock().push((head.method.clone(), path.clone(), body.clone()));
            let (code, answer) = match (head.method, path.contains("/pods/"), pod) {
                (Method::PATCH, true, Some(mut pod)) => {
                    pod["metadata"]["labels"] = body["metadata"]["labels"].clone();
                    pod["metadata"]["resourceVersion"] = json!("90");
                    (200, pod)
                }
                (Method::PATCH, false, _) => {
                    sandbox["metadata"]["resourceVersion"] = json!("91");
                    (200, sandbox)
                }
                (_, true, Some(pod)) => (200, pod),
                _ => (404, json!({"kind": "Status", "code": 404, "reason": "NotFound", "message": "none"})),
            };
            let response = Response::builder().status(code).body(Body::from(answer.to_string().into_bytes()));
            Ok::<_, std::convert::Infallible>(response.unwrap())
        }
    });
    let view = View::new(Box::new(|_, _, _| {}));
    view.observe_json(Kind::Sandbox, case.sandbox.to_string().as_bytes()).unwrap();
    if let Some(pod) = &case.pod {
        view.observe_json(Kind::Pod, pod.to_string().as_bytes()).unwrap();
    }
    let metrics = Metrics::default();
    let writes = Writes::new(Client::new(service, "n"), view.clone(), Leadership::always(), metrics.writes);
    let clock = Arc::new(ManualClock::new(at(NOW)));
    let reconciler =
        SandboxReconciler::new(view.clone(), writes, Arc::new(NoEvents), clock, Pauses::default());
    Cluster { reconciler, view, asked }
}

impl Cluster {
    async fn look(&self) -> Result<Again, Failed> {
        self.reconciler.reconcile(&Key::new("n", "s")).await
    }

    /// The phase that the status was given, if it was written.
    fn phase(&self) -> Option<Value> {
        let asked = self.asked.lock();
        let status =
            asked.iter().find(|(method, path, _)| method == Method::PATCH && path.ends_with("/status"));
        status.map(|(_, _, body)| body["status"]["phase"].clone())
    }
}

/// A sandbox that runs, with its template inline, as the API server has it.
fn running() -> Case {
    Case::in_phase("Running").set("/spec/template", super::fixture::template())
}

#[tokio::test]
async fn the_pod_of_before_a_pause_is_not_shown_when_the_api_server_has_another() {
    let case = running();
    let now = case.pod.clone().unwrap();
    let lagging = case.pod("/metadata/uid", json!("before")).pod("/metadata/resourceVersion", json!("5"));
    let cluster = cluster(&lagging, Some(now));
    assert_eq!(cluster.look().await.unwrap_err().category, Category::Conflict);
    assert_eq!(cluster.phase(), None, "no status is written");
    let known = cluster.view.get::<PodFacts>(&Key::new("n", "s")).unwrap();
    assert_eq!(&*known.uid, "pod-uid", "the next look sees the pod that there is");
}

#[tokio::test]
async fn a_pod_that_lost_its_label_gets_it_back_and_its_sandbox_has_not_failed() {
    let case = running();
    let mut unlabelled = case.pod.clone().unwrap();
    unlabelled["metadata"]["labels"] = json!({"app": "x"});
    let cluster = cluster(&case.without_pod(), Some(unlabelled));
    assert_eq!(cluster.look().await.unwrap_err().category, Category::Conflict);
    assert_eq!(cluster.phase(), None, "no status is written");
    let (_, _, patch) = cluster.asked.lock().last().cloned().unwrap();
    let metadata = json!({"labels": {"agents.kruise.io/created-by": "sandbox"}, "resourceVersion": "9"});
    assert_eq!(patch["metadata"], metadata);
    assert!(cluster.view.get::<PodFacts>(&Key::new("n", "s")).is_some());
}

/// It used to be asked for again at once, for ever.
#[tokio::test]
async fn a_strangers_pod_that_nobody_watches_is_as_good_as_none() {
    let case = running();
    let mut stranger = case.pod.clone().unwrap();
    stranger["metadata"]["ownerReferences"] = json!([]);
    stranger["metadata"]["labels"] = json!({});
    for (case, phase) in [(case.clone().paused(), "Paused"), (case, "Failed")] {
        let cluster = cluster(&case.without_pod(), Some(stranger.clone()));
        cluster.look().await.unwrap();
        assert_eq!(cluster.phase(), Some(json!(phase)));
    }
}
