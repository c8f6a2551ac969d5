//! Routes that peers push to a gateway: what they change, and who is believed.

use std::fs;
use std::net::IpAddr;
use std::path::Path;

use sandgate_tests::book::Page;
use sandgate_tests::kubernetes::ApiServer;
use sandgate_tests::{Cli, Client, Gateway, Request, SECRET, refresh_request};
use serde_json::{Value, json};

use crate::support::{ask, assert_refused, may_review, sandbox};

const KEY: &str = "a-shared-key-of-at-least-thirty-two-bytes";

fn message(state: &str, version: u64, ip: IpAddr) -> Value {
    json!({
        "ip": ip.to_string(), "id": "team--demo", "namespace": "team", "name": "demo", "uid": "u-1",
        "owner": "alice", "state": state, "resourceVersion": version.to_string(), "accessToken": SECRET,
    })
}

async fn open_gateway() -> Gateway {
    Gateway::builder().refresh(json!({ "insecure": true })).start().await
}

/// A gateway that believes who has the key, which is in its folder.
async fn keyed_gateway() -> Gateway {
    let builder = Gateway::builder();
    let file = builder.folder().join("key");
    fs::write(&file, KEY).expect("write the key");
    builder.refresh(json!({ "hmac": { "keys": [{ "id": "main", "file": file }] } })).start().await
}

/// `sandgate push` to this gateway, with its key.
async fn push(gateway: &Gateway, more: &[&str]) -> Cli {
    let peer = format!("http://{}", gateway.refresh_address().await);
    let key = format!("main={}", path(&gateway.folder().join("key")));
    let mut arguments = vec!["push", "--peer", &peer, "--hmac-key", &key, "--deadline", "15000"];
    arguments.extend(more);
    Cli::run(&arguments).await
}

fn path(path: &Path) -> String {
    path.to_str().expect("a path of text").to_owned()
}

#[tokio::test]
async fn a_pushed_sandbox_is_served_paused_and_gone_as_soon_as_each_push_is_answered() {
    let demo = sandbox("demo").await;
    let gateway = open_gateway().await;
    assert_refused(&gateway, &gateway.send(ask("team--demo")).await, 502, "sandbox_not_found").await;
    assert_eq!(gateway.push(&message("running", 5, demo.ip())).await.status, 204);
    assert_eq!(gateway.send(ask("team--demo")).await.sandbox(), "demo");
    assert_eq!(gateway.push(&message("paused", 6, demo.ip())).await.status, 204);
    assert_refused(&gateway, &gateway.send(ask("team--demo")).await, 502, "sandbox_not_running").await;
    assert_eq!(gateway.push(&message("running", 7, demo.ip())).await.status, 204);
    assert_eq!(gateway.send(ask("team--demo")).await.sandbox(), "demo");
    assert_eq!(gateway.push(&message("dead", 8, demo.ip())).await.status, 204);
    assert_refused(&gateway, &gateway.send(ask("team--demo")).await, 502, "sandbox_not_found").await;
    // Late ones of its life do not bring it back.
    for version in [5, 6, 7, 8] {
        assert_eq!(gateway.push(&message("running", version, demo.ip())).await.status, 204);
        assert_refused(&gateway, &gateway.send(ask("team--demo")).await, 502, "sandbox_not_found").await;
    }
    let route = gateway.admin("/sandgate/routes?provider=openkruise").await.json();
    assert_eq!(route["routes"], json!([]));
}

#[tokio::test]
async fn the_same_paused_push_makes_byte_equal_tables_on_two_planes() {
    let demo = sandbox("demo").await;
    let (one, two) = (open_gateway().await, open_gateway().await);
    // The planes differ in what they had before and in how often they are told.
    one.push(&message("running", 5, demo.ip())).await;
    one.push(&message("dead", 6, demo.ip())).await;
    let paused = message("paused", 9, demo.ip());
    for (gateway, times) in [(&one, 1), (&two, 3)] {
        for _ in 0..times {
            assert_eq!(gateway.push(&paused).await.status, 204);
        }
    }
    one.push(&message("running", 8, demo.ip())).await;
    let (first, second) = (one.table_dump().await, two.table_dump().await);
    assert_eq!(first, second);
    assert!(first.contains("paused"), "{first}");
    for gateway in [&one, &two] {
        assert_refused(gateway, &gateway.send(ask("team--demo")).await, 502, "sandbox_not_running").await;
    }
}

