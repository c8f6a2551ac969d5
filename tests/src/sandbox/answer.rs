//! What a sandbox answers on each path.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, channel::Channel};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONNECTION, CONTENT_TYPE, HOST, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, UPGRADE};
use hyper::{HeaderMap, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::{Arrival, Pattern, Shared};

type Answer = Response<BoxBody<Bytes, Infallible>>;

/// Counts a request held at `/slow`, also when its client goes away.
struct Held(Arc<Shared>);

impl Held {
    fn new(shared: &Arc<Shared>) -> Self {
        shared.held.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(shared))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.held.fetch_sub(1, Ordering::SeqCst);
    }
}

pub(super) async fn answer(
    shared: Arc<Shared>,
    arrival: Arrival,
    request: Request<Incoming>,
) -> Result<Answer, Infallible> {
    shared.requests.fetch_add(1, Ordering::SeqCst);
    Ok(match request.uri().path() {
        "/ws" => {
            let name = shared.name.clone();
            websocket(request, name)
        }
        "/ws-seen" => {
            let seen = seen(&shared, arrival, &request).to_string();
            websocket(request, seen)
        }
        "/sse" => events(&shared),
        "/slow" => {
            let _held = Held::new(&shared);
            let permit = shared.gate.acquire().await.expect("the gate is never closed");
            permit.forget();
            describe(&shared, arrival, &request)
        }
        "/late" => {
            // A request that takes a while; nobody waits for this but its client.
            tokio::time::sleep(Duration::from_millis(number(&request, "milliseconds="))).await;
            describe(&shared, arrival, &request)
        }
        "/upload" => upload(&shared, request).await,
        "/download" => download(&request),
        "/trailers" => trailers(),
        "/takeover.html" => text("text/html", TAKEOVER_PAGE),
        "/takeover.js" => text("text/javascript", TAKEOVER_WORKER),
        "/takeover-active" => {
            shared.takeover.add_permits(1);
            text("text/plain", "")
        }
        "/takeover-done" => {
            let permit = shared.takeover.acquire().await.expect("never closed");
            permit.forget();
            text("text/plain", "")
        }
        _ => describe(&shared, arrival, &request),
    })
}

/// Everything in it is relative, so that it works under any prefix. The page is loaded when its image is, and
/// the image is answered when the worker is active.
const TAKEOVER_PAGE: &str = "<!doctype html><title>takeover</title><p>takeover page</p>\
    <script>navigator.serviceWorker.register(new URL('takeover.js', location), { scope: '/' })</script>\
    <img src=\"takeover-done\">";
const TAKEOVER_WORKER: &str = "\
    addEventListener('install', () => skipWaiting());\
    addEventListener('activate', event => event.waitUntil(fetch('takeover-active')));\
    addEventListener('fetch', event => {\
      if (event.request.mode === 'navigate')\
        event.respondWith(new Response('<p>taken over</p>', { headers: { 'content-type': 'text/html' } }));\
    });";

fn text(content_type: &'static str, body: &'static str) -> Answer {
    Response::builder()
        .header(CONTENT_TYPE, content_type)
        .header("service-worker-allowed", "/")
        .body(Full::new(Bytes::from_static(body.as_bytes())).boxed())
        .expect("a valid answer")
}

fn json_answer(value: &Value) -> Answer {
    let body = Full::new(Bytes::from(value.to_string())).boxed();
    let mut answer = Response::new(body);
    answer.headers_mut().insert(CONTENT_TYPE, "application/json".parse().expect("a valid value"));
    answer
}

fn describe(shared: &Shared, arrival: Arrival, request: &Request<Incoming>) -> Answer {
    json_answer(&seen(shared, arrival, request))
}

