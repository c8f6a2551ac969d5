//! The task executors of pods, over the pods' network: HTTP/1.1 to the port of the executor.
//!
//! A connection is kept for the next poll. An answer may have [`MAX_ANSWER`] bytes. The token, if there is a
//! file for it, is sent as `Authorization: Bearer`; the file is read again when it has changed.

mod token;

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use sandgate_executor_wire::{ErrorBody, GET_TASKS, MAX_ANSWER, PORT, SET_TASKS, Task};

use super::executors::{ExecutorError, Executors};
pub use token::{TokenError, TokenFile};

/// The longest message of an executor that is told on.
const MAX_MESSAGE: usize = 200;
/// How long a pod may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(2);
/// How long a connection is kept for the next question: a little longer than from poll to poll.
const IDLE: Duration = Duration::from_secs(10);

/// Executors that are reached over the network.
#[derive(Clone, Debug)]
pub struct HttpExecutors {
    client: Client<HttpConnector, Full<Bytes>>,
    port: u16,
    token: Option<TokenFile>,
}

impl HttpExecutors {
    /// Executors at their own port.
    pub fn new(token: Option<TokenFile>) -> Self {
        Self::at_port(PORT, token)
    }

    /// Executors at another port of their pods.
    pub fn at_port(port: u16, token: Option<TokenFile>) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(CONNECT));
        connector.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(1)
            .build(connector);
        Self { client, port, token }
    }

    async fn send(
        &self,
        ip: &str,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<Vec<Task>, ExecutorError> {
        let unreachable = |error: &dyn std::error::Error| ExecutorError::Unreachable(causes(error));
        let ip: IpAddr = ip.parse().map_err(|_| ExecutorError::Unreachable(format!("{ip} is no address")))?;
        let mut request = Request::builder()
            .method(method)
            .uri(format!("http://{}{path}", SocketAddr::new(ip, self.port)))
            .header(CONTENT_TYPE, "application/json");
        if let Some(token) = &self.token {
            request = request.header(
                AUTHORIZATION,
                token.header().map_err(|error| ExecutorError::NoToken(error.to_string()))?,
            );
        }
        let request = request.body(Full::new(body.into())).map_err(|error| unreachable(&error))?;
        let answer = self.client.request(request).await.map_err(|error| unreachable(&error))?;
        let status = answer.status();
        if status == StatusCode::UNAUTHORIZED {
            return Err(ExecutorError::Unauthorized);
        }
        let body = match Limited::new(answer.into_body(), MAX_ANSWER).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) if error.is::<LengthLimitError>() => {
                return Err(ExecutorError::Malformed(format!("it is longer than {MAX_ANSWER} bytes")));
            }
            Err(error) => return Err(unreachable(&*error)),
        };
        if !status.is_success() {
            return Err(ExecutorError::Refused { status: status.as_u16(), message: message(&body) });
        }
        // Go writes an empty list as null.
        let list: Result<Option<Vec<Task>>, _> = serde_json::from_slice(&body);
        list.map(Option::unwrap_or_default).map_err(|error| ExecutorError::Malformed(error.to_string()))
    }
}

impl Executors for HttpExecutors {
    fn tasks<'a>(&'a self, ip: &'a str) -> BoxFuture<'a, Result<Vec<Task>, ExecutorError>> {
        self.send(ip, Method::GET, GET_TASKS, Vec::new()).boxed()
    }

    fn set<'a>(&'a self, ip: &'a str, tasks: &'a [Task]) -> BoxFuture<'a, Result<Vec<Task>, ExecutorError>> {
        let body = serde_json::to_vec(tasks).unwrap_or_default();
        self.send(ip, Method::POST, SET_TASKS, body).boxed()
    }
}

/// What an executor says of its refusal, or the beginning of whatever it sent.
fn message(body: &[u8]) -> String {
    let said: ErrorBody = serde_json::from_slice(body).unwrap_or_default();
    let mut message = if said.message.is_empty() {
        String::from_utf8_lossy(&body[..body.len().min(MAX_MESSAGE)]).into_owned()
    } else {
        said.message
    };
    message.truncate(message.floor_char_boundary(MAX_MESSAGE));
    message
}

/// An error and what is behind it, in one line.
fn causes(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        line = format!("{line}: {cause}");
        source = cause.source();
    }
    line
}