#[tokio::test]
async fn strangers_get_401_and_change_nothing_and_who_has_the_key_is_believed() {
    let demo = sandbox("demo").await;
    let gateway = keyed_gateway().await;
    let running = message("running", 5, demo.ip());
    let mut client = Client::http1(gateway.refresh_address().await).await.expect("connect");
    for authorization in
        ["", "Bearer abc", "Basic YTpi", "SANDGATE-HMAC-SHA256 key=main, time=1, nonce=0, body=0, mac=0"]
    {
        let mut request = refresh_request(&running);
        if !authorization.is_empty() {
            request = request.header("authorization", authorization);
        }
        let reply = client.send(request).await.expect("an answer");
        assert_eq!((reply.status, reply.text()), (401, ""), "{authorization:?}");
    }
    let status = gateway.status().await;
    assert_eq!((&status["routes"]["total"], &status["table"]["applied"]), (&json!(0), &json!(0)));
    assert_eq!(
        (&status["refresh"]["unauthorized"], &status["refresh"]["insecure"]),
        (&json!(4), &json!(false))
    );
    assert_eq!(status["refresh"]["warning"], Value::Null);
    gateway.logged(&["warn", "wrong credentials"]).await;
    for path in ["/healthz", "/readyz"] {
        assert_eq!(client.send(Request::get(path)).await.expect("an answer").status, 200, "{path}");
    }

    let ip = demo.ip().to_string();
    let route =
        ["--namespace", "team", "--name", "demo", "--uid", "u", "--ip", &ip, "--resource-version", "5"];
    let pushed = push(&gateway, &route).await;
    assert_eq!((pushed.code, pushed.stderr.as_str()), (Some(0), ""), "{pushed:?}");
    assert!(pushed.stdout.ends_with(": delivered\n"), "{pushed:?}");
    assert_eq!(gateway.send(ask("team--demo")).await.sandbox(), "demo");
    let dead = ["--namespace", "team", "--name", "demo", "--state", "dead", "--resource-version", "6"];
    assert_eq!(push(&gateway, &dead).await.code, Some(0));
    assert_refused(&gateway, &gateway.send(ask("team--demo")).await, 502, "sandbox_not_found").await;
    let log = gateway.log();
    assert!(!log.contains(KEY) && !log.contains(SECRET), "{log}");
}

#[tokio::test]
async fn a_token_for_our_audience_of_an_account_that_may_push_is_believed_and_no_other() {
    let demo = sandbox("demo").await;
    let api = ApiServer::shared().await;
    let namespace = api.namespace("push").await;
    let manager = api.service_account(&namespace, "manager").await;
    let other = api.service_account(&namespace, "other").await;
    let kubeconfig = may_review(&api, &namespace).await;
    let review = json!({ "audience": "sandgate", "subjects": [manager.user()], "kubeconfig": kubeconfig });
    let gateway = Gateway::builder().refresh(json!({ "token-review": review })).start().await;
    let mut client = Client::http1(gateway.refresh_address().await).await.expect("connect");
    let mut push = async |token: &str| {
        let request = refresh_request(&message("running", 5, demo.ip()));
        let request = request.header("authorization", format!("Bearer {token}"));
        client.send(request).await.expect("an answer").status
    };
    // Until the API server knows of the right, nobody can be asked about, and nobody is believed.
    gateway
        .until("the right has arrived", async || match push("made up").await {
            401 => Some(()),
            status => {
                assert_eq!(status, 503);
                None
            }
        })
        .await;
    for token in ["made up", &other.token_for("sandgate").await, &manager.token().await, api.admin_token()] {
        assert_eq!(push(token).await, 401);
    }
    assert_eq!(gateway.status().await["table"]["applied"], json!(0));
    assert_eq!(push(&manager.token_for("sandgate").await).await, 204);
    assert_eq!(gateway.send(ask("team--demo")).await.sandbox(), "demo");
}

