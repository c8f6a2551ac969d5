//! Processes that die between any two of their requests, and what the sweep finds of them.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::task::JoinHandle;

use super::paths::snapshot;
use super::world::{Answer, Fate, World, keyed, name, run, wanted};
use crate::{NewSandbox, Swept};

/// How many requests a create has at most here.
const REQUESTS: usize = 8;

/// Runs a create of a manager that dies at its n-th request, which the server gets or does not get.
async fn dies(world: &mut World, replica: usize, at: usize, is_done: bool, create: JoinHandle<Answer>) {
    let (mut calls, mut rounds) = (0, 0);
    while calls < at && !create.is_finished() {
        // Whoever waits for long need not be looked at so often.
        let long = Duration::from_millis(if rounds < 200 { 1 } else { 20 });
        rounds += 1;
        world
            .round_of(long, |_| {
                calls += 1;
                match calls.cmp(&at) {
                    std::cmp::Ordering::Less => Fate::Done,
                    std::cmp::Ordering::Equal if is_done => Fate::Unanswered,
                    _ => Fate::Lost,
                }
            })
            .await;
        if calls >= at {
            break;
        }
    }
    // The answer is lost with the process.
    world.crash(replica);
    create.abort();
    world.rounds(5).await;
}

#[test]
fn a_retry_after_a_crash_between_any_two_requests_gives_one_sandbox() {
    for stock in [0, 3] {
        for at in 1..=REQUESTS {
            for is_done in [false, true] {
                run(async {
                    let mut world = World::with(2, stock);
                    let create = world.create(0, keyed("k"));
                    dies(&mut world, 0, at, is_done, create).await;
                    let create = world.create(1, keyed("k"));
                    let given = name(&world.end(create).await);
                    // What nobody has is swept, or ends by itself.
                    tokio::time::sleep(Duration::from_secs(2 * 60 * 60)).await;
                    let claims = world.replicas[1].claims.clone().unwrap();
                    let sweep = tokio::spawn(async move { claims.sweep().await });
                    while !sweep.is_finished() {
                        world.rounds(1).await;
                    }
                    sweep.await.unwrap().unwrap();
                    world.rounds(5).await;
                    let case = format!("stock {stock}, dead at {at}, done {is_done}");
                    assert_eq!(world.claimed(), [given.as_str()], "{case}");
                    let create = world.create(1, keyed("k"));
                    assert_eq!(name(&world.end(create).await), given, "{case}");
                    assert_eq!(world.markers(), ["done"], "{case}");
                });
            }
        }
    }
}

#[test]
fn a_crash_while_one_is_made_leaves_nothing_that_lasts() {
    for at in 1..=2 {
        run(async {
            let mut world = World::with(1, 0);
            let create = world.create(0, wanted());
            dies(&mut world, 0, at, false, create).await;
            assert_eq!(world.claimed().len(), 0);
            for name in 0..world.sandboxes() {
                let sandbox = world.model.list(&sandgate_sim::model::SANDBOXES).nth(name).unwrap();
                let ends = sandbox["spec"]["shutdownTime"].as_str().unwrap();
                assert_eq!(ends, "2026-11-18T10:03:00Z", "it ends by itself");
            }
        });
    }
}

async fn sweep(world: &mut World, replica: usize) -> Swept {
    let claims = world.replicas[replica].claims.clone().unwrap();
    let sweep = tokio::spawn(async move { claims.sweep().await });
    while !sweep.is_finished() {
        world.rounds(1).await;
    }
    sweep.await.unwrap().unwrap()
}

#[test]
fn markers_go_after_a_day_and_their_sandboxes_stay() {
    run(async {
        let mut world = World::with(1, 3);
        let create = world.create(0, keyed("k"));
        let given = name(&world.end(create).await);
        tokio::time::sleep(Duration::from_secs(23 * 60 * 60)).await;
        assert_eq!(sweep(&mut world, 0).await, Swept::default());
        tokio::time::sleep(Duration::from_secs(2 * 60 * 60)).await;
        assert_eq!(sweep(&mut world, 0).await, Swept { markers: 1, ..Swept::default() });
        assert_eq!(sweep(&mut world, 0).await, Swept::default());
        assert_eq!((world.claimed(), world.markers().len()), (vec![given.clone()], 0));
        // The key may be used again. Whatever becomes of its new marker, the sandbox of the old one stays.
        world.replicas[0].steps.init_fails.store(true, Ordering::Relaxed);
        let create = world.create(0, keyed("k"));
        world.end(create).await.expect_err("it fails");
        tokio::time::sleep(Duration::from_secs(60 * 60)).await;
        assert_eq!(sweep(&mut world, 0).await, Swept::default());
        world.replicas[0].steps.init_fails.store(false, Ordering::Relaxed);
        let create = world.create(0, keyed("k"));
        let second = name(&world.end(create).await);
        tokio::time::sleep(Duration::from_secs(60 * 60)).await;
        assert_eq!(sweep(&mut world, 0).await, Swept::default());
        let mut both = [given, second];
        both.sort();
        assert_eq!(world.claimed(), both);
    });
}

/// A clone with a name, as often as it is asked for.
fn named() -> NewSandbox {
    let mut wanted = NewSandbox { template: "cp-1".to_owned(), ..keyed("k") };
    wanted.extensions.name = Some("mine".to_owned());
    wanted
}

fn world_with_snapshot(replicas: usize) -> World {
    let mut world = World::with(replicas, 0);
    snapshot(&mut world, "owner-1");
    world.show();
    world
}

#[test]
fn a_clone_with_a_name_is_one_after_a_crash_between_any_two_requests() {
    for at in 1..=REQUESTS {
        for is_done in [false, true] {
            run(async {
                let mut world = world_with_snapshot(2);
                let create = world.create(0, named());
                dies(&mut world, 0, at, is_done, create).await;
                let create = world.create(1, named());
                let case = format!("dead at {at}, done {is_done}");
                assert_eq!(name(&world.end(create).await), "mine", "{case}");
                assert_eq!((world.claimed(), world.sandboxes()), (vec!["mine".to_owned()], 1), "{case}");
            });
        }
    }
}

#[test]
fn a_clone_with_a_name_is_one_though_the_retry_crashes_too() {
    for at in 1..=12 {
        run(async {
            let mut world = world_with_snapshot(3);
            let create = world.create(0, named());
            // The marker and the sandbox are made.
            dies(&mut world, 0, 2, true, create).await;
            assert_eq!((world.sandboxes(), world.claimed().len()), (1, 0));
            let create = world.create(1, named());
            dies(&mut world, 1, at, true, create).await;
            let create = world.create(2, named());
            assert_eq!(name(&world.end(create).await), "mine", "dead at {at}");
            assert_eq!((world.claimed(), world.sandboxes()), (vec!["mine".to_owned()], 1), "dead at {at}");
        });
    }
}

#[test]
fn a_create_that_nobody_came_back_for_is_swept_after_an_hour() {
    run(async {
        let mut world = World::with(2, 3);
        let create = world.create(0, keyed("k"));
        // The marker and the claim are written, and nothing after them.
        dies(&mut world, 0, 2, true, create).await;
        assert_eq!((world.claimed().len(), world.markers()), (1, vec!["open".to_owned()]));
        assert_eq!(sweep(&mut world, 1).await, Swept::default());
        tokio::time::sleep(Duration::from_secs(61 * 60)).await;
        let swept = sweep(&mut world, 1).await;
        assert_eq!(swept, Swept { abandoned: 1, sandboxes: 1, markers: 0 });
        assert_eq!((world.claimed().len(), world.markers()), (0, vec!["failed".to_owned()]));
    });
}
