//! What is to be done for a set: a function of what was observed, and of nothing else.
//!
//! `replicas` counts sandboxes that wait to be claimed: in creation, available, or asked for and not seen
//! yet.
//! - **Too few**: as many are made as are missing, but not more at a time than `scaleStrategy` allows to be
//!   in creation, and none while the set waits after failures.
//! - **Too many**: the surplus is deleted, first of older revisions, then in the order of [`Rank`]. A delete
//!   is for one version of the sandbox, so a claim that comes between wins. Nothing is locked first, so
//!   nothing can stay locked.
//! - **The right number**: sandboxes of older revisions are replaced. Those in creation go at once, as nobody
//!   could claim them. Of those available only as many go as `updateStrategy` allows to be missing.
//! - Sandboxes that failed, completed or expired are deleted and not counted. So are those that OpenKruise's
//!   controller has locked for a scale-down and left behind.
//! - A sandbox that somebody else has locked is neither counted nor touched while it lives.
//!
//! [`Rank`]: crate::view::Rank

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use sandgate_objects::openkruise::names;
use sandgate_objects::openkruise::resources::{DEFAULT_MAX_UNAVAILABLE, SandboxTemplate};

use super::observe::{ContentsOf, Observed};
use crate::Again;
use crate::failures::Failures;
use crate::view::{Child, Seen};

/// How many older revisions are kept as templates.
const KEEP_REVISIONS: usize = 10;

/// How many sandboxes one look at a set makes at most: the batches from 16 to 256.
pub(super) const MAX_CREATES: usize = 16 + 32 + 64 + 128 + 256;

/// What is to be done.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
    /// Keep the revision as a template.
    pub(super) materialise: bool,
    /// Sandboxes to delete, if they are still as they were seen.
    pub(super) delete: Vec<Child>,
    /// How many sandboxes to make.
    pub(super) create: usize,
    /// Templates of older revisions to delete.
    pub(super) prune: Vec<Arc<Seen<SandboxTemplate>>>,
    /// The failures, with those that were found now.
    pub(super) failures: Failures,
    /// Why sandboxes are missing that are not made: what the condition says.
    pub(super) trouble: Option<Trouble>,
    /// When to look again.
    pub(super) again: Option<Timestamp>,
}

/// Why a set does not have the sandboxes that it should have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trouble {
    /// In one word.
    pub(super) reason: &'static str,
    /// For people.
    pub(super) message: String,
}

/// The API server does not take sandboxes of this set.
pub(super) const CREATE_FAILED: &str = "CreateFailed";
/// The template of the set does not exist.
pub(super) const TEMPLATE_NOT_FOUND: &str = "TemplateNotFound";
/// The sandboxes fail one after the other, and the set waits before it makes more.
pub(super) const SANDBOXES_FAIL: &str = "SandboxesFail";

/// Makes the plan.
pub(super) fn plan(observed: &Observed) -> Plan {
    let Observed { set, contents, members, failures, now, .. } = observed;
    if set.metadata.deletion_timestamp.is_some() {
        // The garbage collector deletes the children.
        return Plan { failures: failures.clone(), ..Plan::default() };
    }
    let revision = observed.revision();
    let has_failed =
        |child: &&Child| child.revision == revision && child.ends.is_none_or(|ends| ends >= *now);
    let newest = members.dead.iter().filter(has_failed).map(|child| child.rank.created).max();
    let mut plan = Plan {
        delete: members.dead.iter().chain(&members.abandoned).cloned().collect(),
        failures: match newest {
            Some(created) => failures.clone().and(&revision, created, *now),
            None => failures.clone(),
        },
        again: members.next_end,
        ..Plan::default()
    };
    match contents {
        ContentsOf::Found(_) => {
            let name = revision_name(&set.key.name, &revision);
            plan.materialise = !observed.revisions.iter().any(|template| *template.key.name == *name);
            plan.prune = prunable(observed, &revision);
        }
        ContentsOf::Missing(message) => {
            plan.trouble = Some(Trouble { reason: TEMPLATE_NOT_FOUND, message: message.clone() });
        }
    }
    let wanted = usize::try_from(set.spec.replicas).unwrap_or_default();
    let counts = members.counts;
    let in_creation = counts.new_creating + counts.old_creating + members.reserved.len();
    let has = in_creation + counts.new_available + counts.old_available;
    if has < wanted {
        grow(observed, &mut plan, &revision, wanted - has, in_creation);
    } else if has > wanted {
        plan.delete.extend(surplus(observed, has - wanted));
    } else if matches!(contents, ContentsOf::Found(_)) {
        plan.delete.extend(outdated(observed, wanted, in_creation));
    }
    plan
}

