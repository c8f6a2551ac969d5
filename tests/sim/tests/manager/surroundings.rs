//! What runs beside the managers: the work of the operator, in few steps. It fills pools, makes sandboxes
//! ready, pauses, resumes and ends them.

use jiff::Timestamp;
use sandgate_objects::openkruise::{API_VERSION, SANDBOX_SET, names};
use sandgate_sim::Random;
use sandgate_sim::model::object::{annotation, condition, controller, deleting, number, text, uid};
use sandgate_sim::model::{DeleteOptions, Model, Part, Patch, Place, SANDBOX_SETS, SANDBOXES};
use serde_json::{Value, json};

/// Where the sandboxes are.
pub(crate) const NAMESPACE: &str = "default";
/// The revision of every set.
const REVISION: &str = "r1";

/// What may be done to a sandbox, or to a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    /// A set gets one more sandbox.
    Fill,
    /// The containers run.
    Run,
    /// The sandbox is ready.
    Ready,
    /// The status says which spec it is of.
    Observe,
    /// The pod goes.
    BeginPause,
    /// The pod is gone.
    EndPause,
    /// A new pod comes.
    BeginResume,
    /// The new pod is ready.
    EndResume,
    /// Its `pauseTime` has come.
    PauseByItself,
    /// Its `shutdownTime` has come.
    Expire,
    /// The pod has failed.
    Fail,
    /// A pool gives up a sandbox that has failed.
    Replace,
}

/// Makes a set.
pub(crate) fn make_set(model: &mut Model, name: &str, replicas: usize) {
    let set = json!({
        "metadata": { "name": name },
        "spec": { "replicas": replicas, "template": template() },
    });
    model.create(&SANDBOX_SETS, NAMESPACE, set).expect("a new set");
    let status = json!({ "status": { "updateRevision": REVISION, "observedGeneration": 1 } });
    let place = Place::new(&SANDBOX_SETS, NAMESPACE, name);
    model.patch(&place, Part::Status, &Patch::Merge(with_version(model, &place, status))).expect("a set");
}

fn template() -> Value {
    let resources = json!({ "limits": { "cpu": "1", "memory": "512Mi" } });
    json!({ "spec": { "containers": [{ "name": "main", "image": "image:1", "resources": resources }] } })
}

fn with_version(model: &Model, place: &Place, mut patch: Value) -> Value {
    let version = model.get(place).map(|object| text(object, "/metadata/resourceVersion").to_owned());
    patch["metadata"]["resourceVersion"] = json!(version.unwrap_or_default());
    patch
}

/// Whether a sandbox waits in a pool to be claimed.
pub(crate) fn is_available(sandbox: &Value) -> bool {
    !controller(sandbox).is_empty()
        && !deleting(sandbox)
        && text(sandbox, "/status/phase") == names::PHASE_RUNNING
        && condition(sandbox, names::CONDITION_READY) == "True"
        && annotation(sandbox, names::ANNOTATION_LOCK).is_empty()
}

/// Whether the spec asks for a pause.
pub(crate) fn is_to_pause(sandbox: &Value) -> bool {
    sandbox.pointer("/spec/paused") == Some(&json!(true))
}

/// Whether the sandbox is past its end, or has failed.
pub(crate) fn has_ended(sandbox: &Value, now: Timestamp) -> bool {
    time(sandbox, "/spec/shutdownTime").is_some_and(|at| at < now)
        || matches!(text(sandbox, "/status/phase"), names::PHASE_FAILED | names::PHASE_SUCCEEDED)
}

/// A time in the spec.
pub(crate) fn time(sandbox: &Value, pointer: &str) -> Option<Timestamp> {
    text(sandbox, pointer).parse().ok()
}

/// One step. `failures` of a thousand make things worse. Says what was done.
pub(crate) fn step(model: &mut Model, random: &mut Random, failures: u64) -> Option<String> {
    let mut acts: Vec<(Place, Act)> = Vec::new();
    for set in model.list(&SANDBOX_SETS) {
        let wanted = usize::try_from(number(set, "/spec/replicas").unwrap_or(0)).unwrap_or(0);
        let children = model.list(&SANDBOXES).filter(|child| controller(child) == uid(set)).count();
        if children < wanted {
            acts.push((Place::of(&SANDBOX_SETS, set), Act::Fill));
        }
    }
    for sandbox in model.list(&SANDBOXES) {
        let act = if random.chance(failures) { worse(sandbox) } else { forward(sandbox, model.now()) };
        acts.extend(act.map(|act| (Place::of(&SANDBOXES, sandbox), act)));
    }
    if acts.is_empty() {
        return None;
    }
    let (place, act) = random.pick(&acts).clone();
    perform(model, random, &place, act);
    Some(format!("operator: {act:?} {place}"))
}

