//! Pods that name a pool and are not its own.

use sandgate_sim::model::object;
use serde_json::{Value, json};

use super::world::{World, pod_place, run};

/// Gives a pod of the pool to another object, or to nobody.
fn give(world: &mut World, name: &str, uid: Option<&str>) {
    world.edit_pod(name, |pod| match uid {
        Some(uid) => pod["metadata"]["ownerReferences"][0]["uid"] = json!(uid),
        None => drop(pod["metadata"].as_object_mut().unwrap().remove("ownerReferences")),
    });
}

fn is_deleting(world: &World, name: &str) -> bool {
    object::deleting(world.model.lock().get(&pod_place(name)).unwrap())
}

#[test]
fn a_pod_that_the_pool_does_not_control_does_not_stand_in_for_one_and_is_left_alone() {
    for uid in [Some("another"), None] {
        run(async {
            let mut world = World::ready(2).await;
            let name = world.live()[0].clone();
            give(&mut world, &name, uid);
            let before: Value = world.pod(&name).unwrap();
            world.settle().await;
            assert_eq!(world.live().len(), 3, "two of its own and this one");
            assert_eq!((world.counts().idle_ready, &world.pool()["status"]["idleReplicas"]), (2, &json!(2)));
            world.scale(0);
            world.settle().await;
            assert_eq!(world.live(), std::slice::from_ref(&name), "it is no surplus of the pool");
            assert_eq!(world.pod(&name).unwrap(), before, "and nothing is written to it");
            assert!(!is_deleting(&world, &name));
        });
    }
}
