//! The routes file: every way of changing it, and what a bad one does.

use std::fs;
use std::path::Path;

use sandgate_tests::book::{Page, pages};
use sandgate_tests::{ConfigMap, Gateway, SECRET, Sandbox, replace_by_rename, route, routes};
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::support::{ask, assert_refused, sandbox};

/// Alternates between two tables; each time the route that left is not found from the first request on.
async fn follows(gateway: &Gateway, sandboxes: &[Sandbox; 2], mut change: impl FnMut(&str)) {
    for load in 2..=5_u64 {
        let [old, new] = if load % 2 == 0 { [0, 1] } else { [1, 0] };
        change(&routes([route(sandboxes[new].name()).ip(sandboxes[new].ip())]));
        gateway.generation(load).await;
        let id = |index: usize| format!("default--{}", sandboxes[index].name());
        // Several connections, so that both workers answer.
        for _ in 0..8 {
            let gone = gateway.send(ask(&id(old))).await;
            assert_refused(gateway, &gone, 502, "sandbox_not_found").await;
            assert_eq!(gateway.send(ask(&id(new))).await.sandbox(), sandboxes[new].name());
        }
    }
}

async fn pair() -> ([Sandbox; 2], String) {
    let sandboxes = [sandbox("first").await, sandbox("second").await];
    let text = routes([route("first").ip(sandboxes[0].ip())]);
    (sandboxes, text)
}

#[tokio::test]
async fn a_file_written_in_place_is_followed() {
    let (sandboxes, text) = pair().await;
    let gateway = Gateway::serving(&text).await;
    let file = gateway.routes_file();
    follows(&gateway, &sandboxes, |text| {
        fs::write(&file, text).expect("write");
    })
    .await;
}

#[tokio::test]
async fn a_file_replaced_by_rename_is_followed() {
    let (sandboxes, text) = pair().await;
    let gateway = Gateway::serving(&text).await;
    let file = gateway.routes_file();
    follows(&gateway, &sandboxes, |text| replace_by_rename(&file, text)).await;
}

#[tokio::test]
async fn a_config_map_swapped_by_its_link_is_followed() {
    let (sandboxes, text) = pair().await;
    let builder = Gateway::builder();
    let mut map = ConfigMap::mount(&builder.folder().join("config-map"), &text);
    let gateway = builder.setting("routes-file", json!(map.file())).start().await;
    follows(&gateway, &sandboxes, |text| map.swap(text)).await;
}

#[tokio::test]
async fn a_file_removed_and_created_again_is_followed_and_its_table_serves_in_between() {
    let (sandboxes, text) = pair().await;
    let gateway = Gateway::serving(&text).await;
    fs::remove_file(gateway.routes_file()).expect("remove");
    gateway.stat_is("sandgate.routes_file_error", 1).await;
    assert_eq!(gateway.send(ask("default--first")).await.sandbox(), "first");
    fs::write(gateway.routes_file(), routes([route("second").ip(sandboxes[1].ip())])).expect("write");
    gateway.generation(2).await;
    gateway.stat_is("sandgate.routes_file_error", 0).await;
    assert_eq!(gateway.send(ask("default--second")).await.sandbox(), "second");
}

#[tokio::test]
async fn a_state_that_is_none_takes_its_route_out_of_service_and_is_named_with_line_and_word() {
    let demo = sandbox("demo").await;
    let gateway = Gateway::serving(&routes([route("demo").ip(demo.ip())])).await;
    assert_eq!(gateway.send(ask("default--demo")).await.sandbox(), "demo");
    let odd = format!("routes:\n  - name: demo\n    ip: {}\n    state: asleep\n", demo.ip());
    replace_by_rename(&gateway.routes_file(), &odd);
    gateway.generation(2).await;
    let asked = demo.requests();
    for _ in 0..8 {
        assert_refused(&gateway, &gateway.send(ask("default--demo")).await, 502, "sandbox_not_running").await;
    }
    assert_eq!(demo.requests(), asked);
    gateway.logged(&["warn", "routes.yaml", "4:12", "asleep"]).await;
    let source = gateway.status().await["sources"][0].clone();
    assert_eq!(source["error"], Value::Null);
    assert!(source["warning"].as_str().is_some_and(|text| text.contains("`asleep`")), "{source}");
    gateway.stat_is("sandgate.routes_file_error", 0).await;
    replace_by_rename(&gateway.routes_file(), &routes([route("demo").ip(demo.ip())]));
    gateway.generation(3).await;
    assert_eq!(gateway.send(ask("default--demo")).await.sandbox(), "demo");
    assert_eq!(gateway.status().await["sources"][0]["warning"], Value::Null);
}

