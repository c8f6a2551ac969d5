//! The pools that an environment has to have, and what to do about those that it has.
//!
//! A pool is an environment's if its owner reference says so, by UID. Another of the same name is nobody's to
//! change here: it is no member.
//!
//! Only what the environment says is compared and written: other labels, annotations and fields of a pool
//! belong to others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use sandgate_objects::duration::go_duration;
use sandgate_objects::sandbox_env::names;
use sandgate_objects::sandbox_env::resources::{
    Member, PodTemplate, SandboxEnv, SandboxPool, SandboxPoolSpec,
};
use serde_json::{Map, Value, json};

use super::content::{plain, same_template};
use super::render::{has_pull_secret, is_own, pull_secret, set_pull_secret};
use super::write::value;
use crate::merge::merge_patch;
use crate::view::Seen;

/// What to do, in this order.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Create the pool of this name.
    Create(String, Value),
    /// Change a pool by this merge patch.
    Patch(Arc<Seen<SandboxPool>>, Value),
    /// Delete a pool that no member asks for.
    Delete(Arc<Seen<SandboxPool>>),
}

/// A pool as a member asks for it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Desired {
    labels: BTreeMap<String, Option<String>>,
    annotations: BTreeMap<String, String>,
    spec: SandboxPoolSpec,
}

/// Whether a pool is an environment's.
pub(crate) fn is_owned(pool: &SandboxPool, env: &Seen<SandboxEnv>) -> bool {
    pool.metadata.owner_references.iter().flatten().any(|owner| {
        owner.kind == names::KIND_ENV
            && owner.api_version.split('/').next() == Some(names::GROUP)
            && *owner.uid == *env.uid
            && *owner.name == *env.key.name
    })
}

/// The owner reference of an environment's pools. It is the controlling one: an environment alone decides
/// about its pools.
pub(super) fn owner_reference(env: &Seen<SandboxEnv>) -> Value {
    json!({
        "apiVersion": names::API_VERSION, "kind": names::KIND_ENV, "name": &*env.key.name, "uid": &*env.uid,
        "controller": true, "blockOwnerDeletion": true,
    })
}

/// The pool of a member. Where it is not known whether the pull secret exists, the pool keeps what it has.
pub(super) fn desired(
    env: &Seen<SandboxEnv>,
    member: &Member,
    has_secret: Option<bool>,
    live: Option<&SandboxPool>,
) -> Desired {
    let set = |labels: &BTreeMap<String, String>| -> BTreeMap<String, Option<String>> {
        labels.iter().map(|(name, value)| (name.clone(), Some(value.clone()))).collect()
    };
    let mut labels = set(&member.metadata.labels);
    labels.insert(names::LABEL_ENV.to_owned(), Some(env.key.name.to_string()));
    let group = &member.config.scaling_group;
    let group = (!group.is_empty()).then(|| group.clone());
    labels.insert(names::LABEL_SCALING_GROUP.to_owned(), group);
    let annotations = member.metadata.annotations.iter().filter(|(name, _)| !is_own(name));
    let annotations = annotations.map(|(name, value)| (name.clone(), value.clone())).collect();

    let secret = pull_secret(&env.key.name);
    let kept = || {
        let template = live.map_or(member.spec.template.as_ref(), |live| live.spec.template.as_ref());
        has_pull_secret(template, &secret)
    };
    let has_secret = has_secret.unwrap_or_else(kept);
    let mut spec = member.spec.clone();
    if has_secret != has_pull_secret(spec.template.as_ref(), &secret)
        && let Some(Ok(mut pods)) = spec.template.as_ref().map(PodTemplate::parse)
    {
        set_pull_secret(&mut pods, &secret, has_secret);
        spec.template = Some(PodTemplate::new(&pods));
    }
    Desired { labels, annotations, spec }
}

impl Desired {
    /// The object to create.
    pub(super) fn object(&self, env: &Seen<SandboxEnv>, name: &str) -> Value {
        json!({
            "apiVersion": names::API_VERSION,
            "kind": names::KIND_POOL,
            "metadata": {
                "name": name,
                "namespace": &*env.key.namespace,
                "labels": self.labels.iter().filter(|(_, value)| value.is_some()).collect::<BTreeMap<_, _>>(),
                "annotations": self.annotations,
                "ownerReferences": [owner_reference(env)],
            },
            "spec": value(&self.spec),
        })
    }

    /// The merge patch of what a pool has different; none if it has nothing.
    pub(super) fn drift(&self, live: &SandboxPool) -> Option<Value> {
        let mut patch = Map::new();
        let labels = self.label_drift(live);
        let known = live.metadata.annotations.as_ref();
        let has = |name: &str, value: &str| {
            known.and_then(|known| known.get(name)).map(String::as_str) == Some(value)
        };
        let annotations = self.annotations.iter().filter(|(name, value)| !has(name, value));
        let annotations: Map<_, _> =
            annotations.map(|(name, value)| (name.clone(), value.as_str().into())).collect();
        let mut metadata = Map::new();
        for (field, texts) in [("labels", labels), ("annotations", annotations)] {
            if !texts.is_empty() {
                metadata.insert(field.to_owned(), texts.into());
            }
        }
        let spec = self.spec_drift(&live.spec);
        for (field, part) in [("metadata", metadata), ("spec", spec)] {
            if !part.is_empty() {
                patch.insert(field.to_owned(), part.into());
            }
        }
        (!patch.is_empty()).then_some(Value::Object(patch))
    }

