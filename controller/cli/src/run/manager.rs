//! The `manager` section in Envoy's config: a cluster, and the routes that lead to it.
//!
//! Requests to the manager pass Sandgate's filter by: its routes switch the filter off, so nothing of them
//! is read as an address or counted as a sandbox's. Everything else is routed as without the section.
//!
//! Envoy chooses the route before any filter runs, by what the client has sent. With `clear-route-cache` it
//! chooses again after the filter has changed the path, and then the path of a sandbox's own may read as the
//! manager's: the header that the filter sets on such requests keeps them away from this route.
//!
//! E2B's SDK sends a request again that was answered with 502, 503 or 504, a create too, unless the answer
//! says `should-retry: false`. The manager says it where a second try could do something twice. Envoy says
//! it here of answers of its own, where the manager may have had the request.

use std::net::IpAddr;

use sandgate_peering::pem;
use serde_json::{Value, json};

use super::RunError;
use super::render::{CLUSTERS, HCM, add, text};
use crate::config::{Config, MANAGER_HOST, MANAGER_PATH, Manager, ManagerTls};
use crate::failure::{Failure, usage};

#[cfg(test)]
mod tests;

const NAME: &str = "manager";
const FILTER: &str = "sandgate";
const ROUTED: &str = "x-sandgate-route";
const VIRTUAL_HOSTS: &str = "/route_config/virtual_hosts";
/// No request waits longer for the manager: it has limits of its own, the longest of them for a sandbox that
/// is resumed.
const TIMEOUT: &str = "900s";
/// Connections and requests that may be under way to the manager, unless there are fewer files.
const MOST: u64 = 4096;
/// What Envoy notes of a request that ended after it may have been sent: the connection was closed or reset,
/// the answer was none of HTTP, or a time was over. Without any of these it was not sent: no connection could
/// be made (UF), nobody was found (UH), or too many were waiting (UO).
const MAY_BE_SENT: [&str; 8] = ["UC", "UR", "LR", "UPE", "UT", "UMSDR", "SI", "DT"];

/// Looks at the files of the section.
pub(crate) fn check(config: &Config) -> Result<(), Failure> {
    if let Some(tls) = config.manager.as_ref().and_then(|manager| manager.tls.as_ref()) {
        pem::authorities(&tls.ca).map_err(|reason| usage!("{}: {reason}", config.place("manager.tls.ca")))?;
    }
    Ok(())
}

/// The section as a part of Envoy's config.
pub(super) struct Api<'a> {
    pub(super) manager: &'a Manager,
    /// The domains of the filter, in lower case.
    pub(super) domains: Vec<String>,
    /// How many connections there may be to the manager.
    pub(super) connections: u64,
}

