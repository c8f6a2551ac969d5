//! The sink that fills the route table.
//!
//! An object that its provider cannot read, or that the table refuses, is **deleted at its version**: an
//! older route of it may lead to the wrong place by now. Other objects are not affected. Its next readable
//! version is routed again.
//!
//! An address that the policy refuses, or that is not the address of one machine, is removed from the
//! observation and counted: the object is known and gets no traffic. A pushed object is treated alike (see
//! `sandgate-peering`).

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use sandgate_follow::{BoundedLog, Committed, Head, Rejected, Sink, Target};
use sandgate_objects::{Projection, Provider};
use sandgate_routes::{
    Capability, Fate, Invalid, ObjectKey, Outcome, Relist, RouteReader, Scope, Version, verdict,
};

use super::{TableAccess, WatchedScope};

/// Fills the table with the routes of one scope.
pub(super) struct RouteSink {
    provider: Arc<dyn Provider>,
    table: TableAccess,
    reader: RouteReader,
    scope: Scope,
    log: BoundedLog,
    /// Observations without a usable address, counted.
    outside: Arc<AtomicU64>,
    /// The number of the scope, and of its latest list.
    number: usize,
    list: u64,
    /// The list under way.
    relist: Option<Relist>,
    /// Objects of the latest list that the table refused because it has a tombstone of a newer version.
    held_back: u64,
}

impl Sink for RouteSink {
    type Object = Projection;

    fn decode(&self, object: &[u8]) -> Result<(Version, Projection), Rejected> {
        let projection = self.provider.project(object, SystemTime::now()).map_err(|why| rejected(&why))?;
        Ok((projection.observation.version.clone(), projection))
    }

    fn begin(&mut self) {
        self.list += 1;
        self.held_back = 0;
        // The version is known at the end of the list: see `commit`.
        let version = Version::from(NonZeroU64::MIN);
        self.relist = Some(self.table.writer.begin_relist(self.scope.clone(), version));
    }

    fn apply(&mut self, projection: Projection) -> Result<(), Rejected> {
        let Projection { mut observation, is_nowhere, dead_at } = projection;
        let (key, version) = (observation.key.clone(), observation.version.clone());
        let kept = verdict(observation.state, Capability::default()).fate == Fate::Keep;
        let refused = match self.table.addresses.screen(&mut observation) {
            Some(refused) => Some(refused.to_string()),
            None => is_nowhere.then(|| "its address is not that of one machine".to_owned()),
        };
        if kept && let Some(refused) = refused {
            self.outside.fetch_add(1, Ordering::Relaxed);
            self.log.warn(&format!("{key} is not routed to: {refused}"));
        }
        let listed_id = (self.relist.is_some() && kept).then(|| observation.id.clone());
        let uid = Some(observation.uid.clone()).filter(|uid| !uid.is_empty());
        let outcome = match &mut self.relist {
            Some(relist) => relist.observe(observation),
            None => self.table.writer.apply_in(&self.scope, observation),
        };
        let mut applied = Ok(());
        match &outcome {
            // Not deleted: a tombstone would keep the object out when there is room again.
            Outcome::Invalid(Invalid::Full) => applied = Err(rejected(&"the table is full")),
            Outcome::Invalid(why) => {
                self.delete(&key, uid.as_deref(), Some(version));
                return Err(rejected(why));
            }
            Outcome::Takeover { displaced } => {
                self.log.warn(&format!(
                    "{key} has the ID of {displaced} and comes before it: {displaced} is not served any more"
                ));
            }
            Outcome::Displaced { by: Some(by) } => {
                self.log.warn(&format!("{key} is not served: {by} has the same ID and comes before it"));
            }
            Outcome::Displaced { by: None } => {
                self.log.warn(&format!(
                    "{key} is not served yet: its ID is kept for the namespace of the sandbox that had it last"
                ));
            }
            Outcome::Ambiguous { other } => {
                self.log.warn(&format!("{key} and {other} claim one ID: neither is served"));
            }
            // Most stale objects are served, which is seen without a lock. An object that lives and is not
            // served is displaced, not held back.
            Outcome::Stale if listed_id.is_some_and(|id| !self.serves(&id, &key)) => {
                self.held_back += u64::from(!self.table.writer.is_live(&key));
            }
            _ => {}
        }
        match dead_at {
            Some(at) if kept => self.table.deadlines.set(&key, version, at, self.number, self.list),
            _ => self.table.deadlines.clear(&key),
        }
        applied
    }

    fn deleted(&mut self, head: &Head) -> Result<(), Rejected> {
        let key = ObjectKey::new(self.provider.name(), &head.namespace, &head.name)
            .map_err(|why| rejected(&why))?;
        self.delete(&key, head.uid.as_deref(), head.version.clone());
        Ok(())
    }

    fn reached(&mut self, version: &Version) {
        self.table.writer.reached(&self.scope, version);
    }

    fn commit(&mut self, version: &Version) -> Committed {
        let summary = self.relist.take().map(|relist| relist.commit_at(version.clone()));
        self.table.deadlines.keep_listed(self.number, self.list);
        Committed { deleted: summary.map_or(0, |summary| summary.deleted), held_back: self.held_back }
    }

    fn abandon(&mut self) {
        self.relist = None;
    }

    fn rewind(&mut self, version: &Version) -> u64 {
        let dropped =
            self.table.writer.forget_after(&self.scope, version, |key| self.table.deadlines.clear(key));
        self.log.error(&format!(
            "{dropped} routes that are newer than version {version} are taken away; they are served again when their \
             objects change, after the lifetime of tombstones at the latest, or when this gateway is restarted"
        ));
        dropped as u64
    }
}

impl RouteSink {
    pub(super) fn new(watched: &WatchedScope, table: TableAccess) -> Self {
        let Target { namespace, selector, .. } = &watched.target;
        RouteSink {
            provider: Arc::clone(&watched.provider),
            reader: table.writer.reader(),
            table,
            scope: Scope::new(watched.provider.name(), namespace.as_deref(), selector),
            log: BoundedLog::new(watched.name()),
            outside: Arc::clone(&watched.status.outside),
            number: watched.number,
            list: 0,
            relist: None,
            held_back: 0,
        }
    }

    fn serves(&self, id: &str, key: &ObjectKey) -> bool {
        self.reader.pin().get(id).is_some_and(|route| route.key() == *key)
    }

    fn delete(&self, key: &ObjectKey, uid: Option<&str>, version: Option<Version>) {
        self.table.deadlines.clear(key);
        self.table.writer.delete_in(&self.scope, key, uid, version);
    }
}

fn rejected(why: &impl ToString) -> Rejected {
    Rejected(why.to_string())
}
