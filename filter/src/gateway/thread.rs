//! A thread of the gateway, watched from Envoy's main thread.
//!
//! The thread runs one future on a runtime of its own until it is asked to stop. Beside the future it counts a pulse,
//! every half second. The main thread looks at it on a timer of Envoy's ([`Watched::look`]):
//!
//! * A thread that has ended without being asked to (by a panic, or because its future ended) is down. It is started
//!   again after a wait that doubles from one second to half a minute, for ever: a gateway that gave up would serve an
//!   ever older table. A thread that has lived for five minutes is forgiven what happened before.
//! * A thread whose pulse has stood still for [`MISSES`] looks in a row is down as well, and up again when the pulse goes
//!   on: it is blocked, and nobody can end a thread from outside. Looks are counted, not seconds, so that a process that
//!   was stopped as a whole and goes on is not taken for one whose thread is blocked.
//!
//! What the future works on outlives the thread: the table belongs to the gateway, and a future is made anew for each
//! life from sources that are kept.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::runtime;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

#[cfg(test)]
mod tests;

/// How often the thread counts its pulse.
const BEAT: Duration = Duration::from_millis(500);
/// How many looks in a row may find the pulse where the last one found it.
const MISSES: u32 = 5;
/// How long a thread that ends waits for blocking work of its runtime, such as a load of the routes file.
const STOP: Duration = Duration::from_secs(1);
/// The first and the longest wait before a thread is started again.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// A thread that has lived this long begins with the first wait again.
const FORGIVEN: Duration = Duration::from_secs(300);

/// The work of one life of a thread. It should end soon after it was asked to stop.
pub(crate) type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Tells the work of a thread to stop.
#[derive(Clone)]
pub(crate) struct Stop(watch::Receiver<bool>);

impl Stop {
    /// Waits until the thread is asked to stop.
    pub(crate) async fn asked(mut self) {
        // An error says that whoever asks is gone, which is as good.
        let _asked = self.0.wait_for(|asked| *asked).await;
    }
}

pub(crate) struct Watched {
    name: &'static str,
    work: Box<dyn Fn(Stop) -> Work + Send + Sync>,
    /// Called by the thread when it ends, however it does.
    on_end: Arc<dyn Fn() + Send + Sync>,
    pulse: Arc<Pulse>,
    state: Mutex<State>,
}

/// What the thread says of itself.
struct Pulse {
    since: Instant,
    beats: AtomicU64,
    /// Of the last beat, in milliseconds since `since`.
    at: AtomicU64,
    #[cfg(feature = "failpoints")]
    kill: tokio::sync::Notify,
}

/// What the main thread knows. Only it takes the lock, but for a page that is read.
struct State {
    phase: Phase,
    restarts: u64,
    /// Starts in a row that did not last.
    failures: u32,
    /// The pulse at the last look, and for how many looks it has stood still.
    seen: u64,
    misses: u32,
}

enum Phase {
    Waiting,
    Running { stop: watch::Sender<bool>, thread: JoinHandle<()>, since: Instant },
    Down { until: Instant },
    Done,
}

/// How a thread is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ThreadStatus {
    pub(crate) name: &'static str,
    /// It runs and its pulse goes.
    pub(crate) up: bool,
    pub(crate) restarts: u64,
    /// Since its last pulse.
    pub(crate) beat_age: Duration,
}

