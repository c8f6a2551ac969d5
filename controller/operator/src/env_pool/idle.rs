//! Sandboxes that nobody uses are released.
//!
//! # What is known
//! A sandbox was used when the newest of these says so: its annotation, its start, its pod's creation, what a
//! gateway saw of it, and the time from which on each gateway misses nothing. While a request is in flight it
//! is used now. A gateway that does not answer may have seen what nobody else has: then the round is left out
//! and nobody is released. Without any gateway, what stands in the pod is all there is.
//!
//! # Protocol
//! 1. The gateways are asked, then each sandbox is judged by the view.
//! 2. A release has the version of the pod that it was judged by. A use that is written meanwhile wins. One
//!    that is not, such as a request that comes between the answer of the gateway and the release, does not:
//!    its client finds a sandbox that has just ended.
//! 3. What the gateways know is written into the annotation, once a minute at most, so that gateways that
//!    start anew do not make a sandbox forgotten.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream;
use jiff::{SignedDuration, Timestamp};
use sandgate_envs::change::{Stop, written};
use sandgate_objects::sandbox_env::names;
use sandgate_objects::sandbox_env::resources::{EnvPod, SandboxPool};
use serde_json::{Value, json};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::chore::{after, release_patch};
use super::{EnvPoolMetrics, is_ours};
use crate::view::{EnvPodClass, Seen, View};
use crate::writes::{Merge, WriteError, Writes};
use crate::{Clock, Random};

/// How often sandboxes are looked at, give or take a fifth.
const PERIOD: Duration = Duration::from_secs(10);
/// How often the last use of a sandbox is written.
const WRITTEN_EVERY: SignedDuration = SignedDuration::from_secs(60);
/// How many sandboxes are written at a time.
const AT_A_TIME: usize = 16;

/// The failure of a sandbox that nobody used.
const IDLE_TIMEOUT: &str = "IdleTimeout";

/// What one gateway has seen. Its times are those of this process's clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GatewayActivity {
    /// From when on it misses nothing.
    pub complete_since: Timestamp,
    /// When each sandbox was last used, by its ID, and whether a request is in flight.
    pub sandboxes: BTreeMap<String, (Timestamp, bool)>,
}

/// Why it is not known what gateways have seen.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unreachable(pub String);

/// Asks gateways which sandboxes were used.
pub trait Activity: Send + Sync + 'static {
    /// What each of the gateways has seen since this time. There is at least one.
    fn last_active(&self, since: Timestamp) -> BoxFuture<'_, Result<Vec<GatewayActivity>, Unreachable>>;
}

/// The task that releases sandboxes.
pub struct IdleRelease {
    view: View,
    writes: Writes,
    clock: Arc<dyn Clock>,
    random: Random,
    activity: Option<Arc<dyn Activity>>,
    metrics: EnvPoolMetrics,
    /// Whether the last round was skipped.
    is_blind: bool,
}

/// What is done with a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Judgement {
    /// Nothing.
    Leave,
    /// It was used then, and that is written.
    Touch(Timestamp),
    /// It was not used for so long, and is released.
    Release(SignedDuration),
}

/// The silence after which a sandbox is released; none is never.
fn timeout(pod: &EnvPod, pool: &SandboxPool) -> Option<Duration> {
    let own = pod.annotation(names::ANNOTATION_IDLE_TIMEOUT).parse().ok().map(Duration::from_secs);
    own.or(pool.spec.idle_timeout()).filter(|timeout| !timeout.is_zero())
}

fn judge(pod: &EnvPod, pool: &SandboxPool, gateways: &[GatewayActivity], now: Timestamp) -> Judgement {
    let noted = pod.time(names::ANNOTATION_LAST_ACTIVE);
    let of_gateway = |gateway: &GatewayActivity| match gateway.sandboxes.get(pod.sandbox_id()) {
        Some((_, true)) => Some(now),
        Some((at, false)) => Some((*at).min(now)),
        None => None,
    };
    let used = gateways.iter().filter_map(of_gateway).max();
    let Some(timeout) = timeout(pod, pool) else { return touch(noted, used) };
    let known_since = gateways.iter().map(|gateway| gateway.complete_since).max();
    let started = pod.time(names::ANNOTATION_STARTED_AT);
    let last = [noted, used, known_since, started].into_iter().flatten().fold(pod.created(), Timestamp::max);
    match after(last, timeout) {
        Some(until) if until < now => Judgement::Release(now.duration_since(last)),
        _ => touch(noted, used),
    }
}

