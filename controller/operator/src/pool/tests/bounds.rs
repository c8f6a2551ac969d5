//! How much is sent at a time, and how much is remembered.

use sandgate_objects::opensandbox::names;
use sandgate_sim::model::{BATCHES, POOLS, Place};
use serde_json::json;

use super::world::{NAMESPACE, POOL, World, key, run};
use crate::Reconciler as _;
use crate::failures::Failures;
use crate::pool::PoolSettings;
use crate::pool::apply::Pass;
use crate::pool::observe::{LOOK, observe};
use crate::pool::plan::{Claimed, plan};
use crate::view::Kind;

/// Four requests at a time, each of which takes a while.
fn narrow() -> World {
    let world = World::with([0, 0, 0, 100], PoolSettings { allocations: 4, ..PoolSettings::default() });
    world.delayed(7);
    world
}

#[test]
fn pods_that_are_gone_are_asked_for_a_few_at_a_time() {
    run(async {
        let mut world = narrow();
        (0..40).for_each(|_| drop(world.ready()));
        world.batch("a", 40);
        world.look().await.unwrap();
        let pods = world.alloc("a");
        assert_eq!(pods.len(), 40);
        pods.iter().for_each(|pod| world.lose_unseen(pod));
        world.delete_unseen("a");
        world.show();
        world.asked();
        world.most_under_way();
        world.look().await.unwrap();
        assert_eq!(world.of_batch("a"), None);
        let reads = world.asked().iter().filter(|line| line.starts_with("GET pods/")).count();
        assert_eq!((reads, world.most_under_way()), (40, 4));
    });
}

#[test]
fn a_batch_of_more_pods_than_a_look_lets_go_of_them_in_several() {
    run(async {
        let mut world = World::new([0, 0, 0, 1000]);
        world.batch("a", 1);
        let names: Vec<_> = (0..LOOK + 10).map(|number| format!("gone-{number}")).collect();
        world.edit_batch("a", |batch| {
            let text = json!({"pods": names}).to_string();
            batch["metadata"]["annotations"] = json!({names::ANNOTATION_ALLOC_STATUS: text});
            batch["metadata"]["finalizers"] = json!([names::FINALIZER_POOL_ALLOCATION]);
        });
        world.delete_batch("a");
        world.look().await.unwrap();
        assert_eq!(world.asked().iter().filter(|line| line.starts_with("GET pods/")).count(), LOOK);
        assert_eq!(world.released("a").len(), LOOK);
        world.look().await.unwrap();
        assert_eq!(world.of_batch("a"), None);
    });
}

#[test]
fn batches_of_a_pool_that_is_gone_are_let_go_a_few_at_a_time() {
    run(async {
        let mut world = narrow();
        for number in 0..40 {
            let name = format!("b{number}");
            world.batch(&name, 0);
            world.edit_batch(&name, |batch| {
                batch["metadata"]["finalizers"] = json!([names::FINALIZER_POOL_ALLOCATION]);
            });
        }
        world.delete(&Place::new(&POOLS, NAMESPACE, POOL));
        world.most_under_way();
        world.look().await.unwrap();
        assert_eq!(world.most_under_way(), 4);
        for number in 0..40 {
            let batch = world.object(&Place::new(&BATCHES, NAMESPACE, &format!("b{number}"))).unwrap();
            assert!(sandgate_sim::model::object::list(&batch, "/metadata/finalizers").is_empty());
        }
    });
}

#[test]
fn batches_that_are_gone_are_not_remembered() {
    run(async {
        let mut world = World::new([0, 0, 0, 0]);
        for round in 0..6 {
            for number in 0..LOOK + 44 {
                world.batch_unseen(&format!("b{round}-{number}"), 1);
            }
            world.show();
            world.look().await.unwrap();
            let pool = world.process.view.get(&key(POOL)).unwrap();
            let waiting = world.process.pools.with_state(&pool, |state| state.waiting.len());
            assert!((LOOK..=4 * LOOK).contains(&waiting), "{waiting} in round {round}");
            world.batches().iter().for_each(|name| world.delete_unseen(name));
            world.show();
        }
    });
}

#[test]
fn a_name_is_taken_off_the_list_when_its_pod_is_gone() {
    run(async {
        let mut world = World::new([0, 0, 0, 100]);
        let held = world.ready();
        world.batch("a", 1);
        world.look().await.unwrap();
        world.edit_pod(&held, |pod| pod["spec"]["terminationGracePeriodSeconds"] = json!(30));
        world.delete(&Place::new(&sandgate_sim::model::PODS, NAMESPACE, &held));
        let other = world.ready();
        world.look().await.unwrap();
        assert_eq!((world.alloc("a"), world.released("a")), (vec![other.clone()], vec![held]));
        world.nodes();
        world.lose_pod(&other);
        let third = world.ready();
        world.look().await.unwrap();
        assert_eq!((world.alloc("a"), world.released("a")), (vec![third], vec![]));
    });
}

#[test]
fn a_pod_that_turns_up_before_it_is_replaced_is_not() {
    run(async {
        let mut world = World::new([0, 0, 0, 100]);
        let held = world.ready();
        world.batch("a", 1);
        world.look().await.unwrap();
        let free = world.ready();
        // A process whose watch of pods lags behind its watch of batches.
        let other = world.other();
        other.show_but(&held, &world.model.lock());
        let pool = other.view.get(&key(POOL)).unwrap();
        let observed = observe(&other.view, pool, Failures::default(), crate::Clock::now(&*world.clock));
        let mut plan = plan(&observed, &Claimed::new());
        assert_eq!(plan.turns[0].give.len(), 1);
        other.view.observe_json(Kind::PoolPod, world.of_pod(&held).unwrap().to_string().as_bytes()).unwrap();
        other.pools.apply(&observed, &mut plan, &Pass::default(), Vec::new()).await;
        assert_eq!(
            (world.alloc("a"), world.mark(&held), world.mark(&free)),
            (vec![held], "a".into(), String::new())
        );
        other.pools.reconcile(&key(POOL)).await.unwrap();
        assert_eq!(world.alloc("a").len(), 1);
    });
}
