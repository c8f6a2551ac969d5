//! What a plan gives to whom, and what it takes back.

use std::collections::BTreeMap;

use sandgate_objects::opensandbox::names;
use sandgate_sim::model::{BATCHES, Place};
use serde_json::{Value, json};

use super::world::{NAMESPACE, World, key};
use crate::pool::plan::{Claimed, Plan, plan};

/// A pool that keeps no buffer.
fn bare() -> World {
    World::new([0, 0, 0, 100])
}

/// Which batch gets which pods, in which slots.
fn given(plan: &Plan) -> BTreeMap<String, Vec<(Option<usize>, String)>> {
    let gifts = plan.turns.iter().filter(|turn| !turn.give.is_empty());
    gifts
        .map(|turn| {
            let gifts = turn.give.iter().map(|gift| (gift.slot, gift.pod.key.name.to_string()));
            (turn.batch.key.name.to_string(), gifts.collect())
        })
        .collect()
}

fn next(pods: &[&str]) -> Vec<(Option<usize>, String)> {
    pods.iter().map(|pod| (None, (*pod).to_owned())).collect()
}

fn taken_back(plan: &Plan) -> Vec<(String, Vec<String>)> {
    let turns = plan.turns.iter().filter(|turn| !turn.release.is_empty());
    turns
        .map(|turn| {
            let pods = turn.release.iter().map(|pod| pod.key.name.to_string()).collect();
            (turn.batch.key.name.to_string(), pods)
        })
        .collect()
}

fn orphans(plan: &Plan) -> Vec<String> {
    let turns = plan.turns.iter().flat_map(|turn| &turn.orphans);
    turns.chain(&plan.strays).map(|pod| pod.key.name.to_string()).collect()
}

/// Writes the lists of a batch.
fn holds(world: &mut World, batch: &str, slots: &[&str], released: &[&str]) {
    world.edit_batch(batch, |batch| {
        let annotations = &mut batch["metadata"]["annotations"];
        annotations[names::ANNOTATION_ALLOC_STATUS] = json!(json!({"pods": slots}).to_string());
        if !released.is_empty() {
            annotations[names::ANNOTATION_ALLOC_RELEASED] = json!(json!({"pods": released}).to_string());
        }
        batch["metadata"]["finalizers"] = json!([names::FINALIZER_POOL_ALLOCATION]);
    });
}

/// Writes onto a pod whose it is.
fn marked(world: &mut World, pod: &str, batch: &str) {
    let uid = world
        .of_batch(batch)
        .map_or("gone".to_owned(), |batch| batch["metadata"]["uid"].as_str().unwrap_or_default().to_owned());
    world.edit_pod(pod, |pod| {
        pod["metadata"]["annotations"][names::ANNOTATION_ALLOCATED_TO] = json!(format!("{uid}/{batch}"));
    });
}

#[tokio::test(start_paused = true)]
async fn who_came_first_is_served_first_with_the_pod_that_has_been_ready_longest() {
    let mut world = bare();
    let (one, two, three) = (world.ready(), world.ready(), world.ready());
    world.batch("b", 2);
    world.batch("a", 2);
    let plan = world.plan();
    let expected = [("b".to_owned(), next(&[&one, &two])), ("a".to_owned(), next(&[&three]))];
    assert_eq!((given(&plan), plan.unmet), (BTreeMap::from(expected), 1));
    assert_eq!(plan.create, 1, "what is missing is made");
}

#[tokio::test(start_paused = true)]
async fn only_pods_that_are_ready_and_free_are_given() {
    let mut world = bare();
    world.pod_in("Pending", false);
    world.pod_in("Running", false);
    world.pod_in("Unknown", true);
    let evicted = world.ready();
    world.edit_pod(&evicted, |pod| pod["metadata"]["labels"][names::LABEL_EVICT] = json!(""));
    let ending = world.ready();
    world.delete(&Place::new(&sandgate_sim::model::PODS, NAMESPACE, &ending));
    let held = world.ready();
    world.batch("a", 1);
    holds(&mut world, "a", &[&held], &[]);
    world.batch("b", 3);
    let plan = world.plan();
    assert_eq!((given(&plan), plan.unmet), (BTreeMap::new(), 3));
    assert_eq!(plan.evict.len(), 1);
    let free = world.ready();
    assert_eq!(given(&world.plan()), BTreeMap::from([("b".to_owned(), next(&[&free]))]));
}

