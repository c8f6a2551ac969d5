//! The watch: its events, and the objects of events and lists on their way to the sink.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::SystemTime;

use sandgate_routes::Version;
use tokio::time::Instant;

use super::{Follower, list};
use crate::events::{Event, Line, Lines};
use crate::failure::{Failure, shorten};
use crate::sink::{Head, Rejected, Sink};
use crate::status::FollowState;

/// An object that the sink can use; or the head of one that it cannot, and why.
type Decoded<T> = Result<T, (Head, Rejected)>;

impl<S: Sink> Follower<S> {
    /// Opens a watch from a version on.
    pub(super) async fn resume(&mut self, version: &Version) -> Result<Lines, Failure> {
        if self.check_version {
            if let Some(current) = list::current_version(&self.api, &self.target).await? {
                self.check(&current)?;
            }
            self.check_version = false;
        }
        let seconds = self.watch_seconds();
        let path = self.target.watch(version, seconds);
        let body = self.api.open(&path).await?;
        Ok(Lines::new(body, self.api.timing.max_line, self.api.timing.watch_silence))
    }

    /// Reads a watch to its end.
    pub(super) async fn watch(&mut self, stream: &mut Lines) -> Result<(), Failure> {
        self.watching_since = Some(Instant::now());
        self.log.works();
        self.status.contact();
        self.status.update(|status| {
            status.state = FollowState::Watching;
            if status.error.take().is_some() || status.watching_since.is_none() {
                status.watching_since = Some(SystemTime::now());
            }
        });
        (self.hooks.changed)();
        loop {
            let line = match stream.next(self.relist_at).await? {
                Line::Text(line) => line,
                Line::TooLong => return Err(Failure::TooLarge(self.api.timing.max_line)),
                Line::End => return Ok(()),
                Line::Due => {
                    self.version = None;
                    return Ok(());
                }
            };
            self.status.contact();
            match Event::read(line)? {
                Event::Seen { added, object } => {
                    let Some((version, decoded)) = self.decode(object) else { continue };
                    self.advance(version.as_ref())?;
                    self.apply(object, decoded);
                    self.objects += u64::from(added);
                    self.applied(version.as_ref());
                }
                Event::Deleted(Ok(head)) => {
                    self.advance(head.version.as_ref())?;
                    self.delete(&head);
                    self.applied(head.version.as_ref());
                }
                Event::Deleted(Err(why)) => self.unreadable(None, &why),
                Event::Bookmark { version, .. } => {
                    self.advance(Some(&version))?;
                    self.sink.reached(&version);
                }
                Event::Failed(failure) => return Err(failure),
            }
        }
    }

    /// Moves to the version of an event, if it has one, before the event is applied. A watch that breaks now
    /// would resume behind the event; but nothing between here and the apply can fail.
    fn advance(&mut self, version: Option<&Version>) -> Result<(), Failure> {
        if let Some(version) = version {
            self.check(version)?;
            self.resume_from(version);
            self.backoff.reset();
        }
        Ok(())
    }

    /// Whether the API server's versions have not gone back.
    fn check(&self, version: &Version) -> Result<(), Failure> {
        match &self.newest {
            Some(newest) if version < newest => {
                Err(Failure::Rewound { found: version.clone(), known: newest.clone() })
            }
            _ => Ok(()),
        }
    }

    /// Counts an event that the sink has, and with it everything up to its version.
    fn applied(&mut self, version: Option<&Version>) {
        if let Some(version) = version {
            self.sink.reached(version);
        }
        self.status.set_objects(self.objects);
        self.status.event();
    }

    /// Decodes an object, and returns its version for a check before anything changes. An object without a
    /// name is counted here, and is none.
    pub(super) fn decode(&mut self, object: &[u8]) -> Option<(Option<Version>, Decoded<S::Object>)> {
        // A panic is a bug of the sink. It must not end the watch of all other objects.
        let why = match catch_unwind(AssertUnwindSafe(|| self.sink.decode(object))) {
            Ok(Ok((version, decoded))) => return Some((Some(version), Ok(decoded))),
            Ok(Err(why)) => why,
            Err(_) => Rejected("internal error".to_owned()),
        };
        match Head::read(object) {
            Ok(head) => Some((head.version.clone(), Err((head, why)))),
            Err(why) => {
                self.unreadable(None, &why);
                None
            }
        }
    }

    /// Applies what [`decode`](Self::decode) returned for these bytes.
    pub(super) fn apply(&mut self, object: &[u8], decoded: Decoded<S::Object>) {
        match decoded {
            Ok(decoded) => {
                if let Err(why) = self.sink.apply(decoded) {
                    self.unreadable(Head::read(object).ok().as_ref(), &why);
                }
            }
            Err((head, why)) => {
                let why = match self.sink.deleted(&head) {
                    Err(why) => why,
                    Ok(()) if head.version.is_some() => why,
                    Ok(()) => {
                        Rejected("metadata.resourceVersion: expected a positive decimal number".to_owned())
                    }
                };
                self.unreadable(Some(&head), &why);
            }
        }
    }

    pub(super) fn delete(&mut self, head: &Head) {
        self.objects = self.objects.saturating_sub(1);
        if let Err(why) = self.sink.deleted(head) {
            self.unreadable(Some(head), &why);
        }
    }

    /// Counts an object that the sink cannot use.
    pub(super) fn unreadable(&mut self, head: Option<&Head>, why: &Rejected) {
        let mut what = shorten(&why.0);
        if let Some(Head { namespace, name, .. }) = head {
            what = format!("{namespace}/{name}: {what}");
        }
        self.status.unreadable(&what);
        self.log.warn(&format!("cannot read an object, which is left out: {what}"));
    }
}
