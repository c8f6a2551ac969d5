use serde_json::json;

use super::world::*;

#[tokio::test]
async fn a_member_gets_its_pool_with_labels_provenance_and_controlling_owner() {
    let world = World::of(&[member("e-a", 3)]);
    world.settle().await;
    let pool = world.pool("e-a");
    let (labels, annotations) = (&pool["metadata"]["labels"], &pool["metadata"]["annotations"]);
    assert_eq!(labels["agentbox.navix.sh/env"], "e");
    assert_eq!(labels["agentbox.navix.sh/scaling-group"], "g");
    assert_eq!(labels["agentbox.navix.sh/template-hash"].as_str().unwrap().len(), 8);
    assert_eq!(annotations["agentbox.navix.sh/template-name"], "t");
    assert_eq!(annotations["agentbox.navix.sh/template-version"], "1");
    let uid = world.env()["metadata"]["uid"].clone();
    assert_eq!(
        pool["metadata"]["ownerReferences"],
        json!([{"apiVersion": "agents.navix.sh/v1alpha1", "kind": "SandboxEnv", "name": "e", "uid": uid,
            "controller": true, "blockOwnerDeletion": true}])
    );
    assert_eq!((&pool["spec"]["replicas"], &pool["spec"]["templateName"]), (&json!(3), &json!("t")));
    assert_eq!(world.reasons(), ["TemplateRollout", "PoolCreated"]);
}

#[tokio::test]
async fn a_second_look_asks_nothing_of_the_api_server_and_tells_the_router_again() {
    let world = World::of(&[member("e-a", 3), frozen("e-b", 1)]);
    world.settle().await;
    world.router.0.lock().clear();
    for _ in 0..3 {
        world.advance(10);
        let again = world.look().await.unwrap();
        let crate::Again::After(wait) = again else { panic!("{again:?}") };
        assert!((8.0..=12.0).contains(&wait.as_secs_f64()), "{wait:?}");
    }
    assert_eq!(world.server.take_asked(), Vec::<String>::new());
    assert_eq!(*world.router.0.lock(), ["n/e has 2"; 3]);
    // An operator that has just started asks once whether the pull secret exists, and writes nothing.
    let mut world = world;
    world.restart();
    world.look().await.unwrap();
    assert_eq!(world.server.take_asked(), ["GET /api/v1/namespaces/n/secrets/ips-e"]);
}

#[tokio::test]
async fn the_pull_secret_is_stamped_while_it_exists() {
    for (exists, expected) in [(true, json!([{"name": "ips-e"}])), (false, json!(null))] {
        let world = World::of(&[member("e-a", 1), frozen("e-b", 1)]);
        if exists {
            world.server.add("secrets", json!({"metadata": {"name": "ips-e", "namespace": "n"}}));
        }
        world.settle().await;
        for pool in ["e-a", "e-b"] {
            let pods = world.pool(pool)["spec"]["template"].clone();
            assert_eq!(pods["spec"]["imagePullSecrets"], expected, "{pool}");
        }
        // It goes or comes: that is seen when what was looked up is not believed any more.
        match exists {
            true => world.server.remove("secrets", "ips-e"),
            false => {
                world.server.add("secrets", json!({"metadata": {"name": "ips-e", "namespace": "n"}}));
            }
        }
        world.advance(60);
        world.look().await.unwrap();
        assert_eq!(world.pool("e-b")["spec"]["template"]["spec"]["imagePullSecrets"], expected);
        world.advance(300);
        world.settle().await;
        for pool in ["e-a", "e-b"] {
            let has = !world.pool(pool)["spec"]["template"]["spec"]["imagePullSecrets"].is_null();
            assert_eq!(has, !exists, "{pool}");
        }
    }
}

