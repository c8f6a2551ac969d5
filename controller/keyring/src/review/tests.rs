//! Against an API server that answers as it is told to, in memory, on the paused clock.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use sandgate_follow::Access;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::{Instant, advance, sleep};
use tower::service_fn;

use super::inbox::{MAX_PER_SOURCE, MAX_WAITING};
use super::remembered::MAX_REMEMBERED;
use super::*;

const USER: &str = "system:serviceaccount:team:agent";
const REMEMBER: Duration = Duration::from_secs(30);

fn source(number: u32) -> Option<IpAddr> {
    Some(IpAddr::V4((0x0a00_0000 + number).into()))
}

/// What the API server knows of a token, and the status of its answer.
fn answer(token: &str) -> (u16, Value) {
    let user = |audiences: &[&str]| json!({ "authenticated": true, "user": { "username": USER, "groups": ["a", "b"] }, "audiences": audiences });
    let status = match token {
        token if token.starts_with("good") => user(&["other", "sandgate"]),
        "second-audience" => user(&["router"]),
        "elsewhere" => user(&["https://kubernetes.default.svc"]),
        "old-server" => json!({ "authenticated": true, "user": { "username": USER } }),
        "nobody" => json!({ "authenticated": true, "user": {}, "audiences": ["sandgate"] }),
        "trouble" => {
            return (
                500,
                json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "etcd is away", "reason": "InternalError", "code": 500 }),
            );
        }
        "forbidden" => {
            return (
                403,
                json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "tokenreviews is forbidden", "reason": "Forbidden", "code": 403 }),
            );
        }
        _ => json!({ "error": "[invalid bearer token]" }),
    };
    (201, json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "status": status }))
}

