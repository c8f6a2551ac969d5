//! Creates with an `Idempotency-Key` that take long: a slow creator is not a dead one.

use std::time::Duration;

use sandgate_sim::model::{CONFIG_MAPS, SANDBOXES};
use sandgate_sim::network::{Operation, UnderWay};
use tokio::time::Instant;

use super::paths::snapshot;
use super::world::{Fate, World, keyed, name, run};
use crate::NewSandbox;

/// Whether the request makes a sandbox.
fn makes(call: &UnderWay) -> bool {
    matches!(&*call.operation, Operation::Create(kind, ..) if *kind == &SANDBOXES)
}

/// Whether the request claims a sandbox.
fn claims(call: &UnderWay) -> bool {
    let of = call.operation.target().is_some_and(|place| place.kind == &SANDBOXES);
    of && call.operation.to_string().contains(r#""agents.kruise.io/sandbox-claimed":"true""#)
}

#[test]
fn a_start_that_takes_longer_than_a_lease_gives_one_sandbox_to_all_who_ask_again() {
    run(async {
        let mut world = World::with(3, 0);
        world.controls = false;
        let mut made = 0;
        let mut count = |call: &UnderWay| {
            made += usize::from(makes(call));
            Fate::Done
        };
        let mut creates = vec![world.create(0, keyed("k"))];
        world.seconds(15, &mut count).await;
        creates.push(world.create(1, keyed("k")));
        world.seconds(5, &mut count).await;
        creates.push(world.create(2, keyed("k")));
        world.seconds(10, &mut count).await;
        assert!(creates.iter().all(|create| !create.is_finished()));
        world.controls = true;
        let mut given = Vec::new();
        for create in creates {
            given.push(name(&world.end_with(create, &mut count).await));
        }
        given.dedup();
        assert_eq!((world.claimed(), world.sandboxes(), made), (given, 1, 1));
        for replica in &world.replicas {
            assert_eq!(replica.steps.count("release"), 0, "it keeps its place in the quota");
        }
    });
}

#[test]
fn a_creator_that_was_cut_off_and_taken_over_claims_nothing() {
    run(async {
        let mut world = World::with(2, 0);
        world.controls = false;
        let first = world.create(0, keyed("k"));
        world.rounds(5).await;
        assert_eq!(world.sandboxes(), 1);
        // Nothing of it arrives, and it learns nothing.
        world.replicas[0].lags = true;
        let cut = |call: &UnderWay| if call.caller == 1 { Fate::Held } else { Fate::Done };
        world.controls = true;
        let second = world.create(1, keyed("k"));
        let given = name(&world.end_with(second, cut).await);
        let mut claimed = 0;
        let mut count = |call: &UnderWay| {
            claimed += usize::from(call.caller == 1 && claims(call));
            Fate::Done
        };
        // It learns that the marker is another's before it learns that its sandbox is ready.
        world.seconds(1, &mut count).await;
        world.replicas[0].lags = false;
        assert_eq!(name(&world.end_with(first, &mut count).await), given);
        world.seconds(5, &mut count).await;
        assert_eq!((world.claimed(), world.sandboxes(), claimed), (vec![given], 1, 0));
    });
}

/// A clone with a name, whose manager is cut off while it starts. Another one takes the sandbox over. Then
/// the first hears of the server again, by its watch first or by its requests first.
async fn taken_over(watch_first: bool, is_given_before: bool) {
    let mut world = World::with(2, 0);
    snapshot(&mut world, "owner-1");
    world.show();
    world.controls = false;
    let mut wanted = NewSandbox { template: "cp-1".to_owned(), ..keyed("k") };
    wanted.extensions.name = Some("mine".to_owned());
    let first = world.create(0, wanted.clone());
    world.rounds(5).await;
    world.replicas[0].lags = true;
    let lock =
        |world: &World| world.sandbox("mine")["metadata"]["annotations"]["agents.kruise.io/lock"].clone();
    let was = lock(&world);
    let cut = |call: &UnderWay| if call.caller == 1 { Fate::Held } else { Fate::Done };
    let second = world.create(1, wanted);
    world.until(|world| lock(world) != was, cut).await;
    if is_given_before {
        world.controls = true;
        world.until(|world| !world.claimed().is_empty(), cut).await;
    }
    let is_of_marker = |call: &UnderWay| {
        call.operation.target().is_none_or(|place| place.kind == &CONFIG_MAPS) && call.caller == 1
    };
    if watch_first {
        world.replicas[0].lags = false;
        world.controls = true;
        world.seconds(1, |call| if is_of_marker(call) { Fate::Held } else { Fate::Done }).await;
    } else {
        world.seconds(2, |_| Fate::Done).await;
        world.replicas[0].lags = false;
        world.controls = true;
    }
    let case = format!("watch first {watch_first}, given before {is_given_before}");
    let mut ids = Vec::new();
    for create in [second, first] {
        let given = world.end(create).await.unwrap_or_else(|error| panic!("{case}: {error}"));
        ids.push(given.label("agents.kruise.io/sandbox-id").to_owned());
    }
    world.seconds(5, |_| Fate::Done).await;
    let is = world.sandbox("mine")["metadata"]["labels"]["agents.kruise.io/sandbox-id"].clone();
    assert!(ids.iter().all(|id| is == **id), "{case}: {ids:?} and {is}");
    assert_eq!((world.claimed(), world.sandboxes()), (vec!["mine".to_owned()], 1), "{case}");
    assert_eq!(world.markers(), ["done"], "{case}");
}

#[test]
fn a_sandbox_that_was_taken_over_is_neither_claimed_nor_deleted_by_whoever_made_it() {
    for (watch_first, is_given_before) in [(false, false), (false, true), (true, false), (true, true)] {
        run(taken_over(watch_first, is_given_before));
    }
}

#[test]
fn a_renewal_that_does_not_arrive_is_sent_again_in_time() {
    for lost in [Fate::Lost, Fate::Unanswered, Fate::Refused(429)] {
        run(async {
            let mut world = World::with(2, 0);
            world.controls = false;
            let first = world.create(0, keyed("k"));
            world.rounds(5).await;
            let second = world.create(1, keyed("k"));
            // The server loses every other request about a marker.
            let mut number = 0;
            let began = Instant::now();
            while began.elapsed() < Duration::from_secs(40) {
                world
                    .round_of(Duration::from_millis(50), |call| {
                        let of = call.operation.target().is_some_and(|place| place.kind == &CONFIG_MAPS);
                        number += usize::from(of && call.caller == 1);
                        if of && call.caller == 1 && number % 2 == 1 { lost } else { Fate::Done }
                    })
                    .await;
            }
            assert!(number >= 12, "{number} renewals in 40 s");
            world.controls = true;
            let given = [name(&world.end(first).await), name(&world.end(second).await)];
            assert_eq!((world.claimed(), world.sandboxes()), (vec![given[0].clone()], 1), "{lost:?}");
            assert_eq!(given[0], given[1]);
        });
    }
}

#[test]
fn a_create_that_waits_for_longer_than_markers_are_abandoned_is_none_that_was_abandoned() {
    run(async {
        let mut world = World::with(2, 0);
        let mut wanted = keyed("k");
        wanted.extensions.only_from_stock = true;
        wanted.extensions.claim_timeout = Some(Duration::from_secs(7200));
        let create = world.create(0, wanted);
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(3700) {
            world.round_of(Duration::from_secs(1), |_| Fate::Done).await;
        }
        let claims = world.replicas[1].claims.clone().unwrap();
        let sweep = tokio::spawn(async move { claims.sweep().await });
        while !sweep.is_finished() {
            world.rounds(1).await;
        }
        assert_eq!(sweep.await.unwrap().unwrap(), crate::Swept::default());
        assert_eq!(world.markers(), ["open"]);
        world.stock("base", 1);
        world.end(create).await.expect("a sandbox");
    });
}
