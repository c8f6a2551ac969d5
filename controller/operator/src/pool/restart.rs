//! Recycling by restarting a pod's containers: faster than a new pod, and cleaner than an old one.
//!
//! # Protocol
//! 1. A *record* is written onto the pod: for which batch it is restarted, which containers run now, by their
//!    IDs, and how often it was tried. It is written before each try, so a controller that dies does not try
//!    more often than it may.
//! 2. A command that ends the container is run in each of them; `kill 1` unless the pool says otherwise.
//! 3. A container that runs with another ID was restarted. When all of them were, the pod is clean.
//! 4. A pod that is not clean `retryInterval` after a try is tried again, `maxRetries` times in all, and then
//!    deleted.
//!
//! A pod is clean only when no command is under way in it, and a command is given up when the next try is
//! due: a late one would end a container of the next batch. A `retryInterval` below [`LEAST_INTERVAL`] counts
//! as that.
//!
//! A pod that has not started has nothing to be restarted, and nobody knows when it will have: it is deleted.
//!
//! Containers of the pool's blacklist, init containers, and those that did not run are not waited for. The
//! record is taken off the pod when the pod is free, and is about one batch: one that names another is as
//! good as none.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use sandgate_objects::duration::go_duration;
use serde::{Deserialize, Serialize};

use super::exec;
use super::recycle::{Recycler, Step};
use crate::view::{PodPhase, PodState};

/// The least time between two tries: as long as a command may take.
const LEAST_INTERVAL: Duration = exec::PATIENCE;

/// How a pool's pods are restarted: its annotation `restart-config`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Restart {
    blacklist: Vec<String>,
    retry_interval: Duration,
    max_retries: u32,
    command: Vec<String>,
}

impl Default for Restart {
    fn default() -> Self {
        Self {
            blacklist: Vec::new(),
            retry_interval: Duration::from_secs(30),
            max_retries: 3,
            command: vec!["kill".to_owned(), "1".to_owned()],
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawConfig {
    blacklist: Option<Vec<String>>,
    retry_interval: Option<String>,
    max_retries: Option<i64>,
    restart_command: Option<Vec<String>>,
}

/// What was done to a pod so far: its annotation `restart-record`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Record {
    /// The batch that gives the pod back.
    id: String,
    start_time: Option<Timestamp>,
    /// The containers to restart, each with its ID of before.
    containers: BTreeMap<String, String>,
    last_retry_time: Option<Timestamp>,
    retry_count: u32,
}

impl Restart {
    /// Reads the annotation. What is missing or cannot be read is as it is by default.
    pub(super) fn read(annotation: &str) -> Self {
        let RawConfig { blacklist, retry_interval, max_retries, restart_command } =
            serde_json::from_str(annotation).unwrap_or_default();
        let default = Self::default();
        Self {
            blacklist: blacklist.unwrap_or(default.blacklist),
            retry_interval: retry_interval
                .and_then(|text| go_duration(text.trim()))
                .unwrap_or(default.retry_interval)
                .max(LEAST_INTERVAL),
            max_retries: max_retries
                .and_then(|number| u32::try_from(number).ok())
                .filter(|&number| number > 0)
                .unwrap_or(default.max_retries),
            command: restart_command.filter(|command| !command.is_empty()).unwrap_or(default.command),
        }
    }

    fn first(&self, pod: &PodState, batch: &str, now: Timestamp) -> Step {
        match pod.phase {
            PodPhase::Running => {}
            PodPhase::Pending => return Step::Delete,
            // Its node may answer again. If it does not, the pod is deleted with the node.
            _ => return Step::Wait(None),
        }
        let is_meant = |name: &str| !self.blacklist.iter().any(|listed| listed == name);
        let running = pod.containers.iter().filter(|it| !it.is_init && it.is_running && is_meant(&it.name));
        let containers: BTreeMap<_, _> =
            running.filter_map(|it| Some((it.name.to_string(), it.id.as_deref()?.to_owned()))).collect();
        if containers.is_empty() {
            return Step::Over;
        }
        let names = containers.keys().map(|name| name.as_str().into()).collect();
        let record = Record {
            id: batch.to_owned(),
            start_time: Some(now),
            containers,
            last_retry_time: Some(now),
            retry_count: 1,
        };
        self.try_again(&record, names, now)
    }

    fn try_again(&self, record: &Record, containers: Vec<Arc<str>>, now: Timestamp) -> Step {
        // A record is always JSON.
        let record = serde_json::to_string(record).unwrap_or_default();
        Step::Restart { record, containers, until: self.next_try(now) }
    }

    /// When a pod that was tried then may be tried again.
    fn next_try(&self, last: Timestamp) -> Timestamp {
        let interval = SignedDuration::try_from(self.retry_interval).unwrap_or(SignedDuration::MAX);
        last.checked_add(interval).unwrap_or(Timestamp::MAX)
    }
}

impl Recycler for Restart {
    fn next(&self, pod: &PodState, batch: &str, now: Timestamp) -> Step {
        if pod.is_deleting {
            return Step::Over;
        }
        if pod.has_ended() {
            return Step::Delete;
        }
        let record = pod.restart_record.as_deref().and_then(|text| serde_json::from_str::<Record>(text).ok());
        let Some(record) = record.filter(|record| record.id == batch) else {
            return self.first(pod, batch, now);
        };
        let was_restarted = |name: &str, before: &str| {
            let container = pod.containers.iter().find(|container| *container.name == *name);
            container.is_some_and(|it| it.is_running && it.id.as_deref().is_some_and(|id| id != before))
        };
        let left: Vec<Arc<str>> = record
            .containers
            .iter()
            .filter(|(name, before)| !was_restarted(name, before))
            .map(|(name, _)| name.as_str().into())
            .collect();
        if left.is_empty() {
            return Step::Over;
        }
        let due = record.last_retry_time.map(|last| self.next_try(last));
        if let Some(due) = due.filter(|due| *due > now) {
            return Step::Wait(Some(due));
        }
        if record.retry_count >= self.max_retries {
            return Step::Delete;
        }
        let retry_count = record.retry_count + 1;
        self.try_again(&Record { last_retry_time: Some(now), retry_count, ..record }, left, now)
    }

    fn command(&self) -> &[String] {
        &self.command
    }
}

#[cfg(test)]
mod tests;