#[tokio::test(start_paused = true)]
async fn a_pod_of_the_new_revision_is_given_before_an_older_one() {
    let mut world = bare();
    let old = world.ready();
    world.image("base:2");
    let new = world.ready();
    world.batch("a", 1);
    assert_eq!(given(&world.plan()), BTreeMap::from([("a".to_owned(), next(&[&new]))]));
    world.batch("b", 1);
    assert_eq!(given(&world.plan())["b"], next(&[&old]));
}

#[tokio::test(start_paused = true)]
async fn a_batch_gets_what_it_lacks_and_no_more() {
    for (replicas, slots, released, expected) in [
        (1, vec![], vec![], 1),
        (3, vec!["p1"], vec![], 2),
        (2, vec!["p1", "p2"], vec![], 0),
        (1, vec!["p1", "p2"], vec![], 0),
        (0, vec![], vec![], 0),
        // A slot at the end that was given back is cut off first.
        (2, vec!["p1", "p2"], vec!["p2"], 0),
        (3, vec!["p1", "p2"], vec!["p2"], 1),
    ] {
        let mut world = bare();
        (0..6).for_each(|_| drop(world.ready()));
        world.batch("a", replicas);
        if !slots.is_empty() {
            holds(&mut world, "a", &slots, &released);
        }
        let given = given(&world.plan()).remove("a").unwrap_or_default();
        assert_eq!(given.len(), expected, "{replicas} {slots:?} {released:?}");
        assert!(given.iter().all(|(slot, pod)| slot.is_none() && !slots.contains(&pod.as_str())));
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_pod_is_replaced_in_its_place() {
    let mut world = bare();
    let (one, two, three) = (world.ready(), world.ready(), world.ready());
    world.batch("a", 3);
    holds(&mut world, "a", &[&one, &two, "never"], &[]);
    [&one, &two].iter().for_each(|pod| marked(&mut world, pod, "a"));
    let other = world.ready();
    world.lose_pod(&two);
    let plan = world.plan();
    assert_eq!(given(&plan)["a"], [(Some(1), three), (Some(2), other)]);
    assert_eq!(plan.unmet, 0);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_marked_as_another_ones_is_replaced() {
    let mut world = bare();
    let (one, two) = (world.ready(), world.ready());
    world.batch("a", 1);
    world.batch("b", 1);
    holds(&mut world, "a", &[&one], &[]);
    holds(&mut world, "b", &[&one], &[]);
    marked(&mut world, &one, "b");
    assert_eq!(given(&world.plan()), BTreeMap::from([("a".to_owned(), vec![(Some(0), two)])]));
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_not_given_what_it_has_given_back() {
    let mut world = bare();
    let one = world.ready();
    world.batch("a", 2);
    holds(&mut world, "a", &["gone", &one], &["gone", &one]);
    world.edit_batch("a", |batch| batch["spec"]["replicas"] = json!(3));
    let plan = world.plan();
    assert_eq!((given(&plan), plan.unmet, plan.create), (BTreeMap::new(), 1, 1), "another one is made");
    let two = world.ready();
    assert_eq!(given(&world.plan())["a"], next(&[&two]));
    // A name without a slot may be given again once it is taken out of the list.
    let mut world = bare();
    let one = world.ready();
    world.batch("a", 1);
    holds(&mut world, "a", &[], &[&one]);
    let plan = world.plan();
    assert_eq!((given(&plan), plan.turns[0].forget.len()), (BTreeMap::new(), 1));
}

#[tokio::test(start_paused = true)]
async fn a_slot_that_was_given_back_is_filled_anew_while_the_batch_wants_it() {
    for (replicas, released, expected) in [
        (3, &[][..], &[][..]),
        (3, &["p1"], &[0]),
        (3, &["p1", "p2"], &[0, 1]),
        // At the end there is nothing to fill.
        (3, &["p2", "p3"], &[]),
        (1, &["p1"], &[0]),
        (2, &["p1", "p2"], &[0, 1]),
        (0, &["p1"], &[]),
    ] {
        let mut world = bare();
        (0..6).for_each(|_| drop(world.ready()));
        world.batch("a", replicas);
        holds(&mut world, "a", &["p1", "p2", "p3"], released);
        let given = given(&world.plan()).remove("a").unwrap_or_default();
        let slots: Vec<_> = given.iter().filter_map(|(slot, _)| *slot).collect();
        assert_eq!((slots.as_slice(), given.len()), (expected, expected.len()), "{replicas} {released:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_template_beside_the_pool_does_not_keep_a_batch_from_its_pods() {
    let mut world = bare();
    let one = world.ready();
    world.batch("a", 1);
    world.edit_batch("a", |batch| {
        batch["spec"]["template"] = json!({"spec": {"containers": [{"name": "x", "image": "y"}]}});
    });
    assert_eq!(given(&world.plan())["a"], next(&[&one]));
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_is_paused_or_deleted_gets_nothing() {
    for phase in ["Pausing", "Paused"] {
        let mut world = bare();
        world.ready();
        world.batch("a", 1);
        world.edit_batch("a", |batch| batch["status"] = json!({"phase": phase}));
        assert_eq!((given(&world.plan()), world.plan().unmet), (BTreeMap::new(), 0), "{phase}");
    }
    let mut world = bare();
    world.ready();
    world.batch("a", 2);
    world.edit_batch("a", |batch| batch["metadata"]["finalizers"] = json!(["some/finalizer"]));
    world.delete_batch("a");
    assert_eq!((given(&world.plan()), world.plan().unmet), (BTreeMap::new(), 0));
}

#[tokio::test(start_paused = true)]
async fn what_a_batch_lets_go_is_taken_back() {
    let mut world = bare();
    let (one, two) = (world.ready(), world.ready());
    world.batch("a", 2);
    holds(&mut world, "a", &[&one, &two], &[]);
    assert_eq!(taken_back(&world.plan()), []);
    world.wish("a", &[&two, "never"]);
    assert_eq!(taken_back(&world.plan()), [("a".to_owned(), vec![two.clone()])]);
    // It has been given back: nothing is left to be done.
    holds(&mut world, "a", &[&one, &two], &[&two]);
    assert_eq!(taken_back(&world.plan()), []);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_batch_gives_everything_back_once_its_tasks_are_stopped() {
    let mut world = bare();
    let (one, two) = (world.ready(), world.ready());
    world.batch("a", 2);
    holds(&mut world, "a", &[&one, &two], &[&one]);
    let cleanup = names::FINALIZER_TASK_CLEANUP;
    world.edit_batch("a", |batch| {
        batch["metadata"]["finalizers"] = json!([names::FINALIZER_POOL_ALLOCATION, cleanup]);
    });
    world.delete_batch("a");
    assert_eq!(taken_back(&world.plan()), []);
    world.edit_batch("a", |batch| {
        batch["metadata"]["finalizers"] = json!([names::FINALIZER_POOL_ALLOCATION]);
    });
    assert_eq!(taken_back(&world.plan()), [("a".to_owned(), vec![two])], "and only what it holds");
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_has_left_the_pool_gives_its_pods_back() {
    let mut world = bare();
    let one = world.ready();
    world.batch("a", 1);
    holds(&mut world, "a", &[&one], &[]);
    world.edit_batch("a", |batch| drop(batch["spec"].as_object_mut().unwrap().remove("poolRef")));
    assert_eq!(taken_back(&world.plan()), [("a".to_owned(), vec![one])]);
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_moves_keeps_its_pod_until_the_other_pool_has_one() {
    let mut world = bare();
    let one = world.ready();
    world.batch("a", 1);
    holds(&mut world, "a", &[&one], &[]);
    marked(&mut world, &one, "a");
    world.edit_batch("a", |batch| batch["spec"]["poolRef"] = json!("other"));
    let plan = world.plan();
    assert_eq!((taken_back(&plan), orphans(&plan)), (vec![], vec![]));
    holds(&mut world, "a", &["of-other"], &[]);
    assert_eq!(orphans(&world.plan()), [one]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_whose_batch_does_not_hold_it_is_an_orphan_also_after_a_change_of_names() {
    let mut world = bare();
    let (one, two, three) = (world.ready(), world.ready(), world.ready());
    world.batch("a", 1);
    holds(&mut world, "a", &[&one], &[]);
    marked(&mut world, &one, "a");
    marked(&mut world, &two, "a");
    marked(&mut world, &three, "gone");
    let plan = world.plan();
    assert_eq!(orphans(&plan), [two, three.clone()]);
    assert_eq!(plan.strays[0].key, key(&three));
    // The same name, but another batch.
    world.edit_batch("a", |batch| batch["metadata"]["annotations"] = json!({}));
    let place = Place::new(&BATCHES, NAMESPACE, "a");
    world.edit_batch("a", |batch| batch["metadata"]["finalizers"] = Value::Null);
    world.delete(&place);
    world.batch("a", 0);
    assert_eq!(world.plan().strays.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn the_order_in_which_batches_are_seen_does_not_matter() {
    // The first holder has given the pod back; the second holds it. Theirs gave it away again if the first
    // was listed last.
    for (first, second) in [("a", "b"), ("b", "a")] {
        let mut world = bare();
        let one = world.ready();
        world.batch("c", 1);
        for name in ["a", "b"] {
            world.batch(name, 1);
        }
        holds(&mut world, first, &[&one], &[&one]);
        holds(&mut world, second, &[&one], &[]);
        marked(&mut world, &one, second);
        let plan = world.plan();
        assert_eq!((given(&plan), plan.unmet, orphans(&plan)), (BTreeMap::new(), 1, vec![]));
        // What a batch gave back long ago does not free the pod of another.
        assert_eq!(taken_back(&plan), []);
    }
}

#[tokio::test(start_paused = true)]
async fn pods_of_an_older_operator_are_marked_for_the_batch_that_came_first() {
    let mut world = bare();
    let one = world.ready();
    world.batch("b", 1);
    world.batch("a", 1);
    holds(&mut world, "a", &[&one], &[]);
    holds(&mut world, "b", &[&one], &[]);
    let plan = world.plan();
    assert_eq!(plan.stamp.len(), 1);
    assert_eq!(plan.stamp[0].batch.key, key("b"));
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_cannot_be_read_keeps_every_pod_that_it_may_mean() {
    let mut world = bare();
    let (one, two) = (world.ready(), world.ready());
    world.batch("a", 2);
    world.edit_batch("a", |batch| {
        let text = format!("{{\"pods\":[\"{one}\"");
        batch["metadata"]["annotations"][names::ANNOTATION_ALLOC_STATUS] = json!(text);
    });
    world.batch("b", 2);
    let plan = world.plan();
    assert_eq!((given(&plan), plan.unmet), (BTreeMap::from([("b".to_owned(), next(&[&two]))]), 1));
    assert!(taken_back(&plan).is_empty() && orphans(&plan).is_empty());
}

#[tokio::test(start_paused = true)]
async fn pods_that_were_claimed_in_this_look_go_to_their_batch_or_are_freed() {
    let mut world = bare();
    let (one, two) = (world.ready(), world.ready());
    world.batch("a", 1);
    marked(&mut world, &one, "a");
    marked(&mut world, &two, "a");
    let mark = |pod: &str| {
        let annotations = &world.of_pod(pod).unwrap()["metadata"]["annotations"];
        annotations[names::ANNOTATION_ALLOCATED_TO].as_str().unwrap().into()
    };
    let claimed: Claimed = [&one, &two].iter().map(|pod| (key(pod), mark(pod))).collect();
    let plan = plan(&world.observed(), &claimed);
    assert_eq!(given(&plan).remove("a").unwrap().len(), 1);
    assert_eq!((plan.unclaim.len(), orphans(&plan)), (1, vec![]));
}

#[tokio::test(start_paused = true)]
async fn of_two_hundred_and_fifty_seven_batches_the_last_one_comes_in_the_next_look() {
    let mut world = World::new([0, 0, 0, 1000]);
    for number in 0..257 {
        world.batch(&format!("b{number}"), 1);
    }
    let plan = world.plan();
    assert_eq!((plan.unmet, plan.create, world.observed().look.more), (256, 256, true));
}
