//! A thread of the gateway, and its supervision.
//!
//! The thread runs one future on a runtime of its own until it is asked to stop. Beside the future it counts
//! a heartbeat every half second. A supervisor calls [`Supervised::check`] about every second:
//!
//! * A thread that ended without being asked to, by a panic or because its future completed, is down. It is
//!   restarted after a delay that doubles from one second to half a minute, without a limit on the number of
//!   restarts: a gateway that gave up would serve an ever older table. The delay starts from one second again
//!   after a life of five minutes.
//! * A thread whose heartbeat did not advance for [`MAX_MISSED`] checks in a row is down as well, and up
//!   again when the heartbeat goes on. It is blocked, and a thread cannot be ended from outside. Checks are
//!   counted, not seconds, so that a process that was suspended as a whole does not report a blocked thread
//!   when it resumes.
//!
//! The state that the future works on outlives the thread: the table belongs to the gateway, and each life of
//! the thread gets a new future, made from sources that are kept.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::runtime;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

#[cfg(test)]
mod tests;

/// How often the thread counts a heartbeat.
const BEAT: Duration = Duration::from_millis(500);
/// How many checks in a row may find the same heartbeat.
const MAX_MISSED: u32 = 5;
/// How long a thread that ends waits for blocking work of its runtime, such as a load of the routes file.
const SHUTDOWN: Duration = Duration::from_secs(1);
/// The first and the longest delay before a restart.
const FIRST_DELAY: Duration = Duration::from_secs(1);
const LONGEST_DELAY: Duration = Duration::from_secs(30);
/// A life of this length resets the delay.
const STABLE: Duration = Duration::from_secs(300);

/// The work of one life of a thread. It should end soon after a stop was requested.
pub(super) type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The stop signal that a thread's work waits for.
#[derive(Clone)]
pub(super) struct Stop(watch::Receiver<bool>);

impl Stop {
    /// Completes when the thread is asked to stop.
    pub(super) async fn requested(mut self) {
        // An error means that the sender is gone. That is a stop, too.
        let _ = self.0.wait_for(|requested| *requested).await;
    }
}

pub(super) struct Supervised {
    name: &'static str,
    work: Box<dyn Fn(Stop) -> Work + Send + Sync>,
    /// Called by the thread when it ends, for whatever reason.
    on_end: Arc<dyn Fn() + Send + Sync>,
    heartbeat: Arc<Heartbeat>,
    state: Mutex<State>,
}

/// What the thread reports of itself.
struct Heartbeat {
    since: Instant,
    beats: AtomicU64,
    /// The time of the last beat, in milliseconds after `since`.
    last: AtomicU64,
    #[cfg(feature = "failpoints")]
    kill: tokio::sync::Notify,
}

/// What the supervisor knows.
struct State {
    phase: Phase,
    restarts: u64,
    /// Lives in a row that were shorter than [`STABLE`].
    failures: u32,
    /// The heartbeat at the last check, and how many checks in a row found it.
    seen: u64,
    missed: u32,
}

enum Phase {
    New,
    Running { stop: watch::Sender<bool>, thread: JoinHandle<()>, since: Instant },
    Down { until: Instant },
    Stopped,
}

/// The state of one of the gateway's threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadStatus {
    /// The thread's name.
    pub name: &'static str,
    /// Whether it runs and its heartbeat advances.
    pub up: bool,
    /// How often it was restarted.
    pub restarts: u64,
    /// The time since its last heartbeat.
    pub beat_age: Duration,
}

impl Supervised {
    /// A thread that is not started. `work` makes the work of each of its lives.
    pub(super) fn new(
        name: &'static str,
        on_end: impl Fn() + Send + Sync + 'static,
        work: impl Fn(Stop) -> Work + Send + Sync + 'static,
    ) -> Self {
        Self {
            name,
            work: Box::new(work),
            on_end: Arc::new(on_end),
            heartbeat: Arc::new(Heartbeat {
                since: Instant::now(),
                beats: AtomicU64::new(0),
                last: AtomicU64::new(0),
                #[cfg(feature = "failpoints")]
                kill: tokio::sync::Notify::new(),
            }),
            state: Mutex::new(State { phase: Phase::New, restarts: 0, failures: 0, seen: 0, missed: 0 }),
        }
    }

    /// Starts a thread that was never started. [`check`](Self::check) tries again after an error.
    pub(super) fn start(&self) -> io::Result<()> {
        let mut state = self.state.lock();
        match state.phase {
            Phase::New => self.spawn(&mut state, Instant::now()),
            _ => Ok(()),
        }
    }

