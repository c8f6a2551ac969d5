//! Envoy's config: `envoy/config/gateway.yaml`, with a few values replaced.
//!
//! The file is compiled in, so this program and the published config cannot drift apart.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;

use serde_json::{Map, Value, json};

use super::limits::Limits;
use super::manager::Api;
use super::tls::Door;
use super::{RunError, metrics};
use crate::config::{Listen, Timeouts};

#[cfg(test)]
mod tests;

const GATEWAY: &str = include_str!("../../../../envoy/config/gateway.yaml");

const ORIGINAL_DST: &str = include_str!("../../../../envoy/config/clusters-original-dst.yaml");

pub(super) const CLUSTERS: &str = "/static_resources/clusters";
const CLUSTER: &str = "/cluster_type/typed_config";
const THRESHOLDS: &str = "/circuit_breakers/thresholds/0";
/// The cluster whose connections carry many requests at a time.
const SHARED: &str = "sandbox-http2";
/// Sandgate's network filter, before the connection manager.
const SHARES: &str = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config";
pub(super) const HCM: &str = "/static_resources/listeners/0/filter_chains/0/filters/1/typed_config";
const FILTER: &str = "/http_filters/0/typed_config";
const BOOTSTRAP: &str = "/bootstrap_extensions/0/typed_config";
const CONNECTIONS: &str =
    "/overload_manager/resource_monitors/0/typed_config/max_active_downstream_connections";
const HEAP: &str = "/overload_manager/resource_monitors/1/typed_config/max_heap_size_bytes";
const OWN_ADDRESSES: &str = "own-addresses";
const MODULE: &str = "/dynamic_module_config/module/local/filename";

/// The stat prefix of the listener's connection manager in the shipped config.
pub(super) const STAT_PREFIX: &str = "gateway";
/// The listener's name in the shipped config.
pub(super) const LISTENER: &str = "gateway";

/// What replaces values of the shipped config.
pub(super) struct Render<'a> {
    pub(super) address: IpAddr,
    pub(super) port: u16,
    pub(super) admin_port: u16,
    pub(super) metrics_port: Option<u16>,
    pub(super) module: Option<&'a Path>,
    pub(super) routes: Option<&'a Path>,
    pub(super) filter: &'a Value,
    pub(super) gateway: &'a Map<String, Value>,
    pub(super) cluster: &'a Map<String, Value>,
    pub(super) listen: &'a Listen,
    pub(super) timeouts: &'a Timeouts,
    pub(super) access_log: bool,
    pub(super) hot_restart: bool,
    pub(super) limits: Limits,
    pub(super) tls: Option<Door<'a>>,
    pub(super) manager: Option<Api<'a>>,
}

pub(super) fn shipped() -> Value {
    serde_saphyr::from_str(GATEWAY).expect("a test reads the shipped config")
}

/// The filter config of the shipped file.
pub(crate) fn shipped_filter_config() -> Value {
    shipped().pointer(&format!("{HCM}{FILTER}/filter_config/value")).cloned().unwrap_or_default()
}

impl Render<'_> {
    pub(super) fn render(&self) -> Result<Value, RunError> {
        let mut config = shipped();
        let mut set = |pointer: &str, value: Value| match config.pointer_mut(pointer) {
            Some(place) => {
                *place = value;
                Ok(())
            }
            None => Err(RunError::missing("value", pointer)),
        };
        set("/admin/address/socket_address/port_value", self.admin_port.into())?;
        let listener = "/static_resources/listeners/0/address/socket_address";
        set(&format!("{listener}/address"), self.address.to_string().into())?;
        set(&format!("{listener}/port_value"), self.port.into())?;
        if let Some(module) = self.module {
            let path = text(module)?;
            set(&format!("{BOOTSTRAP}{MODULE}"), path.clone())?;
            set(&format!("{SHARES}{MODULE}"), path.clone())?;
            set(&format!("{HCM}{FILTER}{MODULE}"), path)?;
        }
        set(&format!("{HCM}{FILTER}/filter_config/value"), self.filter.clone())?;
        set(CONNECTIONS, self.limits.connections.clients.into())?;
        set(HEAP, self.limits.heap.into())?;
        let share = self.listen.share(self.limits.connections.clients);
        set(&format!("{SHARES}/filter_config/value/connections-per-address"), share.into())?;

        let settings = format!("{BOOTSTRAP}/extension_config/value");
        if self.gateway.contains_key("kubernetes") {
            // The shipped config has a routes file; here the cluster takes its place, unless one is named
            // too.
            set(&settings, json!({}))?;
        }
        for (key, value) in self.gateway {
            add(&mut config, &settings, key, value.clone())?;
        }
        if let Some(routes) = self.routes {
            add(&mut config, &settings, "routes-file", text(routes)?)?;
        }
        add(&mut config, &settings, OWN_ADDRESSES, self.own_addresses())?;
        if self.filter["upstream"] == "original-dst" {
            use_original_dst(&mut config)?;
        }
        for cluster in config.pointer_mut(CLUSTERS).and_then(Value::as_array_mut).into_iter().flatten() {
            self.set_cluster(cluster)?;
        }
        self.listen.put(&mut config)?;
        self.timeouts.put(&mut config)?;
        if self.hot_restart {
            // So that the next Envoy hears within a second that the last one does not speak for the gateway
            // any more.
            add(&mut config, "", "stats_flush_interval", "1s".into())?;
        }
        if self.access_log {
            add(&mut config, HCM, "access_log", access_log())?;
        }
        metrics::add(&mut config, self.address, self.metrics_port, self.admin_port)?;
        if let Some(door) = &self.tls {
            door.put(&mut config)?;
        }
        if let Some(api) = &self.manager {
            api.put(&mut config)?;
        }
        Ok(config)
    }
}

