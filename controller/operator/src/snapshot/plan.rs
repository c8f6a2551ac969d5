//! What is to be done for a snapshot: a function of what was observed, and of nothing else.
//!
//! | phase | what leads on |
//! |---|---|
//! | none, Pending | the pod is found and written down, the Job is created → Committing |
//! | Committing | the Job succeeds → Succeed; it fails for good → Failed; it is gone → from the beginning |
//! | Succeed, Failed | the snapshot stays as it is |

use std::sync::Arc;
use std::time::Duration;

use sandgate_objects::opensandbox::names;
use sandgate_objects::opensandbox::resources::{SandboxSnapshot, SandboxSnapshotStatus};
use serde_json::{Value, json};

use super::observe::{JobOf, Observed};
use crate::Again;
use crate::view::{JobFacts, Seen};

/// How often a Job is looked at that nothing is heard of.
const QUIET: Duration = Duration::from_secs(60);
/// When to look again at a Job that is in the way.
pub(super) const IN_THE_WAY: Duration = Duration::from_secs(1);

/// What is to be done.
#[derive(Clone, Debug)]
pub(super) enum Plan {
    /// Nothing.
    Rest(Again),
    /// Change the metadata: a merge patch.
    Patch(Value),
    /// The snapshot is being deleted: delete its Jobs, then drop the finalizer.
    CleanUp {
        /// The Jobs.
        jobs: Vec<Arc<Seen<JobFacts>>>,
        /// The finalizers that stay, if ours is among them now.
        finalizers: Option<Value>,
    },
    /// Find the pod, write down what is kept of it, create the Job.
    Begin,
    /// The Job is there.
    Commits,
    /// Ask the API server whether the Job is gone indeed; if so, begin anew, if there is a registry still.
    Confirm,
    /// Delete a Job of an earlier snapshot of this name, and wait until it is gone.
    Clear(Arc<Seen<JobFacts>>),
    /// The Job succeeded: read its result.
    Finish(Arc<Seen<JobFacts>>),
    /// The Job failed for good: let the containers go on, and say so.
    Lose(String),
    /// There is no use in trying: nobody said where images are pushed to.
    NoRegistry,
}

/// Makes the plan.
pub(super) fn plan(observed: &Observed, has_registry: bool) -> Plan {
    let snapshot = &observed.snapshot;
    let metadata = &snapshot.metadata;
    let has_finalizer = has_finalizer(snapshot);
    if metadata.deletion_timestamp.is_some() {
        return clean_up(observed, has_finalizer);
    }
    let none = SandboxSnapshotStatus::default();
    let status = snapshot.status.as_ref().unwrap_or(&none);
    let phase = status.phase.as_deref().unwrap_or_default();
    if is_terminal(phase) {
        return Plan::Rest(Again::Rarely);
    }
    if !has_finalizer {
        let mut finalizers = metadata.finalizers.clone().unwrap_or_default();
        finalizers.push(names::FINALIZER_SNAPSHOT_CLEANUP.to_owned());
        return Plan::Patch(json!({"metadata": {"finalizers": finalizers}}));
    }
    if phase == names::PHASE_COMMITTING {
        return match &observed.commit {
            JobOf::None => Plan::Confirm,
            JobOf::Other(job) => out_of_the_way(job),
            JobOf::Own(job) if job.has_succeeded => Plan::Finish(Arc::clone(job)),
            JobOf::Own(job) => match &job.failed {
                Some(message) => Plan::Lose(message.to_string()),
                None => Plan::Rest(Again::After(QUIET)),
            },
        };
    }
    if !has_registry {
        return Plan::NoRegistry;
    }
    match &observed.commit {
        // What it keeps was written down before it was created.
        JobOf::Own(job) if !job.is_deleting && is_resolved(status) => Plan::Commits,
        JobOf::Own(job) | JobOf::Other(job) => out_of_the_way(job),
        JobOf::None => Plan::Begin,
    }
}

/// Whether a snapshot stays as it is.
pub(crate) fn is_terminal(phase: &str) -> bool {
    matches!(phase, names::PHASE_SUCCEED | names::PHASE_FAILED)
}

/// Whether it is written down what the Job is to keep.
fn is_resolved(status: &SandboxSnapshotStatus) -> bool {
    status.source_pod_name.is_some() && status.source_node_name.is_some() && !status.containers.is_empty()
}

fn has_finalizer(snapshot: &SandboxSnapshot) -> bool {
    let mut finalizers = snapshot.metadata.finalizers.iter().flatten();
    finalizers.any(|name| name == names::FINALIZER_SNAPSHOT_CLEANUP)
}

fn out_of_the_way(job: &Arc<Seen<JobFacts>>) -> Plan {
    if job.is_deleting { Plan::Rest(Again::After(IN_THE_WAY)) } else { Plan::Clear(Arc::clone(job)) }
}

fn clean_up(observed: &Observed, has_finalizer: bool) -> Plan {
    if !has_finalizer {
        return Plan::Rest(Again::Rarely);
    }
    let jobs = [&observed.commit, &observed.unpause].into_iter().filter_map(|job| match job {
        JobOf::Own(job) if !job.is_deleting => Some(Arc::clone(job)),
        JobOf::Own(_) | JobOf::Other(_) | JobOf::None => None,
    });
    let finalizers = observed.snapshot.metadata.finalizers.iter().flatten();
    let kept: Vec<_> = finalizers.filter(|name| *name != names::FINALIZER_SNAPSHOT_CLEANUP).collect();
    Plan::CleanUp { jobs: jobs.collect(), finalizers: Some(json!(kept)) }
}