struct World {
    reviewer: Arc<Reviewer>,
    asked: Arc<AtomicUsize>,
    at_once: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Drop for World {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn settle() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

impl World {
    async fn new() -> Self {
        Self::remembering(REMEMBER).await
    }

    async fn remembering(remember: Duration) -> Self {
        let reviewer = Arc::new(Reviewer::new(ReviewSettings {
            audiences: vec!["sandgate".to_owned(), "router".to_owned()],
            access: Access { kubeconfig: Some("/none".into()), context: None },
            remember,
        }));
        let (asked, at_once) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (count, open) = (Arc::clone(&asked), Arc::clone(&at_once));
        let service = service_fn(move |request: Request<kube::client::Body>| {
            let (count, open) = (Arc::clone(&count), Arc::clone(&open));
            Box::pin(async move {
                count.fetch_add(1, Ordering::SeqCst);
                open.fetch_add(1, Ordering::SeqCst);
                assert_eq!(request.uri().path(), "/apis/authentication.k8s.io/v1/tokenreviews");
                let body = request.into_body().collect().await.unwrap().to_bytes();
                let question: Value = serde_json::from_slice(&body).unwrap();
                assert_eq!(question["spec"]["audiences"], json!(["sandgate", "router"]));
                let token = question["spec"]["token"].as_str().unwrap().to_owned();
                if token.starts_with("hang") {
                    std::future::pending::<()>().await;
                }
                open.fetch_sub(1, Ordering::SeqCst);
                let (status, body) = answer(&token);
                let body = Full::new(Bytes::from(body.to_string()));
                Ok::<_, Infallible>(Response::builder().status(status).body(body).unwrap())
            }) as Pin<Box<dyn Future<Output = _> + Send>>
        });
        *reviewer.client.lock() = Some(Client::new(service, "default"));
        let task = tokio::spawn(Arc::clone(&reviewer).run());
        settle().await;
        Self { reviewer, asked, at_once, task }
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    /// Asks, and counts the calls of its `wake`.
    fn ask(&self, token: &str, source: Option<IpAddr>) -> Option<Arc<AtomicUsize>> {
        let woken = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&woken);
        let wake: Wake = Box::new(move || {
            count.fetch_add(1, Ordering::SeqCst);
        });
        self.reviewer.review(token.as_bytes(), source, wake).then_some(woken)
    }

    /// As a request does it: what is remembered, else what there is after the wait.
    async fn review(&self, token: &str, source: Option<IpAddr>) -> Reviewed {
        if let Some(known) = self.reviewer.reviewed(token.as_bytes()) {
            return (*known).clone();
        }
        let woken = self.ask(token, source).expect("it may be asked");
        while woken.load(Ordering::SeqCst) == 0 {
            sleep(Duration::from_millis(1)).await;
        }
        let answer = self.reviewer.reviewed(token.as_bytes()).expect("an answer after the wait");
        (*answer).clone()
    }
}

fn good() -> Reviewed {
    Reviewed::Good(Caller { username: USER.to_owned(), groups: vec!["a".to_owned(), "b".to_owned()] })
}

#[tokio::test(start_paused = true)]
async fn a_token_is_good_if_it_is_somebodys_and_for_one_of_our_audiences() {
    let world = World::new().await;
    for token in ["good", "second-audience"] {
        assert_eq!(world.review(token, source(1)).await, good(), "{token}");
    }
    for token in ["elsewhere", "old-server", "nobody", "made up"] {
        assert_eq!(world.review(token, source(1)).await, Reviewed::Bad, "{token}");
    }
    let status = world.reviewer.status();
    assert_eq!((status.asked, status.good, status.bad, status.failed, status.remembered), (6, 2, 4, 0, 6));
    assert_eq!(status.error, None);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_remembered_is_read_without_an_allocation() {
    let world = World::new().await;
    world.review("good", source(1)).await;
    let read = || {
        for token in [&b"good"[..], b"unknown", b""] {
            let known = world.reviewer.reviewed(token);
            assert_eq!(known.is_none(), token == b"unknown");
        }
    };
    // The first read of a thread makes its place among the readers.
    read();
    assert_eq!(allocation_counter::measure(read).count_total, 0);
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_remembered_good_or_bad_and_a_failure_for_a_third_of_the_time() {
    let world = World::new().await;
    for token in ["good", "bad", "trouble"] {
        world.review(token, source(1)).await;
    }
    assert_eq!(world.asked(), 3);
    advance(Duration::from_secs(9)).await;
    assert_eq!(world.review("good", source(1)).await, good());
    assert_eq!(world.review("bad", source(1)).await, Reviewed::Bad);
    assert_eq!(world.review("trouble", source(1)).await, Reviewed::Failed);
    assert_eq!(world.asked(), 3);
    advance(Duration::from_secs(2)).await;
    assert_eq!(world.review("trouble", source(1)).await, Reviewed::Failed);
    assert_eq!(world.asked(), 4);
    advance(Duration::from_secs(20)).await;
    for token in ["good", "bad"] {
        assert!(world.reviewer.reviewed(token.as_bytes()).is_none(), "{token}");
    }
    // A short memory still remembers a failure for a second.
    let world = World::remembering(Duration::from_secs(1)).await;
    world.review("trouble", source(1)).await;
    advance(Duration::from_millis(900)).await;
    assert!(world.reviewer.reviewed(b"trouble").is_some());
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_refuses_or_is_silent_is_a_failure_and_the_status_says_why() {
    let world = World::new().await;
    assert_eq!(world.review("forbidden", source(1)).await, Reviewed::Failed);
    assert_eq!(world.reviewer.status().error.unwrap(), "403 tokenreviews is forbidden");
    assert!(world.reviewer.client.lock().is_some());
    assert_eq!(world.review("good", source(1)).await, good());
    assert_eq!(world.reviewer.status().error, None);
    let begun = Instant::now();
    assert_eq!(world.review("hang", source(1)).await, Reviewed::Failed);
    assert_eq!(begun.elapsed().as_secs(), 3);
    assert_eq!(world.reviewer.status().error.unwrap(), "no answer within 3 s");
    // The connection may be what hangs: the next question has a new one, for which there is no kubeconfig.
    assert!(world.reviewer.client.lock().is_none());
    assert_eq!(world.review("good-2", source(1)).await, Reviewed::Failed);
    assert!(world.reviewer.status().error.unwrap().starts_with("kubeconfig /none"));
    assert_eq!(world.reviewer.status().failed, 3);
}

#[tokio::test(start_paused = true)]
async fn everyone_who_has_one_token_shares_one_question() {
    let world = World::new().await;
    let waits: Vec<_> = (0..100).map(|_| world.ask("good", source(1)).unwrap()).collect();
    settle().await;
    assert!(waits.iter().all(|wait| wait.load(Ordering::SeqCst) == 1));
    assert_eq!(world.asked(), 1);
    // Who asks though there is an answer is woken, and nobody is asked.
    let wait = world.ask("good", source(1)).unwrap();
    settle().await;
    assert_eq!((wait.load(Ordering::SeqCst), world.asked()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn strangers_do_not_push_good_tokens_out_and_only_so_many_answers_are_kept() {
    let world = World::new().await;
    assert_eq!(world.review("good", source(1)).await, good());
    for number in 0..u32::try_from(MAX_REMEMBERED).unwrap() + 100 {
        assert_eq!(world.review(&format!("made up {number}"), source(2 + number)).await, Reviewed::Bad);
    }
    assert_eq!(world.reviewer.status().remembered, MAX_REMEMBERED as u64 + 1);
    let before = world.asked();
    assert_eq!(world.review("good", source(1)).await, good());
    assert_eq!(world.asked(), before);
}

#[tokio::test(start_paused = true)]
async fn one_source_of_unknown_tokens_does_not_keep_the_others_waiting() {
    let world = World::new().await;
    let flood: Vec<_> = (0..100).map(|number| world.ask(&format!("hang {number}"), source(1))).collect();
    assert!(flood.iter().all(Option::is_some));
    settle().await;
    let few = world.asked();
    assert!(few < QUESTIONS, "{few}");
    assert_eq!(world.review("good", source(2)).await, good());
    for number in 0..100 {
        world.ask(&format!("hang too {number}"), source(3 + number));
    }
    settle().await;
    assert_eq!(world.at_once.load(Ordering::SeqCst), QUESTIONS);
}

#[tokio::test(start_paused = true)]
async fn a_source_of_bad_tokens_is_asked_about_seldom_and_its_good_token_still_is() {
    let world = World::new().await;
    assert_eq!(world.review("good", source(1)).await, good());
    let mut refused = 0;
    for number in 0..200 {
        let answer = world.review(&format!("made up {number}"), source(1)).await;
        refused += usize::from(answer == Reviewed::Failed);
    }
    assert!(refused > 100, "{refused}");
    assert_eq!((world.asked(), world.reviewer.status().refused), (201 - refused, refused as u64));
    assert_eq!(world.review("made up", source(2)).await, Reviewed::Bad);
    // What was not asked about is asked about soon.
    advance(REMEMBER + Duration::from_secs(1)).await;
    for number in 0..40 {
        world.review(&format!("again {number}"), source(1)).await;
    }
    let before = world.asked();
    assert_eq!(world.review("good", source(1)).await, good());
    assert_eq!(world.asked(), before + 1);
}

#[tokio::test(start_paused = true)]
async fn only_so_many_wait_of_one_source_and_of_all() {
    let world = World::new().await;
    let of_one = (0..).take_while(|number| world.ask(&format!("hang {number}"), source(1)).is_some()).count();
    assert_eq!(of_one, MAX_PER_SOURCE);
    let others =
        (0..).take_while(|number| world.ask(&format!("hang {number}"), source(2 + number)).is_some());
    assert_eq!(others.count(), MAX_WAITING - MAX_PER_SOURCE);
    assert_eq!(world.reviewer.status().refused, 2);
    // Those without an address are one source.
    sleep(Duration::from_secs(7200)).await;
    assert!((0..MAX_PER_SOURCE).all(|number| world.ask(&format!("hang on {number}"), None).is_some()));
    assert!(world.ask("hang on", None).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_when_the_thread_dies_and_without_one_nobody_waits() {
    let world = World::new().await;
    let waits: Vec<_> =
        (0..20).map(|number| world.ask(&format!("hang {number}"), source(1)).unwrap()).collect();
    settle().await;
    world.task.abort();
    settle().await;
    assert!(waits.iter().all(|wait| wait.load(Ordering::SeqCst) == 1));
    assert!(world.ask("good", source(1)).is_none());
    let again = tokio::spawn(Arc::clone(&world.reviewer).run());
    settle().await;
    assert_eq!(world.review("good", source(1)).await, good());
    again.abort();
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_a_token_is_bad_and_not_asked_about() {
    let world = World::new().await;
    for token in [&b""[..], b"\xff\xfe", &[b'x'; MAX_TOKEN + 1]] {
        assert_eq!(world.reviewer.reviewed(token).as_deref(), Some(&Reviewed::Bad));
        assert!(!world.reviewer.review(token, source(1), Box::new(|| ())));
    }
    assert_eq!(world.asked(), 0);
}
