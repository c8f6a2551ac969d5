//! What a claim writes: one merge patch that takes the sandbox out of its pool and makes it the caller's.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use jiff::Timestamp;
use sandgate_cache::Seen;
use sandgate_objects::TRAFFIC_ACCESS_TOKEN;
use sandgate_objects::openkruise::SANDBOX_ID;
use sandgate_objects::openkruise::names::{
    ANNOTATION_CLAIM_TIMESTAMP, ANNOTATION_INIT_RUNTIME_REQUEST, ANNOTATION_LOCK, ANNOTATION_OWNER,
    ANNOTATION_RESERVE_PAUSED, ANNOTATION_RUNTIME_ACCESS_TOKEN, LABEL_ALLOW_INTERNET, LABEL_SANDBOX_CLAIMED,
    LABEL_SANDBOX_NAME,
};
use sandgate_objects::openkruise::resources::SandboxFacts;
use serde_json::{Map, Value, json};

use crate::describe::ANNOTATION_RETURN_IP;
use crate::names::{ANNOTATION_GIVEN, LABEL_CREATE, LABEL_CREATE_UID};
use crate::timeouts::{Deadlines, write_retention};
use crate::{Caller, Error, Extensions, FOREVER, NewSandbox};

/// One create: what was asked for, and what was drawn for it.
#[derive(Clone)]
pub(super) struct Order {
    /// Who asks.
    pub(super) caller: Caller,
    /// For what.
    pub(super) wanted: NewSandbox,
    /// What tells this create's writes from everybody else's.
    pub(super) lock: String,
    /// The token that the sandbox's runtime gets; none if it is not initialised.
    pub(super) token: Option<String>,
    /// The token without which nobody reaches the sandbox; none if it is open.
    pub(super) traffic_token: Option<String>,
    /// The marker of the request; none if it came without an `Idempotency-Key`.
    pub(super) marker: Option<Mark>,
}

/// A marker, as the sandboxes of its request name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    /// The request.
    pub(super) name: String,
    /// Which marker of that request: a key that is used again after a day has another.
    pub(super) uid: Arc<str>,
}

