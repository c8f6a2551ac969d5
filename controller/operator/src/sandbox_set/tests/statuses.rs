//! What the status of a set says.

use serde_json::json;

use super::fixture::World;
use crate::conditions;

#[test]
fn the_status_counts_what_there_is_and_names_the_revisions() {
    let mut world = World::new(4);
    let status = world.status();
    let first = status.update_revision.clone();
    assert_eq!((status.replicas, &status.current_revision), (0, &first));
    assert_eq!(status.observed_generation, Some(1));
    let selector = "agents.kruise.io/sandbox-pool=pool,agents.kruise.io/sandbox-claimed=false";
    assert_eq!(status.selector.as_deref(), Some(selector));

    (0..2).for_each(|_| drop(world.ready()));
    world.make();
    let written = json!(world.status());
    world.write_set(|set| set["status"] = written);
    world.image("b");
    world.ready();
    let status = world.status();
    assert_eq!((status.replicas, status.available_replicas), (4, 3));
    assert_eq!((status.updated_replicas, status.updated_available_replicas), (1, 1));
    assert_eq!(status.current_revision, first, "not all are of the new one");
    assert_ne!(status.update_revision, first);

    let names: Vec<_> = world.sandboxes.keys().cloned().collect();
    for name in names {
        world.delete(&name);
    }
    world.ready();
    let status = world.status();
    assert_eq!(status.current_revision, status.update_revision);
}

#[test]
fn trouble_is_a_condition_and_goes_with_its_cause() {
    let mut world = World::new(1);
    world.write_set(|set| set["spec"] = json!({"replicas": 1, "templateRef": {"name": "t"}}));
    let status = world.status();
    assert_eq!(conditions::reason(&status.conditions, "ReplicaFailure"), "TemplateNotFound");
    let written = json!(status);
    world.write_set(|set| {
        set["status"] = written;
        set["spec"]["template"] = json!({"spec": {"containers": []}});
    });
    assert!(world.status().conditions.is_empty());
}

#[test]
fn the_status_of_what_did_not_change_is_the_same() {
    let mut world = World::new(1);
    world.ready();
    let status = world.status();
    let written = json!(status);
    world.write_set(|set| set["status"] = written);
    world.now += 1000;
    assert_eq!(world.status(), status);
}
