//! What people, and the server of OpenSandbox, do to batches and pools. Each step is one request that nothing
//! happens to.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use sandgate_objects::opensandbox::names;
use sandgate_sim::model::object::{annotation, deleting, label, list, number, text};
use sandgate_sim::model::{BATCHES, DeleteOptions, Kind, Model, PODS, POOLS, Part, Patch, Place, stamp};
use sandgate_sim::{Random, is_orphan};
use serde_json::{Value, json};

use crate::held::is_of_pool;

pub(crate) const NAMESPACE: &str = "default";
/// The pools, with what becomes of a pod that is given back.
pub(crate) const POOL_NAMES: [(&str, &str); 3] =
    [("fresh", "Delete"), ("worn", "Noop"), ("washed", "Restart")];
/// How many batches there are at most.
const BATCH_NAMES: usize = 6;
/// The most replicas of a batch.
pub(crate) const REPLICAS: usize = 3;
/// The label that the shard patch of a batch's first pod gives.
pub(crate) const SHARD: &str = "shard";
/// The finalizer of somebody else.
const FOREIGN: &str = "example.com/hold";

fn template(image: &str) -> Value {
    json!({ "spec": { "containers": [{ "name": "main", "image": image }] } })
}

/// Makes a pool.
pub(crate) fn make_pool(model: &mut Model, name: &str, recycle: &str) -> bool {
    let pool = json!({
        "metadata": { "name": name, "labels": { "kind": name } },
        "spec": {
            "template": template("image:1"),
            "capacitySpec": { "bufferMin": 1, "bufferMax": 3, "poolMin": 1, "poolMax": 7 },
            "recycleStrategy": { "type": recycle },
            "scaleStrategy": { "maxUnavailable": 3 },
        },
    });
    model.create(&POOLS, NAMESPACE, pool).is_ok()
}

/// Makes a batch with pods of a pool, or, without one, of its own.
pub(crate) fn make_batch(model: &mut Model, name: &str, pool: Option<&str>, replicas: usize) -> bool {
    make_batch_with(model, name, pool, replicas, &json!({}))
}

/// Makes a batch of a pool whose pods run a task each, and `Retain` or `Release` a pod whose task has ended.
pub(crate) fn make_task_batch(
    model: &mut Model,
    name: &str,
    pool: &str,
    replicas: usize,
    policy: &str,
) -> bool {
    make_batch_with(model, name, Some(pool), replicas, &task(policy))
}

/// Makes a batch with these other fields.
fn make_batch_with(
    model: &mut Model,
    name: &str,
    pool: Option<&str>,
    replicas: usize,
    others: &Value,
) -> bool {
    let mut spec = others.clone();
    spec["replicas"] = json!(replicas);
    match pool {
        Some(pool) => spec["poolRef"] = json!(pool),
        None => {
            spec["template"] = template("own:1");
            spec["shardPatches"] = json!([{ "metadata": { "labels": { SHARD: "first" } } }]);
        }
    }
    if pool == Some(names::POOL_ANY) {
        // A template beside it is what the pool is chosen by; this one takes any.
        spec["template"] = json!({ "spec": {} });
    }
    let batch = json!({ "metadata": { "name": name }, "spec": spec });
    model.create(&BATCHES, NAMESPACE, batch).is_ok()
}

/// A task, and what becomes of the pod when it is done.
fn task(policy: &str) -> Value {
    json!({
        "taskTemplate": { "spec": { "process": { "command": ["run"] } } },
        "taskResourcePolicyWhenCompleted": policy,
    })
}

/// Whether a batch has tasks, which are asked after for ever.
pub(crate) fn has_tasks(batch: &Value) -> bool {
    batch.pointer("/spec/taskTemplate").is_some()
}

#[derive(Clone, Copy)]
enum Step {
    Make,
    Scale,
    Delete,
    Move,
    Detach,
    Pause,
    Resume,
    Expire,
    Evict,
    LosePod,
    Roll,
    Resize,
    DeletePool,
    Scribble,
    Mend,
    Hold,
    LetGo,
}

/// What users remember.
#[derive(Default)]
pub(crate) struct Users {
    /// What was written in the place of the scribbles, by the UID of the batch.
    scribbled: BTreeMap<String, String>,
}

impl Users {
    /// One step of a user.
    pub(crate) fn step(&mut self, model: &mut Model, random: &mut Random) -> Option<String> {
        let weights = [
            (40, Step::Make),
            (25, Step::Scale),
            (22, Step::Delete),
            (14, Step::Move),
            (6, Step::Detach),
            (20, Step::Pause),
            (18, Step::Resume),
            (6, Step::Expire),
            (8, Step::Evict),
            (10, Step::LosePod),
            (8, Step::Roll),
            (6, Step::Resize),
            (2, Step::DeletePool),
            (3, Step::Scribble),
            (12, Step::Mend),
            (5, Step::Hold),
            (14, Step::LetGo),
        ];
        let step = random.weighted(&weights)?;
        self.perform(model, random, step)
    }

