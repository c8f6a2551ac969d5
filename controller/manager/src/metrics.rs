//! What the manager counts, for `/metrics`. The names are listed in `metrics.txt`.
//!
//! Counters and histograms are written where things happen: by the layer around the API, and by whoever tells
//! an [`Observer`]. Gauges are read when they are asked for: see `scraped`. No label has more values than
//! there are routes, statuses, kinds, gateways and fixed words.

mod scraped;
#[cfg(test)]
mod tests;

use std::time::Duration;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::Method;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use sandgate_cache::daemon::ProcessMetrics;
use tokio::time::Instant;

pub use scraped::Scraped;

use crate::Observer;

/// The start of every name of ours.
const PREFIX: &str = "sandgate_manager";
/// Where every path of the API is a second time.
const SECOND: &str = "/kruise/api";

/// From an answer out of memory to a create that waits for a pod.
const BUCKETS: [f64; 16] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0];

type Histograms<S> = Family<S, Histogram, fn() -> Histogram>;

fn histograms<S: Clone + std::hash::Hash + Eq>() -> Histograms<S> {
    Family::new_with_constructor(|| Histogram::new(BUCKETS))
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    method: &'static str,
    route: String,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabels {
    method: &'static str,
    route: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabel {
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ServerLabels {
    verb: &'static str,
    kind: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct VerbLabels {
    verb: &'static str,
    kind: &'static str,
}

/// Everything that is counted where it happens. Clones count together.
#[derive(Clone, Debug)]
pub struct Metrics {
    requests: Family<RequestLabels, Counter>,
    request_durations: Histograms<RouteLabels>,
    under_way: Gauge,
    creates: Family<OutcomeLabel, Counter>,
    create_durations: Histograms<OutcomeLabel>,
    env_claims: Family<OutcomeLabel, Counter>,
    missed: Family<OutcomeLabel, Counter>,
    undone: Family<OutcomeLabel, Counter>,
    server: Family<ServerLabels, Counter>,
    server_durations: Histograms<VerbLabels>,
}

impl Metrics {
    /// Registers everything that is counted, and the process itself.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            requests: Family::default(),
            request_durations: histograms(),
            under_way: Gauge::default(),
            creates: Family::default(),
            create_durations: histograms(),
            env_claims: Family::default(),
            missed: Family::default(),
            undone: Family::default(),
            server: Family::default(),
            server_durations: histograms(),
        };
        registry.register_collector(Box::new(ProcessMetrics));
        let ours = registry.sub_registry_with_prefix(PREFIX);
        ours.register(
            "requests",
            "Requests of the API by route and status. What no route takes is the route other; 499 is a \
             client that did not wait for the answer",
            metrics.requests.clone(),
        );
        ours.register_with_unit(
            "request_duration",
            "How long the API takes for an answer",
            Unit::Seconds,
            metrics.request_durations.clone(),
        );
        ours.register(
            "requests_under_way",
            "Requests of the API that are being answered now",
            metrics.under_way.clone(),
        );
        ours.register(
            "creates",
            "How creates ended: pool, made, clone, env (a pod of an environment), again (an Idempotency-Key that \
             was known), or failed",
            metrics.creates.clone(),
        );
        ours.register_with_unit(
            "create_duration",
            "How long creates take, until the sandbox is the caller's and the gateways were told",
            Unit::Seconds,
            metrics.create_durations.clone(),
        );
        ours.register(
            "env_claims",
            "How claims of pods of environments ended: claimed, busy (no pod in time, or no room to wait), or \
             failed",
            metrics.env_claims.clone(),
        );
        ours.register(
            "claim_misses",
            "How often a sandbox of a pool was another's, or gone, before this process had it",
            metrics.missed.clone(),
        );
        ours.register(
            "undone",
            "What became of sandboxes whose create failed: deleted, reserved, released (a pod of an \
             environment), or left because nobody could delete them. left should be 0",
            metrics.undone.clone(),
        );
        ours.register(
            "server_requests",
            "What is asked of the API server, and how it answers: ok, or what failed",
            metrics.server.clone(),
        );
        ours.register_with_unit(
            "server_request_duration",
            "How long the API server takes for an answer",
            Unit::Seconds,
            metrics.server_durations.clone(),
        );
        metrics
    }

    /// A request of the API begins.
    fn begin(&self, method: &'static str, route: String) -> Measured {
        self.under_way.inc();
        Measured { metrics: self.clone(), method, route, began: Instant::now(), status: 499 }
    }
}

impl Default for Metrics {
    /// Metrics that nobody reads.
    fn default() -> Self {
        Self::register(&mut Registry::default())
    }
}

impl Observer for Metrics {
    fn request(&self, verb: &'static str, kind: &'static str, outcome: &'static str, took: Duration) {
        self.server.get_or_create(&ServerLabels { verb, kind, outcome }).inc();
        self.server_durations.get_or_create(&VerbLabels { verb, kind }).observe(took.as_secs_f64());
    }

    fn created(&self, how: &'static str, took: Duration) {
        let label = OutcomeLabel { outcome: how };
        self.creates.get_or_create(&label).inc();
        self.create_durations.get_or_create(&label).observe(took.as_secs_f64());
    }

    fn env_claimed(&self, how: &'static str) {
        self.env_claims.get_or_create(&OutcomeLabel { outcome: how }).inc();
    }

    fn missed(&self, how: &'static str) {
        self.missed.get_or_create(&OutcomeLabel { outcome: how }).inc();
    }

    fn undone(&self, how: &'static str) {
        self.undone.get_or_create(&OutcomeLabel { outcome: how }).inc();
    }
}

/// A request of the API. It counts when it is dropped, so one whose client went away counts too.
struct Measured {
    metrics: Metrics,
    method: &'static str,
    route: String,
    began: Instant,
    status: u16,
}

impl Drop for Measured {
    fn drop(&mut self) {
        let Self { metrics, method, route, began, status } = self;
        metrics.under_way.dec();
        let labels = RequestLabels { method, route: route.clone(), status: *status };
        metrics.requests.get_or_create(&labels).inc();
        let labels = RouteLabels { method, route: std::mem::take(route) };
        metrics.request_durations.get_or_create(&labels).observe(began.elapsed().as_secs_f64());
    }
}

/// The layer around the API that counts its requests.
pub(crate) async fn count(State(metrics): State<Metrics>, request: Request, next: Next) -> Response {
    let matched = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    let route = match matched.map(|path| path.strip_prefix(SECOND).unwrap_or(path)) {
        None | Some("") => "other",
        Some(path) => path,
    };
    let mut measured = metrics.begin(method(request.method()), route.to_owned());
    let reply = next.run(request).await;
    measured.status = reply.status().as_u16();
    reply
}

/// A fixed word for the method.
fn method(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::HEAD => "HEAD",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}
