//! Allocation as it is written, with everything that can come between.

use sandgate_objects::opensandbox::names;
use sandgate_sim::model::object::{annotation, label, list};
use sandgate_sim::model::{BATCHES, DeleteOptions, PODS, POOLS, Place};
use serde_json::json;

use super::world::{Fate, NAMESPACE, POOL, World, edit, edit_batch, key, rest, run};
use crate::{Again, Category, Reconciler as _};

fn bare() -> World {
    World::new([0, 0, 0, 100])
}

#[test]
fn a_batch_is_served_with_one_patch_for_each_pod_and_one_for_itself() {
    run(async {
        let mut world = bare();
        let (one, two) = (world.ready(), world.ready());
        world.batch("a", 2);
        world.look().await.unwrap();
        let asked = world.asked();
        let expected = [
            format!("PATCH pods/{one}"),
            format!("PATCH pods/{two}"),
            "PATCH batchsandboxes/a".to_owned(),
            "PATCH pools/pool/status".to_owned(),
        ];
        assert_eq!(asked, expected);
        assert_eq!(world.alloc("a"), [one.as_str(), &two]);
        let batch = world.of_batch("a").unwrap();
        let endpoints = json!([format!("ip-{one}"), format!("ip-{two}")]).to_string();
        assert_eq!(annotation(&batch, names::ANNOTATION_ENDPOINTS), endpoints);
        assert_eq!(list(&batch, "/metadata/finalizers"), [json!(names::FINALIZER_POOL_ALLOCATION)]);
        let pod = world.of_pod(&one).unwrap();
        let mark = format!("{}/a", batch["metadata"]["uid"].as_str().unwrap());
        assert_eq!(annotation(&pod, names::ANNOTATION_ALLOCATED_TO), mark);
        assert_eq!(label(&pod, names::LABEL_BATCH_NAME), "a");
        assert_eq!(
            world.status(),
            json!({
                "observedGeneration": 1, "revision": world.status()["revision"], "total": 2, "allocated": 2,
                "available": 0, "updated": 2,
            })
        );
        let again = world.look().await.unwrap();
        assert_eq!((again, world.asked().len()), (Again::Rarely, 0), "nothing is left to do");
    });
}

#[test]
fn other_finalizers_stay_and_a_long_name_is_no_label() {
    run(async {
        let mut world = bare();
        let pod = world.ready();
        let name = "a".repeat(64);
        world.batch(&name, 1);
        world.edit_batch(&name, |batch| batch["metadata"]["finalizers"] = json!(["else/s"]));
        world.look().await.unwrap();
        let batch = world.of_batch(&name).unwrap();
        let expected = [json!("else/s"), json!(names::FINALIZER_POOL_ALLOCATION)];
        assert_eq!(list(&batch, "/metadata/finalizers"), expected);
        assert_eq!(label(&world.of_pod(&pod).unwrap(), names::LABEL_BATCH_NAME), "");
        assert_eq!(world.mark(&pod), name);
    });
}

#[test]
fn a_pod_that_changed_is_read_and_given_after_all() {
    run(async {
        let mut world = bare();
        let pod = world.ready();
        world.batch("a", 1);
        world.meddle("PATCH pods/", |model| {
            edit(model, &Place::new(&PODS, NAMESPACE, "p1"), |pod| {
                pod["metadata"]["labels"]["x"] = json!("y");
            });
        });
        world.look().await.unwrap();
        assert_eq!(world.alloc("a"), [pod]);
        let asked = world.asked();
        assert_eq!(asked[..4], ["PATCH pods/p1", "GET pods/p1", "PATCH pods/p1", "PATCH batchsandboxes/a"]);
    });
}

