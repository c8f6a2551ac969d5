//! What a plan for a set is made from.

use std::sync::Arc;

use jiff::Timestamp;
use sandgate_objects::openkruise::resources::{SandboxSet, SandboxTemplate, SandboxTemplateSpec};

use crate::Key;
use crate::failures::Failures;
use crate::revision::revision;
use crate::view::{Members, Seen, View};

/// How many children of each class a plan is given. A set that has to act on more goes on in its next look,
/// which the changes themselves bring about.
pub(super) const LOOK: usize = 256;

/// A set and what belongs to it, at one moment.
#[derive(Clone, Debug)]
pub(super) struct Observed {
    /// The set.
    pub(super) set: Arc<Seen<SandboxSet>>,
    /// What its sandboxes are made from.
    pub(super) contents: ContentsOf,
    /// Its children.
    pub(super) members: Members,
    /// The templates that its revisions are.
    pub(super) revisions: Vec<Arc<Seen<SandboxTemplate>>>,
    /// How its sandboxes have failed.
    pub(super) failures: Failures,
    /// The time.
    pub(super) now: Timestamp,
}

/// What the sandboxes of a set are made from.
#[derive(Clone, Debug)]
pub(super) enum ContentsOf {
    /// This.
    Found(Contents),
    /// A template that does not exist: what the condition says.
    Missing(String),
}

/// What the sandboxes of a set are made from.
#[derive(Clone, Debug)]
pub(super) struct Contents {
    /// The parts of a sandbox's spec.
    pub(super) spec: SandboxTemplateSpec,
    /// The revision of these.
    pub(super) revision: Arc<str>,
}

impl Observed {
    /// The revision that the set asks for. If that is not known, the last one that was.
    pub(super) fn revision(&self) -> Arc<str> {
        match &self.contents {
            ContentsOf::Found(contents) => Arc::clone(&contents.revision),
            ContentsOf::Missing(_) => last_revision(&self.set),
        }
    }
}

fn last_revision(set: &SandboxSet) -> Arc<str> {
    let last = set.status.as_ref().and_then(|status| status.update_revision.as_deref());
    last.unwrap_or_default().into()
}

/// Reads the view.
pub(super) fn observe(
    view: &View,
    key: &Key,
    failures: impl FnOnce(&str) -> Failures,
    now: Timestamp,
) -> Option<Observed> {
    let set = view.get::<SandboxSet>(key)?;
    let contents = contents_of(view, &set);
    let revision = match &contents {
        ContentsOf::Found(contents) => Arc::clone(&contents.revision),
        ContentsOf::Missing(_) => last_revision(&set),
    };
    let wanted = usize::try_from(set.spec.replicas).unwrap_or_default();
    let members = view.members(&set.uid, &revision, now, LOOK, wanted);
    let revisions = view.revisions(&set.uid);
    Some(Observed { contents, members, revisions, failures: failures(&set.uid), now, set })
}

fn contents_of(view: &View, set: &Seen<SandboxSet>) -> ContentsOf {
    let spec = &set.spec;
    let spec = match (&spec.template, &spec.template_ref) {
        (Some(template), _) => SandboxTemplateSpec {
            template: Some(template.clone()),
            volume_claim_templates: spec.volume_claim_templates.clone(),
            persistent_contents: spec.persistent_contents.clone(),
            runtimes: spec.runtimes.clone(),
            pause_strategy: spec.pause_strategy.clone(),
            auto_pause_policy: spec.auto_pause_policy.clone(),
            probes: spec.probes.clone(),
        },
        (None, Some(reference)) => {
            let key = Key::new(&set.key.namespace, &reference.name);
            match view.get::<SandboxTemplate>(&key) {
                Some(found) if found.spec.template.is_some() => found.spec.clone(),
                Some(_) => {
                    return ContentsOf::Missing(format!(
                        "SandboxTemplate {} has no template",
                        reference.name
                    ));
                }
                None => {
                    return ContentsOf::Missing(format!("there is no SandboxTemplate {}", reference.name));
                }
            }
        }
        (None, None) => return ContentsOf::Missing("neither template nor templateRef is given".to_owned()),
    };
    match serde_json::to_value(&spec) {
        Ok(json) => ContentsOf::Found(Contents { revision: revision(&json).into(), spec }),
        Err(error) => ContentsOf::Missing(format!("the template cannot be read: {error}")),
    }
}
