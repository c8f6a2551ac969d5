//! Who gets which sandbox: several replicas, and those who wait.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;

use super::world::{Fate, World, from_stock, name, run, wanted};
use crate::ErrorKind;

#[test]
fn two_replicas_with_old_caches_never_give_one_sandbox_twice() {
    run(async {
        let mut world = World::with(2, 10);
        for replica in &mut world.replicas {
            replica.lags = true;
        }
        let creates: Vec<_> = (0..10).map(|number| world.create(number % 2, from_stock())).collect();
        let mut given = BTreeSet::new();
        for create in creates {
            given.insert(name(&world.end(create).await));
        }
        assert_eq!(given.len(), 10);
        assert_eq!(world.claimed().len(), 10);
        assert_eq!(world.sandboxes(), 10, "nobody made one");
    });
}

#[test]
fn replicas_begin_at_different_places_so_they_seldom_meet() {
    run(async {
        let mut world = World::with(2, 1000);
        for replica in &mut world.replicas {
            replica.lags = true;
        }
        let creates: Vec<_> = (0..40).map(|number| world.create(number % 2, from_stock())).collect();
        let mut writes = 0;
        for create in creates {
            let given = world.end_with(create, |_| {
                writes += 1;
                Fate::Done
            });
            given.await.unwrap();
        }
        assert!(writes <= 50, "{writes} writes for 40 sandboxes");
    });
}

#[test]
fn a_candidate_that_is_gone_or_changed_is_no_failure() {
    run(async {
        let mut world = World::with(1, 0);
        let names = world.stock("base", 4);
        world.show();
        world.replicas[0].lags = true;
        world.delete(&names[0]);
        world.delete(&names[1]);
        world.touch(&names[2]);
        let create = world.create(0, from_stock());
        assert_eq!(name(&world.end(create).await), names[3]);
        let create = world.create(0, from_stock());
        world.rounds(5).await;
        assert!(!create.is_finished(), "the one that was changed is not tried as it was");
        world.replicas[0].lags = false;
        assert_eq!(name(&world.end(create).await), names[2], "it is taken as it is now");
    });
}

#[test]
fn a_sandbox_that_comes_into_the_pool_is_given_at_once() {
    run(async {
        let mut world = World::with(1, 0);
        let create = world.create(0, from_stock());
        world.rounds(200).await;
        assert!(!create.is_finished());
        world.stock("base", 1);
        let came = Instant::now();
        world.end(create).await.expect("a sandbox");
        assert!(came.elapsed() < Duration::from_millis(10), "{:?}", came.elapsed());
        assert_eq!(world.sandboxes(), 1);
    });
}

#[test]
fn who_came_first_is_served_first() {
    run(async {
        let mut world = World::with(1, 0);
        let mut creates = Vec::new();
        for _ in 0..5 {
            creates.push(world.create(0, from_stock()));
            world.rounds(1).await;
        }
        for served in 0..5 {
            world.stock("base", 1);
            world.rounds(10).await;
            let finished: Vec<_> = creates.iter().map(|create| create.is_finished()).collect();
            let expected: Vec<_> = (0..5).map(|number| number <= served).collect();
            assert_eq!(finished, expected);
        }
    });
}

#[test]
fn several_that_come_at_once_serve_several() {
    run(async {
        let mut world = World::with(1, 0);
        let creates: Vec<_> = (0..5).map(|_| world.create(0, from_stock())).collect();
        world.rounds(3).await;
        world.stock("base", 5);
        world.rounds(10).await;
        assert!(creates.iter().all(|create| create.is_finished()));
    });
}

#[test]
fn who_may_make_one_does_not_take_what_others_wait_for() {
    run(async {
        let mut world = World::with(1, 0);
        world.replicas[0].lags = true;
        let waits = world.create(0, from_stock());
        world.rounds(3).await;
        let names = world.stock("base", 1);
        world.replicas[0].lags = false;
        world.show();
        let makes = world.create(0, wanted());
        let made = name(&world.end(makes).await);
        assert!(!names.contains(&made), "{made} was another's turn");
        assert_eq!(name(&world.end(waits).await), names[0]);
    });
}

#[test]
fn who_lost_a_sandbox_to_another_replica_keeps_its_place() {
    run(async {
        let mut world = World::with(1, 0);
        let first = world.create(0, from_stock());
        world.rounds(2).await;
        let second = world.create(0, from_stock());
        world.rounds(2).await;
        let names = world.stock("base", 1);
        // The first has picked it; before its write arrives somebody else has changed the sandbox.
        world.round(|_| Fate::Held).await;
        world.round(|_| Fate::Held).await;
        world.touch(&names[0]);
        world.replicas[0].lags = true;
        world.rounds(3).await;
        assert!(!first.is_finished() && !second.is_finished());
        world.replicas[0].lags = false;
        assert_eq!(name(&world.end(first).await), names[0]);
        assert!(!second.is_finished());
    });
}

#[test]
fn a_pool_that_stays_empty_is_told_after_the_timeout() {
    run(async {
        let mut world = World::with(1, 0);
        let mut wanted = from_stock();
        wanted.extensions.claim_timeout = Some(Duration::from_secs(5));
        let began = Instant::now();
        let create = world.create(0, wanted);
        let error = world.end(create).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unavailable);
        assert!(error.retry_after.is_some());
        assert!((5..6).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
        assert_eq!(world.replicas[0].steps.count("release"), 1);
    });
}

#[test]
fn whoever_gives_up_lets_the_next_one_have_it() {
    run(async {
        let mut world = World::with(1, 0);
        let first = world.create(0, from_stock());
        world.rounds(2).await;
        let second = world.create(0, from_stock());
        world.rounds(2).await;
        first.abort();
        world.rounds(2).await;
        world.stock("base", 1);
        world.end(second).await.expect("a sandbox");
    });
}
