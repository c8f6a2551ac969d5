//! Does what a plan for a snapshot says.
//!
//! A look may end after any of its writes. What the Job keeps is written down before the Job is created, so
//! whoever finds the Job knows what is in it.

use std::collections::BTreeMap;
use std::sync::Arc;

use sandgate_objects::opensandbox::names;
use sandgate_objects::opensandbox::resources::{BatchSandbox, Pool, SandboxSnapshot};
use serde_json::{Value, json};

use super::job::{CONTAINER, CommitWork};
use super::observe::{JobOf, Observed, commit_job};
use super::plan::{IN_THE_WAY, Plan};
use super::source::{batch_uid, candidates, images, index_of, is_source, kept_containers};
use super::status::Draft;
use super::{Reconciler as _, SandboxSnapshotReconciler};
use crate::batch::patched_template;
use crate::events::EventKind;
use crate::merge::merge_patch;
use crate::pool::revision_of;
use crate::reference::reference;
use crate::view::{JobFacts, Seen, Slots, pool_of};
use crate::writes::{Merge, Only, WriteError};
use crate::{Again, Failed, Key};

/// Where pods are.
const PODS: (&str, &str) = ("Pod", "pods");

/// What a snapshot is made of.
struct Source {
    pod: String,
    node: String,
    containers: Vec<sandgate_objects::opensandbox::resources::ContainerSnapshot>,
}

/// Why there is nothing to make a snapshot of.
struct NoSource {
    reason: &'static str,
    message: String,
}

impl SandboxSnapshotReconciler {
    pub(super) async fn apply(&self, observed: &Observed, plan: Plan) -> Result<Again, Failed> {
        let snapshot = &observed.snapshot;
        match plan {
            Plan::Rest(again) => Ok(again),
            // The answer is a change that is looked at next.
            Plan::Patch(patch) => {
                self.writes.patch(snapshot, patch, Merge::Plain, None).await?;
                Ok(Again::Rarely)
            }
            Plan::CleanUp { jobs, finalizers } => {
                for job in jobs {
                    self.delete_job(&job).await?;
                }
                if let Some(finalizers) = finalizers {
                    let patch = json!({"metadata": {"finalizers": finalizers}});
                    self.writes.patch(snapshot, patch, Merge::Plain, None).await?;
                }
                Ok(Again::Rarely)
            }
            Plan::Begin => self.begin(observed).await,
            Plan::Commits => {
                self.write_status(snapshot, Draft::of(snapshot, observed.now).commits()).await?;
                Ok(Again::Rarely)
            }
            Plan::Confirm => match self.writes.read::<JobFacts>(&commit_job(&snapshot.key)).await? {
                // The view had not seen it yet, and knows it now.
                Some(_) => Ok(Again::Rarely),
                None if self.registry.is_none() => self.fail_without_registry(observed).await,
                None => self.begin(observed).await,
            },
            Plan::Clear(job) => {
                self.delete_job(&job).await?;
                Ok(Again::After(IN_THE_WAY))
            }
            Plan::Finish(job) => {
                let digests = self.digests(&job).await?;
                self.write_status(snapshot, Draft::of(snapshot, observed.now).made(&digests)).await?;
                Ok(Again::Rarely)
            }
            Plan::Lose(message) => {
                // A snapshot that has failed is not looked at again.
                if matches!(self.unpause(observed).await?, Created::InTheWay) {
                    return Ok(Again::After(IN_THE_WAY));
                }
                self.fail(observed, names::REASON_COMMIT_JOB_FAILED, &message).await
            }
            Plan::NoRegistry => self.fail_without_registry(observed).await,
        }
    }

    async fn fail_without_registry(&self, observed: &Observed) -> Result<Again, Failed> {
        let message = "the operator was started without --snapshot-registry";
        self.fail(observed, names::REASON_REGISTRY_NOT_CONFIGURED, message).await
    }

    async fn fail(&self, observed: &Observed, reason: &'static str, message: &str) -> Result<Again, Failed> {
        let snapshot = &observed.snapshot;
        self.write_status(snapshot, Draft::of(snapshot, observed.now).failed(reason, message)).await?;
        let on = reference(names::API_VERSION, "SandboxSnapshot", &snapshot.key, &snapshot.uid);
        self.events.publish(&on, EventKind::Warning, reason, "Snapshot", message.to_owned());
        tracing::warn!("{}: {}: {reason}: {message}", Self::NAME, snapshot.key);
        Ok(Again::Rarely)
    }

