use std::collections::BTreeSet;

use sandgate_objects::sandbox_env::resources::{SandboxEnvSpec, SandboxEnvStatus};
use serde_json::{Value, json};

use super::super::prune::{Catalog as _, ListedClusters, prune};
use super::world::*;

fn segments(names: &[&str]) -> Value {
    names.iter().map(|name| json!({"clusterID": name})).collect()
}

/// The clusters that stay in spec and status, and those that go.
fn pruned(spec: &[&str], status: &[&str], known: Option<&[&str]>) -> Option<[Vec<String>; 3]> {
    let spec: SandboxEnvSpec = read(&json!({"templateRef": {"name": "t"}, "clusters": segments(spec)}));
    let status: SandboxEnvStatus = read(&json!({"clusters": segments(status)}));
    let known: Option<BTreeSet<String>> =
        known.map(|known| known.iter().map(|name| (*name).to_owned()).collect());
    let (spec, status, gone) = prune(&spec, Some(&status), "local", known.as_ref())?;
    let spec = spec.clusters.into_iter().map(|segment| segment.cluster_id).collect();
    let status = status.unwrap().clusters.into_iter().map(|segment| segment.cluster_id).collect();
    Some([spec, status, gone.into_iter().collect()])
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn a_cluster_that_is_gone_goes_from_spec_and_status() {
    let pruned = pruned(&["local", "gone", "peer"], &["gone", "late", "peer"], Some(&["peer"]));
    assert_eq!(pruned, Some([texts(&["local", "peer"]), texts(&["peer"]), texts(&["gone", "late"])]));
}

#[test]
fn what_is_known_what_is_local_and_what_has_no_name_stays() {
    assert_eq!(pruned(&["local", "peer"], &["peer"], Some(&["peer"])), None);
    assert_eq!(pruned(&["local"], &["local"], Some(&["peer"])), None, "the local one in any case");
    assert_eq!(pruned(&[""], &[""], Some(&["peer"])), None);
}

#[test]
fn where_no_cluster_is_known_nothing_goes() {
    assert_eq!(pruned(&["gone"], &["gone"], Some(&[])), None);
    assert_eq!(pruned(&["gone"], &["gone"], None), None);
    assert_eq!(ListedClusters::default().clusters(), None);
    assert_eq!(ListedClusters(["a".to_owned()].into()).clusters(), Some(["a".to_owned()].into()));
}

fn world_with_a_gone_cluster() -> World {
    let world = World::with_clusters(&["local", "peer"]);
    world.server.add(TEMPLATES, template());
    let mut env = env(&[frozen("e-a", 1)]);
    let clusters = env["spec"]["clusters"].as_array_mut().unwrap();
    clusters
        .push(json!({"clusterID": "gone", "members": [{"name": "x", "config": {"scalingGroup": "old"}}]}));
    clusters.push(json!({"clusterID": "peer", "newer": {"field": 1}}));
    env["status"] = json!({"clusters": [{"clusterID": "gone"}, {"clusterID": "peer", "newer": 2}]});
    world.server.add(ENVS, env);
    world
}

#[tokio::test]
async fn segments_of_gone_clusters_are_taken_out_and_that_is_told_once() {
    let world = world_with_a_gone_cluster();
    world.settle().await;
    let env = world.env();
    assert_eq!(env["spec"]["clusters"][1], json!({"clusterID": "peer", "newer": {"field": 1}}));
    assert_eq!(env["spec"]["clusters"].as_array().unwrap().len(), 2);
    assert_eq!(env["status"]["clusters"][0], json!({"clusterID": "peer", "newer": 2}));
    assert_eq!(env["spec"]["autoscaling"]["groups"], json!([group("g")]), "its groups go too");
    assert_eq!(world.reasons(), ["StaleClusterSegmentsPruned", "PoolCreated"]);
}

#[tokio::test]
async fn an_environment_that_is_being_deleted_keeps_its_segments() {
    let world = world_with_a_gone_cluster();
    world.server.change(ENVS, "e", |env| {
        env["metadata"]["deletionTimestamp"] = json!(EPOCH);
        env["metadata"]["finalizers"] = json!(["x"]);
    });
    world.settle().await;
    assert_eq!(world.env()["spec"]["clusters"].as_array().unwrap().len(), 3);
}