#[test]
fn a_batch_that_changed_is_read_and_its_claimed_pod_is_confirmed() {
    run(async {
        let mut world = bare();
        let pod = world.ready();
        world.batch("a", 1);
        world.meddle("PATCH batchsandboxes/", |model| {
            edit_batch(model, "a", |batch| batch["metadata"]["labels"]["x"] = json!("y"));
        });
        world.look().await.unwrap();
        assert_eq!(world.alloc("a"), [pod]);
        let asked = world.asked();
        assert_eq!(
            asked[..5],
            [
                "PATCH pods/p1",
                "PATCH batchsandboxes/a",
                "GET batchsandboxes/a",
                "GET pods/p1",
                "PATCH batchsandboxes/a"
            ]
        );
    });
}

#[test]
fn a_batch_that_wants_less_meanwhile_frees_what_was_claimed_for_it() {
    run(async {
        let mut world = bare();
        let (one, two) = (world.ready(), world.ready());
        world.batch("a", 2);
        world.meddle("PATCH batchsandboxes/", |model| {
            edit_batch(model, "a", |batch| batch["spec"]["replicas"] = json!(1));
        });
        world.look().await.unwrap();
        let given = world.alloc("a");
        assert_eq!(given.len(), 1);
        let other = if given[0] == one { &two } else { &one };
        assert_eq!((world.mark(&given[0]), world.mark(other)), ("a".to_owned(), String::new()));
    });
}

#[test]
fn a_batch_that_is_gone_meanwhile_frees_what_was_claimed_for_it() {
    run(async {
        let mut world = bare();
        let pod = world.ready();
        world.batch("a", 1);
        world.meddle("PATCH batchsandboxes/", |model| {
            let place = Place::new(&BATCHES, NAMESPACE, "a");
            model.delete(&place, &DeleteOptions::default()).unwrap();
        });
        world.look().await.unwrap();
        assert_eq!(world.mark(&pod), "");
        assert!(world.of_pod(&pod).is_some(), "it was never used, so it is as good as new");
    });
}

#[test]
fn a_batch_that_changes_all_the_time_is_left_for_the_next_look() {
    run(async {
        let mut world = bare();
        let pod = world.ready();
        world.batch("a", 1);
        for _ in 0..3 {
            world.meddle("PATCH batchsandboxes/", |model| {
                edit_batch(model, "a", |batch| {
                    let times = batch["metadata"]["labels"]["x"].as_str().unwrap_or_default().len();
                    batch["metadata"]["labels"]["x"] = json!("y".repeat(times + 1));
                });
            });
        }
        let failed = world.look().await.unwrap_err();
        assert_eq!(failed.category, Category::Conflict);
        assert_eq!((world.alloc("a"), world.mark(&pod)), (vec![], String::new()));
        world.look().await.unwrap();
        assert_eq!(world.alloc("a"), [pod]);
    });
}

#[test]
fn a_claim_or_a_patch_that_is_refused_leaves_the_others_alone() {
    run(async {
        let mut world = bare();
        let (one, two) = (world.ready(), world.ready());
        world.batch("a", 1);
        world.batch("b", 1);
        // Both pods are claimed at the same time, then both batches are patched.
        world.fate(2, Fate::Refused(403));
        let failed = world.look().await.unwrap_err();
        assert_eq!(failed.category, Category::Refused);
        let given = (world.alloc("a"), world.alloc("b"));
        assert_eq!(given, (vec![], vec![two.clone()]));
        assert_eq!(world.mark(&one), "", "it is free again at once");
        world.look().await.unwrap();
        assert_eq!(world.alloc("a"), [one]);
    });
}

#[test]
fn an_answer_that_is_lost_gives_no_second_pod() {
    // Of the claim, and of the patch; each done and not.
    for (number, fate) in [(0, Fate::Unanswered), (0, Fate::Lost), (1, Fate::Unanswered), (1, Fate::Lost)] {
        run(async {
            let mut world = bare();
            let (one, two) = (world.ready(), world.ready());
            world.batch("a", 1);
            world.fate(number, fate);
            let failed = world.look().await.unwrap_err();
            assert_eq!(failed.category, Category::Unanswered);
            world.settle(true).await;
            let given = world.alloc("a");
            assert_eq!(given.len(), 1, "{number} {fate:?}");
            let other = if given[0] == one { &two } else { &one };
            assert!(world.mark(other).is_empty(), "{number} {fate:?}");
        });
    }
}