/// The error of the only source.
async fn file_error(gateway: &Gateway) -> Value {
    gateway.status().await["sources"][0]["error"].clone()
}

#[tokio::test]
async fn a_bad_file_keeps_the_last_good_table_says_where_it_is_bad_and_is_forgiven_once_good() {
    let demo = sandbox("demo").await;
    let good = routes([route("demo").ip(demo.ip())]);
    let gateway = Gateway::serving(&good).await;
    gateway.stat_is("sandgate.routes_file_error", 0).await;
    let bad = [
        ("routes:\n  - name: demo\n    ip: 300.1.1.1\n", "3:9", "ip"),
        ("routes:\n  - name: demo\n    colour: blue\n", "3:5", "colour"),
        ("routes:\n  - namespace: x\n", "2:5", "name"),
        ("routes:\n  - name: demo\n   ip: 127.0.0.1\n", "", ""),
        ("routes:\n  - name: demo\n", "2:", "ip"),
        ("routes: [\n", "", ""),
        ("", "", ""),
        ("routes:\n  - { name: a, ip: 127.0.0.1 }\n  - { name: a, ip: 127.0.0.2 }\n", "3:", ""),
        ("routes:\n  - { name: a, id: x, ip: 127.0.0.1 }\n  - { name: b, id: x, ip: 127.0.0.2 }\n", "3:", ""),
        ("{\"routes\": [{\"name\": 7}]}", "1:", "name"),
    ];
    for (round, (text, place, key)) in (1_u64..).zip(bad) {
        replace_by_rename(&gateway.routes_file(), text);
        let error = gateway
            .until("the status has the error", async || {
                file_error(&gateway).await.as_str().map(ToOwned::to_owned)
            })
            .await;
        assert!(error.contains(place) && error.contains(key), "{text:?} gave {error:?}");
        gateway.logged(&["error", "routes.yaml", &error]).await;
        gateway.stat_is("sandgate.routes_file_error", 1).await;
        // Nothing of the bad file is in the table, everything of the good one is.
        assert_eq!(gateway.status().await["routes"]["total"], 1);
        assert_eq!(gateway.send(ask("default--demo")).await.sandbox(), "demo", "after {text:?}");

        // White space makes it a new content, and so a new load.
        replace_by_rename(
            &gateway.routes_file(),
            &format!("{good}{}", "\n".repeat(usize::try_from(round).expect("few"))),
        );
        gateway.generation(1 + round).await;
        gateway.stat_is("sandgate.routes_file_error", 0).await;
        assert_eq!(file_error(&gateway).await, Value::Null);
    }
}

#[tokio::test]
async fn until_the_first_good_file_the_listener_is_closed_and_envoy_is_not_ready() {
    let demo = sandbox("demo").await;
    let mut gateway = Gateway::builder().spawn().await;
    gateway.logged(&["routes.yaml", "cannot be read"]).await;
    gateway.learn_listeners().await;
    assert_closed(&gateway).await;
    // A file that is there but bad opens nothing either, and what it says is not in the table.
    fs::write(gateway.routes_file(), "routes:\n  - name: demo\n    ip: no\n").expect("write");
    gateway.logged(&["routes.yaml", "3:9"]).await;
    assert_closed(&gateway).await;
    fs::write(gateway.routes_file(), routes([route("demo").ip(demo.ip())])).expect("write");
    gateway.live().await;
    assert_eq!(gateway.send(ask("default--demo")).await.sandbox(), "demo");
    gateway.stat_is("sandgate.ready", 1).await;
}

async fn assert_closed(gateway: &Gateway) {
    assert_ne!(gateway.readiness().await, "LIVE");
    assert!(TcpStream::connect(gateway.address()).await.is_err(), "the listener is open");
    let status = gateway.status().await;
    assert_eq!((&status["ready"], &status["routes"]["total"]), (&json!(false), &json!(0)));
    assert_eq!(gateway.stat("sandgate.ready").await.unwrap_or(0), 0);
}

