//! What a plan for a snapshot is made from.

use std::sync::Arc;

use jiff::Timestamp;
use sandgate_objects::opensandbox::resources::SandboxSnapshot;

use crate::Key;
use crate::view::{JobFacts, Seen, View};

/// A snapshot and its Jobs, at one moment.
#[derive(Clone, Debug)]
pub(super) struct Observed {
    /// The snapshot.
    pub(super) snapshot: Arc<Seen<SandboxSnapshot>>,
    /// The Job that commits.
    pub(super) commit: JobOf,
    /// The Job that lets containers go on after a commit that failed.
    pub(super) unpause: JobOf,
    /// The time.
    pub(super) now: Timestamp,
}

/// The Job of a name.
#[derive(Clone, Debug)]
pub(super) enum JobOf {
    /// There is none.
    None,
    /// The snapshot's own.
    Own(Arc<Seen<JobFacts>>),
    /// Of an earlier snapshot of the name, or a stranger's.
    Other(Arc<Seen<JobFacts>>),
}

/// The name of the Job that commits.
pub(super) fn commit_job(snapshot: &Key) -> Key {
    Key::new(&snapshot.namespace, &format!("{}-commit", snapshot.name))
}

/// The name of the Job that lets containers go on.
pub(super) fn unpause_job(snapshot: &Key) -> Key {
    Key::new(&snapshot.namespace, &format!("{}-unpause", snapshot.name))
}

/// Reads the view.
pub(super) fn observe(view: &View, key: &Key, now: Timestamp) -> Option<Observed> {
    let snapshot = view.get::<SandboxSnapshot>(key)?;
    let job = |key: &Key| JobOf::of(view.get::<JobFacts>(key), &snapshot);
    let (commit, unpause) = (job(&commit_job(key)), job(&unpause_job(key)));
    Some(Observed { snapshot, commit, unpause, now })
}

impl JobOf {
    /// What a Job is to a snapshot.
    pub(super) fn of(job: Option<Arc<Seen<JobFacts>>>, snapshot: &Seen<SandboxSnapshot>) -> Self {
        match job {
            None => Self::None,
            Some(job) if job.owner_uid.as_deref() == Some(&*snapshot.uid) => Self::Own(job),
            Some(job) => Self::Other(job),
        }
    }
}