fn worse(sandbox: &Value) -> Option<Act> {
    (text(sandbox, "/status/phase") == names::PHASE_RUNNING && !is_to_pause(sandbox)).then_some(Act::Fail)
}

fn forward(sandbox: &Value, now: Timestamp) -> Option<Act> {
    let phase = text(sandbox, "/status/phase");
    let paused = condition(sandbox, names::CONDITION_PAUSED) == "True";
    let ready = condition(sandbox, names::CONDITION_READY) == "True";
    let due = |pointer| time(sandbox, pointer).is_some_and(|at| at < now);
    Some(match phase {
        _ if due("/spec/shutdownTime") => Act::Expire,
        names::PHASE_FAILED if !controller(sandbox).is_empty() => Act::Replace,
        names::PHASE_FAILED => return None,
        _ if due("/spec/pauseTime") && !is_to_pause(sandbox) => Act::PauseByItself,
        "" => Act::Run,
        names::PHASE_RUNNING if is_to_pause(sandbox) => Act::BeginPause,
        names::PHASE_RUNNING if !ready => Act::Ready,
        names::PHASE_PAUSED if !paused => Act::EndPause,
        names::PHASE_PAUSED if !is_to_pause(sandbox) => Act::BeginResume,
        names::PHASE_RESUMING => Act::EndResume,
        _ if number(sandbox, "/status/observedGeneration") != number(sandbox, "/metadata/generation") => {
            Act::Observe
        }
        _ => return None,
    })
}

fn perform(model: &mut Model, random: &mut Random, place: &Place, act: Act) {
    if act == Act::Fill {
        return fill(model, random, place);
    }
    let Ok(sandbox) = model.get(place).cloned() else { return };
    if matches!(act, Act::Expire | Act::Replace) {
        model.delete(place, &DeleteOptions::of_uid(uid(&sandbox))).expect("the sandbox is there");
        return;
    }
    if act == Act::PauseByItself {
        let patch = with_version(model, place, json!({ "spec": { "paused": true } }));
        model.patch(place, Part::Main, &Patch::Merge(patch)).expect("the sandbox is there");
        return;
    }
    let address = format!("127.{}.{}.{}", random.below(256), random.below(256), 1 + random.below(254));
    let at = sandgate_sim::model::stamp(model.now());
    let condition = |name: &str, holds: bool| {
        let (status, reason) = if holds { ("True", "Done") } else { ("False", "Pending") };
        json!({ "type": name, "status": status, "reason": reason, "message": "", "lastTransitionTime": at })
    };
    let ready = |holds| condition(names::CONDITION_READY, holds);
    let pod = json!({ "podIP": address, "podUID": format!("pod-{}", random.next()) });
    let mut status = match act {
        Act::Run => json!({ "phase": names::PHASE_RUNNING, "podInfo": pod, "conditions": [ready(false)] }),
        Act::Ready => json!({ "conditions": [ready(true)] }),
        Act::BeginPause => json!({
            "phase": names::PHASE_PAUSED,
            "conditions": [condition(names::CONDITION_PAUSED, false), ready(false)],
        }),
        Act::EndPause => json!({ "conditions": [condition(names::CONDITION_PAUSED, true), ready(false)] }),
        Act::BeginResume => json!({
            "phase": names::PHASE_RESUMING,
            "conditions": [condition(names::CONDITION_RESUMED, false), ready(false)],
        }),
        Act::EndResume => json!({
            "phase": names::PHASE_RUNNING, "podInfo": pod,
            "conditions": [condition(names::CONDITION_RESUMED, true), ready(true)],
        }),
        Act::Fail => json!({ "phase": names::PHASE_FAILED, "conditions": [ready(false)] }),
        Act::Observe => json!({}),
        Act::Fill | Act::PauseByItself | Act::Expire | Act::Replace => return,
    };
    status["observedGeneration"] = sandbox["metadata"]["generation"].clone();
    let patch = with_version(model, place, json!({ "status": status }));
    model.patch(place, Part::Status, &Patch::Merge(patch)).expect("the sandbox is there");
}

fn fill(model: &mut Model, random: &mut Random, set: &Place) {
    let Ok(of) = model.get(set).cloned() else { return };
    let sandbox = json!({
        "metadata": {
            "name": format!("{}-{:05}", set.name, random.below(100_000)),
            "labels": {
                names::LABEL_SANDBOX_POOL: set.name, names::LABEL_SANDBOX_TEMPLATE: set.name,
                names::LABEL_SANDBOX_CLAIMED: "false", names::LABEL_TEMPLATE_HASH: REVISION,
            },
            "ownerReferences": [{
                "apiVersion": API_VERSION, "kind": SANDBOX_SET, "name": set.name, "uid": uid(&of),
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": { "template": of["spec"]["template"] },
    });
    // A name that is taken is one more try for the next step.
    let _ = model.create(&SANDBOXES, NAMESPACE, sandbox);
}
