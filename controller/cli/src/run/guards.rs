//! The sections `listen` and `timeouts` as parts of Envoy's config. What is as shipped changes nothing.

use serde_json::{Value, json};

use super::RunError;
use super::render::{CLUSTERS, HCM, add};
use crate::config::{Listen, Timeouts};

#[cfg(test)]
mod tests;

const ROUTES: &str = "/route_config/virtual_hosts/0/routes";
const COMMON: &str = "/common_http_protocol_options";
const PROTOCOL: &str =
    "/typed_extension_protocol_options/envoy.extensions.upstreams.http.v3.HttpProtocolOptions";

impl Listen {
    /// Puts the section under the connection manager.
    pub(super) fn put(&self, config: &mut Value) -> Result<(), RunError> {
        let shipped = Self::default();
        if self.trusted_hops != shipped.trusted_hops {
            add(config, HCM, "xff_num_trusted_hops", self.trusted_hops.into())?;
        }
        if self.max_request_headers_kb != shipped.max_request_headers_kb {
            add(config, HCM, "max_request_headers_kb", self.max_request_headers_kb.into())?;
        }
        if self.max_request_headers != shipped.max_request_headers {
            add(config, &format!("{HCM}{COMMON}"), "max_headers_count", self.max_request_headers.into())?;
        }
        Ok(())
    }

    /// How many of so many connections one address may have: half. Where proxies stand before the gateway
    /// every connection is one of theirs, and each of them may need all.
    pub(super) fn share(&self, connections: u64) -> u64 {
        if self.trusted_hops > 0 { connections } else { (connections / 2).max(1) }
    }
}

impl Timeouts {
    /// Puts the section into the routes and the clusters of sandboxes: called before there are others.
    pub(super) fn put(&self, config: &mut Value) -> Result<(), RunError> {
        let shipped = Self::default();
        let places = config.pointer_mut(&format!("{HCM}{ROUTES}")).and_then(Value::as_array_mut);
        self.put_routes(places.ok_or_else(|| RunError::missing("list", ROUTES))?);
        let clusters = config.pointer_mut(CLUSTERS).and_then(Value::as_array_mut);
        for cluster in clusters.ok_or_else(|| RunError::missing("list", CLUSTERS))? {
            if self.connect_seconds != shipped.connect_seconds {
                let milliseconds = self.connect_milliseconds();
                let time = format!("{}.{:03}s", milliseconds / 1000, milliseconds % 1000);
                add(cluster, "", "connect_timeout", time.into())?;
            }
            if self.upstream_idle_seconds != shipped.upstream_idle_seconds {
                let options = format!("{PROTOCOL}{COMMON}");
                add(cluster, &options, "idle_timeout", seconds(self.upstream_idle_seconds))?;
            }
        }
        Ok(())
    }

    fn put_routes(&self, routes: &mut Vec<Value>) {
        let upgrades = self.websocket_idle_seconds > 0 || self.websocket_lifetime_seconds > 0;
        if self.stream_idle_seconds == 0 && !upgrades {
            return;
        }
        // Envoy leaves this header to upgrades alone, those over HTTP/2 included. The last route is the one
        // of everything that is no gRPC.
        let mut upgrade = routes.last().cloned().unwrap_or_default();
        upgrade["match"]["headers"] = json!([{ "name": "upgrade", "present_match": true }]);
        upgrade["route"]["idle_timeout"] = seconds(self.websocket_idle_seconds);
        if self.websocket_lifetime_seconds > 0 {
            upgrade["route"]["max_stream_duration"] =
                json!({ "max_stream_duration": seconds(self.websocket_lifetime_seconds) });
        }
        if self.stream_idle_seconds > 0 {
            for route in &mut *routes {
                route["route"]["idle_timeout"] = seconds(self.stream_idle_seconds);
            }
        }
        routes.insert(0, upgrade);
    }
}

fn seconds(count: u32) -> Value {
    format!("{count}s").into()
}
