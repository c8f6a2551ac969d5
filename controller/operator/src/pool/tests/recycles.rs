//! Pods that come back.

use sandgate_objects::opensandbox::names;
use sandgate_sim::model::{PODS, Place};
use serde_json::json;

use super::world::{Fate, NAMESPACE, World, run};
use crate::Again;

/// A pool without a buffer, whose pods come back in this way, and a batch that has two of its pods.
async fn served(strategy: &str) -> (World, Vec<String>) {
    let mut world = World::new([0, 9, 0, 100]);
    world.recycle_by(strategy);
    (0..2).for_each(|_| drop(world.ready()));
    world.batch("a", 2);
    world.look().await.unwrap();
    let pods = world.alloc("a");
    assert_eq!(pods.len(), 2);
    world.asked();
    (world, pods)
}

#[test]
fn by_default_a_pod_that_comes_back_is_deleted() {
    run(async {
        for strategy in ["Delete", "Unheard"] {
            let (mut world, pods) = served(strategy).await;
            world.wish("a", &[&pods[1]]);
            world.look().await.unwrap();
            assert_eq!(
                world.asked()[..2],
                [format!("DELETE pods/{}", pods[1]), "PATCH batchsandboxes/a".into()]
            );
            assert_eq!((world.released("a"), world.alloc("a")), (vec![pods[1].clone()], pods.clone()));
            assert!(world.of_pod(&pods[1]).is_none());
            assert_eq!(world.mark(&pods[0]), "a");
        }
    });
}

#[test]
fn with_noop_a_pod_that_comes_back_is_given_to_the_next() {
    run(async {
        let (mut world, pods) = served("Noop").await;
        world.wish("a", &[&pods[0]]);
        world.look().await.unwrap();
        let asked = world.asked();
        assert_eq!(asked[..2], ["PATCH batchsandboxes/a".to_owned(), format!("PATCH pods/{}", pods[0])]);
        assert_eq!((world.released("a"), world.mark(&pods[0])), (vec![pods[0].clone()], String::new()));
        world.batch("b", 1);
        world.look().await.unwrap();
        assert_eq!(world.alloc("b"), [pods[0].as_str()]);
        // The old list of the first batch does not free the pod of the second.
        world.settle(true).await;
        assert_eq!(world.mark(&pods[0]), "b");
    });
}

#[test]
fn a_batch_may_ask_for_deletion_whatever_the_pool_says() {
    run(async {
        let (mut world, pods) = served("Noop").await;
        world.edit_batch("a", |batch| {
            batch["metadata"]["annotations"][names::ANNOTATION_RECYCLE] = json!("Delete");
        });
        world.delete_batch("a");
        world.look().await.unwrap();
        assert!(pods.iter().all(|pod| world.of_pod(pod).is_none()));
        assert_eq!(world.of_batch("a"), None);
    });
}

#[test]
fn the_finalizer_goes_with_the_last_pod_in_the_same_patch() {
    run(async {
        for strategy in ["Delete", "Noop"] {
            let (mut world, pods) = served(strategy).await;
            world.delete_batch("a");
            world.look().await.unwrap();
            assert_eq!(world.of_batch("a"), None);
            let patches = world.asked().into_iter().filter(|line| line.starts_with("PATCH batch")).count();
            assert_eq!(patches, 1);
            let kept = pods.iter().filter(|pod| world.of_pod(pod).is_some()).count();
            assert_eq!(kept, if strategy == "Noop" { 2 } else { 0 });
            assert!(pods.iter().all(|pod| world.mark(pod).is_empty()));
        }
    });
}

