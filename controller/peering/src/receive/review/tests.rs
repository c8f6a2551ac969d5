//! Against an API server of our own that answers TokenReviews as it is told to.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Router, body::Bytes};
use sandgate_follow::Access;
use serde_json::{Value, json};
use tempfile::{TempDir, tempdir};
use tokio::net::TcpListener;

use super::Reviewer;
use crate::receive::auth::Denied;
use crate::receive::settings::TokenReviewSettings;
use crate::receive::tests::fixture::eventually;

const PUSHER: &str = "system:serviceaccount:sandgate:manager";
const HERE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const THERE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

struct Api {
    asked: Arc<AtomicUsize>,
    folder: TempDir,
}

fn status(user: &str, audiences: &[&str]) -> Value {
    json!({ "authenticated": true, "user": { "username": user }, "audiences": audiences })
}

async fn answer(State(asked): State<Arc<AtomicUsize>>, body: Bytes) -> Response {
    asked.fetch_add(1, Ordering::SeqCst);
    let question: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(question["kind"], "TokenReview");
    assert_eq!(question["spec"]["audiences"], json!(["sandgate"]));
    let status = match question["spec"]["token"].as_str().unwrap() {
        token if token.starts_with("hang") => std::future::pending().await,
        "good" => status(PUSHER, &["sandgate"]),
        "another" => status("system:serviceaccount:default:default", &["sandgate"]),
        "elsewhere" => status(PUSHER, &["https://kubernetes.default.svc"]),
        "old-server" => status(PUSHER, &[]),
        "trouble" => return StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        "odd" => {
            json!({ "authenticated": true, "error": "odd", "user": { "username": PUSHER }, "audiences": ["sandgate"] })
        }
        _ => json!({ "error": "[invalid bearer token]" }),
    };
    let review = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "status": status });
    (StatusCode::CREATED, review.to_string()).into_response()
}

