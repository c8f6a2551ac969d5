//! The status of a set: what it has now, after what was done.

use jiff::Timestamp;
use sandgate_objects::openkruise::names;
use sandgate_objects::openkruise::resources::{SandboxSet, SandboxSetStatus};

use super::plan::Trouble;
use crate::conditions::{self, Verdict};
use crate::view::Members;

/// The condition of a set that lacks sandboxes which it cannot make.
pub(super) const CONDITION_REPLICA_FAILURE: &str = "ReplicaFailure";

/// The status of a set with these children.
pub(super) fn status(
    set: &SandboxSet,
    revision: &str,
    members: &Members,
    trouble: Option<&Trouble>,
    now: Timestamp,
) -> SandboxSetStatus {
    let counts = members.counts;
    let reserved_new = members.reserved.iter().filter(|it| *it.revision == *revision).count();
    let updated = counts.new_creating + counts.new_available + reserved_new;
    let reserved_old = members.reserved.len() - reserved_new;
    let replicas = updated + counts.old_creating + counts.old_available + reserved_old;
    let mut status = set.status.clone().unwrap_or_default();
    status.observed_generation = set.metadata.generation;
    status.replicas = number(replicas);
    status.available_replicas = number(counts.new_available + counts.old_available);
    status.updated_replicas = number(updated);
    status.updated_available_replicas = number(counts.new_available);
    if !revision.is_empty() {
        status.update_revision = Some(revision.to_owned());
    }
    // The set is of a revision when all of it is.
    if status.current_revision.is_none() || updated == replicas {
        status.current_revision.clone_from(&status.update_revision);
    }
    let name = set.metadata.name.as_deref().unwrap_or_default();
    status.selector =
        Some(format!("{}={name},{}=false", names::LABEL_SANDBOX_POOL, names::LABEL_SANDBOX_CLAIMED));
    match trouble {
        Some(Trouble { reason, message }) => {
            let verdict =
                Verdict { kind: CONDITION_REPLICA_FAILURE, holds: true, reason, message: message.clone() };
            conditions::put(&mut status.conditions, verdict, set.metadata.generation, now);
        }
        None => conditions::remove(&mut status.conditions, CONDITION_REPLICA_FAILURE),
    }
    status
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