fn seen(shared: &Shared, arrival: Arrival, request: &Request<Incoming>) -> Value {
    let mut headers = Map::new();
    for (name, value) in request.headers() {
        let text = String::from_utf8_lossy(value.as_bytes()).into_owned();
        // A name sent twice must show as two values, or a smuggled second one would hide.
        let values = headers.entry(name.as_str()).or_insert_with(|| json!([]));
        values.as_array_mut().expect("made above").push(text.into());
    }
    let host = request.uri().authority().map(ToString::to_string).or_else(|| {
        request.headers().get(HOST).map(|host| String::from_utf8_lossy(host.as_bytes()).into_owned())
    });
    json!({
        "sandbox": shared.name,
        "method": request.method().as_str(),
        "path": request.uri().path_and_query().map_or("", |path| path.as_str()),
        "host": host,
        "headers": headers,
        "port": arrival.port,
        "connection": arrival.connection,
    })
}

fn websocket(mut request: Request<Incoming>, first: String) -> Answer {
    let Some(key) = request.headers().get(SEC_WEBSOCKET_KEY) else {
        let mut answer = json_answer(&json!({ "error": "no WebSocket key" }));
        *answer.status_mut() = StatusCode::BAD_REQUEST;
        return answer;
    };
    let accept = derive_accept_key(key.as_bytes());
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let Ok(upgraded) = upgrade.await else { return };
        let mut socket = WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, None).await;
        if socket.send(Message::text(first)).await.is_err() {
            return;
        }
        while let Some(Ok(message)) = socket.next().await {
            if (message.is_text() || message.is_binary()) && socket.send(message).await.is_err() {
                return;
            }
        }
    });
    Response::builder()
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header(CONNECTION, "Upgrade")
        .header(UPGRADE, "websocket")
        .header(SEC_WEBSOCKET_ACCEPT, accept)
        .body(Full::default().boxed())
        .expect("a valid answer")
}

fn events(shared: &Shared) -> Answer {
    let (sender, mut receiver) = mpsc::channel::<Bytes>(1);
    *shared.events.lock().expect("no holder panics") = Some(sender);
    let (mut body, channel) = Channel::new(1);
    tokio::spawn(async move {
        while let Some(event) = receiver.recv().await {
            if body.send_data(event).await.is_err() {
                return;
            }
        }
    });
    let mut answer = Response::new(channel.boxed());
    answer.headers_mut().insert(CONTENT_TYPE, "text/event-stream".parse().expect("a valid value"));
    answer
}

async fn upload(shared: &Shared, request: Request<Incoming>) -> Answer {
    let mut body = request.into_body();
    let mut pattern = Pattern::new();
    while let Some(frame) = body.frame().await {
        match frame {
            Ok(frame) => pattern.see(frame.data_ref().map_or(&[], AsRef::as_ref)),
            Err(_) => {
                // Over HTTP/2 it would be said again and again.
                pattern.broken();
                break;
            }
        }
    }
    json_answer(&json!({ "sandbox": shared.name, "bytes": pattern.bytes(), "intact": pattern.intact() }))
}

/// The number in the query after this; 0 without one.
fn number(request: &Request<Incoming>, key: &str) -> u64 {
    request.uri().query().and_then(|query| query.strip_prefix(key)?.parse().ok()).unwrap_or_default()
}

fn download(request: &Request<Incoming>) -> Answer {
    let total = number(request, "bytes=");
    let (mut body, channel) = Channel::new(1);
    tokio::spawn(async move {
        for chunk in Pattern::chunks(total) {
            if body.send_data(chunk).await.is_err() {
                return;
            }
        }
    });
    Response::new(channel.boxed())
}

fn trailers() -> Answer {
    let (mut body, channel) = Channel::new(2);
    tokio::spawn(async move {
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", "0".parse().expect("a valid value"));
        if body.send_data(Bytes::from_static(b"message")).await.is_ok() {
            // Whether the trailers arrive is what the client asserts.
            let _gone = body.send_trailers(trailers).await;
        }
    });
    let mut answer = Response::new(channel.boxed());
    answer.headers_mut().insert(CONTENT_TYPE, "application/grpc".parse().expect("a valid value"));
    answer
}
