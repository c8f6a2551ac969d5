//! The sandboxes that are made where no pool has one: from a set, or from a snapshot.
//!
//! A new sandbox is nobody's until it is ready: it has no owner, no ID, and an end that is near. The same
//! patch that takes a sandbox out of a pool then gives it to the caller. So a create whose answer was lost,
//! that arrives late, or whose process died leaves a sandbox that nobody sees and that ends by itself.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use jiff::Timestamp;
use sandgate_cache::{Key, Seen};
use sandgate_objects::TRAFFIC_ACCESS_TOKEN;
use sandgate_objects::openkruise::API_VERSION;
use sandgate_objects::openkruise::names::{
    ANNOTATION_INIT_RUNTIME_REQUEST, ANNOTATION_LOCK, ANNOTATION_RESTORE_FROM,
    ANNOTATION_RUNTIME_ACCESS_TOKEN, ANNOTATION_SANDBOX_PRIORITY, LABEL_SANDBOX_CLAIMED, LABEL_SANDBOX_POOL,
    LABEL_SANDBOX_TEMPLATE, LABEL_TEMPLATE_HASH, PREFIX,
};
use sandgate_objects::openkruise::resources::{
    Checkpoint, PodTemplate, SandboxSet, SandboxTemplate, SandboxTemplateSpec,
};
use serde_json::{Map, Value, json};

use super::write::{Order, changed_in_place, is_in_place, marks, on_ingress, pod_labels, stamp, unreadable};
use crate::{Error, ErrorKind, Extensions};

/// A pod's name is also the value of a label.
const MAX_NAME: usize = 63;

/// What a sandbox is made from.
#[derive(Clone)]
pub(super) enum Source {
    /// A set, which may have a sandbox ready.
    Set {
        /// The set.
        set: Arc<Seen<SandboxSet>>,
        /// What its sandboxes are made from.
        contents: SandboxTemplateSpec,
    },
    /// A snapshot.
    Snapshot {
        /// The snapshot.
        checkpoint: Arc<Seen<Checkpoint>>,
        /// Its ID.
        id: String,
        /// What its sandboxes are made from.
        template: Arc<Seen<SandboxTemplate>>,
    },
}

impl Source {
    /// The namespace of what is made.
    pub(super) fn namespace(&self) -> &Arc<str> {
        match self {
            Self::Set { set, .. } => &set.key.namespace,
            Self::Snapshot { checkpoint, .. } => &checkpoint.key.namespace,
        }
    }

    /// The pod template of what is made, with what the create changes in it.
    ///
    /// # Errors
    /// The template cannot be read, or has no container that could be changed.
    pub(super) fn template(&self, extensions: &Extensions) -> Result<Option<PodTemplate>, Error> {
        let Some(template) = &self.contents().template else { return Ok(None) };
        if !is_in_place(extensions) {
            return Ok(Some(template.clone()));
        }
        let mut template = template.parse().map_err(|error| unreadable(&error.to_string()))?;
        template["spec"]["containers"] = changed_in_place(&template, extensions)?;
        Ok(Some(PodTemplate::new(&template)))
    }

    fn contents(&self) -> &SandboxTemplateSpec {
        match self {
            Self::Set { contents, .. } => contents,
            Self::Snapshot { template, .. } => &template.spec,
        }
    }

    /// What the runtime in a snapshot was initialised with. It is still in the memory of what is made from
    /// it, so its token counts.
    pub(super) fn initialised(&self) -> Option<Initialised> {
        let Self::Snapshot { checkpoint, .. } = self else { return None };
        let annotations = checkpoint.metadata.annotations.as_ref()?;
        let request: Value = serde_json::from_str(annotations.get(ANNOTATION_INIT_RUNTIME_REQUEST)?).ok()?;
        let env_vars = request["envVars"].as_object().into_iter().flatten();
        let text = |value: &Value| value.as_str().map(str::to_owned);
        Some(Initialised {
            token: text(&request["accessToken"]).filter(|token| !token.is_empty()),
            env_vars: env_vars.filter_map(|(key, value)| Some((key.clone(), text(value)?))).collect(),
        })
    }

    /// A name for what is made: the one that was asked for, or a new one.
    pub(super) fn name(&self, asked: Option<&str>, suffix: &str) -> Key {
        let start = match (asked, self) {
            (Some(name), Self::Snapshot { .. }) => return Key::new(self.namespace(), name),
            (_, Self::Set { set, .. }) => String::from(&*set.key.name),
            (_, Self::Snapshot { id, .. }) => name_of(id),
        };
        let most = start.floor_char_boundary(MAX_NAME - suffix.len() - 1);
        let start = start[..most].trim_end_matches(['-', '.']);
        Key::new(self.namespace(), &format!("{start}-{suffix}"))
    }
}

/// What a runtime was initialised with.
#[derive(Clone)]
pub(super) struct Initialised {
    /// Its token.
    pub(super) token: Option<String>,
    /// The variables of its environment.
    pub(super) env_vars: std::collections::BTreeMap<String, String>,
}

