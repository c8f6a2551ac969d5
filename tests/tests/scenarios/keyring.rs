//! Where keys come from: files and issuers, at the start and while the gateway runs.

use std::fs;

use sandgate_tests::{DEADLINE, Gateway, eventually};
use serde_json::{Value, json};

const SECRET: &str = "a-secret-of-at-least-thirty-two-bytes";
const OTHER: &str = "another-secret-of-at-least-thirty-two-bytes";

/// The state of one source of keys, when `is` holds of it.
async fn source(gateway: &Gateway, name: &str, is: impl Fn(&Value) -> bool) -> Value {
    eventually(&format!("the source {name} is so"), DEADLINE, async || {
        let status = gateway.status().await;
        let sources = status["auth"]["sources"].as_array()?;
        sources.iter().find(|source| source["source"] == name).filter(|source| is(source)).cloned()
    })
    .await
}

#[tokio::test]
async fn files_of_keys_are_followed_and_the_status_and_the_metrics_say_how_they_are_and_no_key() {
    let builder = Gateway::builder().routes("routes: []");
    let (secret, keys) = (builder.folder().join("secret"), builder.folder().join("jwks.json"));
    fs::write(&secret, SECRET).expect("written");
    let key = json!({ "kty": "OKP", "crv": "Ed25519", "kid": "one", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo" });
    fs::write(&keys, json!({ "keys": [key] }).to_string()).expect("written");
    let auth = json!({
        "scoped-token": { "files": [secret] },
        "traffic-jwt": { "jwks-file": keys, "issuer": "https://issuer.example" },
    });
    let gateway = builder.setting("auth", auth).start().await;
    let jwt = source(&gateway, "traffic-jwt", |source| source["reads"].as_u64() > Some(1)).await;
    assert_eq!(
        (&jwt["keys"], &jwt["keyIds"], &jwt["issuer"], &jwt["error"]),
        (&json!(1), &json!(["one"]), &json!("https://issuer.example"), &Value::Null)
    );
    gateway.stat_is("sandgate.auth_up", 1).await;
    gateway.stat_is("sandgate.auth_keys", 2).await;
    let threads = gateway.status().await["threads"].clone();
    assert!(threads.as_array().is_some_and(|all| all.iter().any(|thread| thread["name"] == "sandgate-auth")));

    fs::write(&secret, "too short").expect("written");
    let scoped = source(&gateway, "scoped-token", |source| !source["error"].is_null()).await;
    assert_eq!((&scoped["keys"], &scoped["failures"]), (&json!(1), &json!(1)), "the last good one stays");
    gateway.stat_is("sandgate.auth_up", 0).await;
    gateway.stat_is("sandgate.auth_fetch_failed", 1).await;
    gateway.logged(&["scoped-token", "the last good keys stay in use", "at least 32 bytes"]).await;
    fs::write(&secret, OTHER).expect("written");
    source(&gateway, "scoped-token", |source| source["error"].is_null() && source["reads"] == 2).await;
    gateway.stat_is("sandgate.auth_up", 1).await;
    for (place, text) in [("the log", gateway.log()), ("the status", gateway.status().await.to_string())] {
        assert!(
            !text.contains(SECRET) && !text.contains(OTHER) && !text.contains("too short"),
            "{place}: {text}"
        );
    }
}

#[tokio::test]
async fn a_gateway_without_its_keys_does_not_start_and_says_which_file_is_wrong() {
    let auth = json!({ "bearer": { "files": ["/none/tokens"] } });
    let exits = [
        Gateway::builder().routes("routes: []").setting("auth", auth.clone()).validate().await,
        Gateway::builder().routes("routes: []").setting("auth", auth).run_to_exit().await,
    ];
    for exit in exits {
        assert_ne!(exit.code, Some(0));
        assert!(exit.log.contains("auth: /none/tokens: No such file"), "{}", exit.log);
    }
    let auth = json!({ "traffic-jwt": { "discovery-url": "http://a/.well-known/openid-configuration" } });
    let exit = Gateway::builder().routes("routes: []").setting("auth", auth).validate().await;
    assert!(exit.log.contains("auth.traffic-jwt.discovery-url: expected an https:// URL"), "{}", exit.log);
}

#[tokio::test]
async fn an_issuer_that_is_not_there_keeps_no_listener_closed() {
    let auth = json!({ "traffic-jwt": { "jwks-url": "https://127.0.0.1:1/keys", "issuer": "i" } });
    let gateway = Gateway::builder().routes("routes: []").setting("auth", auth).start().await;
    let jwt = source(&gateway, "traffic-jwt", |source| source["failures"].as_u64() > Some(1)).await;
    assert_eq!((&jwt["keys"], &jwt["loadedAt"]), (&json!(0), &Value::Null));
    assert!(jwt["error"].as_str().is_some_and(|error| error.contains("https://127.0.0.1:1/keys")), "{jwt}");
    gateway.stat_is("sandgate.auth_up", 0).await;
}
