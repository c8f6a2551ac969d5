//! Takes the segments of clusters out that are not there any more.
//!
//! Nothing is taken out where it is not known which clusters there are. The own segment and one without a
//! cluster always stay.

use std::collections::BTreeSet;

use sandgate_objects::sandbox_env::resources::{SandboxEnvSpec, SandboxEnvStatus};

/// Knows which clusters there are.
pub trait Catalog: Send + Sync + 'static {
    /// The clusters; none if it is not known, or not for the moment.
    fn clusters(&self) -> Option<BTreeSet<String>>;
}

/// Clusters that were named in an option. Without a name nothing is known.
#[derive(Clone, Debug, Default)]
pub struct ListedClusters(pub BTreeSet<String>);

impl Catalog for ListedClusters {
    fn clusters(&self) -> Option<BTreeSet<String>> {
        Some(self.0.clone()).filter(|clusters| !clusters.is_empty())
    }
}

/// What stays of a spec and a status, and the clusters whose segments do not.
pub(super) fn prune(
    spec: &SandboxEnvSpec,
    status: Option<&SandboxEnvStatus>,
    local: &str,
    known: Option<&BTreeSet<String>>,
) -> Option<(SandboxEnvSpec, Option<SandboxEnvStatus>, BTreeSet<String>)> {
    let known = known.filter(|known| !known.is_empty())?;
    let is_gone = |cluster: &str| !cluster.is_empty() && cluster != local && !known.contains(cluster);
    let (mut spec, mut status, mut gone) = (spec.clone(), status.cloned(), BTreeSet::new());
    spec.clusters.retain(|segment| stays(&segment.cluster_id, is_gone, &mut gone));
    if let Some(status) = &mut status {
        status.clusters.retain(|observed| stays(&observed.cluster_id, is_gone, &mut gone));
    }
    (!gone.is_empty()).then_some((spec, status, gone))
}

fn stays(cluster: &str, is_gone: impl Fn(&str) -> bool, gone: &mut BTreeSet<String>) -> bool {
    let is_gone = is_gone(cluster);
    if is_gone {
        gone.insert(cluster.to_owned());
    }
    !is_gone
}
