//! Traffic JWTs, with a real issuer.

use std::time::{SystemTime, UNIX_EPOCH};

use sandgate_auth::testing::Signer;
use sandgate_tests::{Gateway, Issuer, Request, SECRET, Sandbox, route, routes};
use serde_json::{Value, json};

use super::clients::Clients;
use crate::support::{ask, assert_refused, sandbox};

const HEADER: &str = "e2b-traffic-access-token";

struct Site {
    up: Sandbox,
    issuer: Issuer,
    signer: Signer,
    gateway: Gateway,
}

impl Site {
    async fn start(filter: Value) -> Self {
        let up = sandbox("up").await;
        let signer = Signer::es256("first");
        let builder = Gateway::builder();
        let folder = builder.folder().join("issuer");
        std::fs::create_dir(&folder).expect("create a folder");
        let issuer = Issuer::start(&folder, signer.jwks()).await;
        let entries = [
            route("wants").set("uid", "uid-1").set("require-traffic-auth", true).ip(up.ip()),
            route("other").set("uid", "uid-2").set("require-traffic-auth", true).ip(up.ip()),
            route("runtime").token(SECRET).ip(up.ip()),
            route("asleep").set("uid", "uid-3").set("require-traffic-auth", true).state("paused"),
        ];
        let gateway = builder
            .setting("auth", json!({ "traffic-jwt": issuer.settings() }))
            .routes(&routes(entries))
            .filter(filter)
            .start()
            .await;
        Self { up, issuer, signer, gateway }
    }

    fn claims(&self, id: &str, uid: &str) -> Value {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time").as_secs();
        json!({
            "iss": self.issuer.name(), "sub": "somebody", "iat": now, "nbf": now, "exp": now + 600,
            "sandbox": { "sandboxId": id, "sandboxUid": uid },
        })
    }

    fn token(&self, signer: &Signer) -> String {
        signer.token(&self.claims("default--wants", "uid-1"))
    }

    /// Waits until the first keys are there.
    async fn ready(&self) {
        let request = || ask("default--wants").header(HEADER, self.token(&self.signer));
        self.gateway
            .until("the keys are there", async || {
                (self.gateway.send(request()).await.status == 200).then_some(())
            })
            .await;
    }
}

#[tokio::test]
async fn a_sandbox_that_wants_a_jwt_is_reached_with_a_good_one_of_its_own_and_never_sees_it() {
    for filter in
        [json!({}), json!({ "enable-auth": true }), json!({ "enable-auth": true, "enable-jwt-auth": true })]
    {
        let site = Site::start(filter.clone()).await;
        site.ready().await;
        let before = site.up.requests();
        let reply = site.gateway.send(ask("default--wants").header(HEADER, site.token(&site.signer))).await;
        assert_eq!(reply.sandbox(), "up", "{filter}");
        assert!(reply.seen(HEADER).is_empty(), "{}", reply.text());
        let other = site.signer.token(&site.claims("default--other", "uid-2"));
        let reborn = site.signer.token(&site.claims("default--wants", "uid-0"));
        let mut over = site.claims("default--wants", "uid-1");
        over["exp"] = json!(1_700_000_000);
        let mut elsewhere = site.claims("default--wants", "uid-1");
        elsewhere["iss"] = json!("https://elsewhere.example");
        let stranger = Signer::es256("first");
        for wrong in [
            other,
            reborn,
            site.signer.token(&over),
            site.signer.token(&elsewhere),
            site.token(&stranger),
            String::new(),
            "a.b.c".into(),
        ] {
            let reply = site.gateway.send(ask("default--wants").header(HEADER, &wrong)).await;
            assert_refused(&site.gateway, &reply, 403, "forbidden").await;
        }
        let static_token = ask("default--wants").header("x-access-token", SECRET);
        assert_refused(&site.gateway, &site.gateway.send(static_token).await, 403, "forbidden").await;
        // Whoever has no token does not learn that it is paused.
        assert_refused(&site.gateway, &site.gateway.send(ask("default--asleep")).await, 403, "forbidden")
            .await;
        let awake = site.signer.token(&site.claims("default--asleep", "uid-3"));
        let reply = site.gateway.send(ask("default--asleep").header(HEADER, awake)).await;
        assert_refused(&site.gateway, &reply, 502, "sandbox_not_running").await;
        assert_eq!(site.up.requests(), before + 1);
        assert!(!site.gateway.log().contains(&site.token(&site.signer)));
    }
}

#[tokio::test]
async fn in_openkruises_jwt_mode_a_sandbox_that_wants_none_is_open_and_never_sees_the_header() {
    let site = Site::start(json!({ "enable-auth": true, "enable-jwt-auth": true })).await;
    let reply = site.gateway.send(ask("default--runtime").header(HEADER, "anything")).await;
    assert_eq!(reply.sandbox(), "up");
    assert!(reply.seen(HEADER).is_empty(), "{}", reply.text());
}

#[tokio::test]
async fn keys_are_rotated_at_once_under_load_and_no_good_request_is_refused() {
    let site = Site::start(json!({})).await;
    site.ready().await;
    let asking = |signer: &Signer| {
        let token = site.token(signer);
        move || ask("default--wants").header(HEADER, &token)
    };
    let clients = Clients::start(&site.gateway, asking(&site.signer)).await;
    clients.more(50).await;
    // Three times: the new key beside the old one, and tokens by it at once; then the old one goes.
    let mut gone = site.token(&site.signer);
    for name in ["second", "third", "fourth"] {
        let new = if name == "third" { Signer::rs256(name) } else { Signer::ed25519(name) };
        site.issuer.publish(Some(new.jwks()));
        clients.ask(asking(&new));
        clients.more(50).await;
        site.gateway
            .until("the old key is gone", async || {
                let reply = site.gateway.send(ask("default--wants").header(HEADER, &gone)).await;
                (reply.status == 403).then_some(())
            })
            .await;
        gone = site.token(&new);
    }
    assert!(clients.finish().await >= 200);
}

#[tokio::test]
async fn an_issuer_that_fails_changes_nothing_and_unknown_keys_are_asked_for_seldom() {
    let site = Site::start(json!({})).await;
    site.ready().await;
    site.issuer.publish(None);
    let before = site.issuer.asked();
    for number in 0..30 {
        let stranger = Signer::es256(&format!("unknown-{number}"));
        let reply = site.gateway.send(ask("default--wants").header(HEADER, site.token(&stranger))).await;
        assert!([403, 503].contains(&reply.status), "{}", reply.text());
    }
    let reply = site.gateway.send(ask("default--wants").header(HEADER, site.token(&site.signer))).await;
    assert_eq!(reply.sandbox(), "up", "the last good keys serve");
    let asked = site.issuer.asked() - before;
    assert!((1..=30).contains(&asked), "{asked}");
    site.gateway.logged(&["auth: traffic-jwt"]).await;
}

#[tokio::test]
async fn the_header_can_have_another_name() {
    let site = Site::start(json!({ "traffic-access-token-header": "X-Traffic" })).await;
    let request = || Request::get("/").host("8000-default--wants.sandbox.test");
    site.gateway
        .until("the keys are there", async || {
            let sent = request().header("x-traffic", site.token(&site.signer));
            (site.gateway.send(sent).await.status == 200).then_some(())
        })
        .await;
    let reply = site.gateway.send(request().header(HEADER, site.token(&site.signer))).await;
    assert_refused(&site.gateway, &reply, 403, "forbidden").await;
}
