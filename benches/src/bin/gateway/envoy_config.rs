//! Envoy's configs: the shipped `envoy/config/gateway.yaml` for Sandgate, and the same file with the module
//! taken out for the limit and the peers. So the listener, its timeouts and its header handling are the same
//! for all, and what differs is what is compared.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::cell::Cell;
use crate::failure::{Doing as _, Failure, Result};
use crate::peers;

const SHIPPED: &str = include_str!("../../../../envoy/config/gateway.yaml");
const SETTINGS: &str = include_str!("../../../../envoy/config/gateway.schema.json");
const LISTENER: &str = "/static_resources/listeners/0";
const MANAGER: &str = "/static_resources/listeners/0/filter_chains/0/filters/1/typed_config";
const ROUTES: &str = "/static_resources/listeners/0/filter_chains/0/filters/1/typed_config/route_config/virtual_hosts/0/routes";
pub(crate) const BOOTSTRAP: &str = "/bootstrap_extensions/0/typed_config/extension_config/value";
const CLUSTERS: &str = "/static_resources/clusters";
/// The listener's name in the shipped config.
pub(crate) const LISTENER_NAME: &str = "gateway";

/// What stands between the listener and the sandboxes.
pub(crate) enum Between<'a> {
    /// Nothing: the limit.
    Nothing,
    /// A module that does nothing.
    Noop { module: &'a Path },
    /// The same, and in Envoy's own config what no gateway for sandboxes can leave out: two headers that tell
    /// the sandbox who it is, a connection that could not be made tried again, and hosts that are asked for
    /// in no order.
    Floor { module: &'a Path },
    /// A table in the Lua filter.
    Lua { routes: &'a Path },
    /// A table in another process.
    ExtProc { port: u16 },
    /// Sandgate.
    Sandgate { module: &'a Path, routes: &'a Path, way: Way, push: Option<u16> },
}

/// Whether Sandgate can be told of changes by a push.
pub(crate) fn takes_pushes() -> bool {
    SETTINGS.contains("\"refresh\"")
}

/// How Sandgate reaches the sandboxes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Its own cluster.
    OwnCluster,
    /// ORIGINAL_DST, one request a connection, as it has to be to be safe.
    OriginalDst,
    /// ORIGINAL_DST with connections kept: not safe, but what the mechanism costs.
    OriginalDstPooled,
}

/// Envoy's config for one contender in one cell, on free ports of 127.0.0.1.
pub(crate) fn render(between: &Between<'_>, cell: Cell, upstream: u16) -> Result<Value> {
    let mut config = shipped()?;
    *at(&mut config, "/admin/address")? = free_address();
    *at(&mut config, &format!("{LISTENER}/address"))? = free_address();
    if let Between::Sandgate { module, routes, way, push } = between {
        sandgate(&mut config, module, routes, *way)?;
        if let Some(port) = push {
            let mut refresh =
                json!({ "address": "127.0.0.1", "port": port, "provider": "openkruise", "insecure": true });
            // Longer than a run; older versions have no such key.
            if SETTINGS.contains("\"lease-seconds\"") {
                refresh["lease-seconds"] = json!(86_400);
            }
            at(&mut config, BOOTSTRAP)?["refresh"] = refresh;
        }
        return Ok(config);
    }
    if let Some(object) = config.as_object_mut() {
        object.remove("bootstrap_extensions");
    }
    let filters = at(&mut config, &format!("{MANAGER}/http_filters"))?;
    let router = filters.as_array_mut().and_then(Vec::pop).ok_or_else(|| nothing("a router"))?;
    *filters = Value::Array(filter(between).into_iter().chain([router]).collect());
    let order = if matches!(between, Between::Floor { .. }) { "RANDOM" } else { "ROUND_ROBIN" };
    let static_cluster = |name: &Value| {
        let endpoints: Vec<Value> =
            cell.fleet().addresses().map(|ip| endpoint(&ip.to_string(), upstream)).collect();
        json!({
            "name": name, "type": "STATIC", "lb_policy": order, "connect_timeout": "5s",
            "circuit_breakers": breakers(),
            "load_assignment": { "cluster_name": name, "endpoints": [{ "lb_endpoints": endpoints }] },
        })
    };
    let by_header = |name: &Value| {
        json!({
            "name": name, "type": "ORIGINAL_DST", "lb_policy": "CLUSTER_PROVIDED", "connect_timeout": "5s",
            "circuit_breakers": breakers(), "original_dst_lb_config": { "use_http_header": true },
        })
    };
    // The one cluster every request of a run goes to; the peers name the sandbox in a header.
    let name = json!("sandbox");
    let mut clusters = match between {
        Between::Lua { .. } | Between::ExtProc { .. } => vec![by_header(&name)],
        _ => vec![static_cluster(&name)],
    };
    if let Between::ExtProc { port } = between {
        clusters.push(processor(*port));
    }
    *at(&mut config, CLUSTERS)? = Value::Array(clusters);
    let refused = cell.asked.refused()
        && matches!(between, Between::Nothing | Between::Noop { .. } | Between::Floor { .. });
    let action = if refused {
        ("direct_response", json!({ "status": 502, "body": { "inline_string": REFUSAL } }))
    } else {
        ("route", json!({ "cluster": name, "timeout": "0s" }))
    };
    // The same two routes as the shipped config has.
    let place = at(&mut config, ROUTES)?;
    let retry = place.pointer("/0/route/retry_policy").cloned();
    *place = json!([
        { "match": { "prefix": "/", "grpc": {} }, action.0: action.1 },
        { "match": { "prefix": "/" }, action.0: action.1 },
    ]);
    if matches!(between, Between::Floor { .. }) {
        let retry = retry.ok_or_else(|| nothing("retry_policy"))?;
        for route in place.as_array_mut().into_iter().flatten() {
            route["request_headers_to_add"] = told_the_sandbox();
            route["route"]["retry_policy"] = retry.clone();
        }
    }
    // Sandgate's network filter stands before the connection manager: it is Sandgate's alone.
    let filters = at(&mut config, &format!("{LISTENER}/filter_chains/0/filters"))?;
    filters.as_array_mut().ok_or_else(|| nothing("network filters"))?.remove(0);
    Ok(config)
}

/// Two headers, as long as those that Sandgate sends.
fn told_the_sandbox() -> Value {
    let header = |name: &str, value: &str| json!({ "header": { "key": name, "value": value } });
    json!([header("x-sandbox-id", "bench--s0000000"), header("x-sandbox-uid", "file:bench/s0000000")])
}

/// As long as Sandgate's own reply is.
const REFUSAL: &str = r#"{"code":502,"reason":"sandbox_not_found","sandbox":"bench--u0000000","state":null,"message":"no sandbox has this id"}"#;

fn shipped() -> Result<Value> {
    serde_saphyr::from_str(SHIPPED).map_err(|error| Failure::Asked(format!("gateway.yaml: {error}")))
}

fn sandgate(config: &mut Value, module: &Path, routes: &Path, way: Way) -> Result<()> {
    at(config, BOOTSTRAP)?["routes-file"] = json!(routes);
    match way {
        Way::OwnCluster if !offers(way) => return Err(nothing("cluster of Sandgate's own")),
        Way::OwnCluster => {}
        Way::OriginalDst => original_dst(config)?,
        Way::OriginalDstPooled => {
            original_dst(config)?;
            let protocol =
                "typed_extension_protocol_options/envoy.extensions.upstreams.http.v3.HttpProtocolOptions";
            for cluster in at(config, CLUSTERS)?.as_array_mut().into_iter().flatten() {
                let options = cluster.pointer_mut(&format!("/{protocol}")).and_then(Value::as_object_mut);
                options.ok_or_else(|| nothing(protocol))?.remove("common_http_protocol_options");
            }
        }
    }
    set_module(config, module);
    Ok(())
}

/// Puts ORIGINAL_DST in the place of Sandgate's own clusters, as the file of those says.
fn original_dst(config: &mut Value) -> Result<()> {
    if !offers(Way::OwnCluster) {
        return Ok(());
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../envoy/config/clusters-original-dst.yaml");
    let text = fs::read_to_string(&path).doing("reading clusters-original-dst.yaml")?;
    let mut stock: Value = serde_saphyr::from_str(&text)
        .map_err(|error| Failure::Asked(format!("clusters-original-dst.yaml: {error}")))?;
    *at(config, CLUSTERS)? = stock["clusters"].take();
    at(config, &format!("{MANAGER}/http_filters/0/typed_config/filter_config/value"))?["upstream"] =
        json!("original-dst");
    let routes = at(config, ROUTES)?;
    for route in routes.as_array_mut().into_iter().flatten() {
        if let Some(action) = route["route"].as_object_mut() {
            action.remove("retry_policy");
        }
    }
    Ok(())
}

/// Wherever the config names the module.
fn set_module(config: &mut Value, module: &Path) {
    if let Some(place) = config.pointer_mut("/dynamic_module_config/module/local/filename") {
        *place = json!(module);
    }
    match config {
        Value::Array(all) => all.iter_mut().for_each(|one| set_module(one, module)),
        Value::Object(all) => all.values_mut().for_each(|one| set_module(one, module)),
        _ => {}
    }
}

/// Whether the shipped config can be run this way.
pub(crate) fn offers(way: Way) -> bool {
    way != Way::OwnCluster || SHIPPED.contains("envoy.clusters.dynamic_modules")
}

fn filter(between: &Between<'_>) -> Option<Value> {
    let typed = |name: &str, kind: &str, mut rest: Value| {
        rest["@type"] = json!(format!("type.googleapis.com/envoy.extensions.filters.http.{kind}"));
        json!({ "name": name, "typed_config": rest })
    };
    match between {
        Between::Nothing | Between::Sandgate { .. } => None,
        Between::Noop { module } | Between::Floor { module } => Some(typed(
            "noop",
            "dynamic_modules.v3.DynamicModuleFilter",
            json!({
                "dynamic_module_config": { "module": { "local": { "filename": module } }, "do_not_close": true },
                "filter_name": "noop",
            }),
        )),
        Between::Lua { routes } => {
            let code = peers::lua(&routes.display().to_string());
            Some(typed("lua", "lua.v3.Lua", json!({ "default_source_code": { "inline_string": code } })))
        }
        Between::ExtProc { .. } => Some(typed(
            "ext_proc",
            "ext_proc.v3.ExternalProcessor",
            json!({
                "grpc_service": { "envoy_grpc": { "cluster_name": "processor" }, "timeout": "5s" },
                "message_timeout": "5s",
                "processing_mode": {
                    "request_header_mode": "SEND", "response_header_mode": "SKIP",
                    "request_body_mode": "NONE", "response_body_mode": "NONE",
                    "request_trailer_mode": "SKIP", "response_trailer_mode": "SKIP",
                },
                "mutation_rules": { "allow_all_routing": true, "allow_envoy": true },
            }),
        )),
    }
}

fn processor(port: u16) -> Value {
    const OPTIONS: &str = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";
    json!({
        "name": "processor", "type": "STATIC", "connect_timeout": "5s", "circuit_breakers": breakers(),
        "load_assignment": {
            "cluster_name": "processor", "endpoints": [{ "lb_endpoints": [endpoint("127.0.0.1", port)] }],
        },
        "typed_extension_protocol_options": {
            OPTIONS: {
                "@type": format!("type.googleapis.com/{OPTIONS}"),
                "explicit_http_config": { "http2_protocol_options": {} },
            },
        },
    })
}

fn endpoint(ip: &str, port: u16) -> Value {
    json!({ "endpoint": { "address": { "socket_address": { "address": ip, "port_value": port } } } })
}

/// The shipped config's.
fn breakers() -> Value {
    let most = 1_000_000;
    json!({ "thresholds": [{
        "max_connections": most, "max_pending_requests": most, "max_requests": most, "max_retries": 0,
    }] })
}

fn free_address() -> Value {
    json!({ "socket_address": { "address": "127.0.0.1", "port_value": 0 } })
}

fn at<'c>(config: &'c mut Value, pointer: &str) -> Result<&'c mut Value> {
    config.pointer_mut(pointer).ok_or_else(|| nothing(pointer))
}