#[tokio::test]
async fn a_file_of_twenty_thousand_routes_is_served_and_followed() {
    let (here, there) = (sandbox("here").await, sandbox("there").await);
    let table = |ip| routes((0..20_000).map(|number| route(&format!("box-{number:05}")).ip(ip)));
    let gateway = Gateway::serving(&table(here.ip())).await;
    gateway.stat_is("sandgate.routes", 20_000).await;
    let mut client = gateway.client().await;
    for number in [0, 1, 9_999, 19_999] {
        let reply = client.send(ask(&format!("default--box-{number:05}"))).await.expect("an answer");
        assert_eq!(reply.sandbox(), "here");
    }
    let reply = client.send(ask("default--box-20000")).await.expect("an answer");
    assert_refused(&gateway, &reply, 502, "sandbox_not_found").await;
    // All of them move at once.
    replace_by_rename(&gateway.routes_file(), &table(there.ip()));
    gateway.generation(2).await;
    for number in [0, 1, 9_999, 19_999] {
        let reply = client.send(ask(&format!("default--box-{number:05}"))).await.expect("an answer");
        assert_eq!(reply.sandbox(), "there");
    }
    // And all but one go, each leaving a tombstone.
    replace_by_rename(&gateway.routes_file(), &routes([route("box-00007").ip(here.ip())]));
    gateway.generation(3).await;
    gateway.stat_is("sandgate.routes", 1).await;
    gateway.stat_is("sandgate.tombstones", 19_999).await;
    assert_eq!(client.send(ask("default--box-00007")).await.expect("an answer").sandbox(), "here");
}

#[tokio::test]
async fn the_routes_files_in_the_book_load() {
    let blocks: Vec<_> =
        pages().iter().flat_map(Page::blocks).filter(|block| block.is("yaml", "routes")).collect();
    assert!(blocks.len() >= 2, "the book shows a short and a full routes file");
    let gateway = Gateway::serving("routes: []").await;
    for (load, block) in (2_u64..).zip(&blocks) {
        // Two pages may show the same file, and the same content is not loaded twice in a row.
        replace_by_rename(&gateway.routes_file(), &format!("{}# {load}\n", block.text));
        gateway.generation(load).await;
        assert_eq!(gateway.status().await["routes"]["total"], 1, "{}", block.place);
    }
}

#[tokio::test]
async fn a_new_object_under_an_old_name_is_a_new_identity_and_a_change_of_the_old_one_is_not() {
    let demo = sandbox("demo").await;
    let entry = |uid: &str| route("demo").set("uid", uid).token(SECRET).ip(demo.ip());
    let gateway = Gateway::serving(&routes([entry("one")])).await;
    let identity =
        async || gateway.admin("/sandgate/routes?id=default--demo").await.json()["identity"].clone();
    let first = identity().await;
    replace_by_rename(&gateway.routes_file(), &routes([entry("one").set("owner", "bob")]));
    gateway.generation(2).await;
    assert_eq!(identity().await, first);
    replace_by_rename(&gateway.routes_file(), &routes([entry("two")]));
    gateway.generation(3).await;
    assert_ne!(identity().await, first);
    let reply = gateway.send(ask("default--demo")).await;
    assert_eq!(reply.seen("x-sandbox-uid"), ["two"]);
}

#[tokio::test]
async fn a_yaml_file_and_a_json_file_say_the_same() {
    let demo = sandbox("demo").await;
    let yaml = format!("# a comment\nroutes:\n- name: demo\n  ip: \"{}\"\n  owner: 'alice'\n", demo.ip());
    let builder = Gateway::builder();
    let json_file = builder.folder().join("mount").join("routes.json");
    fs::write(&json_file, routes([route("demo").ip(demo.ip()).set("owner", "alice")])).expect("write");
    let from_json = builder.setting("routes-file", path(&json_file)).start().await;
    let from_yaml = Gateway::serving(&yaml).await;
    let page = async |gateway: &Gateway| gateway.admin("/sandgate/routes").await.json()["routes"].clone();
    let strip = |mut routes: Value| {
        routes[0]["identity"].take();
        routes
    };
    assert_eq!(strip(page(&from_json).await), strip(page(&from_yaml).await));
    assert_eq!(from_yaml.send(ask("default--demo")).await.sandbox(), "demo");
}

fn path(path: &Path) -> Value {
    json!(path)
}
