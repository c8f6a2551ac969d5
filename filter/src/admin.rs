//! The pages on Envoy's admin port: `/sandgate/routes` and `/sandgate/status`.
//!
//! Envoy matches the exact path of an admin page, so one route is `/sandgate/routes?id=ID`, and it answers
//! every page as `text/plain`; the bodies are JSON. A page is made from a read of the table: consistent for
//! each route, not across routes. A token never leaves the table: `auth` says only whether there is one.
//!
//! Envoy asks on its main thread and takes the answer there and then. A page that looks at every route is
//! therefore made on a thread of its own: see [`jobs`].

mod jobs;

use std::borrow::Cow;
use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use envoy_proxy_dynamic_modules_rust_sdk::{abi, panics};
use sandgate_routes::{Filter, Route, State, TokenKind};
use sandgate_watch::{Gateway, KeyringStatus, ListMode, RefreshStatus, ScopeStatus, ThreadStatus};
use serde_json::{Value, json};

use jobs::Fetched;
pub(crate) use jobs::Jobs;

const ROUTES: &str = "/sandgate/routes";
const STATUS: &str = "/sandgate/status";
/// Makes a thread of the gateway panic: `?kill=NAME`.
#[cfg(feature = "failpoints")]
const FAILPOINT: &str = "/sandgate/failpoint";

/// Every page and what it is.
pub(crate) const PAGES: &[(&str, &str)] = &[
    (ROUTES, "sandgate: the route table"),
    (STATUS, "sandgate: its state"),
    #[cfg(feature = "failpoints")]
    (FAILPOINT, "sandgate: break something"),
];

const DEFAULT_LIMIT: usize = 100;
const MAX_LIMIT: usize = 10_000;

/// Answers an admin request with a status and a JSON body.
pub(crate) fn respond(
    gateway: &'static Gateway,
    jobs: &Jobs,
    method: &str,
    path_and_query: &str,
) -> (u32, String) {
    if method != "GET" {
        return error(405, format_args!("{method} is not allowed: this page is read with GET"));
    }
    let (path, query) = path_and_query.split_once('?').unwrap_or((path_and_query, ""));
    if let (ROUTES | STATUS, Some(job)) = (path, query.strip_prefix("job=")) {
        return match job.parse() {
            Ok(job) => fetched(path, jobs.fetch(job)),
            Err(_) => error(400, format_args!("job is {job:?}: expected a number, and nothing beside it")),
        };
    }
    match path {
        ROUTES => routes(gateway, jobs, query),
        STATUS => match parse_status(query) {
            Ok(false) => ok(&status(gateway)),
            Ok(true) => {
                let mut status = status(gateway);
                let made = jobs.make(move || {
                    status["digest"] = gateway.reader().digest().into();
                    ok(&status)
                });
                fetched(path, made)
            }
            Err(invalid) => error(400, format_args!("{invalid}")),
        },
        #[cfg(feature = "failpoints")]
        FAILPOINT => match query.strip_prefix("kill=") {
            Some(name) if gateway.kill(name) => ok(&json!({ "killed": name })),
            _ => error(400, format_args!("no such thread: {query}")),
        },
        _ => error(404, format_args!("no such page: {ROUTES} and {STATUS} are")),
    }
}

/// What became of a page that is made on another thread.
fn fetched(path: &str, fetched: Fetched) -> (u32, String) {
    match fetched {
        Fetched::Done(answer) => answer,
        Fetched::UnderWay(job) => {
            let again = format!("{path}?job={job}");
            let message = format!("the table is large and the page is being made: ask for {again}");
            (202, format!("{:#}\n", json!({ "job": job, "again": again, "message": message })))
        }
        Fetched::Unknown => {
            error(404, format_args!("no such job: its page was fetched, or not for a minute"))
        }
        Fetched::Busy => error(503, format_args!("other pages are being made: ask again")),
    }
}

fn routes(gateway: &'static Gateway, jobs: &Jobs, query: &str) -> (u32, String) {
    let query = match RoutesQuery::parse(query) {
        Ok(query) => query,
        Err(invalid) => return error(400, format_args!("{invalid}")),
    };
    if let Some(id) = query.id {
        return match gateway.reader().get(&id) {
            Some(route) => ok(&render(&route)),
            None => error(404, format_args!("no route has the id {id:?}")),
        };
    }
    if query.displaced {
        let made = jobs.make(move || {
            let displaced = gateway.displaced(query.limit);
            let routes: Vec<Value> = displaced.iter().map(|route| render(route)).collect();
            ok(&json!({ "routes": routes, "next": null, "total": gateway.reader().counts().displaced }))
        });
        return fetched(ROUTES, made);
    }
    let made = jobs.make(move || {
        let page = gateway.reader().page(&query.filter, query.after.as_deref(), query.limit);
        let routes: Vec<Value> = page.routes.iter().map(|route| render(route)).collect();
        let counts = gateway.reader().counts();
        let (total, displaced) = (counts.routes, counts.displaced);
        ok(&json!({ "routes": routes, "next": page.next, "total": total, "displaced": displaced }))
    });
    fetched(ROUTES, made)
}

