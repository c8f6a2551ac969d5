//! Start, run and stop against a scripted API server.

use std::time::Duration;

use sandgate_follow::testing::{Answer, Server, Step, complete, eventually, timing};
use sandgate_objects::openkruise::resources::SandboxFacts;
use serde_json::json;

use crate::testing::{FailingStart, claimed};
use crate::{Cache, CacheBuilder, Kind, RunError, StartError, WaitError};

pub(super) fn builder(server: &Server) -> CacheBuilder {
    let bounds = (Duration::from_secs(20), Duration::from_millis(200));
    Cache::builder().access(server.access()).timing(timing()).start_within(bounds.0, bounds.1)
}

const PLURALS: [&str; 5] =
    ["/sandboxes?", "/sandboxsets?", "/checkpoints?", "/sandboxtemplates?", "/persistentvolumeclaims?"];

/// A streamed list of these lines, which stays open.
fn list(lines: &[String]) -> Answer {
    let mut all = lines.to_vec();
    all.push(complete(50));
    Answer::lines(&all).then(Step::Hold)
}

pub(super) fn sandbox(version: u64) -> serde_json::Value {
    let mut object = claimed("s", "ada", "i");
    object["metadata"]["namespace"] = "n".into();
    object["metadata"]["uid"] = "u".into();
    object["metadata"]["resourceVersion"] = version.to_string().into();
    object
}

pub(super) fn all_but(server: &Server, without: &str) {
    for plural in PLURALS.iter().filter(|plural| !plural.contains(without)) {
        let added = json!({"type": "ADDED", "object": sandbox(10)}).to_string();
        let lines = if *plural == "/sandboxes?" { vec![added] } else { Vec::new() };
        server.on(words(plural), list(&lines));
    }
}