impl Render<'_> {
    /// Where Envoy will listen, and what the config names beside. A port that Envoy is to choose is not known
    /// yet.
    fn own_addresses(&self) -> Value {
        let listener = SocketAddr::new(self.address, self.port);
        let admin = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), self.admin_port);
        let known = [listener, admin].into_iter().filter(|address| address.port() != 0);
        let given = self.gateway.get(OWN_ADDRESSES).and_then(Value::as_array).into_iter().flatten().cloned();
        known.map(|address| address.to_string().into()).chain(given).collect()
    }

    /// Every cluster has as many connections as it may. One of Sandgate's gets the module's path and the keys
    /// of the `cluster` section.
    fn set_cluster(&self, cluster: &mut Value) -> Result<(), RunError> {
        let connections = self.limits.connections;
        let most = if cluster["name"] == SHARED { connections.shared } else { connections.sandboxes };
        add(cluster, THRESHOLDS, "max_connections", most.into())?;
        let Some(extension) = cluster.pointer_mut(CLUSTER) else { return Ok(()) };
        if let (Some(module), Some(place)) = (self.module, extension.pointer_mut(MODULE)) {
            *place = text(module)?;
        }
        for (key, value) in self.cluster {
            add(extension, "/cluster_config/value", key, value.clone())?;
        }
        Ok(())
    }
}

/// Puts Envoy's own cluster type in the place of Sandgate's. Nothing checks whose an address is then, so
/// nothing is retried.
fn use_original_dst(config: &mut Value) -> Result<(), RunError> {
    let mut other: Value = serde_saphyr::from_str(ORIGINAL_DST).expect("a test reads the shipped clusters");
    let clusters = config.pointer_mut(CLUSTERS).ok_or_else(|| RunError::missing("list", CLUSTERS))?;
    *clusters = other["clusters"].take();
    let routes = config
        .pointer_mut(&format!("{HCM}/route_config/virtual_hosts/0/routes"))
        .and_then(Value::as_array_mut);
    for route in routes.into_iter().flatten() {
        if let Some(action) = route["route"].as_object_mut() {
            action.remove("retry_policy");
        }
    }
    Ok(())
}

pub(super) fn add(config: &mut Value, pointer: &str, key: &str, value: Value) -> Result<(), RunError> {
    let object = config.pointer_mut(pointer).and_then(Value::as_object_mut);
    object.ok_or_else(|| RunError::missing("mapping", pointer))?.insert(key.to_owned(), value);
    Ok(())
}

pub(super) fn text(path: &Path) -> Result<Value, RunError> {
    path.to_str().map(Value::from).ok_or_else(|| RunError::NotUtf8(path.to_owned()))
}

fn access_log() -> Value {
    let format = "%START_TIME% %REQ(:METHOD)% %REQ(:AUTHORITY)% %REQ(X-ENVOY-ORIGINAL-PATH?:PATH)% %PROTOCOL% \
                  %RESPONSE_CODE% %RESPONSE_CODE_DETAILS% %RESPONSE_FLAGS% upstream=%UPSTREAM_HOST% \
                  in=%BYTES_RECEIVED% out=%BYTES_SENT% ms=%DURATION%\n";
    json!([{
        "name": "envoy.access_loggers.stdout",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.access_loggers.stream.v3.StdoutAccessLog",
            "log_format": { "text_format_source": { "inline_string": format } },
        },
    }])
}
