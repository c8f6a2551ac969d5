//! What people and the manager do to sandboxes and sets. Each step is one request that nothing happens to.

use jiff::SignedDuration;
use sandgate_objects::openkruise::names;
use sandgate_sim::model::object::{annotation, condition, controller, deleting, label, number, text};
use sandgate_sim::model::{
    DeleteOptions, Model, PODS, Part, Patch, Place, SANDBOX_SETS, SANDBOX_TEMPLATES, SANDBOXES, stamp,
};
use sandgate_sim::network::{Operation, UnderWay};
use sandgate_sim::{Random, is_orphan};
use serde_json::{Value, json};

pub(crate) const NAMESPACE: &str = "default";
/// The template that a set refers to.
const SHARED: &str = "shared";
/// The largest set.
pub(crate) const MOST: i64 = 5;

pub(crate) fn template(image: &str, labels: &Value) -> Value {
    json!({
        "metadata": { "labels": labels },
        "spec": { "containers": [{ "name": "main", "image": image, "resources": { "limits": { "cpu": "1" } } }] },
    })
}

/// Makes a set.
pub(crate) fn make_set(model: &mut Model, name: &str, replicas: i64) {
    let set = json!({
        "metadata": { "name": name },
        "spec": { "replicas": replicas, "template": template("image:1", &json!({ "app": name })) },
    });
    model.create(&SANDBOX_SETS, NAMESPACE, set).expect("a new set");
}

/// Makes a set whose template is an object of its own, and which makes its sandboxes one after the other.
pub(crate) fn make_set_by_reference(model: &mut Model, name: &str, replicas: i64) {
    let shared = Place::new(&SANDBOX_TEMPLATES, NAMESPACE, SHARED);
    if model.get(&shared).is_err() {
        let template = json!({
            "metadata": { "name": SHARED },
            "spec": { "template": template("image:1", &json!({ "app": "shared" })) },
        });
        model.create(&SANDBOX_TEMPLATES, NAMESPACE, template).expect("a new template");
    }
    let set = json!({
        "metadata": { "name": name },
        "spec": {
            "replicas": replicas, "templateRef": { "name": SHARED },
            "scaleStrategy": { "maxUnavailable": 1 }, "updateStrategy": { "maxUnavailable": "50%" },
        },
    });
    model.create(&SANDBOX_SETS, NAMESPACE, set).expect("a new set");
}

/// The image that the sandboxes of a set are to run.
pub(crate) fn image_of_set(model: &Model, set: &Value) -> Option<String> {
    let image = "/spec/template/spec/containers/0/image";
    let shared = text(set, "/spec/templateRef/name");
    if shared.is_empty() {
        return Some(text(set, image).to_owned());
    }
    let template = model.get(&Place::new(&SANDBOX_TEMPLATES, NAMESPACE, shared)).ok()?;
    Some(text(template, image).to_owned())
}

/// Makes a sandbox that belongs to no set, with a volume.
pub(crate) fn make_sandbox(model: &mut Model, name: &str) -> bool {
    let claim = json!({
        "metadata": { "name": "data" },
        "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
    });
    let sandbox = json!({
        "metadata": { "name": name },
        "spec": { "template": template("image:1", &json!({})), "volumeClaimTemplates": [claim] },
    });
    model.create(&SANDBOXES, NAMESPACE, sandbox).is_ok()
}

/// Whether a sandbox waits in a set to be claimed.
pub(crate) fn is_available(sandbox: &Value) -> bool {
    !controller(sandbox).is_empty()
        && !deleting(sandbox)
        && text(sandbox, "/status/phase") == names::PHASE_RUNNING
        && condition(sandbox, names::CONDITION_READY) == "True"
        && annotation(sandbox, names::ANNOTATION_LOCK).is_empty()
}

/// One step of a user.
pub(crate) fn step(model: &mut Model, random: &mut Random) -> Option<String> {
    let weights = [
        (30, Step::Claim),
        (20, Step::Pause),
        (20, Step::Resume),
        (10, Step::Delete),
        (15, Step::Scale),
        (10, Step::Roll),
        (8, Step::Expire),
        (8, Step::PauseLater),
        (20, Step::Update),
        (4, Step::LosePod),
        (3, Step::DeleteChild),
        (3, Step::DeleteSet),
        (6, Step::Make),
        (6, Step::Hold),
        (14, Step::Replace),
        (4, Step::Unlabel),
    ];
    let step = random.weighted(&weights)?;
    perform(model, random, step)
}

