//! The status of a snapshot.

use std::collections::BTreeMap;

use jiff::Timestamp;
use sandgate_objects::opensandbox::names;
use sandgate_objects::opensandbox::resources::{ContainerSnapshot, SandboxSnapshot, SandboxSnapshotStatus};

use crate::facts::{self, Fact};

/// A status to be: what it is now, and what is changed in it.
pub(super) struct Draft {
    /// The status.
    pub(super) status: SandboxSnapshotStatus,
    now: Timestamp,
}

impl Draft {
    /// The status as it is, about the spec as it is.
    pub(super) fn of(snapshot: &SandboxSnapshot, now: Timestamp) -> Self {
        let mut status = snapshot.status.clone().unwrap_or_default();
        status.observed_generation = snapshot.metadata.generation;
        Self { status, now }
    }

    /// It is known what is to be kept.
    pub(super) fn resolved(mut self, pod: &str, node: &str, containers: Vec<ContainerSnapshot>) -> Self {
        self.status.source_pod_name = Some(pod.to_owned());
        self.status.source_node_name = Some(node.to_owned());
        self.status.containers = containers;
        self.enter(names::PHASE_PENDING)
    }

    /// The Job is there.
    pub(super) fn commits(self) -> Self {
        self.enter(names::PHASE_COMMITTING)
    }

    /// The images are made.
    pub(super) fn made(mut self, digests: &BTreeMap<String, String>) -> Self {
        for container in &mut self.status.containers {
            if let Some(digest) = digests.get(&container.container_name) {
                container.image_digest = Some(digest.clone());
            }
        }
        let fact = Fact::new(names::REASON_SNAPSHOT_READY, "Snapshot is ready");
        facts::put(&mut self.status.conditions, names::CONDITION_READY, fact, self.now);
        facts::remove(&mut self.status.conditions, names::CONDITION_FAILED);
        self.enter(names::PHASE_SUCCEED)
    }

    /// There will be no images.
    pub(super) fn failed(mut self, reason: &'static str, message: &str) -> Self {
        let fact = Fact::new(reason, message);
        facts::put(&mut self.status.conditions, names::CONDITION_FAILED, fact, self.now);
        facts::remove(&mut self.status.conditions, names::CONDITION_READY);
        self.enter(names::PHASE_FAILED)
    }

    fn enter(mut self, phase: &str) -> Self {
        self.status.phase = Some(phase.to_owned());
        self
    }
}
