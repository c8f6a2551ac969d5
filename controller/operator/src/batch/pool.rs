//! How a batch comes to a pool that it does not name, and how it leaves one.

use sandgate_objects::opensandbox::names;
use sandgate_objects::opensandbox::resources::{Pool, SandboxSnapshot};
use serde_json::{Value, json};

use super::BatchSandboxReconciler;
use super::observe::Observed;
use super::pause::{template_of, unpooled};
use super::plan::{Settle, Turn};
use crate::assign::{CONFIG_MAP, PROFILES, PoolOffer, SandboxNeeds, choose, profile};
use crate::view::{Seen, mark_of, pool_of};
use crate::writes::{Merge, WriteError};
use crate::{Again, Category, Failed, Key};

/// Where ConfigMaps are.
const CONFIG_MAPS: (&str, &str) = ("ConfigMap", "configmaps");
/// Where pods are.
pub(super) const PODS: (&str, &str) = ("Pod", "pods");

impl BatchSandboxReconciler {
    /// Chooses a pool and writes it down. The profiles are read anew each time: it is done once in the life
    /// of a batch.
    pub(super) async fn assign(&self, observed: &Observed, name: &str) -> Result<Again, Failed> {
        let batch = &observed.batch;
        let key = Key::new(&self.settings.own_namespace, CONFIG_MAP);
        let profiles = self.writes.get_json(CONFIG_MAPS, &key).await?;
        let text = profiles.as_ref().and_then(|map| map["data"][PROFILES].as_str());
        let (profile, complaints) = profile(text, name);
        for complaint in complaints {
            tracing::warn!("the ConfigMap {key}: {complaint}");
        }
        let pools = self.view.pools_in(&batch.key.namespace);
        let living = pools.iter().filter(|pool| pool.metadata.deletion_timestamp.is_none());
        let templated: Vec<_> = living
            .map(|pool| (pool, pool.spec.template.as_ref().and_then(|template| template.parse().ok())))
            .collect();
        let offers: Vec<_> =
            templated.iter().map(|(pool, template)| offer(pool, template.as_ref())).collect();
        let template = batch.spec.template.as_ref().and_then(|template| template.parse().ok());
        let needs = SandboxNeeds {
            labels: batch.metadata.labels.as_ref(),
            template: template.as_ref(),
            replicas: batch.spec.replicas.unwrap_or(1),
        };
        match choose(&profile, &needs, &offers) {
            Ok(pool) => {
                let patch = json!({"spec": {"poolRef": pool}});
                self.writes.patch(batch, patch, Merge::Plain, None).await?;
                Ok(Again::Rarely)
            }
            // A pool that is new, has another spec or other labels, or comes to have room wakes it.
            Err(none) => Err(Failed { category: Category::Invalid, message: none.to_string(), source: None }),
        }
    }

    /// Gives a batch that is being paused the template of its pod, and the pod back to the pool.
    pub(super) async fn unpool(
        &self,
        observed: &Observed,
        snapshot: &Seen<SandboxSnapshot>,
    ) -> Result<Again, Failed> {
        match self.source_template(observed, snapshot).await? {
            Some(template) => {
                let patch = unpooled(observed, &template);
                self.writes.patch(&observed.batch, patch, Merge::Plain, None).await?;
                Ok(Again::Rarely)
            }
            None => {
                let message = "the pod of the snapshot is gone, and so is its pool: there is no template to \
                               resume with";
                self.settle(observed, Settle::new(Turn::PauseFailed(message.to_owned()))).await
            }
        }
    }

    /// The template that the batch goes on with: of the pod that the snapshot was made of; if that is gone by
    /// now, of its pool.
    async fn source_template(
        &self,
        observed: &Observed,
        snapshot: &Seen<SandboxSnapshot>,
    ) -> Result<Option<Value>, WriteError> {
        let batch = &observed.batch;
        let source = snapshot.status.as_ref().and_then(|status| status.source_pod_name.as_deref());
        let source = source.or_else(|| observed.slots.pods.first().map(|name| &**name));
        if let Some(name) = source {
            let pod = self.writes.get_json(PODS, &Key::new(&batch.key.namespace, name)).await?;
            let mark = mark_of(batch);
            let is_ours = |pod: &Value| {
                let marked = pod["metadata"]["annotations"][names::ANNOTATION_ALLOCATED_TO].as_str();
                marked.unwrap_or_default().is_empty() || marked == Some(&mark)
            };
            if let Some(pod) = pod.filter(is_ours) {
                return Ok(Some(template_of(&pod)));
            }
        }
        let Some(pool) = pool_of(batch) else { return Ok(None) };
        let pool = self.writes.read::<Pool>(&Key::new(&batch.key.namespace, pool)).await?;
        Ok(pool.and_then(|pool| pool.spec.template.as_ref()?.parse().ok()))
    }
}

fn offer<'a>(pool: &'a Seen<Pool>, template: Option<&'a Value>) -> PoolOffer<'a> {
    let status = pool.status.as_ref();
    PoolOffer {
        name: &pool.key.name,
        labels: pool.metadata.labels.as_ref(),
        template,
        most: pool.spec.capacity_spec.pool_max,
        total: status.map_or(0, |status| status.total),
        allocated: status.map_or(0, |status| status.allocated),
    }
}