/// One step of a user who only changes the template of sets.
pub(crate) fn roll(model: &mut Model, random: &mut Random) -> Option<String> {
    perform(model, random, Step::Roll)
}

#[derive(Clone, Copy)]
enum Step {
    Claim,
    Pause,
    Resume,
    Delete,
    Scale,
    Roll,
    Expire,
    PauseLater,
    Update,
    LosePod,
    DeleteChild,
    DeleteSet,
    Make,
    Hold,
    Replace,
    Unlabel,
}

fn perform(model: &mut Model, random: &mut Random, step: Step) -> Option<String> {
    let claimed = |sandbox: &Value| controller(sandbox).is_empty() && !deleting(sandbox);
    let paused = |sandbox: &Value| sandbox.pointer("/spec/paused") == Some(&json!(true));
    let owned = |sandbox: &Value| !controller(sandbox).is_empty() && !deleting(sandbox);
    match step {
        Step::Claim => claim(model, random),
        Step::Pause => {
            let place = some(model, random, |sandbox| claimed(sandbox) && !paused(sandbox))?;
            patch(model, &place, "pauses", &json!({ "spec": { "paused": true } }))
        }
        Step::Resume => {
            let place = some(model, random, |sandbox| claimed(sandbox) && paused(sandbox))?;
            patch(model, &place, "resumes", &json!({ "spec": { "paused": false, "pauseTime": null } }))
        }
        Step::Delete => delete(model, &some(model, random, claimed)?),
        Step::DeleteChild => delete(model, &some(model, random, owned)?),
        Step::Expire => {
            let place = some(model, random, claimed)?;
            let at = soon(model, random);
            patch(model, &place, "ends later", &json!({ "spec": { "shutdownTime": at } }))
        }
        Step::PauseLater => {
            let place = some(model, random, |sandbox| claimed(sandbox) && !paused(sandbox))?;
            let at = soon(model, random);
            patch(model, &place, "pauses later", &json!({ "spec": { "pauseTime": at } }))
        }
        Step::Update => {
            let place = some(model, random, claimed)?;
            let policy = random.chance(500).then(|| json!({ "type": "Recreate" }));
            let image = format!("image:{}", 1 + random.below(4));
            let spec = json!({ "template": template(&image, &json!({ "updated": "true" })), "upgradePolicy": policy });
            patch(model, &place, "updates", &json!({ "spec": spec }))
        }
        Step::Scale => {
            let place = some_set(model, random)?;
            let replicas = random.next() % (MOST.unsigned_abs() + 1);
            patch(model, &place, "scales", &json!({ "spec": { "replicas": replicas } }))
        }
        Step::Roll => {
            let place = some_set(model, random)?;
            let image = format!("image:{}", 1 + random.below(4));
            let template = template(&image, &json!({ "app": place.name }));
            let is_shared = model.get(&place).is_ok_and(|set| set.pointer("/spec/templateRef").is_some());
            let place = if is_shared { Place::new(&SANDBOX_TEMPLATES, NAMESPACE, SHARED) } else { place };
            patch(model, &place, "rolls", &json!({ "spec": { "template": template } }))
        }
        Step::LosePod => {
            let pods: Vec<Place> = model
                .list(&PODS)
                .filter(|pod| !deleting(pod) && !is_orphan(model, pod))
                .map(|pod| Place::of(&PODS, pod))
                .collect();
            if pods.is_empty() { None } else { delete(model, random.pick(&pods)) }
        }
        Step::DeleteSet => {
            let place = some_set(model, random)?;
            let replicas = model.get(&place).ok().and_then(|set| number(set, "/spec/replicas")).unwrap_or(1);
            let by_reference = model.get(&place).is_ok_and(|set| set.pointer("/spec/templateRef").is_some());
            model.delete(&place, &DeleteOptions::default()).ok()?;
            let make = if by_reference { make_set_by_reference } else { make_set };
            make(model, &place.name, replicas);
            Some(format!("deletes {place} and makes another"))
        }
        Step::Replace => {
            // The new sandbox finds the pod and the volume of the old one.
            let place = some(model, random, |sandbox| text(sandbox, "/metadata/name").starts_with("alone"))?;
            model.delete(&place, &DeleteOptions::default()).ok()?;
            let made = make_sandbox(model, &place.name);
            Some(format!("deletes {place}{}", if made { " and makes another" } else { "" }))
        }
        Step::Unlabel => {
            // The operator's watch does not select the pod any more.
            let pods: Vec<Place> = model
                .list(&PODS)
                .filter(|pod| !deleting(pod) && !is_orphan(model, pod))
                .map(|pod| Place::of(&PODS, pod))
                .collect();
            if pods.is_empty() {
                return None;
            }
            let place = random.pick(&pods).clone();
            let labels = json!({ "metadata": { "labels": { names::LABEL_CREATED_BY: null } } });
            patch(model, &place, "unlabels", &labels)
        }
        Step::Hold => {
            // As OpenKruise's controller does it when a sandbox pauses.
            let place = some(model, random, claimed)?;
            patch(model, &place, "holds", &json!({ "metadata": { "finalizers": [names::FINALIZER] } }))
        }
        Step::Make => {
            let name = format!("alone-{}", random.below(4));
            make_sandbox(model, &name).then(|| format!("makes {name}"))
        }
    }
}