/// A time as Kubernetes writes it: whole seconds.
pub(super) fn stamp(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The merge patch that gives the sandbox to the caller, under this ID. It holds the UID; whoever sends it
/// adds the version.
///
/// # Errors
/// The sandbox's template cannot be read, or has no container that could be changed.
pub(super) fn patch(
    sandbox: &Seen<SandboxFacts>,
    order: &Order,
    id: &str,
    now: Timestamp,
) -> Result<Value, Error> {
    let wanted = &order.wanted;
    let kept = wanted.extensions.reserve_paused.unwrap_or(FOREVER);
    let mut spec = Deadlines::running_for(wanted.timeout, wanted.auto_pause, kept, now).spec();
    if let Some(policy) = auto_pause_policy(sandbox, wanted) {
        spec["autoPausePolicy"] = policy;
    }
    if let Some(template) = &sandbox.template {
        let labels = pod_labels(order, &sandbox.key.name);
        let mut patch = json!({ "metadata": { "labels": labels } });
        if is_in_place(&wanted.extensions) {
            let template = template.parse().map_err(|error| unreadable(&error.to_string()))?;
            patch["spec"]["containers"] = changed_in_place(&template, &wanted.extensions)?;
        }
        spec["template"] = patch;
    }
    Ok(json!({
        "metadata": {
            "uid": &*sandbox.uid,
            "labels": labels(order, id),
            "annotations": annotations(order, now),
            // Out of the pool: the set makes another one.
            "ownerReferences": null,
        },
        "spec": spec,
    }))
}

/// The labels of a sandbox that is the caller's.
fn labels(order: &Order, id: &str) -> Map<String, Value> {
    let mut labels = texts(&order.wanted.labels);
    labels.insert(LABEL_SANDBOX_CLAIMED.to_owned(), "true".into());
    labels.insert(SANDBOX_ID.to_owned(), id.into());
    labels.insert(LABEL_ALLOW_INTERNET.to_owned(), allows_internet(&order.wanted));
    labels.extend(marks(order));
    labels
}

/// The labels of a sandbox that name the marker of the request.
pub(super) fn marks(order: &Order) -> Map<String, Value> {
    let mut labels = Map::new();
    if let Some(Mark { name, uid }) = &order.marker {
        labels.insert(LABEL_CREATE.to_owned(), name.as_str().into());
        labels.insert(LABEL_CREATE_UID.to_owned(), (**uid).into());
    }
    labels
}

/// The labels of its pod.
pub(super) fn pod_labels(order: &Order, name: &str) -> Map<String, Value> {
    let mut labels = texts(&order.wanted.labels);
    labels.insert(ANNOTATION_OWNER.to_owned(), (*order.caller.owner).into());
    labels.insert(LABEL_SANDBOX_NAME.to_owned(), name.into());
    labels.insert(LABEL_ALLOW_INTERNET.to_owned(), allows_internet(&order.wanted));
    labels
}

/// The annotations of a sandbox that is the caller's.
fn annotations(order: &Order, now: Timestamp) -> Map<String, Value> {
    let wanted = &order.wanted;
    let mut annotations = texts(&wanted.metadata);
    annotations.insert(ANNOTATION_LOCK.to_owned(), order.lock.as_str().into());
    annotations.insert(ANNOTATION_OWNER.to_owned(), (*order.caller.owner).into());
    annotations.insert(ANNOTATION_CLAIM_TIMESTAMP.to_owned(), stamp(now).into());
    annotations.insert(ANNOTATION_GIVEN.to_owned(), given(wanted).into());
    if let Some(token) = &order.token {
        let request = json!({ "envVars": wanted.env_vars, "accessToken": token });
        annotations.insert(ANNOTATION_INIT_RUNTIME_REQUEST.to_owned(), request.to_string().into());
        annotations.insert(ANNOTATION_RUNTIME_ACCESS_TOKEN.to_owned(), token.as_str().into());
    }
    // Null where there is none: no sandbox has the token of another, wherever it came from.
    annotations.insert(TRAFFIC_ACCESS_TOKEN.to_owned(), order.traffic_token.as_deref().into());
    // An automatic pause keeps the sandbox though its end is near, and this says for how long.
    let kept = wanted.extensions.reserve_paused.or(wanted.auto_pause.then_some(FOREVER));
    if let Some(kept) = kept {
        annotations.insert(ANNOTATION_RESERVE_PAUSED.to_owned(), write_retention(kept).into());
    }
    if wanted.extensions.return_ip {
        annotations.insert(ANNOTATION_RETURN_IP.to_owned(), "true".into());
    }
    annotations
}

/// The names of what the caller gave, and not the template.
fn given(wanted: &NewSandbox) -> String {
    let mut given = Map::new();
    for (kind, pairs) in [("labels", &wanted.labels), ("annotations", &wanted.metadata)] {
        if !pairs.is_empty() {
            given.insert(kind.to_owned(), pairs.keys().map(String::as_str).collect());
        }
    }
    Value::from(given).to_string()
}

fn allows_internet(wanted: &NewSandbox) -> Value {
    if wanted.allow_internet_access == Some(false) { "false" } else { "true" }.into()
}

fn texts(pairs: &std::collections::BTreeMap<String, String>) -> Map<String, Value> {
    pairs.iter().map(|(key, value)| (key.clone(), value.as_str().into())).collect()
}

/// What changes in `spec.autoPausePolicy`. Only the part that wakes a sandbox is the caller's; what the set
/// says of probes stays.
fn auto_pause_policy(sandbox: &SandboxFacts, wanted: &NewSandbox) -> Option<Value> {
    if wanted.auto_resume {
        return Some(json!({ "resume": { "onIngressTraffic": on_ingress(wanted) } }));
    }
    let policy = sandbox.auto_pause_policy.as_ref()?.parse().ok()?;
    let has_it = policy.pointer("/resume/onIngressTraffic").is_some();
    has_it.then(|| json!({ "resume": { "onIngressTraffic": null } }))
}

/// How traffic wakes a sandbox: what it then gets as its next timeout.
pub(super) fn on_ingress(wanted: &NewSandbox) -> Value {
    match wanted.timeout.filter(|timeout| wanted.auto_pause && !timeout.is_zero()) {
        Some(timeout) => json!({ "pauseTimeout": format!("{}s", timeout.as_secs()) }),
        None => json!({}),
    }
}

/// Whether the create changes the pod itself, which is then not ready for a while.
pub(super) fn is_in_place(extensions: &Extensions) -> bool {
    extensions.image.is_some() || extensions.cpu_request.is_some() || extensions.cpu_limit.is_some()
}

/// The containers of a pod template, the first of them with another image and other CPU. CPU is changed only
/// where the template has some: a new request or limit would change the pod's class of service, which no
/// update in place can.
///
/// # Errors
/// The template has no container.
pub(super) fn changed_in_place(template: &Value, extensions: &Extensions) -> Result<Value, Error> {
    let mut containers = template["spec"]["containers"].clone();
    let Some(first) = containers.get_mut(0).filter(|first| first.is_object()) else {
        return Err(unreadable("it has no container"));
    };
    if let Some(image) = &extensions.image {
        first["image"] = image.as_str().into();
    }
    for (kind, cpu) in [("requests", &extensions.cpu_request), ("limits", &extensions.cpu_limit)] {
        let place = format!("/resources/{kind}/cpu");
        if let (Some(cpu), Some(is)) = (cpu, first.pointer_mut(&place)) {
            *is = cpu.as_str().into();
        }
    }
    Ok(containers)
}

pub(super) fn unreadable(why: &str) -> Error {
    Error::new(crate::ErrorKind::Internal, format!("the template of the sandbox cannot be used: {why}"))
}