#[test]
fn a_late_patch_of_another_process_does_not_bring_an_orphan_back() {
    run(async {
        let mut world = bare();
        let pod = world.ready();
        world.batch("a", 1);
        world.recycle_by("Noop");
        // Another process claims the pod, and is slow.
        let uid = world.of_batch("a").unwrap()["metadata"]["uid"].as_str().unwrap().to_owned();
        let version = world.of_batch("a").unwrap()["metadata"]["resourceVersion"].clone();
        world.edit_pod(&pod, |pod| {
            let mark = format!("{uid}/a");
            pod["metadata"]["annotations"] = json!({names::ANNOTATION_ALLOCATED_TO: mark});
        });
        world.look().await.unwrap();
        assert_eq!(world.released("a"), [pod.as_str()], "it is fenced");
        assert_ne!(world.of_batch("a").unwrap()["metadata"]["resourceVersion"], version);
        assert_eq!(world.mark(&pod), "");
        // It may be given to the batch again once that is known.
        world.settle(true).await;
        assert_eq!(world.alloc("a"), [pod]);
        assert_eq!(world.released("a"), Vec::<String>::new());
    });
}

#[test]
fn a_slot_whose_pod_the_view_does_not_know_is_looked_for_first() {
    run(async {
        let mut world = bare();
        world.batch("a", 1);
        let world = {
            world.ready();
            world.look().await.unwrap();
            world.ready();
            world.asked();
            world
        };
        // A process whose watch of pods lags behind its watch of batches.
        let held = world.alloc("a")[0].clone();
        let version = std::num::NonZeroU64::new(10_000).unwrap().into();
        let uid = world.of_pod(&held).unwrap()["metadata"]["uid"].as_str().unwrap().to_owned();
        world.process.view.deleted(crate::view::Kind::PoolPod, &key(&held), &uid, &version);
        let _ = world.process.pools.reconcile(&key(POOL)).await;
        assert_eq!(world.alloc("a"), [held.as_str()]);
        assert!(world.asked().contains(&format!("GET pods/{held}")));
    });
}

#[test]
fn a_pod_that_was_deleted_outside_is_replaced_in_its_slot() {
    run(async {
        let mut world = bare();
        (0..2).for_each(|_| drop(world.ready()));
        world.batch("a", 2);
        world.look().await.unwrap();
        let before = world.alloc("a");
        world.lose_pod(&before[0]);
        let other = world.ready();
        world.look().await.unwrap();
        assert_eq!(world.alloc("a"), [other.as_str(), &before[1]]);
        let endpoints = json!([format!("ip-{other}"), format!("ip-{}", before[1])]).to_string();
        assert_eq!(annotation(&world.of_batch("a").unwrap(), names::ANNOTATION_ENDPOINTS), endpoints);
    });
}

#[test]
fn a_pod_that_is_ending_is_replaced_and_cannot_come_back() {
    run(async {
        let mut world = bare();
        let held = world.ready();
        world.batch("a", 1);
        world.look().await.unwrap();
        world.edit_pod(&held, |pod| pod["spec"]["terminationGracePeriodSeconds"] = json!(30));
        world.delete(&Place::new(&PODS, NAMESPACE, &held));
        let other = world.ready();
        world.look().await.unwrap();
        assert_eq!((world.alloc("a"), world.released("a")), (vec![other.clone()], vec![held.clone()]));
        world.nodes();
        world.settle(true).await;
        assert_eq!(world.alloc("a"), [other]);
    });
}

