//! Peers that come and go.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use serde_json::{Value, json};
use tempfile::{TempDir, tempdir};
use tokio::net::TcpListener;
use tokio::time::Instant;

use sandgate_follow::Access;

use super::fixture::{Puppet, message, patient};
use crate::receive::tests::fixture::{DEADLINE, Plane, eventually};
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

/// An API server that answers with endpoints.
struct Endpoints {
    answer: Arc<Mutex<Value>>,
    asked: Arc<AtomicUsize>,
    folder: TempDir,
}

impl Endpoints {
    async fn of(ports: &[u16]) -> Self {
        let (answer, asked) = (Arc::new(Mutex::new(slice(ports))), Arc::new(AtomicUsize::new(0)));
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
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{ "name": "c", "cluster": { "server": server } }],
            "users": [{ "name": "u", "user": {} }],
            "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "u" } }],
        });
        std::fs::write(folder.path().join("kubeconfig"), config.to_string()).unwrap();
        Self { answer, asked, folder }
    }

    fn are(&self, ports: &[u16]) {
        *self.answer.lock().unwrap() = slice(ports);
    }

    async fn pusher(&self, settings: PushSettings) -> Pusher {
        let peers = Peers::Service {
            namespace: "sandgate".to_owned(),
            name: "gateway".to_owned(),
            port: None,
            secure: false,
            access: Access { kubeconfig: Some(self.folder.path().join("kubeconfig")), context: None },
        };
        let settings = PushSettings { rediscover: Duration::from_millis(20), ..settings };
        let pusher = Pusher::start(settings, peers, &Credentials::default()).unwrap();
        assert!(pusher.found(Instant::now() + DEADLINE).await);
        pusher
    }

    /// Waits until the answer as it is now has been used.
    async fn asked_again(&self) {
        let before = self.asked.load(Ordering::SeqCst);
        // Whoever asks once more is done with the answer before.
        eventually(|| (self.asked.load(Ordering::SeqCst) >= before + 2).then_some(())).await;
    }
}

#[tokio::test]
async fn the_endpoints_of_a_service_are_followed_and_whoever_waits_for_one_that_is_gone_is_told() {
    let (stuck, plane) = (Puppet::held(&[]).await, Plane::open().await);
    let endpoints = Endpoints::of(&[port(&stuck.address)]).await;
    let pusher = endpoints.pusher(patient()).await;
    let waiting = pusher.push(&message("demo", "running", 1)).unwrap();
    eventually(|| (stuck.seen().len() == 1).then_some(())).await;

    endpoints.are(&[plane.address.port()]);
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
    *endpoints.answer.lock().unwrap() = json!("nonsense");
    endpoints.asked_again().await;
    let outcomes =
        pusher.push(&message("demo", "running", 3)).unwrap().outcomes(Instant::now() + DEADLINE).await;
    assert_eq!(outcomes[0].1, Delivery::Delivered);
}

#[tokio::test]
async fn a_peer_that_is_lost_and_found_again_gets_every_delete_that_it_missed_and_nothing_meanwhile() {
    let (stuck, plane) = (Puppet::held(&[]).await, Plane::open().await);
    let [gone, stays] = [port(&stuck.address), plane.address.port()];
    let endpoints = Endpoints::of(&[gone, stays]).await;
    let pusher = endpoints.pusher(patient()).await;
    let under_way = pusher.push(&message("first", "dead", 1)).unwrap();
    eventually(|| (stuck.seen().len() == 1).then_some(())).await;
    let behind = pusher.push(&message("second", "dead", 1)).unwrap();
    endpoints.are(&[stays]);
    for ticket in [under_way, behind] {
        for (peer, delivery) in ticket.outcomes(Instant::now() + DEADLINE).await {
            let kept = matches!(&delivery, Delivery::Failed { reason } if reason.contains("not among"));
            assert_eq!(kept, port(&peer) == gone, "{peer} {delivery:?}");
        }
    }
    // It would answer now, and nobody asks it: its address may be a stranger's.
    stuck.release(100);
    for (name, state) in [("third", "dead"), ("fourth", "running")] {
        let ticket = pusher.push(&message(name, state, 1)).unwrap();
        let outcomes = ticket.outcomes(Instant::now() + DEADLINE).await;
        assert_eq!(outcomes.len(), 1);
        assert_eq!((port(&outcomes[0].0), &outcomes[0].1), (stays, &Delivery::Delivered));
    }
    endpoints.asked_again().await;
    assert_eq!(stuck.seen().len(), 1);
    endpoints.are(&[gone, stays]);
    let sent = || {
        let metrics = pusher.metrics().into_iter().find(|metrics| port(&metrics.peer) == gone)?;
        (metrics.pending == 0 && metrics.sent == 3 && metrics.error.is_none()).then_some(())
    };
    eventually(sent).await;
    let told: String = stuck.seen().into_iter().skip(1).map(|seen| seen.body).collect();
    for name in ["first", "second", "third"] {
        assert!(told.contains(&format!("team--{name}")), "{told}");
    }
    assert!(!told.contains("fourth"), "{told}");
}

#[tokio::test]
async fn the_deletes_of_a_peer_that_does_not_return_are_given_up_in_time() {
    let (stuck, plane) = (Puppet::held(&[]).await, Plane::open().await);
    let endpoints = Endpoints::of(&[port(&stuck.address), plane.address.port()]).await;
    let pusher = endpoints.pusher(PushSettings { keep_absent: Duration::ZERO, ..patient() }).await;
    let ticket = pusher.push(&message("demo", "dead", 1)).unwrap();
    eventually(|| (stuck.seen().len() == 1).then_some(())).await;
    endpoints.are(&[plane.address.port()]);
    eventually(|| (pusher.metrics().len() == 1).then_some(())).await;
    assert_eq!(ticket.outcomes(Instant::now() + DEADLINE).await.len(), 2);
}
