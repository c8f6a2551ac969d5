use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::receive::tests::fixture::{DEADLINE, Plane};
use crate::{Credentials, Delivery, PeerAddress, Peers, PushSettings, Pusher, RouteMessage};

/// What a peer was sent.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) path: String,
    pub(super) authorization: String,
    pub(super) body: String,
}

impl Seen {
    pub(super) fn version(&self) -> u64 {
        let body: Value = serde_json::from_str(&self.body).unwrap();
        body["resourceVersion"].as_str().unwrap().parse().unwrap()
    }
}

/// A peer that answers as it is told, 204 otherwise, and only when it is let.
pub(super) struct Puppet {
    pub(super) address: PeerAddress,
    script: Arc<Script>,
}

struct Script {
    seen: Mutex<Vec<Seen>>,
    answers: Mutex<VecDeque<u16>>,
    gate: Semaphore,
    delay: Duration,
}

impl Puppet {
    /// One that takes this long.
    pub(super) async fn slow(delay: Duration) -> Self {
        let puppet = Self::start(&[], delay).await;
        puppet.release(Semaphore::MAX_PERMITS / 2);
        puppet
    }

    /// One that answers at once.
    pub(super) async fn quick(answers: &[u16]) -> Self {
        let puppet = Self::held(answers).await;
        puppet.release(Semaphore::MAX_PERMITS / 2);
        puppet
    }

    /// One that holds its answers.
    pub(super) async fn held(answers: &[u16]) -> Self {
        Self::start(answers, Duration::ZERO).await
    }

    async fn start(answers: &[u16], delay: Duration) -> Self {
        let script = Arc::new(Script {
            seen: Mutex::default(),
            answers: Mutex::new(answers.iter().copied().collect()),
            gate: Semaphore::new(0),
            delay,
        });
        let router = Router::new().fallback(answer).with_state(Arc::clone(&script));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = PeerAddress::at(listener.local_addr().unwrap(), false, None);
        tokio::spawn(axum::serve(listener, router).into_future());
        Self { address, script }
    }

    pub(super) fn release(&self, count: usize) {
        self.script.gate.add_permits(count);
    }

    pub(super) fn seen(&self) -> Vec<Seen> {
        self.script.seen.lock().unwrap().clone()
    }
}

async fn answer(State(script): State<Arc<Script>>, uri: Uri, headers: HeaderMap, body: Bytes) -> StatusCode {
    let authorization = headers.get("authorization").map_or("", |value| value.to_str().unwrap());
    script.seen.lock().unwrap().push(Seen {
        path: uri.path().to_owned(),
        authorization: authorization.to_owned(),
        body: String::from_utf8(body.to_vec()).unwrap(),
    });
    script.gate.acquire().await.unwrap().forget();
    tokio::time::sleep(script.delay).await;
    StatusCode::from_u16(script.answers.lock().unwrap().pop_front().unwrap_or(204)).unwrap()
}

/// Long tries, so that a loaded machine does not end one.
pub(super) fn patient() -> PushSettings {
    PushSettings {
        connect_timeout: DEADLINE,
        try_timeout: DEADLINE,
        give_up: DEADLINE,
        ..PushSettings::default()
    }
}

pub(super) async fn pusher(settings: PushSettings, peers: Vec<PeerAddress>) -> Pusher {
    with(settings, peers, &Credentials::default()).await
}

pub(super) async fn with(
    settings: PushSettings,
    peers: Vec<PeerAddress>,
    credentials: &Credentials,
) -> Pusher {
    let pusher = Pusher::start(settings, Peers::Static(peers), credentials).unwrap();
    assert!(pusher.found(Instant::now() + DEADLINE).await);
    pusher
}

pub(super) fn address(plane: &Plane) -> PeerAddress {
    PeerAddress::at(plane.address, false, None)
}

pub(super) fn message(name: &str, state: &str, version: u64) -> RouteMessage {
    let message = json!({
        "ip": "127.1.2.3", "id": format!("team--{name}"), "namespace": "team", "name": name, "uid": "u",
        "state": state, "resourceVersion": version.to_string(),
    });
    serde_json::from_value(message).unwrap()
}

/// Pushes and waits for every peer.
pub(super) async fn push(pusher: &Pusher, message: &RouteMessage) -> Vec<Delivery> {
    push_within(pusher, message, DEADLINE).await
}

pub(super) async fn push_within(pusher: &Pusher, message: &RouteMessage, within: Duration) -> Vec<Delivery> {
    let outcomes = pusher.push(message).unwrap().outcomes(Instant::now() + within).await;
    outcomes.into_iter().map(|(_, delivery)| delivery).collect()
}

/// A port where nobody listens for as long as the socket is there. A receiver may be started on it meanwhile.
pub(super) fn silent_port() -> (TcpSocket, SocketAddr) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_reuseaddr(true).unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}
