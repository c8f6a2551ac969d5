//! Waits of one caller.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sandgate_follow::Sink as _;
use sandgate_objects::openkruise::resources::SandboxFacts;
use serde_json::{Value, json};
use tokio::task::yield_now;
use tokio_util::sync::CancellationToken;

use super::{LONG, labelled};
use crate::testing::{TestCache, key, running};
use crate::{Action, Check, ConfigMapFacts, Seen, WaitError};

const READY: Action = Action::Ready;

fn with_label(value: &str) -> Value {
    let mut sandbox = running("s");
    sandbox["metadata"]["labels"] = json!({"x": value});
    sandbox
}

#[tokio::test(start_paused = true)]
async fn what_is_so_already_needs_no_time_and_no_turn() {
    let test = TestCache::new();
    let seen = test.show::<SandboxFacts>(&with_label("yes"));
    let _other = test.turn(&seen, Action::Resume).unwrap();
    assert!(labelled(&test, &seen, READY, "x").within(Duration::ZERO).await.is_ok());
    assert!(labelled(&test, &seen, Action::Pause, "x").within(LONG).await.is_ok());
    let cancelled = CancellationToken::new();
    cancelled.cancel();
    assert!(labelled(&test, &seen, READY, "x").cancelled_by(cancelled).within(LONG).await.is_ok());
    test.show::<SandboxFacts>(&with_label("failed"));
    let failed = labelled(&test, &seen, READY, "x").within(LONG).await.unwrap_err();
    assert_eq!(failed, WaitError::Failed("x failed".to_owned()));
}

