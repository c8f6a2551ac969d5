//! Bringing pods back into their pool.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use sandgate_objects::opensandbox::resources::BatchSandbox;
use tokio::time::{Instant, timeout_at};

use super::super::PoolReconciler;
use super::super::exec::ExecError;
use super::super::metrics::Outcome;
use super::super::observe::Observed;
use super::super::pod;
use super::super::recycle::{Delete, Recycler, Step};
use super::Applied;
use super::turn::wants_deletion;
use crate::view::{PoolPod, Seen};
use crate::writes::{Merge, Only};

/// When to look again at a pod in which a command is under way.
const COMMANDS_AGAIN: SignedDuration = SignedDuration::from_secs(1);

/// How far a pod is on its way back.
pub(super) enum Recycled {
    /// It is ending.
    Ended,
    /// It is as it has to be.
    Kept(Arc<Seen<PoolPod>>),
    /// It is somebody else's.
    NotOurs,
    /// Something has to happen first. If nothing does, it is looked at again then.
    Waits(Option<Timestamp>),
}

impl PoolReconciler {
    /// Takes the next step with a pod that comes back from a batch; from none, if the batch is gone.
    pub(super) async fn recycle(
        &self,
        observed: &Observed,
        batch: Option<&Arc<Seen<BatchSandbox>>>,
        pod: &Arc<Seen<PoolPod>>,
    ) -> Result<Recycled, Applied> {
        let of_pool = &*observed.strategies.recycler;
        // Of a batch that is gone nobody knows whether it left a task in the pod.
        let recycler: &dyn Recycler = match batch.is_none_or(|batch| wants_deletion(batch, &pod.key.name)) {
            true => &Delete,
            false => of_pool,
        };
        let mark = pod.allocated_to.as_deref().unwrap_or_default();
        let name = mark.split_once('/').map_or(mark, |(_, name)| name);
        let name = batch.map_or(name, |batch| &*batch.key.name);
        let has_record = pod.restart_record.is_some();
        match recycler.next(pod, name, observed.now) {
            Step::Over if pod.is_deleting => Ok(Recycled::Ended),
            // A command that is still on its way would end a container of the next batch.
            Step::Over | Step::Restart { .. } if self.commands.are_under_way(&pod.uid) => {
                Ok(Recycled::Waits(observed.now.checked_add(COMMANDS_AGAIN).ok()))
            }
            Step::Over => Ok(Recycled::Kept(Arc::clone(pod))),
            Step::Delete => {
                let _permit = self.recycling.acquire().await;
                let seen = (&pod.key, &pod.uid, &pod.version);
                match self.writes.delete::<PoolPod>(seen, Only::ThisVersion, None).await {
                    Ok(()) => {
                        self.metrics.recycled(if has_record { Outcome::GivenUp } else { Outcome::Deleted });
                        Ok(Recycled::Ended)
                    }
                    Err(error) => Err(self.after(pod, error).await),
                }
            }
            Step::Restart { record, containers, until } => {
                let written = {
                    let _permit = self.recycling.acquire().await;
                    self.writes.patch(pod, pod::record(&record), Merge::Plain, None).await
                };
                match written {
                    Ok(pod) => {
                        let patience = until.duration_since(observed.now).unsigned_abs();
                        self.restart(&pod, containers, recycler.command(), patience);
                        match recycler.next(&pod, name, observed.now) {
                            Step::Wait(again) => Ok(Recycled::Waits(again)),
                            _ => Ok(Recycled::Waits(Some(observed.now))),
                        }
                    }
                    Err(error) => Err(self.after(pod, error).await),
                }
            }
            Step::Wait(again) => Ok(Recycled::Waits(again)),
        }
    }

    /// Runs the command in the containers, beside everything else: it may take as long as ten seconds, and
    /// what becomes of it shows in the pod. Whatever has not begun or ended when the next try is due is given
    /// up.
    fn restart(
        &self,
        pod: &Arc<Seen<PoolPod>>,
        containers: Vec<Arc<str>>,
        command: &[String],
        patience: Duration,
    ) {
        let deadline = Instant::now() + patience;
        let mut tasks = self.restarts.lock();
        while tasks.try_join_next().is_some() {}
        for container in containers {
            let (exec, restarting) = (Arc::clone(&self.exec), Arc::clone(&self.restarting));
            let (pod, command, writes) = (Arc::clone(pod), command.to_vec(), self.writes.clone());
            let under_way = self.commands.begin(&pod.uid);
            tasks.spawn(async move {
                let _under_way = under_way;
                let run = async {
                    let _permit = restarting.acquire().await;
                    // It may have waited for long. Somebody else may lead by now, and have freed the pod.
                    match writes.read::<PoolPod>(&pod.key).await {
                        Ok(Some(now)) if is_same_try(&now, &pod) => {
                            exec.run(&pod.key, &container, &command).await
                        }
                        Ok(_) => Err(ExecError::Outdated),
                        Err(error) => Err(error.into()),
                    }
                };
                let done = timeout_at(deadline, run).await;
                if let Err(error) = done.unwrap_or(Err(ExecError::TimedOut(patience))) {
                    tracing::debug!("{}: the restart of {container} was answered with: {error}", pod.key);
                }
            });
        }
    }
}

/// Whether a pod is still in the try to restart it that it was in before.
fn is_same_try(now: &Seen<PoolPod>, before: &Seen<PoolPod>) -> bool {
    now.uid == before.uid
        && !now.is_deleting
        && now.restart_record == before.restart_record
        && now.allocated_to == before.allocated_to
}

/// How many commands are under way in each pod, by its UID: those that wait for their turn among them.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Commands(Arc<Mutex<BTreeMap<Arc<str>, usize>>>);

/// A command that is under way until this is dropped.
struct UnderWay {
    commands: Commands,
    pod: Arc<str>,
}

impl Commands {
    fn begin(&self, pod: &Arc<str>) -> UnderWay {
        *self.0.lock().entry(Arc::clone(pod)).or_default() += 1;
        UnderWay { commands: self.clone(), pod: Arc::clone(pod) }
    }

    fn are_under_way(&self, pod: &str) -> bool {
        self.0.lock().contains_key(pod)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut all = self.commands.0.lock();
        let left = all.get(&self.pod).map_or(0, |count| count.saturating_sub(1));
        match left {
            0 => drop(all.remove(&self.pod)),
            left => drop(all.insert(Arc::clone(&self.pod), left)),
        }
    }
}
