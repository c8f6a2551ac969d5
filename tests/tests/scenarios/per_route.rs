//! Routes with a config of their own: what holds for which request, and which configs are refused.

use std::path::Path;

use sandgate_tests::book::Page;
use sandgate_tests::{Builder, Gateway, Request, SECRET, Sandbox, replace_by_rename, route, routes};
use serde_json::{Value, json};

use crate::support::{PORT, ask, assert_refused, sandbox, splitting};

const MANAGER: &str = "/filter_chains/0/filters/1/typed_config";
const MODULE: &str = "/http_filters/0/typed_config/dynamic_module_config";

/// What gives a route, or a virtual host, these keys.
fn own(manager: &Value, keys: &Value) -> Value {
    json!({ "sandgate": {
        "@type": "type.googleapis.com/envoy.extensions.filters.http.dynamic_modules.v3.DynamicModuleFilterPerRoute",
        "dynamic_module_config": manager.pointer(MODULE).expect("the module"),
        "filter_name": "sandgate",
        "filter_config": { "@type": "type.googleapis.com/google.protobuf.Struct", "value": keys },
    }})
}

/// Puts a virtual host before the others that differs by these keys.
fn add_host(manager: &mut Value, host: &str, keys: &Value) {
    let own = own(manager, keys);
    let hosts = manager["route_config"]["virtual_hosts"].as_array_mut().expect("virtual hosts");
    let mut added = hosts.last().expect("the shipped one").clone();
    added["name"] = json!(host);
    added["domains"] = json!([host]);
    added["typed_per_filter_config"] = own;
    hosts.insert(0, added);
}

fn manager(config: &mut Value, listener: usize) -> &mut Value {
    config["static_resources"]["listeners"][listener].pointer_mut(MANAGER).expect("the connection manager")
}

/// A gateway whose virtual host `own.test` has these keys.
fn with_host(sandbox: &Sandbox, filter: Value, keys: Value) -> Builder {
    Gateway::builder()
        .routes(&routes([route("open").ip(sandbox.ip()), route("guarded").token(SECRET).ip(sandbox.ip())]))
        .filter(filter)
        .adjust(move |config| add_host(manager(config, 0), "own.test", &keys))
}

#[tokio::test]
async fn the_virtual_host_of_the_page_asks_for_tokens() {
    let up = sandbox("up").await;
    let blocks = Page::read("envoy/docs/configuration.md").blocks();
    let block = blocks.iter().find(|block| block.marks.get("test").is_some_and(|test| test == "per_route"));
    let mut added: Value = serde_saphyr::from_str(&block.expect("the block").text).expect("YAML");
    let gateway = with_host(&up, json!({}), json!({}))
        .adjust(move |config| {
            let manager = manager(config, 0);
            let module = manager.pointer(MODULE).expect("the module")["module"].clone();
            let mut added = added["typed_per_filter_config"].take();
            added["sandgate"]["dynamic_module_config"]["module"] = module;
            manager["route_config"]["virtual_hosts"][0]["typed_per_filter_config"] = added;
        })
        .start()
        .await;
    assert_eq!(gateway.send(ask("default--guarded").host("other.test")).await.sandbox(), "up");
    let reply = gateway.send(ask("default--guarded").host("own.test")).await;
    assert_refused(&gateway, &reply, 401, "unauthorized").await;
}

#[tokio::test]
async fn a_virtual_host_has_its_own_keys_over_those_of_the_filter() {
    let up = sandbox("up").await;
    let filter = json!({ "denied-ports": [8888], "limits": { "requests-per-sandbox": 7 } });
    let keys = json!({ "enable-auth": true, "limits": { "request-header-bytes": 1000 } });
    let gateway = with_host(&up, filter, keys).start().await;
    let guarded = |host: &str| ask("default--guarded").host(host);
    assert_eq!(gateway.send(guarded("other.test")).await.sandbox(), "up");
    let reply = gateway.send(guarded("own.test")).await;
    assert_refused(&gateway, &reply, 401, "unauthorized").await;
    assert_eq!(gateway.send(guarded("own.test").header("x-access-token", SECRET)).await.sandbox(), "up");
    let reply = gateway.send(ask("default--open").host("own.test").header("x-long", "x".repeat(1000))).await;
    assert_refused(&gateway, &reply, 431, "headers_too_large").await;
    // What it does not give is the filter's.
    for host in ["own.test", "other.test"] {
        let closed = Request::get("/").host(host).header("e2b-sandbox-id", "default--open");
        let reply = gateway.send(closed.header("e2b-sandbox-port", "8888")).await;
        assert_refused(&gateway, &reply, 403, "port_not_allowed").await;
    }
    assert_eq!(up.requests(), 2);
}

