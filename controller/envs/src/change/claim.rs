//! The claim of an idle pod.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use sandgate_objects::sandbox_env::names;
use sandgate_objects::sandbox_env::resources::{EnvPod, SandboxPhase, SandboxPoolSpec};
use serde_json::{Value, json};

use super::inplace::{InPlace, known};
use super::{Images, containers, written};

/// What a claim asks for. Every field has been checked for form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// The ID of the sandbox to be.
    pub sandbox: String,
    /// The API key that owns it.
    pub owner: String,
    /// Another image of the first container.
    pub image: Option<String>,
    /// The silence after which it is released. Zero is never; none is what the pool says.
    pub idle_timeout: Option<Duration>,
    /// How long it may take to start; none is what the pool says.
    pub startup_timeout: Option<Duration>,
    /// The user's own words about it.
    pub metadata: BTreeMap<String, String>,
    /// Labels of the pod, as long as it is this sandbox.
    pub labels: BTreeMap<String, String>,
    /// Annotations of the pod, as long as it is this sandbox.
    pub annotations: BTreeMap<String, String>,
    /// What its clients must present.
    pub access_token: Option<String>,
    /// What its clients must present on every port but that of its runtime.
    pub traffic_access_token: Option<String>,
    /// When.
    pub at: Timestamp,
}

/// Why a pod cannot be claimed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unclaimable {
    /// It does not wait for a claim any more, or is not ready for one.
    #[error("the pod is {0}, or not ready")]
    NotIdle(SandboxPhase),
    /// The pool's template has no container that could run a sandbox.
    #[error("the pool's template has no container")]
    NoTemplate,
    /// The pod was made of another template: it has no container of the name that the pool's template has.
    #[error("the pod is of another template than the pool's")]
    OtherTemplate,
    /// Programs write this label or annotation themselves, or the pool's pods have it.
    #[error("{0}: the pool and its programs write this themselves")]
    Reserved(String),
}

/// Whether only programs write a label or an annotation of this name.
pub fn is_reserved(key: &str) -> bool {
    let prefix = key.split_once('/').map_or("", |(prefix, _)| prefix);
    let is_under = |domain: &str| prefix == domain || prefix.ends_with(&format!(".{domain}"));
    ["navix.sh", "agentbox.io", "sandgate.dev", "kubernetes.io", "k8s.io"].into_iter().any(is_under)
}

/// The patch that makes an idle pod this sandbox, or one that starts.
///
/// # Errors
/// See [`Unclaimable`].
pub fn claim(pod: &EnvPod, spec: &SandboxPoolSpec, claim: &Claim) -> Result<Value, Unclaimable> {
    if !pod.is_claimable() {
        return Err(Unclaimable::NotIdle(pod.sandbox_phase()));
    }
    // What the template says, a network policy may select: it is nobody's to change, or to lose at the end.
    let has = |texts: &Option<BTreeMap<String, String>>, key: &str| {
        texts.as_ref().is_some_and(|texts| texts.contains_key(key))
    };
    let wishes = [(&claim.labels, &pod.metadata.labels), (&claim.annotations, &pod.metadata.annotations)];
    for (asked, there) in wishes {
        if let Some(key) = asked.keys().find(|key| is_reserved(key) || has(there, key)) {
            return Err(Unclaimable::Reserved(key.clone()));
        }
    }
    let images = Images::of(spec).ok_or(Unclaimable::NoTemplate)?;
    let wanted = claim.image.as_deref().unwrap_or(images.of_sandbox());
    let first = pod.containers.iter().find(|container| container.name == images.first);
    let first = first.ok_or(Unclaimable::OtherTemplate)?;
    // No change of a pod that waits is under way, so what runs is what its spec says.
    let runs_already = first.image == wanted && first.is_running;
    let phase = if runs_already { SandboxPhase::Running } else { SandboxPhase::Starting };

    let mut annotations: BTreeMap<String, Value> =
        claim.annotations.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
    let mut say = |key: &str, value: Value| annotations.insert(key.to_owned(), value);
    let at = written(claim.at);
    // Rounded up: 0 would be never.
    let seconds =
        |duration: Duration| json!((duration.as_secs() + u64::from(duration.subsec_nanos() > 0)).to_string());
    say(names::SANDBOX_ID, json!(claim.sandbox));
    say(names::ANNOTATION_OWNER, json!(claim.owner));
    say(names::ANNOTATION_CLAIMED_AT, json!(at));
    say(names::ANNOTATION_LAST_ACTIVE, json!(at));
    say(names::ANNOTATION_TERMINATED_AT, Value::Null);
    say(names::ANNOTATION_METADATA, json!(json!(claim.metadata).to_string()));
    let keys = |texts: &BTreeMap<String, String>| json!(json!(texts.keys().collect::<Vec<_>>()).to_string());
    say(names::ANNOTATION_MANAGED_LABELS, keys(&claim.labels));
    say(names::ANNOTATION_MANAGED_ANNOTATIONS, keys(&claim.annotations));
    if let Some(timeout) = claim.idle_timeout.or(spec.idle_timeout()) {
        say(names::ANNOTATION_IDLE_TIMEOUT, seconds(timeout));
    }
    let startup = claim.startup_timeout.or(spec.startup_timeout());
    if let Some(timeout) = startup.filter(|timeout| !timeout.is_zero()) {
        say(names::ANNOTATION_STARTUP_TIMEOUT, seconds(timeout));
    }
    if let Some(token) = &claim.access_token {
        say(names::ANNOTATION_ACCESS_TOKEN, json!(token));
    }
    // Null where there is none: a pod that an older program gave back may still have the last one's.
    say(names::ANNOTATION_TRAFFIC_ACCESS_TOKEN, json!(claim.traffic_access_token));
    let targets = BTreeMap::from([(images.first.clone(), wanted.to_owned())]);
    say(names::ANNOTATION_RUNNING_IMAGES, json!(json!(targets).to_string()));
    if runs_already {
        say(names::ANNOTATION_STARTED_AT, json!(at));
        say(names::ANNOTATION_CONTAINER_ID, json!(first.id));
    }
    let state = InPlace {
        phase: phase.to_string(),
        target_images: targets.clone(),
        target_pod_phase: SandboxPhase::Running.to_string(),
        update_timestamp: at,
        last_container_statuses: known(pod),
        stable_container_statuses: if runs_already { known(pod) } else { BTreeMap::new() },
    };
    say(names::ANNOTATION_INPLACE_STATE, json!(state.text()));

    let mut labels: BTreeMap<String, String> = claim.labels.clone();
    labels.insert(names::LABEL_PHASE.to_owned(), phase.to_string());
    labels.insert(names::SANDBOX_ID.to_owned(), claim.sandbox.clone());
    let mut patch = json!({"metadata": {"labels": labels, "annotations": annotations}});
    if !runs_already {
        patch["spec"] = json!({"containers": containers(&targets)});
    }
    Ok(patch)
}
