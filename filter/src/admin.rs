//! The pages on Envoy's admin port: `/sandgate/routes` and `/sandgate/status`.
//!
//! Envoy matches the exact path of an admin page, so one route is `/sandgate/routes?id=ID`, and it answers
//! every page as `text/plain`; the bodies are JSON. Pages are made on Envoy's main thread from a read of the
//! table: consistent for each route, not across routes. A token never leaves the table: `auth` says only
//! whether there is one.

use std::borrow::Cow;
use std::fmt;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use envoy_proxy_dynamic_modules_rust_sdk::abi;
use sandgate_routes::{Filter, Route, State};
use sandgate_watch::{ListMode, RefreshStatus, ScopeStatus};
use serde_json::{Value, json};

use crate::gateway::Gateway;

pub(crate) const ROUTES: &str = "/sandgate/routes";
pub(crate) const STATUS: &str = "/sandgate/status";

const DEFAULT_LIMIT: usize = 100;
const MAX_LIMIT: usize = 10_000;

/// Answers an admin request with a status and a JSON body.
pub(crate) fn respond(gateway: &Gateway, method: &str, path_and_query: &str) -> (u32, String) {
    if method != "GET" {
        return error(405, format_args!("{method} is not allowed: this page is read with GET"));
    }
    let (path, query) = path_and_query.split_once('?').unwrap_or((path_and_query, ""));
    match path {
        ROUTES => routes(gateway, query),
        STATUS => match parse_status(query) {
            Ok(with_digest) => ok(&status(gateway, with_digest)),
            Err(message) => error(400, format_args!("{message}")),
        },
        _ => error(404, format_args!("no such page: {ROUTES} and {STATUS} are")),
    }
}

fn routes(gateway: &Gateway, query: &str) -> (u32, String) {
    let query = match RoutesQuery::parse(query) {
        Ok(query) => query,
        Err(message) => return error(400, format_args!("{message}")),
    };
    if let Some(id) = query.id {
        return match gateway.reader.get(&id) {
            Some(route) => ok(&render(&route)),
            None => error(404, format_args!("no route has the id {id:?}")),
        };
    }
    let page = gateway.reader.page(&query.filter, query.after.as_deref(), query.limit);
    let routes: Vec<Value> = page.routes.iter().map(|route| render(route)).collect();
    ok(&json!({ "routes": routes, "next": page.next, "total": gateway.reader.counts().routes }))
}

struct RoutesQuery {
    id: Option<String>,
    filter: Filter,
    after: Option<String>,
    limit: usize,
}

impl RoutesQuery {
    fn parse(query: &str) -> Result<Self, String> {
        let mut parsed = Self { id: None, filter: Filter::default(), after: None, limit: DEFAULT_LIMIT };
        for (key, value) in form_urlencoded::parse(query.as_bytes()) {
            let value = value.into_owned();
            match &*key {
                "id" => parsed.id = Some(value),
                "after" => parsed.after = Some(value),
                "namespace" => parsed.filter.namespace = Some(value),
                "prefix" => parsed.filter.prefix = Some(value),
                "provider" => parsed.filter.provider = Some(value),
                "state" => parsed.filter.state = Some(parse_state(&value)?),
                "limit" => parsed.limit = parse_limit(&value)?,
                _ => {
                    return Err(format!(
                        "unknown parameter {key:?}: expected id, state, namespace, prefix, provider, after or limit"
                    ));
                }
            }
        }
        Ok(parsed)
    }
}

fn parse_state(value: &str) -> Result<State, String> {
    value.parse().map_err(|_| {
        let known: Vec<&str> = State::ALL.iter().map(|state| state.as_str()).collect();
        format!("state is {value:?}: expected one of {}", known.join(", "))
    })
}

fn parse_limit(value: &str) -> Result<usize, String> {
    match value.parse() {
        Ok(limit @ 1..=MAX_LIMIT) => Ok(limit),
        _ => Err(format!("limit is {value:?}: expected a number from 1 to {MAX_LIMIT}")),
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
        "requireTrafficAuth": route.require_traffic_auth(),
        "ambiguous": route.is_ambiguous(),
    })
}

/// Whether the status is to have the table's digest, which looks at every route and is made only when asked for.
fn parse_status(query: &str) -> Result<bool, String> {
    let mut digest = false;
    for (key, value) in form_urlencoded::parse(query.as_bytes()) {
        digest = match (&*key, &*value) {
            ("digest", "1") => true,
            ("digest", "0") => false,
            ("digest", _) => return Err(format!("digest is {value:?}: expected 0 or 1")),
            _ => return Err(format!("unknown parameter {key:?}: expected digest")),
        };
    }
    Ok(digest)
}

fn status(gateway: &Gateway, with_digest: bool) -> Value {
    let counts = gateway.reader.counts();
    let mut status = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "abi": abi_version(),
        "ready": gateway.reader.is_ready(),
        "routes": {
            "total": counts.routes,
            "creating": counts.in_state(State::Creating),
            "available": counts.in_state(State::Available),
            "running": counts.in_state(State::Running),
            "paused": counts.in_state(State::Paused),
            "ambiguous": counts.ambiguous,
        },
        "tombstones": counts.tombstones,
        "table": {
            "applied": counts.applied,
            "stale": counts.stale,
            "invalid": counts.invalid,
            "takeovers": counts.takeovers,
            "tombstonesDropped": counts.tombstones_dropped,
        },
        "sources": sources(gateway),
        "refresh": gateway.refresh_status().as_ref().map(refresh),
        "clusters": crate::cluster::status(),
        "panics": gateway.panics.load(Ordering::Relaxed),
        "uptimeSeconds": gateway.made.elapsed().as_secs(),
    });
    if with_digest {
        status["digest"] = gateway.reader.digest().into();
    }
    status
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
        })
    });
    let kubernetes = gateway.kubernetes_status().map(|status| {
        let scopes: Vec<Value> = status.scopes().iter().map(scope).collect();
        json!({ "kind": "kubernetes", "complete": status.is_complete(), "scopes": scopes })
    });
    file.into_iter().chain(kubernetes).collect()
}

/// What peers pushed, and a warning where anyone may.
fn refresh(status: &RefreshStatus) -> Value {
    json!({
        "listening": status.listening.map(|address| address.to_string()),
        "authentication": status.methods,
        "insecure": status.insecure,
        "warning": status.insecure.then_some("insecure: whoever reaches the port decides where requests go"),
        "error": status.error,
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

fn scope(scope: &ScopeStatus) -> Value {
    json!({
        "provider": &*scope.provider,
        "resource": &*scope.resource,
        "namespace": scope.namespace.as_deref(),
        "labelSelector": &*scope.selector,
        "state": scope.state.as_str(),
        "listed": scope.listed,
        "listMode": scope.mode.map(ListMode::as_str),
        "lists": scope.lists,
        "objects": scope.objects,
        "events": scope.events,
        "lastEventAt": scope.last_event.and_then(unix_seconds),
        "lastContactAt": scope.last_contact.and_then(unix_seconds),
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