#[tokio::test]
async fn while_the_pull_secret_cannot_be_asked_for_nothing_changes_and_it_is_asked_for_again() {
    let asks = |world: &World| {
        let asked = world.server.take_asked();
        assert!(asked.iter().all(|line| line.ends_with("/secrets/ips-e")), "{asked:?}");
        asked.len()
    };
    // A server that fails is asked each time, and one that does not let us see it now and then.
    for (code, expected) in [(500, 3), (403, 1)] {
        let mut world = World::of(&[member("e-a", 1), frozen("e-b", 1)]);
        world.server.add("secrets", json!({"metadata": {"name": "ips-e", "namespace": "n"}}));
        world.settle().await;
        let before = world.server.all(POOLS);
        world.server.mute(Some(("secrets", code)));
        world.restart();
        world.server.take_asked();
        for _ in 0..3 {
            world.advance(10);
            world.look().await.unwrap();
        }
        assert_eq!((asks(&world), world.server.all(POOLS)), (expected, before.clone()), "{code}");
        world.server.mute(None);
        world.advance(300);
        world.look().await.unwrap();
        assert_eq!((asks(&world), world.server.all(POOLS)), (1, before), "{code}");
    }
}

#[tokio::test]
async fn a_pool_that_is_being_deleted_is_missing_and_is_made_anew_when_it_is_gone() {
    let world = World::of(&[frozen("e-a", 1)]);
    world.settle().await;
    world.server.change(POOLS, "e-a", |pool| pool["metadata"]["finalizers"] = json!(["x"]));
    world.server.delete(POOLS, "e-a");
    world.server.change(POOLS, "e-a", |pool| pool["spec"]["replicas"] = json!(9));
    world.settle().await;
    assert_eq!(world.condition("Ready").1, "Missing");
    assert_eq!(world.pool("e-a")["spec"]["replicas"], 9, "it is left alone");
    world.server.remove(POOLS, "e-a");
    world.settle().await;
    assert_eq!(world.condition("Ready").1, "AllMembersActive");
    assert_eq!(world.pool("e-a")["spec"]["replicas"], 1);
}

#[tokio::test]
async fn what_others_put_on_a_pool_is_no_drift_and_what_they_change_is() {
    let world = World::of(&[frozen("e-a", 2)]);
    world.settle().await;
    world.server.change(POOLS, "e-a", |pool| {
        pool["metadata"]["labels"]["foreign"] = json!("x");
        pool["metadata"]["annotations"]["foreign"] = json!("y");
        pool["metadata"]["finalizers"] = json!(["agentbox.navix.sh/finalizer"]);
        pool["metadata"]["annotations"]["agentbox.navix.sh/last-sandbox-create-time"] = json!(EPOCH);
    });
    world.settle().await;
    assert_eq!(world.pool("e-a")["metadata"]["generation"], 1, "nothing was written");
    world.server.change(POOLS, "e-a", |pool| {
        pool["metadata"]["labels"]["a"] = json!("wrong");
        pool["metadata"]["annotations"].as_object_mut().unwrap().remove("b");
        pool["spec"]["replicas"] = json!(9);
    });
    world.settle().await;
    let pool = world.pool("e-a");
    assert_eq!(
        (&pool["metadata"]["labels"]["a"], &pool["metadata"]["labels"]["foreign"]),
        (&json!("1"), &json!("x"))
    );
    let annotations = &pool["metadata"]["annotations"];
    assert_eq!((&annotations["b"], &annotations["foreign"]), (&json!("2"), &json!("y")));
    assert_eq!(pool["spec"]["replicas"], 2);
}

