//! The runtime in a sandbox (envd), as far as the manager speaks to it: `POST /init` and `GET /metrics`.
//!
//! # Where it is
//! At the pod's address, unless the annotation `runtime-url` (or the older `e2b.agents.kruise.io/envd-url`)
//! names another place. As in OpenKruise, any URL there is honoured. Users cannot set these annotations,
//! whose prefixes are refused in metadata. Whoever may write Sandbox objects can, and can thereby make the
//! manager send the sandbox's own token and variables to that URL.
//!
//! # Tries
//! A try has one second. There are five of them, 200 ms apart at first and then twice as long each time. An
//! answer that is about the request (4xx) is final. The sandbox is looked up before each try: its pod may
//! have a new address.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use jiff::Timestamp;
use sandgate_cache::predicates::pod_ip;
use sandgate_cache::{Cache, Seen};
use sandgate_objects::openkruise::names::{ANNOTATION_INIT_RUNTIME_REQUEST, ANNOTATION_RUNTIME_URL};
use sandgate_objects::openkruise::resources::SandboxFacts;
use sandgate_objects::openkruise::{ENVD_ACCESS_TOKEN, RUNTIME_ACCESS_TOKEN};
use serde::Deserialize;
use serde_json::json;
use tokio::time::{sleep, timeout};

use crate::describe::annotation;
use crate::{Error, ErrorKind, Metric};

/// The older annotation with the URL of the runtime.
const ENVD_URL: &str = "e2b.agents.kruise.io/envd-url";
/// The annotation of a runtime that speaks TLS only.
const TLS_PORT: &str = "agents.kruise.io/runtime-tls-port";
/// The header with the token.
const ACCESS_TOKEN: &str = "x-access-token";
const TRIES: u32 = 5;
const TRY: Duration = Duration::from_secs(1);
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// No answer that matters is longer.
const MAX_ANSWER: usize = 64 << 10;

/// The way to a runtime. The machine's network is one; tests have others.
pub trait Transport: Send + Sync + 'static {
    /// Sends one request. The answer is its status and its body.
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'static, Result<(u16, Bytes), String>>;
}

/// HTTP over the machine's network, a connection for each request: pods come and go.
#[derive(Clone)]
pub struct Wire(Client<HttpConnector, Full<Bytes>>);

impl Wire {
    /// The machine's network.
    pub fn new() -> Self {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(TRY));
        connector.set_nodelay(true);
        Self(Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(connector))
    }
}

impl Default for Wire {
    fn default() -> Self {
        Self::new()
    }
}

impl Transport for Wire {
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'static, Result<(u16, Bytes), String>> {
        let answer = self.0.request(request.map(Full::new));
        async move {
            let answer = answer.await.map_err(|error| error.to_string())?;
            let status = answer.status().as_u16();
            let body = Limited::new(answer.into_body(), MAX_ANSWER).collect().await;
            Ok((status, body.map_err(|error| error.to_string())?.to_bytes()))
        }
        .boxed()
    }
}

/// Whether a runtime is initialised for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Init {
    /// For the first time: a runtime that has another token is not this sandbox's.
    First,
    /// After a resume: a runtime that has a token has kept it.
    Again,
}

/// The runtimes of all sandboxes.
#[derive(Clone)]
pub struct Runtime {
    transport: Arc<dyn Transport>,
    port: u16,
}

impl Runtime {
    /// Runtimes that are reached so, at this port of their pods.
    pub fn new(transport: Arc<dyn Transport>, port: u16) -> Self {
        Self { transport, port }
    }

    /// Initialises the runtime with what the sandbox's annotation says. Without it there is nothing to do.
    pub(crate) async fn init(
        &self,
        cache: &Cache,
        sandbox: &Seen<SandboxFacts>,
        init: Init,
    ) -> Result<(), Error> {
        let body = annotation(sandbox, ANNOTATION_INIT_RUNTIME_REQUEST);
        if body.is_empty() {
            return Ok(());
        }
        let body = Bytes::copy_from_slice(body.as_bytes());
        let request = || {
            let known = cache.get::<SandboxFacts>(&sandbox.key).filter(|known| known.uid == sandbox.uid);
            let newest = known.as_deref().filter(|known| known.version > sandbox.version).unwrap_or(sandbox);
            self.request(newest, Method::POST, "init", body.clone())
        };
        self.tried(init, request).await
    }

    /// Initialises the runtime at this place for the first time, with this token and these variables.
    pub(crate) async fn init_at(
        &self,
        at: SocketAddr,
        token: &str,
        env_vars: &BTreeMap<String, String>,
    ) -> Result<(), Error> {
        let body = Bytes::from(json!({"envVars": env_vars, "accessToken": token}).to_string());
        self.tried(Init::First, || built(Method::POST, &format!("http://{at}/init"), token, body.clone()))
            .await
    }

