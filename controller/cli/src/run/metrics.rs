//! The metrics listener: `/ready` and `/stats/prometheus` of the admin port for those who are not on this
//! machine.
//!
//! The admin port stays on loopback, because its other pages change and end the process. This listener leads
//! to it and lets two exact paths through, read with GET or HEAD. Envoy compares the path as it was sent,
//! byte for byte and without its query, and the admin port does the same with what it gets: there is no
//! second spelling of a page, and nothing is decoded on the way.
//!
//! A probe has to be answered when clients have taken everything they may. So this listener is not among
//! those that the limit of clients' connections, the share of one address and the overload manager hold back.
//! It has a small limit of its own instead: its connections cannot use up the files that clients' connections
//! need.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};

use serde_json::{Value, json};

use super::RunError;
use crate::args::Run;
use crate::failure::Failure;

#[cfg(test)]
mod tests;

const LISTENERS: &str = "/static_resources/listeners";
const CLUSTERS: &str = "/static_resources/clusters";
const OWN_ADDRESSES: &str = "/bootstrap_extensions/0/typed_config/extension_config/value/own-addresses";
const NAME: &str = "metrics";
/// The cluster of the admin port.
const ADMIN: &str = "metrics-admin";
const PAGES: [&str; 2] = ["/ready", "/stats/prometheus"];
/// A kubelet has one at a time, a Prometheus one.
const CONNECTIONS: u64 = 32;
/// To the admin port, where each is two files of this process.
const ADMIN_CONNECTIONS: u64 = 8;

/// How many files the listener may have open, of those that Envoy may open.
pub(super) fn files(port: Option<u16>) -> u64 {
    if port.is_some() { CONNECTIONS + 2 * ADMIN_CONNECTIONS } else { 0 }
}

/// Whether the listener can be had with these options.
pub(super) fn check(args: &Run) -> Result<(), Failure> {
    let Some(port) = args.metrics_port else { return Ok(()) };
    if args.admin_port == 0 {
        let reason = "the listener leads to the admin port, which therefore must be known";
        return Err(Failure::usage(format!("--metrics-port needs a fixed --admin-port, not 0: {reason}")));
    }
    for (option, taken) in [("--port", args.port), ("--admin-port", args.admin_port)] {
        if taken == port {
            return Err(Failure::usage(format!("--metrics-port and {option} are both {port}")));
        }
    }
    Ok(())
}

/// Whether the port is free.
pub(super) fn check_free(args: &Run) -> Result<(), Failure> {
    let Some(port) = args.metrics_port else { return Ok(()) };
    let address = SocketAddr::new(args.address, port);
    TcpListener::bind(address).map(drop).map_err(|error| {
        Failure::new(format!("cannot listen on {address}: {error}; choose another with --metrics-port"))
    })
}

/// Adds the listener and the cluster of the admin port to a rendered config, if there is to be one.
pub(super) fn add(
    config: &mut Value,
    address: IpAddr,
    port: Option<u16>,
    admin_port: u16,
) -> Result<(), RunError> {
    let Some(port) = port else { return Ok(()) };
    let own = SocketAddr::new(address, port);
    for (list, value) in [
        (LISTENERS, listener(own)),
        (CLUSTERS, cluster(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), admin_port))),
        // No sandbox is there.
        (OWN_ADDRESSES, own.to_string().into()),
    ] {
        let place = config.pointer_mut(list).and_then(Value::as_array_mut);
        place.ok_or_else(|| RunError::missing("list", list))?.push(value);
    }
    Ok(())
}

fn socket_address(address: SocketAddr) -> Value {
    json!({ "socket_address": { "address": address.ip().to_string(), "port_value": address.port() } })
}

fn listener(address: SocketAddr) -> Value {
    let limit = json!({
        "name": "envoy.filters.network.connection_limit",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.network.connection_limit.v3.ConnectionLimit",
            "stat_prefix": NAME,
            "max_connections": CONNECTIONS,
        },
    });
    let router = json!({
        "name": "envoy.filters.http.router",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router",
            "suppress_envoy_headers": true,
        },
    });
    let manager = json!({
        "name": "envoy.filters.network.http_connection_manager",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
            "stat_prefix": NAME,
            "codec_type": "HTTP1",
            // As for the gateway's listener: nobody's x-envoy-* headers are obeyed.
            "use_remote_address": true,
            "internal_address_config": { "cidr_ranges": [{ "address_prefix": "192.0.2.0", "prefix_len": 32 }] },
            "normalize_path": false,
            "merge_slashes": false,
            "path_with_escaped_slashes_action": "KEEP_UNCHANGED",
            "generate_request_id": false,
            // Whoever holds a connection and says nothing gives it up soon: there are few.
            "request_headers_timeout": "5s",
            "request_timeout": "10s",
            "stream_idle_timeout": "30s",
            "common_http_protocol_options": { "idle_timeout": "60s" },
            "http_filters": [router],
            "route_config": {
                "name": NAME,
                "virtual_hosts": [{ "name": "pages", "domains": ["*"], "routes": routes() }],
            },
        },
    });
    json!({
        "name": NAME,
        "address": socket_address(address),
        "per_connection_buffer_limit_bytes": 65536,
        "ignore_global_conn_limit": true,
        "bypass_overload_manager": true,
        "filter_chains": [{ "filters": [limit, manager] }],
    })
}

fn routes() -> Vec<Value> {
    let reading = json!({ "name": ":method", "string_match": { "safe_regex": { "regex": "GET|HEAD" } } });
    let page = |path: &str| {
        json!({
            "match": { "path": path, "headers": [reading] },
            "route": { "cluster": ADMIN, "timeout": "25s" },
        })
    };
    let other = json!({ "match": { "prefix": "/" }, "direct_response": { "status": 404 } });
    PAGES.into_iter().map(page).chain([other]).collect()
}

fn cluster(admin: SocketAddr) -> Value {
    let options = "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions";
    json!({
        "name": ADMIN,
        "type": "STATIC",
        "connect_timeout": "1s",
        "per_connection_buffer_limit_bytes": 65536,
        "load_assignment": {
            "cluster_name": ADMIN,
            "endpoints": [{ "lb_endpoints": [{ "endpoint": { "address": socket_address(admin) } }] }],
        },
        "circuit_breakers": { "thresholds": [{
            "max_connections": ADMIN_CONNECTIONS,
            "max_pending_requests": CONNECTIONS,
            "max_requests": CONNECTIONS,
        }] },
        "typed_extension_protocol_options": { "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
            "@type": options,
            "common_http_protocol_options": { "idle_timeout": "30s" },
            "explicit_http_config": { "http_protocol_options": {} },
        } },
    })
}
