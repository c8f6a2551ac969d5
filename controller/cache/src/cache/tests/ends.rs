//! How a run ends, and what a start that fails leaves.

use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use sandgate_follow::testing::{Answer, Server, Step, complete, eventually};
use sandgate_objects::openkruise::resources::SandboxFacts;
use serde_json::json;
use tokio::task::JoinHandle;

use super::lives::{all_but, builder, sandbox, words};
use crate::testing::{FailingStart, TestCache};
use crate::{Action, Cache, Check, RunError, Seen, StartError, WaitError};

/// Far longer than it takes.
const LONG: Duration = Duration::from_secs(20);

type Ended = Result<Arc<Seen<SandboxFacts>>, WaitError>;

/// A wait for what never is.
async fn waiting(cache: &Cache) -> JoinHandle<Ended> {
    let seen = cache.claimed(None, "i").unwrap();
    let before = cache.waiting::<SandboxFacts>();
    let wait = cache.wait::<SandboxFacts>(&seen.key, &seen.uid, Action::Ready, |_| Check::Not);
    let wait = tokio::spawn(wait.within(LONG));
    eventually("the wait", || (cache.waiting::<SandboxFacts>() == before + 1).then_some(())).await;
    wait
}

/// Panics when it is woken, and with it whoever brought what was waited for: the sink of a watch.
struct Bad;

impl Wake for Bad {
    fn wake(self: Arc<Self>) {
        panic!("as asked");
    }
}

#[tokio::test]
async fn a_watch_that_panics_is_the_end_of_the_run_and_is_named() {
    let server = Server::start();
    all_but(&server, "/sandboxes?");
    let event = |kind: &str, version| json!({"type": kind, "object": sandbox(version)}).to_string();
    let list = Answer::lines(&[event("ADDED", 10), complete(50)]).then(Step::Hold);
    let change = Step::Send(format!("{}\n", event("MODIFIED", 60)));
    server.on(words("/sandboxes?"), list.then(change).then(Step::Hold));
    let cache = builder(&server).build().unwrap();
    let running = cache.start().await.unwrap();
    let seen = cache.claimed(None, "i").unwrap();
    let other = waiting(&cache).await;
    let changed = |seen: &Seen<SandboxFacts>| Check::holds(seen.version.get() == 60);
    let mut bad = Box::pin(cache.wait(&seen.key, &seen.uid, Action::Ready, changed).within(LONG));
    let waker = Waker::from(Arc::new(Bad));
    assert!(bad.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    // The server may not have come to the held answer yet.
    let has_ended = || {
        server.release();
        cache.healthy().err().filter(|problems| problems[0].contains("panicked"))
    };
    let problems = eventually("the end", has_ended).await;
    let ended = running.ended().await;
    assert_eq!(ended, RunError::Ended("the watch of sandboxes.agents.kruise.io panicked".to_owned()));
    assert_eq!(problems, [ended.to_string()]);
    assert_eq!(other.await.unwrap().unwrap_err(), WaitError::Cancelled, "nobody would tell it anything");
    assert_eq!(running.ended().await, ended, "whoever asks");
    server.release();
}

#[tokio::test]
async fn a_run_that_is_dropped_ends_its_waits_and_stops_the_cache() {
    let server = Server::start();
    all_but(&server, "nothing");
    let cache = builder(&server).build().unwrap();
    let running = cache.start().await.unwrap();
    let wait = waiting(&cache).await;
    drop(running);
    assert_eq!(wait.await.unwrap().unwrap_err(), WaitError::Cancelled);
    let seen = cache.claimed(None, "i").unwrap();
    let after = cache.ready(&seen.key, "another").within(LONG).await;
    assert_eq!(after.unwrap_err(), WaitError::Cancelled, "it was stopped before");
    cache.stop().await;
    assert_eq!(cache.healthy(), Err(vec![RunError::Stopped.to_string()]));
    server.release();
}

#[tokio::test]
async fn a_start_that_fails_after_a_stop_leaves_a_cache_that_is_stopped_and_not_healthy() {
    let server = Server::start();
    all_but(&server, "nothing");
    let failing = FailingStart::at(6);
    let cache = builder(&server).failing_start(&failing).build().unwrap();
    cache.start().await.unwrap().stop().await;
    let error = cache.start().await.err().unwrap();
    assert!(matches!(error, StartError::Part { .. }), "{error}");
    assert!(cache.synced(), "it has what it had");
    assert_eq!(cache.healthy(), Err(vec![error.to_string()]));
    let seen = cache.claimed(None, "i").unwrap();
    let after = cache.ready(&seen.key, "another").within(LONG).await;
    assert_eq!(after.unwrap_err(), WaitError::Cancelled);
    all_but(&server, "nothing");
    let running = cache.start().await.unwrap();
    assert_eq!(cache.healthy(), Ok(()));
    running.stop().await;
    server.release();
}

#[tokio::test]
async fn a_start_that_is_dropped_is_over_and_can_be_tried_again() {
    let server = Server::start();
    let cache = builder(&server).build().unwrap();
    {
        let mut start = Box::pin(cache.start());
        let began = async { eventually("the start", || (!cache.followed().is_empty()).then_some(())).await };
        tokio::select! {
            biased;
            _ = &mut start => unreachable!(),
            () = began => {}
        }
        assert_eq!(cache.start().await.err(), Some(StartError::Running));
    }
    assert!(cache.healthy().is_err_and(|problems| problems[0].contains("dropped")));
    all_but(&server, "nothing");
    let running = cache.start().await.unwrap();
    assert_eq!(cache.healthy(), Ok(()));
    running.stop().await;
    server.release();
}

#[tokio::test]
async fn a_cache_that_is_fed_by_hand_can_be_made_to_fail_its_start_too() {
    let failing = FailingStart::at(3);
    let test = TestCache::built(Cache::builder().failing_start(&failing));
    test.listed_all();
    assert_eq!(test.healthy(), Ok(()), "it lives on somebody else's watch");
    let error = test.start().await.err().unwrap();
    assert!(matches!(&error, StartError::Part { what, .. } if what.contains("checkpoints")), "{error}");
    assert_eq!(test.healthy(), Err(vec![error.to_string()]));
    let running = test.start().await.unwrap();
    assert_eq!(test.healthy(), Ok(()));
    running.stop().await;
    assert!(test.healthy().is_err());
}