    async fn begin(&self, observed: &Observed) -> Result<Again, Failed> {
        let snapshot = &observed.snapshot;
        let source = match self.source(snapshot).await? {
            Ok(source) => source,
            Err(NoSource { reason, message }) => return self.fail(observed, reason, &message).await,
        };
        let Source { pod, node, containers } = source;
        let draft = Draft::of(snapshot, observed.now).resolved(&pod, &node, containers.clone());
        let snapshot = self.write_status(snapshot, draft).await?;
        let work = CommitWork { snapshot: &snapshot, pod: &pod, node: &node, containers: &containers };
        let job = self.committer.commit(work);
        match self.create_job(&snapshot, &job).await? {
            Created::Done => {}
            Created::InTheWay => return Ok(Again::After(IN_THE_WAY)),
            Created::Refused(message) => {
                return self.fail(observed, names::REASON_COMMIT_JOB_FAILED, &message).await;
            }
        }
        self.write_status(&snapshot, Draft::of(&snapshot, observed.now).commits()).await?;
        Ok(Again::Rarely)
    }

    /// Lets the containers go on that a commit has stopped.
    async fn unpause(&self, observed: &Observed) -> Result<Created, WriteError> {
        let snapshot = &observed.snapshot;
        let Some(status) = &snapshot.status else { return Ok(Created::Done) };
        let (Some(pod), Some(node)) = (&status.source_pod_name, &status.source_node_name) else {
            return Ok(Created::Done);
        };
        if status.containers.is_empty() || matches!(observed.unpause, JobOf::Own(_)) {
            return Ok(Created::Done);
        }
        let job = self.committer.unpause(CommitWork { snapshot, pod, node, containers: &status.containers });
        self.create_job(snapshot, &job).await
    }

    async fn create_job(
        &self,
        snapshot: &Arc<Seen<SandboxSnapshot>>,
        job: &Value,
    ) -> Result<Created, WriteError> {
        let namespace = &snapshot.key.namespace;
        match self.writes.create::<JobFacts>(namespace, job).await {
            Ok(_) => Ok(Created::Done),
            // An earlier answer may have been lost; or a Job of an earlier snapshot of the name is there.
            Err(WriteError::AlreadyExists(_)) => {
                let name = job["metadata"]["name"].as_str().unwrap_or_default();
                let found = self.writes.read::<JobFacts>(&Key::new(namespace, name)).await?;
                match JobOf::of(found, snapshot) {
                    JobOf::Own(job) if !job.is_deleting => return Ok(Created::Done),
                    JobOf::Other(job) if !job.is_deleting => self.delete_job(&job).await?,
                    JobOf::Own(_) | JobOf::Other(_) | JobOf::None => {}
                }
                Ok(Created::InTheWay)
            }
            // The Job itself is wrong: to try again does not help.
            Err(WriteError::Refused { code: 422, message }) => Ok(Created::Refused(message)),
            Err(error) => Err(error),
        }
    }

    async fn delete_job(&self, job: &Arc<Seen<JobFacts>>) -> Result<(), WriteError> {
        let seen = (&job.key, &job.uid, &job.version);
        self.writes.delete::<JobFacts>(seen, Only::ThisUid, None).await
    }