impl Watched {
    /// A thread that is not started. `work` makes the work of each of its lives.
    pub(crate) fn new(
        name: &'static str,
        on_end: impl Fn() + Send + Sync + 'static,
        work: impl Fn(Stop) -> Work + Send + Sync + 'static,
    ) -> Self {
        Self {
            name,
            work: Box::new(work),
            on_end: Arc::new(on_end),
            pulse: Arc::new(Pulse {
                since: Instant::now(),
                beats: AtomicU64::new(0),
                at: AtomicU64::new(0),
                #[cfg(feature = "failpoints")]
                kill: tokio::sync::Notify::new(),
            }),
            state: Mutex::new(State { phase: Phase::Waiting, restarts: 0, failures: 0, seen: 0, misses: 0 }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the thread, if it never was. If it cannot be started, [`look`](Self::look) tries again.
    pub(crate) fn start(&self) -> io::Result<()> {
        let mut state = self.lock();
        match state.phase {
            Phase::Waiting => self.spawn(&mut state, Instant::now()),
            _ => Ok(()),
        }
    }

    /// Looks after the thread: call it about every second. Says whether the thread is up.
    pub(crate) fn look(&self, now: Instant) -> bool {
        let mut state = self.lock();
        let beats = self.pulse.beats.load(Ordering::Relaxed);
        state.misses = if state.seen == beats { state.misses.saturating_add(1) } else { 0 };
        state.seen = beats;
        match std::mem::replace(&mut state.phase, Phase::Done) {
            Phase::Running { thread, since, .. } if thread.is_finished() => {
                let how = if thread.join().is_err() { "panicked" } else { "ended" };
                if now.duration_since(since) >= FORGIVEN {
                    state.failures = 0;
                }
                let wait = state.fail(now);
                tracing::error!("the thread {} {how} and is started again in {wait:?}", self.name);
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
        let spawned = self.try_spawn(now);
        match spawned {
            Ok(running) => {
                state.phase = running;
                state.misses = 0;
                Ok(())
            }
            Err(error) => {
                state.fail(now);
                Err(error)
            }
        }
    }

    fn try_spawn(&self, now: Instant) -> io::Result<Phase> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopping) = watch::channel(false);
        let work = (self.work)(Stop(stopping));
        let (pulse, on_end) = (Arc::clone(&self.pulse), Arc::clone(&self.on_end));
        pulse.beat();
        let thread = thread::Builder::new().name(self.name.to_owned()).spawn(move || {
            let life = || {
                runtime.block_on(async {
                    tokio::select! {
                        () = work => {}
                        () = pulse.beats() => {}
                    }
                });
            };
            let lived = catch_unwind(AssertUnwindSafe(life));
            runtime.shutdown_timeout(STOP);
            on_end();
            if let Err(payload) = lived {
                // It has been counted and logged when it began.
                std::panic::resume_unwind(payload);
            }
        })?;
        Ok(Phase::Running { stop, thread, since: now })
    }

    pub(crate) fn status(&self) -> ThreadStatus {
        let state = self.lock();
        ThreadStatus {
            name: self.name,
            up: state.is_up(),
            restarts: state.restarts,
            beat_age: self.pulse.age(),
        }
    }

    /// Asks the thread to stop. It is not started again.
    pub(crate) fn ask_to_stop(&self) {
        let mut state = self.lock();
        match &state.phase {
            Phase::Running { stop, .. } => {
                let _listening = stop.send(true);
            }
            _ => state.phase = Phase::Done,
        }
    }

    /// Stops the thread and waits for it.
    pub(crate) fn stop(&self) {
        self.ask_to_stop();
        let phase = std::mem::replace(&mut self.lock().phase, Phase::Done);
        if let Phase::Running { thread, .. } = phase {
            // A panic of the thread has been counted and logged.
            let _ = thread.join();
        }
    }

    /// Makes the thread panic.
    #[cfg(feature = "failpoints")]
    pub(crate) fn kill(&self) {
        self.pulse.kill.notify_one();
    }
}

impl State {
    /// The thread is down. Says how long it stays so.
    fn fail(&mut self, now: Instant) -> Duration {
        let wait = FIRST_WAIT.saturating_mul(1 << self.failures.min(16)).min(LONGEST_WAIT);
        self.failures = self.failures.saturating_add(1);
        self.phase = Phase::Down { until: now + wait };
        wait
    }

    fn is_up(&self) -> bool {
        matches!(&self.phase, Phase::Running { thread, .. } if !thread.is_finished()) && self.misses < MISSES
    }
}

impl Pulse {
    fn beat(&self) {
        let now = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.at.store(now, Ordering::Relaxed);
        self.beats.fetch_add(1, Ordering::Relaxed);
    }

    fn age(&self) -> Duration {
        self.since.elapsed().saturating_sub(Duration::from_millis(self.at.load(Ordering::Relaxed)))
    }

    async fn beats(&self) {
        let mut beats = interval(BEAT);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            #[cfg(not(feature = "failpoints"))]
            beats.tick().await;
            #[cfg(feature = "failpoints")]
            tokio::select! {
                _ = beats.tick() => {}
                () = self.kill.notified() => panic!("failpoint: a panic of the thread"),
            }
            self.beat();
        }
    }
}