    fn perform(&mut self, model: &mut Model, random: &mut Random, step: Step) -> Option<String> {
        let live = |batch: &Value| !deleting(batch);
        let paused = |batch: &Value| batch.pointer("/spec/pause") == Some(&json!(true));
        match step {
            Step::Make => {
                let name = format!("batch-{}", random.below(BATCH_NAMES));
                let pool = match random.below(10) {
                    0 | 1 => None,
                    2 => Some(names::POOL_ANY),
                    _ => Some(random.pick(&POOL_NAMES).0),
                };
                let replicas = if random.chance(500) { 1 } else { random.below(REPLICAS + 1) };
                let task = match random.below(8) {
                    0 | 1 => task("Retain"),
                    2 => task("Release"),
                    _ => json!({}),
                };
                make_batch_with(model, &name, pool, replicas, &task)
                    .then(|| format!("makes {name} of {pool:?}, {replicas}: {task}"))
            }
            Step::Scale => {
                let place = some(model, random, &BATCHES, live)?;
                let replicas = random.below(REPLICAS + 1);
                patch(model, &place, "scales", &json!({ "spec": { "replicas": replicas } }))
            }
            Step::Delete => delete(model, &some(model, random, &BATCHES, live)?),
            Step::Move => {
                let pooled = |batch: &Value| live(batch) && !text(batch, "/spec/poolRef").is_empty();
                let place = some(model, random, &BATCHES, pooled)?;
                let pool = random.pick(&POOL_NAMES).0;
                patch(model, &place, "moves", &json!({ "spec": { "poolRef": pool } }))
            }
            Step::Detach => {
                let pooled = |batch: &Value| live(batch) && !text(batch, "/spec/poolRef").is_empty();
                let place = some(model, random, &BATCHES, pooled)?;
                let own = json!({ "spec": { "poolRef": null, "template": template("own:2") } });
                patch(model, &place, "detaches", &own)
            }
            Step::Pause => {
                let one = |batch: &Value| live(batch) && number(batch, "/spec/replicas") == Some(1);
                let place = some(model, random, &BATCHES, |batch| one(batch) && !paused(batch))?;
                patch(model, &place, "pauses", &json!({ "spec": { "pause": true } }))
            }
            Step::Resume => {
                // Hardly anybody changes their mind before it is done.
                let is_paused = |batch: &Value| text(batch, "/status/phase") == names::PHASE_PAUSED;
                let hasty = random.chance(150);
                let which = |batch: &Value| live(batch) && paused(batch) && (hasty || is_paused(batch));
                let place = some(model, random, &BATCHES, which)?;
                patch(model, &place, "resumes", &json!({ "spec": { "pause": false } }))
            }
            Step::Expire => {
                let place = some(model, random, &BATCHES, live)?;
                let seconds = i64::try_from(random.below(200)).unwrap_or(0);
                let at = stamp(model.now() + SignedDuration::from_secs(seconds));
                patch(model, &place, "ends later", &json!({ "spec": { "expireTime": at } }))
            }
            Step::Evict => {
                let place = some(model, random, &PODS, |pod| is_of_pool(pod) && live(pod))?;
                patch(
                    model,
                    &place,
                    "evicts",
                    &json!({ "metadata": { "labels": { names::LABEL_EVICT: "" } } }),
                )
            }
            Step::LosePod => {
                let pods: Vec<Place> = model
                    .list(&PODS)
                    .filter(|pod| !deleting(pod) && !is_orphan(model, pod))
                    .map(|pod| Place::of(&PODS, pod))
                    .collect();
                if pods.is_empty() { None } else { delete(model, random.pick(&pods)) }
            }
            Step::Roll => {
                let place = some(model, random, &POOLS, live)?;
                let image = format!("image:{}", 1 + random.below(4));
                patch(model, &place, "rolls", &json!({ "spec": { "template": template(&image) } }))
            }
            Step::Resize => {
                let place = some(model, random, &POOLS, live)?;
                let (least, most) = (random.below(2), 4 + random.below(5));
                let capacity = json!({
                    "bufferMin": least, "bufferMax": least + random.below(3), "poolMin": random.below(3),
                    "poolMax": most,
                });
                patch(model, &place, "resizes", &json!({ "spec": { "capacitySpec": capacity } }))
            }
            Step::DeletePool => {
                let place = some(model, random, &POOLS, live)?;
                let recycle = POOL_NAMES.iter().find(|(name, _)| *name == place.name)?.1;
                model.delete(&place, &DeleteOptions::default()).ok()?;
                let made = make_pool(model, &place.name, recycle);
                Some(format!("deletes {place}{}", if made { " and makes another" } else { "" }))
            }
            Step::Scribble => {
                let has = |batch: &Value| !annotation(batch, names::ANNOTATION_ALLOC_STATUS).is_empty();
                let place = some(model, random, &BATCHES, |batch| live(batch) && has(batch))?;
                let batch = model.get(&place).ok()?;
                let before = annotation(batch, names::ANNOTATION_ALLOC_STATUS).to_owned();
                if self.is_scribbled(batch) {
                    return None;
                }
                self.scribbled.insert(text(batch, "/metadata/uid").to_owned(), before.clone());
                set_status(model, &place, "scribbles on", &format!("{before}}}"))
            }
            Step::Mend => {
                let place = some(model, random, &BATCHES, |batch| self.is_scribbled(batch))?;
                self.mend(model, &place)
            }
            Step::Hold => {
                let place = some(model, random, &BATCHES, live)?;
                let mut batch = Value::clone(model.get(&place).ok()?);
                let mut finalizers = list(&batch, "/metadata/finalizers").to_vec();
                finalizers.push(json!(FOREIGN));
                batch["metadata"]["finalizers"] = json!(finalizers);
                model.replace(&place, Part::Main, batch).ok()?;
                Some(format!("holds {place}"))
            }
            Step::LetGo => {
                let place = some(model, random, &BATCHES, is_held_by_others)?;
                let_go(model, &place)
            }
        }
    }

