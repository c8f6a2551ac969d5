//! The task of one scope: list, watch, and again, for ever.
//!
//! A complete list is committed at its version, and the watch goes on from there, event by event, each applied the
//! moment it is read. A watch that ends is taken up again from the last version seen, of an event or a bookmark. Only
//! when the server has forgotten that version, or the resource was gone, or nothing sensible comes from there any
//! more, is there another list. Until it is complete the table stays as it is: nothing is ever deleted for want of
//! contact.
//!
//! # When versions go back
//! An API server restored from a backup counts on from an older version (unless its versions were bumped while
//! restoring, as etcd advises). The table takes nothing older than it knows, so it would show a past that has been
//! undone, and its addresses may be others' by now. That is noticed by an event, a bookmark or a list with a version
//! below what this scope has seen, and after every break of a watch by asking for the current one. Then every route
//! newer than the list is taken away, loudly. Such an object is served again when it changes past the version known,
//! or when its tombstone has expired, for which the scope lists once a minute as long as there are such objects, or
//! when the gateway is started anew. Routes that are as old as the backup go on undisturbed.

use std::sync::Arc;
use std::time::Duration;

use sandgate_routes::Version;
use tokio::time::{Instant, sleep};

use super::backoff::Backoff;
use super::client::Api;
use super::error::Failure;
use super::head::{Event, Head};
use super::lines::{Line, Lines};
use super::list::{self, Listed};
use super::sink::Sink;
use super::status::{ListMode, ScopeState};
use super::target::Target;

/// So many failures in a row from one version, though the server answers, and the version is given up.
const GIVE_UP: u32 = 3;

/// A list that is older than this may be made anew without a longer wait.
const LIST_AGAIN: Duration = Duration::from_secs(10);

/// What a scope tells of: called on the runtime's thread.
pub(super) struct Hooks {
    pub(super) changed: Box<dyn Fn() + Send + Sync>,
    pub(super) listed: Box<dyn Fn() + Send + Sync>,
}

pub(super) struct ScopeTask {
    api: Arc<Api>,
    target: Target,
    sink: Sink,
    hooks: Arc<Hooks>,
    /// Where the watch goes on; nothing before the first list and where another is needed.
    version: Option<Version>,
    /// The newest version seen.
    newest: Option<Version>,
    backoff: Backoff,
    absent: Backoff,
    /// Failures since the version last moved.
    failures: u32,
    /// The watch broke: the API server may be another one than before.
    doubtful: bool,
    /// A streamed list did not come to its end: read the next one in pages.
    avoid_streaming: bool,
    relist_at: Option<Instant>,
    /// When the last list was complete, and when the last watch began.
    listed_at: Option<Instant>,
    watching_since: Option<Instant>,
}

impl ScopeTask {
    pub(super) fn new(api: Arc<Api>, target: Target, sink: Sink, hooks: Arc<Hooks>) -> Self {
        let timing = &api.timing;
        ScopeTask {
            backoff: Backoff::new(timing.retry, timing.retry_cap),
            absent: Backoff::new(timing.retry, timing.absent_cap),
            api,
            target,
            sink,
            hooks,
            version: None,
            newest: None,
            failures: 0,
            doubtful: false,
            avoid_streaming: false,
            relist_at: None,
            listed_at: None,
            watching_since: None,
        }
    }

    pub(super) async fn run(mut self) {
        loop {
            let ended = self.follow().await;
            let watched = self.watching_since.take().map_or(Duration::ZERO, |since| since.elapsed());
            // A list alone proves little: a watch that always fails would have it made again and again.
            if watched >= self.api.timing.watch_at_least {
                self.backoff.reset();
            }
            let wait = match ended {
                Ok(()) if watched >= self.api.timing.watch_at_least => Duration::ZERO,
                Ok(()) => self.backoff.next(None),
                Err(failure) => self.failed(&failure),
            };
            self.doubtful |= watched < self.api.timing.watch;
            if !wait.is_zero() {
                sleep(wait).await;
            }
        }
    }

