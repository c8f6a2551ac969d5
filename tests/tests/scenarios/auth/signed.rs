//! Signed routes of OpenSandbox.

use std::time::{SystemTime, UNIX_EPOCH};

use sandgate_auth::{PER_SOURCE, SignedKeys};
use sandgate_tests::{Builder, Gateway, Request, SECRET, Sandbox, replace_by_rename, route, routes};
use serde_json::json;

use super::clients::Clients;
use crate::support::{assert_refused, sandbox};

const OLD: &str = "a=MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
const NEW: &str = "b=YW5vdGhlciBzZWNyZXQ=";

fn base36(mut number: u64) -> String {
    let mut digits = Vec::new();
    while number > 0 {
        digits.push(char::from_digit(u32::try_from(number % 36).expect("a digit"), 36).expect("a digit"));
        number /= 36;
    }
    digits.iter().rev().collect()
}

/// A time from now, as signed routes have it.
fn in_seconds(seconds: i64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time").as_secs();
    base36(now.checked_add_signed(seconds).expect("a time"))
}

/// The expiry and the tag, by one of the two keys, for port 8000.
fn signed(key: char, id: &str, expires: &str) -> String {
    let keys = SignedKeys::parse(format!("{OLD},{NEW}").as_bytes()).expect("keys");
    let tag = keys.sign(key, id.as_bytes(), 8000, expires.as_bytes()).expect("a key");
    String::from_utf8(tag.to_vec()).expect("a tag is text")
}

fn with_keys(keys: &str) -> Builder {
    let builder = Gateway::builder();
    let file = builder.folder().join("route-keys");
    std::fs::write(&file, keys).expect("write the keys");
    builder.setting("auth", json!({ "secure-access-keys": { "files": [file] } }))
}

async fn closed(keys: &str) -> (Sandbox, Gateway) {
    let up = sandbox("up").await;
    let entries = [
        route("closed").id("closed").set("secure-access-token", SECRET).ip(up.ip()),
        route("open").id("open").ip(up.ip()),
        route("asleep").id("asleep").set("secure-access-token", SECRET).state("paused"),
    ];
    let gateway = with_keys(keys).routes(&routes(entries)).start().await;
    (up, gateway)
}

/// The request in the three forms.
fn forms(id: &str, expires: &str, tag: &str, path: &str) -> [Request; 3] {
    let label = format!("{id}-8000-{expires}-{tag}");
    [
        Request::get(path).host(&format!("{label}.sandbox.test")),
        Request::get(path).header("opensandbox-ingress-to", &label),
        Request::get(&format!("/{id}/8000/{expires}/{tag}{path}")),
    ]
}

#[tokio::test]
async fn a_signed_route_reaches_its_sandbox_in_every_form_and_its_signature_does_not() {
    let (_up, gateway) = closed(OLD).await;
    let expires = in_seconds(600);
    let tag = signed('a', "closed", &expires);
    for request in forms("closed", &expires, &tag, "/a/b?c=d") {
        let reply = gateway.send(request).await;
        assert_eq!((reply.sandbox(), reply.seen_path()), ("up".into(), "/a/b?c=d".into()));
        assert!(!reply.text().contains(&tag), "{}", reply.text());
        assert!(reply.seen("opensandbox-ingress-to").is_empty(), "{}", reply.text());
    }
    let hosts = Request::get("/").host(&format!("closed-8000-{expires}-{tag}.sandbox.test"));
    assert_eq!(gateway.send(hosts).await.seen("host"), ["closed-8000.sandbox.test"]);
    assert!(!gateway.log().contains(&tag), "{}", gateway.log());
}

#[tokio::test]
async fn a_signature_in_another_host_header_does_not_reach_the_sandbox_either() {
    let up = sandbox("up").await;
    let entries = [route("closed").id("closed").set("secure-access-token", SECRET).ip(up.ip())];
    let filter = json!({ "host-header-name": "X-Original-Host" });
    let gateway = with_keys(OLD).routes(&routes(entries)).filter(filter).start().await;
    let expires = in_seconds(600);
    let tag = signed('a', "closed", &expires);
    let host = format!("closed-8000-{expires}-{tag}.sandbox.test");
    let reply = gateway.send(Request::get("/").header("x-original-host", &host)).await;
    assert_eq!(reply.seen("x-original-host"), ["closed-8000.sandbox.test"]);
    assert!(!reply.text().contains(&tag), "{}", reply.text());
}

#[tokio::test]
async fn a_wrong_or_an_expired_signature_is_401_and_tells_no_state() {
    let (up, gateway) = closed(OLD).await;
    let (later, over) = (in_seconds(600), in_seconds(-5));
    for id in ["closed", "asleep"] {
        for request in forms(id, &over, &signed('a', id, &over), "/") {
            assert_refused(&gateway, &gateway.send(request).await, 401, "signature_expired").await;
        }
        let other = signed('a', "another", &later);
        for request in forms(id, &later, &other, "/") {
            assert_refused(&gateway, &gateway.send(request).await, 401, "unauthorized").await;
        }
        let good = signed('a', id, &later);
        for request in forms(id, &later, &good, "/") {
            let request = request.header("opensandbox-secure-access", "wrong");
            assert_refused(&gateway, &gateway.send(request).await, 401, "unauthorized").await;
        }
    }
    assert_eq!(up.requests(), 0);
    let awake = signed('a', "asleep", &later);
    for request in forms("asleep", &later, &awake, "/") {
        assert_refused(&gateway, &gateway.send(request).await, 503, "sandbox_not_running").await;
    }
}

