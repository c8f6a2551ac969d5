//! The wire between a gateway and the API server: a proxy that speaks TLS to the server and plain HTTP to the
//! gateway, knows lists from watches, counts them, and spoils what passes as the scenario says.
//!
//! A fault is for one kind of request. It acts on the answers that are already running too: on their next
//! line, or at once where it needs no line. Lines are the unit because a watch has one event a line; a list
//! is one line.

mod faults;
mod flushed;
mod pump;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, RETRY_AFTER, TRANSFER_ENCODING};
use http::uri::{Authority, Scheme};
use http::{Request, Response, StatusCode, Uri};
use http_body_util::channel::Channel;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::Connect;
use hyper_util::rt::{TokioExecutor, TokioIo};
use kube::client::ConfigExt;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

pub use faults::{Ask, Fault, Seen};

use super::server::{ApiServer, config};
use faults::State;
use flushed::Flushed;

type Failure = std::io::Error;
type Answer = UnsyncBoxBody<Bytes, Failure>;

/// A spoilable connection to an API server.
pub struct Wire {
    api: ApiServer,
    address: SocketAddr,
    state: Arc<State>,
    accepting: JoinHandle<()>,
}

impl Wire {
    /// A wire to this server that spoils nothing yet.
    pub async fn to(api: &ApiServer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let connector = config(&api.url(), &api.authority(), "unused")
            .await
            .expect("a config")
            .rustls_https_connector()
            .expect("a connector");
        let client = Client::builder(TokioExecutor::new()).build::<_, Incoming>(connector);
        let state = Arc::new(State::default());
        let server: Authority = api.address().to_string().parse().expect("an authority");
        let accepting = tokio::spawn(accept(listener, client, state.clone(), server));
        Self { api: api.clone(), address, state, accepting }
    }

    /// Where the gateway finds it: `http://IP:PORT`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The token of the server's administrator.
    pub fn admin_token(&self) -> &'static str {
        self.api.admin_token()
    }

    /// A kubeconfig for this wire with a token in it.
    pub fn kubeconfig(&self, token: &str) -> PathBuf {
        self.api.write_kubeconfig(&self.url(), &json!({ "token": token }))
    }

    /// A kubeconfig for this wire that names a file with the token.
    pub fn kubeconfig_with_token_file(&self, token_file: &Path) -> PathBuf {
        self.api.write_kubeconfig(&self.url(), &json!({ "tokenFile": token_file }))
    }

    /// Spoils every answer of this kind until [`Wire::clear`].
    pub fn always(&self, ask: Ask, fault: Fault) {
        self.state.add(ask, fault, None, 0);
    }

    /// The same once so many have passed: lines of such answers, or requests for a fault of requests.
    pub fn after(&self, lines: u32, ask: Ask, fault: Fault) {
        self.state.add(ask, fault, None, lines);
    }

    /// Spoils one answer of this kind, the first that comes to it.
    pub fn once(&self, ask: Ask, fault: Fault) {
        self.state.add(ask, fault, Some(1), 0);
    }

    /// The same for the one that comes after so many others. For faults of requests.
    pub fn once_after(&self, others: u32, ask: Ask, fault: Fault) {
        self.state.add(ask, fault, Some(1), others);
    }

    /// Spoils nothing any more; what was held back passes.
    pub fn clear(&self) {
        self.state.clear();
    }

    /// Whether every fault that was to act once has acted.
    pub fn is_spent(&self) -> bool {
        self.state.is_spent()
    }

    /// Breaks the connection of every answer that is running, between two lines.
    pub fn cut_running(&self) {
        self.state.cut_running();
    }

    /// Every request so far, in order.
    pub fn seen(&self) -> Vec<Seen> {
        self.state.seen()
    }

    /// How many requests of this kind there were.
    pub fn count(&self, ask: Ask) -> usize {
        self.state.seen().iter().filter(|seen| seen.ask == ask).count()
    }

    /// How many answers of this kind are running now.
    pub fn running(&self, ask: Ask) -> usize {
        self.state.running(ask)
    }

    /// How many bookmarks have passed.
    pub fn bookmarks(&self) -> usize {
        self.state.bookmarks()
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept<C>(listener: TcpListener, client: Client<C, Incoming>, state: Arc<State>, server: Authority)
where
    C: Connect + Clone + Send + Sync + 'static,
{
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let (client, state, server) = (client.clone(), state.clone(), server.clone());
        let service = service_fn(move |request| {
            let (client, state, server) = (client.clone(), state.clone(), server.clone());
            async move { forward(request, &client, &state, server).await }
        });
        tokio::spawn(async move {
            // A broken connection is what the scenario asked for, or what the gateway did.
            let _ended = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

/// Hands a request on. An error breaks the gateway's connection, as the server's death would.
async fn forward<C>(
    request: Request<Incoming>,
    client: &Client<C, Incoming>,
    state: &Arc<State>,
    server: Authority,
) -> Result<Response<Answer>, Failure>
where
    C: Connect + Clone + Send + Sync + 'static,
{
    let ask = Ask::of(&request);
    let seen = state.record(ask, &request);
    let fault = state.for_request(ask);
    match fault {
        Some(Fault::Answer(code)) => return Ok(refusal(code)),
        Some(Fault::ErrorEvent(code)) => {
            let line = format!("{}\n", json!({ "type": "ERROR", "object": status(code) }));
            return Ok(json_answer(StatusCode::OK, line));
        }
        Some(Fault::Silence) => match std::future::pending::<Infallible>().await {},
        _ => {}
    }
    let (mut head, body) = request.into_parts();
    let mut uri = head.uri.into_parts();
    (uri.scheme, uri.authority) = (Some(Scheme::HTTPS), Some(server));
    head.uri = Uri::from_parts(uri).map_err(Failure::other)?;
    head.version = http::Version::HTTP_11;
    head.headers.remove(HOST);
    head.headers.remove(CONNECTION);
    let answer = client.request(Request::from_parts(head, body)).await.map_err(Failure::other)?;
    state.answered(seen, answer.status());
    if fault == Some(Fault::LoseAnswer) {
        return Err(Failure::other("the answer is lost"));
    }
    let (mut head, body) = answer.into_parts();
    head.version = http::Version::HTTP_11;
    for ours in [CONTENT_LENGTH, TRANSFER_ENCODING, CONNECTION] {
        head.headers.remove(ours);
    }
    let (sender, channel) = Channel::new(1);
    let running = state.start(ask);
    tokio::spawn(pump::pump(body.map_err(Failure::other), sender, running));
    Ok(Response::from_parts(head, Flushed::new(channel).boxed_unsync()))
}

fn status(code: u16) -> serde_json::Value {
    let reason = match code {
        401 => "Unauthorized",
        403 => "Forbidden",
        410 => "Expired",
        429 => "TooManyRequests",
        500 => "InternalError",
        503 => "ServiceUnavailable",
        _ => "Unknown",
    };
    let message = "the wire of the test says so";
    json!({ "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
            "message": message, "reason": reason, "code": code })
}

fn refusal(code: u16) -> Response<Answer> {
    let mut answer = json_answer(StatusCode::from_u16(code).expect("a status"), status(code).to_string());
    if code == 429 {
        answer.headers_mut().insert(RETRY_AFTER, 1.into());
    }
    answer
}

fn json_answer(status: StatusCode, body: String) -> Response<Answer> {
    let answer = Response::builder().status(status).header(CONTENT_TYPE, "application/json");
    let body = Full::from(body).map_err(|never: Infallible| match never {});
    answer.body(body.boxed_unsync()).expect("an answer")
}
