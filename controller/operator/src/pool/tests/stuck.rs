//! Idle pods that do not become ready.

use sandgate_objects::opensandbox::names;
use sandgate_sim::model::object::{self, text};
use sandgate_sim::model::{DeleteOptions, PODS, Place};
use serde_json::json;

use super::world::{NAMESPACE, World, edit, run};
use crate::Again;

/// A pool of these terms that grows by a quarter at a time, which is the default.
fn pool(terms: [i32; 4]) -> World {
    let mut world = World::new(terms);
    world.edit_pool(|pool| drop(pool["spec"].as_object_mut().unwrap().remove("scaleStrategy")));
    world
}

/// A pod whose image cannot be had.
fn failing(world: &mut World) -> String {
    let pod = world.pod_in("Pending", false);
    waits(world, &pod, "ImagePullBackOff");
    pod
}

fn waits(world: &mut World, pod: &str, reason: &str) {
    world.edit_pod(pod, |pod| {
        pod["status"]["containerStatuses"][0]["state"] = json!({"waiting": {"reason": reason}});
    });
}

/// The node of every pod cannot get its image, and what is ending is gone.
fn no_image(world: &mut World) {
    let mut model = world.model.lock();
    let all: Vec<_> = model.list(&PODS).cloned().collect();
    let now = model.now().to_string();
    for pod in all {
        let place = Place::new(&PODS, NAMESPACE, text(&pod, "/metadata/name"));
        if object::deleting(&pod) {
            let options = DeleteOptions { grace: Some(0), ..DeleteOptions::default() };
            model.delete(&place, &options).unwrap();
        } else if text(&pod, "/spec/nodeName").is_empty() {
            edit(&mut model, &place, |pod| {
                pod["spec"]["nodeName"] = json!("node");
                pod["status"] = json!({
                    "phase": "Pending",
                    "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": now}],
                    "containerStatuses": [{"name": "main", "state": {"waiting": {"reason": "ErrImagePull"}}}],
                });
            });
        }
    }
    drop(model);
    world.show();
}

#[test]
fn a_pod_that_cannot_start_does_not_keep_others_from_theirs() {
    run(async {
        let mut world = pool([1, 1, 0, 10]);
        let stuck = failing(&mut world);
        world.batch("a", 1);
        let again = world.look().await.unwrap();
        assert!(matches!(again, Again::After(wait) if wait.as_secs() <= 60), "{again:?}");
        assert_eq!(world.live(), [stuck.as_str()]);
        world.pass(60);
        world.events();
        world.look().await.unwrap();
        assert!(world.of_pod(&stuck).is_none());
        assert!(world.events().contains(&"PodNotReady"));
        assert_eq!(world.live().len(), 1, "another one is made at once");
        world.settle(true).await;
        assert_eq!((world.alloc("a").len(), world.live().len()), (1, 2));
    });
}

#[test]
fn pods_of_an_image_that_does_not_exist_are_replaced_ever_more_rarely() {
    run(async {
        let mut world = World::new([4, 4, 0, 10]);
        let mut made = 0;
        let mut made_in = Vec::new();
        for _ in 0..4 {
            let before = made;
            for _ in 0..180 {
                let _ = world.look().await;
                made += world.asked().iter().filter(|line| *line == "POST pods").count();
                no_image(&mut world);
                world.pass(5);
                assert!(world.live().len() <= 4);
            }
            made_in.push((made - before) / 4);
        }
        // Each quarter of an hour.
        assert!((9..=12).contains(&made_in[0]), "{made_in:?}");
        assert!(made_in[1..].iter().all(|rounds| (2..=3).contains(rounds)), "{made_in:?}");
    });
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_given_up_after_its_patience() {
    // What happens to it, and how old it is when it is given up.
    let cases = [
        (Some(names::FAILED_WAITING[0]), true, Some(60)),
        (Some(names::FAILED_WAITING[3]), true, Some(60)),
        (Some("ContainerCreating"), true, Some(600)),
        (None, true, Some(600)),
        (None, false, None),
    ];
    for (reason, has_node, expected) in cases {
        let mut world = pool([1, 1, 0, 10]);
        let pod = world.pod_in("Pending", false);
        if let Some(reason) = reason {
            waits(&mut world, &pod, reason);
        }
        if !has_node {
            world.edit_pod(&pod, |pod| drop(pod["spec"].as_object_mut().unwrap().remove("nodeName")));
        }
        let given_up =
            world.plan().again.map(|at| at.duration_since(crate::Clock::now(&*world.clock)).as_secs());
        assert_eq!(given_up, expected, "{reason:?} {has_node}");
        let age = expected.unwrap_or(100_000);
        world.pass(age - 1);
        assert!(world.plan().stuck.is_empty(), "{reason:?}");
        world.pass(1);
        let plan = world.plan();
        assert_eq!((plan.stuck.len(), plan.create), (usize::from(expected.is_some()), plan.stuck.len()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_was_ready_has_its_patience_from_when_it_was_not_any_more() {
    let mut world = pool([1, 1, 0, 10]);
    let pod = world.ready();
    world.pass(5000);
    let now = crate::Clock::now(&*world.clock).to_string();
    world.edit_pod(&pod, |pod| {
        pod["status"]["conditions"] =
            json!([{"type": "Ready", "status": "False", "lastTransitionTime": now}]);
    });
    world.pass(599);
    assert!(world.plan().stuck.is_empty());
    world.pass(1);
    assert_eq!(world.plan().stuck.len(), 1);
}

#[test]
fn a_pod_that_a_batch_holds_is_never_given_up() {
    run(async {
        let mut world = pool([0, 0, 0, 10]);
        let pod = world.ready();
        world.batch("a", 1);
        world.look().await.unwrap();
        world.edit_pod(&pod, |pod| pod["status"]["conditions"][0]["status"] = json!("False"));
        waits(&mut world, &pod, "CrashLoopBackOff");
        world.pass(5000);
        assert!(world.plan().stuck.is_empty());
        world.look().await.unwrap();
        assert_eq!(world.live(), [pod]);
    });
}
