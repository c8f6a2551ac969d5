//! The API server is gone for a while, or does not answer.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use sandgate_tests::cluster::{Manager, api_request, new_sandbox};
use sandgate_tests::kubernetes::{Ask, Fault, Wire};
use sandgate_tests::{DEADLINE, Gateway, Reply, eventually};
use serde_json::json;

use super::{HOLLOW, Site, everywhere, hollow, id, serves};

/// A caller should hear soon that it has to come again: the manager asks for 15 s after a write that was not
/// answered.
const SOON: Duration = Duration::from_secs(40);

#[tokio::test]
async fn without_the_api_server_reads_go_on_and_changes_are_refused_soon_until_it_is_back() {
    let site = Site::start().await;
    site.template(HOLLOW, "hollow", 3).await;
    let mut manager = site.manager(&[]).await;
    let key = site.cluster.api_key("outage").await;
    let sandbox = manager.create(&key, HOLLOW, &hollow(&json!({ "who": "outage" }))).await;
    let path = format!("/sandboxes/{}", id(&sandbox));
    let body = new_sandbox(HOLLOW, &hollow(&json!({})));

    site.cluster.api().kill();
    let listed = manager.ask(&key, "GET", "/v2/sandboxes?metadata=who%3Doutage", None).await;
    assert_eq!((listed.status, &listed.json()[0]["sandboxID"]), (200, &sandbox["sandboxID"]));
    let found = manager.ask(&key, "GET", &path, None).await;
    assert_eq!((found.status, &found.json()["sandboxID"]), (200, &sandbox["sandboxID"]));
    for (method, path, body) in [
        ("POST", "/v2/sandboxes".to_owned(), Some(&body)),
        ("POST", format!("{path}/pause"), Some(&json!({}))),
        ("POST", format!("{path}/timeout"), Some(&json!({ "timeout": 60 }))),
        ("DELETE", path.clone(), None),
    ] {
        let begin = Instant::now();
        let reply = manager.ask(&key, method, &path, body).await;
        assert_eq!(reply.status, 503, "{method} {path}: {}", reply.text());
        assert!(begin.elapsed() < SOON, "{method} {path} was refused after {:?}", begin.elapsed());
        assert_eq!(reply.json()["code"], 503, "{}", reply.text());
    }
    manager.assert_alive();

    site.cluster.api().start_again().await;
    eventually("creates work again", 3 * DEADLINE, async || {
        let reply = manager.ask(&key, "POST", "/v2/sandboxes", Some(&body)).await;
        assert!([201, 503].contains(&reply.status), "{} {}", reply.status, reply.text());
        (reply.status == 201).then_some(())
    })
    .await;
    // What was refused has not happened.
    let found = manager.ask(&key, "GET", &path, None).await;
    assert_eq!((found.status, &found.json()["state"]), (200, &json!("running")), "{}", found.text());
    assert_eq!(manager.ask(&key, "DELETE", &path, None).await.status, 204);
    assert_eq!(manager.ask(&key, "GET", &path, None).await.status, 404);
    site.claimed_are(1).await;
}

/// How many creates are under way when the API server falls silent. Every second one has an
/// `Idempotency-Key`.
const CREATES: usize = 20;
/// How long a create may take then. The manager gives a request ten seconds, and asks for fifteen after a
/// write that was not answered: the claim is one such write, and the end of the marker another.
const BOUND: Duration = Duration::from_secs(60);

/// One of the creates: its answer, and how long it took.
async fn create(manager: &Manager, key: &str, number: usize) -> (Reply, Duration) {
    let body = new_sandbox(HOLLOW, &hollow(&json!({ "number": number.to_string() })));
    let mut request = api_request(key, "POST", "/v2/sandboxes", Some(&body));
    if is_keyed(number) {
        request = request.header("idempotency-key", format!("silence-{number}"));
    }
    let begin = Instant::now();
    let reply = manager.send(request).await.expect("an answer");
    (reply, begin.elapsed())
}

fn is_keyed(number: usize) -> bool {
    number.is_multiple_of(2)
}

