//! Which objects are followed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use sandgate_follow::{Api, Target};
use sandgate_objects::openkruise::resources::{Checkpoint, SandboxFacts, SandboxSet, SandboxTemplate};
use sandgate_objects::sandbox_env::resources::{EnvPod, SandboxEnv, SandboxPool};

use super::super::{Kept, Kind, for_kind};
use super::Followed;
use crate::selector::Selector;
use crate::{ConfigMapFacts, PvcFacts, SecretFacts, Seen};

/// Called before each follower is started; an error is the error of the start.
pub(crate) type BeforeStart = Arc<dyn Fn(Kind) -> Result<(), String> + Send + Sync>;

/// What a cache was built from.
pub(crate) struct Parts {
    pub(crate) api: Option<Arc<Api>>,
    pub(crate) client: Option<Client>,
    pub(crate) namespace: Option<String>,
    pub(crate) selector: Selector,
    pub(crate) system_namespace: Option<String>,
    pub(crate) system_selector: Selector,
    pub(crate) without: BTreeSet<Kind>,
    pub(crate) environments: bool,
    pub(crate) start: Duration,
    pub(crate) absent: Duration,
    pub(crate) before_start: Option<BeforeStart>,
}

impl Parts {
    /// The kinds that are followed.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = Kind> {
        Kind::ALL.into_iter().filter(|kind| self.is_followed(*kind))
    }

    fn is_followed(&self, kind: Kind) -> bool {
        let is_wanted = match kind {
            Kind::Secret | Kind::ConfigMap => self.system_namespace.is_some(),
            Kind::SandboxEnv | Kind::SandboxPool | Kind::EnvPod => self.environments,
            _ => true,
        };
        is_wanted && !self.without.contains(&kind)
    }

    /// Namespace and selector of a kind. What belongs to a sandbox or a set does not have its labels: the
    /// manager makes a checkpoint and its template without them, and others make claims and templates.
    fn filter(&self, kind: Kind) -> (Option<&str>, Option<&Selector>) {
        match kind {
            Kind::Secret | Kind::ConfigMap => (self.system_namespace.as_deref(), Some(&self.system_selector)),
            Kind::Checkpoint | Kind::SandboxTemplate | Kind::Pvc => (self.namespace.as_deref(), None),
            Kind::SandboxEnv | Kind::SandboxPool | Kind::EnvPod => (self.namespace.as_deref(), None),
            Kind::Sandbox | Kind::SandboxSet => (self.namespace.as_deref(), Some(&self.selector)),
        }
    }

    pub(crate) fn target<T: Kept>(&self) -> Target {
        let (namespace, selector) = self.filter(T::IS);
        let selector = selector.map_or(T::SELECTOR, Selector::text).to_owned();
        Target { selector, ..T::target(namespace) }
    }

    pub(crate) fn selects<T: Kept>(&self, seen: &Seen<T>) -> bool {
        let (namespace, selector) = self.filter(T::IS);
        self.is_followed(T::IS)
            && namespace.is_none_or(|namespace| *seen.key.namespace == *namespace)
            && selector.is_none_or(|selector| selector.selects(|name| seen.object.label(name)))
    }

    pub(crate) fn followed(&self) -> Vec<Followed> {
        fn followed<T: Kept>(parts: &Parts) -> Followed {
            let target = parts.target::<T>();
            Followed {
                resource: match target.group.as_str() {
                    "" => target.plural,
                    group => format!("{}.{group}", target.plural),
                },
                namespace: target.namespace,
                status: Arc::default(),
            }
        }
        self.kinds().map(|kind| for_kind!(kind, followed(self))).collect()
    }
}
