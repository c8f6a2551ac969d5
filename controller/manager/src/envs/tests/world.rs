//! Environments in the world of the managers, a kubelet for the pods of pools, and an operator that ends what
//! it has begun.

use std::sync::Arc;

use jiff::Timestamp;
use sandgate_cache::testing::condition;
use sandgate_envs::change::{Progress, progress};
use sandgate_objects::sandbox_env::names;
use sandgate_objects::sandbox_env::resources::{EnvPod, decode};
use sandgate_sim::model::{ENV_POOLS, ENVS, Model, PODS, Part, Patch, Place};
use serde_json::{Value, json};

use crate::NewSandbox;
use crate::manager::tests::world::{NAMESPACE, World, wanted};

/// A pool of an environment: its name, how many idle pods it has, and its priority.
pub(super) type Pool<'a> = (&'a str, usize, i32);

/// A world with so many managers that serve the environment `shop` with these pools.
pub(super) fn shop(replicas: usize, pools: &[Pool<'_>]) -> World {
    let mut world = World::with(0, 0);
    world.environments = true;
    env(&mut world, "shop", pools);
    for _ in 0..replicas {
        world.start();
    }
    world
}

/// Makes an environment with these pools.
pub(super) fn env(world: &mut World, name: &str, pools: &[Pool<'_>]) {
    let members: Vec<_> = pools
        .iter()
        .map(|(pool, _, priority)| json!({"name": pool, "config": {"priority": priority, "scalingGroup": "g"}}))
        .collect();
    let spec = json!({
        "templateRef": {"name": "t"}, "clusters": [{"clusterID": "here", "members": members}],
    });
    let object = json!({"metadata": {"name": name}, "spec": spec});
    let made = Value::clone(&world.model.create(&ENVS, NAMESPACE, object).unwrap());
    let owner = json!({
        "apiVersion": names::API_VERSION, "kind": names::KIND_ENV, "name": name, "uid": made["metadata"]["uid"],
        "controller": true,
    });
    for (pool, idle, _) in pools {
        let template = json!({"spec": {"containers": [{
            "name": "main", "image": "app:1", "resources": {"limits": {"cpu": "500m", "memory": "1Gi"}},
        }]}});
        let spec = json!({
            "replicas": idle, "templateName": "t", "idleImage": "idle:1", "template": template,
            "runtimes": [{"name": "e2b", "port": 49983}],
        });
        let labels = json!({(names::LABEL_ENV): name});
        let metadata = json!({"name": pool, "labels": labels, "ownerReferences": [owner]});
        let object = json!({"metadata": metadata, "spec": spec});
        world.model.create(&ENV_POOLS, NAMESPACE, object).unwrap();
        for number in 0..*idle {
            stock(world, pool, &format!("{pool}-{number}"), name);
        }
    }
}

/// Puts an idle pod into a pool.
pub(super) fn stock(world: &mut World, pool: &str, name: &str, env: &str) {
    let owner = world.model.get(&Place::new(&ENV_POOLS, NAMESPACE, pool)).unwrap();
    let uid = owner["metadata"]["uid"].clone();
    let labels = json!({
        (names::LABEL_POOL): pool, (names::LABEL_PHASE): names::PHASE_IDLE, (names::LABEL_ENV): env,
    });
    let pod = json!({
        "metadata": {
            "name": name, "labels": labels,
            "ownerReferences": [{
                "apiVersion": names::API_VERSION, "kind": names::KIND_POOL, "name": pool, "uid": uid,
                "controller": true,
            }],
        },
        "spec": {"containers": [{"name": "main", "image": "idle:1"}]},
    });
    let mut made = Value::clone(&world.model.create(&PODS, NAMESPACE, pod).unwrap());
    made["status"] = json!({
        "phase": "Running", "podIP": "10.0.0.7", "conditions": [condition("Ready", true, "PodReady")],
        "containerStatuses": [container("idle:1", 0)],
    });
    world.model.put(&Place::of(&PODS, &made), made);
}

fn container(image: &str, number: u64) -> Value {
    json!({
        "name": "main", "image": image, "imageID": image, "containerID": format!("c-{number}"),
        "restartCount": number, "ready": true, "state": {"running": {}},
    })
}

/// One step of the kubelet and of the operator for each pod.
pub(crate) fn control(model: &mut Model, now: Timestamp) {
    let pods: Vec<_> = model.list(&PODS).cloned().collect();
    for old in pods {
        let place = Place::of(&PODS, &old);
        let wanted = old["spec"]["containers"][0]["image"].as_str().unwrap_or_default();
        let is = &old["status"]["containerStatuses"][0];
        if is["image"] != wanted {
            let mut pod = Value::clone(&old);
            let restarts = is["restartCount"].as_u64().unwrap_or_default() + 1;
            pod["status"]["containerStatuses"] = json!([container(wanted, restarts)]);
            model.put(&place, pod);
            continue;
        }
        let pod: EnvPod = decode(old.to_string().as_bytes()).unwrap();
        if let Progress::Done(_, mut patch) = progress(&pod, now) {
            patch["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"].clone();
            let patch = Patch::read(&PODS, "application/merge-patch+json", patch).unwrap();
            model.patch(&place, Part::Main, &patch).unwrap();
        }
    }
}

/// A sandbox of the environment `shop`, with five minutes.
pub(super) fn of_shop() -> NewSandbox {
    NewSandbox { template: "shop".to_owned(), ..wanted() }
}

/// The same with these wishes.
pub(super) fn wishing(wishes: &[(&str, &str)]) -> NewSandbox {
    let mut new = of_shop();
    for (wish, value) in wishes {
        new.metadata.insert(format!("agentbox.scitix.ai/{wish}"), (*value).to_owned());
    }
    new
}

/// A pod by its name.
pub(super) fn pod(world: &World, name: &str) -> EnvPod {
    let place = Place::new(&PODS, NAMESPACE, name);
    decode(world.model.get(&place).unwrap().to_string().as_bytes()).unwrap()
}

/// The phases of all pods, in the order of their names.
pub(super) fn phases(world: &World) -> Vec<String> {
    let phase = |pod: &Arc<Value>| pod["metadata"]["labels"][names::LABEL_PHASE].as_str().unwrap().to_owned();
    world.model.list(&PODS).map(phase).collect()
}

/// An annotation of a pool.
pub(super) fn annotation_of(world: &World, pool: &str, is_it: impl Fn(&str) -> bool) -> Option<String> {
    let pool = world.model.get(&Place::new(&ENV_POOLS, NAMESPACE, pool)).unwrap();
    let annotations = pool["metadata"]["annotations"].as_object().into_iter().flatten();
    let found = annotations.into_iter().find(|(name, _)| is_it(name));
    found.map(|(_, value)| value.as_str().unwrap().to_owned())
}

/// Runs something on a manager to its end.
macro_rules! on {
    ($world:expr, $replica:expr, |$manager:ident| $work:expr) => {{
        let $manager = $world.manager($replica);
        $world.end(async move { $work.await }).await
    }};
}
pub(super) use on;
