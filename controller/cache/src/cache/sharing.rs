//! Texts that many objects have, kept once.
//!
//! Pod templates are most of a sandbox's text, and the sandboxes of one pool have the same. Each text is
//! counted by the objects that have it, and goes with the last of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use sandgate_objects::openkruise::resources::{PodTemplate, SandboxFacts};

use crate::{Change, Seen};

/// The texts that are kept once.
#[derive(Default)]
pub struct Sharing {
    templates: BTreeMap<PodTemplate, usize>,
    /// Namespaces, and the names of labels and annotations.
    names: BTreeMap<Arc<str>, usize>,
}

impl Sharing {
    /// Puts the kept texts in the place of equal ones.
    pub(crate) fn share(&self, seen: &mut Seen<SandboxFacts>) {
        let kept = |name: &str| self.names.get_key_value(name).map(|(kept, _)| Arc::clone(kept));
        let sandbox = &mut seen.object;
        if let Some(namespace) = kept(&sandbox.namespace) {
            sandbox.namespace = namespace;
        }
        seen.key.namespace = Arc::clone(&sandbox.namespace);
        sandbox.labels.share(kept);
        sandbox.annotations.share(kept);
        if let Some(template) = &mut sandbox.template
            && let Some((kept, _)) = self.templates.get_key_value(template)
        {
            *template = kept.clone();
        }
    }

    /// Counts the texts of what is new, and forgets those of what is old.
    pub(crate) fn changed(&mut self, change: &Change<SandboxFacts>) {
        if let Some(seen) = &change.after {
            for name in names(seen) {
                *self.names.entry(Arc::clone(name)).or_default() += 1;
            }
            if let Some(template) = &seen.template {
                *self.templates.entry(template.clone()).or_default() += 1;
            }
        }
        if let Some(seen) = &change.before {
            for name in names(seen) {
                forget(&mut self.names, name);
            }
            if let Some(template) = &seen.template {
                forget(&mut self.templates, template);
            }
        }
    }

    /// How many different templates there are.
    #[cfg(test)]
    pub(crate) fn templates(&self) -> usize {
        self.templates.len()
    }
}

fn names(sandbox: &SandboxFacts) -> impl Iterator<Item = &Arc<str>> {
    [&sandbox.namespace].into_iter().chain(sandbox.labels.names()).chain(sandbox.annotations.names())
}

/// Counts one less.
pub(super) fn forget<K: Ord>(counts: &mut BTreeMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}