/// Asks the gateway again and again, for ever.
async fn keep_serving(gateway: &Gateway, id: &str, port: u16, served: &mut usize) {
    let mut pace = tokio::time::interval(Duration::from_millis(100));
    loop {
        pace.tick().await;
        assert!(serves(gateway, id, port).await, "not served after {served} requests");
        *served += 1;
    }
}

/// Of the writes the first ten are answered, four are done and not answered, and the others reach nobody.
/// Their connections stay, so nobody is told that anything is wrong. Nothing is heard of a watch, nothing is
/// read.
#[tokio::test]
async fn creates_that_a_silent_api_server_leaves_end_soon_and_those_that_come_again_get_one_sandbox_each() {
    let site = Site::start().await;
    site.template(HOLLOW, "hollow", 24).await;
    let answers = everywhere().await;
    let wire = Wire::to(site.cluster.api()).await;
    let kubeconfig = wire.kubeconfig(wire.admin_token());
    let gateway = site.gateway(&kubeconfig).await;
    let mut manager = site.manager_by(&kubeconfig, &[&gateway]).await;
    let key = site.cluster.api_key("silence").await;
    let before = manager.create(&key, HOLLOW, &hollow(&json!({ "who": "before" }))).await;
    let before = id(&before).to_owned();
    assert!(serves(&gateway, &before, answers.port()).await);

    for ask in [Ask::List, Ask::StreamingList, Ask::Watch, Ask::Other] {
        wire.always(ask, Fault::Silence);
        wire.always(ask, Fault::Stall);
    }
    wire.once_after(10, Ask::Write, Fault::LoseAnswer);
    (0..3).for_each(|_| wire.once(Ask::Write, Fault::LoseAnswer));
    wire.always(Ask::Write, Fault::Silence);
    let reads = async {
        let found = manager.ask(&key, "GET", &format!("/sandboxes/{before}"), None).await;
        assert_eq!((found.status, &found.json()["state"]), (200, &json!("running")), "{}", found.text());
    };
    let mut served = 0;
    let (first, ()) = tokio::select! {
        ended = async {
            tokio::join!(join_all((0..CREATES).map(|number| create(&manager, &key, number))), reads)
        } => ended,
        () = keep_serving(&gateway, &before, answers.port(), &mut served) => unreachable!("it goes on for ever"),
    };
    for (number, (reply, took)) in first.iter().enumerate() {
        assert!([201, 503].contains(&reply.status), "create {number}: {} {}", reply.status, reply.text());
        assert!(*took < BOUND, "create {number} ended after {took:?} with {}", reply.status);
    }
    let done = first.iter().filter(|(reply, _)| reply.status == 201).count();
    assert!((1..CREATES).contains(&done), "{done} creates were done before the silence");
    assert!(served > 50, "the gateway was asked {served} times");
    manager.assert_alive();

    wire.clear();
    let again = (0..CREATES).filter(|number| is_keyed(*number)).map(async |number| {
        let (reply, _) = create(&manager, &key, number).await;
        assert_eq!(reply.status, 201, "create {number} again: {}", reply.text());
        (number, id(&reply.json()).to_owned())
    });
    let again = join_all(again).await;
    for (number, id) in &again {
        let (reply, _) = &first[*number];
        assert!(reply.status == 503 || reply.json()["sandboxID"] == **id, "create {number} has two");
    }
    // What nobody was told of is taken back.
    let told = first.iter().map(|(reply, _)| reply).filter(|reply| reply.status == 201);
    let told = told.map(|reply| id(&reply.json()).to_owned()).chain(again.into_iter().map(|(_, id)| id));
    let told: BTreeSet<String> = told.chain([before]).collect();
    let claimed = site.claimed_are(told.len()).await;
    assert_eq!(claimed.iter().map(|object| id(object).to_owned()).collect::<BTreeSet<_>>(), told);
    for id in &told {
        eventually("the gateway serves it", 3 * DEADLINE, async || {
            serves(&gateway, id, answers.port()).await.then_some(())
        })
        .await;
    }
}
