//! The same for the controllers of environments, whose rights are others.

use sandgate_tests::cluster::{Environments, pod_template};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::super::super::OF_ENVIRONMENTS;
use super::{Resource, assert_uses_its_rights, cluster, install};

/// Rights that this scenario cannot be sure to make the operator use, each with what it is for.
const UNUSED: [(&str, &str); 6] = [
    ("get pods.", "whether a pod was made whose answer was lost"),
    ("get sandboxenvs.agents.navix.sh", "what the API server has, before a list of it is written"),
    ("get sandboxpools.agents.navix.sh", "whether a pool was made whose answer was lost"),
    (
        "update sandboxenvs/finalizers.agents.navix.sh",
        "asked by admission when an environment owns a pool, not by a request",
    ),
    ("update sandboxpools/finalizers.agents.navix.sh", "the same for a pool and its pods"),
    ("patch events.events.k8s.io", "an event that is repeated"),
];

/// The one segment of an environment.
fn segment(members: &Value) -> Value {
    json!({ "spec": { "clusters": [{ "clusterID": "local", "members": members }] } })
}

/// Makes the operator do everything that it can do.
async fn exercise(place: &Environments) {
    // An environment with two pools: filled, mended, one made smaller, one taken out.
    let template = place.template("hollow").await;
    place.env("web", &template, &[("web-a", 2), ("web-b", 1)]).await;
    place.levels("web-a", 2, 0).await;
    place.levels("web-b", 1, 0).await;
    place.pools.patch("web-a", &json!({ "spec": { "defaultIdleTimeout": "9h" } })).await;
    let is_mended = |pool: &Value| pool["spec"]["defaultIdleTimeout"].is_null();
    place.pools.until("web-a", "what somebody changed is put back", is_mended).await;
    let one = json!([{ "name": "web-a", "spec": { "replicas": 1 }, "config": { "scalingGroup": "warm" } }]);
    place.envs.patch("web", &segment(&one)).await;
    place.pools.until_gone("web-b").await;
    place.levels("web-a", 1, 0).await;
    let has_group = |env: &Value| env["spec"]["autoscaling"]["groups"][0]["name"] == "warm";
    place.envs.until("web", "its members' group is there", has_group).await;

    // A lone pool, which gets an environment.
    let lone = json!({
        "apiVersion": "agents.navix.sh/v1alpha1",
        "kind": "SandboxPool",
        "metadata": { "name": "lone" },
        "spec": {
            "replicas": 1, "templateName": template, "idleImage": "hollow-idle", "template": pod_template("hollow"),
        },
    });
    place.pools.create(&lone).await;
    let has_owner = |pool: &Value| pool["metadata"]["ownerReferences"][0]["kind"] == "SandboxEnv";
    place.pools.until("lone", "it has an environment", has_owner).await;
    place.envs.until("lone", "it is there", |env| env["status"]["memberCount"] == 1).await;

    // The end of an environment is that of its pools and their pods.
    place.envs.delete("web").await;
    place.envs.until_gone("web").await;
    place.pools.until_gone("web-a").await;
}

#[tokio::test]
async fn the_operator_of_environments_works_with_exactly_the_rights_that_the_chart_gives_it() {
    let files = TempDir::with_prefix("sandgate-rights-").expect("create a folder");
    let (cluster, audit) = cluster(files.path()).await;
    let _node = cluster.node("a").start().await;
    let release = cluster.namespace("chart").await;
    let values = ["--set", "providers[0].kind=openkruise", "--set", OF_ENVIRONMENTS];
    let (mut operator, _place, user) = install(&cluster, &release, files.path(), &values).await;
    let place = Environments::new(&cluster, "tenant").await;
    exercise(&place).await;
    let ended = operator.stop().await;
    assert!(ended.success(), "{ended}");
    assert_uses_its_rights(&audit, &user, "envoy/deploy/rbac/operator-environments.yaml", &UNUSED);
    let lease = cluster.objects(Resource::Lease, &release).get(&format!("{release}-sandgate-operator")).await;
    let holder = &lease.expect("a Lease")["spec"]["holderIdentity"];
    assert!(holder.as_str().is_none_or(str::is_empty), "the lease is given up: {holder}");
}