#[tokio::test]
async fn the_curl_lines_of_the_book_push() {
    let gateway = keyed_gateway().await;
    let blocks = Page::read("envoy/docs/push-protocol.md").blocks();
    let lines = blocks.iter().find(|block| block.is("sh", "test")).expect("lines that push");
    let lines = lines
        .text
        .replace("127.0.0.1:7789", &gateway.refresh_address().await.to_string())
        .replace("push.key", &path(&gateway.folder().join("key")))
        .replace("10.244.1.7", "127.0.0.1");
    // What is signed in the second in which the gateway began is not believed.
    gateway
        .until("the gateway believes the signature", async || {
            let done = Cli::shell(&lines).await;
            assert!(
                done.stdout.starts_with("HTTP/1.1 204") || done.stdout.starts_with("HTTP/1.1 401"),
                "{done:?}"
            );
            done.stdout.starts_with("HTTP/1.1 204").then_some(())
        })
        .await;
    assert_eq!(gateway.admin("/sandgate/routes?id=team--demo").await.json()["state"], json!("paused"));
}

#[tokio::test]
async fn an_open_door_is_warned_of_in_the_log_and_on_the_status_page() {
    let gateway = open_gateway().await;
    gateway.refresh_address().await;
    gateway.logged(&["warn", "refresh", "insecure is true"]).await;
    let refresh = &gateway.status().await["refresh"];
    assert_eq!(refresh["insecure"], json!(true));
    assert!(refresh["warning"].as_str().is_some_and(|warning| warning.contains("insecure")), "{refresh}");
}

#[tokio::test]
async fn a_config_that_says_nothing_about_credentials_is_refused() {
    let exit = Gateway::builder().refresh(json!({})).validate().await;
    assert_ne!(exit.code, Some(0));
    assert!(
        exit.log.contains("refresh: expected one of tls.client-ca, token-review and hmac, or insecure: true"),
        "{}",
        exit.log
    );
}

#[tokio::test]
async fn where_nothing_is_watched_a_route_that_nobody_pushes_again_is_let_go() {
    let (demo, other) = (sandbox("demo").await, sandbox("other").await);
    let gateway = Gateway::builder().refresh(json!({ "insecure": true, "lease-seconds": 6 })).start().await;
    let mut renewed = message("running", 5, other.ip());
    (renewed["name"], renewed["id"]) = (json!("other"), json!("team--other"));
    assert_eq!(gateway.push(&message("running", 5, demo.ip())).await.status, 204);
    assert_eq!(gateway.push(&renewed).await.status, 204);
    assert_eq!(gateway.send(ask("team--demo")).await.sandbox(), "demo");
    let gone = gateway
        .until("the lease is over", async || {
            // Somebody still knows of this one.
            assert_eq!(gateway.push(&renewed).await.status, 204);
            assert_eq!(gateway.send(ask("team--other")).await.sandbox(), "other");
            let reply = gateway.send(ask("team--demo")).await;
            (reply.status != 200).then_some(reply)
        })
        .await;
    assert_refused(&gateway, &gone, 502, "sandbox_not_found").await;
    assert_eq!(gateway.send(ask("team--other")).await.sandbox(), "other");
}

