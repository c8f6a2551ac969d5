//! Batches that leave a pool, and what they leave behind in its pods.

use sandgate_objects::opensandbox::names;
use sandgate_sim::model::object::annotation;
use serde_json::{Value, json};

use super::world::{World, run};

/// A pool whose pods are kept as they are, and a batch that has two of them.
async fn served(has_tasks: bool) -> (World, Vec<String>) {
    let mut world = World::new([0, 9, 0, 100]);
    world.recycle_by("Noop");
    (0..2).for_each(|_| drop(world.ready()));
    world.batch("a", 2);
    if has_tasks {
        world.edit_batch("a", |batch| {
            batch["spec"]["taskTemplate"] = json!({"spec": {"process": {"command": ["run"]}}});
            batch["metadata"]["finalizers"] = json!([names::FINALIZER_TASK_CLEANUP]);
        });
    }
    world.look().await.unwrap();
    let pods = world.alloc("a");
    assert_eq!(pods.len(), 2);
    world.asked();
    (world, pods)
}

fn unpooled(batch: &mut Value) {
    drop(batch["spec"].as_object_mut().unwrap().remove("poolRef"));
}

/// Another pool has given the batch its pods.
fn moved(batch: &mut Value) {
    batch["spec"]["poolRef"] = json!("other");
    let text = json!({"pods": ["of-other-1", "of-other-2"]}).to_string();
    batch["metadata"]["annotations"][names::ANNOTATION_ALLOC_STATUS] = json!(text);
}

/// The batch is paused, and its executors have not answered.
fn paused(batch: &mut Value) {
    let pods = annotation(batch, names::ANNOTATION_ALLOC_STATUS).to_owned();
    let annotations = batch["metadata"]["annotations"].as_object_mut().unwrap();
    drop(annotations.remove(names::ANNOTATION_ALLOC_STATUS));
    annotations.insert(names::ANNOTATION_ALLOC_RELEASED.to_owned(), json!(pods));
    let finalizers = batch["metadata"]["finalizers"].as_array_mut().unwrap();
    finalizers.retain(|name| name != names::FINALIZER_POOL_ALLOCATION);
    batch["status"] = json!({"phase": "Paused"});
    unpooled(batch);
}

/// The batch has left the pool, and is being deleted: the tasks of the pods that it has now are stopped.
fn moved_and_ending(batch: &mut Value) {
    moved(batch);
    batch["metadata"]["finalizers"] = json!([names::FINALIZER_POOL_ALLOCATION]);
    batch["metadata"]["deletionTimestamp"] = json!("1970-01-12T13:46:40Z");
}

#[test]
fn a_pod_that_may_have_a_task_is_deleted_however_its_batch_left() {
    for (how, leave) in [
        ("unpooled", unpooled as fn(&mut Value)),
        ("moved", moved),
        ("paused", paused),
        ("moved and ending", moved_and_ending),
    ] {
        run(async {
            let (mut world, pods) = served(true).await;
            world.edit_batch("a", leave);
            world.look().await.unwrap();
            assert!(pods.iter().all(|pod| world.of_pod(pod).is_none()), "{how}");
            // One without tasks leaves its pods as the pool wants them.
            let (mut world, pods) = served(false).await;
            world.edit_batch("a", leave);
            world.look().await.unwrap();
            assert!(
                pods.iter().all(|pod| world.of_pod(pod).is_some() && world.mark(pod).is_empty()),
                "{how}"
            );
        });
    }
}

#[test]
fn a_pod_that_was_cleared_is_kept() {
    run(async {
        // By the batch, before it let the pod go.
        let (mut world, pods) = served(true).await;
        world.wish("a", &[&pods[1]]);
        world.edit_batch("a", unpooled);
        world.look().await.unwrap();
        assert!(world.of_pod(&pods[0]).is_none());
        assert!(world.of_pod(&pods[1]).is_some() && world.mark(&pods[1]).is_empty());
        // With all the others, before the batch is deleted.
        let (mut world, pods) = served(true).await;
        world.delete_batch("a");
        world.edit_batch("a", |batch| {
            batch["metadata"]["finalizers"] = json!([names::FINALIZER_POOL_ALLOCATION]);
        });
        world.look().await.unwrap();
        assert_eq!(world.of_batch("a"), None);
        assert!(pods.iter().all(|pod| world.of_pod(pod).is_some() && world.mark(pod).is_empty()));
    });
}

#[test]
fn a_pod_of_a_batch_that_nobody_knows_any_more_is_deleted() {
    run(async {
        let (mut world, pods) = served(true).await;
        world.edit_batch("a", |batch| batch["metadata"]["finalizers"] = json!([]));
        world.delete_batch("a");
        world.look().await.unwrap();
        assert!(pods.iter().all(|pod| world.of_pod(pod).is_none()));
    });
}

#[test]
fn a_batch_that_gives_a_pod_back_does_not_name_its_address_any_more() {
    run(async {
        let (mut world, pods) = served(false).await;
        let addresses =
            |world: &World| annotation(&world.of_batch("a").unwrap(), names::ANNOTATION_ENDPOINTS).to_owned();
        assert_eq!(
            addresses(&world),
            json!([format!("ip-{}", pods[0]), format!("ip-{}", pods[1])]).to_string()
        );
        world.edit_batch("a", unpooled);
        // When the pods are freed, the patch that says so has been written.
        world.meddle("PATCH pods/", |model| {
            let place =
                sandgate_sim::model::Place::new(&sandgate_sim::model::BATCHES, super::world::NAMESPACE, "a");
            assert_eq!(annotation(model.get(&place).unwrap(), names::ANNOTATION_ENDPOINTS), "[]");
        });
        world.look().await.unwrap();
        assert_eq!(addresses(&world), "[]");
        assert!(pods.iter().all(|pod| world.mark(pod).is_empty()));
    });
}
