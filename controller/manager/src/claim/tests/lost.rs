//! Answers that get lost, servers that have no time, callers that go.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::world::{Fate, World, from_stock, name, run, wanted};
use crate::ErrorKind;

#[test]
fn a_claim_without_an_answer_is_settled_and_not_made_twice() {
    for first in [Fate::Lost, Fate::Unanswered] {
        run(async {
            let mut world = World::with(1, 3);
            let create = world.create(0, wanted());
            let mut calls = 0;
            let given = world.end_with(create, |_| {
                calls += 1;
                if calls == 1 { first } else { Fate::Done }
            });
            let given = name(&given.await);
            assert_eq!(world.claimed(), [given], "{first:?}");
            assert_eq!(world.sandboxes(), 3, "nobody made one");
        });
    }
}

#[test]
fn a_claim_that_somebody_else_won_while_its_answer_was_lost_takes_another() {
    run(async {
        let mut world = World::with(1, 2);
        let create = world.create(0, from_stock());
        world.round(|_| Fate::Held).await;
        let place = world.under_way()[0].operation.target().unwrap();
        world.take(&place.name);
        world.round(|_| Fate::Lost).await;
        let given = world.end(create).await;
        assert_ne!(name(&given), place.name);
        assert_eq!(world.claimed().len(), 2);
    });
}

#[test]
fn a_conflict_that_is_about_something_else_costs_the_claim_no_sandbox() {
    run(async {
        let mut world = World::with(1, 1);
        let create = world.create(0, from_stock());
        let mut calls = 0;
        let given = world.end_with(create, |_| {
            calls += 1;
            if calls == 1 { Fate::Refused(409) } else { Fate::Done }
        });
        let given = name(&given.await);
        assert_eq!((world.claimed(), calls), (vec![given], 2));
    });
}

#[test]
fn a_make_without_an_answer_makes_one() {
    for lost in 1..=4 {
        for fate in [Fate::Lost, Fate::Unanswered] {
            run(async {
                let mut world = World::with(1, 0);
                let create = world.create(0, wanted());
                let mut calls = 0;
                let given = world.end_with(create, |_| {
                    calls += 1;
                    if calls == lost { fate } else { Fate::Done }
                });
                let given = name(&given.await);
                assert_eq!((world.claimed(), world.sandboxes()), (vec![given], 1), "{fate:?} at {lost}");
            });
        }
    }
}

#[test]
fn a_server_that_has_no_time_is_asked_again() {
    run(async {
        let mut world = World::with(1, 1);
        let create = world.create(0, wanted());
        let mut calls = 0;
        let given = world.end_with(create, |_| {
            calls += 1;
            if calls <= 3 { Fate::Refused(429) } else { Fate::Done }
        });
        given.await.expect("a sandbox");
        assert_eq!(world.sandboxes(), 1);
    });
}

#[test]
fn a_server_that_is_gone_is_told_as_unknown_and_what_was_done_is_taken_back_later() {
    run(async {
        let mut world = World::with(1, 2);
        let create = world.create(0, wanted());
        let mut calls = 0;
        let error = world.end_with(create, |_| {
            calls += 1;
            if calls == 1 { Fate::Unanswered } else { Fate::Lost }
        });
        assert_eq!(error.await.unwrap_err().kind, ErrorKind::Unknown);
        assert_eq!(world.claimed().len(), 1);
        world.half_a_minute(|_| Fate::Done).await;
        assert_eq!((world.claimed().len(), world.sandboxes()), (0, 1));
        assert_eq!(world.replicas[0].steps.count("release"), 1);
    });
}

#[test]
fn what_is_taken_back_may_conflict_with_itself() {
    run(async {
        let mut world = World::with(1, 2);
        let create = world.create(0, wanted());
        let began = tokio::time::Instant::now();
        let (mut calls, mut late) = (0, 0);
        // The server answers again from the first request on with which the claim is taken back.
        let error = world.end_with(create, |_| {
            calls += 1;
            late += usize::from(began.elapsed() > Duration::from_secs(15));
            match (calls, late) {
                (1, _) => Fate::Unanswered,
                (_, 0..=2) => Fate::Lost,
                _ => Fate::Done,
            }
        });
        assert_eq!(error.await.unwrap_err().kind, ErrorKind::Unknown);
        world.half_a_minute(|_| Fate::Done).await;
        assert_eq!((world.claimed().len(), world.sandboxes()), (0, 1));
    });
}