#[test]
fn tasks_are_stopped_before_pods_are_taken_back() {
    run(async {
        let (mut world, pods) = served("Delete").await;
        world.edit_batch("a", |batch| {
            batch["metadata"]["finalizers"] =
                json!([names::FINALIZER_TASK_CLEANUP, names::FINALIZER_POOL_ALLOCATION]);
        });
        world.delete_batch("a");
        world.settle(false).await;
        assert!(world.of_pod(&pods[0]).is_some());
        world.edit_batch("a", |batch| {
            batch["metadata"]["finalizers"] = json!([names::FINALIZER_POOL_ALLOCATION]);
        });
        world.look().await.unwrap();
        assert_eq!((world.of_pod(&pods[0]), world.of_batch("a")), (None, None));
    });
}

#[test]
fn a_scale_down_cuts_all_three_lists() {
    run(async {
        for strategy in ["Delete", "Noop"] {
            let (mut world, pods) = served(strategy).await;
            world.edit_batch("a", |batch| batch["spec"]["replicas"] = json!(1));
            world.wish("a", &[&pods[1]]);
            world.settle(true).await;
            assert_eq!(
                (world.alloc("a"), world.released("a")),
                (vec![pods[0].clone()], vec![]),
                "{strategy}"
            );
            let batch = world.of_batch("a").unwrap();
            assert_eq!(batch["metadata"]["annotations"].get(names::ANNOTATION_ALLOC_RELEASE), None);
            // And up again, with the same pod if it is the only one.
            world.edit_batch("a", |batch| batch["spec"]["replicas"] = json!(2));
            world.settle(true).await;
            assert_eq!(world.alloc("a").len(), 2, "{strategy}");
        }
    });
}

#[test]
fn a_pod_that_was_let_go_is_replaced_in_its_slot_while_the_batch_wants_as_many() {
    run(async {
        for strategy in ["Delete", "Noop"] {
            let (mut world, pods) = served(strategy).await;
            world.wish("a", &[&pods[0]]);
            world.settle(true).await;
            let now = world.alloc("a");
            assert_eq!((now.len(), &now[1]), (2, &pods[1]), "{strategy}");
            assert!(now[0] != pods[0] && world.of_pod(&now[0]).is_some(), "{strategy}: {now:?}");
            assert_eq!(world.wished("a"), Vec::<String>::new());
            assert_eq!((world.mark(&now[0]), world.mark(&pods[0])), ("a".to_owned(), String::new()));
        }
    });
}

#[test]
fn a_scale_up_that_comes_before_the_cut_is_served() {
    run(async {
        for strategy in ["Delete", "Noop"] {
            let mut world = World::new([0, 9, 0, 3]);
            world.recycle_by(strategy);
            (0..3).for_each(|_| drop(world.ready()));
            world.batch("a", 3);
            world.look().await.unwrap();
            let pods = world.alloc("a");
            world.edit_batch("a", |batch| batch["spec"]["replicas"] = json!(1));
            world.wish("a", &[&pods[1], &pods[2]]);
            world.edit_batch("a", |batch| batch["spec"]["replicas"] = json!(3));
            world.settle(true).await;
            let now = world.alloc("a");
            assert_eq!((now.len(), &now[0]), (3, &pods[0]), "{strategy}");
            assert!(now.iter().all(|pod| world.mark(pod) == "a"), "{strategy}: {now:?}");
            assert_eq!((world.wished("a"), world.released("a")), (vec![], vec![]), "{strategy}");
        }
    });
}

#[test]
fn a_replica_whose_task_is_done_is_not_replaced_where_pods_are_released_then() {
    run(async {
        for (policy, done, expected) in [("Release", true, 1), ("Release", false, 2), ("Retain", true, 2)] {
            let (mut world, pods) = served("Delete").await;
            world.edit_batch("a", |batch| {
                batch["spec"]["taskTemplate"] = json!({"spec": {"process": {"command": ["run"]}}});
                batch["spec"]["taskResourcePolicyWhenCompleted"] = json!(policy);
                if done {
                    let text = json!({"succeeded": [0]}).to_string();
                    batch["metadata"]["annotations"][crate::tasks::ANNOTATION_TASKS_DONE] = json!(text);
                }
            });
            world.wish("a", &[&pods[0]]);
            world.settle(true).await;
            let living = world.alloc("a").iter().filter(|pod| world.of_pod(pod).is_some()).count();
            assert_eq!(living, expected, "{policy} {done}");
        }
    });
}

