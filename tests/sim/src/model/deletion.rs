//! Deletion: at once, or after a grace period, or when the last finalizer is gone.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::object::{deleting, list, metadata, number, text, uid};
use super::{Model, Place, Refusal, stamp};

/// What a DELETE may say in its body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// Delete only the object of this UID.
    pub uid: Option<String>,
    /// Delete only this version of the object.
    pub version: Option<String>,
    /// How long a pod may take to end.
    pub grace: Option<i64>,
}

impl DeleteOptions {
    /// Deletes the object of this UID, whatever its version.
    pub fn of_uid(uid: &str) -> Self {
        Self { uid: Some(uid.to_owned()), ..Self::default() }
    }
}

/// What a DELETE did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deleted {
    /// The object is gone.
    Gone(Arc<Value>),
    /// The object stays until its grace period ends or its finalizers are removed.
    Pending(Arc<Value>),
}

impl Model {
    /// Deletes an object.
    ///
    /// # Errors
    /// 404; 409 if it is not the object or the version that the options name.
    pub fn delete(&mut self, place: &Place, options: &DeleteOptions) -> Result<Deleted, Refusal> {
        let old = Arc::clone(self.get(place)?);
        let conflict = |what: &str, asked: &str, is: &str| {
            let why =
                format!("Precondition failed: {what} in precondition: {asked}, {what} in object meta: {is}");
            Err(Refusal::conflict(place, &why))
        };
        if let Some(asked) = &options.uid
            && asked != uid(&old)
        {
            return conflict("UID", asked, uid(&old));
        }
        if let Some(asked) = &options.version
            && asked != text(&old, "/metadata/resourceVersion")
        {
            return conflict("ResourceVersion", asked, text(&old, "/metadata/resourceVersion"));
        }

        if deleting(&old) {
            let left = number(&old, "/metadata/deletionGracePeriodSeconds").unwrap_or(0);
            let Some(period) = options.grace.filter(|period| *period < left) else {
                return Ok(Deleted::Pending(old));
            };
            let ends = text(&old, "/metadata/deletionTimestamp").parse().unwrap_or(self.now);
            return Ok(self.mark(place, &old, ends - SignedDuration::from_secs(left - period), period));
        }

        let finalized = !list(&old, "/metadata/finalizers").is_empty();
        if !place.kind.graceful() && !finalized {
            return Ok(Deleted::Gone(self.remove(place)));
        }
        let period = if place.kind.graceful() { grace(&old, options) } else { 0 };
        Ok(self.mark(place, &old, self.now + SignedDuration::from_secs(period), period))
    }

    /// Writes the mark of deletion, and removes the object if nothing is left to wait for.
    /// The first mark is a change of what is wanted, so it counts in the generation.
    fn mark(&mut self, place: &Place, old: &Value, ends: Timestamp, period: i64) -> Deleted {
        let finalized = !list(old, "/metadata/finalizers").is_empty();
        let mut new = old.clone();
        let fields = metadata(&mut new);
        fields.insert("deletionTimestamp".to_owned(), json!(stamp(ends)));
        fields.insert("deletionGracePeriodSeconds".to_owned(), json!(period));
        if let Some(generation) = number(old, "/metadata/generation").filter(|_| !deleting(old)) {
            fields.insert("generation".to_owned(), json!(generation + 1));
        }
        let marked = self.put(place, new);
        if finalized || period > 0 { Deleted::Pending(marked) } else { Deleted::Gone(self.remove(place)) }
    }
}

/// Whether an object that was just updated is to be removed.
pub(super) fn is_due(object: &Value) -> bool {
    deleting(object)
        && list(object, "/metadata/finalizers").is_empty()
        && number(object, "/metadata/deletionGracePeriodSeconds").unwrap_or(0) == 0
}

/// The grace period of a pod. One that no node runs, or that has ended, needs none.
fn grace(pod: &Value, options: &DeleteOptions) -> i64 {
    let ended = matches!(text(pod, "/status/phase"), "Failed" | "Succeeded");
    if text(pod, "/spec/nodeName").is_empty() || ended {
        return 0;
    }
    let period = options.grace.or_else(|| number(pod, "/spec/terminationGracePeriodSeconds")).unwrap_or(0);
    if period < 0 { 1 } else { period }
}
