//! The parts of a cluster that are not under test: nodes, and the garbage collector.

use serde_json::{Value, json};

use crate::Random;
use crate::model::object::{condition, deleting, list, number, text, uid};
use crate::model::{DeleteOptions, Kind, Model, PODS, Part, Patch, Place};

/// What a node may do with a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    /// Take it.
    Bind,
    /// Run its containers.
    Run,
    /// Give its containers the images and resources that its spec asks for now.
    Update,
    /// Its readiness probe succeeds.
    Ready,
    /// Its readiness probe fails.
    Unready,
    /// Its containers end.
    End,
    /// It has ended after a deletion.
    Remove,
}

/// One step of a node with one pod. `failures` of a thousand steps make things worse. Says what was done.
pub fn kubelet(model: &mut Model, random: &mut Random, failures: u64) -> Option<String> {
    let mut acts: Vec<(Place, Act)> = Vec::new();
    for pod in model.list(&PODS) {
        let phase = text(pod, "/status/phase");
        let is_ready = condition(pod, "Ready") == "True";
        let forward = match phase {
            _ if deleting(pod) => Some(Act::Remove),
            _ if text(pod, "/spec/nodeName").is_empty() => Some(Act::Bind),
            "Pending" => Some(Act::Run),
            "Running" if !is_up_to_date(pod) => Some(Act::Update),
            "Running" if !is_ready => Some(Act::Ready),
            _ => None,
        };
        let worse = match phase {
            "Pending" | "Running" if text(pod, "/spec/nodeName").is_empty() => None,
            "Running" if is_ready && random.chance(700) => Some(Act::Unready),
            "Pending" | "Running" => Some(Act::End),
            _ => None,
        };
        let act = if random.chance(failures) { worse } else { forward };
        acts.extend(act.map(|act| (Place::of(&PODS, pod), act)));
    }
    if acts.is_empty() {
        return None;
    }
    let (place, act) = random.pick(&acts).clone();
    perform(model, random, &place, act);
    Some(format!("{act:?} {place}"))
}

fn perform(model: &mut Model, random: &mut Random, place: &Place, act: Act) {
    let Ok(pod) = model.get(place).cloned() else { return };
    let address = format!("127.{}.{}.{}", random.below(256), random.below(256), 1 + random.below(254));
    let ready = |ready: bool| json!([{ "type": "Ready", "status": if ready { "True" } else { "False" } }]);
    let status = match act {
        Act::Bind => {
            let mut bound = Value::clone(&pod);
            bound["spec"]["nodeName"] = json!("node");
            model.put(place, bound);
            return;
        }
        Act::Remove => {
            let options = DeleteOptions { grace: Some(0), ..DeleteOptions::of_uid(uid(&pod)) };
            model.delete(place, &options).expect("the pod is there");
            return;
        }
        Act::Run => json!({
            "phase": "Running", "podIP": address, "conditions": ready(false),
            "containerStatuses": containers(&pod, &json!({ "running": {} })),
        }),
        Act::Update => json!({ "containerStatuses": containers(&pod, &json!({ "running": {} })) }),
        Act::Ready => json!({ "conditions": ready(true) }),
        Act::Unready => json!({ "conditions": ready(false) }),
        Act::End => json!({
            "phase": if random.chance(500) { "Failed" } else { "Succeeded" }, "conditions": ready(false),
            "containerStatuses": containers(&pod, &json!({ "terminated": { "exitCode": 1 } })),
        }),
    };
    model.patch(place, Part::Status, &Patch::Merge(json!({ "status": status }))).expect("the pod is there");
}

fn containers(pod: &Value, state: &Value) -> Vec<Value> {
    let each = |container: &Value| {
        let (name, image) = (text(container, "/name"), text(container, "/image"));
        let running = state.get("running").is_some();
        let restarts = restarts(pod, name);
        json!({
            "name": name, "image": image, "imageID": image,
            "containerID": format!("sim://{}/{name}/{restarts}", uid(pod)),
            "ready": running, "restartCount": restarts, "state": state, "resources": container["resources"],
        })
    };
    list(pod, "/spec/containers").iter().map(each).collect()
}

/// How often a container was restarted.
fn restarts(pod: &Value, container: &str) -> i64 {
    let statuses = list(pod, "/status/containerStatuses");
    let status = statuses.iter().find(|status| text(status, "/name") == container);
    status.and_then(|status| number(status, "/restartCount")).unwrap_or(0)
}

/// The first process of a container has ended, and the node starts the container anew. Nothing happens to one
/// that does not run.
pub fn restart(model: &mut Model, place: &Place, container: &str) {
    let Ok(pod) = model.get(place).cloned() else { return };
    if text(&pod, "/status/phase") != "Running" || deleting(&pod) {
        return;
    }
    let mut counted = Value::clone(&pod);
    for status in counted["status"]["containerStatuses"].as_array_mut().into_iter().flatten() {
        if text(status, "/name") == container {
            status["restartCount"] = json!(restarts(&pod, container) + 1);
        }
    }
    let status = json!({
        "conditions": [{ "type": "Ready", "status": "False" }],
        "containerStatuses": containers(&counted, &json!({ "running": {} })),
    });
    model.patch(place, Part::Status, &Patch::Merge(json!({ "status": status }))).expect("the pod is there");
}

fn is_up_to_date(pod: &Value) -> bool {
    let wanted = containers(pod, &json!({ "running": {} }));
    list(pod, "/status/containerStatuses") == wanted.as_slice()
}

/// One step of the garbage collector: an object whose owners are all gone is deleted. Says what was done.
pub(super) fn garbage(model: &mut Model, random: &mut Random) -> Option<String> {
    let orphans: Vec<(Place, String)> = model
        .all()
        .filter(|(_, object)| !deleting(object) && is_orphan(model, object))
        .map(|(place, object)| (place.clone(), uid(object).to_owned()))
        .collect();
    if orphans.is_empty() {
        return None;
    }
    let (place, uid) = random.pick(&orphans).clone();
    model.delete(&place, &DeleteOptions::of_uid(&uid)).expect("the object is there");
    Some(format!("collect {place}"))
}

/// Whether an object has owners and none of them exists.
pub fn is_orphan(model: &Model, object: &Value) -> bool {
    let owners = list(object, "/metadata/ownerReferences");
    let exists = |owner: &Value| {
        let Some(kind) = Kind::named(text(owner, "/apiVersion"), text(owner, "/kind")) else { return true };
        let place = Place::new(kind, text(object, "/metadata/namespace"), text(owner, "/name"));
        model.get(&place).is_ok_and(|found| uid(found) == text(owner, "/uid"))
    };
    !owners.is_empty() && !owners.iter().any(exists)
}