#[test]
fn a_pod_that_is_gone_already_is_noted_after_it_was_looked_for() {
    run(async {
        let (mut world, pods) = served("Noop").await;
        world.lose_pod(&pods[1]);
        world.wish("a", &[&pods[1]]);
        world.look().await.unwrap();
        assert_eq!(
            world.asked()[..2],
            [format!("GET pods/{}", pods[1]), "PATCH batchsandboxes/a".to_owned()]
        );
        assert_eq!(world.released("a"), [pods[1].as_str()]);
    });
}

#[test]
fn a_pod_that_is_somebody_elses_is_not_recycled_for_a_batch_that_claims_it() {
    run(async {
        let (mut world, pods) = served("Delete").await;
        world.batch("b", 1);
        world.edit_batch("b", |batch| {
            batch["metadata"]["finalizers"] = json!([names::FINALIZER_POOL_ALLOCATION]);
            let text = json!({"pods": [pods[0]]}).to_string();
            batch["metadata"]["annotations"] =
                json!({names::ANNOTATION_ALLOC_STATUS: text, names::ANNOTATION_ALLOC_RELEASE: text});
        });
        let pool = super::world::key(super::world::POOL);
        let _ = crate::Reconciler::reconcile(&world.process.pools, &pool).await;
        assert!(world.of_pod(&pods[0]).is_some());
        assert_eq!((world.mark(&pods[0]), world.released("b")), ("a".to_owned(), vec![pods[0].clone()]));
    });
}

#[test]
fn a_batch_that_lists_what_is_not_its_own_is_deleted_without_it() {
    run(async {
        for case in ["of another batch", "without the label", "without a controller"] {
            let (mut world, pods) = served("Restart").await;
            if case == "of another batch" {
                world.batch("b", 1);
                world.edit_batch("b", |batch| {
                    batch["metadata"]["finalizers"] = json!([names::FINALIZER_POOL_ALLOCATION]);
                    let text = json!({"pods": [pods[0]]}).to_string();
                    batch["metadata"]["annotations"] = json!({names::ANNOTATION_ALLOC_STATUS: text});
                });
            } else {
                world.edit_pod(&pods[0], |pod| match case {
                    "without the label" => {
                        drop(
                            pod["metadata"]["labels"].as_object_mut().unwrap().remove(names::LABEL_POOL_NAME),
                        );
                    }
                    _ => drop(pod["metadata"].as_object_mut().unwrap().remove("ownerReferences")),
                });
                world.lose_pod(&pods[1]);
            }
            let name = if case == "of another batch" { "b" } else { "a" };
            world.delete_batch(name);
            let pool = super::world::key(super::world::POOL);
            for _ in 0..3 {
                let _ = crate::Reconciler::reconcile(&world.process.pools, &pool).await;
                world.show();
            }
            assert_eq!(world.of_batch(name), None, "{case}");
            assert!(world.of_pod(&pods[0]).is_some(), "{case}");
            assert_eq!(world.mark(&pods[0]), "a", "{case}");
        }
    });
}

