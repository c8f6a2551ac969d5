//! Envoy's admin pages, read over HTTP.

use std::error::Error;
use std::io;
use std::time::Duration;

use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper::{Method, Request};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;

const TIMEOUT: Duration = Duration::from_secs(10);
const MAX_BODY: usize = 64 << 20;

pub(crate) struct Admin {
    base: String,
    client: Client<HttpConnector, Empty<Bytes>>,
}

/// What came back.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn json(&self) -> Option<Value> {
        serde_json::from_slice(&self.body).ok()
    }
}

/// Why an admin page was not read. A retry helps while a gateway starts, and not for a URL that is none.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {url}: {cause}")]
pub(crate) struct AdminError {
    url: String,
    cause: Cause,
}

#[derive(Debug, thiserror::Error)]
enum Cause {
    #[error(transparent)]
    Url(#[from] hyper::http::Error),
    #[error("{}", explained(.0))]
    Exchange(#[from] hyper_util::client::legacy::Error),
    #[error("{0}")]
    Body(Box<dyn Error + Send + Sync>),
    #[error("no answer within {} seconds", TIMEOUT.as_secs())]
    Timeout,
}

impl Admin {
    pub(crate) fn new(url: &str) -> Self {
        let base = url.trim_end_matches('/');
        let base = if base.contains("://") { base.to_owned() } else { format!("http://{base}") };
        Admin { base, client: Client::builder(TokioExecutor::new()).build_http() }
    }

    pub(crate) fn url(&self) -> &str {
        &self.base
    }

    pub(crate) async fn get(&self, path_and_query: &str) -> Result<Answer, AdminError> {
        self.send(Method::GET, path_and_query).await
    }

    pub(crate) async fn post(&self, path_and_query: &str) -> Result<Answer, AdminError> {
        self.send(Method::POST, path_and_query).await
    }

    async fn send(&self, method: Method, path_and_query: &str) -> Result<Answer, AdminError> {
        let url = format!("{}{path_and_query}", self.base);
        let exchange = async {
            let request = Request::builder().method(method).uri(&url).body(Empty::new())?;
            let response = self.client.request(request).await?;
            let status = response.status().as_u16();
            let body = Limited::new(response.into_body(), MAX_BODY).collect().await.map_err(Cause::Body)?;
            Ok(Answer { status, body: body.to_bytes().to_vec() })
        };
        let answer = tokio::time::timeout(TIMEOUT, exchange).await.unwrap_or(Err(Cause::Timeout));
        answer.map_err(|cause| AdminError { url, cause })
    }
}

/// What went wrong, and a question where nobody listens.
fn explained(error: &(dyn Error + 'static)) -> String {
    let cause = deepest(error);
    match cause.downcast_ref::<io::Error>().map(io::Error::kind) {
        Some(io::ErrorKind::ConnectionRefused) => format!(
            "{cause}: is a gateway running? `sandgate run` starts one and says where its admin pages are, which is what --admin \
             takes"
        ),
        _ => cause.to_string(),
    }
}

pub(crate) fn root_cause(error: &(dyn Error + 'static)) -> String {
    deepest(error).to_string()
}

fn deepest<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause
}