/// The object that a wait was made with may be old, also where another caller has the turn already.
#[tokio::test(start_paused = true)]
async fn a_wait_looks_at_the_object_as_it_is_when_it_begins() {
    let test = TestCache::new();
    let seen = test.show::<SandboxFacts>(&running("s"));
    let wait = || labelled(&test, &seen, Action::Pause, "x");
    let (first, second, third) = (wait(), wait(), wait());
    let _turn = test.turn(&seen, Action::Pause).unwrap();
    test.show::<SandboxFacts>(&with_label("yes"));
    assert!(first.within(Duration::ZERO).await.is_ok());
    assert!(second.within(LONG).await.is_ok());
    test.show::<SandboxFacts>(&with_label("failed"));
    assert_eq!(third.within(LONG).await.unwrap_err(), WaitError::Failed("x failed".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn without_time_the_answer_is_that_it_is_not_so() {
    let test = TestCache::new();
    let seen = test.show::<SandboxFacts>(&running("s"));
    let ended = labelled(&test, &seen, READY, "x").within(Duration::ZERO).await.unwrap_err();
    assert_eq!(ended, WaitError::NotSatisfied);
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_at_its_time_and_not_before_and_leaves_nothing_behind() {
    let test = TestCache::new();
    let seen = test.show::<SandboxFacts>(&running("s"));
    let began = tokio::time::Instant::now();
    let ended = labelled(&test, &seen, Action::Pause, "x").within(Duration::from_secs(7)).await.unwrap_err();
    assert_eq!((ended, began.elapsed().as_secs()), (WaitError::Timeout, 7));
    assert_eq!((test.waiting::<SandboxFacts>(), test.shared.turns.len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_change_ends_a_wait_with_the_version_that_decided() {
    for (value, expected) in [("yes", true), ("failed", false)] {
        let test = TestCache::new();
        let seen = test.show::<SandboxFacts>(&running("s"));
        let steps = async {
            yield_now().await;
            assert_eq!(test.waiting::<SandboxFacts>(), 1);
            test.show::<SandboxFacts>(&running("s"));
            test.show::<SandboxFacts>(&with_label(value));
            test.show::<SandboxFacts>(&running("s"));
        };
        let (ended, ()) = tokio::join!(labelled(&test, &seen, READY, "x").within(LONG), steps);
        assert_eq!(ended.is_ok(), expected, "the last change does not hide the one before");
        assert_eq!(test.waiting::<SandboxFacts>(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn the_answer_to_a_write_of_this_process_ends_a_wait_too() {
    let test = TestCache::new();
    let seen = test.show::<SandboxFacts>(&running("s"));
    let steps = async {
        yield_now().await;
        test.answer::<SandboxFacts>(&with_label("yes"));
    };
    let (ended, ()) = tokio::join!(labelled(&test, &seen, READY, "x").within(LONG), steps);
    assert!(ended.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_predicate_is_asked_once_about_each_version_and_about_no_other_object() {
    let test = TestCache::new();
    let seen = test.show::<SandboxFacts>(&running("s"));
    test.show::<SandboxFacts>(&running("other"));
    let asked = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&asked);
    let wait = test.wait(&seen.key, &seen.uid, READY, move |_: &Seen<SandboxFacts>| {
        count.fetch_add(1, Ordering::Relaxed);
        Check::Not
    });
    let steps = async {
        yield_now().await;
        test.show::<SandboxFacts>(&running("other"));
        test.show::<SandboxFacts>(&running("s"));
        let mut same = running("s");
        same["metadata"]["resourceVersion"] =
            test.get::<SandboxFacts>(&key("s")).unwrap().version.to_string().into();
        test.show::<SandboxFacts>(&same);
    };
    let (ended, ()) = tokio::join!(wait.within(Duration::from_secs(1)), steps);
    assert_eq!(ended.unwrap_err(), WaitError::Timeout);
    assert_eq!(asked.load(Ordering::Relaxed), 2);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_goes_or_is_replaced_under_its_name_ends_the_wait() {
    for replaced in [false, true] {
        let test = TestCache::new();
        let seen = test.show::<SandboxFacts>(&running("s"));
        let steps = async {
            yield_now().await;
            if replaced {
                let mut new = with_label("yes");
                new["metadata"]["uid"] = "another".into();
                test.show::<SandboxFacts>(&new);
            } else {
                test.end(&seen);
            }
        };
        let (ended, ()) = tokio::join!(labelled(&test, &seen, READY, "x").within(LONG), steps);
        assert_eq!(ended.unwrap_err(), WaitError::Gone);
        let after = labelled(&test, &seen, READY, "x").within(LONG).await.unwrap_err();
        assert_eq!(after, WaitError::Gone, "nobody to ask, and the list is complete");
    }
}

#[tokio::test(start_paused = true)]
async fn an_older_end_does_not_end_the_wait_for_a_newer_object_of_the_name() {
    let test = TestCache::new();
    let old = test.show::<SandboxFacts>(&running("s"));
    let mut new = running("s");
    new["metadata"]["uid"] = "another".into();
    let seen = test.show::<SandboxFacts>(&new);
    let steps = async {
        yield_now().await;
        test.end(&old);
        let mut done = with_label("yes");
        done["metadata"]["uid"] = "another".into();
        test.show::<SandboxFacts>(&done);
    };
    let (ended, ()) = tokio::join!(labelled(&test, &seen, READY, "x").within(LONG), steps);
    assert!(ended.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_relist_in_the_middle_shows_a_wait_what_no_event_did() {
    let test = TestCache::new();
    let seen = test.show::<SandboxFacts>(&running("s"));
    let gone = test.show::<SandboxFacts>(&running("gone"));
    let steps = async {
        yield_now().await;
        let mut feed = test.feed::<SandboxFacts>();
        feed.begin();
        feed.abandon();
        feed.begin();
        let mut object = with_label("yes");
        object["metadata"]["namespace"] = "default".into();
        object["metadata"]["uid"] = "uid-s".into();
        object["metadata"]["resourceVersion"] = test.next_version().to_string().into();
        let (_, object) = feed.decode(object.to_string().as_bytes()).unwrap();
        feed.apply(object).unwrap();
        feed.commit(&test.next_version());
    };
    let (ended, lost, ()) = tokio::join!(
        labelled(&test, &seen, READY, "x").within(LONG),
        labelled(&test, &gone, READY, "x").within(LONG),
        steps
    );
    assert!(ended.is_ok());
    assert_eq!(lost.unwrap_err(), WaitError::Gone);
}

#[tokio::test(start_paused = true)]
async fn a_wait_can_be_cancelled_by_its_caller_and_by_the_stop_of_the_cache() {
    let test = TestCache::new();
    let seen = test.show::<SandboxFacts>(&running("s"));
    let cancel = CancellationToken::new();
    let wait = || labelled(&test, &seen, READY, "x");
    let (ended, ()) =
        tokio::join!(wait().cancelled_by(cancel.clone()).within(LONG), async { cancel.cancel() });
    assert_eq!(ended.unwrap_err(), WaitError::Cancelled);
    assert_eq!(wait().cancelled_by(cancel).within(LONG).await.unwrap_err(), WaitError::Cancelled);
    let stop = async {
        yield_now().await;
        test.stop().await;
        test.stop().await;
    };
    let (ended, ()) = tokio::join!(wait().within(LONG), stop);
    assert_eq!(ended.unwrap_err(), WaitError::Cancelled);
    assert_eq!(wait().within(LONG).await.unwrap_err(), WaitError::Cancelled, "it was stopped before");
    assert!(test.get::<SandboxFacts>(&seen.key).is_some() && test.healthy().is_err());
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_is_dropped_lets_go_of_everything() {
    let test = TestCache::new();
    let seen = test.show::<SandboxFacts>(&running("s"));
    let mut wait = Box::pin(labelled(&test, &seen, Action::Pause, "x").within(LONG));
    assert!(
        std::future::poll_fn(|context| std::task::Poll::Ready(wait.as_mut().poll(context).is_pending()))
            .await
    );
    assert_eq!((test.waiting::<SandboxFacts>(), test.under_way(&seen.uid)), (1, Some((Action::Pause, 1))));
    drop(wait);
    assert_eq!((test.waiting::<SandboxFacts>(), test.under_way(&seen.uid)), (0, None));
}

#[tokio::test(start_paused = true)]
async fn a_predicate_that_panics_fails_its_own_wait_alone() {
    let test = TestCache::new();
    let seen = test.show::<SandboxFacts>(&running("s"));
    let bad = test.wait(&seen.key, &seen.uid, READY, |seen: &Seen<SandboxFacts>| {
        assert!(seen.labels.is_empty(), "as asked");
        Check::Not
    });
    let steps = async {
        yield_now().await;
        test.show::<SandboxFacts>(&with_label("yes"));
    };
    let (bad, good, ()) =
        tokio::join!(bad.within(LONG), labelled(&test, &seen, READY, "x").within(LONG), steps);
    assert!(matches!(bad, Err(WaitError::Failed(why)) if why.contains("panicked")));
    assert!(good.is_ok());
}

#[tokio::test(start_paused = true)]
async fn waits_work_for_every_kind() {
    let test = TestCache::new();
    let object = json!({"metadata": {"name": "m", "namespace": "system"}, "data": {"a": "b"}});
    let seen = test.show::<ConfigMapFacts>(&object);
    let wait = test
        .wait(&seen.key, &seen.uid, READY, |seen: &Seen<ConfigMapFacts>| Check::holds(seen.data.is_empty()));
    let steps = async {
        yield_now().await;
        test.show::<ConfigMapFacts>(&json!({"metadata": {"name": "m", "namespace": "system"}}));
    };
    let (ended, ()) = tokio::join!(wait.within(LONG), steps);
    assert!(ended.is_ok());
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_waits_cost_a_change_nothing_but_its_own() {
    const MANY: u64 = 10_000;
    let test = TestCache::new();
    let asked = Arc::new(AtomicU64::new(0));
    let mut waits = tokio::task::JoinSet::new();
    for number in 0..MANY {
        let seen = test.show::<SandboxFacts>(&running(&format!("s{number}")));
        let asked = Arc::clone(&asked);
        let wait = test.wait(&seen.key, &seen.uid, READY, move |seen: &Seen<SandboxFacts>| {
            asked.fetch_add(1, Ordering::Relaxed);
            Check::holds(!seen.labels.is_empty())
        });
        waits.spawn(wait.within(LONG));
    }
    while test.waiting::<SandboxFacts>() < 10_000 {
        yield_now().await;
    }
    assert_eq!(asked.load(Ordering::Relaxed), MANY, "each has looked once");
    for number in 0..MANY {
        let mut object = with_label("yes");
        object["metadata"]["name"] = format!("s{number}").into();
        test.show::<SandboxFacts>(&object);
    }
    assert_eq!(asked.load(Ordering::Relaxed), 2 * MANY, "and once at its own change");
    while let Some(ended) = waits.join_next().await {
        assert!(ended.unwrap().is_ok());
    }
    assert_eq!(test.waiting::<SandboxFacts>(), 0);
}
