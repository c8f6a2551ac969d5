//! The lifecycle API over HTTP, as E2B's SDK speaks it.
//!
//! # Paths
//! Every path is there twice: as it is, and below `/kruise/api` as OpenKruise has it. Two answers differ
//! below it: `domain` is the `Host` as it came, and a sandbox's metadata have
//! `e2b.agents.kruise.io/sandbox-resource`.
//!
//! # Layers, from the outside
//! 1. `outer`: the request's ID, its line in the log, the body of a failure, the end of a panic.
//! 2. `auth`: the key, and how often it may ask. `/health` and `/openapi.json` need none.
//! 3. The handlers: they take a request apart, check every field, and ask [`Lifecycle`] or [`Keys`].
//!
//! # Secrets
//! The token of a sandbox is in an [`AccessToken`](crate::AccessToken) until an answer is written, and no
//! layer logs a header, a body or a path.

mod answer;
mod auth;
mod extract;
mod failure;
mod keys;
mod lifecycle;
mod limit;
mod list;
mod model;
mod openapi;
mod outer;
mod sandboxes;
mod snapshots;
mod templates;
#[cfg(test)]
mod tests;
mod unserved;
mod usage;
mod validate;

use std::net::IpAddr;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::routing::{delete, get, post, put};
use axum::{Router, middleware};
use hyper::body::Bytes;

pub use auth::{CreatedKey, KeyFacts, KeyMask, Keys, NewKey, Peer, Team};
use extract::no_method;
use failure::Failure;
pub use lifecycle::{Doing, Lifecycle};
use limit::Buckets;
pub use limit::Rate;
pub use openapi::document;

/// Where every path is a second time.
const PREFIX: &str = "/kruise/api";

/// How the API behaves.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiSettings {
    /// The domain of sandboxes in answers; none is made from the `Host` of the request.
    pub domain: Option<String>,
    /// The version of envd in answers. The SDK uses what that version can do and nothing newer.
    pub envd_version: String,
    /// The longest timeout of a sandbox.
    pub max_timeout: Duration,
    /// The longest body, in bytes.
    pub body_limit: usize,
    /// How often one key may ask.
    pub rate: Rate,
    /// How often one address may ask with a wrong key.
    pub failures: Rate,
}

impl Default for ApiSettings {
    fn default() -> Self {
        Self {
            domain: None,
            envd_version: "0.5.8".to_owned(),
            max_timeout: Duration::from_secs(30 * 24 * 3600),
            body_limit: 1 << 20,
            rate: Rate { per_second: 50, burst: 200 },
            failures: Rate { per_second: 5, burst: 20 },
        }
    }
}

/// What the handlers share. Clones are the same.
#[derive(Clone)]
pub struct ApiState(Arc<Shared>);

/// What is shared.
pub struct Shared {
    lifecycle: Arc<dyn Lifecycle>,
    keys: Arc<dyn Keys>,
    settings: ApiSettings,
    rates: Buckets<Arc<str>>,
    failures: Buckets<Option<IpAddr>>,
    /// The OpenAPI document, as text. It is made when somebody first asks for it.
    document: OnceLock<Bytes>,
}

impl ApiState {
    /// The API of a manager and its keys.
    pub fn new(lifecycle: Arc<dyn Lifecycle>, keys: Arc<dyn Keys>, settings: ApiSettings) -> Self {
        let (rates, failures) = (Buckets::new(settings.rate), Buckets::new(settings.failures));
        let document = OnceLock::new();
        Self(Arc::new(Shared { lifecycle, keys, settings, rates, failures, document }))
    }
}

impl Deref for ApiState {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

/// The whole API. The server puts a [`Peer`] into the extensions of each request.
pub fn router(state: ApiState) -> Router {
    let with_key = middleware::from_fn_with_state(state.clone(), auth::authenticate);
    let api = served().merge(unserved::routes()).route_layer(with_key).merge(open());
    Router::new()
        .merge(api.clone())
        .nest(PREFIX, api)
        .fallback(|| async { Failure::new(404, "there is no such path") })
        .method_not_allowed_fallback(no_method)
        .layer(middleware::from_fn(outer::around))
        .with_state(state)
}

/// The paths that need no key.
fn open() -> Router<ApiState> {
    Router::new().route("/health", get(openapi::health)).route("/openapi.json", get(openapi::served))
}

/// The paths that need one.
fn served() -> Router<ApiState> {
    Router::new()
        .route("/sandboxes", get(list::sandboxes).post(sandboxes::create))
        .route("/v2/sandboxes", get(list::sandboxes_v2).post(sandboxes::create_v2))
        .route("/sandboxes/metrics", get(usage::metrics_of_many))
        .route("/sandboxes/{sandboxID}", get(sandboxes::info).delete(sandboxes::kill))
        .route("/sandboxes/{sandboxID}/connect", post(sandboxes::connect))
        .route("/v2/sandboxes/{sandboxID}/connect", post(sandboxes::connect_v2))
        .route("/sandboxes/{sandboxID}/timeout", post(sandboxes::timeout))
        .route("/sandboxes/{sandboxID}/refreshes", post(sandboxes::refreshes))
        .route("/sandboxes/{sandboxID}/pause", post(sandboxes::pause))
        .route("/sandboxes/{sandboxID}/resume", post(sandboxes::resume))
        .route("/sandboxes/{sandboxID}/network", put(sandboxes::network))
        .route("/sandboxes/{sandboxID}/fork", post(snapshots::fork))
        .route("/sandboxes/{sandboxID}/snapshots", post(snapshots::create))
        .route("/snapshots", get(snapshots::list))
        .route("/sandboxes/{sandboxID}/metrics", get(usage::metrics))
        .route("/sandboxes/{sandboxID}/logs", get(usage::logs))
        .route("/v2/sandboxes/{sandboxID}/logs", get(usage::logs_v2))
        .route("/templates", get(templates::list))
        .route("/v2/templates", get(templates::list_v2))
        .route("/templates/{templateID}", get(templates::get).delete(templates::remove))
        .route("/templates/aliases/{alias}", get(templates::alias))
        .route("/teams", get(keys::teams))
        .route("/api-keys", get(keys::list).post(keys::create))
        .route("/api-keys/{apiKeyID}", delete(keys::revoke))
}