    /// One list, if one is needed, and one watch.
    async fn follow(&mut self) -> Result<(), Failure> {
        let stream = match &self.version {
            None => self.list().await?,
            Some(_) => None,
        };
        let mut stream = match stream {
            Some(stream) => stream,
            None => self.open().await?,
        };
        self.watch(&mut stream).await
    }

    fn failed(&mut self, failure: &Failure) -> Duration {
        self.doubtful = true;
        self.failures += 1;
        let absent = failure.code() == Some(404);
        let answered = match failure {
            Failure::Garbled(_) => true,
            Failure::Refused { code, .. } => !matches!(code, 401 | 403 | 429 | 503),
            _ => false,
        };
        if failure.needs_a_list() || (answered && self.failures >= GIVE_UP) {
            self.version = None;
        }
        // The server is there, and the table waits for nothing but a list.
        if matches!(failure, Failure::Gone(_)) && self.listed_at.is_none_or(|at| at.elapsed() > LIST_AGAIN) {
            self.backoff.reset();
        }
        let text = self.explain(failure);
        self.sink.notes.failed(&text);
        let state = if absent { ScopeState::WaitingForResource } else { ScopeState::BackingOff };
        self.sink.status.update(|status| {
            status.state = state;
            status.error = Some(text.into());
        });
        (self.hooks.changed)();
        let backoff = if absent { &mut self.absent } else { &mut self.backoff };
        backoff.next(failure.retry_after())
    }

    fn explain(&self, failure: &Failure) -> String {
        let resource = self.sink.status.resource();
        match failure.code() {
            Some(404) => format!("waiting for the CRD of {resource}: the API server does not know it"),
            Some(401) => format!("the API server does not accept the credentials: {failure}"),
            Some(403) => format!("a right is missing: {failure}"),
            _ => failure.to_string(),
        }
    }

    /// Brings a complete list into the table. A streamed one goes on as a watch.
    async fn list(&mut self) -> Result<Option<Lines>, Failure> {
        let api = Arc::clone(&self.api);
        let _turn = api.turn_to_list().await;
        let began = Instant::now();
        let (mode, listed) = self.read_list(&api).await?;
        let Listed { relist, version, stream } = listed;
        let rewound = self.newest.as_ref().filter(|newest| version < **newest).cloned();
        let summary = relist.commit_at(version.clone());
        self.sink.deadlines.keep_listed(self.sink.number, self.sink.list);
        if let Some(newest) = &rewound {
            self.rewound(&version, newest);
        }
        let (objects, held_back) = (self.sink.objects, self.sink.held_back);
        self.sink.status.set_objects(objects);
        let first = !self.sink.status.load().listed;
        self.sink.status.update(|status| {
            status.listed = true;
            status.lists += 1;
            status.mode = Some(mode);
            status.rewinds += u64::from(rewound.is_some());
            status.held_back = if status.rewinds > 0 { held_back } else { 0 };
        });
        let held_back = self.sink.status.load().held_back > 0;
        self.relist_at = held_back.then(|| Instant::now() + api.timing.held_back);
        self.sink.notes.info(&format!(
            "a {} list of {objects} objects at version {version} is in after {} ms; {} deleted",
            mode.as_str(),
            began.elapsed().as_millis(),
            summary.deleted
        ));
        self.newest = Some(version.clone());
        self.version = Some(version);
        self.doubtful = false;
        self.failures = 0;
        self.absent.reset();
        self.listed_at = Some(Instant::now());
        if first {
            (self.hooks.listed)();
        }
        Ok(stream)
    }

