//! Envoy's config: the shipped `envoy/config/gateway.yaml` with other addresses, paths and settings, so that
//! what is tested is what is shipped.

use std::path::Path;

use serde_json::{Value, json};

use super::access;
use crate::locations;

pub(super) const FIRST_LISTENER: &str = "gateway";
pub(super) const ACCESS_LOG: &str = "access.log";

/// The shipped config.
pub(super) fn shipped() -> Value {
    let file = locations::repository().join("envoy/config/gateway.yaml");
    let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    serde_saphyr::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
}

/// The clusters of `envoy/config/clusters-original-dst.yaml`.
pub(super) fn original_dst() -> Value {
    let file = locations::repository().join("envoy/config/clusters-original-dst.yaml");
    let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let mut config: Value =
        serde_saphyr::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    config["clusters"].take()
}

/// Lets routes name clusters that are not there yet.
pub(super) fn without_cluster_checks(config: &mut Value) {
    for listener in at(config, "/static_resources/listeners").as_array_mut().expect("listeners are a list") {
        at(listener, &format!("{CONNECTION_MANAGER}/route_config"))["validate_clusters"] = json!(false);
    }
}

/// Takes the retries out of all routes.
pub(super) fn without_retries(config: &mut Value) {
    for listener in at(config, "/static_resources/listeners").as_array_mut().expect("listeners are a list") {
        let routes = at(listener, &format!("{CONNECTION_MANAGER}/route_config/virtual_hosts/0/routes"));
        for route in routes.as_array_mut().expect("routes are a list") {
            if let Some(action) = route["route"].as_object_mut() {
                action.remove("retry_policy");
            }
        }
    }
}

/// The place of `pointer` in the config.
pub(super) fn at<'c>(config: &'c mut Value, pointer: &str) -> &'c mut Value {
    config.pointer_mut(pointer).unwrap_or_else(|| panic!("the shipped config has no {pointer}"))
}

const CLUSTER_MODULE: &str = "/cluster_type/typed_config/dynamic_module_config/module/local/filename";
const FIRST: &str = "/static_resources/listeners/0";
const SHARES: &str = "/filter_chains/0/filters/0/typed_config";
const CONNECTION_MANAGER: &str = "/filter_chains/0/filters/1/typed_config";
const FILTER: &str = "/filter_chains/0/filters/1/typed_config/http_filters/0/typed_config";

/// Any free port of 127.0.0.1; the admin port is found through `--admin-address-path`, the others through the
/// admin port.
fn free_address() -> Value {
    json!({ "socket_address": { "address": "127.0.0.1", "port_value": 0 } })
}

/// The shipped config on free ports, with this module and, for the bootstrap extension, these settings.
pub(super) fn localised(folder: &Path, module: &Path, settings: Option<&Value>) -> Value {
    let mut config = shipped();
    *at(&mut config, "/admin/address") = free_address();
    match settings {
        Some(settings) => {
            let extension = at(&mut config, "/bootstrap_extensions/0/typed_config");
            *at(extension, "/dynamic_module_config/module/local/filename") = json!(module);
            *at(extension, "/extension_config/value") = settings.clone();
        }
        None => {
            config.as_object_mut().expect("a config is an object").remove("bootstrap_extensions");
        }
    }
    for cluster in at(&mut config, "/static_resources/clusters").as_array_mut().expect("clusters are a list")
    {
        if let Some(filename) = cluster.pointer_mut(CLUSTER_MODULE) {
            *filename = json!(module);
        }
    }
    let listener = at(&mut config, FIRST);
    *at(listener, "/address") = free_address();
    for filter in [SHARES, FILTER] {
        *at(listener, &format!("{filter}/dynamic_module_config/module/local/filename")) = json!(module);
    }
    at(listener, CONNECTION_MANAGER)["access_log"] = json!([access::config(&folder.join(ACCESS_LOG))]);
    config
}

/// A listener like the first one but for its name and filter config; `None` keeps the shipped filter config.
pub(super) fn listener(config: &Value, name: &str, filter: Option<&Value>, extra_routes: &[Value]) -> Value {
    let mut listener = config.pointer(FIRST).expect("the first listener").clone();
    listener["name"] = json!(name);
    if let Some(filter) = filter {
        *at(&mut listener, &format!("{FILTER}/filter_config/value")) = filter.clone();
    }
    let routes = at(&mut listener, &format!("{CONNECTION_MANAGER}/route_config/virtual_hosts/0/routes"));
    let routes = routes.as_array_mut().expect("routes are a list");
    routes.splice(0..0, extra_routes.iter().cloned());
    listener
}
