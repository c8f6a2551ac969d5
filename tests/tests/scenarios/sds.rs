//! Keys that Envoy has as generic secrets.

use std::path::Path;

use sandgate_tests::book::Page;
use sandgate_tests::{Builder, Gateway, Request, Sandbox, replace_by_rename, route, routes};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{PORT, ask, sandbox};

/// A secret as Envoy's API has it.
fn secret(name: &str, value: &str) -> Value {
    json!({ "name": name, "generic_secret": { "secret": { "inline_string": value } } })
}

/// The file that Envoy fetches the secret `tokens` from, replaced as a whole.
fn push(file: &Path, version: u32, value: &str) {
    let mut secret = secret("tokens", value);
    secret["@type"] = json!("type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret");
    let update = json!({ "version_info": version.to_string(), "resources": [secret] });
    replace_by_rename(file, &update.to_string());
}

fn with_secrets(sandbox: &Sandbox, secrets: &Value) -> Builder {
    Gateway::builder().routes(&routes([route("up").ip(sandbox.ip())])).filter(json!({ "secrets": secrets }))
}

/// Sends requests until the log has a line with all these parts: workers look at a secret when they need it.
async fn asked_until_logged(gateway: &Gateway, parts: &[&str]) {
    gateway
        .until(&format!("a log line with {parts:?}"), async || {
            assert_eq!(gateway.send(ask("default--up")).await.sandbox(), "up");
            let log = gateway.log();
            log.lines().any(|line| parts.iter().all(|part| line.contains(part))).then_some(())
        })
        .await;
}

#[tokio::test]
async fn a_secret_that_envoy_fetches_is_followed_and_a_bad_one_changes_nothing() {
    let up = sandbox("up").await;
    let folder = TempDir::with_prefix("sandgate-sds-").expect("create a folder");
    let file = folder.path().join("tokens.json");
    push(&file, 1, "first-token-of-enough-bytes-0123456789");
    let source = json!({
        "resource_api_version": "V3",
        "path_config_source": { "path": file, "watched_directory": { "path": folder.path() } },
    });
    let gateway =
        with_secrets(&up, &json!({ "bearer": { "name": "tokens", "sds-config": source } })).start().await;
    asked_until_logged(&gateway, &["secrets.bearer: 1 key"]).await;
    push(&file, 2, "first-token-of-enough-bytes-0123456789\nsecond-token-of-enough-bytes-0123456789\n");
    asked_until_logged(&gateway, &["secrets.bearer: 2 keys"]).await;
    push(&file, 3, "no token");
    asked_until_logged(&gateway, &["secrets.bearer: ", "the keys before it stay"]).await;
    assert!(!gateway.log().contains("token-of-enough"), "no secret is in the log:\n{}", gateway.log());
}

/// The config of the page: one secret of each kind of source.
#[tokio::test]
async fn a_secret_of_the_bootstrap_config_is_read_beside_one_that_is_fetched() {
    let up = sandbox("up").await;
    let folder = TempDir::with_prefix("sandgate-sds-").expect("create a folder");
    push(&folder.path().join("tokens.json"), 1, "first-token-of-enough-bytes-0123456789");
    let blocks = Page::read("envoy/docs/configuration.md").blocks();
    let block = blocks.iter().find(|block| block.marks.get("test").is_some_and(|test| test == "sds"));
    let here = folder.path().display().to_string();
    let text = block.expect("the block").text.replace("/etc/sandgate/sds", &here);
    let mut config: Value = serde_saphyr::from_str(&text).expect("YAML");
    let gateway = with_secrets(&up, &config["secrets"].take())
        .adjust(|config| {
            let value = "a=MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
            config["static_resources"]["secrets"] = json!([secret("route-keys", value)]);
        })
        .start()
        .await;
    asked_until_logged(&gateway, &["secrets.secure-access-keys: 1 key"]).await;
    asked_until_logged(&gateway, &["secrets.bearer: 1 key"]).await;
}

#[tokio::test]
async fn a_secret_that_envoy_does_not_have_is_refused_with_its_name() {
    let up = sandbox("up").await;
    for source in [json!({ "name": "nobodys" }), json!({ "name": "nobodys", "sds-config": { "no": 1 } })] {
        let exit = with_secrets(&up, &json!({ "scoped-token": source })).validate().await;
        assert_ne!(exit.code, Some(0), "{}", exit.log);
        let explained = exit.log.lines().any(|line| {
            line.contains("sandgate: filter config: secrets.scoped-token") && line.contains("nobodys")
        });
        assert!(explained, "{}", exit.log);
    }
}

#[tokio::test]
async fn a_caller_gets_in_with_the_token_that_is_in_the_secret_now() {
    let up = sandbox("up").await;
    let folder = TempDir::with_prefix("sandgate-sds-").expect("create a folder");
    let file = folder.path().join("tokens.json");
    let [old, new] = ["old-token-of-enough-bytes-0123456789", "new-token-of-enough-bytes-0123456789"];
    push(&file, 1, old);
    let source = json!({
        "resource_api_version": "V3",
        "path_config_source": { "path": file, "watched_directory": { "path": folder.path() } },
    });
    let gateway = Gateway::builder()
        .routes(&routes([route("up").ip(up.ip())]))
        .filter(json!({
            "callers": { "mode": "bearer" },
            "secrets": { "bearer": { "name": "tokens", "sds-config": source } },
        }))
        .start()
        .await;
    let status = async |token: &str| {
        let request =
            Request::get("/").header("x-sandbox-id", "up").header("x-sandbox-port", PORT.to_string());
        gateway.send(request.header("authorization", format!("Bearer {token}"))).await.status
    };
    assert_eq!((status(old).await, status(new).await), (200, 401));
    push(&file, 2, new);
    gateway.until("the new token is taken", async || (status(new).await == 200).then_some(())).await;
    gateway.until("the old token is refused", async || (status(old).await == 401).then_some(())).await;
}
