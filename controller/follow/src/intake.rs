//! The sink of one follower, with the counts and log lines that every sink needs.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use sandgate_routes::Version;

use crate::failure::shorten;
use crate::log::BoundedLog;
use crate::sink::{Head, Rejected, Sink};
use crate::status::StatusCell;

pub(crate) struct Intake<S> {
    pub(crate) sink: S,
    pub(crate) status: Arc<StatusCell>,
    pub(crate) log: BoundedLog,
    /// How many objects the API server has.
    pub(crate) objects: u64,
}

/// An object between decoding and applying: its version can be checked and nothing has changed yet.
pub(crate) enum Decoded<'a, T> {
    Readable { version: Version, object: T, bytes: &'a [u8] },
    Malformed { head: Head, why: Rejected },
}

impl<T> Decoded<'_, T> {
    pub(crate) fn version(&self) -> Option<&Version> {
        match self {
            Decoded::Readable { version, .. } => Some(version),
            Decoded::Malformed { head, .. } => head.version.as_ref(),
        }
    }
}

impl<S: Sink> Intake<S> {
    /// Decodes an object; none if it has not even a name, which is counted here.
    pub(crate) fn decode<'a>(&mut self, bytes: &'a [u8]) -> Option<Decoded<'a, S::Object>> {
        // A panic is a bug of the sink. It must not end the watch of all other objects.
        let decoded = catch_unwind(AssertUnwindSafe(|| self.sink.decode(bytes)));
        let why = match decoded {
            Ok(Ok((version, object))) => return Some(Decoded::Readable { version, object, bytes }),
            Ok(Err(why)) => why,
            Err(_) => Rejected("internal error".to_owned()),
        };
        match Head::read(bytes) {
            Ok(head) => Some(Decoded::Malformed { head, why }),
            Err(why) => {
                self.unreadable(&why);
                None
            }
        }
    }

    pub(crate) fn apply(&mut self, decoded: Decoded<'_, S::Object>) {
        let (head, why) = match decoded {
            Decoded::Readable { object, bytes, .. } => match self.sink.apply(object) {
                Ok(()) => return,
                Err(why) => (Head::read(bytes), why),
            },
            Decoded::Malformed { head, why } => {
                let why = match (self.sink.deleted(&head), &head.version) {
                    (Err(why), _) => why,
                    (Ok(()), Some(_)) => why,
                    (Ok(()), None) => {
                        Rejected("metadata.resourceVersion: expected a positive decimal number".to_owned())
                    }
                };
                (Ok(head), why)
            }
        };
        self.unreadable_named(head.as_ref().ok(), &why);
    }

    pub(crate) fn delete(&mut self, head: &Head) {
        if let Err(why) = self.sink.deleted(head) {
            self.unreadable_named(Some(head), &why);
        }
    }

    fn unreadable_named(&mut self, head: Option<&Head>, why: &Rejected) {
        let what = match head {
            Some(Head { namespace, name, .. }) => format!("{namespace}/{name}: {}", shorten(&why.0)),
            None => shorten(&why.0),
        };
        self.unreadable(&Rejected(what));
    }

    /// Counts an object that the sink cannot use.
    pub(crate) fn unreadable(&mut self, what: &Rejected) {
        self.status.unreadable(&what.0);
        self.log.warn(&format!("cannot use an object, which is left out: {what}"));
    }
}
