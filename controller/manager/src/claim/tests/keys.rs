//! `Idempotency-Key`: the same words, the same sandbox.

use std::sync::atomic::Ordering;
use std::time::Duration;

use sandgate_sim::network::{Operation, UnderWay};

use super::world::{Fate, World, keyed, name, run};
use crate::{ErrorKind, NewSandbox};

#[test]
fn a_retry_gets_the_same_sandbox_from_any_replica() {
    run(async {
        let mut world = World::with(2, 3);
        let create = world.create(0, keyed("k"));
        let first = name(&world.end(create).await);
        for replica in [0, 1] {
            let create = world.create(replica, keyed("k"));
            assert_eq!(name(&world.end(create).await), first);
        }
        assert_eq!(world.claimed(), [first]);
        assert_eq!(world.markers(), ["done"]);
        let create = world.create(0, keyed("another"));
        world.end(create).await.expect("another sandbox");
        assert_eq!(world.claimed().len(), 2);
    });
}

#[test]
fn requests_at_the_same_time_get_the_same_sandbox() {
    run(async {
        let mut world = World::with(2, 3);
        let creates: Vec<_> = (0..4).map(|number| world.create(number % 2, keyed("k"))).collect();
        let mut given = Vec::new();
        for create in creates {
            given.push(name(&world.end(create).await));
        }
        given.dedup();
        assert_eq!(given.len(), 1);
        world.rounds(100).await;
        assert_eq!(world.claimed(), given);
    });
}

#[test]
fn another_request_with_the_key_is_refused() {
    run(async {
        let mut world = World::with(2, 3);
        let create = world.create(0, keyed("k"));
        world.end(create).await.unwrap();
        let other = NewSandbox { timeout: Some(Duration::from_secs(301)), ..keyed("k") };
        let create = world.create(1, other);
        assert_eq!(world.end(create).await.unwrap_err().kind, ErrorKind::Conflict);
        assert_eq!(world.claimed().len(), 1);
    });
}

#[test]
fn a_sandbox_that_has_ended_is_not_made_again() {
    run(async {
        let mut world = World::with(1, 3);
        let create = world.create(0, keyed("k"));
        let first = name(&world.end(create).await);
        world.delete(&first);
        let create = world.create(0, keyed("k"));
        assert_eq!(world.end(create).await.unwrap_err().kind, ErrorKind::Conflict);
        assert_eq!(world.claimed().len(), 0);
    });
}

#[test]
fn a_request_that_failed_may_be_sent_again() {
    run(async {
        let mut world = World::with(2, 3);
        world.replicas[0].steps.init_fails.store(true, Ordering::Relaxed);
        let create = world.create(0, keyed("k"));
        assert_eq!(world.end(create).await.unwrap_err().kind, ErrorKind::Timeout);
        world.rounds(20).await;
        assert_eq!((world.claimed().len(), world.markers()), (0, vec!["failed".to_owned()]));
        let create = world.create(1, keyed("k"));
        let given = name(&world.end(create).await);
        assert_eq!(world.claimed(), [given]);
        assert_eq!(world.markers(), ["done"]);
    });
}

#[test]
fn a_caller_that_goes_may_come_back_for_its_sandbox() {
    for step in 0..8 {
        run(async {
            let mut world = World::with(2, 3);
            let create = world.create(0, keyed("k"));
            world.rounds(step).await;
            create.abort();
            let create = world.create(1, keyed("k"));
            let given = name(&world.end(create).await);
            world.rounds(100).await;
            assert_eq!(world.claimed(), [given], "gone after {step} rounds");
        });
    }
}