/// Envoy hands the filter one config, that of the place nearest to the request.
#[tokio::test]
async fn the_config_of_a_route_takes_the_place_of_its_virtual_hosts() {
    let up = sandbox("up").await;
    let gateway = with_host(&up, json!({}), json!({ "denied-ports": [PORT] }))
        .adjust(|config| {
            let manager = manager(config, 0);
            let own = own(manager, &json!({ "allowed-ports": ["8000-8999"] }));
            let host = &mut manager["route_config"]["virtual_hosts"][0];
            let mut nearer = host["routes"].as_array().expect("routes").last().expect("a route").clone();
            nearer["match"] = json!({ "prefix": "/nearer" });
            nearer["typed_per_filter_config"] = own;
            host["routes"].as_array_mut().expect("routes").insert(0, nearer);
        })
        .start()
        .await;
    let request = |path: &str| ask("default--open").host("own.test").path(path);
    let reply = gateway.send(request("/")).await;
    assert_refused(&gateway, &reply, 403, "port_not_allowed").await;
    assert_eq!(gateway.send(request("/nearer")).await.sandbox(), "up");
}

#[tokio::test]
async fn the_config_of_the_route_that_was_chosen_first_counts() {
    let up = sandbox("up").await;
    let gateway = Gateway::builder()
        .routes(&routes([route("up").ip(up.ip())]))
        .filter(splitting(json!({})))
        .adjust(|config| {
            let manager = manager(config, 0);
            let own = own(manager, &json!({ "denied-ports": [PORT] }));
            let routes =
                manager["route_config"]["virtual_hosts"][0]["routes"].as_array_mut().expect("routes");
            let mut second = routes.last().expect("a route").clone();
            second["match"] = json!({ "prefix": "/", "headers": [
                { "name": "x-sandgate-route", "string_match": { "exact": "sandbox" } },
            ]});
            second["response_headers_to_add"] = json!([{ "header": { "key": "x-second", "value": "yes" } }]);
            second["typed_per_filter_config"] = own;
            routes.insert(0, second);
        })
        .start()
        .await;
    let reply = gateway.send(ask("default--up")).await;
    assert_eq!((reply.sandbox().as_str(), reply.header("x-second")), ("up", "yes"));
}

#[tokio::test]
async fn a_bad_config_of_a_route_is_refused_with_the_key_and_what_was_expected() {
    let up = sandbox("up").await;
    for (keys, parts) in [
        (json!({ "enable-atuh": true }), vec!["enable-atuh", "unknown field"]),
        (json!({ "denied-ports": [0] }), vec!["denied-ports[0]", "found 0"]),
        (json!({ "enable-auth": false }), vec!["enable-auth", "on and not off"]),
        (json!({ "secrets": {} }), vec!["secrets", "in that of a route"]),
    ] {
        let exit = with_host(&up, json!({}), keys).validate().await;
        assert_ne!(exit.code, Some(0), "{parts:?} was to be refused:\n{}", exit.log);
        let explained = exit.log.lines().any(|line| {
            line.contains("sandgate: config of a route") && parts.iter().all(|part| line.contains(part))
        });
        assert!(explained, "no line with {parts:?} in:\n{}", exit.log);
    }
}

#[tokio::test]
async fn a_request_whose_two_configs_do_not_go_together_fails_closed() {
    let up = sandbox("up").await;
    let filter = json!({ "dialects": { "kruise": { "sandbox-port-header": "x-box" } } });
    let keys = json!({ "dialects": { "kruise": { "sandbox-header-name": "x-box" } } });
    let gateway = with_host(&up, filter, keys).start().await;
    let request = |host: &str| {
        Request::get("/")
            .host(host)
            .header("e2b-sandbox-id", "default--open")
            .header("x-box", PORT.to_string())
    };
    assert_eq!(gateway.send(request("other.test")).await.sandbox(), "up");
    for _ in 0..2 {
        let reply = gateway.send(request("own.test")).await;
        assert_refused(&gateway, &reply, 500, "sandgate_panic").await;
    }
    gateway.logged(&["config of a route, over that of the filter", "other than that of"]).await;
    assert_eq!(up.requests(), 1);
}

