use std::sync::Arc;

use serde_json::{Value, json};

use super::super::adoption::InstanceTypes;
use super::world::*;
use crate::batch::tests::server::Fault;
use crate::{Again, Category, EnvSettings, Key, PoolAdoptionReconciler, Reconciler as _};

/// A world with the lone pool `e`.
fn world() -> World {
    let world = World::new();
    world.server.add(TEMPLATES, template());
    world.server.add(POOLS, lone_pool("e"));
    world
}

/// Looks at the pool until nothing is written any more. How many looks it took.
async fn adopt(world: &World) -> usize {
    for looks in 0..10 {
        world.writes();
        let _ = world.look_at_pool("e").await;
        if world.writes().is_empty() {
            return looks;
        }
    }
    panic!("it goes on for ever");
}

fn owners(world: &World) -> Value {
    world.pool("e")["metadata"]["ownerReferences"].clone()
}

fn owned_by(world: &World) -> Value {
    let uid = world.env()["metadata"]["uid"].clone();
    json!([{"apiVersion": "agents.navix.sh/v1alpha1", "kind": "SandboxEnv", "name": "e", "uid": uid,
        "controller": true, "blockOwnerDeletion": true}])
}

#[tokio::test]
async fn a_fresh_lone_pool_gets_an_environment_of_its_name_and_no_pod_rolls() {
    let world = world();
    let before = world.pool("e");
    assert_eq!(adopt(&world).await, 1);
    assert_eq!(world.reasons(), ["PoolAdopted"]);
    let env = world.env();
    assert_eq!(
        (&env["spec"]["templateRef"]["name"], &env["spec"]["mode"]),
        (&json!("t"), &json!("WarmPool"))
    );
    assert_eq!(env["metadata"]["labels"], json!({"scheduling.navix.sh/team": "red"}));
    assert_eq!(env["spec"]["autoscaling"]["groups"], json!([group("2c4Gi")]));
    let member = &env["spec"]["clusters"][0]["members"][0];
    assert_eq!(env["spec"]["clusters"][0]["clusterID"], "local");
    assert_eq!((&member["name"], &member["spec"]), (&json!("e"), &before["spec"]));
    let config = &member["config"];
    assert_eq!(config["scalingGroup"], "2c4Gi");
    assert_eq!(config["inlineResources"], before["spec"]["template"]["spec"]["containers"][0]["resources"]);
    assert_eq!(config["updateStrategy"], json!({"autoUpdate": false}));
    assert_eq!(member["metadata"]["annotations"], json!({"kept": "yes"}), "its own times are not frozen");
    assert_eq!(owners(&world), owned_by(&world));
    // The environment finds its pool as it wants it, but for two labels.
    world.settle().await;
    let after = world.pool("e");
    assert_eq!(after["spec"], before["spec"]);
    assert_eq!(world.condition("Ready").1, "AllMembersActive");
    assert_eq!(adopt(&world).await, 0);
}

#[tokio::test]
async fn a_crash_at_any_request_leads_to_the_same_end() {
    let end = |world: &World| {
        let env = world.env();
        assert_eq!(owners(world), owned_by(world));
        (env["spec"].clone(), world.pool("e")["spec"].clone())
    };
    let reference = world();
    adopt(&reference).await;
    let expected = end(&reference);
    for fault in Fault::ALL {
        for at in 0.. {
            let mut world = world();
            world.server.fault(at, fault);
            let killed = world.server.killed.clone();
            for _ in 0..3 {
                let died = tokio::select! {
                    biased;
                    () = killed.notified() => true,
                    _ = world.look_at_pool("e") => false,
                };
                if died {
                    world.restart();
                }
            }
            let faulted = world.server.faulted();
            adopt(&world).await;
            assert_eq!(end(&world), expected, "{fault:?} at write {at}");
            // A process that knows nothing of it writes nothing either.
            world.restart();
            assert_eq!(adopt(&world).await, 0);
            if !faulted {
                assert!(at >= 2, "two writes were cut");
                break;
            }
        }
    }
}