#[tokio::test]
async fn a_path_that_looks_signed_is_an_open_sandboxs_own() {
    let (_up, gateway) = closed(OLD).await;
    let reply = gateway.send(Request::get("/open/8000/zz/00000000a/x")).await;
    assert_eq!((reply.sandbox(), reply.seen_path()), ("up".into(), "/zz/00000000a/x".into()));
}

#[tokio::test]
async fn without_keys_a_signed_route_is_503_and_the_token_works() {
    let up = sandbox("up").await;
    let entries = [route("closed").id("closed").set("secure-access-token", SECRET).ip(up.ip())];
    let gateway = Gateway::serving(&routes(entries)).await;
    let expires = in_seconds(600);
    for request in forms("closed", &expires, &signed('a', "closed", &expires), "/") {
        assert_refused(&gateway, &gateway.send(request).await, 503, "route_keys_missing").await;
    }
    let token = Request::get("/").header("opensandbox-ingress-to", "closed-8000");
    let reply = gateway.send(token.header("opensandbox-secure-access", SECRET)).await;
    assert_eq!(reply.sandbox(), "up");
}

#[tokio::test]
async fn who_guesses_at_a_signature_is_made_to_wait_and_a_link_that_was_good_stays_good() {
    let (_up, gateway) = closed(OLD).await;
    let expires = in_seconds(600);
    let [good, ..] = forms("closed", &expires, &signed('a', "closed", &expires), "/");
    // Workers remember what was good for themselves: one connection stays with one worker.
    let mut client = gateway.client().await;
    assert_eq!(client.send(good).await.expect("an answer").sandbox(), "up");
    for guess in 0..PER_SOURCE {
        let [wrong, ..] = forms("closed", &expires, &format!("{guess:08x}a"), "/");
        assert_eq!(client.send(wrong).await.expect("an answer").status, 401);
    }
    let [wrong, ..] = forms("closed", &expires, "ffffffffa", "/");
    let reply = client.send(wrong).await.expect("an answer");
    assert_refused(&gateway, &reply, 429, "too_many_failures").await;
    assert!(reply.header("retry-after").parse::<u32>().is_ok_and(|seconds| (1..=7).contains(&seconds)));
    let [good, ..] = forms("closed", &expires, &signed('a', "closed", &expires), "/");
    assert_eq!(client.send(good).await.expect("an answer").sandbox(), "up");
    let later = in_seconds(900);
    let [new, ..] = forms("closed", &later, &signed('a', "closed", &later), "/");
    assert_eq!(client.send(new).await.expect("an answer").status, 429, "no guess is even compared");
}

#[tokio::test]
async fn keys_are_rotated_under_load_and_no_good_request_is_refused() {
    let (_up, gateway) = closed(OLD).await;
    let file = gateway.folder().join("route-keys");
    let expires = in_seconds(600);
    let [old, new] = ['a', 'b'].map(|key| signed(key, "closed", &expires));
    let request = |tag: &str| {
        let [request, ..] = forms("closed", &expires, tag, "/");
        request
    };
    let asking = |tag: &str| {
        let (expires, tag) = (expires.clone(), tag.to_owned());
        move || {
            let [request, ..] = forms("closed", &expires, &tag, "/");
            request
        }
    };
    let clients = Clients::start(&gateway, asking(&old)).await;
    clients.more(50).await;
    replace_by_rename(&file, &format!("{OLD}\n{NEW}\n"));
    gateway
        .until("the new key is known", async || {
            (gateway.send(request(&new)).await.status == 200).then_some(())
        })
        .await;
    clients.ask(asking(&new));
    clients.more(50).await;
    replace_by_rename(&file, NEW);
    gateway
        .until("the old key is gone", async || {
            (gateway.send(request(&old)).await.status == 401).then_some(())
        })
        .await;
    clients.more(50).await;
    let answered = clients.finish().await;
    assert!(answered >= 150, "{answered}");
}

#[tokio::test]
async fn a_key_file_that_breaks_changes_nothing_and_says_so() {
    let (_up, gateway) = closed(OLD).await;
    let file = gateway.folder().join("route-keys");
    replace_by_rename(&file, "a=this is no key");
    gateway.logged(&["auth: secure-access-keys"]).await;
    let expires = in_seconds(600);
    for request in forms("closed", &expires, &signed('a', "closed", &expires), "/") {
        assert_eq!(gateway.send(request).await.sandbox(), "up");
    }
    assert!(!gateway.log().contains("this is no key"), "{}", gateway.log());
}