    /// Restarts the thread where it is due, and returns whether the thread is up. To be called about every
    /// second.
    pub(super) fn check(&self, now: Instant) -> bool {
        let mut state = self.state.lock();
        let beats = self.heartbeat.beats.load(Ordering::Relaxed);
        state.missed = if state.seen == beats { state.missed.saturating_add(1) } else { 0 };
        state.seen = beats;
        match std::mem::replace(&mut state.phase, Phase::Stopped) {
            Phase::Running { thread, since, .. } if thread.is_finished() => {
                let how = if thread.join().is_err() { "panicked" } else { "ended" };
                if now.duration_since(since) >= STABLE {
                    state.failures = 0;
                }
                let delay = state.schedule_restart(now);
                tracing::error!("the thread {} {how} and is started again in {delay:?}", self.name);
            }
            Phase::Down { until } if until <= now => match self.spawn(&mut state, now) {
                Ok(()) => {
                    state.restarts += 1;
                    tracing::warn!("the thread {} is started again", self.name);
                }
                Err(error) => {
                    tracing::error!("the thread {} cannot be started again yet: {error}", self.name);
                }
            },
            other => state.phase = other,
        }
        state.is_up()
    }

    fn spawn(&self, state: &mut State, now: Instant) -> io::Result<()> {
        match self.try_spawn(now) {
            Ok(running) => {
                state.phase = running;
                state.missed = 0;
                Ok(())
            }
            Err(error) => {
                state.schedule_restart(now);
                Err(error)
            }
        }
    }

    fn try_spawn(&self, now: Instant) -> io::Result<Phase> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, requested) = watch::channel(false);
        let work = (self.work)(Stop(requested));
        let (heartbeat, on_end) = (Arc::clone(&self.heartbeat), Arc::clone(&self.on_end));
        heartbeat.beat();
        let thread = thread::Builder::new().name(self.name.to_owned()).spawn(move || {
            let life = || {
                runtime.block_on(async {
                    tokio::select! {
                        () = work => {}
                        () = heartbeat.run() => {}
                    }
                });
            };
            let outcome = catch_unwind(AssertUnwindSafe(life));
            runtime.shutdown_timeout(SHUTDOWN);
            on_end();
            if let Err(payload) = outcome {
                // The panic hook has counted and logged it.
                std::panic::resume_unwind(payload);
            }
        })?;
        Ok(Phase::Running { stop, thread, since: now })
    }

    pub(super) fn status(&self) -> ThreadStatus {
        let state = self.state.lock();
        ThreadStatus {
            name: self.name,
            up: state.is_up(),
            restarts: state.restarts,
            beat_age: self.heartbeat.age(),
        }
    }

    /// Asks the thread to stop. It is not restarted.
    pub(super) fn request_stop(&self) {
        let mut state = self.state.lock();
        match &state.phase {
            // An error means that the work has ended already.
            Phase::Running { stop, .. } => drop(stop.send(true)),
            _ => state.phase = Phase::Stopped,
        }
    }

    /// Stops the thread and waits for its end.
    pub(super) fn stop(&self) {
        self.request_stop();
        let phase = std::mem::replace(&mut self.state.lock().phase, Phase::Stopped);
        if let Phase::Running { thread, .. } = phase {
            // An error is a panic, which the panic hook has counted and logged.
            let _ = thread.join();
        }
    }

    /// Makes the thread panic.
    #[cfg(feature = "failpoints")]
    pub(super) fn kill(&self) {
        self.heartbeat.kill.notify_one();
    }
}

impl State {
    /// Marks the thread as down and returns the delay until its restart.
    fn schedule_restart(&mut self, now: Instant) -> Duration {
        let delay = FIRST_DELAY.saturating_mul(1 << self.failures.min(16)).min(LONGEST_DELAY);
        self.failures = self.failures.saturating_add(1);
        self.phase = Phase::Down { until: now + delay };
        delay
    }

    fn is_up(&self) -> bool {
        matches!(&self.phase, Phase::Running { thread, .. } if !thread.is_finished())
            && self.missed < MAX_MISSED
    }
}

impl Heartbeat {
    fn beat(&self) {
        let now = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(now, Ordering::Relaxed);
        self.beats.fetch_add(1, Ordering::Relaxed);
    }

    fn age(&self) -> Duration {
        self.since.elapsed().saturating_sub(Duration::from_millis(self.last.load(Ordering::Relaxed)))
    }

    async fn run(&self) {
        let mut ticks = interval(BEAT);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            #[cfg(not(feature = "failpoints"))]
            ticks.tick().await;
            #[cfg(feature = "failpoints")]
            tokio::select! {
                _ = ticks.tick() => {}
                () = self.kill.notified() => panic!("failpoint: a panic of the thread"),
            }
            self.beat();
        }
    }
}
