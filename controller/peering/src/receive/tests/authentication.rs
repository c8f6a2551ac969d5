//! Shared keys and tokens; certificates are beside.

use serde_json::{Value, json};
use tempfile::{TempDir, tempdir};

use super::fixture::{Answer, KEY, Plane, eventually, key_file, message};
use crate::HmacKey;
use crate::hmac::unix_now;

async fn signed(folder: &TempDir) -> (Plane, HmacKey) {
    let (key, file) = key_file(folder, "main", KEY);
    let plane = Plane::start(json!({ "hmac": { "keys": [{ "id": "main", "file": file }] } })).await;
    (plane, key)
}

fn sign(key: &HmacKey, message: &Value) -> String {
    key.sign("POST", "/refresh", message.to_string().as_bytes(), unix_now()).unwrap()
}

fn assert_refused(plane: &Plane, answer: &Answer, why: &str) {
    assert_eq!((answer.status, answer.body.as_str()), (401, ""), "{why}");
    assert!(
        answer.headers.keys().all(|name| ["content-length", "date"].contains(&name.as_str())),
        "{answer:?}"
    );
    let counts = plane.reader.counts();
    assert_eq!((counts.objects, counts.tombstones, counts.applied), (0, 0, 0), "{why}");
}

#[tokio::test]
async fn a_signed_message_is_taken_once() {
    let folder = tempdir().unwrap();
    let (plane, key) = signed(&folder).await;
    let message = message("running", "5");
    let authorization = sign(&key, &message);
    assert_eq!(plane.push_with(&message, &authorization).await.status, 204);
    assert_eq!(plane.push_with(&message, &authorization).await.status, 401, "a replay");
    assert_eq!(plane.push_with(&message, &sign(&key, &message)).await.status, 204);
    let status = plane.status();
    assert_eq!((status.applied, status.stale, status.unauthorized, status.insecure), (1, 1, 1, false));
    assert_eq!(status.methods, ["hmac"]);
}

#[tokio::test]
async fn a_captured_push_that_is_sent_again_after_a_restart_gets_401() {
    let folder = tempdir().unwrap();
    let (key, file) = key_file(&folder, "main", KEY);
    let refresh = json!({ "hmac": { "keys": [{ "id": "main", "file": file }] } });
    let plane = Plane::start(refresh.clone()).await;
    let message = message("running", "5");
    let captured = sign(&key, &message);
    assert_eq!(plane.push_with(&message, &captured).await.status, 204);
    drop(plane);
    // It does not know the nonce any more. The time of the signature is as good as before.
    let plane = Plane::just_begun(refresh).await;
    let answer = plane.push_with(&message, &captured).await;
    assert_refused(&plane, &answer, "signed before the start");
    // Whoever signs after the start is believed.
    let later = key.sign("POST", "/refresh", message.to_string().as_bytes(), unix_now() + 1).unwrap();
    assert_eq!(plane.push_with(&message, &later).await.status, 204);
}

