//! `Idempotency-Key`: the same words, the same sandbox.

use std::time::Duration;

use sandgate_sim::model::{CONFIG_MAPS, PODS};
use sandgate_sim::network::{Operation, UnderWay};
use tokio::time::Instant;

use super::world::{of_shop, on, phases, shop};
use crate::manager::tests::world::{Fate, World, kind, run, somebody};
use crate::{Described, Error, ErrorKind, NewSandbox};

/// Whether a request is the patch of a marker.
fn is_marked(call: &UnderWay) -> bool {
    matches!(&*call.operation, Operation::Patch(place, ..) if *place.kind == CONFIG_MAPS)
}

fn keyed() -> NewSandbox {
    NewSandbox { idempotency_key: Some("k".to_owned()), ..of_shop() }
}

fn spawn(world: &World, replica: usize) -> tokio::task::JoinHandle<Result<Described, Error>> {
    let manager = world.manager(replica);
    tokio::spawn(async move { manager.create(&somebody(), keyed()).await })
}

fn running(world: &World) -> usize {
    phases(world).iter().filter(|phase| *phase == "running").count()
}

#[test]
fn a_retry_gets_the_same_sandbox_from_any_replica() {
    run(async {
        let mut world = shop(2, &[("a", 3, 0)]);
        let first = on!(world, 0, |manager| manager.create(&somebody(), keyed())).unwrap();
        for replica in [0, 1] {
            let again = on!(world, replica, |manager| manager.create(&somebody(), keyed())).unwrap();
            assert_eq!(again.id, first.id);
        }
        assert_eq!(running(&world), 1);
        let other = NewSandbox { timeout: None, ..keyed() };
        let refused = on!(world, 1, |manager| manager.create(&somebody(), other));
        assert_eq!(kind(refused), ErrorKind::Conflict);
    });
}

#[test]
fn requests_at_the_same_time_get_the_same_sandbox() {
    run(async {
        let mut world = shop(2, &[("a", 4, 0)]);
        let creates: Vec<_> = (0..4).map(|number| spawn(&world, number % 2)).collect();
        let mut ids = Vec::new();
        for create in creates {
            ids.push(world.end_with(create, |_| Fate::Done).await.unwrap().id);
        }
        ids.dedup();
        assert_eq!(ids.len(), 1);
        world.rounds(50).await;
        assert_eq!(running(&world), 1);
    });
}

#[test]
fn a_sandbox_that_has_ended_is_not_made_again() {
    run(async {
        let mut world = shop(1, &[("a", 2, 0)]);
        let made = on!(world, 0, |manager| manager.create(&somebody(), keyed())).unwrap();
        on!(world, 0, |manager| manager.kill(&somebody(), &made.id)).unwrap();
        let again = on!(world, 0, |manager| manager.create(&somebody(), keyed()));
        assert_eq!(kind(again), ErrorKind::Conflict);
    });
}

#[test]
fn a_create_that_failed_may_be_sent_again() {
    run(async {
        let mut world = shop(2, &[("a", 1, 0)]);
        *world.envd.answers.lock() = 403;
        let failed = on!(world, 0, |manager| manager.create(&somebody(), keyed()));
        assert_eq!(kind(failed), ErrorKind::Unavailable);
        *world.envd.answers.lock() = 204;
        world.rounds(20).await;
        on!(world, 1, |manager| manager.create(&somebody(), keyed())).unwrap();
        assert_eq!(running(&world), 1);
    });
}

#[test]
fn a_retry_goes_on_where_a_replica_has_died_whenever_that_was() {
    for rounds in 0..8 {
        run(async {
            let mut world = shop(2, &[("a", 3, 0)]);
            let first = spawn(&world, 0);
            world.rounds(rounds).await;
            let is_done = first.is_finished();
            first.abort();
            world.crash(0);
            let made = on!(world, 1, |manager| manager.create(&somebody(), keyed())).unwrap();
            world.rounds(20).await;
            assert_eq!(running(&world), 1, "died after {rounds} rounds, done: {is_done}");
            let again = on!(world, 1, |manager| manager.create(&somebody(), keyed())).unwrap();
            assert_eq!(again.id, made.id);
        });
    }
}

