//! How a plan evicts, updates and scales.

use jiff::SignedDuration;
use sandgate_objects::opensandbox::names;
use serde_json::json;

use super::world::World;
use crate::failures::Failures;
use crate::pool::evict::{Eviction, EvictionHandler};
use crate::pool::observe::Observed;
use crate::pool::plan::{Claimed, MAX_CREATES, Plan, plan};
use crate::view::PodState;

fn deleted(plan: &Plan) -> Vec<String> {
    plan.delete.iter().map(|pod| pod.key.name.to_string()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_new_pool_is_filled_to_the_middle_of_its_buffer() {
    for (terms, expected) in [
        ([1, 3, 0, 10], 2),
        ([1, 3, 5, 10], 5),
        ([1, 3, 0, 1], 1),
        ([5, 3, 0, 10], 3),
        ([2, 2, 20, 10], 10),
        ([0, 0, 0, 10], 0),
        ([1000, 5000, 0, 5000], MAX_CREATES),
        ([0, 5, 0, 10], 0),
    ] {
        assert_eq!(World::new(terms).plan().create, expected, "{terms:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn demand_is_made_beside_the_buffer_and_within_the_maximum() {
    let mut world = World::new([1, 3, 0, 10]);
    world.batch("a", 5);
    assert_eq!(world.plan().create, 7);
    world.batch("b", 50);
    let plan = world.plan();
    assert_eq!((plan.create, plan.unmet, plan.is_exhausted), (10, 55, false));
    (0..10).for_each(|_| drop(world.pod_in("Pending", false)));
    let plan = world.plan();
    assert_eq!((plan.create, plan.delete.len(), plan.is_exhausted), (0, 0, true));
}

#[tokio::test(start_paused = true)]
async fn growth_is_bounded_by_the_scale_strategy() {
    for (limit, in_flight, expected) in [
        (json!(3), 0, 3),
        (json!(3), 2, 1),
        (json!(3), 4, 0),
        (json!("25%"), 0, 5),
        (json!("25%"), 1, 4),
        (json!("0%"), 0, 1),
        (json!("many"), 0, 5),
    ] {
        let mut world = World::new([20, 20, 0, 100]);
        world.edit_pool(|pool| pool["spec"]["scaleStrategy"] = json!({"maxUnavailable": limit}));
        (0..in_flight).for_each(|_| drop(world.pod_in("Pending", false)));
        assert_eq!(world.plan().create, expected, "{limit} {in_flight}");
    }
    let mut world = World::new([20, 20, 0, 100]);
    world.edit_pool(|pool| drop(pool["spec"].as_object_mut().unwrap().remove("scaleStrategy")));
    assert_eq!(world.plan().create, 5, "a quarter by default");
}

#[tokio::test(start_paused = true)]
async fn names_that_were_asked_for_are_in_flight() {
    let world = World::new([4, 4, 0, 100]);
    let observed = world.observed();
    let name = super::world::key("pool-x");
    assert!(world.process.view.reserve_pod(&observed.pool.uid, &name, &observed.revision));
    assert_eq!(world.plan().create, 3);
}

#[tokio::test(start_paused = true)]
async fn of_too_many_the_least_useful_go_first() {
    let mut world = World::new([0, 1, 0, 100]);
    world.edit_pool(|pool| pool["spec"]["scaleStrategy"] = json!({"maxUnavailable": 9}));
    let old = world.ready();
    world.image("base:2");
    let (first, second) = (world.ready(), world.ready());
    let starting = world.pod_in("Running", false);
    let pending = world.pod_in("Pending", false);
    // The one of the older revision is replaced by the update, whatever the size.
    let plan = world.plan();
    assert_eq!(
        deleted(&plan),
        [old.clone(), pending.clone(), starting.clone(), first.clone(), second.clone()]
    );
    world.edit_pool(|pool| pool["spec"]["capacitySpec"]["poolMin"] = json!(2));
    assert_eq!(deleted(&world.plan()), [old, pending, starting]);
}

#[tokio::test(start_paused = true)]
async fn a_scale_down_is_bounded_and_keeps_the_minimum() {
    let mut world = World::new([0, 2, 4, 100]);
    let names: Vec<_> = (0..12).map(|_| world.ready()).collect();
    assert_eq!(deleted(&world.plan()), names[..8], "those that have waited longest");
    world.edit_pool(|pool| pool["spec"]["scaleStrategy"] = json!({"maxUnavailable": 3}));
    assert_eq!(deleted(&world.plan()), names[..3]);
    world.edit_pod(&names[0], |pod| pod["metadata"]["deletionTimestamp"] = json!("1970-01-12T13:46:40Z"));
    assert_eq!(deleted(&world.plan()), names[1..3]);
}

#[tokio::test(start_paused = true)]
async fn what_a_batch_holds_is_never_scaled_down_updated_or_evicted() {
    let mut world = World::new([0, 0, 0, 100]);
    world.batch("a", 1);
    let held = world.ready();
    world.edit_batch("a", |batch| {
        let text = json!({"pods": [held]}).to_string();
        batch["metadata"]["annotations"][names::ANNOTATION_ALLOC_STATUS] = json!(text);
    });
    world.image("base:2");
    world.edit_pod(&held, |pod| pod["metadata"]["labels"][names::LABEL_EVICT] = json!("true"));
    let plan = world.plan();
    assert_eq!((plan.delete.len(), plan.evict.len(), plan.create), (0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn idle_pods_with_the_label_are_evicted_and_replaced() {
    let mut world = World::new([2, 2, 0, 100]);
    let (one, two) = (world.ready(), world.ready());
    world.edit_pod(&one, |pod| pod["metadata"]["labels"][names::LABEL_EVICT] = json!(""));
    let plan = world.plan();
    assert_eq!((plan.evict.len(), &*plan.evict[0].key.name, plan.create), (1, one.as_str(), 1));
    // A handler that nobody knows is the default.
    world.edit_pool(|pool| {
        pool["metadata"]["labels"] = json!({names::LABEL_EVICTION_HANDLER: "unheard-of"});
    });
    assert_eq!(world.plan().evict.len(), 1);
    world.edit_pod(&two, |pod| pod["metadata"]["labels"][names::LABEL_EVICT] = json!("x"));
    let plan = world.plan();
    assert_eq!((plan.evict.len(), plan.create), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn a_handler_may_put_an_eviction_off_and_the_pod_is_given_to_nobody_meanwhile() {
    struct Later;

    impl EvictionHandler for Later {
        fn of_idle(&self, _: &PodState) -> Eviction {
            Eviction::Keep
        }
    }

    let mut world = World::new([0, 0, 0, 1]);
    let pod = world.ready();
    world.edit_pod(&pod, |pod| pod["metadata"]["labels"][names::LABEL_EVICT] = json!(""));
    world.batch("a", 1);
    let mut observed = world.observed();
    observed.strategies.eviction = &Later;
    let plan = plan(&observed, &Claimed::new());
    assert!(plan.turns.is_empty() && plan.evict.is_empty() && plan.delete.is_empty());
    assert_eq!((plan.create, plan.unmet, plan.is_exhausted), (0, 1, true), "it counts to the maximum");
}

#[tokio::test(start_paused = true)]
async fn pods_that_have_ended_are_deleted_and_count_as_failures() {
    let mut world = World::new([2, 2, 0, 100]);
    world.ready();
    let failed = world.pod_in("Failed", false);
    let plan = world.plan();
    assert_eq!((deleted(&plan), plan.create, plan.failures.count()), (vec![failed], 1, 1));
}

#[tokio::test(start_paused = true)]
async fn an_update_replaces_idle_pods_within_its_budget() {
    for (limit, ready, unready, expected) in [
        (None, 10, 0, 3),
        (Some(json!("25%")), 10, 0, 3),
        (Some(json!(1)), 10, 0, 1),
        (Some(json!("100%")), 10, 0, 10),
        (Some(json!(2)), 0, 5, 5),
        (Some(json!(4)), 8, 2, 4),
    ] {
        let mut world = World::new([10, 10, 0, 100]);
        (0..ready).for_each(|_| drop(world.ready()));
        (0..unready).for_each(|_| drop(world.pod_in("Pending", false)));
        let missing = 10 - ready - unready;
        if let Some(limit) = &limit {
            world.edit_pool(|pool| pool["spec"]["updateStrategy"] = json!({"maxUnavailable": limit}));
        }
        assert_eq!(world.plan().delete.len(), 0);
        world.image("base:2");
        let plan = world.plan();
        assert_eq!(
            (plan.delete.len(), plan.create),
            (expected, expected + missing),
            "{limit:?} {ready} {unready}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_template_that_fails_does_not_take_the_pool_along() {
    let mut world = World::new([4, 4, 0, 100]);
    (0..4).for_each(|_| drop(world.ready()));
    world.image("broken");
    world.pod_in("Failed", false);
    let observed = world.observed();
    let failures = (0..4).fold(Failures::default(), |failures, number| {
        let at = observed.now - SignedDuration::from_secs(10 - number);
        failures.and(&observed.revision, at, at)
    });
    let plan = plan(&Observed { failures, ..observed }, &Claimed::new());
    assert_eq!((plan.create, plan.again.is_some()), (0, true), "it waits");
    assert!(plan.delete.iter().all(|pod| !pod.is_ready), "those that work stay");
}

#[tokio::test(start_paused = true)]
async fn a_pool_at_rest_does_nothing() {
    let mut world = World::new([1, 3, 0, 10]);
    world.ready();
    let plan = world.plan();
    assert_eq!((plan.create, plan.delete.len(), plan.turns.len()), (0, 0, 0));
    assert_eq!((plan.evict.len(), plan.stamp.len(), plan.strays.len()), (0, 0, 0));
    assert_eq!(plan.again, None);
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_is_full_below_its_buffer_is_updated_too() {
    let mut world = World::new([3, 3, 0, 2]);
    let (one, _) = (world.ready(), world.ready());
    world.image("base:2");
    let plan = world.plan();
    assert_eq!((deleted(&plan), plan.create), (vec![one], 0));
}