/// As the manager does it: one update, for the version that was read.
fn claim(model: &mut Model, random: &mut Random) -> Option<String> {
    let place = some(model, random, is_available)?;
    claim_this(model, random, &place)
}

/// Claims what the operator has just asked to delete, if somebody still could.
pub(crate) fn claim_from_under(
    model: &mut Model,
    random: &mut Random,
    under_way: &[UnderWay],
) -> Option<String> {
    let asked = under_way.iter().filter(|call| !call.answered).filter_map(|call| match &*call.operation {
        Operation::Delete(place, _) if place.kind == &SANDBOXES => Some(place.clone()),
        _ => None,
    });
    let available = |place: &Place| model.get(place).is_ok_and(|sandbox| is_available(sandbox));
    let place = asked.into_iter().find(available)?;
    claim_this(model, random, &place)
}

fn claim_this(model: &mut Model, random: &mut Random, place: &Place) -> Option<String> {
    let mut sandbox = Value::clone(model.get(place).ok()?);
    sandbox["metadata"]["ownerReferences"] = json!([]);
    sandbox["metadata"]["labels"][names::LABEL_SANDBOX_CLAIMED] = json!("true");
    if sandbox["metadata"]["annotations"].is_null() {
        sandbox["metadata"]["annotations"] = json!({});
    }
    sandbox["metadata"]["annotations"][names::ANNOTATION_LOCK] =
        json!(format!("lock-{}", random.below(1 << 30)));
    sandbox["metadata"]["annotations"][names::ANNOTATION_OWNER] = json!("somebody");
    if random.chance(300) {
        sandbox["spec"]["shutdownTime"] = json!(soon(model, random));
    }
    model.replace(place, Part::Main, sandbox).ok()?;
    Some(format!("claims {place}"))
}

/// Whole seconds, as metadata and specs have them.
fn soon(model: &Model, random: &mut Random) -> String {
    let seconds = i64::try_from(random.below(200)).unwrap_or(0);
    stamp(model.now() + SignedDuration::from_secs(seconds))
}

fn some(model: &Model, random: &mut Random, which: impl Fn(&Value) -> bool) -> Option<Place> {
    let found: Vec<Place> = model
        .list(&SANDBOXES)
        .filter(|sandbox| which(sandbox))
        .map(|sandbox| Place::of(&SANDBOXES, sandbox))
        .collect();
    if found.is_empty() { None } else { Some(random.pick(&found).clone()) }
}

fn some_set(model: &Model, random: &mut Random) -> Option<Place> {
    let sets: Vec<Place> = model.list(&SANDBOX_SETS).map(|set| Place::of(&SANDBOX_SETS, set)).collect();
    if sets.is_empty() { None } else { Some(random.pick(&sets).clone()) }
}

fn patch(model: &mut Model, place: &Place, what: &str, patch: &Value) -> Option<String> {
    model.patch(place, Part::Main, &Patch::Merge(patch.clone())).ok()?;
    Some(format!("{what} {place}: {patch}"))
}

fn delete(model: &mut Model, place: &Place) -> Option<String> {
    model.delete(place, &DeleteOptions::default()).ok()?;
    Some(format!("deletes {place}"))
}

/// Whether the label says that a sandbox was claimed.
pub(crate) fn is_claimed(sandbox: &Value) -> bool {
    label(sandbox, names::LABEL_SANDBOX_CLAIMED) == "true"
}
