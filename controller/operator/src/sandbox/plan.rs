//! What is to be done for a sandbox: a function of what was observed, and of nothing else.
//!
//! | phase | what leads on |
//! |---|---|
//! | none, Pending | the pod is created; it runs → Running |
//! | Running | the pod is lost → Failed; the template changed → in place, or Upgrading |
//! | any that lives, and `spec.paused` | → Paused; the pod is stopped; gone → `SandboxPaused` is true |
//! | Paused, and not `spec.paused` | first the pause ends, then → Resuming |
//! | Resuming | a new pod is created; it runs → Running |
//! | Upgrading | the old pod is deleted, a new one is created; it runs → Running |
//! | Succeeded, Failed | the sandbox stays as it is until its end |
//!
//! # Views that lag
//! An operator that has just begun to lead may know less of one kind than of another.
//! - Its sandboxes lag: nothing is done to a pod that is there before the status says that it will be, which
//!   pod goes, or which revision the pod is to have. The status is written for one version of the sandbox, so
//!   this operator gets a conflict and does nothing to the pod.
//! - Its pods lag: the status says which pod the sandbox has. Another one is not shown, and a sandbox is not
//!   said to have ended with it, before the API server has confirmed that it is the pod of this name
//!   ([`PodStep::Confirm`]). Otherwise a sandbox would get back the address that it had before a pause, which
//!   may be a stranger's by now.
//!
//! A pod that is not ready is not lost: the phase stays, and the condition `Ready` is false. A pod that has
//! not run yet follows its template by being replaced: nothing is lost with it. A deadline counts in every
//! phase.
//!
//! A sandbox that asks to be recycled is deleted, and its set makes a new one. OpenKruise's recycler hands
//! the sandbox on with the files and processes of the one who had it before.

use std::time::Duration;

use sandgate_objects::openkruise::names;
use sandgate_objects::openkruise::resources::Sandbox;
use serde_json::{Value, json};

use super::follow::follow_template;
use super::observe::{Observed, PodOf, TemplateOf};
use super::pause::{PauseStrategy, Pauses, Pausing};
use super::pod::{claims, manifest};
use super::status::{self, CONDITION_UPGRADING, Draft};
use super::timers::{Due, due};
use crate::deadline::until;
use crate::view::{PodFacts, Seen};
use crate::{Again, conditions};

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Plan {
    /// Delete the sandbox, if it is still as it was observed.
    Delete,
    /// Change metadata or spec of the sandbox, if it is still as it was observed: a merge patch.
    Patch(Value),
    /// The sandbox is being deleted: delete its pod, if any.
    Leave(PodStep),
    /// Do something about the pod, and write the status.
    Settle(Box<Settle>),
}

/// The usual plan.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Settle {
    /// What to do about the pod.
    pub(super) pod: PodStep,
    /// The status, if that is done.
    pub(super) status: Draft,
    /// When to look again.
    pub(super) again: Again,
}

/// What to do about the pod.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum PodStep {
    /// Nothing.
    Keep,
    /// Ask the API server whether the pod of this name is the one that was observed, or none if none was. If
    /// it is not, the plan is void.
    Confirm,
    /// Create the volume claims and then the pod.
    Create {
        /// The claims.
        claims: Vec<Value>,
        /// The pod.
        pod: Box<Value>,
    },
    /// Delete the pod that was observed.
    Delete {
        /// How many seconds it has to end by itself; as the pod says if none.
        grace: Option<u32>,
    },
    /// Delete the pod, if it is still as it was observed: it has not begun to run.
    Discard,
    /// Change the pod, if it is still as it was observed.
    Patch {
        /// The patch of the resources.
        resize: Option<Value>,
        /// The patch of everything else, which also says that the pod has the new revision.
        patch: Box<Value>,
    },
}

/// Annotations by which a sandbox asks to be recycled: both are `true`.
const RECYCLE: [&str; 2] = ["agents.kruise.io/cleanup", "agents.kruise.io/cleanup-enabled"];