#[test]
fn pods_of_an_older_operator_are_marked_and_the_finalizer_is_added() {
    run(async {
        let mut world = bare();
        let pod = world.ready();
        world.batch("a", 1);
        world.edit_batch("a", |batch| {
            let text = json!({"pods": [pod]}).to_string();
            batch["metadata"]["annotations"] = json!({names::ANNOTATION_ALLOC_STATUS: text});
        });
        world.look().await.unwrap();
        assert_eq!((world.alloc("a"), world.mark(&pod)), (vec![pod], "a".to_owned()));
    });
}

#[test]
fn batches_of_a_pool_that_is_gone_are_not_held_up() {
    run(async {
        let mut world = bare();
        let pod = world.ready();
        for name in ["held", "deleted", "idle"] {
            world.batch(name, i32::from(name != "idle"));
        }
        world.ready();
        world.look().await.unwrap();
        world.edit_batch("idle", |batch| {
            batch["metadata"]["finalizers"] = json!(["else/s", names::FINALIZER_POOL_ALLOCATION]);
        });
        world.delete_batch("deleted");
        let place = Place::new(&POOLS, NAMESPACE, POOL);
        world.delete(&place);
        world.asked();
        assert_eq!(world.look().await.unwrap(), Again::Forget);
        assert_eq!(world.asked().len(), 3, "one read, and a patch for each of two");
        assert_eq!(world.of_batch("deleted"), None);
        assert_eq!(list(&world.of_batch("idle").unwrap(), "/metadata/finalizers"), [json!("else/s")]);
        assert_eq!(world.alloc("held"), [pod], "who lives keeps what it has");
    });
}

#[test]
fn people_are_told_once_of_a_pool_that_is_empty_and_of_one_that_is_wrong() {
    run(async {
        let mut world = World::new([0, 0, 0, 1]);
        world.batch("b", 2);
        world.settle(true).await;
        assert_eq!(world.alloc("b").len(), 1);
        assert_eq!(world.events(), ["SuccessfulCreate", "PoolExhausted"]);
        world.look().await.unwrap();
        assert!(world.events().is_empty());
        world.edit_pool(|pool| pool["spec"]["capacitySpec"]["bufferMin"] = json!(3));
        world.look().await.unwrap();
        world.look().await.unwrap();
        assert_eq!(world.events(), ["InvalidPool"]);
    });
}

#[test]
fn the_status_is_written_whatever_else_failed_and_not_more_often_than_it_may() {
    run(async {
        let mut world = World::new([1, 1, 0, 10]);
        world.fate(0, Fate::Refused(403));
        let first = world.look().await.unwrap();
        let soon = Again::After(std::time::Duration::from_secs(1));
        assert_eq!((first, world.events()), (soon, vec!["FailedCreate"]));
        assert_eq!(world.status()["total"], 0);
        world.ready();
        let again = world.look().await.unwrap();
        let Again::After(wait) = again else { panic!("{again:?}") };
        assert_eq!(world.status()["available"], 0, "not yet");
        rest(wait).await;
        world.look().await.unwrap();
        assert_eq!((&world.status()["available"], &world.status()["total"]), (&json!(1), &json!(1)));
    });
}

#[test]
fn a_create_without_an_answer_makes_one_pod() {
    for fate in [Fate::Unanswered, Fate::Lost] {
        run(async {
            let mut world = World::new([1, 1, 0, 10]);
            world.fate(0, fate);
            world.look().await.unwrap_err();
            world.settle(true).await;
            assert_eq!(world.live().len(), 1, "{fate:?}");
        });
    }
}

#[test]
fn many_pods_are_made_in_growing_batches() {
    run(async {
        let mut world = World::new([100, 100, 0, 100]);
        world.look().await.unwrap();
        assert_eq!(world.live().len(), 100);
        assert_eq!(world.plan().create, 0);
        // A refusal ends the row.
        let mut world = World::new([100, 100, 0, 100]);
        world.fate(0, Fate::Refused(403));
        world.look().await.unwrap();
        assert_eq!(world.live().len(), 15);
    });
}
