use serde_json::{Value, json};

use super::super::render::shipped;
use super::*;

fn at<'a>(config: &'a Value, pointer: &str) -> &'a Value {
    config.pointer(pointer).unwrap_or_else(|| panic!("nothing at {pointer}"))
}

fn listen(section: &Value) -> Listen {
    Listen::parse(section).expect("a good section")
}

fn with_timeouts(section: &Value) -> Value {
    let mut config = shipped();
    Timeouts::parse(section).expect("a good section").put(&mut config).expect("every place is there");
    config
}

#[test]
fn what_is_as_shipped_changes_nothing() {
    let mut config = shipped();
    Listen::default().put(&mut config).expect("every place is there");
    Timeouts::default().put(&mut config).expect("every place is there");
    assert_eq!(config, shipped());
    let written = json!({ "connect-seconds": 5, "upstream-idle-seconds": 3600 });
    assert_eq!(with_timeouts(&written), shipped());
}

#[test]
fn what_the_listener_takes_goes_to_the_connection_manager() {
    let mut config = shipped();
    let section = json!({ "trusted-hops": 2, "max-request-headers-kb": 96, "max-request-headers": 300 });
    listen(&section).put(&mut config).expect("every place is there");
    let manager = at(&config, HCM);
    assert_eq!(
        (&manager["xff_num_trusted_hops"], &manager["max_request_headers_kb"]),
        (&json!(2), &json!(96))
    );
    let common = &manager["common_http_protocol_options"];
    assert_eq!((&common["max_headers_count"], &common["idle_timeout"]), (&json!(300), &json!("600s")));
}

#[test]
fn a_proxy_may_have_all_connections_and_a_client_half_of_them() {
    assert_eq!(listen(&json!({})).share(77), 38);
    assert_eq!(listen(&json!({})).share(1), 1);
    assert_eq!(listen(&json!({ "trusted-hops": 1 })).share(77), 77);
}

#[test]
fn upgrades_have_a_route_of_their_own_as_soon_as_their_times_are_others() {
    let routes = |section: Value| at(&with_timeouts(&section), &format!("{HCM}{ROUTES}")).clone();
    let plain = at(&shipped(), &format!("{HCM}{ROUTES}")).clone();
    let idle = routes(json!({ "stream-idle-seconds": 300 }));
    assert_eq!(idle.as_array().expect("a list").len(), 3);
    assert_eq!(idle[0]["match"]["headers"], json!([{ "name": "upgrade", "present_match": true }]));
    let times = |routes: &Value| [0, 1, 2].map(|index| routes[index]["route"]["idle_timeout"].clone());
    assert_eq!(times(&idle), [json!("0s"), json!("300s"), json!("300s")]);
    assert_eq!(idle[0]["route"]["max_stream_duration"], Value::Null);
    let both = routes(json!({ "websocket-idle-seconds": 60, "websocket-lifetime-seconds": 86400 }));
    assert_eq!(times(&both), [json!("60s"), Value::Null, Value::Null]);
    assert_eq!(both[0]["route"]["max_stream_duration"], json!({ "max_stream_duration": "86400s" }));
    for key in ["cluster", "timeout", "retry_policy"] {
        assert_eq!(both[0]["route"][key], plain[1]["route"][key], "{key}");
    }
    assert_eq!((&both[1], &both[2]), (&plain[0], &plain[1]));
}

#[test]
fn times_of_connections_to_sandboxes_go_to_both_clusters() {
    let config = with_timeouts(&json!({ "connect-seconds": 1.25, "upstream-idle-seconds": 30 }));
    for cluster in at(&config, CLUSTERS).as_array().expect("a list") {
        assert_eq!(cluster["connect_timeout"], "1.250s", "{cluster}");
        assert_eq!(at(cluster, &format!("{PROTOCOL}{COMMON}/idle_timeout")), "30s", "{cluster}");
    }
}