/// What the sandboxes of a set are made from. `template` is what its `templateRef` names.
///
/// # Errors
/// There is none.
pub(super) fn contents_of(
    set: &SandboxSet,
    template: Option<&SandboxTemplate>,
) -> Result<SandboxTemplateSpec, Error> {
    let spec = &set.spec;
    if let Some(template) = &spec.template {
        return Ok(SandboxTemplateSpec {
            template: Some(template.clone()),
            volume_claim_templates: spec.volume_claim_templates.clone(),
            persistent_contents: spec.persistent_contents.clone(),
            runtimes: spec.runtimes.clone(),
            pause_strategy: spec.pause_strategy.clone(),
            auto_pause_policy: spec.auto_pause_policy.clone(),
            probes: spec.probes.clone(),
        });
    }
    match template {
        Some(found) if found.spec.template.is_some() => Ok(found.spec.clone()),
        _ => Err(Error::new(
            ErrorKind::Conflict,
            "templateID: the template has no pod template at the moment, so nothing can be made from it",
        )),
    }
}

/// The sandbox that is sent to the API server. It ends at `ends` unless it is claimed before.
///
/// # Errors
/// The template cannot be read, or has no container that could be changed.
pub(super) fn sandbox(source: &Source, key: &Key, order: &Order, ends: Timestamp) -> Result<Value, Error> {
    let contents = source.contents();
    let template = contents.template.as_ref().and_then(|template| template.parse().ok());
    let mut template = template.unwrap_or_else(|| json!({}));
    let mut labels = inherited(&template["metadata"]["labels"]);
    let mut annotations = inherited(&template["metadata"]["annotations"]);
    labels.insert(LABEL_SANDBOX_CLAIMED.to_owned(), "false".into());
    labels.extend(marks(order));
    annotations.insert(ANNOTATION_LOCK.to_owned(), order.lock.as_str().into());
    match source {
        Source::Set { set, .. } => {
            let name = Value::from(&*set.key.name);
            labels.insert(LABEL_SANDBOX_POOL.to_owned(), name.clone());
            labels.insert(LABEL_SANDBOX_TEMPLATE.to_owned(), name);
            let revision = set.status.as_ref().and_then(|status| status.update_revision.as_deref());
            if let Some(revision) = revision.filter(|revision| !revision.is_empty()) {
                labels.insert(LABEL_TEMPLATE_HASH.to_owned(), revision.into());
            }
            annotations.insert(ANNOTATION_SANDBOX_PRIORITY.to_owned(), "100".into());
        }
        Source::Snapshot { id, template, .. } => {
            let named = if is_label_value(id) { id } else { &*template.key.name };
            labels.insert(LABEL_SANDBOX_TEMPLATE.to_owned(), named.into());
            annotations.insert(ANNOTATION_RESTORE_FROM.to_owned(), id.as_str().into());
        }
    }
    // While nobody has it, nobody gets in.
    if let Some(token) = &order.token {
        annotations.insert(ANNOTATION_RUNTIME_ACCESS_TOKEN.to_owned(), token.as_str().into());
    }
    annotations.remove(TRAFFIC_ACCESS_TOKEN);
    if let Some(token) = &order.traffic_token {
        annotations.insert(TRAFFIC_ACCESS_TOKEN.to_owned(), token.as_str().into());
    }
    // The pod gets its labels when it is made: the claim then changes nothing of it.
    let pod = pod_labels(order, &key.name);
    if let Some(is) = template["metadata"]["labels"].as_object_mut() {
        is.extend(pod);
    } else {
        template["metadata"]["labels"] = pod.into();
    }
    if is_in_place(&order.wanted.extensions) {
        template["spec"]["containers"] = changed_in_place(&template, &order.wanted.extensions)?;
    }
    let mut spec = serde_json::to_value(contents).map_err(|error| unreadable(&error.to_string()))?;
    spec["template"] = template;
    spec["shutdownTime"] = stamp(ends).into();
    if order.wanted.auto_resume {
        spec["autoPausePolicy"]["resume"]["onIngressTraffic"] = on_ingress(&order.wanted);
    }
    Ok(json!({
        "apiVersion": API_VERSION,
        "kind": "Sandbox",
        "metadata": {
            "name": &*key.name,
            "namespace": &*key.namespace,
            "labels": labels,
            "annotations": annotations,
        },
        "spec": spec,
    }))
}

/// Labels or annotations of the pod template that its sandbox has too: those that are not about the sandbox
/// itself, as a set does it.
fn inherited(pairs: &Value) -> Map<String, Value> {
    let is_inherited = |name: &str| {
        let internal = name.strip_prefix(PREFIX);
        internal.is_none_or(|name| name.starts_with("cleanup-"))
    };
    let pairs = pairs.as_object().into_iter().flatten();
    pairs.filter(|(name, _)| is_inherited(name)).map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// As much of the text as a name may have.
fn name_of(text: &str) -> String {
    let fits = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    let name: String = text.to_ascii_lowercase().chars().map(|c| if fits(c) { c } else { '-' }).collect();
    let name = name.trim_matches('-');
    if name.is_empty() { "clone".to_owned() } else { name.to_owned() }
}

/// Whether the text may be the name of an object, and so a part of a path. The ID of a snapshot may be none.
pub(super) fn is_object_name(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    text.bytes().all(inner) && text.starts_with(|c: char| c.is_ascii_alphanumeric())
}

/// Whether the text may be the value of a label.
pub(super) fn is_label_value(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let ends = [text.bytes().next(), text.bytes().last()];
    text.len() <= 63
        && text.bytes().all(inner)
        && ends.iter().all(|byte| byte.is_some_and(|byte| byte.is_ascii_alphanumeric()))
}