#[test]
fn a_restart_records_runs_and_frees_when_every_container_is_another() {
    run(async {
        let (mut world, pods) = served("Restart").await;
        world.wish("a", &[&pods[0]]);
        let again = world.look().await.unwrap();
        assert!(matches!(again, Again::After(wait) if wait.as_secs() == 30), "{again:?}");
        assert_eq!(world.restarts().await, [format!("{} main: kill 1", pods[0])]);
        assert_eq!(world.released("a"), Vec::<String>::new());
        let again = world.look().await.unwrap();
        assert!(matches!(again, Again::After(_)));
        assert!(world.restarts().await.is_empty(), "not twice");
        world.restarted(&pods[0]);
        world.look().await.unwrap();
        assert_eq!((world.released("a"), world.mark(&pods[0])), (vec![pods[0].clone()], String::new()));
        let pod = world.of_pod(&pods[0]).unwrap();
        assert_eq!(pod["metadata"]["annotations"].get(names::ANNOTATION_RESTART_RECORD), None);
        world.batch("b", 1);
        world.look().await.unwrap();
        assert_eq!(world.alloc("b"), [pods[0].as_str()]);
    });
}

#[test]
fn a_restart_that_does_not_come_about_is_tried_three_times_and_then_the_pod_is_deleted() {
    run(async {
        let (mut world, pods) = served("Restart").await;
        world.wish("a", &[&pods[0]]);
        let mut tries = Vec::new();
        for _ in 0..4 {
            world.look().await.unwrap();
            tries.push(world.restarts().await.len());
            world.pass(31);
        }
        assert_eq!(tries, [1, 1, 1, 0]);
        assert_eq!(world.released("a"), [pods[0].as_str()]);
        assert!(world.of_pod(&pods[0]).is_none());
    });
}

#[test]
fn a_process_that_dies_does_not_restart_a_pod_more_often_than_it_may() {
    run(async {
        let (mut world, pods) = served("Restart").await;
        world.wish("a", &[&pods[0]]);
        world.look().await.unwrap();
        assert_eq!(world.restarts().await.len(), 1);
        world.restart();
        world.look().await.unwrap();
        assert!(world.restarts().await.is_empty());
        world.pass(31);
        world.look().await.unwrap();
        assert_eq!(world.restarts().await.len(), 1);
    });
}

#[test]
fn the_restart_is_configured_by_the_pool() {
    run(async {
        let (mut world, pods) = served("Restart").await;
        world.edit_pool(|pool| {
            let config = json!({"restartCommand": ["stop", "now"], "retryInterval": "12s", "maxRetries": 1});
            pool["metadata"]["annotations"] = json!({names::ANNOTATION_RESTART_CONFIG: config.to_string()});
        });
        world.wish("a", &[&pods[0]]);
        world.look().await.unwrap();
        assert_eq!(world.restarts().await, [format!("{} main: stop now", pods[0])]);
        world.pass(13);
        world.look().await.unwrap();
        assert!(world.of_pod(&pods[0]).is_none());
    });
}

#[test]
fn a_pod_that_is_restarted_does_not_keep_others_from_their_pods() {
    run(async {
        let (mut world, pods) = served("Restart").await;
        world.wish("a", &[&pods[0]]);
        let free = world.ready();
        world.batch("b", 1);
        world.look().await.unwrap();
        assert_eq!(world.alloc("b"), [free]);
    });
}

#[test]
fn an_orphan_of_a_batch_that_is_gone_is_recycled_after_the_batch_was_looked_for() {
    run(async {
        let mut world = World::new([0, 9, 0, 100]);
        let pod = world.ready();
        world.edit_pod(&pod, |pod| {
            pod["metadata"]["annotations"] = json!({names::ANNOTATION_ALLOCATED_TO: "uid/gone"});
        });
        world.look().await.unwrap();
        assert_eq!(world.asked()[..2], ["GET batchsandboxes/gone".to_owned(), format!("DELETE pods/{pod}")]);
    });
}

