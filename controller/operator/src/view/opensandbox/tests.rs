//! The account, the classes of pods, and who is told.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use proptest::prelude::*;
use sandgate_objects::opensandbox::resources::{BatchSandbox, Pool};
use serde_json::{Value, json};

use sandgate_objects::opensandbox::names;

use super::*;
use crate::Haste;
use crate::view::{Kind, View};

struct World {
    view: View,
    marks: Arc<Mutex<Vec<String>>>,
    /// Those of the marks that are pressing.
    pressed: Arc<Mutex<Vec<String>>>,
    version: u64,
}

impl World {
    fn new() -> Self {
        let marks = Arc::new(Mutex::new(Vec::new()));
        let pressed = Arc::new(Mutex::new(Vec::new()));
        let (written, hurried) = (Arc::clone(&marks), Arc::clone(&pressed));
        let view = View::new(Box::new(move |controller, key, haste| {
            let mark = format!("{controller:?} {}", key.name);
            if haste == Haste::Pressing {
                hurried.lock().push(mark.clone());
            }
            written.lock().push(mark);
        }));
        Self { view, marks, pressed, version: 10 }
    }

    /// Which marks were pressing since the last call.
    fn pressed(&self) -> Vec<String> {
        std::mem::take(&mut self.pressed.lock())
    }

    fn show(&mut self, kind: Kind, mut object: Value) -> Vec<String> {
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.view.observe_json(kind, object.to_string().as_bytes()).unwrap();
        std::mem::take(&mut self.marks.lock())
    }

    fn end(&mut self, kind: Kind, name: &str, uid: &str) -> Vec<String> {
        self.version += 1;
        let version = self.version.to_string().parse().unwrap();
        self.view.deleted(kind, &Key::new("n", name), uid, &version);
        std::mem::take(&mut self.marks.lock())
    }

    fn look(&self) -> PoolLook {
        let pool = self.view.get::<Pool>(&Key::new("n", "p")).unwrap();
        self.view.pool_look(&pool, "r1", 100, Timestamp::UNIX_EPOCH)
    }

    fn need(&self, batch: &str) -> Need {
        self.view.needs(&self.view.get::<BatchSandbox>(&Key::new("n", batch)).unwrap()).unwrap()
    }
}

fn pool() -> Value {
    json!({
        "metadata": {"name": "p", "namespace": "n", "uid": "uid-p"},
        "spec": {"capacitySpec": {"bufferMin": 0, "bufferMax": 0, "poolMin": 0, "poolMax": 9}, "template": {}},
    })
}