impl Api {
    async fn start() -> Self {
        let asked = Arc::new(AtomicUsize::new(0));
        let router = Router::new()
            .route("/apis/authentication.k8s.io/v1/tokenreviews", post(answer))
            .with_state(Arc::clone(&asked));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(axum::serve(listener, router).into_future());
        let folder = tempdir().unwrap();
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{ "name": "c", "cluster": { "server": format!("http://{address}") } }],
            "users": [{ "name": "u", "user": {} }],
            "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "u" } }],
        });
        std::fs::write(folder.path().join("kubeconfig"), config.to_string()).unwrap();
        Self { asked, folder }
    }

    fn reviewer(&self) -> Reviewer {
        Reviewer::new(TokenReviewSettings {
            audience: "sandgate".to_owned(),
            subjects: vec!["someone".to_owned(), PUSHER.to_owned()],
            access: Access { kubeconfig: Some(self.folder.path().join("kubeconfig")), context: None },
        })
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

#[tokio::test]
async fn a_token_is_good_for_our_audience_and_our_subjects_only() {
    let api = Api::start().await;
    let reviewer = api.reviewer();
    assert_eq!(reviewer.review(b"good", HERE).await, Ok(()));
    for token in ["another", "elsewhere", "old-server", "odd", "made up"] {
        assert_eq!(reviewer.review(token.as_bytes(), HERE).await, Err(Denied::Unauthorized), "{token}");
    }
    assert_eq!(reviewer.review(b"trouble", HERE).await, Err(Denied::Unchecked));
}

#[tokio::test]
async fn answers_are_remembered_and_trouble_is_not() {
    let api = Api::start().await;
    let reviewer = api.reviewer();
    for _ in 0..5 {
        assert_eq!(reviewer.review(b"good", HERE).await, Ok(()));
        assert_eq!(reviewer.review(b"bad", HERE).await, Err(Denied::Unauthorized));
    }
    assert_eq!(api.asked(), 2);
    for _ in 0..2 {
        assert_eq!(reviewer.review(b"trouble", HERE).await, Err(Denied::Unchecked));
    }
    assert_eq!(api.asked(), 4);
}

#[tokio::test]
async fn a_bad_answer_is_forgotten_before_a_good_one_and_both_are_in_time() {
    let remembered = [super::Remembered::new(super::GOOD_FOR), super::Remembered::new(super::BAD_FOR)];
    tokio::time::pause();
    for kind in &remembered {
        kind.add([7; 32]);
        assert!(kind.has(&[7; 32]) && !kind.has(&[8; 32]));
    }
    tokio::time::advance(super::BAD_FOR).await;
    assert!(remembered[0].has(&[7; 32]) && !remembered[1].has(&[7; 32]));
    tokio::time::advance(super::GOOD_FOR).await;
    assert!(!remembered[0].has(&[7; 32]));
}

#[test]
fn as_many_tokens_are_remembered_as_there_is_room_for() {
    let remembered = super::Remembered::new(super::BAD_FOR);
    for number in 0..5000_u32 {
        let mut digest = [0; 32];
        digest[..4].copy_from_slice(&number.to_le_bytes());
        remembered.add(digest);
        assert!(remembered.has(&digest));
    }
    assert_eq!(remembered.entries.lock().len(), super::MAX_REMEMBERED);
}

#[tokio::test]
async fn strangers_do_not_push_good_tokens_out() {
    let api = Api::start().await;
    let reviewer = api.reviewer();
    assert_eq!(reviewer.review(b"good", HERE).await, Ok(()));
    for number in 0..2000_u32 {
        let source = IpAddr::V4((0x0b00_0000 + number).into());
        assert_eq!(
            reviewer.review(format!("made up {number}").as_bytes(), source).await,
            Err(Denied::Unauthorized)
        );
    }
    let before = api.asked();
    assert_eq!(reviewer.review(b"good", HERE).await, Ok(()));
    assert_eq!(api.asked(), before);
}

#[tokio::test]
async fn unknown_tokens_of_one_source_do_not_use_up_the_questions_of_the_others() {
    let api = Api::start().await;
    let reviewer = Arc::new(api.reviewer());
    let flood: Vec<_> = (0..50)
        .map(|number| {
            let reviewer = Arc::clone(&reviewer);
            tokio::spawn(async move { reviewer.review(format!("hang {number}").as_bytes(), HERE).await })
        })
        .collect();
    eventually(|| (api.asked() == super::PER_SOURCE).then_some(())).await;
    assert_eq!(reviewer.review(b"good", THERE).await, Ok(()));
    assert_eq!(api.asked(), super::PER_SOURCE + 1);
    flood.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn a_source_of_bad_tokens_is_asked_about_seldom_and_its_good_token_still_is() {
    let api = Api::start().await;
    let reviewer = api.reviewer();
    assert_eq!(reviewer.review(b"good", HERE).await, Ok(()));
    let mut unknown = 0;
    for number in 0..500 {
        let standing = reviewer.review(format!("made up {number}").as_bytes(), HERE).await;
        assert_ne!(standing, Ok(()));
        unknown += usize::from(standing == Err(Denied::Unchecked));
    }
    assert!(unknown > 300, "{unknown}");
    assert_eq!(api.asked(), 501 - unknown);
    assert_eq!(reviewer.review(b"made up", THERE).await, Err(Denied::Unauthorized));
    // It is asked about anew after a minute, whatever else comes from its address.
    reviewer.good.expire();
    assert_eq!(reviewer.review(b"good", HERE).await, Ok(()));
    assert_eq!(api.asked(), 503 - unknown);
}

#[tokio::test]
async fn what_cannot_be_a_token_is_not_asked_about() {
    let api = Api::start().await;
    let reviewer = api.reviewer();
    for token in [&b""[..], b"\xff\xfe", &[b'x'; (16 << 10) + 1]] {
        assert_eq!(reviewer.review(token, HERE).await, Err(Denied::Unauthorized));
    }
    assert_eq!(api.asked(), 0);
}

#[tokio::test]
async fn without_an_api_server_nobody_is_believed() {
    let api = Api::start().await;
    let mut reviewer = api.reviewer();
    reviewer.settings.access.kubeconfig = Some(api.folder.path().join("none"));
    assert_eq!(reviewer.review(b"good", HERE).await, Err(Denied::Unchecked));
}