/// Makes the plan.
pub(super) fn plan(observed: &Observed, pauses: &Pauses) -> Plan {
    let sandbox = &observed.sandbox;
    if sandbox.metadata.deletion_timestamp.is_some() {
        return leave(observed);
    }
    let mut draft = Draft::of(observed);
    let has_ended = matches!(draft.phase(), names::PHASE_SUCCEEDED | names::PHASE_FAILED);
    if RECYCLE.iter().all(|name| annotation(sandbox, name) == Some("true")) {
        return Plan::Delete;
    }
    let strategy = pauses.of(sandbox);
    let refusal = strategy.accept(sandbox).err().filter(|_| draft.phase() != names::PHASE_PAUSED);
    // A sandbox that cannot pause is not asked to: the gateway would not route to it any more.
    let can_pause = !has_ended && refusal.is_none();
    let again = match due(sandbox, can_pause, observed.now) {
        Due::Shutdown => return Plan::Delete,
        Due::Pause(patch) => return Plan::Patch(patch),
        Due::Nothing(again) => again,
    };
    let refused_at = sandbox.spec.pause_time.as_ref().map(|time| time.0).filter(|_| refusal.is_some());
    let again = match refused_at.map(|at| until(at, observed.now)) {
        Some(Again::After(wait)) if refused_at > Some(observed.now) => sooner(again, wait),
        _ => again,
    };
    let is_paused = sandbox.spec.paused == Some(true);
    if let Some(patch) = finalizer(sandbox, &draft, strategy) {
        return Plan::Patch(patch);
    }
    let mut is_refused = false;
    let pod = match (has_ended, is_paused, refusal) {
        (true, ..) => PodStep::Keep,
        (false, true, None) => pause(observed, &mut draft, strategy),
        (false, true, Some(refusal)) => {
            let pod = run(observed, &mut draft, strategy);
            draft.put(names::CONDITION_PAUSED, false, refusal.reason, &refusal.message);
            pod
        }
        (false, false, None) => run(observed, &mut draft, strategy),
        (false, false, Some(refusal)) => {
            let pod = run(observed, &mut draft, strategy);
            is_refused = refused_at.is_some_and(|at| at <= observed.now);
            if is_refused {
                draft.put(names::CONDITION_PAUSED, false, refusal.reason, &refusal.message);
            }
            pod
        }
    };
    if draft.phase() == names::PHASE_RUNNING && !is_paused && !is_refused {
        draft.drop(names::CONDITION_PAUSED);
    }
    let again = match &observed.pod {
        PodOf::Other(_) if !has_ended => sooner(again, super::TAKEN_AGAIN),
        _ => again,
    };
    Plan::Settle(Box::new(Settle { pod, status: draft, again }))
}

/// The sandbox is being deleted: its pod goes first, then the finalizer, whoever put it there.
fn leave(observed: &Observed) -> Plan {
    match observed.pod.own() {
        Some(pod) if pod.is_deleting => Plan::Leave(PodStep::Keep),
        Some(_) => Plan::Leave(PodStep::Delete { grace: None }),
        None => without_finalizer(&observed.sandbox).map_or(Plan::Leave(PodStep::Keep), Plan::Patch),
    }
}

/// The patch that adds or removes the finalizer, if it is not as it should be. A strategy may need it while
/// the sandbox is paused; a sandbox that runs needs none.
fn finalizer(sandbox: &Sandbox, draft: &Draft, strategy: &dyn PauseStrategy) -> Option<Value> {
    let is_paused = sandbox.spec.paused == Some(true);
    if is_paused && strategy.needs_finalizer() {
        let mut finalizers = sandbox.metadata.finalizers.clone().unwrap_or_default();
        if finalizers.iter().any(|name| name == names::FINALIZER) {
            return None;
        }
        finalizers.push(names::FINALIZER.to_owned());
        return Some(json!({"metadata": {"finalizers": finalizers}}));
    }
    let runs = draft.phase() == names::PHASE_RUNNING && !is_paused;
    if runs { without_finalizer(sandbox) } else { None }
}

