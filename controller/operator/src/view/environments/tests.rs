use std::sync::Arc;

use parking_lot::Mutex;
use sandgate_objects::sandbox_env::names;
use serde_json::{Value, json};

use super::*;
use crate::Controller;
use crate::view::Kind;
use sandgate_routes::Version;

/// A view, and what it marked since the last look.
struct World {
    view: View,
    marked: Arc<Mutex<BTreeSet<(Controller, Key)>>>,
}

impl World {
    fn new() -> Self {
        let marked = Arc::<Mutex<BTreeSet<_>>>::default();
        let into = Arc::clone(&marked);
        let mark = move |controller, key: &Key, _| {
            into.lock().insert((controller, key.clone()));
        };
        Self { view: View::new(Box::new(mark)), marked }
    }

    fn show(&self, kind: Kind, object: &Value) {
        self.view.observe_json(kind, object.to_string().as_bytes()).unwrap();
    }

    fn marked(&self) -> Vec<(Controller, String)> {
        std::mem::take(&mut *self.marked.lock()).into_iter().map(|(c, key)| (c, key.to_string())).collect()
    }
}

fn meta(name: &str, version: u64) -> Value {
    json!({"name": name, "namespace": "n", "uid": format!("u-{name}"), "resourceVersion": version.to_string(), "generation": 1})
}

fn env(version: u64, template: &str) -> Value {
    json!({"metadata": meta("e", version), "spec": {"templateRef": {"name": template}}})
}

fn pool(name: &str, version: u64, labels: Value) -> Value {
    let mut pool = json!({"metadata": meta(name, version), "spec": {"replicas": 1}});
    pool["metadata"]["labels"] = labels;
    pool
}

fn pod(name: &str, version: u64, phase: &str, ready: bool) -> Value {
    let mut pod = json!({
        "metadata": meta(name, version), "spec": {"containers": []},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]},
    });
    pod["metadata"]["creationTimestamp"] = json!(format!("2026-11-16T07:00:{version:02}Z"));
    pod["metadata"]["labels"] = json!({
        (names::LABEL_POOL): "p", (names::LABEL_PHASE): phase, (names::LABEL_TEMPLATE_HASH): "r",
    });
    controlled(pod, "u-p")
}

/// The same pod, which an object of this UID controls.
fn controlled(mut pod: Value, uid: &str) -> Value {
    pod["metadata"]["ownerReferences"] = json!([{
        "apiVersion": names::API_VERSION, "kind": names::KIND_POOL, "name": "p", "uid": uid, "controller": true,
    }]);
    pod
}

const ENV: Controller = Controller::SandboxEnv;
const POOL: Controller = Controller::EnvPool;
const ADOPT: Controller = Controller::PoolAdoption;

#[test]
fn a_pool_marks_its_environment_by_owner_and_not_by_its_own_name() {
    let world = World::new();
    let mut owned = pool("p", 1, json!({}));
    owned["metadata"]["ownerReferences"] =
        json!([{"apiVersion": names::API_VERSION, "kind": names::KIND_ENV, "name": "e", "uid": "x"}]);
    world.show(Kind::EnvPool, &owned);
    let of = |names: &[(Controller, &str)]| -> Vec<_> {
        names.iter().map(|(controller, name)| (*controller, (*name).to_owned())).collect()
    };
    assert_eq!(world.marked(), of(&[(ENV, "n/e"), (POOL, "n/p"), (ADOPT, "n/p")]));
    // Its status alone concerns its environment, and not itself.
    owned["metadata"]["resourceVersion"] = json!("2");
    owned["status"] = json!({"idleReplicas": 1});
    world.show(Kind::EnvPool, &owned);
    assert_eq!(world.marked(), of(&[(ENV, "n/e")]));
    assert_eq!(world.view.env_pools(&Key::new("n", "e")).len(), 1);
    // By its label it is another's: both have to look.
    let mut moved = pool("p", 3, json!({(names::LABEL_ENV): "f"}));
    moved["metadata"]["generation"] = json!(2);
    world.show(Kind::EnvPool, &moved);
    assert_eq!(world.marked(), of(&[(ENV, "n/e"), (ENV, "n/f"), (POOL, "n/p"), (ADOPT, "n/p")]));
    assert!(world.view.env_pools(&Key::new("n", "e")).is_empty());
}

#[test]
fn the_status_of_an_environment_concerns_nobody() {
    let world = World::new();
    world.show(Kind::SandboxEnv, &env(1, "t"));
    world.marked();
    let mut written = env(2, "t");
    written["status"] = json!({"memberCount": 1});
    world.show(Kind::SandboxEnv, &written);
    assert_eq!(world.marked(), []);
    let mut changed = env(3, "t2");
    changed["metadata"]["generation"] = json!(2);
    world.show(Kind::SandboxEnv, &changed);
    assert_eq!(world.marked(), [(ENV, "n/e".to_owned()), (ADOPT, "n/e".to_owned())]);
    // The template that it named before concerns it no more.
    for (name, marks) in [("t", 0), ("t2", 1)] {
        let template = json!({"metadata": {"name": name, "uid": name, "resourceVersion": "9"}, "spec": {}});
        world.show(Kind::EnvTemplate, &template);
        assert_eq!(world.marked().len(), marks, "{name}");
    }
}