/// A query that a page does not understand. Asking again the same way does not help: the page answers 400.
#[derive(Debug, thiserror::Error)]
enum InvalidQuery {
    #[error("unknown parameter {name:?}: expected {expected}")]
    Unknown { name: String, expected: &'static str },
    #[error("displaced is {0:?}: expected 1")]
    Displaced(String),
    #[error("state is {0:?}: expected one of {states}", states = State::ALL.map(State::as_str).join(", "))]
    State(String),
    #[error("limit is {0:?}: expected a number from 1 to {MAX_LIMIT}")]
    Limit(String),
    #[error("digest is {0:?}: expected 0 or 1")]
    Digest(String),
}

struct RoutesQuery {
    id: Option<String>,
    /// Those who are not shown under the ID they claim.
    displaced: bool,
    filter: Filter,
    after: Option<String>,
    limit: usize,
}

impl RoutesQuery {
    fn parse(query: &str) -> Result<Self, InvalidQuery> {
        let mut parsed =
            Self { id: None, displaced: false, filter: Filter::default(), after: None, limit: DEFAULT_LIMIT };
        for (key, value) in form_urlencoded::parse(query.as_bytes()) {
            let value = value.into_owned();
            match &*key {
                "id" => parsed.id = Some(value),
                "displaced" if value == "1" => parsed.displaced = true,
                "displaced" => return Err(InvalidQuery::Displaced(value)),
                "after" => parsed.after = Some(value),
                "namespace" => parsed.filter.namespace = Some(value),
                "prefix" => parsed.filter.prefix = Some(value),
                "provider" => parsed.filter.provider = Some(value),
                "state" => {
                    parsed.filter.state = Some(value.parse().map_err(|_| InvalidQuery::State(value))?);
                }
                "limit" => match value.parse() {
                    Ok(limit @ 1..=MAX_LIMIT) => parsed.limit = limit,
                    _ => return Err(InvalidQuery::Limit(value)),
                },
                _ => {
                    let expected = "id, displaced, state, namespace, prefix, provider, after or limit";
                    return Err(InvalidQuery::Unknown { name: key.into_owned(), expected });
                }
            }
        }
        Ok(parsed)
    }
}

fn render(route: &Route) -> Value {
    json!({
        "id": route.id(),
        "namespace": route.key().namespace(),
        "name": route.key().name(),
        "provider": route.key().provider(),
        "uid": route.uid().as_str(),
        "owner": route.owner().as_str(),
        "state": route.state().as_str(),
        "ip": route.ip().map(|ip| ip.to_string()),
        "version": route.version().to_string(),
        "identity": route.identity(),
        "auth": route.token().is_some(),
        "secureAccess": route.token().is_some_and(|token| token.kind() == TokenKind::SecureAccess),
        "trafficToken": route.traffic_token().is_some(),
        "requireTrafficAuth": route.require_traffic_auth(),
        "ambiguous": route.is_ambiguous(),
    })
}

/// Whether the status is to have the table's digest, which looks at every route and is made only when asked
/// for.
fn parse_status(query: &str) -> Result<bool, InvalidQuery> {
    let mut digest = false;
    for (key, value) in form_urlencoded::parse(query.as_bytes()) {
        digest = match (&*key, &*value) {
            ("digest", "1") => true,
            ("digest", "0") => false,
            ("digest", _) => return Err(InvalidQuery::Digest(value.into_owned())),
            _ => return Err(InvalidQuery::Unknown { name: key.into_owned(), expected: "digest" }),
        };
    }
    Ok(digest)
}

fn status(gateway: &Gateway) -> Value {
    let counts = gateway.reader().counts();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "abi": abi_version(),
        "ready": gateway.reader().is_ready(),
        "routes": {
            "total": counts.routes,
            "creating": counts.in_state(State::Creating),
            "available": counts.in_state(State::Available),
            "running": counts.in_state(State::Running),
            "paused": counts.in_state(State::Paused),
            "unknown": counts.in_state(State::Unknown),
            "ambiguous": counts.ambiguous,
            "displaced": counts.displaced,
            "withheld": counts.withheld,
        },
        "tombstones": counts.tombstones,
        "table": {
            "applied": counts.applied,
            "stale": counts.stale,
            "invalid": counts.invalid,
            "takeovers": counts.takeovers,
            "overruled": counts.overruled,
            "tombstonesDropped": counts.tombstones_dropped,
        },
        "sources": sources(gateway),
        "refresh": gateway.refresh_status().map(|status| refresh(&status, gateway.receiver_up())),
        "auth": gateway.keyring().map(|keyring| keys(&keyring.status())),
        "clusters": crate::cluster::status(),
        "threads": gateway.threads().iter().map(thread).collect::<Vec<_>>(),
        "panics": panics(),
        "uptimeSeconds": gateway.age().as_secs(),
    })
}

