use jiff::Timestamp;
use tokio::task::JoinHandle;

use super::world::{Fate, World, kind, run, somebody};
use crate::{Described, Error, ErrorKind};

fn pause(world: &World, replica: usize, sandbox: &Described) -> JoinHandle<Result<(), Error>> {
    let (manager, id) = (world.manager(replica), sandbox.id.clone());
    tokio::spawn(async move { manager.pause(&somebody(), &id, None).await })
}

/// A sandbox whose pause was written by the first of so many managers, and nothing more.
async fn pausing(replicas: usize) -> (World, Described, JoinHandle<Result<(), Error>>) {
    let mut world = World::with(replicas, 1);
    let sandbox = world.created(&somebody()).await;
    world.controls = false;
    let written = pause(&world, 0, &sandbox);
    world.rounds(5).await;
    assert!(is_paused(&world, &sandbox));
    (world, sandbox, written)
}

fn is_paused(world: &World, sandbox: &Described) -> bool {
    world.sandbox(sandbox)["spec"]["paused"] == true
}

/// How long the sandbox has to live, in seconds.
fn left(world: &World, sandbox: &Described) -> i64 {
    let ends: Timestamp = world.sandbox(sandbox)["spec"]["shutdownTime"].as_str().unwrap().parse().unwrap();
    ends.duration_since(world.model.now()).as_secs()
}

#[test]
fn a_pause_keeps_a_sandbox_for_long_and_a_refused_one_does_not() {
    run(async {
        let (mut world, sandbox, written) = pausing(1).await;
        assert!(left(&world, &sandbox) > 99 * 365 * 24 * 3600);
        world.refuse_pause(&sandbox);
        let refused = world.end_with(written, |_| Fate::Done).await;
        assert_eq!(kind(refused), ErrorKind::Unsupported);
        // It was made with five minutes.
        assert!((295..=300).contains(&left(&world, &sandbox)));
    });
}

#[test]
fn whoever_joins_a_pause_that_is_refused_leaves_the_deadlines_to_whoever_wrote_it() {
    run(async {
        for replica in [0, 1] {
            let (mut world, sandbox, written) = pausing(2).await;
            let joined = pause(&world, replica, &sandbox);
            world.rounds(5).await;
            world.refuse_pause(&sandbox);
            // The answer to the writer comes late, so that the other could be first.
            for number in 0..3 {
                world
                    .round(|call| if call.caller == 1 && replica == 1 { Fate::Held } else { Fate::Done })
                    .await;
                assert!(replica == 0 || is_paused(&world, &sandbox), "{number}");
            }
            for pause in [joined, written] {
                let refused = world.end_with(pause, |_| Fate::Done).await.unwrap_err();
                assert_eq!(refused.kind, ErrorKind::Unsupported, "{refused}");
            }
            assert!(!is_paused(&world, &sandbox));
            assert!((295..=300).contains(&left(&world, &sandbox)), "{replica}");
        }
    });
}

#[test]
fn a_refused_pause_that_somebody_else_has_taken_back_is_told_as_refused() {
    run(async {
        let (mut world, sandbox, written) = pausing(1).await;
        world.refuse_pause(&sandbox);
        world.put(&sandbox, |sandbox| sandbox["spec"]["paused"] = false.into());
        let refused = world.end_with(written, |_| Fate::Done).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Unsupported, "{refused}");
    });
}

#[test]
fn a_refused_pause_is_taken_back_though_its_client_is_gone() {
    run(async {
        let (mut world, sandbox, written) = pausing(1).await;
        written.abort();
        world.rounds(5).await;
        world.refuse_pause(&sandbox);
        world.rounds(5).await;
        assert!(!is_paused(&world, &sandbox));
        assert!((295..=300).contains(&left(&world, &sandbox)));
        assert_eq!(world.states().last().map(String::as_str), Some("running"));
    });
}

#[test]
fn a_refused_pause_is_taken_back_while_others_write_and_answers_are_lost() {
    run(async {
        for fate in [Fate::Lost, Fate::Unanswered, Fate::Refused(409), Fate::Refused(429)] {
            let (mut world, sandbox, written) = pausing(1).await;
            world.refuse_pause(&sandbox);
            let mut number = 0;
            let fates = |_: &_| {
                number += 1;
                if number <= 2 { fate } else { Fate::Done }
            };
            let refused = world.end_with(written, fates).await;
            assert_eq!(kind(refused), ErrorKind::Unsupported, "{fate:?}");
            assert!(!is_paused(&world, &sandbox), "{fate:?}");
            assert!((290..=300).contains(&left(&world, &sandbox)), "{fate:?}");
        }
    });
}

#[test]
fn a_refused_pause_of_a_dead_manager_is_taken_back_by_the_next_that_is_asked() {
    run(async {
        let (mut world, sandbox, written) = pausing(2).await;
        written.abort();
        world.crash(0);
        world.refuse_pause(&sandbox);
        let next = pause(&world, 1, &sandbox);
        assert_eq!(kind(world.end_with(next, |_| Fate::Done).await), ErrorKind::Unsupported);
        assert!(!is_paused(&world, &sandbox));
        // Nobody knows what it had, so it has what a resume gives.
        assert!((295..=300).contains(&left(&world, &sandbox)));
    });
}
