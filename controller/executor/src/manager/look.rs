//! Looking at the processes, and doing what is due: starting, stopping, removing.

use std::io;
use std::time::Duration;

use rustix::process::Signal;

use super::{Entry, Manager, Moment, RETRY, Settings};
use crate::failpoint::failpoint;
use crate::launch::{launch, reap};
use crate::proc;
use crate::record::State;
use crate::shim::Word;
use crate::start::{self, Started};
use crate::status::{self, Seen};
use crate::store::Store;

/// How often a running task is looked at. The end of an own shim is told by a signal; that of one which an
/// earlier executor has started is not.
const OFTEN: Duration = Duration::from_millis(500);
/// How often one that is being stopped is.
const SOON: Duration = Duration::from_millis(25);

/// What is next for a task.
enum Next {
    /// Nothing, until somebody asks for it.
    Rest,
    /// To look again after this time.
    In(Duration),
    /// Its folder is to be removed.
    Remove,
}

impl Manager {
    /// Does what is due, and says when to look again at the latest; `None` if nothing can happen by itself.
    pub(crate) fn look(&mut self, at: Moment) -> Option<Duration> {
        reap();
        let mut next: Option<Duration> = None;
        let mut sooner = |time: Duration| next = Some(next.map_or(time, |next| next.min(time)));
        let names: Vec<String> = self.tasks.keys().cloned().collect();
        for name in names {
            let waits = self.is_behind_another(&name);
            let Some(entry) = self.tasks.get_mut(&name) else { continue };
            if entry.unsaved.is_some_and(|due| due <= at.instant) {
                keep(&self.store, entry, at);
            }
            let looked = look_at(&self.store, &self.settings, entry, waits, at);
            if let Some(due) = entry.unsaved {
                sooner(due.saturating_duration_since(at.instant));
            }
            match looked {
                Ok(Next::Rest) => {}
                Ok(Next::In(time)) => sooner(time),
                Ok(Next::Remove) => match self.store.remove(&name) {
                    Ok(()) => {
                        self.tasks.remove(&name);
                        tracing::info!(task = name, "deleted");
                    }
                    Err(error) => {
                        tracing::warn!(task = name, "cannot be removed: {error}");
                        sooner(RETRY);
                    }
                },
                Err(error) => {
                    tracing::warn!(task = name, "cannot be looked at: {error}");
                    sooner(RETRY);
                }
            }
        }
        if let Some(time) = self.advance(at) {
            sooner(time);
        }
        if let Some(time) = self.keep_queue_in_time(at) {
            sooner(time);
        }
        next
    }

    /// Whether a task that has not started has to wait: another one runs, or is before it. Only an executor
    /// that finds several such tasks has to ask.
    fn is_behind_another(&self, name: &str) -> bool {
        let Some(own) = self.tasks.get(name) else { return false };
        let place = |entry: &Entry| (entry.record.sandgate.sequence, entry.record.name.clone());
        let is_first = |other: &Entry| is_running(other) || place(other) < place(own);
        self.tasks.iter().any(|(other, entry)| other != name && entry.is_active() && is_first(entry))
    }

    /// Lets the first task of the queue start, if nothing is in its way any more.
    fn advance(&mut self, at: Moment) -> Option<Duration> {
        let first = self.queue.first().cloned()?;
        match self.next_of_queue()? {
            Ok(name) => {
                failpoint("queue.begun");
                let entry = self.tasks.get_mut(&name)?;
                try_to_start(&self.store, &self.settings, entry, at);
                // A queue on the disk with a task that exists is understood.
                self.queue_unsaved = None;
                Some(SOON)
            }
            Err((name, error)) => {
                tracing::warn!(task = name, "not created: {error}");
                self.queue.insert(0, first);
                Some(RETRY)
            }
        }
    }

    /// Writes the queue if it is not on the disk, and says when to try again.
    fn keep_queue_in_time(&mut self, at: Moment) -> Option<Duration> {
        if self.queue_unsaved.is_none_or(|due| due <= at.instant) {
            let kept = self.keep_queue();
            self.queue_unsaved = kept.is_err().then(|| at.instant + RETRY);
            if let Err(error) = kept {
                tracing::warn!("the queue is not written: {error}");
            }
        }
        self.queue_unsaved.map(|due| due.saturating_duration_since(at.instant))
    }
}

fn is_running(entry: &Entry) -> bool {
    entry.record.status.state == State::Running
}

