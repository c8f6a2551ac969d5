//! What the autoscaler decides reaches the environment.

use sandgate_sim::model::{ENVS, Place};
use serde_json::{Value, json};

use super::world::{Fate, NAMESPACE, POOL, World, edit, pool_place, run};

fn env_place() -> Place {
    Place::new(&ENVS, NAMESPACE, "e")
}

/// A pool without pods, whose group scales by itself, and which three claims wait for.
fn world() -> World {
    let mut world = World::new(0);
    let member = |name: &str| json!({"name": name, "spec": {"replicas": 0, "unknown": 1}, "config": {"scalingGroup": "g"}});
    let env = json!({
        "metadata": {"name": "e"},
        "spec": {
            "templateRef": {"name": "t"},
            "clusters": [
                {"clusterID": "far", "members": [member(POOL)]},
                {"clusterID": "local", "members": [member("sibling"), member(POOL)]},
            ],
            "autoscaling": {"groups": [{"name": "g", "enabled": true}]},
        },
    });
    let made = world.model.lock().create(&ENVS, NAMESPACE, env).unwrap();
    owned_by(&mut world, &made["metadata"]["uid"]);
    waiting(&mut world);
    world
}

/// The pool is that of the environment with this UID.
fn owned_by(world: &mut World, uid: &Value) {
    world.edit_pool(|pool| {
        pool["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "agents.navix.sh/v1alpha1", "kind": "SandboxEnv", "name": "e", "uid": uid,
            "controller": true,
        }]);
    });
}

fn waiting(world: &mut World) {
    let now = world.model.lock().now().to_string();
    world.edit_pool(|pool| {
        pool["metadata"]["annotations"] = json!({"sandgate.dev/pending-a": format!("3@{now}")});
    });
}

fn env(world: &World) -> Value {
    Value::clone(world.model.lock().get(&env_place()).unwrap())
}

/// The replicas of each member, in the order of the object.
fn replicas(world: &World) -> Vec<i64> {
    let env = env(world);
    let segments = env["spec"]["clusters"].as_array().unwrap().iter();
    let members = segments.flat_map(|segment| segment["members"].as_array().unwrap());
    members.map(|member| member["spec"]["replicas"].as_i64().unwrap()).collect()
}

fn told(world: &World) -> Vec<&'static str> {
    world.process.events.take().into_iter().map(|event| event.reason).collect()
}

#[test]
fn claims_that_wait_raise_the_member_of_this_cluster_and_nothing_else() {
    run(async {
        let mut world = world();
        world.look().await.unwrap();
        assert_eq!(replicas(&world), [0, 0, 4]);
        assert_eq!(env(&world)["spec"]["clusters"][1]["members"][1]["spec"]["unknown"], 1);
        assert_eq!(told(&world), ["AutoscalerScaleUp"]);
        let autoscaling = world.pool()["status"]["autoscaling"].clone();
        assert_eq!(autoscaling["lastScaleUpAttemptResult"], "Enough");
        assert!(autoscaling["lastScaleUpTime"].is_string());
        // The pool follows by the reconciler of environments. This one decides nothing a second time.
        world.look().await.unwrap();
        assert_eq!((replicas(&world), told(&world)), (vec![0, 0, 4], vec![]));
        assert_eq!(world.pool()["spec"]["replicas"], 0);
    });
}

/// A manager writes how many claims wait, between the decision and the status that says when it was made.
#[test]
fn that_a_pool_has_grown_is_written_though_others_write_to_it() {
    run(async {
        let mut world = world();
        world.meddle("/status", |model| {
            edit(model, &pool_place(), |pool| {
                pool["metadata"]["annotations"]["sandgate.dev/pending-b"] = json!("1@2020-01-01T00:00:00Z");
            });
        });
        world.look().await.unwrap();
        assert_eq!(replicas(&world), [0, 0, 4]);
        let autoscaling = world.pool()["status"]["autoscaling"].clone();
        assert!(autoscaling["lastScaleUpTime"].is_string(), "{autoscaling}");
    });
}

/// What the managers say is some seconds old: three claims waited, and have been served since.
#[test]
fn claims_that_were_served_since_they_were_counted_do_not_make_the_pool_grow_again() {
    run(async {
        let mut world = world();
        world.look().await.unwrap();
        assert_eq!(replicas(&world), [0, 0, 4]);
        world.scale(4);
        world.settle().await;
        world.pass(40);
        waiting(&mut world);
        world.pass(1);
        for _ in 0..3 {
            world.claim_any().unwrap();
        }
        for _ in 0..2 {
            world.look().await.unwrap();
            world.nodes();
        }
        assert_eq!(replicas(&world), [0, 0, 4], "the pool grew for sandboxes that there are");
    });
}

#[test]
fn a_decision_on_an_older_environment_is_made_anew() {
    run(async {
        let mut world = world();
        // A sibling grows at the same time, and the group has room for five.
        world.meddle("PATCH sandboxenvs", |model| {
            edit(model, &env_place(), |env| {
                env["spec"]["clusters"][1]["members"][1]["config"]["maxReplicas"] = json!(2);
                env["metadata"]["generation"] = json!(9);
            });
        });
        world.look().await.unwrap();
        assert_eq!(replicas(&world), [0, 0, 2]);
        assert_eq!(told(&world), ["AutoscalerScaleUp"]);
        assert_eq!(env(&world)["spec"]["clusters"][1]["members"][1]["config"]["maxReplicas"], 2);
    });
}

#[test]
fn wherever_the_process_dies_the_pool_grows_once() {
    for fate in [Fate::DiesBefore, Fate::DiesAfter] {
        let mut number = 0;
        loop {
            let died = run(async {
                let mut world = world();
                world.fate(number, fate);
                let mut died = false;
                for _ in 0..3 {
                    died |= world.look_and_die().await;
                }
                assert_eq!(replicas(&world), [0, 0, 4], "{number} {fate:?}");
                died
            });
            if !died {
                break;
            }
            number += 1;
        }
        assert!(number >= 4, "{number} requests");
    }
}

/// It has the label and the name of a member, and an owner of the same name that is gone.
#[test]
fn a_pool_of_an_environment_from_before_does_not_scale_the_one_of_today() {
    run(async {
        let mut world = world();
        owned_by(&mut world, &json!("gone"));
        world.look().await.unwrap();
        assert_eq!((replicas(&world), told(&world)), (vec![0, 0, 0], vec![]));
    });
}

#[test]
fn a_member_whose_pool_is_not_there_yet_counts_against_the_limit_of_its_group() {
    run(async {
        let mut world = world();
        edit(&mut world.model.lock(), &env_place(), |env| {
            env["spec"]["clusters"][1]["members"][0]["spec"]["replicas"] = json!(10);
            env["spec"]["autoscaling"]["groups"][0]["maxReplicas"] = json!(12);
        });
        world.show();
        world.look().await.unwrap();
        assert_eq!(replicas(&world), [0, 10, 2]);
    });
}

#[test]
fn a_group_that_does_not_scale_is_left_alone() {
    run(async {
        let mut world = world();
        edit(&mut world.model.lock(), &env_place(), |env| {
            env["spec"]["autoscaling"]["groups"][0]["enabled"] = json!(false);
        });
        world.show();
        world.look().await.unwrap();
        assert_eq!((replicas(&world), told(&world)), (vec![0, 0, 0], vec![]));
        assert!(world.pool()["status"]["autoscaling"]["idleZeroSince"].is_string(), "that is noted");
    });
}
