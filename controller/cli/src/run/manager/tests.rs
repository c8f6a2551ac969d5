use serde_json::{Value, json};

use super::Api;
use crate::config::Manager;
use crate::run::render::{CLUSTERS, HCM};

fn put(section: &Value, domains: &[&str]) -> Value {
    let manager = Manager::parse(section).unwrap();
    let domains = domains.iter().map(|&domain| domain.to_owned()).collect();
    let mut config: Value =
        serde_saphyr::from_str(include_str!("../../../../../envoy/config/gateway.yaml")).unwrap();
    Api { manager: &manager, domains, connections: 100 }.put(&mut config).unwrap();
    config
}

fn hosts(config: &Value) -> &Vec<Value> {
    config.pointer(&format!("{HCM}/route_config/virtual_hosts")).and_then(Value::as_array).unwrap()
}

fn cluster(config: &Value) -> &Value {
    config.pointer(CLUSTERS).and_then(Value::as_array).and_then(|all| all.last()).unwrap()
}

#[test]
fn the_managers_routes_come_first_pass_the_filter_by_and_send_nothing_twice() {
    let config = put(&json!({ "address": "manager:80" }), &[]);
    let [all, api] = hosts(&config).as_slice() else { panic!("two virtual hosts") };
    assert_eq!((&api["name"], &api["domains"]), (&json!("manager"), &json!(["api.*"])));
    assert_eq!(all["routes"][0]["match"]["path_separated_prefix"], "/kruise/api");
    for route in [&all["routes"][0], &api["routes"][0]] {
        assert_eq!(route["route"]["cluster"], "manager");
        assert_eq!(
            route["route"]["retry_policy"],
            json!({ "retry_on": "connect-failure", "num_retries": 1 })
        );
        assert_eq!(route["typed_per_filter_config"]["sandgate"]["disabled"], true);
    }
    assert_eq!(all["routes"].as_array().map(Vec::len), Some(3), "the others stay");
}

#[test]
fn below_the_domains_of_sandboxes_one_host_alone_is_the_managers() {
    let config = put(&json!({ "address": "manager:80" }), &["a.test", "b.test"]);
    let expected = [
        "api.a.test",
        "api.a.test:*",
        "api.a.test.",
        "api.a.test.:*",
        "api.b.test",
        "api.b.test:*",
        "api.b.test.",
        "api.b.test.:*",
    ];
    assert_eq!(hosts(&config)[1]["domains"], json!(expected));
}

#[test]
fn a_name_is_resolved_again_and_an_address_is_not() {
    let config = put(&json!({ "address": "manager.svc:80" }), &[]);
    assert_eq!(cluster(&config)["type"], "STRICT_DNS");
    assert_eq!(cluster(&config)["wait_for_warm_on_init"], false);
    assert_eq!(cluster(&config)["circuit_breakers"]["thresholds"][0]["max_connections"], 100);
    assert!(cluster(&config).get("transport_socket").is_none());
    for address in ["10.0.0.1:80", "[2001:db8::1]:80"] {
        assert_eq!(cluster(&put(&json!({ "address": address }), &[]))["type"], "STATIC");
    }
}

#[test]
fn with_tls_the_managers_certificate_is_checked() {
    let config = put(&json!({ "address": "manager.svc:443", "tls": { "ca": "/ca.pem" } }), &[]);
    let context = &cluster(&config)["transport_socket"]["typed_config"];
    assert_eq!(context["sni"], "manager.svc");
    let validation = &context["common_tls_context"]["validation_context"];
    assert_eq!(validation["trusted_ca"]["filename"], "/ca.pem");
    assert_eq!(validation["match_typed_subject_alt_names"][0]["matcher"]["exact"], "manager.svc");
}
