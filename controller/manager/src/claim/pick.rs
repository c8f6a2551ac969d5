//! Which sandbox of a pool a claim takes.
//!
//! The cache has the order: sandboxes of the set's newest revision come first, and among equals each replica
//! begins at a place of its own, so that two replicas that take at the same time seldom take the same one.

#[cfg(test)]
mod tests;

use sandgate_cache::Seen;
use sandgate_objects::Kind as _;
use sandgate_objects::openkruise::names::{ANNOTATION_LOCK, LABEL_SANDBOX_CLAIMED};
use sandgate_objects::openkruise::resources::{SandboxFacts, SandboxSet};

/// The pool that is looked at.
#[derive(Clone, Copy)]
pub(super) struct Pool<'a> {
    /// The set.
    pub(super) set: &'a Seen<SandboxSet>,
}

impl Pool<'_> {
    /// Whether the sandbox is the pool's and nobody has it. The owner reference decides, not a label: the
    /// template that labels name may serve several sets.
    pub(super) fn has(&self, sandbox: &Seen<SandboxFacts>) -> bool {
        sandbox.key.namespace == self.set.key.namespace
            && sandbox.pool() == Some(&*self.set.key.name)
            && sandbox.annotation(ANNOTATION_LOCK).is_empty()
            && sandbox.label(LABEL_SANDBOX_CLAIMED) != "true"
    }
}