fn pod(name: &str) -> Value {
    json!({
        "metadata": {
            "name": name, "namespace": "n", "uid": format!("uid-{name}"),
            "labels": {"sandbox.opensandbox.io/pool-name": "p", "sandbox.opensandbox.io/pool-revision": "r1"},
            "ownerReferences": [{
                "apiVersion": "sandbox.opensandbox.io/v1alpha1", "kind": "Pool", "name": "p", "uid": "uid-p",
                "controller": true,
            }],
        },
        "spec": {"nodeName": "node"},
        "status": {"phase": "Running", "podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

fn marked(name: &str, batch: &str) -> Value {
    let mut pod = pod(name);
    pod["metadata"]["annotations"] = json!({"sandgate.dev/allocated-to": format!("uid-{batch}/{batch}")});
    pod
}

fn batch(name: &str, replicas: u32, status: &[&str], release: &[&str], released: &[&str]) -> Value {
    let list = |pods: &[&str]| json!({"pods": pods}).to_string();
    json!({
        "metadata": {
            "name": name, "namespace": "n", "uid": format!("uid-{name}"),
            "finalizers": ["pool.sandbox.opensandbox.io/pool-allocation"],
            "annotations": {
                "sandbox.opensandbox.io/alloc-status": list(status),
                "sandbox.opensandbox.io/alloc-release": list(release),
                "sandbox.opensandbox.io/alloc-released": list(released),
            },
        },
        "spec": {"replicas": replicas, "poolRef": "p"},
    })
}

#[test]
fn a_pod_is_in_the_class_that_its_own_word_and_the_batches_give_it() {
    let mut world = World::new();
    world.show(Kind::Pool, pool());
    for name in ["idle", "held", "wished", "done", "unmarked", "odd"] {
        let pod = if matches!(name, "idle" | "unmarked") { pod(name) } else { marked(name, "b") };
        world.show(Kind::PoolPod, pod);
    }
    world.show(
        Kind::BatchSandbox,
        batch("b", 5, &["held", "wished", "done", "unmarked"], &["wished", "done"], &["done"]),
    );
    let mut evict = pod("evict");
    evict["metadata"]["labels"]["pool.opensandbox.io/evict"] = "".into();
    world.show(Kind::PoolPod, evict);
    let mut dead = pod("dead");
    dead["status"]["phase"] = "Failed".into();
    world.show(Kind::PoolPod, dead);
    let mut young = pod("young");
    young["status"] = json!({"phase": "Pending"});
    young["metadata"]["labels"]["sandbox.opensandbox.io/pool-revision"] = "r0".into();
    world.show(Kind::PoolPod, young);
    let mut leaving = marked("leaving", "b");
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    world.show(Kind::PoolPod, leaving);
    let look = world.look();
    let names = |pods: &[Arc<Seen<PoolPod>>]| -> Vec<String> {
        pods.iter().map(|pod| pod.key.name.to_string()).collect()
    };
    assert_eq!(names(&look.free), ["idle"]);
    assert_eq!(names(&look.releasing), ["wished"]);
    assert_eq!(names(&look.orphans), ["done", "odd"]);
    assert_eq!(names(&look.held_unmarked), ["unmarked"]);
    assert_eq!(names(&look.evict), ["evict"]);
    assert_eq!(names(&look.dead), ["dead"]);
    assert_eq!(names(&look.idle_old), ["young"]);
    let counts = look.counts;
    assert_eq!((counts.held, counts.leaving, counts.unready_old, counts.ready_new), (3, 1, 1, 1));
    assert_eq!((counts.total(), counts.updated), (9, 8));
}

#[test]
fn a_batch_lacks_what_is_missing_gone_going_foreign_or_of_another_pool() {
    let mut world = World::new();
    world.show(Kind::Pool, pool());
    world.show(Kind::PoolPod, marked("kept", "b"));
    world.show(Kind::PoolPod, marked("foreign", "c"));
    let mut leaving = marked("leaving", "b");
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    world.show(Kind::PoolPod, leaving);
    let mut elsewhere = marked("elsewhere", "b");
    elsewhere["metadata"]["ownerReferences"][0]["name"] = "q".into();
    world.show(Kind::PoolPod, elsewhere);
    let slots = ["kept", "gone", "leaving", "foreign", "elsewhere", "kept"];
    world.show(Kind::BatchSandbox, batch("b", 8, &slots, &[], &[]));
    let need = world.need("b");
    assert_eq!((need.append, need.replace.as_slice()), (2, [1, 2, 3, 4, 5].as_slice()));
    // A slot that was released is filled anew while the batch wants it.
    world.show(Kind::BatchSandbox, batch("b", 2, &["gone", "kept"], &["gone"], &["gone"]));
    assert_eq!((world.need("b").append, world.need("b").replace), (0, vec![0]));
    // What is to be released and gone has nothing to recycle.
    world.show(Kind::BatchSandbox, batch("b", 2, &["gone", "kept"], &["gone", "kept"], &[]));
    let need = world.need("b");
    assert_eq!((need.release.len(), need.release_over.as_slice()), (2, ["gone".into()].as_slice()));
}

#[test]
fn slots_are_cut_from_the_end_once_they_are_released() {
    let mut world = World::new();
    world.show(Kind::Pool, pool());
    for (released, cut) in [(&[][..], 0), (&["b"], 0), (&["c"], 1), (&["b", "c"], 2), (&["a", "b", "c"], 3)] {
        world.show(Kind::BatchSandbox, batch("x", 1, &["a", "b", "c"], &["b", "c"], released));
        assert_eq!(world.need("x").cut, cut, "{released:?}");
    }
}

#[test]
fn a_batch_that_goes_lets_everything_go_once_its_tasks_have_ended() {
    let mut world = World::new();
    world.show(Kind::Pool, pool());
    world.show(Kind::PoolPod, marked("a", "b"));
    let mut going = batch("b", 2, &["a"], &[], &[]);
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    let mut with_tasks = going.clone();
    with_tasks["metadata"]["finalizers"] =
        json!([names::FINALIZER_POOL_ALLOCATION, names::FINALIZER_TASK_CLEANUP]);
    world.show(Kind::BatchSandbox, with_tasks);
    assert_eq!(world.need("b").release, Vec::<Arc<str>>::new());
    world.show(Kind::BatchSandbox, going.clone());
    let need = world.need("b");
    assert_eq!(
        (need.release.as_slice(), need.append, need.drop_finalizer),
        (["a".into()].as_slice(), 0, false)
    );
    assert_eq!(world.look().releasing.len(), 1);
    going["metadata"]["annotations"]["sandbox.opensandbox.io/alloc-released"] = r#"{"pods":["a"]}"#.into();
    world.show(Kind::BatchSandbox, going);
    assert!(world.need("b").drop_finalizer);
}

#[test]
fn annotations_that_cannot_be_read_hold_every_pod_that_they_may_mean() {
    let mut world = World::new();
    world.show(Kind::Pool, pool());
    for name in ["named", "other"] {
        world.show(Kind::PoolPod, pod(name));
    }
    world.show(Kind::PoolPod, marked("marked", "b"));
    let mut bad = batch("b", 9, &[], &[], &[]);
    bad["metadata"]["annotations"]["sandbox.opensandbox.io/alloc-status"] = r#"{"pods":["named","#.into();
    world.show(Kind::BatchSandbox, bad);
    let look = world.look();
    assert_eq!((look.counts.held, look.orphans.len(), look.needs.len()), (2, 0, 0));
    assert_eq!(world.view.malformed_batches(), [Key::new("n", "b")]);
    world.show(Kind::BatchSandbox, batch("b", 1, &["named"], &[], &[]));
    assert_eq!((world.look().counts.held, world.look().orphans.len()), (1, 1));
    assert!(world.view.malformed_batches().is_empty());
}

#[test]
fn the_line_is_first_come_first_served() {
    let mut world = World::new();
    world.show(Kind::Pool, pool());
    for (name, created) in [("late", "03"), ("early", "01"), ("middle", "02")] {
        let mut batch = batch(name, 1, &[], &[], &[]);
        batch["metadata"]["creationTimestamp"] = format!("2026-01-{created}T00:00:00Z").into();
        world.show(Kind::BatchSandbox, batch);
    }
    for _ in 0..3 {
        world.show(Kind::PoolPod, pod(&format!("pod-{}", world.version)));
    }
    let look = world.look();
    let line: Vec<_> = look.needs.iter().map(|(batch, _)| &*batch.key.name).collect();
    assert_eq!((line, look.free.len()), (vec!["early", "middle", "late"], 3));
}

#[test]
fn whoever_has_to_look_is_told_and_nobody_else() {
    let mut world = World::new();
    assert_eq!(world.show(Kind::Pool, pool()), ["Pool p"]);
    assert_eq!(world.show(Kind::PoolPod, pod("a")), ["Pool p"]);
    assert_eq!(world.show(Kind::PoolPod, pod("a")), Vec::<String>::new(), "nothing that the pool goes by");
    let held = batch("b", 1, &["a"], &[], &[]);
    assert_eq!(world.show(Kind::BatchSandbox, held.clone()), ["BatchSandbox b", "Pool p"]);
    assert_eq!(world.show(Kind::BatchSandbox, held), ["BatchSandbox b"]);
    assert_eq!(world.show(Kind::PoolPod, marked("a", "b")), ["BatchSandbox b", "Pool p"]);
    let gone = world.end(Kind::PoolPod, "a", "uid-a");
    assert_eq!(gone, ["BatchSandbox b", "Pool p"]);
    // Of a pool to be chosen, those that wait are told of a new one.
    let mut any = batch("any", 1, &[], &[], &[]);
    any["spec"]["poolRef"] = "*".into();
    world.show(Kind::BatchSandbox, any);
    let mut other = pool();
    other["metadata"]["name"] = "q".into();
    other["metadata"]["uid"] = "uid-q".into();
    assert_eq!(world.show(Kind::Pool, other), ["BatchSandbox any", "Pool q"]);
    assert_eq!(world.end(Kind::BatchSandbox, "b", "uid-b"), ["BatchSandbox b", "Pool p"]);
}

#[test]
fn a_batch_that_waits_for_any_pool_is_told_of_one_that_may_fit_it_now() {
    let mut world = World::new();
    for (name, replicas) in [("one", 1), ("four", 4)] {
        let mut any = batch(name, replicas, &[], &[], &[]);
        any["spec"]["poolRef"] = "*".into();
        world.show(Kind::BatchSandbox, any);
    }
    let mut pool = pool();
    let (both, none) = (["BatchSandbox four", "BatchSandbox one", "Pool p"], ["Pool p"]);
    assert_eq!(world.show(Kind::Pool, pool.clone()), both, "it is new");
    pool["metadata"]["labels"] = json!({"zone": "west"});
    assert_eq!(world.show(Kind::Pool, pool.clone()), both, "it has other labels");
    pool["metadata"]["annotations"] = json!({"note": "x"});
    assert_eq!(world.show(Kind::Pool, pool.clone()), none, "nothing that a choice goes by");
    let mut allocated = |allocated: u32| {
        pool["status"] = json!({"total": 9, "allocated": allocated, "available": 0, "revision": "r1"});
        world.show(Kind::Pool, pool.clone())
    };
    assert_eq!(allocated(9), none, "it is full");
    assert_eq!(allocated(8), ["BatchSandbox one", "Pool p"], "it has room for one");
    assert_eq!(allocated(6), none, "for three");
    assert_eq!(allocated(5), ["BatchSandbox four", "Pool p"], "for four");
    assert_eq!(allocated(4), none, "for more than anybody wants");
    assert_eq!(allocated(9), none, "it is full again");
    assert_eq!(allocated(0), both);
    pool["spec"]["capacitySpec"]["poolMax"] = 8.into();
    assert_eq!(world.show(Kind::Pool, pool), both, "it has another spec");
}

#[test]
fn a_pool_looks_again_when_a_batch_may_have_a_pod_that_it_had_refused() {
    let mut world = World::new();
    world.show(Kind::Pool, pool());
    world.show(Kind::PoolPod, pod("p-1"));
    world.show(Kind::BatchSandbox, batch("b", 1, &[], &[], &["p-1"]));
    let marks = world.show(Kind::BatchSandbox, batch("b", 1, &[], &[], &[]));
    assert_eq!(marks, ["BatchSandbox b", "Pool p"]);
    world.show(Kind::BatchSandbox, batch("b", 0, &[], &[], &["p-1"]));
    let marks = world.show(Kind::BatchSandbox, batch("b", 0, &[], &[], &[]));
    assert_eq!(marks, ["BatchSandbox b"], "it lacks none");
}

#[derive(Clone, Debug)]
enum Step {
    Pod { name: u8, mark: Option<u8>, leaving: bool },
    NoPod(u8),
    Batch { name: u8, status: Vec<u8>, release: Vec<u8>, released: Vec<u8>, broken: bool },
    NoBatch(u8),
}

#[test]
fn a_batch_whose_pod_is_ready_is_pressing_and_nothing_else_is() {
    let mut world = World::new();
    let mut own = pod("b-0");
    own["metadata"]["ownerReferences"][0]["kind"] = "BatchSandbox".into();
    own["metadata"]["ownerReferences"][0]["name"] = "b".into();
    own["metadata"]["ownerReferences"][0]["uid"] = "uid-b".into();
    let mut young = own.clone();
    young["status"]["conditions"][0]["status"] = "False".into();
    world.show(Kind::OwnPod, young.clone());
    assert_eq!(world.pressed(), [""; 0], "it has only started");
    world.show(Kind::OwnPod, own.clone());
    assert_eq!(world.pressed(), ["BatchSandbox b"]);
    own["metadata"]["labels"]["other"] = "".into();
    world.show(Kind::OwnPod, own);
    assert_eq!(world.pressed(), [""; 0], "it was ready before");
    world.show(Kind::OwnPod, young);
    assert_eq!(world.pressed(), [""; 0], "it is not ready any more");

    world.show(Kind::Pool, pool());
    world.show(Kind::PoolPod, marked("p-1", "c"));
    world.show(Kind::BatchSandbox, batch("c", 1, &[], &[], &[]));
    world.pressed();
    world.show(Kind::BatchSandbox, batch("c", 1, &["p-1"], &[], &[]));
    assert_eq!(world.pressed(), ["BatchSandbox c"], "it was given a pod");
    world.show(Kind::BatchSandbox, batch("c", 1, &["p-1"], &["p-1"], &["p-1"]));
    assert_eq!(world.pressed(), [""; 0], "a pod was taken from it");
}

fn step() -> impl Strategy<Value = Step> {
    let list = || proptest::collection::vec(0..4_u8, 0..3);
    prop_oneof![
        (0..4_u8, proptest::option::of(0..3_u8), any::<bool>()).prop_map(|(name, mark, leaving)| Step::Pod {
            name,
            mark,
            leaving
        }),
        (0..4_u8).prop_map(Step::NoPod),
        (0..3_u8, list(), list(), list(), proptest::bool::weighted(0.2)).prop_map(
            |(name, status, release, released, broken)| Step::Batch {
                name,
                status,
                release,
                released,
                broken
            }
        ),
        (0..3_u8).prop_map(Step::NoBatch),
    ]
}

impl World {
    fn apply(&mut self, step: &Step) {
        match step {
            Step::Pod { name, mark, leaving } => {
                let name = format!("x{name}");
                let mut pod = mark.map_or_else(|| pod(&name), |mark| marked(&name, &format!("b{mark}")));
                if *leaving {
                    pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
                }
                self.show(Kind::PoolPod, pod);
            }
            Step::NoPod(name) => drop(self.end(Kind::PoolPod, &format!("x{name}"), &format!("uid-x{name}"))),
            Step::Batch { name, status, release, released, broken } => {
                let names = |list: &[u8]| list.iter().map(|name| format!("x{name}")).collect::<Vec<_>>();
                let [status, release, released] = [status, release, released].map(|list| names(list));
                let list = |names: &[String]| json!({"pods": names}).to_string();
                let mut batch = batch(&format!("b{name}"), 3, &[], &[], &[]);
                let annotations = &mut batch["metadata"]["annotations"];
                annotations["sandbox.opensandbox.io/alloc-status"] = list(&status).into();
                annotations["sandbox.opensandbox.io/alloc-release"] = list(&release).into();
                annotations["sandbox.opensandbox.io/alloc-released"] = list(&released).into();
                if *broken {
                    annotations["sandbox.opensandbox.io/alloc-released"] = "{".into();
                }
                self.show(Kind::BatchSandbox, batch);
            }
            Step::NoBatch(name) => {
                drop(self.end(Kind::BatchSandbox, &format!("b{name}"), &format!("uid-b{name}")));
            }
        }
    }

    fn summary(&self) -> (PoolCounts, Vec<BTreeSet<String>>, Vec<(String, Need)>) {
        let look = self.look();
        let names = |pods: &[Arc<Seen<PoolPod>>]| pods.iter().map(|pod| pod.key.name.to_string()).collect();
        let lists = [&look.free, &look.idle_new, &look.releasing, &look.orphans, &look.held_unmarked];
        let needs = look.needs.iter().map(|(batch, need)| (batch.key.name.to_string(), need.clone()));
        (look.counts, lists.map(|pods| names(pods)).into(), needs.collect())
    }
}

proptest! {
    /// The indexes are a function of the objects: what they say does not depend on what came first.
    #[test]
    fn the_account_is_the_same_in_whatever_order_objects_were_seen(steps in proptest::collection::vec(step(), 0..24)) {
        let mut world = World::new();
        world.show(Kind::Pool, pool());
        for step in &steps {
            world.apply(step);
        }
        // The last word on each object, batches first and pods first.
        let (mut pods, mut batches) = (BTreeMap::new(), BTreeMap::new());
        for step in &steps {
            match step {
                Step::Pod { name, .. } | Step::NoPod(name) => drop(pods.insert(*name, step)),
                Step::Batch { name, .. } | Step::NoBatch(name) => drop(batches.insert(*name, step)),
            }
        }
        let known: Vec<_> = world.summary().2;
        let orders: [Vec<&Step>; 2] = [
            pods.values().chain(batches.values()).copied().collect(),
            batches.values().rev().chain(pods.values().rev()).copied().collect(),
        ];
        for order in orders {
            let mut fresh = World::new();
            fresh.show(Kind::Pool, pool());
            for step in order {
                fresh.apply(step);
            }
            prop_assert_eq!(fresh.summary().0, world.summary().0);
            prop_assert_eq!(fresh.summary().1, world.summary().1);
            prop_assert_eq!(&fresh.summary().2, &known);
        }
    }
}