    async fn read_list(&mut self, api: &Api) -> Result<(ListMode, Listed), Failure> {
        if !self.avoid_streaming {
            let seconds = self.watch_seconds();
            match list::streamed(api, &self.target, &mut self.sink, seconds).await {
                Ok(listed) => return Ok((ListMode::Streaming, listed)),
                // Not a word this server knows.
                Err(Failure::Refused { code: 400 | 422, .. }) => {}
                Err(failure) => {
                    self.avoid_streaming =
                        matches!(failure, Failure::Incomplete | Failure::Silent(_) | Failure::Cut);
                    return Err(failure);
                }
            }
        }
        let listed = list::paged(api, &self.target, &mut self.sink).await?;
        self.avoid_streaming = false;
        Ok((ListMode::Paged, listed))
    }

    fn rewound(&mut self, version: &Version, newest: &Version) {
        let forgotten = self.sink.forget_after(version);
        // Beside those that the list has named and that a tombstone keeps out.
        self.sink.held_back += forgotten as u64;
        self.sink.notes.error(&format!(
            "the API server's versions went back from {newest} to {version}: it was restored from a backup? {forgotten} routes of \
             the time that was undone are taken away; they are served again when their objects change, after the lifetime of \
             tombstones at the latest, or when this gateway is started anew"
        ));
    }

    /// Begins a watch from the last version.
    async fn open(&mut self) -> Result<Lines, Failure> {
        let Some(version) = self.version.clone() else { return Err(Failure::Incomplete) };
        if self.doubtful {
            if let Some(now) = list::current_version(&self.api, &self.target).await? {
                self.check(&now)?;
            }
            self.doubtful = false;
        }
        let seconds = self.watch_seconds();
        let path = self.target.watch(&version.to_string(), seconds);
        let answer = self.api.get(&path).await?;
        Ok(Lines::new(answer.body, self.api.timing.max_line, self.api.timing.watch_silence))
    }

    /// Reads a watch to its end.
    async fn watch(&mut self, stream: &mut Lines) -> Result<(), Failure> {
        self.watching_since = Some(Instant::now());
        self.sink.notes.works();
        self.sink.status.contact();
        self.sink.status.update(|status| {
            status.state = ScopeState::Watching;
            status.error = None;
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
            self.sink.status.contact();
            match Event::read(&self.target.provider, line)? {
                Event::Seen { head, added, object } => {
                    self.advance(&head)?;
                    self.sink.apply(&head, object);
                    self.told(&head);
                    self.count(added, false);
                }
                Event::Deleted(head) => {
                    self.advance(&head)?;
                    self.sink.delete(&head);
                    self.told(&head);
                    self.count(false, true);
                }
                Event::Bookmark { version, .. } => {
                    self.check(&version)?;
                    self.sink.reached(&version);
                    self.moved(version);
                }
                Event::Nameless(what) => self.sink.nameless(&what),
                Event::Failed(failure) => return Err(failure),
            }
        }
    }

    fn advance(&mut self, head: &Head) -> Result<(), Failure> {
        if let Some(version) = &head.version {
            self.check(version)?;
            self.moved(version.clone());
        }
        Ok(())
    }

    /// An event is in the table, and with it everything up to its version.
    fn told(&self, head: &Head) {
        if let Some(version) = &head.version {
            self.sink.reached(version);
        }
    }

    fn count(&mut self, added: bool, deleted: bool) {
        self.sink.objects = (self.sink.objects + u64::from(added)).saturating_sub(u64::from(deleted));
        self.sink.status.set_objects(self.sink.objects);
        self.sink.status.event();
    }

    /// Whether the API server still counts on from where it was.
    fn check(&self, version: &Version) -> Result<(), Failure> {
        match &self.newest {
            Some(newest) if version < newest => {
                Err(Failure::Rewound { found: version.to_string(), known: newest.to_string() })
            }
            _ => Ok(()),
        }
    }

    fn moved(&mut self, version: Version) {
        self.newest = Some(version.clone());
        self.version = Some(version);
        self.progress();
    }

    fn progress(&mut self) {
        self.failures = 0;
        self.backoff.reset();
        self.absent.reset();
    }

    fn watch_seconds(&mut self) -> u64 {
        let watch = self.api.timing.watch;
        watch.mul_f64(1.0 + self.backoff.fraction()).as_secs().max(1)
    }
}