#[tokio::test]
async fn a_pool_that_no_member_asks_for_is_deleted_and_no_other_is() {
    let world = World::of(&[frozen("e-a", 2), frozen("e-b", 2)]);
    // Another's by its owner, and one that only has the label.
    let mut foreign = lone_pool("f-a");
    foreign["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "agents.navix.sh/v1alpha1", "kind": "SandboxEnv", "name": "e", "uid": "an older one"}]);
    world.server.add(POOLS, foreign);
    let mut labelled = lone_pool("l");
    labelled["metadata"]["labels"]["agentbox.navix.sh/env"] = json!("e");
    world.server.add(POOLS, labelled);
    world.settle().await;
    world.server.change(ENVS, "e", |env| {
        env["spec"]["clusters"][0]["members"].as_array_mut().unwrap().remove(0);
    });
    world.reasons();
    world.settle().await;
    assert_eq!(world.pools(), ["e-b", "f-a", "l"]);
    assert_eq!(world.reasons(), ["PoolDeleted"]);
}

#[tokio::test]
async fn an_environment_without_members_has_no_pool_and_loses_one_of_its_own_name() {
    let world = World::of(&[]);
    let uid = world.env()["metadata"]["uid"].clone();
    let mut namesake = lone_pool("e");
    namesake["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "agents.navix.sh/v1alpha1", "kind": "SandboxEnv", "name": "e", "uid": uid}]);
    world.server.add(POOLS, namesake);
    world.settle().await;
    assert_eq!(world.pools(), Vec::<String>::new());
    assert_eq!(world.condition("Ready"), ("False".to_owned(), "NoMembers".to_owned()));
}

#[tokio::test]
async fn a_pool_is_not_deleted_by_an_older_environment_than_the_one_that_asks_for_it() {
    let world = World::of(&[frozen("e-a", 2)]);
    world.settle().await;
    let old = world.env();
    world.server.change(ENVS, "e", |env| {
        let members = env["spec"]["clusters"][0]["members"].as_array_mut().unwrap();
        members.push(frozen("e-b", 2));
    });
    world.settle().await;
    // A new process sees the pools as they are, and the environment as it was.
    let stale = crate::View::new(Box::new(|_, _, _| {}));
    stale.observe_json(crate::view::Kind::SandboxEnv, old.to_string().as_bytes()).unwrap();
    for pool in world.server.all(POOLS) {
        stale.observe_json(crate::view::Kind::EnvPool, pool.to_string().as_bytes()).unwrap();
    }
    let envs = reconciler_over(&world, &stale);
    let failed = crate::Reconciler::reconcile(&envs, &crate::Key::new("n", "e")).await.unwrap_err();
    assert_eq!(failed.category, crate::Category::Conflict);
    assert_eq!(world.pools(), ["e-a", "e-b"]);
}

/// A reconciler that reads another view.
fn reconciler_over(world: &World, view: &crate::View) -> crate::SandboxEnvReconciler {
    let metrics = crate::Metrics::register(&mut prometheus_client::registry::Registry::default());
    let writes =
        crate::Writes::new(world.server.client(), view.clone(), crate::Leadership::always(), metrics.writes);
    let (random, settings) = (crate::Random::seeded(1), crate::EnvSettings::of_cluster("local"));
    let (events, clock) = (world.events.clone(), world.clock.clone());
    crate::SandboxEnvReconciler::new(view.clone(), writes, events, clock, random, settings)
}

#[tokio::test]
async fn a_pool_of_the_same_name_that_is_anothers_is_no_member_and_stays_as_it_is() {
    let world = World::of(&[frozen("e-a", 2), frozen("e-b", 2)]);
    let mut taken = lone_pool("e-a");
    taken["status"] = json!({"idleReplicas": 3, "runningReplicas": 4});
    let before = world.server.add(POOLS, taken);
    world.settle().await;
    assert_eq!(world.pool("e-a"), before);
    let segment = world.observed();
    let member = &segment["observedMembers"][0];
    assert_eq!((&member["name"], &member["state"]), (&json!("e-a"), &json!("Inconsistent")));
    assert_eq!((&member["idleCount"], &member["desiredReplicas"]), (&json!(0), &json!(0)));
    assert_eq!(world.env()["status"]["runningReplicas"], 0);
    assert_eq!(world.condition("Ready").1, "Inconsistent");
    // It is told once.
    assert_eq!(world.reasons(), ["PoolCreated", "PoolInconsistent"]);
    world.advance(400);
    world.settle().await;
    assert_eq!(world.reasons(), Vec::<&str>::new());
    // The other goes, and the name is free.
    world.server.remove(POOLS, "e-a");
    world.settle().await;
    assert_eq!(world.condition("Ready"), ("True".to_owned(), "AllMembersActive".to_owned()));
}

#[tokio::test]
async fn a_name_that_is_taken_and_not_seen_is_looked_at_before_it_is_judged() {
    // The answer to the create was lost, and the watch is behind: the pool is ours.
    let world = World::of(&[frozen("e-a", 2)]);
    world.server.fault(0, crate::batch::tests::server::Fault::AnswerLost);
    assert!(world.look().await.is_err());
    assert_eq!(world.pools(), ["e-a"]);
    // The answer of the status's write may have told of it: the view of a new process knows nothing.
    let view = crate::View::new(Box::new(|_, _, _| {}));
    for (kind, plural) in [(crate::view::Kind::SandboxEnv, ENVS), (crate::view::Kind::EnvTemplate, TEMPLATES)]
    {
        for object in world.server.all(plural) {
            view.observe_json(kind, object.to_string().as_bytes()).unwrap();
        }
    }
    let envs = reconciler_over(&world, &view);
    crate::Reconciler::reconcile(&envs, &crate::Key::new("n", "e")).await.unwrap();
    assert_eq!(world.condition("Ready").1, "AllMembersActive");
    assert_eq!(world.observed()["observedMembers"][0]["state"], "Active");
}

#[tokio::test]
async fn another_template_reaches_the_pools_with_its_name() {
    let world = World::of(&[member("e-a", 2)]);
    world.settle().await;
    let hash = world.pool("e-a")["metadata"]["labels"]["agentbox.navix.sh/template-hash"].clone();
    // Its twin of another name: the pods stay, the pool is of the new one.
    let mut twin = template();
    twin["metadata"]["name"] = json!("t2");
    world.server.add(TEMPLATES, twin);
    world.server.change(ENVS, "e", |env| env["spec"]["templateRef"]["name"] = json!("t2"));
    world.reasons();
    world.settle().await;
    let pool = world.pool("e-a");
    assert_eq!(pool["spec"]["templateName"], "t2");
    assert_eq!(pool["metadata"]["labels"]["agentbox.navix.sh/template-hash"], hash);
    assert_eq!(world.condition("Ready").1, "AllMembersActive");
    assert_eq!(world.condition("TemplateConsistent").1, "TemplatesMatch");
    assert_eq!(world.reasons(), Vec::<&str>::new(), "nothing rolls");
}

#[tokio::test]
async fn an_environment_that_is_being_deleted_gets_no_pools_and_one_that_is_gone_is_told() {
    let world = World::of(&[frozen("e-a", 1)]);
    world.server.change(ENVS, "e", |env| {
        env["metadata"]["deletionTimestamp"] = json!(EPOCH);
        env["metadata"]["finalizers"] = json!(["foregroundDeletion"]);
    });
    world.settle().await;
    assert_eq!(world.pools(), Vec::<String>::new());
    assert_eq!(world.condition("Ready").1, "Missing");
    world.router.0.lock().clear();
    world.server.remove(ENVS, "e");
    assert_eq!(world.look().await.unwrap(), crate::Again::Forget);
    assert_eq!(*world.router.0.lock(), ["n/e is gone"]);
}

#[tokio::test]
async fn the_router_is_told_after_a_success_only() {
    let world = World::of(&[frozen("e-a", 1)]);
    world.server.fault(0, crate::batch::tests::server::Fault::RequestLost);
    assert!(world.look().await.is_err());
    assert_eq!(*world.router.0.lock(), Vec::<String>::new());
    world.look().await.unwrap();
    assert_eq!(*world.router.0.lock(), ["n/e has 1"]);
}
