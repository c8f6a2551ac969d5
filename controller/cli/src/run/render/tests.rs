use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::sync::LazyLock;

use sandgate_config::{ClusterConfig, ConnectionsConfig};
use sandgate_request::FilterConfig;
use sandgate_watch::Settings;
use serde_json::{Map, Value, json};

use super::super::limits::Connections;
use super::{
    BOOTSTRAP, CLUSTER, CLUSTERS, CONNECTIONS, FILTER, HCM, HEAP, LISTENER, Limits, MODULE, Render, SHARES,
    STAT_PREFIX, shipped, shipped_filter_config,
};
use crate::config::{Listen, Timeouts};

fn at<'a>(config: &'a Value, pointer: &str) -> &'a Value {
    config.pointer(pointer).unwrap_or_else(|| panic!("nothing at {pointer}"))
}

fn plain<'a>(filter: &'a Value, gateway: &'a Map<String, Value>) -> Render<'a> {
    static NONE: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);
    static LISTEN: LazyLock<Listen> = LazyLock::new(Listen::default);
    static TIMEOUTS: LazyLock<Timeouts> = LazyLock::new(Timeouts::default);
    Render {
        address: Ipv4Addr::LOCALHOST.into(),
        port: 1234,
        admin_port: 0,
        metrics_port: None,
        module: Some(Path::new("/m/libsandgate.so")),
        routes: Some(Path::new("/r/routes.yaml")),
        filter,
        gateway,
        cluster: &NONE,
        listen: &LISTEN,
        timeouts: &TIMEOUTS,
        access_log: false,
        hot_restart: false,
        limits: Limits { connections: Connections { clients: 77, sandboxes: 55, shared: 33 }, heap: 1 << 30 },
        tls: None,
        manager: None,
    }
}

#[test]
fn every_value_goes_to_its_place_and_the_rest_stays() {
    let filter = json!({ "enable-auth": true });
    let gateway = json!({ "max-tombstones": 9, "routes-file": "/other" }).as_object().unwrap().clone();
    let config = plain(&filter, &gateway).render().unwrap();
    let listener = "/static_resources/listeners/0/address/socket_address";
    assert_eq!(at(&config, listener), &json!({ "address": "127.0.0.1", "port_value": 1234 }));
    assert_eq!(
        at(&config, "/admin/address/socket_address"),
        &json!({ "address": "127.0.0.1", "port_value": 0 })
    );
    for place in [BOOTSTRAP.to_owned(), SHARES.to_owned(), format!("{HCM}{FILTER}")] {
        assert_eq!(at(&config, &format!("{place}{MODULE}")), "/m/libsandgate.so");
    }
    assert_eq!(at(&config, &format!("{HCM}{FILTER}/filter_config/value")), &filter);
    let settings = at(&config, &format!("{BOOTSTRAP}/extension_config/value"));
    let own = json!(["127.0.0.1:1234"]);
    assert_eq!(
        settings,
        &json!({ "max-tombstones": 9, "routes-file": "/r/routes.yaml", "own-addresses": own })
    );
    assert_eq!((at(&config, CONNECTIONS), at(&config, HEAP)), (&json!(77), &json!(1_u64 << 30)));
    assert_eq!(
        at(&config, &format!("{SHARES}/filter_config/value")),
        &json!({ "connections-per-address": 38 })
    );
    let mut clusters = at(&shipped(), CLUSTERS).clone();
    for (cluster, connections) in clusters.as_array_mut().unwrap().iter_mut().zip([55, 33]) {
        *cluster.pointer_mut(&format!("{CLUSTER}{MODULE}")).unwrap() = json!("/m/libsandgate.so");
        cluster["circuit_breakers"]["thresholds"][0]["max_connections"] = json!(connections);
    }
    assert_eq!(at(&config, CLUSTERS), &clusters);
    assert!(config.pointer(HCM).unwrap().get("access_log").is_none());
}