fn thread(thread: &ThreadStatus) -> Value {
    json!({
        "name": thread.name,
        "up": thread.up,
        "restarts": thread.restarts,
        "beatAgeSeconds": thread.beat_age.as_secs(),
    })
}

fn sources(gateway: &Gateway) -> Vec<Value> {
    let file = gateway.file_status().map(|file| {
        json!({
            "kind": "file",
            "path": file.path.display().to_string(),
            "generation": file.generation,
            "routes": file.routes,
            "loadedAt": file.loaded_at.and_then(unix_seconds),
            "error": file.error,
            "warning": file.warning,
        })
    });
    let kubernetes = gateway.kubernetes_status().map(|status| {
        let up = gateway.sources_up();
        let scopes: Vec<Value> = status.scopes().iter().map(|of| scope(of, up)).collect();
        json!({ "kind": "kubernetes", "complete": status.is_complete(), "scopes": scopes })
    });
    file.into_iter().chain(kubernetes).collect()
}

/// What peers pushed, and a warning where anyone may. Nothing listens while the thread is down.
fn refresh(status: &RefreshStatus, thread_up: bool) -> Value {
    json!({
        "listening": status.listening.filter(|_| thread_up).map(|address| address.to_string()),
        "authentication": status.methods,
        "insecure": status.insecure,
        "warning": status.insecure.then_some("insecure: whoever reaches the port decides where requests go"),
        "error": status.error,
        "draining": status.draining,
        "connections": status.connections,
        "applied": status.applied,
        "stale": status.stale,
        "legacy": status.legacy,
        "invalid": status.invalid,
        "outsidePodRanges": status.outside,
        "unauthorized": status.unauthorized,
        "unavailable": status.unavailable,
        "tooLarge": status.too_large,
        "slow": status.slow,
        "batches": status.batches,
    })
}

/// Where keys come from and how they are; never a key.
fn keys(status: &KeyringStatus) -> Value {
    let sources = status.sources.iter().map(|source| {
        json!({
            "source": source.source.as_str(),
            "from": source.from,
            "keys": source.keys,
            "keyIds": source.key_ids,
            "leftOut": source.left_out,
            "issuer": source.issuer,
            "loadedAt": source.loaded_at.and_then(unix_seconds),
            "ageSeconds": source.age.as_secs(),
            "reads": source.reads,
            "failures": source.failures,
            "error": source.error,
        })
    });
    let reviews = status.reviews.as_ref().map(|reviews| {
        json!({
            "asked": reviews.asked,
            "good": reviews.good,
            "bad": reviews.bad,
            "failed": reviews.failed,
            "refused": reviews.refused,
            "remembered": reviews.remembered,
            "error": reviews.error,
        })
    });
    json!({ "sources": sources.collect::<Vec<_>>(), "tokenReviews": reviews })
}

/// What a scope last said of itself. Its state is no longer true while the thread is down.
fn scope(scope: &ScopeStatus, thread_up: bool) -> Value {
    json!({
        "provider": &*scope.provider,
        "resource": &*scope.resource,
        "namespace": scope.namespace.as_deref(),
        "labelSelector": &*scope.selector,
        "state": if thread_up { scope.state.as_str() } else { "stopped" },
        "listed": scope.listed,
        "listMode": scope.mode.map(ListMode::as_str),
        "lists": scope.lists,
        "objects": scope.objects,
        "events": scope.events,
        "lastEventAt": scope.last_event.and_then(unix_seconds),
        "lastContactAt": scope.last_contact.and_then(unix_seconds),
        "lastContactAgeSeconds": scope.last_contact.map(|_| scope.contact_age().as_secs()),
        "error": scope.error.as_deref(),
        "unreadable": scope.unreadable,
        "unreadableObjects": scope.unreadable_names.iter().map(|name| &**name).collect::<Vec<_>>(),
        "outsidePodRanges": scope.outside,
        "rewinds": scope.rewinds,
        "heldBack": scope.held_back,
    })
}

/// The version of Envoy's module ABI that the module was built for.
fn abi_version() -> Cow<'static, str> {
    let text: &[u8] = abi::envoy_dynamic_modules_abi_version;
    String::from_utf8_lossy(text.strip_suffix(b"\0").unwrap_or(text))
}

fn unix_seconds(time: SystemTime) -> Option<u64> {
    time.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs())
}

fn ok(value: &Value) -> (u32, String) {
    (200, format!("{value:#}\n"))
}

fn error(status: u32, message: fmt::Arguments<'_>) -> (u32, String) {
    (status, format!("{:#}\n", json!({ "error": message.to_string() })))
}