#[tokio::test]
async fn a_pushed_state_that_is_unknown_takes_the_route_out_of_service() {
    let demo = sandbox("demo").await;
    let gateway = open_gateway().await;
    gateway.push(&message("running", 5, demo.ip())).await;
    assert_eq!(gateway.send(ask("team--demo")).await.sandbox(), "demo");
    assert_eq!(gateway.push(&message("hibernating", 6, demo.ip())).await.status, 204);
    assert_refused(&gateway, &gateway.send(ask("team--demo")).await, 502, "sandbox_not_running").await;
    assert_eq!(gateway.admin("/sandgate/routes?id=team--demo").await.json()["state"], json!("unknown"));
    assert_eq!(gateway.push(&message("running", 7, demo.ip())).await.status, 204);
    assert_eq!(gateway.send(ask("team--demo")).await.sandbox(), "demo");
}

#[tokio::test]
async fn a_pushed_address_that_no_sandbox_may_have_is_known_and_not_routed_to() {
    let demo = sandbox("demo").await;
    let gateway = open_gateway().await;
    let outside =
        ["169.254.169.254", "10.0.0.1", "fd00::1", "::ffff:169.254.169.254", "0.0.0.0", "224.0.0.1"];
    for (number, ip) in (0..).zip(outside) {
        gateway.push(&message("running", 5 + 2 * number, demo.ip())).await;
        assert_eq!(gateway.send(ask("team--demo")).await.sandbox(), "demo");
        let reply = gateway.push(&message("running", 6 + 2 * number, ip.parse().expect("an address"))).await;
        assert_eq!(reply.status, 204, "{ip}");
        // Where it was before is not where it is.
        assert_refused(&gateway, &gateway.send(ask("team--demo")).await, 502, "sandbox_not_running").await;
        let route = gateway.admin("/sandgate/routes?id=team--demo").await.json();
        assert_eq!((&route["ip"], &route["state"]), (&Value::Null, &json!("creating")), "{ip}");
    }
    assert_eq!(gateway.status().await["refresh"]["outsidePodRanges"], json!(6));
    gateway.logged(&["warn", "openkruise:team/demo", "is not routed to", "169.254.169.254"]).await;
}

#[tokio::test]
async fn a_gateway_that_drains_does_not_acknowledge_what_is_pushed() {
    let demo = sandbox("demo").await;
    let gateway = open_gateway().await;
    assert_eq!(gateway.push(&message("running", 5, demo.ip())).await.status, 204);
    let mut probe = Client::http1(gateway.refresh_address().await).await.expect("connect");
    assert_eq!(probe.send(Request::get("/readyz")).await.expect("an answer").status, 200);
    let drained = gateway.admin_send(Request::post("/drain_listeners?graceful&skip_exit")).await;
    assert_eq!(drained.status, 200, "{}", drained.text());
    let paused = message("paused", 6, demo.ip());
    let reply = gateway.push(&paused).await;
    assert_eq!((reply.status, reply.header("retry-after")), (503, "1"), "{}", reply.text());
    // It is still true here, for the requests that still come.
    assert_refused(&gateway, &gateway.send(ask("team--demo")).await, 502, "sandbox_not_running").await;
    let ready = probe.send(Request::get("/readyz")).await.expect("an answer");
    assert_eq!((ready.status, ready.header("retry-after")), (503, "1"));
    assert_eq!(gateway.status().await["refresh"]["draining"], json!(true));
    // Who sends it again and again does not take it for delivered.
    let peer = gateway.refresh_address().await.to_string();
    let dead = ["--name", "demo", "--namespace", "team", "--state", "dead", "--resource-version", "7"];
    let pushed = Cli::run(&[&["push", "--peer", &peer, "--deadline", "1500"], &dead[..]].concat()).await;
    assert_eq!(pushed.code, Some(1), "{pushed:?}");
}