#[test]
fn a_retry_waits_for_whoever_works_on_it() {
    run(async {
        let mut world = World::with(2, 3);
        world.replicas[0].steps.init_hangs.store(true, Ordering::Relaxed);
        let first = world.create(0, keyed("k"));
        world.rounds(10).await;
        let second = world.create(1, keyed("k"));
        world.half_a_minute(|_| Fate::Done).await;
        assert!(!second.is_finished(), "whoever works on it lives");
        assert_eq!(world.claimed().len(), 1, "it has claimed nothing itself");
        world.crash(0);
        first.abort();
        // It is taken for dead, and what it has claimed is adopted.
        let began = tokio::time::Instant::now();
        let given = name(&world.end(second).await);
        assert!(began.elapsed() < world.settings.lease * 2, "{:?}", began.elapsed());
        assert_eq!(world.claimed(), [given]);
    });
}

#[test]
fn a_slow_creator_that_was_taken_over_answers_with_the_winners_sandbox() {
    run(async {
        let mut world = World::with(2, 50);
        let first = world.create(0, keyed("k"));
        world.rounds(1).await;
        // Its claim is on its way for long.
        let of_first = |call: &UnderWay| {
            if call.caller == 1 { Fate::Held } else { Fate::Done }
        };
        for _ in 0..3 {
            world.round(of_first).await;
        }
        let second = world.create(1, keyed("k"));
        let began = tokio::time::Instant::now();
        let given = world.end_with(second, |call| {
            if began.elapsed() < Duration::from_secs(12) { of_first(call) } else { Fate::Done }
        });
        let given = name(&given.await);
        assert!(!first.is_finished());
        world.rounds(1).await;
        assert_eq!(world.claimed().len(), 2, "the late write has come");
        let other = name(&world.end(first).await);
        world.rounds(200).await;
        assert_eq!(given, other);
        assert_eq!(world.claimed(), [given]);
    });
}

#[test]
fn lost_answers_change_nothing() {
    for lost in 1..=8 {
        for fate in [Fate::Lost, Fate::Unanswered] {
            run(async {
                let mut world = World::with(2, 3);
                let create = world.create(0, keyed("k"));
                let mut calls = 0;
                let given = world.end_with(create, |_| {
                    calls += 1;
                    if calls == lost { fate } else { Fate::Done }
                });
                let given = name(&given.await);
                let create = world.create(1, keyed("k"));
                assert_eq!(name(&world.end(create).await), given, "{fate:?} at {lost}");
                assert_eq!(world.claimed(), [given], "{fate:?} at {lost}");
            });
        }
    }
}

#[test]
fn a_server_that_does_not_answer_is_told_soon_and_not_when_another_create_would_be_over() {
    run(async {
        let mut world = World::with(1, 3);
        let create = world.create(0, keyed("k"));
        let began = tokio::time::Instant::now();
        let error = world.end_with(create, |_| Fate::Lost).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unavailable, "nothing lasts of it");
        assert!(began.elapsed() < Duration::from_secs(30), "told after {:?}", began.elapsed());
        let create = world.create(0, keyed("k"));
        let given = name(&world.end(create).await);
        assert_eq!(world.claimed(), [given]);
    });
}

#[test]
fn a_retry_does_not_give_back_the_place_of_what_a_failed_create_has_left() {
    run(async {
        let mut world = World::with(2, 3);
        world.replicas[0].steps.init_fails.store(true, Ordering::Relaxed);
        let deletes = |call: &UnderWay| matches!(&*call.operation, Operation::Delete(..));
        let hold = |call: &UnderWay| if deletes(call) { Fate::Held } else { Fate::Done };
        let create = world.create(0, keyed("k"));
        world.until(|world| world.under_way().iter().any(deletes), hold).await;
        let retry = world.create(1, keyed("k"));
        let given = name(&world.end_with(retry, hold).await);
        assert_eq!(world.claimed().len(), 2, "the other one is not deleted yet");
        assert_eq!(world.replicas[1].steps.count("release"), 0);
        world.end(create).await.unwrap_err();
        world.rounds(5).await;
        assert_eq!(world.claimed(), [given]);
        assert_eq!(world.replicas[0].steps.count("release"), 1);
    });
}