fn grow(observed: &Observed, plan: &mut Plan, revision: &str, missing: usize, in_creation: usize) {
    if matches!(observed.contents, ContentsOf::Missing(_)) {
        return;
    }
    if let Some(until) = plan.failures.wait(revision, observed.now) {
        let failures = &plan.failures;
        plan.trouble = Some(match failures.refusal() {
            Some(refusal) => Trouble { reason: CREATE_FAILED, message: refusal.to_owned() },
            None => {
                let count = failures.count();
                let message = format!("{count} sandboxes have failed in a row; the next one is made later");
                Trouble { reason: SANDBOXES_FAIL, message }
            }
        });
        plan.again = Some(plan.again.map_or(until, |again| again.min(until)));
        return;
    }
    let limit = observed.set.spec.scale_strategy.as_ref().and_then(|it| it.max_unavailable.as_ref());
    let limit = limit.and_then(|limit| share(limit, observed.set.spec.replicas));
    let room = limit.map_or(usize::MAX, |limit| limit.saturating_sub(in_creation));
    plan.create = missing.min(room).min(MAX_CREATES);
}

/// The first of an order that goes over two classes: what is in creation, and what is available.
fn surplus(observed: &Observed, count: usize) -> impl Iterator<Item = Child> {
    let merged = |creating: &[Child], available: &[Child]| {
        let mut children: Vec<_> = creating.iter().chain(available).cloned().collect();
        children.sort_by(|one, other| one.rank.cmp(&other.rank));
        children
    };
    let members = &observed.members;
    let old = merged(&members.old_creating, &members.old_available);
    let new = merged(&members.new_creating, &members.new_available);
    // A class of which not all were looked at ends the order: what follows may not be its next.
    let old_count = members.counts.old_creating + members.counts.old_available;
    let is_whole = old.len() == old_count;
    let known = super::observe::LOOK.min(count);
    old.into_iter().chain(new.into_iter().filter(move |_| is_whole)).take(known)
}

/// Sandboxes of older revisions that may go now.
fn outdated(observed: &Observed, wanted: usize, in_creation: usize) -> impl Iterator<Item = Child> {
    let spec = &observed.set.spec;
    let budget = spec.update_strategy.as_ref().and_then(|it| it.max_unavailable.clone());
    let budget = budget.unwrap_or_else(|| IntOrString::String(DEFAULT_MAX_UNAVAILABLE.to_owned()));
    let budget = share(&budget, spec.replicas).unwrap_or_default().min(wanted);
    let room = budget.saturating_sub(in_creation);
    let oldest = observed.members.old_available.clone().into_iter().take(room);
    observed.members.old_creating.clone().into_iter().chain(oldest)
}

/// A number, or a share of `replicas`, rounded up. None if it is neither.
fn share(limit: &IntOrString, replicas: i32) -> Option<usize> {
    match limit {
        IntOrString::Int(number) => Some(usize::try_from(*number).unwrap_or_default()),
        IntOrString::String(text) => {
            let percent: u64 = text.trim().strip_suffix('%')?.trim().parse().ok()?;
            let replicas = u64::try_from(replicas).unwrap_or_default();
            usize::try_from(percent.checked_mul(replicas)?.div_ceil(100)).ok()
        }
    }
}

/// The name of the template that a revision is kept as.
pub(super) fn revision_name(set: &str, revision: &str) -> String {
    format!("{set}-{revision}")
}

/// Templates of revisions beyond the newest ten that no child was made from.
fn prunable(observed: &Observed, current: &str) -> Vec<Arc<Seen<SandboxTemplate>>> {
    let hash = |template: &SandboxTemplate| {
        template.metadata.labels.as_ref()?.get(names::LABEL_TEMPLATE_HASH).cloned()
    };
    let created =
        |template: &SandboxTemplate| template.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let mut templates: Vec<_> = observed.revisions.iter().filter(|it| hash(it).is_some()).collect();
    templates.sort_by_key(|template| std::cmp::Reverse((created(template), template.key.clone())));
    let is_unused = |template: &&&Arc<Seen<SandboxTemplate>>| {
        hash(template)
            .is_some_and(|hash| hash != current && !observed.members.revisions.contains(hash.as_str()))
    };
    templates.iter().skip(KEEP_REVISIONS).filter(is_unused).map(|template| Arc::clone(template)).collect()
}

impl Plan {
    /// When to look again if nothing happens.
    pub(super) fn again(&self, now: Timestamp) -> Again {
        self.again.map_or(Again::Rarely, |at| crate::deadline::until(at, now))
    }
}