#[test]
fn a_creator_that_is_slow_and_lives_is_waited_for() {
    run(async {
        let mut world = shop(2, &[("a", 2, 0)]);
        world.controls = false;
        let first = spawn(&world, 0);
        world.rounds(10).await;
        let second = spawn(&world, 1);
        let until = Instant::now() + Duration::from_secs(30);
        while Instant::now() < until {
            world.round(|_| Fate::Done).await;
        }
        assert_eq!((first.is_finished(), second.is_finished()), (false, false));
        assert_eq!(phases(&world), ["starting", "idle"], "the second has claimed nothing");
        world.controls = true;
        let first = world.end_with(first, |_| Fate::Done).await.unwrap();
        assert_eq!(world.end_with(second, |_| Fate::Done).await.unwrap().id, first.id);
    });
}

#[test]
fn a_create_that_fails_late_spares_the_sandbox_that_another_replica_has_answered_with() {
    run(async {
        let mut world = shop(2, &[("a", 2, 0)]);
        world.controls = false;
        world.replicas[0].lags = true;
        let first = spawn(&world, 0);
        world.rounds(20).await;
        assert_eq!(phases(&world), ["starting", "idle"]);
        world.controls = true;
        // The first says nothing to its marker, and does not see that its pod runs.
        let silent = |call: &UnderWay| {
            if call.caller == 1 && is_marked(call) { Fate::Lost } else { Fate::Done }
        };
        let second = spawn(&world, 1);
        let made = world.end_with(second, silent).await.unwrap();
        let failed = world.end_with(first, |_| Fate::Done).await;
        assert_eq!(kind(failed), ErrorKind::Timeout);
        world.rounds(50).await;
        assert_eq!(phases(&world), ["running", "idle"]);
        let pods: Vec<_> = world.model.list(&PODS).collect();
        assert!(pods[0].to_string().contains(&made.id));
    });
}

#[test]
fn a_create_that_fails_without_knowing_whose_its_marker_is_leaves_its_pod_to_a_retry() {
    run(async {
        let mut world = shop(2, &[("a", 2, 0)]);
        world.controls = false;
        let first = spawn(&world, 0);
        let failed = world.end_with(first, |call| if is_marked(call) { Fate::Lost } else { Fate::Done });
        assert_eq!(kind(failed.await), ErrorKind::Timeout);
        assert_eq!(phases(&world), ["starting", "idle"]);
        world.controls = true;
        on!(world, 1, |manager| manager.create(&somebody(), keyed())).unwrap();
        assert_eq!(phases(&world), ["running", "idle"]);
    });
}

#[test]
fn one_lost_answer_does_not_silence_a_creator_that_lives() {
    run(async {
        let mut world = shop(1, &[("a", 1, 0)]);
        world.controls = false;
        let create = spawn(&world, 0);
        let (mut is_lost, mut versions) = (false, Vec::new());
        for _ in 0..4 {
            let until = Instant::now() + Duration::from_secs(5);
            while Instant::now() < until {
                let lost_once = |call: &UnderWay| {
                    let is_first = is_marked(call) && !is_lost;
                    is_lost |= is_first;
                    if is_first { Fate::Unanswered } else { Fate::Done }
                };
                world.round(lost_once).await;
            }
            let marker = world.model.list(&CONFIG_MAPS).next().unwrap();
            versions.push(marker["metadata"]["resourceVersion"].clone());
        }
        versions.dedup();
        assert_eq!(versions.len(), 4, "it is renewed all the time");
        assert!(is_lost && !create.is_finished());
    });
}

#[test]
fn a_marker_that_cannot_be_made_is_given_up_soon_and_tried_with_pauses() {
    run(async {
        let mut world = shop(1, &[("a", 1, 0)]);
        let (create, began) = (spawn(&world, 0), Instant::now());
        let mut tries = 0;
        let put_off = |call: &UnderWay| {
            let is_create = matches!(&*call.operation, Operation::Create(kind, ..) if **kind == CONFIG_MAPS);
            tries += u32::from(is_create);
            if is_create { Fate::Refused(429) } else { Fate::Done }
        };
        assert_eq!(kind(world.end_with(create, put_off).await), ErrorKind::Unavailable);
        assert!(began.elapsed() < Duration::from_secs(20), "it is given up after {:?}", began.elapsed());
        assert!((10..200).contains(&tries), "{tries} tries");
        assert_eq!(phases(&world), ["idle"]);
    });
}