#[test]
fn the_pods_of_a_pool_are_counted_by_class() {
    let world = World::new();
    world.show(Kind::EnvPool, &pool("p", 1, json!({})));
    let key = Key::new("n", "p");
    for (at, (phase, ready)) in [
        ("idle", true),
        ("idle", false),
        ("starting", true),
        ("running", true),
        ("stopping", true),
        ("failed", true),
    ]
    .into_iter()
    .enumerate()
    {
        world.show(Kind::EnvPod, &pod(&format!("p-{at}"), at as u64 + 1, phase, ready));
    }
    let counts = world.view.env_pod_counts(&key, "r");
    assert_eq!((counts.idle, counts.idle_ready, counts.idle_unready), (2, 1, 1));
    assert_eq!((counts.starting, counts.running, counts.stopping, counts.failed), (1, 1, 1, 1));
    assert_eq!((counts.current(), counts.updated), (5, 6));
    assert_eq!(world.view.env_pod_counts(&key, "another").updated, 0);
    // One is claimed, one is being deleted, one is gone.
    world.show(Kind::EnvPod, &pod("p-0", 10, "starting", true));
    let mut deleting = pod("p-1", 11, "idle", false);
    deleting["metadata"]["deletionTimestamp"] = json!("2026-11-16T08:00:00Z");
    world.show(Kind::EnvPod, &deleting);
    let version: Version = "12".parse().unwrap();
    world.view.deleted(Kind::EnvPod, &Key::new("n", "p-5"), "u-p-5", &version);
    let counts = world.view.env_pod_counts(&key, "r");
    assert_eq!((counts.idle, counts.starting, counts.failed, counts.deleting), (0, 2, 0, 1));
    assert_eq!((counts.updated, world.view.idle_since(&key, 9).len()), (4, 0));
}

#[test]
fn a_pod_that_was_a_sandbox_has_waited_since_it_was_given_back() {
    let world = World::new();
    world.show(Kind::EnvPool, &pool("p", 1, json!({})));
    let key = Key::new("n", "p");
    world.show(Kind::EnvPod, &pod("p-1", 1, "idle", true));
    let mut back = pod("p-0", 2, "idle", true);
    back["metadata"]["creationTimestamp"] = json!("2026-11-16T06:00:00Z");
    back["metadata"]["annotations"] = json!({(names::ANNOTATION_TERMINATED_AT): "2026-11-16T09:00:00Z"});
    world.show(Kind::EnvPod, &back);
    let since: Vec<_> = world.view.idle_since(&key, 9).iter().map(ToString::to_string).collect();
    assert_eq!(since, ["2026-11-16T07:00:01Z", "2026-11-16T09:00:00Z"]);
    let oldest = world.view.env_pods(&key, EnvPodClass::IdleReady, 1);
    assert_eq!(&*oldest[0].key.name, "p-0", "of a class the oldest pod is first");
}

#[test]
fn a_pool_has_the_pods_that_it_controls_and_no_others() {
    let world = World::new();
    let key = Key::new("n", "p");
    // The pods are seen before the pool is.
    world.show(Kind::EnvPod, &pod("own", 1, "idle", true));
    world.show(Kind::EnvPod, &controlled(pod("older", 2, "idle", true), "u-older"));
    let mut stray = pod("stray", 3, "idle", true);
    stray["metadata"].as_object_mut().unwrap().remove("ownerReferences");
    world.show(Kind::EnvPod, &stray);
    assert_eq!(world.view.env_pod_counts(&key, "r"), EnvPodCounts::default());
    world.show(Kind::EnvPool, &pool("p", 4, json!({})));
    let names = |class| -> Vec<_> {
        world.view.env_pods(&key, class, 9).iter().map(|pod| pod.key.name.to_string()).collect()
    };
    let counted = || {
        let counts = world.view.env_pod_counts(&key, "r");
        (counts.idle_ready, counts.updated, world.view.idle_since(&key, 9).len())
    };
    assert_eq!((counted(), names(EnvPodClass::IdleReady)), ((1, 1, 1), vec!["own".to_owned()]));
    assert_eq!(world.view.env_pod_keys(&key).len(), 3, "all of them are looked at");
    // Owners are taken away and given.
    let own = controlled(pod("own", 5, "idle", true), "u-older");
    world.show(Kind::EnvPod, &own);
    assert_eq!(counted(), (0, 0, 0));
    stray["metadata"]["resourceVersion"] = json!("6");
    world.show(Kind::EnvPod, &controlled(stray, "u-p"));
    assert_eq!((counted(), names(EnvPodClass::IdleReady)), ((1, 1, 1), vec!["stray".to_owned()]));
}
