//! The operator's questions over real HTTP: to receivers, and to gateways that do as they are told.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::{StatusCode, Uri};
use serde_json::json;
use tempfile::tempdir;
use tokio::net::TcpListener;

use super::fixture::{address, silent_port};
use crate::receive::tests::activity::{Counted, named};
use crate::receive::tests::fixture::{DEADLINE, KEY, Plane, key_file};
use crate::{ActivityClient, ActivitySettings, AskError, Credentials, Known, PeerAddress, Peers};

/// Does not give up because the machine is slow.
fn patient() -> ActivitySettings {
    ActivitySettings { connect_timeout: DEADLINE, timeout: DEADLINE, ..ActivitySettings::default() }
}

type Answers = BTreeMap<PeerAddress, Result<Known, AskError>>;

async fn ask(settings: ActivitySettings, gateways: Vec<PeerAddress>) -> Answers {
    let client = ActivityClient::new(settings, Peers::Static(gateways), &Credentials::default()).unwrap();
    client.ask("openkruise", 0).await.unwrap()
}

/// The same for one gateway.
async fn ask_one(settings: ActivitySettings, gateway: PeerAddress) -> Result<Known, AskError> {
    ask(settings, vec![gateway]).await.pop_first().unwrap().1
}

async fn open() -> (Plane, Arc<Counted>) {
    let counted = Counted::new();
    (Plane::reporting(json!({ "insecure": true }), counted.clone()).await, counted)
}

async fn used(plane: &Plane, counted: &Counted, name: &str, last: u64, open: u32) {
    assert_eq!(plane.push(&named(name)).await.status, 204);
    counted.used(&plane.reader, name, last, open);
}

