//! Peers that come and go.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use serde_json::{Value, json};
use tempfile::tempdir;
use tokio::net::TcpListener;
use tokio::time::Instant;

use super::fixture::{Puppet, message, patient};
use crate::peer::tests::fixture::{DEADLINE, Plane, eventually};
use crate::{Credentials, Delivery, PeerAddress, Peers, PushSettings, Pusher};

fn slice(ports: &[u16]) -> Value {
    let items: Vec<Value> = ports
        .iter()
        .map(|port| json!({ "ports": [{ "port": port }], "endpoints": [{ "addresses": ["127.0.0.1"] }] }))
        .collect();
    json!({ "kind": "EndpointSliceList", "items": items })
}

fn port(address: &PeerAddress) -> u16 {
    address.authority().rsplit_once(':').unwrap().1.parse().unwrap()
}

#[tokio::test]
async fn the_endpoints_of_a_service_are_followed_and_whoever_waits_for_one_that_is_gone_is_told() {
    let (answer, asked) = (Arc::new(Mutex::new(Value::Null)), Arc::new(AtomicUsize::new(0)));
    let page = async |State((answer, asked)): State<(Arc<Mutex<Value>>, Arc<AtomicUsize>)>| {
        asked.fetch_add(1, Ordering::SeqCst);
        answer.lock().unwrap().to_string()
    };
    let router = Router::new()
        .route("/apis/discovery.k8s.io/v1/namespaces/sandgate/endpointslices", get(page))
        .with_state((Arc::clone(&answer), Arc::clone(&asked)));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(axum::serve(listener, router).into_future());
    let folder = tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{ "name": "c", "cluster": { "server": server } }],
        "users": [{ "name": "u", "user": {} }],
        "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "u" } }],
    });
    std::fs::write(&kubeconfig, config.to_string()).unwrap();

    let (stuck, plane) = (Puppet::held(&[]).await, Plane::open().await);
    *answer.lock().unwrap() = slice(&[port(&stuck.address)]);
    let peers = Peers::Service {
        namespace: "sandgate".to_owned(),
        name: "gateway".to_owned(),
        port: None,
        secure: false,
        kubeconfig: Some(kubeconfig),
    };
    let settings = PushSettings { rediscover: Duration::from_millis(20), ..patient() };
    let pusher = Pusher::start(settings, peers, &Credentials::default()).unwrap();
    assert!(pusher.found(Instant::now() + DEADLINE).await);
    let waiting = pusher.push(&message("demo", "running", 1)).unwrap();
    eventually(|| (stuck.seen().len() == 1).then_some(())).await;

    *answer.lock().unwrap() = slice(&[plane.address.port()]);
    assert_eq!(waiting.outcomes(Instant::now() + DEADLINE).await[0].1, Delivery::Dropped);
    let found = || {
        let metrics = pusher.metrics();
        (metrics.len() == 1 && port(&metrics[0].peer) == plane.address.port()).then_some(())
    };
    eventually(found).await;
    let outcomes =
        pusher.push(&message("demo", "running", 2)).unwrap().outcomes(Instant::now() + DEADLINE).await;
    assert_eq!(outcomes.len(), 1);
    assert_eq!(outcomes[0].1, Delivery::Delivered);

    // An answer that cannot be read leaves the peers as they are.
    *answer.lock().unwrap() = json!("nonsense");
    let before = asked.load(Ordering::SeqCst);
    // Whoever asks once more is done with the answer before.
    eventually(|| (asked.load(Ordering::SeqCst) >= before + 2).then_some(())).await;
    let outcomes =
        pusher.push(&message("demo", "running", 3)).unwrap().outcomes(Instant::now() + DEADLINE).await;
    assert_eq!(outcomes[0].1, Delivery::Delivered);
}