#[test]
fn a_make_that_the_server_never_answers_is_unavailable_and_ends_by_itself() {
    run(async {
        let mut world = World::with(1, 0);
        world.controls = false;
        let create = world.create(0, wanted());
        let mut calls = 0;
        let error = world.end_with(create, |_| {
            calls += 1;
            if calls == 1 { Fate::Unanswered } else { Fate::Lost }
        });
        assert_eq!(error.await.unwrap_err().kind, ErrorKind::Unavailable, "nothing lasts of it");
        assert_eq!(world.claimed().len(), 0);
        world.half_a_minute(|_| Fate::Done).await;
        assert_eq!(world.sandboxes(), 0);
    });
}

#[test]
fn a_caller_that_goes_leaves_nothing() {
    for (stock, starts) in [(0, true), (0, false), (2, true)] {
        for step in 0..12 {
            run(async {
                let mut world = World::with(1, stock);
                world.controls = starts;
                let create = world.create(0, wanted());
                world.rounds(step).await;
                let is_done = create.is_finished();
                create.abort();
                world.rounds(200).await;
                let case = format!("stock {stock}, starts {starts}, gone after {step} rounds");
                assert_eq!(world.claimed().len(), usize::from(is_done), "{case}");
                // One that was taken out of the pool is deleted, and so is one that was made.
                let expected = match (is_done, step) {
                    (true, _) => stock.max(1),
                    (false, 0) => stock,
                    (false, _) => stock.saturating_sub(1),
                };
                assert_eq!(world.sandboxes(), expected, "{case}");
            });
        }
    }
}

#[test]
fn a_create_that_panics_is_told_as_unknown() {
    run(async {
        let mut world = World::with(1, 2);
        world.replicas[0].steps.init_panics.store(true, Ordering::Relaxed);
        let create = world.create(0, wanted());
        assert_eq!(world.end(create).await.unwrap_err().kind, ErrorKind::Unknown);
        assert_eq!(world.claimed().len(), 1, "nobody has taken it back");
        world.replicas[0].steps.init_panics.store(false, Ordering::Relaxed);
        let create = world.create(0, wanted());
        world.end(create).await.expect("the manager goes on");
    });
}

#[test]
fn a_caller_that_goes_while_the_runtime_is_initialised_leaves_nothing() {
    run(async {
        let mut world = World::with(1, 2);
        world.replicas[0].steps.init_hangs.store(true, Ordering::Relaxed);
        let create = world.create(0, wanted());
        world.rounds(10).await;
        assert_eq!(world.claimed().len(), 1);
        create.abort();
        world.rounds(10).await;
        assert_eq!((world.claimed().len(), world.sandboxes()), (0, 1));
        assert_eq!(world.replicas[0].steps.count("release"), 1);
        assert_eq!(world.replicas[0].steps.count("withdraw"), 1);
    });
}

#[test]
fn a_delete_that_is_not_answered_is_tried_until_it_is_known() {
    run(async {
        let mut world = World::with(1, 2);
        world.replicas[0].steps.init_fails.store(true, Ordering::Relaxed);
        let create = world.create(0, wanted());
        let mut deletes = 0;
        let error = world.end_with(create, |call| {
            let is_delete = call.operation.to_string().starts_with("delete");
            deletes += usize::from(is_delete);
            if is_delete && deletes < 8 { Fate::Lost } else { Fate::Done }
        });
        assert_eq!(error.await.unwrap_err().kind, ErrorKind::Timeout);
        let fate = |call: &sandgate_sim::network::UnderWay| {
            let is_delete = call.operation.to_string().starts_with("delete");
            deletes += usize::from(is_delete);
            if is_delete && deletes < 8 { Fate::Lost } else { Fate::Done }
        };
        world.half_a_minute(fate).await;
        assert_eq!((world.claimed().len(), world.sandboxes()), (0, 1));
    });
}

#[test]
fn a_drained_manager_ends_what_it_began_and_takes_nothing_new() {
    run(async {
        let mut world = World::with(1, 2);
        let create = world.create(0, wanted());
        world.round(|_| Fate::Held).await;
        let claims = world.replicas[0].claims.clone().unwrap();
        let drained = tokio::spawn(async move { claims.drain().await });
        world.round(|_| Fate::Held).await;
        let refused = world.create(0, wanted());
        assert_eq!(world.end_with(refused, |_| Fate::Held).await.unwrap_err().kind, ErrorKind::Unavailable);
        assert!(!drained.is_finished());
        world.end(create).await.expect("it was begun");
        tokio::time::timeout(Duration::from_secs(1), drained).await.unwrap().unwrap();
    });
}
