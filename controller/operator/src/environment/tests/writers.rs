//! An environment with several writers, which see it at different times: nobody loses anything.

use std::sync::Arc;

use proptest::prelude::*;
use sandgate_objects::sandbox_env::resources::SandboxEnv;
use serde_json::{Value, json};

use super::super::write::write_spec;
use super::world::*;
use crate::view::Kind;
use crate::{EnvSettings, Key, Leadership, Metrics, Reconciler as _, View, Writes};

/// What happens next.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// One of the two clusters looks at the environment.
    Look(bool),
    /// One of the two clusters sees the newest of everything.
    See(bool),
    /// The autoscaler of one of the two clusters raises its member by one.
    Grow(bool),
    /// A user gives the other cluster's member a note.
    Note,
    /// The template changes.
    Template,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => any::<bool>().prop_map(Step::Look),
        3 => any::<bool>().prop_map(Step::See),
        3 => any::<bool>().prop_map(Step::Grow),
        1 => Just(Step::Note),
        1 => Just(Step::Template),
    ];
    proptest::collection::vec(step, 1..30)
}

/// The control plane of one cluster: its reconciler and its autoscaler read one view.
struct Cluster {
    name: &'static str,
    process: Process,
    writes: Writes,
    /// How often its autoscaler wrote.
    grown: i32,
}

impl Cluster {
    fn new(world: &World, name: &'static str) -> Self {
        let settings = EnvSettings::of_cluster(name);
        let process = process(&world.server, &world.clock, &world.events, settings);
        let metrics = Metrics::register(&mut Default::default());
        let view: View = process.view.clone();
        let writes = Writes::new(world.server.client(), view, Leadership::always(), metrics.writes);
        Self { name, process, writes, grown: 0 }
    }

    /// Sees the newest of everything but the pools of the other, which are in another cluster.
    fn see(&self, world: &World) {
        let show = |kind, plural: &str, own: &dyn Fn(&Value) -> bool| {
            for object in world.server.all(plural).iter().filter(|object| own(object)) {
                self.process.view.observe_json(kind, object.to_string().as_bytes()).unwrap();
            }
        };
        let prefix = format!("{}-", self.name);
        show(Kind::EnvTemplate, TEMPLATES, &|_| true);
        show(Kind::EnvPool, POOLS, &|pool| pool["metadata"]["name"].as_str().unwrap().starts_with(&prefix));
        show(Kind::SandboxEnv, ENVS, &|_| true);
    }

    async fn grow(&mut self) {
        let Some(env) = self.process.view.get::<SandboxEnv>(&Key::new("n", "e")) else { return };
        let mut spec = env.spec.clone();
        let segment = spec.clusters.iter_mut().find(|segment| segment.cluster_id == self.name).unwrap();
        segment.members[0].spec.replicas += 1;
        if write_spec(&self.writes, &env, &spec).await.is_ok() {
            self.grown += 1;
        }
    }
}

async fn play(steps: &[Step]) {
    let world = World::new();
    world.server.add(TEMPLATES, template());
    let mut env = env(&[]);
    let segment = |cluster: &str| json!({"clusterID": cluster, "members": [member(&format!("{cluster}-a"), 1)], "unknown": cluster});
    env["spec"]["clusters"] = json!([segment("one"), segment("two")]);
    world.server.add(ENVS, env);
    let mut clusters = [Cluster::new(&world, "one"), Cluster::new(&world, "two")];
    let (mut notes, mut version) = (0, 1);
    for step in steps {
        match *step {
            Step::Look(which) => {
                let _ = clusters[usize::from(which)].process.envs.reconcile(&Key::new("n", "e")).await;
            }
            Step::See(which) => clusters[usize::from(which)].see(&world),
            Step::Grow(which) => clusters[usize::from(which)].grow().await,
            Step::Note => {
                notes += 1;
                world.server.change(ENVS, "e", |env| {
                    env["spec"]["clusters"][1]["members"][0]["note"] = json!(notes);
                });
            }
            Step::Template => {
                version += 1;
                world.server.change_in("", TEMPLATES, "t", |template| {
                    template["spec"]["idleImage"] = json!(format!("idle:{version}"));
                });
            }
        }
    }
    // In the end each sees all and has all the looks that it needs.
    for _ in 0..6 {
        for cluster in &clusters {
            cluster.see(&world);
            let _ = cluster.process.envs.reconcile(&Key::new("n", "e")).await;
        }
    }
    let env = world.env();
    for (at, cluster) in clusters.iter().enumerate() {
        let segment = &env["spec"]["clusters"][at];
        let member = &segment["members"][0];
        assert_eq!(segment["unknown"], cluster.name);
        assert_eq!(member["spec"]["replicas"], 1 + cluster.grown, "of {}", cluster.name);
        assert_eq!(member["spec"]["idleImage"], format!("idle:{version}"));
        let pool = world.pool(&format!("{}-a", cluster.name));
        assert_eq!(pool["spec"]["replicas"], 1 + cluster.grown);
        let observed = env["status"]["clusters"].as_array().unwrap();
        assert!(observed.iter().any(|observed| observed["clusterID"] == cluster.name));
    }
    let note = &env["spec"]["clusters"][1]["members"][0]["note"];
    assert_eq!(*note, if notes == 0 { Value::Null } else { json!(notes) });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn two_clusters_their_autoscalers_and_a_user_lose_nothing_of_each_other(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(play(&steps));
    }
}

#[tokio::test]
async fn a_write_that_was_decided_on_an_older_environment_is_refused() {
    let world = World::of(&[frozen("e-a", 1)]);
    world.settle().await;
    let metrics = Metrics::register(&mut Default::default());
    let view = world.process.view.clone();
    let env = view.get::<SandboxEnv>(&Key::new("n", "e")).unwrap();
    let writes = Writes::new(world.server.client(), view, Leadership::always(), metrics.writes);
    world
        .server
        .change(ENVS, "e", |env| env["spec"]["clusters"][0]["members"][0]["spec"]["replicas"] = json!(5));
    let mut spec = env.spec.clone();
    spec.clusters[0].members[0].spec.replicas = 9;
    let refused = write_spec(&writes, &Arc::clone(&env), &spec).await.unwrap_err();
    assert!(matches!(refused, crate::WriteError::Conflict(_)), "{refused}");
    assert_eq!(world.env()["spec"]["clusters"][0]["members"][0]["spec"]["replicas"], 5);
}