#[tokio::test]
async fn an_environment_that_an_admin_made_gets_the_pool_as_a_member_and_keeps_the_rest() {
    let world = world();
    let mut env = env(&[frozen("e-b", 1)]);
    env["spec"]["overrides"] = json!({"image": "own:1"});
    env["spec"]["clusters"].as_array_mut().unwrap().push(json!({"clusterID": "far", "new": 1}));
    world.server.add(ENVS, env.clone());
    adopt(&world).await;
    let after = world.env();
    let members = after["spec"]["clusters"][0]["members"].as_array().unwrap();
    assert_eq!((members.len(), &members[0], &members[1]["name"]), (2, &frozen("e-b", 1), &json!("e")));
    assert_eq!(after["spec"]["clusters"][1], json!({"clusterID": "far", "new": 1}));
    assert_eq!(after["spec"]["overrides"], env["spec"]["overrides"]);
    assert_eq!(owners(&world), owned_by(&world));
    assert_eq!(adopt(&world).await, 0, "the second time nothing is written");
    // The groups are the environment's business.
    world.settle().await;
    assert_eq!(world.env()["spec"]["autoscaling"]["groups"], json!([group("g"), group("2c4Gi")]));
}

#[tokio::test]
async fn a_member_that_is_there_already_stays_as_it_is() {
    let world = world();
    world.server.add(ENVS, env(&[frozen("e", 9)]));
    adopt(&world).await;
    assert_eq!(world.env()["spec"]["clusters"][0]["members"], json!([frozen("e", 9)]));
    assert_eq!(owners(&world), owned_by(&world));
}

#[tokio::test]
async fn after_its_environment_was_deleted_a_pool_is_left_to_the_garbage_collector_and_then_adopted_anew() {
    let world = world();
    adopt(&world).await;
    let old = owned_by(&world);
    // A deletion that takes its time: nothing is decided before it is over.
    world.server.change(ENVS, "e", |env| {
        env["metadata"]["deletionTimestamp"] = json!(EPOCH);
        env["metadata"]["finalizers"] = json!(["orphan"]);
    });
    assert_eq!(adopt(&world).await, 0);
    world.server.remove(ENVS, "e");
    assert_eq!(adopt(&world).await, 0, "an owner that is gone is the collector's to judge");
    assert_eq!((owners(&world), world.server.all(ENVS).len()), (old, 0));
    // With --cascade=orphan it takes the reference away.
    world.server.change(POOLS, "e", |pool| {
        pool["metadata"].as_object_mut().unwrap().remove("ownerReferences");
    });
    adopt(&world).await;
    assert_eq!(owners(&world), owned_by(&world));
}

#[tokio::test]
async fn a_pool_of_another_environment_of_that_name_or_of_anybody_else_is_not_adopted() {
    for owner in [
        json!({"apiVersion": "agents.navix.sh/v1alpha1", "kind": "SandboxEnv", "name": "e", "uid": "an older one"}),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "x", "controller": true}),
    ] {
        let world = World::new();
        world.server.add(ENVS, env(&[]));
        let mut pool = lone_pool("e");
        pool["metadata"]["ownerReferences"] = json!([owner]);
        world.server.add(POOLS, pool);
        assert_eq!(adopt(&world).await, 0);
        assert_eq!(owners(&world), json!([owner]));
    }
    // An owner that does not control it is no obstacle, and stays.
    let world = world();
    let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "x"});
    world.server.change(POOLS, "e", |pool| pool["metadata"]["ownerReferences"] = json!([other]));
    adopt(&world).await;
    assert_eq!(owners(&world).as_array().unwrap().len(), 2);
}

/// An adopted pool whose member is in the group `default`, in an environment with these groups.
async fn world_of_default(groups: &[Value]) -> World {
    let world = world();
    adopt(&world).await;
    world.server.change(ENVS, "e", |env| {
        env["spec"]["clusters"][0]["members"][0]["config"]["scalingGroup"] = json!("default");
        env["spec"]["autoscaling"]["groups"] = json!(groups);
    });
    world
}

/// A group of at most 8 replicas, on or off.
fn group_of_eight(name: &str, enabled: bool) -> Value {
    let mut group = group(name);
    group["enabled"] = json!(enabled);
    group["maxReplicas"] = json!(8);
    group
}

#[tokio::test]
async fn a_group_left_at_its_default_becomes_that_of_the_size_and_keeps_its_policy() {
    let sized = group_of_eight("2c4Gi", false);
    for (groups, expected) in [
        (vec![group_of_eight("default", false)], json!([sized])),
        (vec![sized.clone()], json!([sized])),
        (vec![], json!([])),
    ] {
        let world = world_of_default(&groups).await;
        assert_eq!(adopt(&world).await, 1);
        let spec = world.env()["spec"].clone();
        assert_eq!(spec["clusters"][0]["members"][0]["config"]["scalingGroup"], "2c4Gi");
        assert_eq!(spec["autoscaling"]["groups"], expected);
    }
}