/// The words that a request of a list has.
pub(super) fn words(plural: &'static str) -> &'static [&'static str] {
    match plural {
        "/sandboxes?" => &["/sandboxes?", "sendInitialEvents"],
        "/sandboxsets?" => &["/sandboxsets?", "sendInitialEvents"],
        "/checkpoints?" => &["/checkpoints?", "sendInitialEvents"],
        "/sandboxtemplates?" => &["/sandboxtemplates?", "sendInitialEvents"],
        _ => &["/persistentvolumeclaims?", "sendInitialEvents"],
    }
}

#[tokio::test]
async fn a_start_returns_when_every_kind_is_listed_and_a_stop_when_everything_has_ended() {
    let server = Server::start();
    all_but(&server, "nothing");
    let cache = builder(&server).build().unwrap();
    assert!(!cache.synced() && cache.followed().is_empty());
    let running = cache.start().await.unwrap();
    assert!(cache.synced());
    assert_eq!(cache.healthy(), Ok(()));
    assert_eq!(&*cache.claimed(None, "i").unwrap().key.name, "s");
    assert_eq!(cache.followed().len(), 5);
    assert_eq!(cache.start().await.err(), Some(StartError::Running));
    let seen = cache.claimed(None, "i").unwrap();
    let waiting =
        cache.wait::<SandboxFacts>(&seen.key, &seen.uid, crate::Action::Ready, |_| crate::Check::Not);
    let waiting = tokio::spawn(waiting.within(Duration::from_secs(60)));
    eventually("the wait", || (cache.waiting::<SandboxFacts>() == 1).then_some(())).await;
    let (again, other) = (cache.clone(), cache.clone());
    tokio::join!(running.stop(), again.stop(), other.stop());
    running.stop().await;
    assert_eq!(running.ended().await, RunError::Stopped);
    assert_eq!(waiting.await.unwrap().unwrap_err(), WaitError::Cancelled);
    assert!(cache.healthy().is_err());
    assert!(cache.claimed(None, "i").is_ok(), "what is cached can still be read");
    server.release();
}

#[tokio::test]
async fn a_stopped_cache_can_be_started_again_and_lists_anew() {
    let server = Server::start();
    all_but(&server, "nothing");
    let cache = builder(&server).build().unwrap();
    cache.start().await.unwrap().stop().await;
    all_but(&server, "nothing");
    let running = cache.start().await.unwrap();
    assert_eq!(cache.healthy(), Ok(()));
    running.stop().await;
    server.release();
}

#[tokio::test]
async fn a_kind_that_the_api_server_does_not_know_is_named_and_nothing_stays_behind() {
    let server = Server::start();
    all_but(&server, "/checkpoints?");
    for _ in 0..200 {
        server.on(&["/checkpoints?"], Answer::refusal(404, "no such resource"));
    }
    let cache = builder(&server).build().unwrap();
    let error = cache.start().await.err().unwrap();
    assert_eq!(error, StartError::Absent(vec!["checkpoints.agents.kruise.io".to_owned()]));
    assert!(cache.followed().is_empty());
    server.release();
}

#[tokio::test]
async fn what_is_not_listed_in_time_is_named_with_what_it_waits_for() {
    let server = Server::start();
    all_but(&server, "/sandboxsets?");
    let bounds = Duration::from_millis(500);
    let cache = builder(&server).start_within(bounds, bounds).build().unwrap();
    let error = cache.start().await.err().unwrap();
    let StartError::NotListed(missing) = &error else { panic!("{error}") };
    // A slow machine may not have come to the others.
    assert!(missing.iter().any(|it| it.starts_with("sandboxsets.agents.kruise.io: ")), "{error}");
    assert!(cache.followed().is_empty() && !cache.synced());
    server.release();
}

#[tokio::test]
async fn a_start_that_fails_at_any_part_returns_the_error_and_can_be_tried_again() {
    let server = Server::start();
    for (number, kind) in
        [Kind::Sandbox, Kind::SandboxSet, Kind::Checkpoint, Kind::SandboxTemplate, Kind::Pvc]
            .into_iter()
            .enumerate()
    {
        let failing = FailingStart::at(number + 1);
        let cache = builder(&server).failing_start(&failing).build().unwrap();
        let error = cache.start().await.err().unwrap();
        let StartError::Part { what, why } = &error else { panic!("{error}") };
        assert!(what.contains(kind.as_str()), "{what}");
        assert_eq!(why, "as asked");
        assert!(cache.followed().is_empty());
    }
    let failing = FailingStart::at(1);
    let cache = builder(&server).failing_start(&failing).build().unwrap();
    assert!(cache.start().await.is_err());
    all_but(&server, "nothing");
    assert!(cache.start().await.is_ok(), "it fails once");
    server.release();
}

#[tokio::test]
async fn a_stop_ends_a_start_that_has_not_come_far() {
    let server = Server::start();
    let cache = builder(&server).build().unwrap();
    let starting = tokio::spawn({
        let cache = cache.clone();
        async move { cache.start().await.err() }
    });
    eventually("the start", || (!cache.followed().is_empty()).then_some(())).await;
    cache.stop().await;
    assert_eq!(starting.await.unwrap(), Some(StartError::Stopped));
    server.release();
}

#[tokio::test]
async fn a_cache_without_an_api_server_is_not_started() {
    let cache = Cache::builder().build().unwrap();
    assert_eq!(cache.start().await.err(), Some(StartError::NoApi));
    cache.stop().await;
}

#[tokio::test]
async fn a_watch_that_fails_shows_in_the_health_until_it_is_back() {
    let server = Server::start();
    all_but(&server, "/sandboxes?");
    server.on(words("/sandboxes?"), Answer::lines(&[complete(50)]).then(Step::Hold).then(Step::Cut));
    let cache = builder(&server).build().unwrap();
    let running = cache.start().await.unwrap();
    assert_eq!(cache.healthy(), Ok(()));
    eventually("every watch", || cache.healthy_for(Duration::ZERO).then_some(())).await;
    assert!(!cache.healthy_for(Duration::from_secs(3600)));
    let since = || cache.followed().iter().filter_map(|it| it.status.load().watching_since).max();
    let began = since();
    server.release();
    let problems = eventually("the failure", || cache.healthy().err()).await;
    assert!(problems.iter().any(|problem| problem.starts_with("sandboxes.agents.kruise.io")), "{problems:?}");
    assert!(cache.synced() && !cache.healthy_for(Duration::ZERO), "what was listed stays");
    for _ in 0..3 {
        all_but(&server, "nothing");
    }
    for _ in 0..200 {
        server.on(&["watch=true"], Answer::lines(&[]).then(Step::Hold));
        server.on(&["limit="], Answer::body(sandgate_follow::testing::page(60, &[], "")));
    }
    eventually("the recovery", || cache.healthy_for(Duration::ZERO).then_some(())).await;
    assert!(since() > began, "what happened meanwhile may be on its way");
    running.stop().await;
    server.release();
}