    /// Tries to initialise a runtime until it answers.
    async fn tried(
        &self,
        init: Init,
        mut request: impl FnMut() -> Result<Request<Bytes>, Failed>,
    ) -> Result<(), Error> {
        let (mut pause, mut last) = (FIRST_PAUSE, String::new());
        for tried in 0..TRIES {
            if tried > 0 {
                sleep(pause).await;
                pause *= 2;
            }
            match self.try_once(request()).await? {
                Ok((200..=299, _)) => return Ok(()),
                Ok((401, _)) if init == Init::Again => return Ok(()),
                Ok((status @ 400..=499, _)) => {
                    let message = format!("the runtime of the sandbox refused its initialisation ({status})");
                    return Err(Error::new(ErrorKind::Unavailable, message));
                }
                Ok((status, _)) => last = format!("it answered {status}"),
                Err(why) => last = why,
            }
        }
        let message = format!("the runtime of the sandbox could not be initialised: {last}");
        Err(Error::new(ErrorKind::Unavailable, message))
    }

    /// What the sandbox uses now; none if its runtime does not say.
    pub(crate) async fn metrics(&self, sandbox: &Seen<SandboxFacts>, now: Timestamp) -> Option<Metric> {
        self.used(self.request(sandbox, Method::GET, "metrics", Bytes::new()), now).await
    }

    /// The same of the runtime at this place.
    pub(crate) async fn metrics_at(&self, at: SocketAddr, token: &str, now: Timestamp) -> Option<Metric> {
        self.used(built(Method::GET, &format!("http://{at}/metrics"), token, Bytes::new()), now).await
    }

    async fn used(&self, request: Result<Request<Bytes>, Failed>, now: Timestamp) -> Option<Metric> {
        let Ok(Ok((200, body))) = self.try_once(request).await else { return None };
        let used: Used = serde_json::from_slice(&body).ok()?;
        Some(Metric {
            at: used.ts.and_then(|second| Timestamp::from_second(second).ok()).unwrap_or(now),
            cpu_count: used.cpu_count,
            cpu_used_pct: used.cpu_used_pct,
            mem_used: used.mem_used,
            mem_total: used.mem_total,
            mem_cache: used.mem_cache,
            disk_used: used.disk_used,
            disk_total: used.disk_total,
        })
    }

    /// One try. The outer error is final.
    async fn try_once(
        &self,
        request: Result<Request<Bytes>, Failed>,
    ) -> Result<Result<(u16, Bytes), String>, Error> {
        match request {
            Ok(request) => match timeout(TRY, self.transport.send(request)).await {
                Ok(answer) => Ok(answer),
                Err(_) => Ok(Err("it did not answer within a second".to_owned())),
            },
            Err(Failed::Yet(why)) => Ok(Err(why)),
            Err(Failed::Final(error)) => Err(error),
        }
    }

    fn request(
        &self,
        sandbox: &SandboxFacts,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Request<Bytes>, Failed> {
        if !annotation(sandbox, TLS_PORT).is_empty() {
            let message = "the runtime of the sandbox speaks TLS, which this manager does not";
            return Err(Failed::Final(Error::new(ErrorKind::Unsupported, message)));
        }
        let url = self.url(sandbox).ok_or_else(|| Failed::Yet("it has no address yet".to_owned()))?;
        let mut tokens = [RUNTIME_ACCESS_TOKEN, ENVD_ACCESS_TOKEN].into_iter();
        let token = tokens.find_map(|name| Some(annotation(sandbox, name)).filter(|token| !token.is_empty()));
        built(method, &format!("{url}/{path}"), token.unwrap_or_default(), body)
    }

    fn url(&self, sandbox: &SandboxFacts) -> Option<String> {
        let urls = [ANNOTATION_RUNTIME_URL, ENVD_URL].into_iter().map(|name| annotation(sandbox, name));
        if let Some(url) = urls.into_iter().find(|url| !url.is_empty()) {
            return Some(url.trim_end_matches('/').to_owned());
        }
        match pod_ip(sandbox).parse().ok()? {
            std::net::IpAddr::V4(ip) => Some(format!("http://{ip}:{}", self.port)),
            std::net::IpAddr::V6(ip) => Some(format!("http://[{ip}]:{}", self.port)),
        }
    }
}

/// A request; without a token if that is empty.
fn built(method: Method, url: &str, token: &str, body: Bytes) -> Result<Request<Bytes>, Failed> {
    let mut request = Request::builder().method(method).uri(url);
    if !token.is_empty() {
        request = request.header(ACCESS_TOKEN, token);
    }
    if !body.is_empty() {
        request = request.header(http::header::CONTENT_TYPE, "application/json");
    }
    // Neither the URL nor the token is told: both may have secrets.
    let wrong = |_| Error::new(ErrorKind::Internal, "the URL of the sandbox's runtime cannot be used");
    request.body(body).map_err(|error| Failed::Final(wrong(error)))
}

/// Why there is no request.
enum Failed {
    /// It may be possible later.
    Yet(String),
    /// It never will be.
    Final(Error),
}

/// The answer of `GET /metrics`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Used {
    ts: Option<i64>,
    cpu_count: u64,
    cpu_used_pct: f64,
    mem_used: u64,
    mem_total: u64,
    mem_cache: u64,
    disk_used: u64,
    disk_total: u64,
}
