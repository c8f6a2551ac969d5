//! Two clusters, each with an API server and an operator of its own, and one environment in both.

use sandgate_tests::cluster::{Cluster, Environments, Operator, env_template};
use serde_json::{Value, json};

/// One of the clusters.
struct Side {
    _operator: Operator,
    place: Environments,
    own: &'static str,
}

impl Side {
    async fn start(own: &'static str) -> Self {
        let cluster = Cluster::builder().start().await;
        let place = Environments::new(&cluster, own).await;
        let operator = cluster.operator().environments(&place.namespace, own).start().await;
        Self { _operator: operator, place, own }
    }

    /// The environment, as both clusters have it.
    async fn write(&self) {
        self.place.templates.create(&env_template("t", "hello")).await;
        let member = |name: &str, replicas: u32| json!({ "name": name, "spec": { "replicas": replicas } });
        let observed = json!([{
            "clusterID": self.other(), "isLocal": false, "lastSnapshotTime": "2026-11-16T07:00:00Z",
            "observedMembers": [{ "name": "there", "state": "Active", "idleCount": 7 }],
        }]);
        let env = json!({
            "apiVersion": "agents.navix.sh/v1alpha1",
            "kind": "SandboxEnv",
            "metadata": { "name": "e" },
            "spec": {
                "templateRef": { "name": "t" },
                "clusters": [
                    { "clusterID": "east", "members": [member("e-east", 2)] },
                    { "clusterID": "west", "members": [member("e-west", 3)] },
                ],
            },
        });
        self.place.envs.create(&env).await;
        self.place.envs.patch_status("e", &json!({ "status": { "clusters": observed } })).await;
    }

    fn other(&self) -> &'static str {
        if self.own == "east" { "west" } else { "east" }
    }

    async fn until_observed(&self) -> Value {
        self.place
            .envs
            .until("e", "its own part has been observed", |env| {
                part(&env["status"]["clusters"], self.own)["observedMembers"][0]["state"] == "Active"
            })
            .await
    }
}

fn part<'a>(clusters: &'a Value, cluster: &str) -> &'a Value {
    let mut parts = clusters.as_array().into_iter().flatten();
    parts.find(|part| part["clusterID"] == cluster).unwrap_or(&Value::Null)
}

#[tokio::test]
async fn each_cluster_makes_its_own_pools_and_writes_no_part_but_its_own() {
    let (east, west) = tokio::join!(Side::start("east"), Side::start("west"));
    for side in [&east, &west] {
        side.write().await;
    }
    for (side, replicas) in [(&east, 2), (&west, 3)] {
        let env = side.until_observed().await;
        let own = format!("e-{}", side.own);
        let pools = side.place.pools.list().await;
        let names: Vec<_> = pools.iter().map(|pool| pool["metadata"]["name"].clone()).collect();
        assert_eq!(names, [json!(own)], "{} made another's pool", side.own);
        assert_eq!(pools[0]["spec"]["replicas"], replicas);
        // The other part is as it was written, in spec and in status.
        let foreign = part(&env["spec"]["clusters"], side.other());
        assert_eq!(foreign["members"][0]["name"], format!("e-{}", side.other()));
        assert_eq!(foreign["members"][0]["spec"]["templateName"], Value::Null, "{foreign:#}");
        let observed = part(&env["status"]["clusters"], side.other());
        assert_eq!(observed["observedMembers"][0]["idleCount"], 7, "{observed:#}");
        assert_eq!(observed["lastSnapshotTime"], "2026-11-16T07:00:00Z");
    }

    // A change of one cluster's part by hand changes nothing in the other cluster's pools.
    let mut clusters = east.until_observed().await["spec"]["clusters"].clone();
    for part in clusters.as_array_mut().expect("parts") {
        part["members"][0]["spec"]["replicas"] = json!(5);
    }
    east.place.envs.patch("e", &json!({ "spec": { "clusters": clusters } })).await;
    east.place.pools.until("e-east", "it follows", |pool| pool["spec"]["replicas"] == 5).await;
    let pools = east.place.pools.list().await;
    assert_eq!(pools.len(), 1, "{pools:#?}");
    let pools = west.place.pools.list().await;
    assert_eq!((pools.len(), &pools[0]["spec"]["replicas"]), (1, &json!(3)));
}

#[tokio::test]
async fn an_operator_that_was_not_told_its_cluster_does_not_start() {
    let cluster = Cluster::shared().await;
    let mut operator = cluster.operator().flag("--controllers=sandboxenv").spawn();
    let status =
        sandgate_tests::eventually("it has ended", sandgate_tests::DEADLINE * 3, async || operator.status())
            .await;
    assert_eq!(status.code(), Some(1), "{}", operator.log());
    assert!(operator.log().contains("--local-cluster-id"), "{}", operator.log());
}