#[test]
fn a_cluster_takes_the_place_of_the_shipped_routes_file() {
    let filter = json!({});
    let gateway =
        json!({ "kubernetes": { "providers": [{ "kind": "openkruise" }] } }).as_object().unwrap().clone();
    let config = Render { routes: None, ..plain(&filter, &gateway) }.render().unwrap();
    let settings = at(&config, &format!("{BOOTSTRAP}/extension_config/value"));
    let mut expected = Value::Object(gateway);
    expected["own-addresses"] = json!(["127.0.0.1:1234"]);
    assert_eq!(settings, &expected);
    Settings::parse(settings.to_string().as_bytes()).unwrap();
}

#[test]
fn an_ipv6_listener_and_an_access_log_can_be_asked_for() {
    let (filter, gateway) = (json!({}), Map::new());
    let render =
        Render { address: IpAddr::from(Ipv6Addr::UNSPECIFIED), access_log: true, ..plain(&filter, &gateway) };
    let config = render.render().unwrap();
    assert_eq!(at(&config, "/static_resources/listeners/0/address/socket_address/address"), "::");
    let format =
        at(&config, &format!("{HCM}/access_log/0/typed_config/log_format/text_format_source/inline_string"));
    assert!(format.as_str().unwrap().contains("%RESPONSE_CODE_DETAILS%"));
}

#[test]
fn the_shipped_config_is_one_the_module_takes() {
    let shipped = shipped();
    FilterConfig::parse(shipped_filter_config().to_string().as_bytes()).unwrap();
    let settings = at(&shipped, &format!("{BOOTSTRAP}/extension_config/value")).to_string();
    Settings::parse(settings.as_bytes()).unwrap();
    let shares = at(&shipped, &format!("{SHARES}/filter_config/value")).to_string();
    ConnectionsConfig::parse(shares.as_bytes()).unwrap();
    assert_eq!(at(&shipped, &format!("{HCM}/stat_prefix")), STAT_PREFIX);
    assert_eq!(at(&shipped, "/static_resources/listeners/0/name"), LISTENER);
}

/// Each of these was a way for a request to reach a sandbox it was not meant for.
#[test]
fn the_shipped_config_retries_only_connections_that_failed_and_trusts_no_header() {
    let shipped = shipped();
    let clusters = at(&shipped, CLUSTERS).as_array().unwrap();
    assert_eq!(clusters.len(), 2);
    for cluster in clusters {
        assert_eq!(at(cluster, "/cluster_type/name"), "envoy.clusters.dynamic_modules", "{cluster}");
    }
    let routes = at(&shipped, &format!("{HCM}/route_config/virtual_hosts/0/routes")).as_array().unwrap();
    for route in routes {
        let once = json!({ "retry_on": "connect-failure", "num_retries": 1 });
        assert_eq!(at(route, "/route/retry_policy"), &once, "{route}");
    }
    assert!(!shipped.to_string().contains("use_http_header"));
    assert_eq!(at(&shipped, &format!("{HCM}/normalize_path")), false);
    assert_eq!(at(&shipped, &format!("{HCM}/merge_slashes")), false);
}

#[test]
fn the_cluster_section_goes_to_both_clusters_and_keeps_what_they_have() {
    let (filter, gateway) = (json!({}), Map::new());
    let cluster = json!({ "idle-seconds": 5 }).as_object().unwrap().clone();
    let config = Render { cluster: &cluster, ..plain(&filter, &gateway) }.render().unwrap();
    let value =
        |index: usize| at(&config, &format!("{CLUSTERS}/{index}{CLUSTER}/cluster_config/value")).clone();
    assert_eq!(value(0), json!({ "idle-seconds": 5 }));
    assert_eq!(value(1), json!({ "idle-seconds": 5, "shares-connections": true }));
    for index in [0, 1] {
        ClusterConfig::parse(value(index).to_string().as_bytes()).unwrap();
    }
}

