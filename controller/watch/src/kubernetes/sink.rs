//! From an object to the table.
//!
//! An object that its provider cannot read, or that the table cannot take, is **deleted at its version**: an older
//! route of it may lead to the wrong place, and nobody can tell. It is counted and named; the others go on. It comes
//! back with its next readable version.
//!
//! An address outside the pod ranges, or none at all, is taken away, counted and named: the object is known and not routed
//! to. What is pushed fares the same (see `peer::serve`).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::SystemTime;

use sandgate_routes::{
    Capability, Fate, Invalid, Outcome, Relist, RouteReader, RouteWriter, Scope, Version, verdict,
};

use super::deadlines::Deadlines;
use super::error::shorten;
use super::head::Head;
use super::notes::Notes;
use super::provider::{Projection, Provider};
use super::status::StatusCell;
use sandgate_routes::AddressPolicy;

pub(super) struct Sink {
    pub(super) provider: Arc<dyn Provider>,
    pub(super) writer: RouteWriter,
    pub(super) reader: RouteReader,
    pub(super) addresses: AddressPolicy,
    pub(super) scope: Scope,
    pub(super) deadlines: Arc<Deadlines>,
    pub(super) status: Arc<StatusCell>,
    pub(super) notes: Notes,
    /// The scope's number, and that of its last list.
    pub(super) number: usize,
    pub(super) list: u64,
    /// The API server has so many objects.
    pub(super) objects: u64,
    /// Objects of the list that the table refused for a newer version of which it has only a tombstone.
    pub(super) held_back: u64,
}

impl Sink {
    /// An object of an event.
    pub(super) fn apply(&mut self, head: &Head, object: &[u8]) {
        self.take(head, object, None);
    }

    /// An object of a list.
    pub(super) fn observe(&mut self, relist: &mut Relist, head: &Head, object: &[u8]) {
        self.take(head, object, Some(relist));
    }

    fn take(&mut self, head: &Head, object: &[u8], relist: Option<&mut Relist>) {
        let Some(version) = &head.version else {
            return self.refuse(head, "metadata.resourceVersion: expected a positive decimal number");
        };
        // A panic of a provider is a bug of ours; it must not end the watch of all other objects.
        let projected = catch_unwind(AssertUnwindSafe(|| self.provider.project(object, SystemTime::now())));
        let Projection { mut observation, is_nowhere, dead_at } = match projected {
            Ok(Ok(projection)) => projection,
            Ok(Err(why)) => return self.refuse(head, &why.to_string()),
            Err(_) => return self.refuse(head, "internal error"),
        };
        // What is deleted by its head must be what was applied.
        observation.key.clone_from(&head.key);
        observation.version.clone_from(version);
        let kept = verdict(observation.state, Capability::default()).fate == Fate::Keep;
        let refused = match self.addresses.screen(&mut observation) {
            Some(refused) => Some(refused.to_string()),
            None => is_nowhere.then(|| "its address is not that of one machine".to_owned()),
        };
        if kept && let Some(refused) = refused {
            self.status.outside();
            self.notes.warn(&format!("{} is not routed to: {refused}", head.key));
        }
        let id = (relist.is_some() && kept).then(|| observation.id.clone());
        let outcome = match relist {
            Some(relist) => relist.observe(observation),
            None => self.writer.apply_in(&self.scope, observation),
        };
        match &outcome {
            Outcome::Invalid(Invalid::Full) => self.unreadable(head, "the table is full"),
            Outcome::Invalid(why) => return self.refuse(head, &why.to_string()),
            Outcome::Takeover { displaced } => {
                self.notes.warn(&format!(
                    "{} has the ID of {displaced} and comes before it: {displaced} is not served any more",
                    head.key
                ));
            }
            Outcome::Displaced { by: Some(by) } => {
                self.notes
                    .warn(&format!("{} is not served: {by} has the same ID and comes before it", head.key));
            }
            Outcome::Displaced { by: None } => {
                self.notes.warn(&format!(
                    "{} is not served yet: its ID is kept for the namespace of the sandbox that had it last",
                    head.key
                ));
            }
            Outcome::Ambiguous { other } => {
                self.notes.warn(&format!("{} and {other} claim one ID: neither is served", head.key));
            }
            // Most are served, which takes no lock to see. One that lives and is not is displaced, not held back.
            Outcome::Stale if id.is_some_and(|id| !self.serves(&id, head)) => {
                self.held_back += u64::from(!self.writer.is_live(&head.key));
            }
            _ => {}
        }
        match dead_at {
            Some(at) if kept => self.deadlines.set(&head.key, version.clone(), at, self.number, self.list),
            _ => self.deadlines.clear(&head.key),
        }
    }

    fn serves(&self, id: &str, head: &Head) -> bool {
        self.reader.pin().get(id).is_some_and(|route| route.key() == head.key)
    }

    /// The object is gone, or not of this scope any more.
    pub(super) fn delete(&mut self, head: &Head) {
        self.deadlines.clear(&head.key);
        self.writer.delete_in(&self.scope, &head.key, head.uid.as_deref(), head.version.clone());
    }

    /// The watch has told everything up to a version.
    pub(super) fn reached(&self, version: &Version) {
        self.writer.reached(&self.scope, version);
    }

    /// An object that cannot be read.
    fn refuse(&mut self, head: &Head, why: &str) {
        self.delete(head);
        self.unreadable(head, why);
    }

    fn unreadable(&mut self, head: &Head, why: &str) {
        let what = format!("{}/{}: {}", head.key.namespace(), head.key.name(), shorten(why));
        self.nameless(&what);
    }

    /// An object that cannot even be named.
    pub(super) fn nameless(&mut self, what: &str) {
        self.status.unreadable(what);
        self.notes.warn(&format!("cannot read an object, which has no route now: {what}"));
    }

    /// Takes away every route of the scope that is newer than `version`: the API server lost the time it is of, so
    /// nobody will ever tell what became of it. Says how many there were.
    pub(super) fn forget_after(&self, version: &Version) -> usize {
        self.writer.forget_after(&self.scope, version, |key| self.deadlines.clear(key))
    }
}