#[tokio::test]
async fn in_a_hot_restart_the_old_envoy_acknowledges_nothing_and_the_new_one_has_its_port() {
    let demo = sandbox("demo").await;
    let probe = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let address = probe.local_addr().expect("a bound listener has an address");
    drop(probe);
    let refresh = json!({ "insecure": true, "port": address.port() });
    let mut gateway = Gateway::builder().refresh(refresh).restartable().start().await;
    assert_eq!(gateway.refresh_address().await, address);
    let mut kept = Client::http1(address).await.expect("connect");
    let mut version = 0;
    let mut push = async || {
        version += 1;
        let reply = kept.send(refresh_request(&message("running", version, demo.ip()))).await;
        reply.expect("an answer of the old Envoy").status
    };
    assert_eq!(push().await, 204);
    let mut before = gateway.restart().await;
    gateway
        .until("the old Envoy knows that there is a new one", async || match push().await {
            503 => Some(()),
            status => {
                assert_eq!(status, 204);
                None
            }
        })
        .await;
    // What only the old one has heard of the new one does not know.
    assert_eq!(gateway.status().await["routes"]["total"], json!(0));
    assert_eq!(gateway.refresh_address().await, address);
    assert!(before.is_alive(), "the old Envoy gave its port up by ending");
    let peer = address.to_string();
    let ip = demo.ip().to_string();
    let route =
        ["--namespace", "team", "--name", "demo", "--uid", "u", "--ip", &ip, "--resource-version", "900"];
    let pushed = Cli::run(&[&["push", "--peer", &peer, "--deadline", "15000"], &route[..]].concat()).await;
    assert_eq!(pushed.code, Some(0), "{pushed:?}");
    assert_eq!(gateway.send(ask("team--demo")).await.sandbox(), "demo");
}

#[tokio::test]
async fn readiness_is_the_tables_and_health_is_not() {
    let gateway =
        Gateway::builder().refresh(json!({ "insecure": true })).routes("routes: nonsense").spawn().await;
    let address = gateway.refresh_address().await;
    let mut client = Client::http1(address).await.expect("connect");
    let mut ask = async |path: &str| client.send(Request::get(path)).await.expect("an answer").status;
    assert_eq!((ask("/healthz").await, ask("/readyz").await), (200, 503));
    fs::write(gateway.routes_file(), "routes: []").expect("write");
    gateway.stat_is("sandgate.ready", 1).await;
    assert_eq!(ask("/readyz").await, 200);
}

#[tokio::test]
async fn the_end_of_envoy_closes_the_port_and_is_clean() {
    let mut gateway = open_gateway().await;
    let address = gateway.refresh_address().await;
    let idle = Client::http1(address).await.expect("connect");
    gateway.terminate();
    assert_eq!(gateway.ended().await, Some(0), "{}", gateway.log());
    assert!(Client::http1(address).await.is_err());
    drop(idle);
    assert!(!gateway.log().contains("panic"), "{}", gateway.log());
}

#[tokio::test]
async fn push_tells_every_gateway_and_says_who_was_not_reached() {
    let demo = sandbox("demo").await;
    let gateways = [open_gateway().await, open_gateway().await];
    let peers = [gateways[0].refresh_address().await, gateways[1].refresh_address().await];
    let [one, two] = peers.map(|peer| format!("http://{peer}"));
    let ip = demo.ip().to_string();
    let route = ["--namespace", "team", "--name", "demo", "--uid", "u", "--ip", &ip, "--resource-version"];
    let run = async |peers: &[&str], version: &str| {
        let mut arguments = vec!["push", "--deadline", "15000"];
        for peer in peers {
            arguments.extend(["--peer", peer]);
        }
        arguments.extend(route);
        arguments.push(version);
        Cli::run(&arguments).await
    };
    let pushed = run(&[&one, &two], "1").await;
    assert_eq!(pushed.code, Some(0), "{pushed:?}");
    assert!(
        pushed.stdout.contains(&format!("{one}: delivered"))
            && pushed.stdout.contains(&format!("{two}: delivered"))
    );
    for gateway in &gateways {
        assert_eq!(gateway.send(ask("team--demo")).await.sandbox(), "demo");
    }
    let pushed = run(&[&one, "http://127.0.0.1:1"], "2").await;
    assert_eq!(pushed.code, Some(1), "{pushed:?}");
    assert!(pushed.stdout.contains("http://127.0.0.1:1: failed: "), "{pushed:?}");
    assert!(pushed.stdout.contains(&format!("{one}: delivered")), "{pushed:?}");
    let wrong = run(&[&one], "007").await;
    assert_eq!((wrong.code, wrong.stdout.as_str()), (Some(2), ""), "{wrong:?}");
    assert!(wrong.stderr.contains("resourceVersion"), "{wrong:?}");
}

