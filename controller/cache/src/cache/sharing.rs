//! Texts that many objects have, kept once.
//!
//! Pod templates are most of a sandbox's text, and the sandboxes of one pool have the same. Each text is
//! counted by the objects that have it, and goes with the last of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use sandgate_objects::openkruise::names;
use sandgate_objects::openkruise::resources::{PodInfo, PodTemplate, Sandbox};

use crate::{Change, Seen};

/// The texts that are kept once.
#[derive(Default)]
pub struct Sharing {
    templates: BTreeMap<PodTemplate, usize>,
    namespaces: BTreeMap<Arc<str>, usize>,
}

impl Sharing {
    /// Puts the kept texts in the place of equal ones.
    pub(crate) fn share(&self, seen: &mut Seen<Sandbox>) {
        if let Some((kept, _)) = self.namespaces.get_key_value(&*seen.key.namespace) {
            seen.key.namespace = Arc::clone(kept);
        }
        if let Some(template) = &mut seen.object.spec.template
            && let Some((kept, _)) = self.templates.get_key_value(template)
        {
            *template = kept.clone();
        }
    }

    /// Counts the texts of what is new, and forgets those of what is old.
    pub(crate) fn changed(&mut self, change: &Change<Sandbox>) {
        if let Some(seen) = &change.after {
            *self.namespaces.entry(Arc::clone(&seen.key.namespace)).or_default() += 1;
            if let Some(template) = &seen.spec.template {
                *self.templates.entry(template.clone()).or_default() += 1;
            }
        }
        if let Some(seen) = &change.before {
            forget(&mut self.namespaces, &seen.key.namespace);
            if let Some(template) = &seen.spec.template {
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

fn forget<K: Ord>(counts: &mut BTreeMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

/// Drops what nobody here reads, and the spare room of what was decoded. Writes are patches, so nothing is
/// lost in the cluster.
pub(crate) fn trim(sandbox: &mut Sandbox) {
    let metadata = &mut sandbox.metadata;
    metadata.managed_fields = None;
    metadata.self_link = None;
    metadata.generate_name = None;
    if let Some(annotations) = &mut metadata.annotations {
        annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
        annotations.remove(names::ANNOTATION_HASH_IMMUTABLE_PART);
    }
    if let Some(owners) = &mut metadata.owner_references {
        owners.shrink_to_fit();
    }
    if let Some(finalizers) = &mut metadata.finalizers {
        finalizers.shrink_to_fit();
    }
    sandbox.spec.persistent_contents.shrink_to_fit();
    sandbox.spec.runtimes.shrink_to_fit();
    sandbox.spec.volume_claim_templates.shrink_to_fit();
    sandbox.spec.probes.shrink_to_fit();
    if let Some(status) = &mut sandbox.status {
        status.conditions.shrink_to_fit();
        status.schedules.shrink_to_fit();
        (status.node_name, status.sandbox_ip, status.update_revision) = (None, None, None);
        if let Some(pod) = status.pod_info.take() {
            status.pod_info = Some(PodInfo { pod_ip: pod.pod_ip, ..PodInfo::default() });
        }
    }
}