fn nothing(what: &str) -> Failure {
    Failure::Asked(format!("the shipped gateway.yaml has no {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::BASE;
    use crate::fleet::Asked;

    fn rendered(between: &Between<'_>, cell: Cell) -> Value {
        render(between, cell, 8080).expect("the shipped config has what is replaced")
    }

    /// The connection manager, which others have alone in their chain.
    fn manager(config: &Value) -> &Value {
        let chain = config.pointer(&format!("{LISTENER}/filter_chains/0/filters")).and_then(Value::as_array);
        &chain.and_then(|chain| chain.last()).expect("a connection manager")["typed_config"]
    }

    fn routes(config: &Value) -> &Value {
        &manager(config)["route_config"]["virtual_hosts"][0]["routes"]
    }

    fn filters(config: &Value) -> Vec<&str> {
        let filters = manager(config)["http_filters"].as_array();
        filters.expect("filters").iter().filter_map(|filter| filter["name"].as_str()).collect()
    }

    #[test]
    fn the_limit_is_the_shipped_listener_with_no_filter_and_as_many_addresses() {
        let config = rendered(&Between::Nothing, Cell { addresses: 7, ..BASE });
        assert_eq!(filters(&config), ["envoy.filters.http.router"]);
        assert!(config.get("bootstrap_extensions").is_none());
        let endpoints =
            config.pointer("/static_resources/clusters/0/load_assignment/endpoints/0/lb_endpoints");
        assert_eq!(endpoints.and_then(Value::as_array).map(Vec::len), Some(7));
        assert_eq!(manager(&config)["use_remote_address"], json!(true));
    }

    #[test]
    fn the_limit_of_a_local_reply_is_a_direct_response() {
        let unknown = Cell { asked: Asked::Unknown, ..BASE };
        let limit = rendered(&Between::Nothing, unknown);
        assert_eq!(routes(&limit)[1]["direct_response"]["status"], json!(502));
        let lua = rendered(&Between::Lua { routes: Path::new("/routes") }, unknown);
        assert_eq!(routes(&lua)[1]["route"]["cluster"], json!("sandbox"));
    }

    #[test]
    fn sandgate_runs_the_shipped_config_with_its_module_and_routes() {
        let (module, routes) = (Path::new("/m.so"), Path::new("/r.json"));
        let as_shipped =
            rendered(&Between::Sandgate { module, routes, way: Way::OriginalDst, push: None }, BASE);
        assert_eq!(as_shipped.pointer(&format!("{BOOTSTRAP}/refresh")), None);
        let as_shipped = as_shipped.to_string();
        assert_eq!(as_shipped.matches("/m.so").count(), 3, "bootstrap, network filter, HTTP filter");
        assert!(as_shipped.contains("/r.json") && as_shipped.contains("max_requests_per_connection"));
        let pooled =
            rendered(&Between::Sandgate { module, routes, way: Way::OriginalDstPooled, push: Some(7) }, BASE);
        assert!(!pooled.to_string().contains("max_requests_per_connection"));
        assert_eq!(pooled.pointer(&format!("{BOOTSTRAP}/refresh/port")), Some(&json!(7)));
    }

    #[test]
    fn each_peer_has_its_filter_before_the_router() {
        let noop = rendered(&Between::Noop { module: Path::new("/n.so") }, BASE);
        assert_eq!(filters(&noop), ["noop", "envoy.filters.http.router"]);
        let floor = rendered(&Between::Floor { module: Path::new("/n.so") }, BASE);
        assert_eq!(filters(&floor), ["noop", "envoy.filters.http.router"]);
        let sandgate = shipped().expect("the shipped config");
        for route in [0, 1] {
            let retry = &routes(&floor)[route]["route"]["retry_policy"];
            assert!(retry.is_object() && *retry == routes(&sandgate)[route]["route"]["retry_policy"]);
            let headers = routes(&floor)[route]["request_headers_to_add"].as_array();
            assert_eq!(headers.map(Vec::len), Some(2));
        }
        assert!(floor.to_string().contains("RANDOM") && !noop.to_string().contains("RANDOM"));
        let lua = rendered(&Between::Lua { routes: Path::new("/plain") }, BASE);
        assert_eq!(filters(&lua), ["lua", "envoy.filters.http.router"]);
        assert!(lua.to_string().contains("io.lines(\\\"/plain\\\")"));
        let ext_proc = rendered(&Between::ExtProc { port: 4 }, BASE);
        assert_eq!(filters(&ext_proc), ["ext_proc", "envoy.filters.http.router"]);
        assert_eq!(ext_proc.pointer(CLUSTERS).and_then(Value::as_array).map(Vec::len), Some(2));
    }
}