/// A gateway that answers every question so.
async fn puppet(
    answer: impl Fn(&Uri) -> (StatusCode, String) + Clone + Send + Sync + 'static,
) -> PeerAddress {
    let router = Router::new().fallback(move |uri: Uri| {
        let answer = answer(&uri);
        async { answer }
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = PeerAddress::at(listener.local_addr().unwrap(), false, None);
    tokio::spawn(axum::serve(listener, router).into_future());
    address
}

#[tokio::test]
async fn each_gateway_says_what_it_knows_and_one_that_does_not_answer_is_an_error() {
    let ((one, first), (other, second)) = (open().await, open().await);
    used(&one, &first, "a", 1700, 0).await;
    used(&one, &first, "b", 2000, 2).await;
    used(&other, &second, "a", 1900, 0).await;
    second.tell(|observed| observed.start = 1111);
    let (_held, nobody) = silent_port();
    let nobody = PeerAddress::at(nobody, false, None);
    let mut answers = ask(patient(), vec![address(&one), address(&other), nobody.clone()]).await;
    assert_eq!(answers.len(), 3);
    assert!(matches!(answers.remove(&nobody).unwrap(), Err(AskError::Unreached(_))));
    let known = answers.remove(&address(&one)).unwrap().unwrap();
    assert_eq!((known.start, known.complete, known.now), (1000, 1500, 2000));
    let b = &known.sandboxes["u-b"];
    let names = (b.id.as_str(), b.uid.as_str(), b.namespace.as_str(), b.name.as_str());
    assert_eq!((names, b.last_active, b.open), (("b", "u-b", "team", "b"), 2000, 2));
    assert_eq!(known.sandboxes["u-a"].last_active, 1700);
    let known = answers.remove(&address(&other)).unwrap().unwrap();
    assert_eq!((known.start, known.sandboxes["u-a"].last_active, known.sandboxes.len()), (1111, 1900, 1));
}

#[tokio::test]
async fn a_sandbox_was_quiet_since_its_last_use_or_since_the_gateway_knows_everything() {
    let (plane, counted) = open().await;
    used(&plane, &counted, "idle", 1900, 0).await;
    used(&plane, &counted, "busy", 1600, 1).await;
    used(&plane, &counted, "before", 1400, 0).await;
    let known = ask_one(patient(), address(&plane)).await.unwrap();
    let quiet = |uid: &str| known.quiet_for(uid).as_secs();
    assert_eq!((quiet("u-idle"), quiet("u-busy"), quiet("u-before"), quiet("u-never")), (100, 0, 500, 500));
}

#[tokio::test]
async fn every_page_is_asked_for() {
    let (plane, counted) = open().await;
    let names: Vec<String> = (0..5_001).map(|number| format!("s{number:04}")).collect();
    let lines: Vec<String> = names.iter().map(|name| named(name).to_string()).collect();
    assert_eq!(plane.post("/refresh/batch", lines.join("\n"), None).await.status, 200);
    for name in &names {
        counted.used(&plane.reader, name, 1700, 0);
    }
    let known = ask_one(patient(), address(&plane)).await.unwrap();
    assert_eq!((known.sandboxes.len(), plane.status().reports), (names.len(), 2));
    let few = ActivitySettings { max_sandboxes: 5_000, ..patient() };
    assert!(matches!(ask_one(few, address(&plane)).await, Err(AskError::TooMany(5_000))));
    let small = ActivitySettings { max_page_bytes: 100_000, ..patient() };
    assert!(matches!(ask_one(small, address(&plane)).await, Err(AskError::Unreached(_))));
}

#[tokio::test]
async fn who_has_the_key_is_answered_and_a_refusal_says_why() {
    let folder = tempdir().unwrap();
    let (_, file) = key_file(&folder, "main", KEY);
    let counted = Counted::new();
    let hmac = json!({ "hmac": { "keys": [{ "id": "main", "file": file }] } });
    let plane = Plane::reporting(hmac, counted.clone()).await;
    let gateways = || Peers::Static(vec![address(&plane)]);
    let keyed = Credentials { hmac: Some(("main".to_owned(), file)), ..Credentials::default() };
    let ask = async |credentials: &Credentials, provider: &str| {
        let client = ActivityClient::new(patient(), gateways(), credentials).unwrap();
        client.ask(provider, 0).await.unwrap().pop_first().unwrap().1
    };
    assert!(ask(&keyed, "openkruise").await.is_ok());
    // The receiver's own tests have the words.
    for (credentials, provider, expected, words) in [
        (&Credentials::default(), "openkruise", StatusCode::UNAUTHORIZED, ""),
        (&keyed, "a b&c=d", StatusCode::BAD_REQUEST, "no such provider"),
    ] {
        let Err(AskError::Refused { status, reason }) = ask(credentials, provider).await else {
            panic!("{provider} is not refused");
        };
        assert_eq!(status, expected);
        assert!(reason.contains(words), "{reason}");
    }
    counted.fail();
    let answer = ask(&keyed, "openkruise").await;
    assert!(matches!(answer, Err(AskError::Refused { status: StatusCode::NOT_IMPLEMENTED, .. })));
}

#[tokio::test]
async fn what_is_no_answer_is_an_error_and_never_an_empty_one() {
    let head = r#"{"start":1,"complete":1,"now":9"#;
    for body in [
        String::new(),
        "{}".to_owned(),
        "nonsense".to_owned(),
        format!("{head}}}\n{{\"id\":\"a\"}}"),
        // The same page again.
        format!(r#"{head},"next":"a"}}"#),
    ] {
        let gateway = puppet({
            let body = body.clone();
            move |_| (StatusCode::OK, body.clone())
        });
        let answer = ask_one(patient(), gateway.await).await;
        assert!(matches!(answer, Err(AskError::Malformed)), "{body} gave {answer:?}");
    }
}

#[tokio::test]
async fn a_gateway_that_restarts_between_two_pages_has_not_answered() {
    let gateway = puppet(|uri| {
        let second = uri.query().unwrap().contains("after=");
        let head = if second { json!({ "start": 8 }) } else { json!({ "start": 1, "next": "a" }) };
        let mut whole = json!({ "complete": 1, "now": 9 });
        whole.as_object_mut().unwrap().extend(head.as_object().unwrap().clone());
        (StatusCode::OK, whole.to_string())
    });
    assert!(matches!(ask_one(patient(), gateway.await).await, Err(AskError::Restarted)));
}

#[tokio::test]
async fn a_gateway_that_takes_too_long_keeps_nobody_waiting() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent = PeerAddress::at(listener.local_addr().unwrap(), false, None);
    let (plane, _counted) = open().await;
    // One at a time, the silent one among them.
    let settings =
        ActivitySettings { timeout: Duration::from_millis(500), at_once: 1, ..ActivitySettings::default() };
    let mut answers = ask(settings, vec![silent.clone(), address(&plane)]).await;
    assert!(matches!(answers.remove(&silent).unwrap(), Err(AskError::Timeout)));
    assert!(answers.remove(&address(&plane)).unwrap().is_ok());
}

#[tokio::test]
async fn gateways_that_cannot_be_found_are_an_error_and_no_answer() {
    let nowhere = Peers::Dns { host: "nowhere.invalid".to_owned(), port: 1, secure: false };
    let client = ActivityClient::new(patient(), nowhere, &Credentials::default()).unwrap();
    assert!(client.ask("openkruise", 0).await.is_err());
}
