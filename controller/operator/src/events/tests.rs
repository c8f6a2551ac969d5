use std::convert::Infallible;
use std::sync::Arc;

use http::{Request, Response};
use kube::client::Body;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use serde_json::Value;

use super::*;
use crate::Metrics;

/// An API server that takes events, or refuses them.
#[derive(Clone, Default)]
struct EventServer {
    refuse: bool,
    taken: Arc<Mutex<Vec<Value>>>,
}

impl EventServer {
    fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                let body = request.into_body().collect_bytes().await.unwrap();
                let status = if server.refuse { 403 } else { 201 };
                server.taken.lock().push(serde_json::from_slice(&body).unwrap());
                Ok::<_, Infallible>(
                    Response::builder().status(status).body(Body::from(body.to_vec())).unwrap(),
                )
            }
        });
        Client::new(service, "default")
    }
}

fn object(name: &str) -> ObjectReference {
    ObjectReference { name: Some(name.to_owned()), namespace: Some("ns".to_owned()), ..Default::default() }
}

fn counts(registry: &Registry) -> Vec<String> {
    let mut text = String::new();
    encode(&mut text, registry).unwrap();
    let ours = text.lines().filter(|line| line.starts_with("sandgate_operator_events_total"));
    let mut ours: Vec<_> =
        ours.map(|line| line.trim_start_matches("sandgate_operator_events_total").into()).collect();
    ours.sort();
    ours
}

async fn publish(server: &EventServer, count: usize) -> (Vec<Value>, Vec<String>) {
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry).events;
    let (events, task) = ClusterEvents::new(server.client(), "sandbox", "me", metrics);
    for number in 0..count {
        events.publish(
            &object(&number.to_string()),
            EventKind::Warning,
            "Refused",
            "Create",
            "no".to_owned(),
        );
    }
    let stop = CancellationToken::new();
    let task = tokio::spawn(task.run(stop.clone()));
    while server.taken.lock().len() < count.min(QUEUE) {
        sleep(PACE).await;
    }
    stop.cancel();
    task.await.unwrap();
    (server.taken.lock().clone(), counts(&registry))
}

#[tokio::test(start_paused = true)]
async fn an_event_says_who_what_and_why() {
    let (taken, counts) = publish(&EventServer::default(), 1).await;
    let event = &taken[0];
    assert_eq!(event["regarding"]["name"], "0");
    assert_eq!((&event["type"], &event["reason"]), (&"Warning".into(), &"Refused".into()));
    assert_eq!((&event["action"], &event["note"]), (&"Create".into(), &"no".into()));
    assert_eq!(event["reportingController"], "sandbox");
    assert_eq!(event["reportingInstance"], "me");
    assert_eq!(counts, ["{outcome=\"published\"} 1"]);
}

#[tokio::test(start_paused = true)]
async fn too_many_events_are_dropped_and_counted() {
    let (taken, counts) = publish(&EventServer::default(), QUEUE + 7).await;
    assert_eq!(taken.len(), QUEUE);
    assert_eq!(counts, ["{outcome=\"dropped\"} 7", format!("{{outcome=\"published\"}} {QUEUE}").as_str()]);
}

#[tokio::test(start_paused = true)]
async fn repeated_events_become_a_series_as_long_as_they_are_remembered() {
    let server = EventServer::default();
    let (_, mut task) = ClusterEvents::new(server.client(), "sandbox", "me", Metrics::default().events);
    let mut is_series = async |name: &str| {
        task.send(Published::new(&object(name), EventKind::Normal, "Made", "Create", String::new())).await;
        let taken = server.taken.lock();
        taken.last().is_some_and(|event| !event["series"].is_null())
    };
    assert!(!is_series("first").await);
    assert!(is_series("first").await);
    for number in 2..MEMORY {
        assert!(!is_series(&number.to_string()).await);
    }
    assert!(!is_series("first").await, "what is remembered has a bound");
    assert!(is_series("first").await);
}

#[tokio::test(start_paused = true)]
async fn refused_events_are_counted_and_nothing_else_happens() {
    let server = EventServer { refuse: true, ..EventServer::default() };
    let (_, counts) = publish(&server, 2).await;
    assert_eq!(counts, ["{outcome=\"failed\"} 2"]);
}

#[tokio::test(start_paused = true)]
async fn events_that_wait_at_a_stop_are_still_sent() {
    let server = EventServer::default();
    let (events, task) = ClusterEvents::new(server.client(), "sandbox", "me", Metrics::default().events);
    for number in 0..5 {
        events.publish(&object(&number.to_string()), EventKind::Normal, "Made", "Create", String::new());
    }
    let stop = CancellationToken::new();
    stop.cancel();
    task.run(stop).await;
    assert_eq!(server.taken.lock().len(), 5);
}

#[test]
fn a_long_note_is_cut_between_two_characters() {
    assert_eq!(shortened("a".repeat(1024)), "a".repeat(1024));
    let cut = shortened("ä".repeat(600));
    assert!(cut.len() <= 1024 && cut.ends_with('…') && cut.starts_with("ää"), "{}", cut.len());
    assert!(cut.trim_end_matches('…').chars().all(|character| character == 'ä'));
}