impl Api<'_> {
    /// Adds the cluster and the routes.
    pub(super) fn put(&self, config: &mut Value) -> Result<(), RunError> {
        let hosts = format!("{HCM}{VIRTUAL_HOSTS}");
        list(config, &hosts)?.push(json!({
            "name": NAME,
            "domains": self.hosts(),
            "routes": [route(&json!({ "prefix": "/" }))],
        }));
        let by_path = route(&json!({
            "path_separated_prefix": MANAGER_PATH,
            "headers": [{ "name": ROUTED, "present_match": false }],
        }));
        list(config, &format!("{hosts}/0/routes"))?.insert(0, by_path);
        add(config, HCM, "local_reply_config", replies())?;
        let cluster = self.cluster()?;
        list(config, CLUSTERS)?.push(cluster);
        Ok(())
    }

    /// The hosts that are the manager's, as Envoy matches them: in lower case, with the port. Below a domain
    /// of the filter everything before it may be a sandbox's, dots included, so there it is one host alone.
    fn hosts(&self) -> Vec<String> {
        if self.domains.is_empty() {
            return vec![format!("{MANAGER_HOST}*")];
        }
        let of = |domain: &String| ["", ":*", ".", ".:*"].map(|end| format!("{MANAGER_HOST}{domain}{end}"));
        self.domains.iter().flat_map(of).collect()
    }

    fn cluster(&self) -> Result<Value, RunError> {
        let manager = self.manager;
        let most = self.connections.min(MOST);
        let is_address = manager.host.parse::<IpAddr>().is_ok();
        let endpoint = json!({ "address": manager.host, "port_value": manager.port });
        let mut cluster = json!({
            "name": NAME,
            "type": if is_address { "STATIC" } else { "STRICT_DNS" },
            "connect_timeout": "5s",
            "per_connection_buffer_limit_bytes": 65536,
            // A manager that cannot be found yet keeps nobody from sandboxes.
            "wait_for_warm_on_init": false,
            "load_assignment": {
                "cluster_name": NAME,
                "endpoints": [{ "lb_endpoints": [{ "endpoint": { "address": { "socket_address": endpoint } } }] }],
            },
            "circuit_breakers": { "thresholds": [
                { "max_connections": most, "max_pending_requests": most, "max_requests": most },
            ] },
            "typed_extension_protocol_options": {
                "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                    "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
                    // Shorter than the manager keeps them: a request that is sent as the manager closes is
                    // lost, and a POST is not sent twice.
                    "common_http_protocol_options": { "idle_timeout": "10s" },
                    "explicit_http_config": { "http_protocol_options": {} },
                },
            },
        });
        if !is_address {
            cluster["dns_lookup_family"] = "V4_PREFERRED".into();
        }
        if let Some(tls) = &manager.tls {
            cluster["transport_socket"] = socket(tls)?;
        }
        Ok(cluster)
    }
}

/// A route to the manager. A connection that could not be made is tried once more; a request that was sent
/// is never sent again.
fn route(matches: &Value) -> Value {
    let upgrades =
        ["websocket", "SPDY/3.1"].map(|upgrade| json!({ "upgrade_type": upgrade, "enabled": false }));
    json!({
        "match": matches,
        "route": {
            "cluster": NAME,
            "timeout": TIMEOUT,
            "retry_policy": { "retry_on": "connect-failure", "num_retries": 1 },
            "upgrade_configs": upgrades,
        },
        "typed_per_filter_config": {
            FILTER: { "@type": "type.googleapis.com/envoy.config.route.v3.FilterConfig", "disabled": true },
        },
    })
}

/// What is added to answers of Envoy's own, where they are about a request to the manager.
fn replies() -> Value {
    let to_manager = json!({
        "name": "envoy.access_loggers.extension_filters.cel",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.access_loggers.filters.cel.v3.ExpressionFilter",
            "expression": format!("xds.cluster_name == '{NAME}'"),
        },
    });
    let filters = json!([
        { "response_flag_filter": { "flags": MAY_BE_SENT } },
        { "extension_filter": to_manager },
    ]);
    json!({ "mappers": [{
        "filter": { "and_filter": { "filters": filters } },
        "headers_to_add": [{
            "header": { "key": "should-retry", "value": "false" },
            "append_action": "OVERWRITE_IF_EXISTS_OR_ADD",
        }],
    }] })
}

fn socket(tls: &ManagerTls) -> Result<Value, RunError> {
    Ok(json!({
        "name": "envoy.transport_sockets.tls",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
            "sni": tls.server_name,
            "common_tls_context": {
                "tls_params": { "tls_minimum_protocol_version": "TLSv1_2" },
                "validation_context": {
                    "trusted_ca": { "filename": text(&tls.ca)? },
                    "match_typed_subject_alt_names": [
                        { "san_type": "DNS", "matcher": { "exact": tls.server_name } },
                    ],
                },
            },
        },
    }))
}

fn list<'a>(config: &'a mut Value, pointer: &str) -> Result<&'a mut Vec<Value>, RunError> {
    let found = config.pointer_mut(pointer).and_then(Value::as_array_mut);
    found.ok_or_else(|| RunError::missing("list", pointer))
}