fn touch(noted: Option<Timestamp>, used: Option<Timestamp>) -> Judgement {
    match used {
        Some(used) if noted.is_none_or(|noted| used.duration_since(noted) >= WRITTEN_EVERY) => {
            Judgement::Touch(used)
        }
        _ => Judgement::Leave,
    }
}

impl IdleRelease {
    /// The task. Without gateways to ask, what stands in the pods is all that it goes by.
    pub fn new(
        view: View,
        writes: Writes,
        clock: Arc<dyn Clock>,
        random: Random,
        activity: Option<Arc<dyn Activity>>,
        metrics: EnvPoolMetrics,
    ) -> Self {
        Self { view, writes, clock, random, activity, metrics, is_blind: false }
    }

    /// Looks every ten seconds, until `stop`.
    pub async fn run(mut self, stop: CancellationToken) {
        loop {
            let tenth = PERIOD / 10;
            let drawn = u32::try_from(self.random.number() % 401).unwrap_or_default();
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = sleep(PERIOD - tenth * 2 + tenth * drawn / 100) => {}
            }
            if self.writes.leadership().term().is_some() {
                tokio::select! {
                    biased;
                    () = stop.cancelled() => return,
                    () = self.round() => {}
                }
            }
        }
    }

    /// Looks once.
    pub(super) async fn round(&mut self) {
        let pools = self.view.all_env_pools();
        let running = pools.iter().flat_map(|pool| {
            let pods = self.view.env_pods_that(&pool.key, EnvPodClass::Running, usize::MAX, |pod| {
                is_ours(pod, pool) && !pod.sandbox_id().is_empty()
            });
            pods.into_iter().map(move |pod| (pool, pod))
        });
        let running: Vec<_> = running.collect();
        if running.is_empty() {
            return;
        }
        let gateways = match &self.activity {
            None => Vec::new(),
            Some(activity) => {
                let since = running.iter().map(|(_, pod)| used_before(pod)).min().unwrap_or_default();
                match activity.last_active(since).await {
                    Ok(gateways) if !gateways.is_empty() => gateways,
                    Ok(_) => return self.skipped("no gateway was found"),
                    Err(error) => return self.skipped(&error.to_string()),
                }
            }
        };
        if std::mem::take(&mut self.is_blind) {
            tracing::info!("the gateways say again which sandboxes are used");
        }
        let now = self.clock.now();
        let judged = running.into_iter().map(|(pool, pod)| {
            let judgement = judge(&pod, pool, &gateways, now);
            (pool, pod, judgement)
        });
        let due: Vec<_> = judged.filter(|(_, _, judgement)| *judgement != Judgement::Leave).collect();
        let writes = due.iter().map(|(pool, pod, judgement)| self.act(pool, pod, *judgement, now));
        let writes: Vec<_> = writes.collect();
        stream::iter(writes).buffer_unordered(AT_A_TIME).collect::<()>().await;
        self.metrics.round("done");
    }

    fn skipped(&mut self, why: &str) {
        self.metrics.round("skipped");
        // One line for a row of failures.
        if !std::mem::replace(&mut self.is_blind, true) {
            tracing::warn!("no sandbox is released for not being used: {why}");
        }
    }

    async fn act(&self, pool: &SandboxPool, pod: &Arc<Seen<EnvPod>>, judgement: Judgement, now: Timestamp) {
        let (patch, merge) = match judgement {
            Judgement::Leave => return,
            Judgement::Touch(at) => (touched(at), Merge::Plain),
            Judgement::Release(quiet) => {
                let stop = Stop {
                    reason: names::STOP_RELEASED,
                    failure: Some(IDLE_TIMEOUT.to_owned()),
                    message: format!("nobody used it for {} s", quiet.as_secs()),
                    end: None,
                };
                let Some(patch) = release_patch(pod, &pool.spec, &stop, now) else { return };
                (patch, Merge::Strategic)
            }
        };
        match self.writes.patch(&**pod, patch, merge, None).await {
            // It is judged anew in the next round.
            Ok(_) | Err(WriteError::Conflict(_) | WriteError::NotFound(_) | WriteError::NotLeading) => {}
            Err(error) => tracing::debug!("{}: {error}", pod.key),
        }
    }
}

/// A time before which nothing that a gateway has seen of a sandbox is news.
fn used_before(pod: &EnvPod) -> Timestamp {
    pod.time(names::ANNOTATION_LAST_ACTIVE).unwrap_or(pod.created())
}

fn touched(at: Timestamp) -> Value {
    json!({"metadata": {"annotations": {(names::ANNOTATION_LAST_ACTIVE): written(at)}}})
}