#[test]
fn an_orphan_whose_batch_is_not_seen_yet_is_kept() {
    run(async {
        let mut world = World::new([0, 9, 0, 100]);
        let pod = world.ready();
        // Made by the other process; the watch of batches is slow.
        let batch = json!({"metadata": {"name": "b"}, "spec": {"replicas": 1, "poolRef": "pool"}});
        let made = world.model.lock().create(&sandgate_sim::model::BATCHES, NAMESPACE, batch).unwrap();
        let mark = format!("{}/b", made["metadata"]["uid"].as_str().unwrap());
        let place = Place::new(&PODS, NAMESPACE, &pod);
        let object = {
            let mut model = world.model.lock();
            let mut object = serde_json::Value::clone(model.get(&place).unwrap());
            object["metadata"]["annotations"] = json!({names::ANNOTATION_ALLOCATED_TO: mark});
            model.put(&place, object)
        };
        world.process.view.observe_json(crate::view::Kind::PoolPod, object.to_string().as_bytes()).unwrap();
        let pool = super::world::key(super::world::POOL);
        let _ = crate::Reconciler::reconcile(&world.process.pools, &pool).await;
        let asked = world.asked();
        assert_eq!(asked[0], "GET batchsandboxes/b");
        // Now that it is seen, the pod is fenced before anything else.
        let fence = asked.iter().position(|line| line == "PATCH batchsandboxes/b").unwrap();
        let deleted = asked.iter().position(|line| line.starts_with("DELETE")).unwrap();
        assert!(fence < deleted, "{asked:?}");
    });
}

#[test]
fn a_write_that_fails_on_the_way_back_is_done_in_the_next_look() {
    for (strategy, requests) in [("Delete", 2), ("Noop", 2), ("Restart", 1)] {
        for number in 0..requests {
            for fate in [Fate::Lost, Fate::Unanswered, Fate::Refused(403)] {
                run(async {
                    let (mut world, pods) = served(strategy).await;
                    world.wish("a", &[&pods[0]]);
                    world.fate(number, fate);
                    let _ = world.look().await;
                    for _ in 0..4 {
                        let _ = world.look().await;
                        if !world.restarts().await.is_empty() {
                            world.restarted(&pods[0]);
                        }
                        world.pass(31);
                    }
                    world.settle(true).await;
                    let released = world.released("a");
                    assert_eq!(released, [pods[0].as_str()], "{strategy} {number} {fate:?}");
                    assert_eq!(world.mark(&pods[0]), "");
                });
            }
        }
    }
}

#[test]
fn an_orphan_is_not_freed_by_what_an_old_version_of_its_batch_says() {
    run(async {
        let (mut world, pods) = served("Noop").await;
        let text = json!({"pods": [pods[1]]}).to_string();
        world.edit_batch("a", |batch| {
            batch["metadata"]["annotations"][names::ANNOTATION_ALLOC_RELEASED] = json!(text);
        });
        // Another process has taken the name out of the list since, and nobody has shown it.
        world.edit_unseen("a", |batch| {
            let annotations = batch["metadata"]["annotations"].as_object_mut().unwrap();
            annotations.remove(names::ANNOTATION_ALLOC_RELEASED);
        });
        let _ = world.look().await;
        assert_eq!((world.mark(&pods[1]), world.released("a")), ("a".to_owned(), vec![]));
    });
}

#[test]
fn a_name_stays_in_the_list_while_the_pod_has_the_mark() {
    run(async {
        let (mut world, pods) = served("Restart").await;
        world.edit_batch("a", |batch| batch["spec"]["replicas"] = json!(1));
        // The one that wrote this died before it freed the pod.
        let text = json!({"pods": [pods[1]]}).to_string();
        world.edit_batch("a", |batch| {
            for list in [names::ANNOTATION_ALLOC_RELEASE, names::ANNOTATION_ALLOC_RELEASED] {
                batch["metadata"]["annotations"][list] = json!(text);
            }
        });
        world.look().await.unwrap();
        assert_eq!((world.alloc("a"), world.released("a")), (pods.clone(), vec![pods[1].clone()]));
        assert_eq!(world.restarts().await.len(), 1);
        world.restarted(&pods[1]);
        world.settle(true).await;
        assert_eq!((world.alloc("a"), world.released("a")), (vec![pods[0].clone()], vec![]));
    });
}