/// Takes the routes of every listener out of the config and into one file that Envoy watches.
fn share_routes(config: &mut Value, file: &Path) {
    for listener in 0..2 {
        let manager = manager(config, listener);
        manager.as_object_mut().expect("an object").remove("route_config");
        manager["rds"] = json!({ "route_config_name": "shared", "config_source": {
            "resource_api_version": "V3",
            "path_config_source": { "path": file, "watched_directory": { "path": file.parent() } },
        }});
    }
}

#[tokio::test]
async fn one_route_table_serves_two_filters_and_can_be_replaced() {
    let up = sandbox("up").await;
    let folder = tempfile::TempDir::with_prefix("sandgate-rds-").expect("create a folder");
    let file = folder.path().join("routes.json");
    let table = |manager: &Value, version: u32, keys: &Value| {
        let mut manager = manager.clone();
        add_host(&mut manager, "own.test", keys);
        let mut table = manager["route_config"].take();
        table["@type"] = json!("type.googleapis.com/envoy.config.route.v3.RouteConfiguration");
        table["name"] = json!("shared");
        json!({ "version_info": version.to_string(), "resources": [table] }).to_string()
    };
    let (sender, receiver) = std::sync::mpsc::channel();
    let at = file.clone();
    let gateway = Gateway::builder()
        .routes(&routes([route("open").ip(up.ip()), route("guarded").token(SECRET).ip(up.ip())]))
        .filter(json!({}))
        .listener("second", json!({ "denied-ports": [PORT] }))
        .adjust(move |config| {
            let shipped = manager(config, 0).clone();
            replace_by_rename(&at, &table(&shipped, 1, &json!({ "enable-auth": true })));
            sender.send(shipped).expect("somebody listens");
            share_routes(config, &at);
        })
        .start()
        .await;
    let shipped = receiver.recv().expect("sent above");
    let request = |id: &str| ask(id).host("own.test");
    for _ in 0..2 {
        let reply = gateway.send(request("default--guarded")).await;
        assert_refused(&gateway, &reply, 401, "unauthorized").await;
        assert_eq!(gateway.send(request("default--open")).await.sandbox(), "up");
        // The same route, over another filter's config.
        let reply = gateway.send_to("second", request("default--open")).await;
        assert_refused(&gateway, &reply, 403, "port_not_allowed").await;
    }
    // A table with a bad config is refused, and the one before it stays.
    replace_by_rename(&file, &table(&shipped, 2, &json!({ "enable-auth": "yes" })));
    gateway.logged(&["sandgate: config of a route", "enable-auth", "boolean"]).await;
    let reply = gateway.send(request("default--guarded")).await;
    assert_refused(&gateway, &reply, 401, "unauthorized").await;
    // A good one takes its place.
    replace_by_rename(&file, &table(&shipped, 3, &json!({ "denied-ports": [1] })));
    gateway
        .until("the new table is in force", async || {
            (gateway.send_to("second", request("default--guarded")).await.status == 200).then_some(())
        })
        .await;
    assert_eq!(gateway.send(request("default--guarded")).await.sandbox(), "up");
}

/// Envoy looks for the config of a route by the filter's name alone.
#[tokio::test]
async fn the_config_of_another_module_is_not_taken_for_a_routes() {
    let up = sandbox("up").await;
    let folder = tempfile::TempDir::with_prefix("sandgate-module-").expect("create a folder");
    let other = folder.path().join("libother.so");
    let gateway = with_host(&up, json!({}), json!({ "denied-ports": [PORT] }))
        .adjust(move |config| {
            // The same file by another name is another module to the dynamic linker.
            let own = &mut manager(config, 0)["route_config"]["virtual_hosts"][0]["typed_per_filter_config"];
            let filename = &mut own["sandgate"]["dynamic_module_config"]["module"]["local"]["filename"];
            std::fs::copy(filename.as_str().expect("a path"), &other).expect("copy the module");
            *filename = json!(other);
        })
        .start()
        .await;
    let reply = gateway.send(ask("default--open").host("own.test")).await;
    assert_eq!(reply.sandbox(), "up", "it is no config of this module's");
}
