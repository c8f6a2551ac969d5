use serde_json::{Value, json};

use super::world::*;

/// What the controller of pools writes.
fn pool_status(world: &World, name: &str, status: Value) {
    world.server.change(POOLS, name, |pool| pool["status"] = status);
}

fn rolled(idle: i32, running: i32) -> Value {
    json!({
        "idleReplicas": idle, "runningReplicas": running, "startingReplicas": 1, "stoppingReplicas": 2,
        "pendingRequests": 5, "updateRevision": "r", "currentRevision": "r", "updatedReplicas": 3,
    })
}

fn in_group(mut member: Value, group: &str) -> Value {
    member["config"]["scalingGroup"] = json!(group);
    member
}

#[tokio::test]
async fn totals_are_those_of_groups_and_of_all() {
    let members = [
        in_group(frozen("e-c", 7), "z"),
        in_group(frozen("e-b", 5), "a"),
        in_group(frozen("e-a", 3), "z"),
        in_group(frozen("e-d", 2), ""),
    ];
    let world = World::of(&members);
    world.settle().await;
    for (name, idle) in [("e-a", 1), ("e-b", 2), ("e-c", 3), ("e-d", 4)] {
        pool_status(&world, name, rolled(idle, 10 * idle));
    }
    world.settle().await;
    let status = world.env()["status"].clone();
    let group = |name: &str, idle: i32, running: i32, desired: i32| json!({"name": name, "totalIdle": idle, "totalRunning": running, "totalDesired": desired});
    assert_eq!(status["scalingGroups"], json!([group("a", 2, 20, 5), group("z", 4, 40, 10)]));
    assert_eq!(
        ["memberCount", "desiredReplicas", "runningReplicas", "idleReplicas"]
            .map(|field| status[field].clone()),
        [4, 17, 100, 10].map(Value::from)
    );
    let segment = world.observed();
    let names: Vec<_> = segment["observedMembers"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
    assert_eq!(names, ["e-a", "e-b", "e-c", "e-d"]);
    assert_eq!(segment["isLocal"], true);
    let member = &segment["observedMembers"][1];
    assert_eq!(
        *member,
        json!({
            "name": "e-b", "multiplier": 0, "state": "Active", "idleCount": 2, "runningCount": 20,
            "desiredReplicas": 5, "currentReplicas": 25, "pendingRequests": 5, "scalingGroup": "a",
            "autoscalingEnabled": false, "updateRevision": "r", "updatedReplicas": 3,
            "effectiveResources": pods("x")["spec"]["containers"][0]["resources"],
        })
    );
}

#[tokio::test]
async fn the_time_of_the_snapshot_changes_only_with_what_it_shows() {
    let world = World::of(&[frozen("e-a", 1)]);
    world.settle().await;
    let first = world.observed()["lastSnapshotTime"].clone();
    let version = world.env()["metadata"]["resourceVersion"].clone();
    world.advance(100);
    // Something of the pool that nobody shows.
    world.server.change(POOLS, "e-a", |pool| pool["metadata"]["annotations"]["x"] = json!("y"));
    world.settle().await;
    assert_eq!(world.env()["metadata"]["resourceVersion"], version);
    pool_status(&world, "e-a", rolled(1, 0));
    world.settle().await;
    assert_eq!(first, EPOCH);
    assert_eq!(world.observed()["lastSnapshotTime"], "2026-01-01T00:01:40Z");
}

/// A world of a member here, whose environment has these segments too.
async fn world_of_clusters(local: bool, others: &[&str]) -> World {
    let world = World::of(&[frozen("e-a", 1)]);
    world.server.change(ENVS, "e", |env| {
        let segments = env["spec"]["clusters"].as_array_mut().unwrap();
        segments.retain(|_| local);
        segments.extend(others.iter().map(|name| json!({"clusterID": name, "members": []})));
    });
    world.settle().await;
    world
}

#[tokio::test]
async fn a_snapshot_that_other_clusters_read_is_renewed_before_they_take_it_for_gone() {
    let mut world = world_of_clusters(true, &["far"]).await;
    let before = world.observed();
    assert_eq!(before["lastSnapshotTime"], EPOCH);
    let mut now = 0;
    for (time, changes) in [(29, 0), (30, 1), (31, 0), (59, 0), (60, 1), (61, 0)] {
        world.advance(time - now);
        now = time;
        world.writes();
        world.look().await.unwrap();
        assert_eq!(world.writes().len(), changes, "after {time} s");
        // The watch brings back what was written: that is no reason for another.
        world.look().await.unwrap();
        assert_eq!(world.writes(), Vec::<String>::new(), "after {time} s");
    }
    let mut after = world.observed();
    assert_eq!(after["lastSnapshotTime"], "2026-01-01T00:01:00Z");
    after["lastSnapshotTime"] = before["lastSnapshotTime"].clone();
    assert_eq!(after, before);
    // An operator that has just started renews it no sooner, and no later.
    world.restart();
    world.look().await.unwrap();
    assert_eq!(world.writes(), Vec::<String>::new());
    world.advance(29);
    world.look().await.unwrap();
    assert_eq!(world.writes().len(), 1);
}

#[tokio::test]
async fn a_snapshot_that_no_other_cluster_reads_is_not_renewed() {
    for (local, others) in [(true, &[][..]), (true, &["local"]), (false, &["far"]), (false, &["far", "off"])]
    {
        let mut world = world_of_clusters(local, others).await;
        let version = world.env()["metadata"]["resourceVersion"].clone();
        for _ in 0..3 {
            world.advance(100);
            world.settle().await;
            world.restart();
            world.settle().await;
        }
        assert_eq!(world.env()["metadata"]["resourceVersion"], version, "{local} {others:?}");
    }
}

#[tokio::test]
async fn another_version_of_the_template_stays_ready_and_another_name_does_not() {
    let world = World::of(&[frozen("e-a", 1)]);
    world.server.change(ENVS, "e", |env| env["spec"]["templateRef"]["version"] = json!("77"));
    world.settle().await;
    assert_eq!(world.condition("Ready").1, "AllMembersActive");
    world.server.change(ENVS, "e", |env| env["spec"]["templateRef"]["name"] = json!("another"));
    world.settle().await;
    let no = |reason: &str| ("False".to_owned(), reason.to_owned());
    assert_eq!(world.condition("Ready"), no("Inconsistent"));
    assert_eq!(world.condition("TemplateConsistent"), no("TemplateMismatch"));
}

#[tokio::test]
async fn a_pool_that_rolls_is_ready_and_not_consistent() {
    let world = World::of(&[frozen("e-a", 1)]);
    world.settle().await;
    let mut status = rolled(1, 0);
    status["currentRevision"] = json!("old");
    pool_status(&world, "e-a", status.clone());
    world.settle().await;
    assert_eq!(world.condition("Ready").0, "True");
    assert_eq!(world.condition("TemplateConsistent").1, "RolloutInProgress");
    // A pool without pods has nothing to replace.
    world.server.change(ENVS, "e", |env| {
        env["spec"]["clusters"][0]["members"][0]["spec"]["replicas"] = json!(0);
    });
    world.settle().await;
    assert_eq!(world.condition("TemplateConsistent").1, "TemplatesMatch");
}

fn scaling_world(member_max: i32, group_max: Option<i32>) -> World {
    let mut members = [frozen("e-a", 4), frozen("e-b", 3)];
    members[0]["config"]["maxReplicas"] = json!(member_max);
    let mut env = env(&members);
    let group = &mut env["spec"]["autoscaling"]["groups"][0];
    group["enabled"] = json!(true);
    group["maxReplicas"] = json!(group_max);
    let world = World::new();
    world.server.add(TEMPLATES, template());
    world.server.add(ENVS, env);
    world
}

#[tokio::test]
async fn headroom_is_what_member_and_group_leave() {
    for (member_max, group_max, expected) in [
        (0, None, Value::Null),
        (10, None, json!(6)),
        (10, Some(9), json!(2)),
        (5, Some(100), json!(1)),
        (0, Some(5), json!(0)),
    ] {
        let world = scaling_world(member_max, group_max);
        world.settle().await;
        let member = world.observed()["observedMembers"][0].clone();
        assert_eq!(member["scaleUpHeadroom"], expected, "{member_max} {group_max:?}");
        assert_eq!(member["autoscalingEnabled"], true);
    }
}

#[tokio::test]
async fn a_pool_that_could_not_grow_is_saturated_until_its_cooldown_is_over() {
    for (result, expected) in [
        ("Enough", Value::Null),
        ("Insufficient", json!("2026-01-01T00:00:50Z")),
        ("JustRight", json!("2026-01-01T00:00:50Z")),
        ("Failed", json!("2026-01-01T00:00:50Z")),
    ] {
        let world = scaling_world(0, None);
        world.settle().await;
        let mut status = rolled(0, 4);
        let tried = "2025-12-31T23:59:50Z";
        status["autoscaling"] = json!({"lastScaleUpAttemptTime": tried, "lastScaleUpAttemptResult": result});
        pool_status(&world, "e-a", status);
        world.settle().await;
        assert_eq!(world.observed()["observedMembers"][0]["saturatedUntil"], expected, "{result}");
        world.advance(50);
        world.settle().await;
        assert_eq!(world.observed()["observedMembers"][0]["saturatedUntil"], Value::Null, "{result}");
    }
}

#[tokio::test]
async fn conditions_are_of_the_generation_and_what_older_programs_wrote_goes() {
    let world = World::of(&[frozen("e-a", 1)]);
    world.server.change(ENVS, "e", |env| {
        env["status"] = json!({"conditions": [
            {"type": "CredentialsResolvable", "status": "True", "reason": "X", "message": "", "lastTransitionTime": EPOCH},
            {"type": "Theirs", "status": "True", "reason": "X", "message": "", "lastTransitionTime": EPOCH},
        ]});
    });
    world.settle().await;
    let env = world.env();
    let conditions = env["status"]["conditions"].as_array().unwrap();
    let kinds: Vec<_> = conditions.iter().map(|condition| condition["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["Theirs", "Ready", "TemplateConsistent"]);
    assert_eq!(conditions[1]["observedGeneration"], env["metadata"]["generation"]);
}

#[tokio::test]
async fn what_another_cluster_has_observed_stays_with_fields_that_nobody_knows() {
    let world = World::of(&[frozen("e-a", 1)]);
    let foreign = json!({
        "clusterID": "far", "isLocal": false, "newer": {"field": [1]},
        "observedMembers": [{"name": "x", "state": "Frozen", "idleCount": 3, "newest": true}],
    });
    let segment = json!({"clusterID": "far", "members": [{"name": "x", "newer": 1, "config": {"scalingGroup": ""}}], "new": 2});
    world.server.change(ENVS, "e", |env| {
        env["status"] = json!({"clusters": [foreign], "unknown": 7});
        env["spec"]["clusters"].as_array_mut().unwrap().insert(0, segment.clone());
        env["spec"]["autoscaling"]["groups"] = json!([]);
    });
    world.settle().await;
    pool_status(&world, "e-a", rolled(1, 1));
    world.settle().await;
    let env = world.env();
    assert_eq!(env["status"]["clusters"][0], foreign);
    assert_eq!((&env["status"]["unknown"], &env["spec"]["clusters"][0]), (&json!(7), &segment));
    assert_eq!(world.observed()["observedMembers"][0]["idleCount"], 1);
    assert_eq!(env["status"]["idleReplicas"], 1, "totals are of this cluster alone");
}