fn without_finalizer(sandbox: &Sandbox) -> Option<Value> {
    let finalizers = sandbox.metadata.finalizers.as_ref()?;
    let kept: Vec<_> = finalizers.iter().filter(|name| *name != names::FINALIZER).collect();
    (kept.len() < finalizers.len()).then(|| json!({"metadata": {"finalizers": kept}}))
}

/// The sandbox is to be paused.
fn pause(observed: &Observed, draft: &mut Draft, strategy: &dyn PauseStrategy) -> PodStep {
    draft.enter(names::PHASE_PAUSED);
    for kind in [names::CONDITION_RESUMED, names::CONDITION_INPLACE_UPDATE, CONDITION_UPGRADING] {
        draft.drop(kind);
    }
    draft.not_ready(names::REASON_POD_READY, "the sandbox is paused");
    stop(observed, draft, strategy)
}

/// The next step of a pause, which may be one that was called off.
fn stop(observed: &Observed, draft: &mut Draft, strategy: &dyn PauseStrategy) -> PodStep {
    let pod = observed.pod.own();
    let is_declared = pod.is_some_and(|pod| observed.is_leaving(names::PHASE_PAUSED, pod));
    if let Some(pod) = pod {
        draft.leaves(pod);
    }
    let step = match strategy.pause(pod) {
        Pausing::Done(reason) => {
            draft.put(names::CONDITION_PAUSED, true, reason, "");
            // The answer to a create may have been lost, and the watch may not have shown the pod yet.
            let is_news = matches!(observed.pod, PodOf::None) && !is_paused(&observed.sandbox);
            return if is_news { PodStep::Confirm } else { PodStep::Keep };
        }
        Pausing::DeletePod { grace } if is_declared => PodStep::Delete { grace: Some(grace) },
        Pausing::DeletePod { .. } | Pausing::Wait => PodStep::Keep,
    };
    // A view that lags may show a pod that is known to be gone.
    if !(is_declared && conditions::is_true(&draft.status.conditions, names::CONDITION_PAUSED)) {
        draft.put(names::CONDITION_PAUSED, false, names::REASON_PENDING, "the pod is ending");
    }
    step
}

/// Whether the status says that the pause is done. While a sandbox resumes, the condition is that of the last
/// pause.
fn is_paused(sandbox: &Sandbox) -> bool {
    sandbox.status.as_ref().is_some_and(|status| {
        status.phase.as_deref() == Some(names::PHASE_PAUSED)
            && conditions::is_true(&status.conditions, names::CONDITION_PAUSED)
    })
}

/// The sandbox is to run.
fn run(observed: &Observed, draft: &mut Draft, strategy: &dyn PauseStrategy) -> PodStep {
    match draft.phase() {
        names::PHASE_PAUSED => {
            let is_old = |pod: &Seen<PodFacts>| observed.is_leaving(names::PHASE_PAUSED, pod);
            if observed.pod.own().is_some_and(is_old) {
                let step = stop(observed, draft, strategy);
                let is_paused = conditions::is_true(&draft.status.conditions, names::CONDITION_PAUSED);
                if !is_paused || !strategy.keeps_pod() {
                    return step;
                }
            } else if let Pausing::Done(reason) = strategy.pause(None) {
                draft.put(names::CONDITION_PAUSED, true, reason, "");
            }
            draft.enter(names::PHASE_RESUMING);
            resume(observed, draft, strategy)
        }
        names::PHASE_RESUMING => resume(observed, draft, strategy),
        names::PHASE_UPGRADING => upgrade(observed, draft),
        "" | names::PHASE_PENDING => start(observed, draft),
        _ => keep_running(observed, draft),
    }
}