    fn label_drift(&self, live: &SandboxPool) -> Map<String, Value> {
        let known = |name: &str| live.metadata.labels.as_ref().and_then(|labels| labels.get(name));
        let wrong = self.labels.iter().filter(|(name, value)| known(name) != value.as_ref());
        wrong.map(|(name, value)| (name.clone(), value.clone().map_or(Value::Null, Value::from))).collect()
    }

    fn spec_drift(&self, live: &SandboxPoolSpec) -> Map<String, Value> {
        let wanted = &self.spec;
        let mut patch = Map::new();
        let mut put = |field: &str, value: Value| {
            patch.insert(field.to_owned(), value);
        };
        if live.replicas != wanted.replicas {
            put("replicas", wanted.replicas.into());
        }
        if live.template_name != wanted.template_name {
            put("templateName", wanted.template_name.as_str().into());
        }
        if wanted.pod_creation_image_policy.is_some()
            && live.pod_creation_image_policy != wanted.pod_creation_image_policy
        {
            put("podCreationImagePolicy", value(&wanted.pod_creation_image_policy));
        }
        for (field, live, wanted) in [
            ("defaultStartupTimeout", &live.default_startup_timeout, &wanted.default_startup_timeout),
            ("defaultIdleTimeout", &live.default_idle_timeout, &wanted.default_idle_timeout),
        ] {
            if !same_time(live.as_deref(), wanted.as_deref()) {
                put(field, value(wanted));
            }
        }
        if live.gateway != wanted.gateway {
            put("gateway", value(&wanted.gateway));
        }
        if live.max_unavailable != wanted.max_unavailable {
            put("maxUnavailable", value(&wanted.max_unavailable));
        }
        // A spec without containers is one that is not filled in yet: a pool is not emptied by it.
        if !has_containers(wanted) && has_containers(live) {
            return patch;
        }
        if !same_template(live.template.as_ref(), wanted.template.as_ref()) {
            let (live, wanted) = (value(&live.template), value(&wanted.template));
            put("template", merge_patch(&live, &wanted).unwrap_or_default());
        }
        if live.idle_image != wanted.idle_image {
            put("idleImage", value(&wanted.idle_image));
        }
        let [live, wanted] = [live, wanted].map(|spec| value(&spec.runtimes));
        if plain("", &live) != plain("", &wanted) {
            put("runtimes", wanted);
        }
        patch
    }
}

/// Whether two timeouts are the same, however they are written. None is not zero: it is what the creator of a
/// sandbox says.
fn same_time(one: Option<&str>, other: Option<&str>) -> bool {
    let read = |text: Option<&str>| -> Option<Duration> { go_duration(text?) };
    one == other || matches!((read(one), read(other)), (Some(one), Some(other)) if one == other)
}

fn has_containers(spec: &SandboxPoolSpec) -> bool {
    let pods = spec.template.as_ref().and_then(|template| template.parse().ok()).unwrap_or_default();
    pods.pointer("/spec/containers").and_then(Value::as_array).is_some_and(|all| !all.is_empty())
}

/// What to do. `named` are the pools that have the name of a member, whosever they are; `owned` are all that
/// are the environment's. Those that are being deleted are left alone.
pub(super) fn plan(
    env: &Seen<SandboxEnv>,
    members: &[Member],
    has_secret: Option<bool>,
    named: &BTreeMap<String, Arc<Seen<SandboxPool>>>,
    owned: &[Arc<Seen<SandboxPool>>],
) -> Vec<Step> {
    let mut steps = Vec::new();
    for member in members {
        let live = named.get(&member.name);
        let desired = desired(env, member, has_secret, live.map(|live| &live.object));
        match live {
            None => steps.push(Step::Create(member.name.clone(), desired.object(env, &member.name))),
            Some(live) if is_owned(live, env) && live.metadata.deletion_timestamp.is_none() => {
                steps.extend(desired.drift(live).map(|patch| Step::Patch(Arc::clone(live), patch)));
            }
            Some(_) => {}
        }
    }
    let wanted: BTreeSet<&str> = members.iter().map(|member| member.name.as_str()).collect();
    let surplus = owned.iter().filter(|pool| {
        !wanted.contains(&*pool.key.name) && pool.metadata.deletion_timestamp.is_none() && is_owned(pool, env)
    });
    steps.extend(surplus.map(|pool| Step::Delete(Arc::clone(pool))));
    steps
}