#[tokio::test]
async fn push_reads_many_messages_from_standard_input() {
    let demo = sandbox("demo").await;
    let gateway = open_gateway().await;
    let mut lines = String::new();
    for number in 0..300 {
        let mut message = message("running", 5, demo.ip());
        message["name"] = json!(format!("n{number}"));
        message["id"] = json!(format!("team--n{number}"));
        if number == 100 {
            message["id"] = json!("some where");
        }
        lines.push_str(&format!("{message}\n"));
    }
    let file = gateway.folder().join("messages");
    fs::write(&file, lines).expect("write");
    let address = gateway.refresh_address().await;
    let program = sandgate_tests::locations::cli();
    let line =
        format!("{} push --peer {address} --stdin --deadline 15000 < {}", program.display(), file.display());
    let pushed = Cli::shell(&line).await;
    assert_eq!(pushed.code, Some(1), "{pushed:?}");
    assert!(pushed.stdout.contains("line 101: ") && pushed.stdout.contains("refused with 400"), "{pushed:?}");
    assert!(pushed.stdout.contains(": 299 delivered, 1 refused"), "{pushed:?}");
    assert_eq!(gateway.status().await["routes"]["total"], json!(299));
    assert_eq!(gateway.send(ask("team--n299")).await.sandbox(), "demo");
    assert!(!pushed.stdout.contains(SECRET) && !pushed.stderr.contains(SECRET), "{pushed:?}");
}

#[tokio::test]
async fn what_was_pushed_is_counted_in_envoys_metrics() {
    let demo = sandbox("demo").await;
    let gateway = keyed_gateway().await;
    gateway.stat_is("sandgate.refresh_up", 1).await;
    let ip = demo.ip().to_string();
    let running = |version: &'static str, ip: &str| {
        let route = ["--namespace", "team", "--name", "demo", "--uid", "u", "--resource-version", version];
        route.into_iter().chain(["--ip", ip]).map(ToOwned::to_owned).collect::<Vec<String>>()
    };
    for (version, ip, code) in [("5", &*ip, 0), ("6", &*ip, 0), ("4", &*ip, 0), ("7", "169.254.169.254", 0)] {
        let arguments = running(version, ip);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        assert_eq!(push(&gateway, &arguments).await.code, Some(code), "{version}");
    }
    // As long as the second lasts in which the gateway began, nobody is believed: then a push was tried
    // again. One that was not answered in time was too, and is old by then.
    let refresh = gateway.status().await["refresh"].clone();
    let count = |key: &str| refresh[key].as_u64().unwrap_or_else(|| panic!("no {key} in {refresh}"));
    assert!(count("stale") >= 1 && count("outsidePodRanges") >= 1, "{refresh}");
    let mut stranger = Client::http1(gateway.refresh_address().await).await.expect("connect");
    let reply = stranger.send(refresh_request(&message("running", 8, demo.ip()))).await.expect("an answer");
    assert_eq!(reply.status, 401);
    for (name, value) in [
        ("applied", 3),
        ("stale", count("stale")),
        ("invalid", 0),
        ("outside", count("outsidePodRanges")),
        ("unauthorized", count("unauthorized") + 1),
        ("connections", 1),
        ("legacy", 0),
        ("unavailable", 0),
        ("too_large", 0),
        ("slow", 0),
        ("batches", 0),
    ] {
        gateway.stat_is(&format!("sandgate.refresh_{name}"), value).await;
    }
    // A gateway that takes no pushes has none of them.
    let other = Gateway::serving("routes: []").await;
    assert_eq!(other.stat("sandgate.refresh_up").await, None);
}
