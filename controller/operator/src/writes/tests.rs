//! What a write sends, what it makes of the answer, and what the view has afterwards.

use std::sync::Arc;

use http::{Request as HttpRequest, Response};
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use sandgate_objects::openkruise::resources::Sandbox;
use serde_json::{Value, json};
use tower::service_fn;

use super::{Merge, Only, WriteError, Writes, category};
use crate::view::{Kind, PodFacts, View};
use crate::{Category, Key, Leadership, Metrics};

/// A server that has one answer, and what it was asked.
struct Scripted {
    writes: Writes,
    view: View,
    asked: Arc<Mutex<Vec<(String, Value)>>>,
}

fn scripted(leadership: Leadership, code: u16, answer: &Value) -> Scripted {
    let (asked, answer) = (Arc::new(Mutex::new(Vec::new())), answer.to_string());
    let log = Arc::clone(&asked);
    let service = service_fn(move |request: HttpRequest<Body>| {
        let (log, answer) = (Arc::clone(&log), answer.clone());
        async move {
            let line = format!("{} {}", request.method(), request.uri());
            let body = request.into_body().collect_bytes().await.unwrap();
            log.lock().push((line, serde_json::from_slice(&body).unwrap_or(Value::Null)));
            if code == 0 {
                std::future::pending::<()>().await;
            }
            let response = Response::builder().status(code).body(Body::from(answer.into_bytes()));
            Ok::<_, std::convert::Infallible>(response.unwrap())
        }
    });
    let view = View::new(Box::new(|_, _, _| {}));
    let metrics = Metrics::register(&mut Registry::default());
    let writes = Writes::new(Client::new(service, "n"), view.clone(), leadership, metrics.writes);
    Scripted { writes, view, asked }
}

fn object(version: u64) -> Value {
    json!({
        "metadata": {
            "name": "s", "namespace": "n", "uid": "u", "resourceVersion": version.to_string(),
            "labels": {"agents.kruise.io/created-by": "sandbox"},
        },
        "spec": {},
    })
}

fn status(code: u16, reason: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "code": code, "reason": reason, "message": "why"})
}

fn key() -> Key {
    Key::new("n", "s")
}

impl Scripted {
    fn knows(&self, version: u64) -> Arc<crate::Seen<Sandbox>> {
        self.view.observe_json(Kind::Sandbox, object(version).to_string().as_bytes()).unwrap();
        self.view.get::<Sandbox>(&key()).unwrap()
    }

    fn version(&self) -> Option<u64> {
        self.view.get::<Sandbox>(&key()).map(|seen| seen.version.get())
    }
}

#[tokio::test]
async fn a_patch_carries_the_version_and_its_answer_is_in_the_view_at_once() {
    let server = scripted(Leadership::always(), 200, &object(8));
    let seen = server.knows(5);
    let patch = json!({"status": {"phase": "Running"}});
    let answer = server.writes.patch(&seen, patch, Merge::Plain, Some("status")).await.unwrap();
    assert_eq!((answer.version.get(), server.version()), (8, Some(8)));
    let asked = server.asked.lock();
    let path = "PATCH /apis/agents.kruise.io/v1alpha1/namespaces/n/sandboxes/s/status?";
    assert!(asked[0].0.starts_with(path), "{}", asked[0].0);
    assert_eq!(asked[0].1, json!({"metadata": {"resourceVersion": "5"}, "status": {"phase": "Running"}}));
}

#[tokio::test]
async fn a_delete_carries_the_uid_and_where_it_must_the_version() {
    for (only, expected) in [
        (Only::ThisUid, json!({"uid": "u"})),
        (Only::ThisVersion, json!({"uid": "u", "resourceVersion": "5"})),
    ] {
        let server = scripted(Leadership::always(), 200, &status(200, ""));
        let seen = server.knows(5);
        server.writes.delete::<Sandbox>((&seen.key, &seen.uid, &seen.version), only, Some(5)).await.unwrap();
        assert_eq!(server.version(), None, "it is gone from the view");
        let asked = server.asked.lock();
        assert_eq!(asked[0].1["preconditions"], expected);
        assert_eq!(asked[0].1["gracePeriodSeconds"], 5);
    }
}

