//! What must be reached once nothing goes wrong any more.

use sandgate_objects::openkruise::names;
use sandgate_sim::is_orphan;
use sandgate_sim::model::object::{condition, controller, deleting, label, list, number, text, uid};
use sandgate_sim::model::{Model, PODS, Place, SANDBOX_SETS, SANDBOXES, VOLUME_CLAIMS};
use serde_json::{Value, json};

use crate::laws::{Broken, check_volumes, has_ended};
use crate::users::{NAMESPACE, image_of_set, is_available};

fn broken(what: String) -> Result<(), Broken> {
    Err(Broken(what))
}

/// Checks a cluster that has come to rest.
pub(crate) fn check(model: &Model) -> Result<(), Broken> {
    for set in model.list(&SANDBOX_SETS) {
        check_set(model, set)?;
    }
    for sandbox in model.list(&SANDBOXES) {
        check_sandbox(model, sandbox)?;
    }
    for kind in [&PODS, &VOLUME_CLAIMS, &SANDBOXES] {
        for object in model.list(kind) {
            if is_orphan(model, object) {
                return broken(format!("{} has lost its owner and is still there", Place::of(kind, object)));
            }
        }
    }
    Ok(())
}

fn check_set(model: &Model, set: &Value) -> Result<(), Broken> {
    let (name, replicas) = (text(set, "/metadata/name"), number(set, "/spec/replicas").unwrap_or(0));
    let revision = text(set, "/status/updateRevision");
    let children: Vec<&Value> =
        model.list(&SANDBOXES).map(|child| &**child).filter(|child| controller(child) == uid(set)).collect();
    let updated =
        |child: &&&Value| label(child, names::LABEL_TEMPLATE_HASH) == revision && is_available(child);
    let good = children.iter().filter(updated).count();
    let replicas = usize::try_from(replicas).unwrap_or(0);
    if children.len() != replicas || good != replicas {
        let count = children.len();
        return broken(format!(
            "set {name} wants {replicas}, has {count}, of which {good} are updated and available"
        ));
    }
    let fields = ["replicas", "availableReplicas", "updatedReplicas", "updatedAvailableReplicas"];
    for field in fields {
        let says = number(set, &format!("/status/{field}")).unwrap_or(0);
        if usize::try_from(says) != Ok(replicas) {
            return broken(format!("the status of set {name} says {says} {field}, of {replicas}"));
        }
    }
    if set.pointer("/status/observedGeneration") != set.pointer("/metadata/generation") {
        return broken(format!("the status of set {name} is of an older generation"));
    }
    for child in children {
        let image = text(child, "/spec/template/spec/containers/0/image");
        if image_of_set(model, set).as_deref() != Some(image) {
            return broken(format!("{} was made from an older template", text(child, "/metadata/name")));
        }
    }
    Ok(())
}

fn check_sandbox(model: &Model, sandbox: &Value) -> Result<(), Broken> {
    let name = text(sandbox, "/metadata/name");
    if deleting(sandbox) {
        return broken(format!("sandbox {name} is still being deleted"));
    }
    let phase = text(sandbox, "/status/phase");
    if matches!(phase, names::PHASE_FAILED | names::PHASE_SUCCEEDED) {
        return if controller(sandbox).is_empty() {
            Ok(())
        } else {
            broken(format!("set child {name} is {phase}"))
        };
    }
    if has_ended(sandbox, model.now()) {
        return broken(format!("sandbox {name} is past its end"));
    }
    let pods: Vec<&Value> =
        model.list(&PODS).map(|pod| &**pod).filter(|pod| controller(pod) == uid(sandbox)).collect();
    if sandbox.pointer("/status/observedGeneration") != sandbox.pointer("/metadata/generation") {
        return broken(format!("the status of sandbox {name} is of an older generation"));
    }
    if sandbox.pointer("/spec/paused") == Some(&json!(true)) {
        if !pods.is_empty() {
            return broken(format!("sandbox {name} is paused and has {} pods", pods.len()));
        }
        if phase != names::PHASE_PAUSED || condition(sandbox, names::CONDITION_PAUSED) != "True" {
            return broken(format!("sandbox {name} is to be paused and is {phase}"));
        }
        return Ok(());
    }
    let [pod] = pods[..] else {
        return broken(format!("sandbox {name} is {phase} and has {} pods", pods.len()));
    };
    if phase != names::PHASE_RUNNING || condition(sandbox, names::CONDITION_READY) != "True" {
        let ready = condition(sandbox, names::CONDITION_READY);
        return broken(format!("sandbox {name} is to run and is {phase}, ready {ready:?}"));
    }
    if condition(pod, "Ready") != "True" || text(pod, "/metadata/name") != name {
        return broken(format!("the pod of sandbox {name} is not ready"));
    }
    for (says, is) in [("podUID", uid(pod)), ("podIP", text(pod, "/status/podIP"))] {
        if text(sandbox, &format!("/status/podInfo/{says}")) != is {
            return broken(format!("sandbox {name} says another {says} than its pod has"));
        }
    }
    check_volumes(model, NAMESPACE, pod)?;
    for template in list(sandbox, "/spec/volumeClaimTemplates") {
        let claim = format!("{}-{name}", text(template, "/metadata/name"));
        if model.get(&Place::new(&VOLUME_CLAIMS, NAMESPACE, &claim)).is_err() {
            return broken(format!("sandbox {name} has lost its volume"));
        }
    }
    let image = "/spec/containers/0/image";
    if text(pod, image) != text(sandbox, &format!("/spec/template{image}")) {
        return broken(format!("the pod of sandbox {name} runs an older image"));
    }
    Ok(())
}
