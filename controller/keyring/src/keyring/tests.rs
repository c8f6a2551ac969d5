//! A whole keyring, on real files, and with a real HTTPS server on loopback.

use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;
use tempfile::tempdir;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use super::*;
use crate::https::WELL_KNOWN;
use crate::https::tests::Server;
use crate::jwt::tests::key_set;
use crate::settings::{JwtOrigin, JwtSettings};

const ISSUER: &str = "https://issuer.example";

fn jwt(origin: JwtOrigin) -> JwtSettings {
    JwtSettings {
        origin,
        ca_file: None,
        leeway: Duration::from_secs(60),
        refresh: Duration::from_secs(300),
        min_refetch: Duration::from_secs(1),
    }
}

fn kids(keyring: &Keyring) -> Vec<String> {
    match &keyring.keys().jwt {
        JwtKeys::Ready(verifier) => verifier.keys().kids().map(ToOwned::to_owned).collect(),
        JwtKeys::Off | JwtKeys::NotReady => Vec::new(),
    }
}

async fn eventually(condition: impl Fn() -> bool) {
    let patience = async {
        while !condition() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_secs(30), patience).await.expect("the condition in time");
}

/// Waits for newer keys as a request does; false if there was no wait.
async fn newer_keys(keyring: &Keyring) -> bool {
    let (woken, wait) = oneshot::channel();
    let woken = Mutex::new(Some(woken));
    let asked = keyring.newer_keys(Box::new(move || {
        let _ = woken.lock().take().unwrap().send(());
    }));
    asked && timeout(Duration::from_secs(30), wait).await.expect("woken in time").is_ok()
}

#[test]
fn a_keyring_of_nothing_has_no_keys_and_nobody_waits() {
    let keyring = Keyring::new(&AuthSettings::default()).unwrap();
    assert!(matches!(keyring.keys().jwt, JwtKeys::Off) && keyring.keys().signed.is_none());
    assert!(!keyring.reviews() && keyring.reviewed(b"token").is_none());
    assert!(!keyring.newer_keys(Box::new(|| ())) && !keyring.review(b"token", None, Box::new(|| ())));
    let status = keyring.status();
    assert!(status.sources.is_empty() && status.reviews.is_none() && status.is_good());
    assert_eq!(status.age(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn files_are_followed_while_the_keyring_runs_and_what_runs_again_goes_on() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("secret");
    std::fs::write(&path, "x".repeat(32)).unwrap();
    let keyring =
        Keyring::new(&AuthSettings { scoped: vec![path.clone()], ..AuthSettings::default() }).unwrap();
    let first = Arc::clone(&keyring.keys().scoped);
    let task = tokio::spawn(keyring.clone().run());
    std::fs::write(&path, "too short").unwrap();
    eventually(|| keyring.status().sources[0].error.is_some()).await;
    assert!(Arc::ptr_eq(&first, &keyring.keys().scoped) && !keyring.status().is_good());
    sleep(Duration::from_secs(60)).await;
    assert!(keyring.status().age() >= Duration::from_secs(59));
    std::fs::write(&path, "y".repeat(32)).unwrap();
    eventually(|| keyring.status().is_good()).await;
    let second = Arc::clone(&keyring.keys().scoped);
    assert!(!Arc::ptr_eq(&first, &second) && keyring.status().age() <= Duration::from_secs(2));
    task.abort();
    std::fs::write(&path, "z".repeat(32)).unwrap();
    let task = tokio::spawn(keyring.clone().run());
    eventually(|| !Arc::ptr_eq(&second, &keyring.keys().scoped)).await;
    task.abort();
}

#[tokio::test]
async fn a_file_with_a_key_set_is_there_at_once_and_an_unknown_key_looks_at_it_again() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("keys.json");
    let settings = || AuthSettings {
        jwt: Some(jwt(JwtOrigin::File { path: path.clone(), issuer: ISSUER.to_owned() })),
        ..AuthSettings::default()
    };
    for wrong in ["{}", r#"{"keys":[]}"#] {
        std::fs::write(&path, wrong).unwrap();
        let error = Keyring::new(&settings()).err().unwrap().to_string();
        assert!(error.contains("/keys.json: the key set "), "{error}");
    }
    std::fs::write(&path, key_set(&["a"])).unwrap();
    let keyring = Keyring::new(&settings()).unwrap();
    assert_eq!(kids(&keyring), ["a"]);
    assert!(!newer_keys(&keyring).await, "it does not run");
    let task = tokio::spawn(keyring.clone().run());
    eventually(|| keyring.status().sources[0].reads >= 2).await;
    std::fs::write(&path, key_set(&["a", "b"])).unwrap();
    assert!(newer_keys(&keyring).await);
    assert_eq!(kids(&keyring), ["a", "b"]);
    std::fs::remove_file(&path).unwrap();
    assert!(newer_keys(&keyring).await);
    assert_eq!(kids(&keyring), ["a", "b"]);
    let status = keyring.status();
    assert!(!status.is_good() && status.sources[0].issuer.as_deref() == Some(ISSUER));
    task.abort();
}

#[tokio::test]
async fn a_rotation_at_the_issuer_reaches_the_request_that_waits_for_it() {
    let server = Server::start().await;
    let url = server.url(WELL_KNOWN);
    let issuer = url.issuer().unwrap();
    let origin = JwtOrigin::Discovery { url, issuer: None };
    let jwt = JwtSettings { ca_file: Some(server.ca_file()), ..jwt(origin) };
    let keyring = Keyring::new(&AuthSettings { jwt: Some(jwt), ..AuthSettings::default() }).unwrap();
    assert!(matches!(keyring.keys().jwt, JwtKeys::NotReady));
    let document = json!({ "issuer": issuer, "jwks_uri": server.url("/keys").to_string() });
    server.text(WELL_KNOWN, &document.to_string());
    server.text("/keys", &key_set(&["a"]));
    let task = tokio::spawn(keyring.clone().run());
    eventually(|| kids(&keyring) == ["a"]).await;
    server.text("/keys", &key_set(&["b"]));
    assert!(newer_keys(&keyring).await);
    assert_eq!(kids(&keyring), ["b"]);
    assert_eq!(server.asked(WELL_KNOWN), 2, "one fetch was enough");
    let status = keyring.status();
    assert_eq!(status.sources[0].issuer, Some(issuer));
    assert!(status.is_good());
    task.abort();
}

#[test]
fn a_wrong_file_of_authorities_is_found_at_the_start() {
    let folder = tempdir().unwrap();
    let origin = JwtOrigin::Url { url: "https://a".parse().unwrap(), issuer: ISSUER.to_owned() };
    let jwt = JwtSettings { ca_file: Some(folder.path().join("ca.crt")), ..jwt(origin) };
    let error = Keyring::new(&AuthSettings { jwt: Some(jwt), ..AuthSettings::default() }).err().unwrap();
    assert!(error.to_string().contains("/ca.crt: "), "{error}");
}