fn start(observed: &Observed, draft: &mut Draft) -> PodStep {
    draft.enter(names::PHASE_PENDING);
    let step = confirm_another(observed, draft);
    match &observed.pod {
        PodOf::None => create(observed, draft, |pod| pod),
        PodOf::Other(_) => taken(draft),
        PodOf::Own(pod) if pod.is_deleting => {
            draft.not_ready(names::REASON_POD_READY, "the pod is being deleted; a new one follows");
            PodStep::Keep
        }
        PodOf::Own(pod) if pod.has_ended() => {
            draft.ends(pod);
            step
        }
        PodOf::Own(pod) if pod.phase == "Running" => {
            draft.enter(names::PHASE_RUNNING);
            draft.show(pod);
            if let Some(revision) = pod.labels.get(names::LABEL_POD_TEMPLATE_HASH) {
                draft.status.update_revision.get_or_insert_with(|| revision.clone());
            }
            step
        }
        PodOf::Own(pod) => {
            draft.show(pod);
            if step == PodStep::Keep { follow_before_it_runs(observed, draft, pod) } else { step }
        }
    }
}

/// Nothing, if the pod that was observed is the one that the status says the sandbox has. Otherwise either
/// the status or the view is old: which of them it is, the API server knows.
fn confirm_another(observed: &Observed, draft: &Draft) -> PodStep {
    let is_known = match observed.pod.uid() {
        Some(uid) => draft.last_pod().is_none_or(|last| last == &**uid),
        None => false,
    };
    if is_known { PodStep::Keep } else { PodStep::Confirm }
}

/// A pod of an older template that has not run yet is replaced: one whose image cannot be pulled would wait
/// for ever. First the status says which revision the pod is to have. A pod of OpenKruise's controller does
/// not say what it was made from and is left alone.
fn follow_before_it_runs(observed: &Observed, draft: &mut Draft, pod: &Seen<PodFacts>) -> PodStep {
    let TemplateOf::Found(template) = &observed.template else { return PodStep::Keep };
    let is_declared = draft.status.update_revision.as_ref() == Some(&template.revision);
    draft.status.update_revision = Some(template.revision.clone());
    let is_ours = pod.annotations.contains_key(names::ANNOTATION_HASH_IMMUTABLE_PART);
    let is_current = pod.labels.get(names::LABEL_POD_TEMPLATE_HASH) == Some(&template.revision);
    if is_ours && !is_current && is_declared { PodStep::Discard } else { PodStep::Keep }
}

fn resume(observed: &Observed, draft: &mut Draft, strategy: &dyn PauseStrategy) -> PodStep {
    let last = draft.last_pod().map(str::to_owned);
    let step = confirm_another(observed, draft);
    if !matches!(&observed.pod, PodOf::Own(pod) if pod.phase == "Running") {
        draft.put(names::CONDITION_RESUMED, false, names::REASON_CREATE_POD, "the pod is on its way");
    }
    match &observed.pod {
        PodOf::None => create(observed, draft, |pod| strategy.resume(&observed.sandbox, pod)),
        PodOf::Other(_) => taken(draft),
        // What was known to be on its way out is not what the sandbox resumes with.
        PodOf::Own(pod) if last.as_deref() == Some(&*pod.uid) && !strategy.keeps_pod() => goes(pod),
        PodOf::Own(pod) if pod.is_deleting => PodStep::Keep,
        // It may be the new pod, or one of an earlier life that the view still has.
        PodOf::Own(pod) if pod.has_ended() => {
            draft.ends(pod);
            step
        }
        PodOf::Own(pod) if pod.phase == "Running" => {
            draft.enter(names::PHASE_RUNNING);
            draft.put(names::CONDITION_RESUMED, true, names::REASON_RESUME_POD, "");
            draft.drop(names::CONDITION_PAUSED);
            draft.show(pod);
            step
        }
        // Where it is stays unsaid until it runs: until then `podInfo` says which pod has gone.
        PodOf::Own(pod) => {
            draft.show_readiness(pod);
            follow_before_it_runs(observed, draft, pod)
        }
    }
}

