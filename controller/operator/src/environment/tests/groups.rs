use sandgate_objects::sandbox_env::resources::SandboxEnvSpec;
use serde_json::{Value, json};

use super::super::groups::synced;
use super::world::*;

fn spec(members: &[(&str, &str, &str)], groups: &[Value]) -> SandboxEnvSpec {
    let mut spec = json!({"templateRef": {"name": "t"}, "clusters": [], "autoscaling": {"groups": groups}});
    for (cluster, name, group) in members {
        let segments = spec["clusters"].as_array_mut().unwrap();
        let member = json!({"name": name, "config": {"scalingGroup": group}});
        match segments.iter_mut().find(|segment| segment["clusterID"] == *cluster) {
            Some(segment) => segment["members"].as_array_mut().unwrap().push(member),
            None => segments.push(json!({"clusterID": cluster, "members": [member]})),
        }
    }
    read(&spec)
}

fn names(spec: &SandboxEnvSpec) -> Vec<(&str, bool)> {
    let groups = &spec.autoscaling.as_ref().unwrap().groups;
    groups.iter().map(|group| (group.name.as_str(), group.enabled)).collect()
}

#[test]
fn groups_are_those_that_members_of_any_cluster_name() {
    let mut kept = group("b");
    kept["enabled"] = json!(true);
    kept["maxReplicas"] = json!(9);
    let members = [("local", "m1", "z"), ("local", "m2", "b"), ("far", "m3", "a"), ("far", "m4", "")];
    let before = spec(&members, &[group("orphan"), kept]);
    let after = synced(&before).unwrap();
    // What is kept stays first and as it is; what is missing comes sorted, and does not scale yet.
    assert_eq!(names(&after), [("b", true), ("a", false), ("z", false)]);
    assert_eq!(after.autoscaling.as_ref().unwrap().groups[0], before.autoscaling.unwrap().groups[1]);
    assert_eq!(after.clusters, before.clusters);
    assert_eq!(synced(&after), None, "the second time nothing is to do");
}

#[test]
fn without_members_there_are_no_groups() {
    let after = synced(&spec(&[("local", "m", "")], &[group("g")])).unwrap();
    assert_eq!(names(&after), []);
    assert_eq!(synced(&after), None);
    assert_eq!(synced(&read(&json!({"templateRef": {"name": "t"}}))), None);
}

#[tokio::test]
async fn groups_are_written_once() {
    let world = World::of(&[frozen("e-a", 1)]);
    world.server.change(ENVS, "e", |env| {
        env["spec"]["autoscaling"]["groups"] = json!([group("old")]);
    });
    world.settle().await;
    assert_eq!(world.env()["spec"]["autoscaling"]["groups"], json!([group("g")]));
    assert_eq!(world.env()["metadata"]["generation"], 3, "one for the change, one for the groups");
}
