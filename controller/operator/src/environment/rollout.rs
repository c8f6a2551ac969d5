//! Brings the frozen spec of a member up to date with the template and the environment.
//!
//! A member follows unless it or its environment says that it does not. Its pods roll only if what they are
//! made of means something else than before: then it gets another revision. What an admission has put into
//! the labels and annotations of the pod template survives; a field of the body that the template does not
//! have any more goes. Nothing is admitted anew.

use sandgate_objects::sandbox_env::names;
use sandgate_objects::sandbox_env::resources::{
    EnvOverrides, ImagePolicy, Member, PodTemplate, SandboxEnv, SandboxPoolSpec, SandboxTemplate,
};
use serde_json::{Map, Value};

use super::content::{content, same_spec};
use super::render::{RenderError, Rendered, has_pull_secret, provenance, pull_secret, render};

/// A member that is brought up to date.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Followed {
    /// The member as it is to be.
    pub(super) member: Member,
    /// The revision, if its pods roll.
    pub(super) rolls_to: Option<String>,
}

/// Whether changes of the template reach a member by themselves.
pub(super) fn follows(member: &Member, overrides: Option<&EnvOverrides>) -> bool {
    let own = member.config.update_strategy.as_ref().and_then(|own| own.auto_update);
    let of_env = || overrides?.update_strategy.as_ref()?.auto_update;
    own.or_else(of_env).unwrap_or(true)
}

/// The member as its template and its environment ask for it; none if it is so already. `has_secret` is
/// whether the pull secret exists; where that is not known, the member keeps what it has.
pub(super) fn follow(
    env: &SandboxEnv,
    template: &SandboxTemplate,
    member: &Member,
    has_secret: Option<bool>,
) -> Result<Option<Followed>, RenderError> {
    let secret = pull_secret(env.metadata.name.as_deref().unwrap_or_default());
    let has_secret = has_secret.unwrap_or_else(|| has_pull_secret(member.spec.template.as_ref(), &secret));
    let rendered = render(env, template, member, has_secret)?;
    let merged = merged(&member.spec, &rendered.spec);
    let stamped = member.metadata.labels.get(names::LABEL_TEMPLATE_HASH);
    let mut next = member.clone();
    if stamped == Some(&rendered.hash) || content(&merged) == content(&member.spec) {
        next.spec = kept(&member.spec, &rendered);
        let followed = Followed { member: next, rolls_to: None };
        return Ok((!same_spec(&followed.member.spec, &member.spec)).then_some(followed));
    }
    next.spec = merged;
    next.metadata.labels.insert(names::LABEL_TEMPLATE_HASH.to_owned(), rendered.hash.clone());
    next.metadata.annotations.extend(provenance(template));
    Ok(Some(Followed { member: next, rolls_to: Some(rendered.hash) }))
}

/// What was rendered, with the labels and annotations that the pods of the member have already.
fn merged(frozen: &SandboxPoolSpec, rendered: &SandboxPoolSpec) -> SandboxPoolSpec {
    let parsed = |spec: &SandboxPoolSpec| spec.template.as_ref().and_then(|pods| pods.parse().ok());
    let Some(mut pods): Option<Value> = parsed(rendered) else { return rendered.clone() };
    let old: Value = parsed(frozen).unwrap_or_default();
    for texts in ["labels", "annotations"] {
        let of = |pods: &Value| -> Map<String, Value> {
            pods["metadata"][texts].as_object().cloned().unwrap_or_default()
        };
        let mut all = of(&old);
        all.extend(of(&pods));
        if !all.is_empty() {
            pods["metadata"][texts] = Value::Object(all);
        }
    }
    SandboxPoolSpec { template: Some(PodTemplate::new(&pods)), ..rendered.clone() }
}

/// The spec that a member has, with what does not make its pods roll.
fn kept(frozen: &SandboxPoolSpec, rendered: &Rendered) -> SandboxPoolSpec {
    let wanted = &rendered.spec;
    let mut spec = frozen.clone();
    spec.template_name.clone_from(&wanted.template_name);
    spec.default_startup_timeout.clone_from(&wanted.default_startup_timeout);
    spec.default_idle_timeout.clone_from(&wanted.default_idle_timeout);
    spec.max_unavailable.clone_from(&wanted.max_unavailable);
    if spec.image_policy() != ImagePolicy::IdleImage {
        return spec;
    }
    // Pods wait with another image, so that the one they run is no part of the revision.
    let image = |spec: &SandboxPoolSpec| {
        let pods = spec.template.as_ref()?.parse().ok()?;
        pods.pointer("/spec/containers/0/image").cloned()
    };
    let (Some(known), Some(wanted)) = (image(&spec), image(wanted)) else { return spec };
    if known != wanted
        && let Some(Ok(mut pods)) = spec.template.as_ref().map(PodTemplate::parse)
        && let Some(at) = pods.pointer_mut("/spec/containers/0/image")
    {
        *at = wanted;
        spec.template = Some(PodTemplate::new(&pods));
    }
    spec
}
