//! What pools are told.

use std::time::Duration;

use sandgate_objects::sandbox_env::names::{ANNOTATION_LAST_CREATE, PREFIX_PENDING};
use tokio::time::Instant;

use super::world::{annotation_of, of_shop, on, shop, stock};
use crate::manager::tests::world::{Fate, World, run, somebody};

fn pending(world: &World) -> Option<String> {
    annotation_of(world, "a", |name| name.starts_with(PREFIX_PENDING))
}

fn last_create(world: &World) -> Option<String> {
    annotation_of(world, "a", |name| name == ANNOTATION_LAST_CREATE)
}

async fn for_seconds(world: &mut World, seconds: u64) {
    let until = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < until {
        world.round(|_| Fate::Done).await;
    }
}

/// A world with a manager that does what it does from time to time.
fn kept(idle: usize) -> (World, tokio::task::JoinHandle<()>) {
    let world = shop(1, &[("a", idle, 0)]);
    let manager = world.manager(0);
    let kept = tokio::spawn(async move { manager.keep_swept().await });
    (world, kept)
}

#[test]
fn claims_that_wait_are_told_renewed_and_taken_off() {
    run(async {
        let (mut world, kept) = kept(0);
        let manager = world.manager(0);
        let create = tokio::spawn(async move { manager.create(&somebody(), of_shop()).await });
        for_seconds(&mut world, 1).await;
        let first = pending(&world).unwrap();
        assert!(first.starts_with("1@"), "{first}");
        for_seconds(&mut world, 25).await;
        let renewed = pending(&world).unwrap();
        assert!(renewed.starts_with("1@") && renewed > first, "{renewed}");
        stock(&mut world, "a", "a-9", "shop");
        world.end_with(create, |_| Fate::Done).await.unwrap();
        for_seconds(&mut world, 5).await;
        assert_eq!(pending(&world), None);
        kept.abort();
    });
}

#[test]
fn a_count_that_is_renewed_is_that_of_the_time() {
    run(async {
        let (mut world, kept) = kept(0);
        let wait = |world: &World| {
            let manager = world.manager(0);
            tokio::spawn(async move { manager.create(&somebody(), of_shop()).await })
        };
        let _ten: Vec<_> = (0..10).map(|_| wait(&world)).collect();
        for_seconds(&mut world, 5).await;
        assert!(pending(&world).unwrap().starts_with("10@"), "{:?}", pending(&world));
        // Too few to be told by the line.
        let _one = wait(&world);
        for_seconds(&mut world, 15).await;
        assert!(pending(&world).unwrap().starts_with("11@"), "{:?}", pending(&world));
        kept.abort();
    });
}

#[test]
fn the_time_of_the_last_claim_is_told_a_few_seconds_later_and_once_for_all() {
    run(async {
        let (mut world, kept) = kept(3);
        for _ in 0..3 {
            on!(world, 0, |manager| manager.create(&somebody(), of_shop())).unwrap();
        }
        assert_eq!(last_create(&world), None);
        let before = world.model.revision();
        for_seconds(&mut world, 7).await;
        assert!(last_create(&world).is_some());
        assert_eq!(world.model.revision(), before + 1, "one write for three claims");
        kept.abort();
    });
}

#[test]
fn a_manager_that_ends_takes_its_count_off_and_refuses_whoever_waits() {
    run(async {
        let (mut world, kept) = kept(0);
        let manager = world.manager(0);
        let create = tokio::spawn(async move { manager.create(&somebody(), of_shop()).await });
        for_seconds(&mut world, 1).await;
        assert!(pending(&world).is_some());
        let manager = world.manager(0);
        let drain = tokio::spawn(async move {
            manager.drain().await;
            Ok(())
        });
        world.end_with(drain, |_| Fate::Done).await.unwrap();
        assert_eq!(pending(&world), None);
        let refused = create.await.unwrap().unwrap_err();
        assert_eq!(refused.kind, crate::ErrorKind::Unavailable);
        kept.abort();
    });
}