#[tokio::test]
async fn an_object_that_ends_later_stays_in_the_view_as_it_is_now() {
    let mut ending = object(9);
    ending["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let server = scripted(Leadership::always(), 200, &ending);
    server.view.observe_json(Kind::Pod, object(5).to_string().as_bytes()).unwrap();
    let seen = server.view.get::<PodFacts>(&key()).unwrap();
    let named = (&seen.key, &seen.uid, &seen.version);
    server.writes.delete::<PodFacts>(named, Only::ThisUid, None).await.unwrap();
    assert!(server.view.get::<PodFacts>(&key()).unwrap().is_deleting);
}

#[tokio::test]
async fn every_refusal_has_its_name() {
    for (code, reason, expected) in [
        (409, "Conflict", "Conflict"),
        (409, "AlreadyExists", "AlreadyExists"),
        (404, "NotFound", "NotFound"),
        (403, "Forbidden", "Refused"),
        (422, "Invalid", "Refused"),
        (429, "TooManyRequests", "PutOff"),
        (401, "Unauthorized", "PutOff"),
        (500, "InternalError", "Unanswered"),
        (504, "Timeout", "Unanswered"),
    ] {
        let server = scripted(Leadership::always(), code, &status(code, reason));
        let error = server.writes.create::<Sandbox>("n", &object(1)).await.unwrap_err();
        let name = match error {
            WriteError::Conflict(_) => "Conflict",
            WriteError::AlreadyExists(_) => "AlreadyExists",
            WriteError::NotFound(_) => "NotFound",
            WriteError::Refused { code: got, .. } if got == code => "Refused",
            WriteError::PutOff(_) => "PutOff",
            WriteError::Unanswered(_) => "Unanswered",
            other => panic!("{other}"),
        };
        assert_eq!(name, expected, "{code} {reason}");
    }
}

#[tokio::test]
async fn what_is_gone_already_is_deleted_and_what_changed_is_not() {
    let server = scripted(Leadership::always(), 404, &status(404, "NotFound"));
    let seen = server.knows(5);
    let named = (&seen.key, &seen.uid, &seen.version);
    server.writes.delete::<Sandbox>(named, Only::ThisVersion, None).await.unwrap();
    assert_eq!(server.version(), None);

    let server = scripted(Leadership::always(), 409, &status(409, "Conflict"));
    let seen = server.knows(5);
    let named = (&seen.key, &seen.uid, &seen.version);
    let error = server.writes.delete::<Sandbox>(named, Only::ThisVersion, None).await.unwrap_err();
    assert_eq!((category(&error), server.version()), (Category::Conflict, Some(5)));
}

#[tokio::test]
async fn a_live_read_that_finds_nothing_takes_the_object_out_of_the_view() {
    let server = scripted(Leadership::always(), 404, &status(404, "NotFound"));
    server.knows(5);
    assert!(server.writes.read::<Sandbox>(&key()).await.unwrap().is_none());
    assert_eq!(server.version(), None);
}

#[tokio::test]
async fn nothing_is_sent_by_a_process_that_does_not_lead() {
    let (_tenure, leadership) = Leadership::new();
    let server = scripted(leadership, 200, &object(8));
    let error = server.writes.create::<Sandbox>("n", &object(1)).await.unwrap_err();
    assert_eq!(category(&error), Category::NotLeading);
    assert!(server.asked.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_answer_is_given_up_and_the_write_may_have_been_done() {
    let server = scripted(Leadership::always(), 0, &Value::Null);
    let error = server.writes.create::<Sandbox>("n", &object(1)).await.unwrap_err();
    assert_eq!(category(&error), Category::Unanswered);
    assert_eq!(server.asked.lock().len(), 1);
}

#[tokio::test]
async fn an_answer_that_cannot_be_read_may_have_been_a_write() {
    let server = scripted(Leadership::always(), 201, &json!({"metadata": {"name": "s"}}));
    let error = server.writes.create::<Sandbox>("n", &object(1)).await.unwrap_err();
    assert_eq!(category(&error), Category::Unanswered);
}

#[tokio::test]
async fn objects_that_are_not_in_the_view_are_read_and_listed_as_they_are() {
    let pods = ("Pod", "pods");
    let server = scripted(Leadership::always(), 200, &object(8));
    let found = server.writes.get_json(pods, &key()).await.unwrap().unwrap();
    assert_eq!((&found["metadata"]["uid"], server.version()), (&json!("u"), None));
    assert!(server.asked.lock()[0].0.starts_with("GET /api/v1/namespaces/n/pods/s"));
    let server = scripted(Leadership::always(), 404, &status(404, "NotFound"));
    assert_eq!(server.writes.get_json(pods, &key()).await.unwrap(), None);
    let server = scripted(Leadership::always(), 200, &json!({"items": [object(8), object(9)]}));
    let found = server.writes.list_json(pods, "n", "job-name=s").await.unwrap();
    assert_eq!(found.len(), 2);
    let asked = server.asked.lock()[0].0.clone();
    assert!(
        asked.starts_with("GET /api/v1/namespaces/n/pods?") && asked.contains("labelSelector=job-name"),
        "{asked}"
    );
}