#[test]
fn with_original_dst_no_cluster_is_the_modules_no_connection_is_reused_and_nothing_is_retried() {
    let (filter, gateway) = (json!({ "upstream": "original-dst" }), Map::new());
    let cluster = json!({ "idle-seconds": 5 }).as_object().unwrap().clone();
    let config = Render { cluster: &cluster, ..plain(&filter, &gateway) }.render().unwrap();
    let names = |config: &Value| -> Vec<Value> {
        at(config, CLUSTERS).as_array().unwrap().iter().map(|cluster| cluster["name"].clone()).collect()
    };
    assert_eq!(names(&config), names(&shipped()));
    for cluster in at(&config, CLUSTERS).as_array().unwrap() {
        assert_eq!(cluster["type"], "ORIGINAL_DST", "{cluster}");
        let options = at(cluster, "/typed_extension_protocol_options").as_object().unwrap();
        let options = options.values().next().unwrap();
        assert_eq!(at(options, "/common_http_protocol_options/max_requests_per_connection"), 1, "{cluster}");
    }
    assert!(!config.to_string().contains("retry_policy") && shipped().to_string().contains("retry_policy"));
}

/// Each of these, left out, was a way for one client to take the gateway from all others.
#[test]
fn the_shipped_config_bounds_what_clients_can_take() {
    let shipped = shipped();
    let http2 = at(&shipped, &format!("{HCM}/http2_protocol_options"));
    assert_eq!(http2["max_concurrent_streams"], 100);
    let bytes = |value: &Value| value.as_u64().unwrap();
    assert!(bytes(&http2["initial_stream_window_size"]) <= 256 << 10);
    assert!(bytes(&http2["initial_connection_window_size"]) <= 8 << 20);
    assert!(
        bytes(at(&shipped, "/static_resources/listeners/0/per_connection_buffer_limit_bytes")) <= 64 << 10
    );
    for cluster in at(&shipped, CLUSTERS).as_array().unwrap() {
        assert!(bytes(&cluster["per_connection_buffer_limit_bytes"]) <= 64 << 10, "{cluster}");
    }
    for key in
        ["common_http_protocol_options/idle_timeout", "request_headers_timeout", "stream_flush_timeout"]
    {
        assert_ne!(at(&shipped, &format!("{HCM}/{key}")), "0s", "{key}");
    }
    assert_eq!(at(&shipped, "/admin/ignore_global_conn_limit"), true);
}

#[test]
fn the_gateways_own_addresses_are_those_that_are_known_and_those_that_are_given() {
    let filter = json!({});
    let gateway = json!({ "own-addresses": ["[::]:9902"] }).as_object().unwrap().clone();
    let own = |render: Render<'_>| {
        let config = render.render().unwrap();
        at(&config, &format!("{BOOTSTRAP}/extension_config/value/own-addresses")).clone()
    };
    assert_eq!(own(plain(&filter, &gateway)), json!(["127.0.0.1:1234", "[::]:9902"]));
    let chosen_by_envoy = Render { port: 0, ..plain(&filter, &gateway) };
    assert_eq!(own(chosen_by_envoy), json!(["[::]:9902"]));
    let both = Render { admin_port: 9901, ..plain(&filter, &gateway) };
    assert_eq!(own(both), json!(["127.0.0.1:1234", "127.0.0.1:9901", "[::]:9902"]));
}

#[test]
fn sections_about_the_door_reach_the_config_and_leave_what_is_the_managers() {
    let (filter, gateway) = (json!({}), Map::new());
    let listen = Listen::parse(&json!({ "trusted-hops": 1 })).unwrap();
    let timeouts = Timeouts::parse(&json!({ "stream-idle-seconds": 9 })).unwrap();
    let render = Render { listen: &listen, timeouts: &timeouts, ..plain(&filter, &gateway) };
    let config = render.render().unwrap();
    assert_eq!(at(&config, &format!("{HCM}/xff_num_trusted_hops")), 1);
    assert_eq!(
        at(&config, &format!("{SHARES}/filter_config/value")),
        &json!({ "connections-per-address": 77 })
    );
    let routes = at(&config, &format!("{HCM}/route_config/virtual_hosts/0/routes")).as_array().unwrap();
    assert_eq!(routes.len(), 3);
}