#[tokio::test]
async fn a_pool_is_not_moved_out_of_a_group_that_scales_nor_into_one() {
    for groups in [
        vec![group_of_eight("default", true)],
        vec![group_of_eight("default", true), group("2c4Gi")],
        vec![group_of_eight("default", false), group_of_eight("2c4Gi", true)],
    ] {
        let world = world_of_default(&groups).await;
        let before = world.env();
        assert_eq!(adopt(&world).await, 0, "{groups:?}");
        assert_eq!(world.env(), before);
    }
}

#[tokio::test]
async fn a_pool_is_not_moved_out_of_a_default_group_that_another_member_has() {
    let mut other = frozen("e-b", 1);
    other["config"]["scalingGroup"] = json!("default");
    for cluster in ["local", "far"] {
        let world = world_of_default(&[group("default")]).await;
        world.server.change(ENVS, "e", |env| {
            let segments = env["spec"]["clusters"].as_array_mut().unwrap();
            segments.push(json!({"clusterID": cluster, "members": [other]}));
        });
        let before = world.env();
        assert_eq!(adopt(&world).await, 0, "{cluster}");
        assert_eq!(world.env(), before);
    }
}

#[tokio::test]
async fn a_pool_without_sizes_has_the_default_group_and_one_without_template_is_refused() {
    let world = World::new();
    let mut pool = lone_pool("e");
    pool["spec"]["template"]["spec"]["containers"][0].as_object_mut().unwrap().remove("resources");
    world.server.add(POOLS, pool);
    adopt(&world).await;
    let config = world.env()["spec"]["clusters"][0]["members"][0]["config"].clone();
    assert_eq!((&config["scalingGroup"], &config["inlineResources"]), (&json!("default"), &Value::Null));

    let world = World::new();
    let mut pool = lone_pool("e");
    pool["spec"]["templateName"] = json!("");
    world.server.add(POOLS, pool);
    assert_eq!(world.look_at_pool("e").await.unwrap_err().category, Category::Invalid);
    assert_eq!(world.server.all(ENVS), Vec::<Value>::new());
    world.server.change(POOLS, "e", |pool| {
        pool["metadata"]["annotations"]["agentbox.navix.sh/template-name"] = json!("t");
    });
    adopt(&world).await;
    assert_eq!(world.env()["spec"]["templateRef"]["name"], "t");
}

#[tokio::test]
async fn a_size_of_the_catalog_is_named_and_not_copied() {
    struct Catalog;
    impl InstanceTypes for Catalog {
        fn find(&self, resources: &Value) -> Option<(String, i32)> {
            (resources["limits"]["cpu"] == "2").then(|| ("small".to_owned(), 2))
        }
    }
    let world = world();
    let view = world.process.view.clone();
    world.server.watch_to(&view);
    let metrics = crate::Metrics::register(&mut Default::default());
    let writes =
        crate::Writes::new(world.server.client(), view.clone(), crate::Leadership::always(), metrics.writes);
    let EnvSettings { cluster, .. } = EnvSettings::of_cluster("local");
    let adoption =
        PoolAdoptionReconciler::new(view, writes, world.events.clone(), &cluster, Arc::new(Catalog));
    assert_eq!(adoption.reconcile(&Key::new("n", "e")).await.unwrap(), Again::Rarely);
    let config = world.env()["spec"]["clusters"][0]["members"][0]["config"].clone();
    assert_eq!((&config["instanceType"], &config["multiplier"]), (&json!("small"), &json!(2)));
    assert_eq!(config["inlineResources"], Value::Null);
}

#[tokio::test]
async fn an_environment_that_the_view_does_not_know_is_read_before_anything_is_written_to_it() {
    let world = world();
    world.server.watch_to(&world.process.view);
    world.server.add(ENVS, env(&[frozen("e-b", 1)]));
    // The watch is behind.
    world.process.adoption.reconcile(&Key::new("n", "e")).await.unwrap();
    assert_eq!(world.env()["spec"]["clusters"][0]["members"].as_array().unwrap().len(), 2);
    assert_eq!(owners(&world), owned_by(&world));
}
