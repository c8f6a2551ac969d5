//! What people read in `kubectl describe`: events on the objects.
//!
//! Publishing never waits and never fails a reconcile. Events pass through a bounded queue to one task a
//! controller, which sends them one at a time and at a bounded rate: a set that makes a thousand sandboxes
//! must not spend the API server's time on telling so. An event that finds the queue full is dropped and
//! counted. Repeated events become series.

#[cfg(test)]
mod tests;

use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube_runtime::events::{Event, EventType, Recorder, Reporter};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::metrics::EventMetrics;

/// The API server refuses longer notes.
const MAX_NOTE: usize = 1024;
/// How many events may wait.
const QUEUE: usize = 1024;
/// How many events are remembered so that repeated ones become series: about 2 KiB each.
const MEMORY: usize = 1024;
/// The time between two events.
const PACE: Duration = Duration::from_millis(20);
/// How long one event may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long events that wait are still sent after a stop.
const FAREWELL: Duration = Duration::from_secs(2);

/// Whether an event is good news.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// Something went as it should.
    Normal,
    /// Something needs a look.
    Warning,
}

/// Takes events. Must not block.
pub trait Events: Send + Sync + 'static {
    /// Says something about an object: `reason` and `action` are single words in `PascalCase`, `note` is a
    /// sentence without secrets. A note of more than 1024 bytes is cut.
    fn publish(
        &self,
        on: &ObjectReference,
        kind: EventKind,
        reason: &'static str,
        action: &'static str,
        note: String,
    );
}

/// Drops every event.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoEvents;

impl Events for NoEvents {
    fn publish(&self, _: &ObjectReference, _: EventKind, _: &'static str, _: &'static str, _: String) {}
}

/// An event as it was published.
#[derive(Clone, Debug, PartialEq)]
pub struct Published {
    /// The object.
    pub on: ObjectReference,
    /// Good news or not.
    pub kind: EventKind,
    /// Why.
    pub reason: &'static str,
    /// What was done.
    pub action: &'static str,
    /// The sentence.
    pub note: String,
}

impl Published {
    fn new(
        on: &ObjectReference,
        kind: EventKind,
        reason: &'static str,
        action: &'static str,
        note: String,
    ) -> Self {
        Self { on: on.clone(), kind, reason, action, note: shortened(note) }
    }
}

/// Keeps every event, for tests and for the simulation.
#[derive(Debug, Default)]
pub struct RecordedEvents(Mutex<Vec<Published>>);

impl RecordedEvents {
    /// The events so far, which are forgotten here.
    pub fn take(&self) -> Vec<Published> {
        std::mem::take(&mut self.0.lock())
    }
}

impl Events for RecordedEvents {
    fn publish(
        &self,
        on: &ObjectReference,
        kind: EventKind,
        reason: &'static str,
        action: &'static str,
        note: String,
    ) {
        self.0.lock().push(Published::new(on, kind, reason, action, note));
    }
}

/// Sends events to the API server, through its [`EventTask`].
#[derive(Clone, Debug)]
pub struct ClusterEvents {
    queue: mpsc::Sender<Published>,
    metrics: EventMetrics,
}

/// The task behind [`ClusterEvents`].
pub struct EventTask {
    queue: mpsc::Receiver<Published>,
    client: Client,
    reporter: Reporter,
    /// It remembers every event of the last minutes, and looks at all of them for each new one.
    recorder: Recorder,
    /// How many events it may remember.
    remembered: usize,
    metrics: EventMetrics,
    failing: bool,
}

impl ClusterEvents {
    /// The events of one controller of one process.
    pub fn new(client: Client, controller: &str, instance: &str, metrics: EventMetrics) -> (Self, EventTask) {
        let (sender, queue) = mpsc::channel(QUEUE);
        let reporter = Reporter { controller: controller.to_owned(), instance: Some(instance.to_owned()) };
        let recorder = Recorder::new(client.clone(), reporter.clone());
        let task = EventTask {
            queue,
            client,
            reporter,
            recorder,
            remembered: 0,
            metrics: metrics.clone(),
            failing: false,
        };
        (Self { queue: sender, metrics }, task)
    }
}

impl Events for ClusterEvents {
    fn publish(
        &self,
        on: &ObjectReference,
        kind: EventKind,
        reason: &'static str,
        action: &'static str,
        note: String,
    ) {
        if self.queue.try_send(Published::new(on, kind, reason, action, note)).is_err() {
            self.metrics.dropped();
        }
    }
}

impl EventTask {
    /// Sends events until `stop`, and what waits then for two seconds more.
    pub async fn run(mut self, stop: CancellationToken) {
        loop {
            let event = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                event = self.queue.recv() => event,
            };
            let Some(event) = event else { return };
            self.send(event).await;
            sleep(PACE).await;
        }
        self.queue.close();
        let rest = async {
            while let Some(event) = self.queue.recv().await {
                self.send(event).await;
            }
        };
        // What is not sent by then is not worth a longer wait.
        let _ = timeout(FAREWELL, rest).await;
    }

    async fn send(&mut self, event: Published) {
        if self.remembered == MEMORY {
            // An event that is repeated after this begins a new series.
            self.recorder = Recorder::new(self.client.clone(), self.reporter.clone());
            self.remembered = 0;
        }
        self.remembered += 1;
        let Published { on, kind, reason, action, note } = event;
        let event = Event {
            type_: match kind {
                EventKind::Normal => EventType::Normal,
                EventKind::Warning => EventType::Warning,
            },
            reason: reason.to_owned(),
            note: Some(note),
            action: action.to_owned(),
            secondary: None,
        };
        let error = match timeout(PATIENCE, self.recorder.publish(&event, &on)).await {
            Ok(Ok(())) => {
                self.failing = false;
                return self.metrics.published();
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the API server does not answer".to_owned(),
        };
        self.metrics.failed();
        let object = on.name.as_deref().unwrap_or_default();
        // One line for a row of failures: it is the same cause as a rule.
        if std::mem::replace(&mut self.failing, true) {
            tracing::debug!("an event on {object} was not published: {error}");
        } else {
            tracing::warn!("events are not published: {reason} on {object}: {error}");
        }
    }
}

/// The note, cut at a character's boundary where it is too long.
fn shortened(mut note: String) -> String {
    const CUT: &str = "…";
    if note.len() > MAX_NOTE {
        note.truncate(note.floor_char_boundary(MAX_NOTE - CUT.len()));
        note.push_str(CUT);
    }
    note
}
