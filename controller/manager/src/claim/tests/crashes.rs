//! Processes that die between any two of their requests, and what the sweep finds of them.

use std::time::Duration;

use super::world::{Fate, World, keyed, name, run, wanted};
use crate::Swept;

/// How many requests a create has at most here.
const REQUESTS: usize = 8;

/// Runs a create whose process dies at its n-th request, which the server gets or does not get.
async fn dies(
    world: &mut World,
    at: usize,
    is_done: bool,
    create: tokio::task::JoinHandle<super::world::Answer>,
) {
    let mut calls = 0;
    while calls < at && !create.is_finished() {
        world
            .round(|_| {
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
    world.crash(0);
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
                    dies(&mut world, at, is_done, create).await;
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
            dies(&mut world, at, false, create).await;
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
        assert_eq!((world.claimed(), world.markers().len()), (vec![given], 0));
    });
}

#[test]
fn a_create_that_nobody_came_back_for_is_swept_after_an_hour() {
    run(async {
        let mut world = World::with(2, 3);
        let create = world.create(0, keyed("k"));
        // The marker and the claim are written, and nothing after them.
        dies(&mut world, 2, true, create).await;
        assert_eq!((world.claimed().len(), world.markers()), (1, vec!["open".to_owned()]));
        assert_eq!(sweep(&mut world, 1).await, Swept::default());
        tokio::time::sleep(Duration::from_secs(61 * 60)).await;
        let swept = sweep(&mut world, 1).await;
        assert_eq!(swept, Swept { abandoned: 1, sandboxes: 1, markers: 0 });
        assert_eq!((world.claimed().len(), world.markers()), (0, vec!["failed".to_owned()]));
    });
}