fn upgrade(observed: &Observed, draft: &mut Draft) -> PodStep {
    let last = draft.last_pod().map(str::to_owned);
    let step = confirm_another(observed, draft);
    match &observed.pod {
        PodOf::None => create(observed, draft, |pod| pod),
        PodOf::Other(_) => taken(draft),
        PodOf::Own(pod) if last.as_deref() == Some(&*pod.uid) => goes(pod),
        PodOf::Own(pod) if pod.is_deleting => PodStep::Keep,
        PodOf::Own(pod) if pod.has_ended() => {
            draft.ends(pod);
            step
        }
        PodOf::Own(pod) if pod.phase == "Running" => {
            draft.enter(names::PHASE_RUNNING);
            draft.put(CONDITION_UPGRADING, true, names::REASON_SUCCEEDED, "");
            draft.show(pod);
            step
        }
        PodOf::Own(pod) => {
            draft.show_readiness(pod);
            follow_before_it_runs(observed, draft, pod)
        }
    }
}

fn keep_running(observed: &Observed, draft: &mut Draft) -> PodStep {
    draft.enter(names::PHASE_RUNNING);
    let step = confirm_another(observed, draft);
    match &observed.pod {
        PodOf::None | PodOf::Other(_) => {
            draft.fails("Pod Not Found");
            PodStep::Confirm
        }
        PodOf::Own(pod) if pod.is_deleting => {
            draft.fails("Pod Not Found: it is being deleted");
            step
        }
        PodOf::Own(pod) if pod.has_ended() => {
            draft.ends(pod);
            step
        }
        PodOf::Own(pod) => {
            draft.show(pod);
            match &observed.template {
                TemplateOf::Found(template) if step == PodStep::Keep => {
                    follow_template(observed, draft, pod, template)
                }
                _ => step,
            }
        }
    }
}

fn create(observed: &Observed, draft: &mut Draft, change: impl FnOnce(Value) -> Value) -> PodStep {
    match &observed.template {
        TemplateOf::Found(template) => {
            draft.status.update_revision = Some(template.revision.clone());
            let is_stale = matches!(
                draft.reason(names::CONDITION_READY),
                status::REASON_TEMPLATE_NOT_FOUND
                    | status::REASON_TEMPLATE_INVALID
                    | status::REASON_POD_NAME_TAKEN
                    | names::REASON_POD_CREATE_FAILED
            );
            if is_stale {
                draft.not_ready(names::REASON_POD_READY, "the pod is being created");
            }
            PodStep::Create {
                claims: claims(&observed.sandbox, template),
                pod: Box::new(change(manifest(&observed.sandbox, template))),
            }
        }
        TemplateOf::Missing(message) => {
            draft.not_ready(status::REASON_TEMPLATE_NOT_FOUND, message);
            PodStep::Keep
        }
        TemplateOf::Invalid(message) => {
            draft.not_ready(status::REASON_TEMPLATE_INVALID, message);
            PodStep::Keep
        }
    }
}

fn goes(pod: &PodFacts) -> PodStep {
    if pod.is_deleting { PodStep::Keep } else { PodStep::Delete { grace: None } }
}

fn taken(draft: &mut Draft) -> PodStep {
    draft.taken();
    PodStep::Keep
}

/// The sooner of two times to look again.
pub(super) fn sooner(again: Again, limit: Duration) -> Again {
    match again {
        Again::After(time) => Again::After(time.min(limit)),
        Again::Rarely | Again::Forget => Again::After(limit),
    }
}

fn annotation<'a>(sandbox: &'a Sandbox, name: &str) -> Option<&'a str> {
    sandbox.metadata.annotations.as_ref()?.get(name).map(String::as_str)
}
