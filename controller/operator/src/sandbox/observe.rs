//! What a plan for a sandbox is made from.

use std::sync::Arc;

use jiff::Timestamp;
use sandgate_objects::openkruise::resources::{Sandbox, SandboxTemplate};

use super::pod::Template;
use crate::Key;
use crate::view::{PodFacts, Seen, View};

/// A sandbox and what belongs to it, at one moment.
#[derive(Clone, Debug)]
pub(super) struct Observed {
    /// The sandbox.
    pub(super) sandbox: Arc<Seen<Sandbox>>,
    /// The pod of its name.
    pub(super) pod: PodOf,
    /// What it is made from.
    pub(super) template: TemplateOf,
    /// The time.
    pub(super) now: Timestamp,
}

impl Observed {
    /// Whether the status says that this pod is on its way out, because of this phase.
    pub(super) fn is_leaving(&self, phase: &str, pod: &Seen<PodFacts>) -> bool {
        let Some(status) = &self.sandbox.status else { return false };
        let last = status.pod_info.as_ref().and_then(|info| info.pod_uid.as_deref());
        status.phase.as_deref() == Some(phase) && last == Some(&*pod.uid)
    }
}

/// The pod of a sandbox's name.
#[derive(Clone, Debug)]
pub(super) enum PodOf {
    /// There is none.
    None,
    /// The sandbox's own.
    Own(Arc<Seen<PodFacts>>),
    /// Somebody else's: of an earlier sandbox of the name, or of a stranger. It is never adopted or deleted.
    /// That of an earlier sandbox goes by itself.
    Other(Arc<Seen<PodFacts>>),
}

impl PodOf {
    /// The sandbox's own pod.
    pub(super) fn own(&self) -> Option<&Seen<PodFacts>> {
        match self {
            Self::Own(pod) => Some(pod),
            Self::None | Self::Other(_) => None,
        }
    }

    /// The UID of whichever pod has the name.
    pub(super) fn uid(&self) -> Option<&Arc<str>> {
        match self {
            Self::Own(pod) | Self::Other(pod) => Some(&pod.uid),
            Self::None => None,
        }
    }
}

/// What a sandbox is made from.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum TemplateOf {
    /// This.
    Found(Template),
    /// A template that does not exist: what the condition says.
    Missing(String),
    /// Something that no pod can be made from: what the condition says.
    Invalid(String),
}

/// Reads the view.
pub(super) fn observe(view: &View, key: &Key, now: Timestamp) -> Option<Observed> {
    let sandbox = view.get::<Sandbox>(key)?;
    let pod = match view.get::<PodFacts>(key) {
        None => PodOf::None,
        Some(pod) if pod.owner_uid.as_deref() == Some(&*sandbox.uid) => PodOf::Own(pod),
        Some(pod) => PodOf::Other(pod),
    };
    let template = template_of(view, &sandbox);
    Some(Observed { sandbox, pod, template, now })
}

fn template_of(view: &View, sandbox: &Seen<Sandbox>) -> TemplateOf {
    let spec = &sandbox.spec;
    let read = match (&spec.template, &spec.template_ref) {
        (Some(template), _) => Template::read(template, &spec.volume_claim_templates),
        (None, Some(reference)) => {
            let key = Key::new(&sandbox.key.namespace, &reference.name);
            let Some(found) = view.get::<SandboxTemplate>(&key) else {
                return TemplateOf::Missing(format!("there is no SandboxTemplate {}", reference.name));
            };
            let Some(template) = &found.spec.template else {
                return TemplateOf::Invalid(format!("SandboxTemplate {} has no template", reference.name));
            };
            let claims = match spec.volume_claim_templates.as_slice() {
                [] => &found.spec.volume_claim_templates,
                own => own,
            };
            Template::read(template, claims)
        }
        (None, None) => return TemplateOf::Missing("neither template nor templateRef is given".to_owned()),
    };
    read.map_or_else(|error| TemplateOf::Invalid(error.to_string()), TemplateOf::Found)
}
