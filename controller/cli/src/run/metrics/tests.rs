use std::net::Ipv4Addr;

use serde_json::{Value, json};

use super::{ADMIN_CONNECTIONS, CONNECTIONS, add, files};

const PAGES: [&str; 2] = ["/ready", "/stats/prometheus"];

fn rendered(port: Option<u16>) -> Value {
    let mut config = json!({
        "static_resources": { "listeners": ["first"], "clusters": [] },
        "bootstrap_extensions": [{ "typed_config": { "extension_config": { "value": { "own-addresses": [] } } } }],
    });
    add(&mut config, Ipv4Addr::UNSPECIFIED.into(), port, 9901).unwrap();
    config
}

#[test]
fn without_a_port_nothing_is_added_and_no_file_is_set_aside() {
    let config = rendered(None);
    assert_eq!(config["static_resources"], json!({ "listeners": ["first"], "clusters": [] }));
    assert_eq!(files(None), 0);
    assert!(files(Some(9902)) > 0);
}

/// `process.rs` asks for the first listener by name, and the gateway's stays the first.
#[test]
fn the_listener_comes_last_and_leads_to_loopback_alone() {
    let config = rendered(Some(9902));
    assert_eq!(config.pointer("/static_resources/listeners/0"), Some(&json!("first")));
    let listener = config.pointer("/static_resources/listeners/1").unwrap();
    assert_eq!(
        listener.pointer("/address/socket_address"),
        Some(&json!({ "address": "0.0.0.0", "port_value": 9902 }))
    );
    assert_eq!(listener["ignore_global_conn_limit"], true);
    let limit = "/filter_chains/0/filters/0/typed_config/max_connections";
    assert_eq!(listener.pointer(limit), Some(&json!(CONNECTIONS)));
    let limit = "/static_resources/clusters/0/circuit_breakers/thresholds/0/max_connections";
    assert_eq!(config.pointer(limit), Some(&json!(ADMIN_CONNECTIONS)));
    let hosts = "/static_resources/clusters/0/load_assignment/endpoints/0/lb_endpoints/0/endpoint/address";
    assert_eq!(
        config.pointer(&format!("{hosts}/socket_address")),
        Some(&json!({ "address": "127.0.0.1", "port_value": 9901 }))
    );
    let own = "/bootstrap_extensions/0/typed_config/extension_config/value/own-addresses";
    assert_eq!(config.pointer(own), Some(&json!(["0.0.0.0:9902"])));
}

#[test]
fn two_exact_pages_are_let_through_and_the_last_route_is_none() {
    let config = rendered(Some(9902));
    let routes = "/static_resources/listeners/1/filter_chains/0/filters/1/typed_config/route_config/virtual_hosts/0/routes";
    let routes = config.pointer(routes).and_then(Value::as_array).unwrap();
    let (last, pages) = routes.split_last().unwrap();
    let paths: Vec<&str> = pages.iter().map(|route| route["match"]["path"].as_str().unwrap()).collect();
    assert_eq!(paths, PAGES);
    assert_eq!(last["direct_response"]["status"], 404);
}
