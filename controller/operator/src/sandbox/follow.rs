//! How a sandbox that runs follows a change of its template.

use sandgate_objects::openkruise::names;
use sandgate_objects::openkruise::resources::UpgradeType;

use super::drift::{Drift, Progress, drift, progress};
use super::observe::Observed;
use super::plan::PodStep;
use super::pod::Template;
use super::status::{self, CONDITION_UPGRADING, Draft};
use crate::view::{PodFacts, Seen};

const UPDATING: &str = "the pod is being updated";

/// A pod that runs follows its template as far as it can. What is to be done is said in the status first.
pub(super) fn follow_template(
    observed: &Observed,
    draft: &mut Draft,
    pod: &Seen<PodFacts>,
    template: &Template,
) -> PodStep {
    let is_declared = draft.status.update_revision.as_ref() == Some(&template.revision);
    let drift = drift(pod, template);
    if draft.reason(names::CONDITION_INPLACE_UPDATE) == names::REASON_INPLACE_UPDATING {
        if is_declared && let Some(step) = drift.clone().step() {
            draft.not_ready(names::REASON_INPLACE_UPDATING, UPDATING);
            return step;
        }
        match progress(pod) {
            Progress::Underway => {
                draft.not_ready(names::REASON_INPLACE_UPDATING, UPDATING);
                return PodStep::Keep;
            }
            Progress::Done => draft.put(names::CONDITION_INPLACE_UPDATE, true, names::REASON_SUCCEEDED, ""),
            Progress::Refused(message) => draft.update_failed(&message),
        }
    }
    draft.status.update_revision = Some(template.revision.clone());
    if drift == Drift::None {
        if draft.reason(names::CONDITION_INPLACE_UPDATE) == status::REASON_INPLACE_FORBIDDEN {
            draft.drop(names::CONDITION_INPLACE_UPDATE);
        }
        // An upgrade that was refused is not asked for any more.
        let refused = [status::REASON_PRE_UPGRADE_FAILED, status::REASON_CHECKPOINT_FAILED];
        if refused.contains(&draft.reason(CONDITION_UPGRADING)) {
            draft.drop(CONDITION_UPGRADING);
        }
        return PodStep::Keep;
    }
    // A pod that was taken over is no pod of an older template, whatever the policy is.
    if matches!(drift, Drift::Unmarked(_)) {
        return drift.step().filter(|_| is_declared).unwrap_or(PodStep::Keep);
    }
    let policy = observed.sandbox.spec.upgrade_policy.as_ref().and_then(|policy| policy.type_);
    match policy {
        Some(UpgradeType::Recreate) => return replace(observed, draft, pod),
        Some(UpgradeType::CheckpointRestore) => {
            let message = "nothing is installed that could make a checkpoint; the pod is left as it is";
            draft.put(CONDITION_UPGRADING, false, status::REASON_CHECKPOINT_FAILED, message);
            return PodStep::Keep;
        }
        Some(UpgradeType::InPlace) | None => {}
    }
    let reason = draft.reason(names::CONDITION_INPLACE_UPDATE);
    if is_declared && matches!(reason, names::REASON_FAILED | status::REASON_INPLACE_FORBIDDEN) {
        return PodStep::Keep;
    }
    match &drift {
        Drift::Metadata(_) if is_declared => return drift.step().unwrap_or(PodStep::Keep),
        Drift::None | Drift::Unmarked(_) => {}
        // What was refused was asked for by an earlier template.
        Drift::Metadata(_) if matches!(reason, names::REASON_FAILED | status::REASON_INPLACE_FORBIDDEN) => {
            draft.drop(names::CONDITION_INPLACE_UPDATE);
        }
        Drift::Metadata(_) => {}
        Drift::InPlace { .. } => {
            draft.put(names::CONDITION_INPLACE_UPDATE, false, names::REASON_INPLACE_UPDATING, UPDATING);
            draft.not_ready(names::REASON_INPLACE_UPDATING, UPDATING);
        }
        Drift::Forbidden => {
            let message = "the template changed in more than labels, annotations, images and resources; \
                           the pod is left as it is";
            draft.put(names::CONDITION_INPLACE_UPDATE, false, status::REASON_INPLACE_FORBIDDEN, message);
        }
    }
    PodStep::Keep
}

impl Drift {
    /// What makes up for it.
    fn step(self) -> Option<PodStep> {
        match self {
            Self::Metadata(patch) | Self::Unmarked(patch) => {
                Some(PodStep::Patch { resize: None, patch: Box::new(patch) })
            }
            Self::InPlace { resize, patch } => Some(PodStep::Patch { resize, patch: Box::new(patch) }),
            Self::None | Self::Forbidden => None,
        }
    }
}

/// The policy is to replace the pod of a sandbox whose template changed.
fn replace(observed: &Observed, draft: &mut Draft, pod: &Seen<PodFacts>) -> PodStep {
    let hooks = observed.sandbox.spec.lifecycle.as_ref();
    if hooks.is_some_and(|hooks| hooks.pre_upgrade.is_some() || hooks.post_upgrade.is_some()) {
        let message = "hooks of an upgrade cannot be run; the pod is left as it is";
        draft.put(CONDITION_UPGRADING, false, status::REASON_PRE_UPGRADE_FAILED, message);
        return PodStep::Keep;
    }
    draft.enter(names::PHASE_UPGRADING);
    draft.put(CONDITION_UPGRADING, false, status::REASON_UPGRADE_POD, "the pod is being replaced");
    draft.not_ready(status::REASON_UPGRADING, "the pod is being replaced");
    draft.drop(names::CONDITION_INPLACE_UPDATE);
    draft.leaves(pod);
    PodStep::Keep
}