    /// Finds the pod. Everything is read from the API server itself: a snapshot of another's pod would be
    /// worse than one that comes a moment later.
    async fn source(&self, snapshot: &Seen<SandboxSnapshot>) -> Result<Result<Source, NoSource>, WriteError> {
        let namespace = &snapshot.key.namespace;
        let none = |reason, message: String| Ok(Err(NoSource { reason, message }));
        let lookup = names::REASON_BATCH_SANDBOX_LOOKUP_FAILED;
        let key = Key::new(namespace, &snapshot.spec.sandbox_name);
        let Some(batch) = self.writes.read::<BatchSandbox>(&key).await? else {
            return none(lookup, format!("there is no BatchSandbox {}", key.name));
        };
        if batch_uid(snapshot).is_some_and(|uid| *uid != *batch.uid) {
            return none(lookup, format!("the BatchSandbox {} is another one by now", key.name));
        }
        let slots = match Slots::of(&batch) {
            Ok(slots) => slots,
            Err(malformed) => return none(lookup, malformed.to_string()),
        };
        let own = if pool_of(&batch).is_none() { self.view.batch_pods(&batch) } else { Ok(Vec::new()) };
        for name in candidates(&batch, &slots, &own.unwrap_or_default()) {
            let Some(pod) = self.writes.get_json(PODS, &Key::new(namespace, &name)).await? else { continue };
            if !is_source(&batch, &slots, &pod) {
                continue;
            }
            let template = self.template(&batch, &pod).await?;
            let containers = kept_containers(template.as_ref(), &pod);
            let registry = self.registry.as_deref().unwrap_or_default();
            return Ok(Ok(Source {
                pod: name,
                node: pod["spec"]["nodeName"].as_str().unwrap_or_default().to_owned(),
                containers: images(registry, &batch, snapshot, containers),
            }));
        }
        let message = format!("no pod of the BatchSandbox {} runs", key.name);
        none(names::REASON_SOURCE_POD_NOT_FOUND, message)
    }

    /// What this pod of the batch was made from, as far as that is known. A pool may have another template by
    /// now, which says nothing of the pod.
    async fn template(&self, batch: &Seen<BatchSandbox>, pod: &Value) -> Result<Option<Value>, WriteError> {
        let Some(pool) = pool_of(batch) else {
            let Some(template) = batch.spec.template.as_ref().and_then(|it| it.parse().ok()) else {
                return Ok(None);
            };
            let own = patched_template(batch, &template, index_of(pod));
            return Ok(Some(own.unwrap_or(template)));
        };
        let pool = self.writes.read::<Pool>(&Key::new(&batch.key.namespace, pool)).await?;
        let made_from = &pod["metadata"]["labels"][names::LABEL_POOL_REVISION];
        let pool = pool.filter(|pool| *made_from == *revision_of(&pool.spec));
        Ok(pool.and_then(|pool| pool.spec.template.as_ref()?.parse().ok()))
    }

    /// What the Job has said, by container.
    async fn digests(&self, job: &Seen<JobFacts>) -> Result<BTreeMap<String, String>, WriteError> {
        let labels = format!("job-name={}", job.key.name);
        let pods = self.writes.list_json(PODS, &job.key.namespace, &labels).await?;
        let is_of_job = |pod: &&Value| {
            let mut owners = pod["metadata"]["ownerReferences"].as_array().into_iter().flatten();
            owners.any(|owner| owner["uid"] == *job.uid)
        };
        let said = |pod: &Value| {
            let statuses = pod["status"]["containerStatuses"].as_array()?;
            let status = statuses.iter().find(|status| status["name"] == CONTAINER)?;
            let ended = &status["state"]["terminated"];
            let message = (ended["exitCode"] == 0).then(|| ended["message"].as_str()).flatten()?;
            Some(self.committer.digests(message))
        };
        Ok(pods.iter().filter(is_of_job).find_map(said).unwrap_or_default())
    }

    /// Writes the status if it changed. Returns the snapshot as it is then.
    async fn write_status(
        &self,
        snapshot: &Arc<Seen<SandboxSnapshot>>,
        draft: Draft,
    ) -> Result<Arc<Seen<SandboxSnapshot>>, WriteError> {
        let json = |status| serde_json::to_value(status).unwrap_or(Value::Null);
        let known = snapshot.status.as_ref().map_or(Value::Null, json);
        match merge_patch(&known, &json(&draft.status)) {
            None => Ok(Arc::clone(snapshot)),
            Some(patch) => {
                let patch = json!({"status": patch});
                self.writes.patch(snapshot, patch, Merge::Plain, Some("status")).await
            }
        }
    }
}

/// What became of a Job that was asked for.
enum Created {
    /// It is there.
    Done,
    /// One of an earlier snapshot was, or still is, and is being deleted.
    InTheWay,
    /// The API server does not take it.
    Refused(String),
}