#[tokio::test]
async fn wrong_credentials_get_401_and_nothing_else() {
    let folder = tempdir().unwrap();
    let (plane, key) = signed(&folder).await;
    let message = message("dead", "5");
    let body = message.to_string();
    let now = unix_now();
    let stranger = HmacKey::new("main", KEY.to_uppercase().as_bytes()).unwrap();
    let unknown = HmacKey::new("other", KEY.as_bytes()).unwrap();
    let of = |key: &HmacKey, method, path, body: &str, time| {
        key.sign(method, path, body.as_bytes(), time).unwrap()
    };
    let good = of(&key, "POST", "/refresh", &body, now);
    let cases = [
        ("nothing at all", None),
        ("another key", Some(sign(&stranger, &message))),
        ("an unknown key", Some(sign(&unknown, &message))),
        ("another method", Some(of(&key, "PUT", "/refresh", &body, now))),
        ("another path", Some(of(&key, "POST", "/refresh/batch", &body, now))),
        ("another body", Some(of(&key, "POST", "/refresh", "{}", now))),
        ("a time long ago", Some(of(&key, "POST", "/refresh", &body, now - 3600))),
        ("a time to come", Some(of(&key, "POST", "/refresh", &body, now + 3600))),
        ("another time", Some(good.replace(&format!("time={now}"), &format!("time={}", now + 1)))),
        ("a broken mac", Some(good[..good.len() - 1].to_owned())),
        ("a changed mac", Some(flip(&good))),
        ("a token where none is asked for", Some("Bearer abc".to_owned())),
        ("another scheme", Some("Basic YTpi".to_owned())),
        ("the scheme alone", Some("SANDGATE-HMAC-SHA256".to_owned())),
        ("an empty header", Some(String::new())),
    ];
    let count = cases.len() as u64;
    for (why, authorization) in cases {
        let answer = plane.post("/refresh", body.clone(), authorization.as_deref()).await;
        assert_refused(&plane, &answer, why);
    }
    // Not even how large a body may be is told.
    let answer = plane.post("/refresh", " ".repeat(2 << 20), None).await;
    assert_refused(&plane, &answer, "a large body");
    let answer = plane.post("/refresh/batch", body.clone(), None).await;
    assert_refused(&plane, &answer, "a batch");
    assert_eq!(plane.status().unauthorized, count + 2);
    // Health is everyone's to ask.
    assert_eq!(plane.send("GET", "/healthz", "", None).await.status, 200);
    assert_eq!(plane.send("GET", "/readyz", "", None).await.status, 503);
}

fn flip(header: &str) -> String {
    let last = if header.ends_with('0') { "1" } else { "0" };
    header[..header.len() - 1].to_owned() + last
}

#[tokio::test]
async fn a_batch_is_signed_as_a_whole_with_its_path() {
    let folder = tempdir().unwrap();
    let (plane, key) = signed(&folder).await;
    let body = format!("{}\n{}", message("running", "5"), message("paused", "6"));
    let authorization = key.sign("POST", "/refresh/batch", body.as_bytes(), unix_now()).unwrap();
    assert_eq!(plane.post("/refresh/batch", body, Some(&authorization)).await.lines().len(), 2);
    assert_eq!(plane.status().applied, 2);
}

#[tokio::test]
async fn a_key_that_is_replaced_is_followed_and_a_bad_one_is_not_taken() {
    let folder = tempdir().unwrap();
    let (plane, old) = signed(&folder).await;
    let (new, _) = key_file(&folder, "main", "another-key-of-more-than-32-bytes-in-all");
    let mut version = 0;
    let mut fresh = || {
        version += 1;
        message("running", &version.to_string())
    };
    loop {
        let message = fresh();
        if plane.push_until_answered(&message, &sign(&new, &message)).await.status == 204 {
            break;
        }
    }
    let message = fresh();
    assert_eq!(plane.push_until_answered(&message, &sign(&old, &message)).await.status, 401);
    std::fs::write(folder.path().join("main"), "short").unwrap();
    let error = eventually(|| plane.status().error).await;
    assert!(error.contains("32"), "{error}");
    let message = fresh();
    assert_eq!(plane.push_until_answered(&message, &sign(&new, &message)).await.status, 204);
    key_file(&folder, "main", KEY);
    eventually(|| plane.status().error.is_none().then_some(())).await;
    assert_eq!(plane.push_until_answered(&message, &sign(&old, &message)).await.status, 204);
}

#[tokio::test]
async fn a_receiver_without_its_keys_does_not_listen_until_they_are_there() {
    use crate::Receiver;
    use sandgate_routes::{Limits, RouteTable};
    let folder = tempdir().unwrap();
    let file = folder.path().join("main");
    let settings = super::fixture::settings(json!({ "hmac": { "keys": [{ "id": "main", "file": file }] } }));
    let (writer, _reader) = RouteTable::new(Limits::default());
    let receiver = Receiver::new(settings, super::fixture::policy(), writer);
    let status = receiver.status();
    let task = tokio::spawn(receiver.run(std::future::pending()));
    let error = eventually(|| status.load().error).await;
    assert!(error.contains("main"), "{error}");
    assert_eq!(status.load().listening, None);
    key_file(&folder, "main", KEY);
    eventually(|| status.load().listening).await;
    assert_eq!(status.load().error, None);
    task.abort();
}