fn look_at(
    store: &Store,
    settings: &Settings,
    entry: &mut Entry,
    waits: bool,
    at: Moment,
) -> io::Result<Next> {
    let folder = store.folder(&entry.record.name);
    if entry.started.is_none() {
        entry.started = start::read(&folder)?;
    }
    let started = entry.started.clone();
    if entry.record.status.state.is_final() {
        if !entry.record.is_deleting() {
            return Ok(Next::Rest);
        }
        return Ok(if end(settings, entry, started.as_ref(), at)? { Next::Remove } else { Next::In(SOON) });
    }
    let seen = match &started {
        None => Seen::Unstarted,
        Some(started) => see(&folder, started)?,
    };
    match seen {
        Seen::Unstarted if entry.record.is_deleting() || entry.record.sandgate.timed_out_at.is_some() => {
            let cancelled = start::cancel(&folder, at.now)?;
            failpoint("delete.cancelled");
            Ok(if cancelled { Next::Remove } else { Next::In(SOON) })
        }
        Seen::Unstarted if waits => Ok(Next::In(OFTEN)),
        Seen::Unstarted => {
            if entry.retry_at.is_none_or(|due| due <= at.instant) {
                try_to_start(store, settings, entry, at);
            }
            Ok(Next::In(if entry.hindrance.is_none() { SOON } else { RETRY }))
        }
        Seen::Running { started: since } => {
            entry.hindrance = None;
            let running = status::running(since);
            if entry.record.status != running {
                entry.record.status = running;
                keep(store, entry, at);
                failpoint("running.kept");
            }
            let left = entry.record.timeout().map(|seconds| {
                let passed = at.now.duration_since(since);
                Duration::from_secs(seconds.unsigned_abs())
                    .saturating_sub(passed.try_into().unwrap_or_default())
            });
            if left == Some(Duration::ZERO) && entry.record.sandgate.timed_out_at.is_none() {
                time_out(store, entry, at);
            }
            if entry.record.is_deleting() || entry.record.sandgate.timed_out_at.is_some() {
                end(settings, entry, started.as_ref(), at)?;
                return Ok(Next::In(SOON));
            }
            Ok(Next::In(left.map_or(OFTEN, |left| left.min(OFTEN))))
        }
        Seen::Exited { .. } | Seen::Vanished { .. } => {
            // A command that was stopped, or whose shim was killed, leaves nothing running. One that ended
            // by itself may: a task can start a server. Its deletion ends that too.
            let by_itself =
                matches!(seen, Seen::Exited { .. }) && entry.record.sandgate.timed_out_at.is_none();
            if !by_itself && !end(settings, entry, started.as_ref(), at)? {
                return Ok(Next::In(SOON));
            }
            failpoint("end.seen");
            if let Some(status) = status::ended(&entry.record, &seen, at.now) {
                entry.record.status = status;
                keep(store, entry, at);
                failpoint("end.kept");
                let sub = entry.record.status.sub_statuses.first();
                tracing::info!(
                    task = entry.record.name,
                    reason = sub.map(|sub| sub.reason.as_str()),
                    code = sub.map(|sub| sub.exit_code),
                    "ended"
                );
            }
            entry.stopping = None;
            Ok(Next::In(Duration::ZERO))
        }
    }
}

fn see(folder: &std::path::Path, started: &Started) -> io::Result<Seen> {
    let exited = || {
        let exit = start::read_exit(folder)?;
        Ok::<_, io::Error>(exit.map(|(code, finished)| Seen::Exited {
            code,
            started: Some(started.at),
            finished,
        }))
    };
    if let Some(exited) = exited()? {
        return Ok(exited);
    }
    if proc::is_alive(started) {
        return Ok(Seen::Running { started: started.at });
    }
    // It may have written its exit code since that was looked for.
    Ok(exited()?.unwrap_or(Seen::Vanished { started: started.at }))
}

fn try_to_start(store: &Store, settings: &Settings, entry: &mut Entry, at: Moment) {
    let name = &entry.record.name;
    match launch(&store.folder(name), settings.main_container.as_deref()) {
        Some(Word::Failed(why)) => {
            tracing::warn!(task = name, "not started, and tried again: {why}");
            entry.hindrance = Some(why);
            entry.retry_at = Some(at.instant + RETRY);
        }
        Some(Word::Started | Word::Lost) => {
            tracing::info!(task = name, "started");
            entry.hindrance = None;
        }
        None => entry.retry_at = Some(at.instant + RETRY),
    }
}

/// Writes that the task has run too long, before anything is done about it.
fn time_out(store: &Store, entry: &mut Entry, at: Moment) {
    entry.record.sandgate.timed_out_at = Some(at.now);
    keep(store, entry, at);
    failpoint("timeout.kept");
    tracing::info!(task = entry.record.name, "its timeout has passed");
}

/// Writes the record, now or later.
fn keep(store: &Store, entry: &mut Entry, at: Moment) {
    if let Err(error) = entry.keep(store, at.instant) {
        tracing::warn!(task = entry.record.name, "its file is not written: {error}");
    }
}

/// Ends every process of the task: SIGTERM at first, and SIGKILL once the grace period has passed. True if
/// none is left.
fn end(settings: &Settings, entry: &mut Entry, started: Option<&Started>, at: Moment) -> io::Result<bool> {
    let Some(started) = started else { return Ok(true) };
    let members = proc::members(started)?;
    if members.is_empty() {
        return Ok(true);
    }
    match entry.stopping {
        None => {
            proc::signal(started, &members, Signal::TERM);
            entry.stopping = Some(at.instant);
            failpoint("stop.asked");
        }
        Some(since) if at.instant.duration_since(since) >= settings.grace => {
            proc::signal(started, &members, Signal::KILL);
            failpoint("stop.killed");
        }
        Some(_) => {}
    }
    Ok(false)
}
