//! Whatever is lost, whoever is faster, wherever the process dies: the end is the same.

use std::time::Duration;

use serde_json::{Value, json};

use super::world::*;
use crate::batch::tests::server::Fault;

/// Everything that is to be the same in the end, without what counts writes.
fn end(world: &World) -> Value {
    let mut all = json!({"envs": world.server.all(ENVS), "pools": world.server.all(POOLS)});
    for kind in ["envs", "pools"] {
        for object in all[kind].as_array_mut().unwrap() {
            let metadata = object["metadata"].as_object_mut().unwrap();
            for field in ["uid", "resourceVersion", "generation", "annotations"] {
                metadata.remove(field);
            }
            if let Some(owners) = object["metadata"]["ownerReferences"].as_array_mut() {
                owners.iter_mut().for_each(|owner| owner["uid"] = json!("u"));
            }
            if let Some(conditions) = object.pointer_mut("/status/conditions").and_then(Value::as_array_mut) {
                conditions.iter_mut().for_each(|condition| condition["observedGeneration"] = json!(0));
            }
        }
    }
    all
}

/// One look, which may be the last of its process.
async fn look(world: &mut World) {
    let killed = world.server.killed.clone();
    let died = tokio::select! {
        biased;
        () = killed.notified() => true,
        _ = world.look() => false,
    };
    if died {
        world.restart();
    }
}

/// Members come, change and go.
async fn life(fault: Option<(usize, Fault)>) -> (Value, bool) {
    let mut world = World::of(&[member("e-a", 2), frozen("e-b", 1)]);
    world.server.add("secrets", json!({"metadata": {"name": "ips-e", "namespace": "n"}}));
    if let Some((at, fault)) = fault {
        world.server.fault(at, fault);
    }
    for round in 0..3 {
        match round {
            1 => {
                world.server.change(ENVS, "e", |env| {
                    let members = env["spec"]["clusters"][0]["members"].as_array_mut().unwrap();
                    members.retain(|member| member["name"] != "e-b");
                    members.push(frozen("e-c", 3));
                });
                world.server.change_in("", TEMPLATES, "t", |template| {
                    template["spec"]["idleImage"] = json!("idle:2");
                });
            }
            2 => world.server.change(ENVS, "e", |env| {
                env["spec"]["clusters"][0]["members"][0]["spec"]["replicas"] = json!(7);
            }),
            _ => {}
        }
        for _ in 0..8 {
            look(&mut world).await;
        }
    }
    let faulted = world.server.faulted();
    world.settle().await;
    (end(&world), faulted)
}

#[tokio::test]
async fn the_end_is_the_same_whatever_becomes_of_any_write() {
    let (expected, _) = life(None).await;
    assert_eq!(expected["pools"].as_array().unwrap().len(), 2);
    let mut writes = 0;
    for fault in Fault::ALL {
        for at in 0.. {
            let run = tokio::time::timeout(Duration::from_secs(60), life(Some((at, fault)))).await;
            let (after, faulted) = run.expect("an end");
            if !faulted {
                writes += at;
                break;
            }
            assert_eq!(after, expected, "{fault:?} at write {at}");
        }
    }
    assert!(writes >= 5 * 8, "{writes} writes were cut");
}