    /// Whether a batch has an annotation that cannot be read.
    pub(crate) fn is_scribbled(&self, batch: &Value) -> bool {
        self.scribbled.contains_key(text(batch, "/metadata/uid"))
    }

    fn mend(&mut self, model: &mut Model, place: &Place) -> Option<String> {
        let uid = text(model.get(place).ok()?, "/metadata/uid").to_owned();
        let before = self.scribbled.remove(&uid)?;
        set_status(model, place, "mends", &before)
    }

    /// Nobody stands in the way of what is to be reached.
    pub(crate) fn settle(&mut self, model: &mut Model) -> Vec<String> {
        let batches: Vec<Place> = model.list(&BATCHES).map(|batch| Place::of(&BATCHES, batch)).collect();
        let mut done = Vec::new();
        for place in &batches {
            done.extend(self.mend(model, place));
            if model.get(place).is_ok_and(|batch| is_held_by_others(batch)) {
                done.extend(let_go(model, place));
            }
        }
        done
    }
}

/// Whether there are tasks: a cluster with tasks never rests.
pub(crate) fn are_tasks(model: &Model) -> bool {
    model.list(&BATCHES).any(|batch| has_tasks(batch))
}

/// There are no tasks any more.
pub(crate) fn end_tasks(model: &mut Model) -> Vec<String> {
    let with_tasks = model.list(&BATCHES).filter(|batch| has_tasks(batch) && !deleting(batch));
    let with_tasks: Vec<Place> = with_tasks.map(|batch| Place::of(&BATCHES, batch)).collect();
    with_tasks.iter().filter_map(|place| delete(model, place)).collect()
}

fn is_held_by_others(batch: &Value) -> bool {
    list(batch, "/metadata/finalizers").iter().any(|finalizer| finalizer == FOREIGN)
}

fn let_go(model: &mut Model, place: &Place) -> Option<String> {
    let mut batch = Value::clone(model.get(place).ok()?);
    let finalizers = list(&batch, "/metadata/finalizers").iter().filter(|finalizer| *finalizer != FOREIGN);
    batch["metadata"]["finalizers"] = finalizers.cloned().collect();
    model.replace(place, Part::Main, batch).ok()?;
    Some(format!("lets go {place}"))
}

fn set_status(model: &mut Model, place: &Place, what: &str, value: &str) -> Option<String> {
    let annotations = json!({ names::ANNOTATION_ALLOC_STATUS: value });
    patch(model, place, what, &json!({ "metadata": { "annotations": annotations } }))
}

fn some(
    model: &Model,
    random: &mut Random,
    kind: &'static Kind,
    which: impl Fn(&Value) -> bool,
) -> Option<Place> {
    let found: Vec<Place> =
        model.list(kind).filter(|object| which(object)).map(|object| Place::of(kind, object)).collect();
    if found.is_empty() { None } else { Some(random.pick(&found).clone()) }
}

fn patch(model: &mut Model, place: &Place, what: &str, patch: &Value) -> Option<String> {
    model.patch(place, Part::Main, &Patch::Merge(patch.clone())).ok()?;
    Some(format!("{what} {place}: {patch}"))
}

fn delete(model: &mut Model, place: &Place) -> Option<String> {
    model.delete(place, &DeleteOptions::default()).ok()?;
    Some(format!("deletes {place}"))
}

/// The image that the pods of a pool are to run.
pub(crate) fn image_of(pool: &Value) -> &str {
    text(pool, "/spec/template/spec/containers/0/image")
}

/// Whether a pod is to go as soon as nobody has it.
pub(crate) fn is_evicted(pod: &Value) -> bool {
    pod.pointer("/metadata/labels").is_some_and(|labels| labels.get(names::LABEL_EVICT).is_some())
}

/// The pool that a pod is of; empty if it is of none.
pub(crate) fn pool_of_pod(pod: &Value) -> &str {
    label(pod, names::LABEL_POOL_NAME)
}
