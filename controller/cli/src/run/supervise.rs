//! Supervises Envoy from its start to its end. In a container this is process 1.
//!
//! # Signals
//!
//! The first SIGINT or SIGTERM drains, the second ends Envoy at once. SIGHUP replaces Envoy if hot restarts
//! are on. SIGUSR1, and SIGHUP without hot restarts, are passed on to Envoy.
//!
//! # Drain
//!
//! 1. Envoy's `/ready` answers 503, every response asks its client to reconnect elsewhere, and the module
//!    stops to acknowledge pushes.
//! 2. During `--drain-delay` nothing else changes. New connections are served, because load balancers and
//!    Kubernetes need that time to learn of the drain.
//! 3. Requests under way, WebSockets included, may finish within `--drain-time`.
//! 4. Envoy gets SIGTERM.
//!
//! Envoy is never restarted: when it ends, this process ends with its exit code, and its own supervisor
//! decides.

use std::ops::ControlFlow;
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

use rustix::process::{Pid, Signal};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::RunError;
use super::process::{Launch, Process, Ready, exit_code, exit_number};
use super::restart::Restarts;
use super::signals::{Asked, Orphans, Signals};
use super::waiting::Waiting;
use crate::failure::Failure;
use crate::terminal::note;

/// How long Envoy may take to end after SIGTERM.
const PATIENCE: Duration = Duration::from_secs(10);
const STEP: Duration = Duration::from_millis(50);

pub(super) struct Supervisor {
    launch: Launch,
    serving: Process,
    /// Takes over when it is ready.
    successor: Option<Process>,
    /// Has been taken over from, and finishes its requests.
    predecessor: Option<Process>,
    restarts: Option<Restarts>,
    /// A restart is asked for that cannot begin yet.
    again: bool,
    signals: Signals,
    orphans: Orphans,
}

/// How the start went.
pub(super) enum Started {
    Ready(Ready),
    Ended(ExitCode),
}

/// What ended a wait.
enum Event {
    Ended(ExitStatus),
    SuccessorEnded(ExitStatus),
    PredecessorEnded,
    Asked(Asked),
    Later,
}

impl Supervisor {
    /// Starts Envoy. It can be replaced if there are `restarts`.
    pub(super) fn start(launch: Launch, restarts: Option<Restarts>) -> Result<Self, RunError> {
        let signals = Signals::new().map_err(RunError::Signals)?;
        let orphans = Orphans::new().map_err(RunError::Signals)?;
        let serving = Process::start(&launch)?;
        Ok(Self {
            launch,
            serving,
            successor: None,
            predecessor: None,
            restarts,
            again: false,
            signals,
            orphans,
        })
    }

    /// Waits until the gateway serves, or has ended because it was asked to.
    pub(super) async fn until_ready(&mut self) -> Result<Started, Failure> {
        let mut waiting = Waiting::new();
        loop {
            match self.event(STEP).await {
                Event::Ended(status) => {
                    return Err(Failure::Envoy { code: exit_number(status).max(1), status });
                }
                Event::Asked(Asked::End) => {
                    // It may serve since it was last asked.
                    if self.serving.ready().await.is_some() {
                        return Ok(Started::Ended(self.drain().await));
                    }
                    self.send(Signal::TERM);
                    return Ok(Started::Ended(self.end().await));
                }
                Event::Asked(asked) => self.pass_on(asked),
                Event::SuccessorEnded(_) | Event::PredecessorEnded | Event::Later => {}
            }
            if let Some(ready) = self.serving.ready().await {
                return Ok(Started::Ready(ready));
            }
            if let Some(admin) = self.serving.admin() {
                waiting.report(admin).await;
            }
        }
    }

    /// Waits until Envoy ends, and does what is asked meanwhile.
    pub(super) async fn until_end(mut self) -> ExitCode {
        loop {
            let wait = if self.successor.is_some() { STEP } else { Duration::MAX };
            if let ControlFlow::Break(code) = self.go_on(wait).await {
                return code;
            }
        }
    }

    async fn go_on(&mut self, wait: Duration) -> ControlFlow<ExitCode> {
        match self.event(wait).await {
            Event::Ended(status) => return ControlFlow::Break(exit_code(status)),
            Event::Asked(Asked::End) => return ControlFlow::Break(self.drain().await),
            Event::Asked(Asked::Reload) if self.restarts.is_some() => self.restart().await,
            Event::Asked(asked) => self.pass_on(asked),
            Event::SuccessorEnded(status) => {
                self.successor = None;
                note(&format!(
                    "the next Envoy ended before it was ready ({status}): the old one goes on, without its admin pages"
                ));
            }
            Event::PredecessorEnded => {
                self.predecessor = None;
                note("the old Envoy has ended");
                if std::mem::take(&mut self.again) {
                    self.restart().await;
                }
            }
            Event::Later => self.take_over().await,
        }
        ControlFlow::Continue(())
    }

    /// Starts the next Envoy beside the one that serves, which goes on until the next one is ready.
    async fn restart(&mut self) {
        let Some(restarts) = &mut self.restarts else { return };
        if self.successor.is_some() || self.predecessor.is_some() {
            self.again = true;
            note("a restart is under way: the next one begins when the old Envoy has ended");
            return;
        }
        let started = match restarts.next(&self.launch).await {
            Ok(launch) => Process::start(&launch),
            Err(error) => Err(error),
        };
        match started {
            Ok(next) => self.successor = Some(next),
            Err(error) => note(&format!("no restart, the gateway goes on as it was: {error}")),
        }
    }

    /// Makes the next Envoy the one that serves, once it does.
    async fn take_over(&mut self) {
        let Some(next) = &mut self.successor else { return };
        if next.ready().await.is_none() {
            return;
        }
        if let (Some(next), Some(restarts)) = (self.successor.take(), &mut self.restarts) {
            restarts.done();
            self.predecessor = Some(std::mem::replace(&mut self.serving, next));
            let seconds = self.launch.drain.total().as_secs().max(1);
            note(&format!("the next Envoy serves; the old one ends its requests and itself in {seconds} s"));
        }
    }

    /// See the head of this file.
    async fn drain(&mut self) -> ExitCode {
        let drain = self.launch.drain;
        let serve_until = Instant::now() + drain.delay;
        let deadline = serve_until + drain.time;
        if let Some(next) = self.successor.take() {
            // Nobody is served by it yet.
            next.send(Signal::KILL);
        }
        let draining = self.serving.begin_drain().await;
        if !draining {
            note("Envoy's admin pages do not answer, so that it cannot be drained");
        }
        if draining && !drain.total().is_zero() {
            note(&format!(
                "draining: new requests are served for {} s, and may take {} s more at most; once more to end at once",
                drain.delay.as_secs(),
                drain.time.as_secs()
            ));
            loop {
                let now = Instant::now();
                if now >= deadline || (now >= serve_until && self.is_idle().await) {
                    break;
                }
                match self.event(STEP).await {
                    Event::Ended(status) => return exit_code(status),
                    Event::Asked(Asked::End) => {
                        self.send(Signal::KILL);
                        break;
                    }
                    Event::Asked(asked) => self.pass_on(asked),
                    Event::PredecessorEnded => self.predecessor = None,
                    Event::SuccessorEnded(_) | Event::Later => {}
                }
            }
        }
        self.send(Signal::TERM);
        self.end().await
    }

    /// Whether nobody waits for an answer. A predecessor has no admin pages to ask.
    async fn is_idle(&mut self) -> bool {
        self.predecessor.is_none() && self.serving.requests_under_way().await == Some(0)
    }

    /// Waits for Envoy to end after it was told to.
    async fn end(&mut self) -> ExitCode {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.event(deadline.saturating_duration_since(Instant::now())).await {
                Event::Ended(status) => {
                    if let Some(mut old) = self.predecessor.take() {
                        // It is killed if it has not ended by then.
                        let _ = timeout_at(deadline, old.ended()).await;
                    }
                    return exit_code(status);
                }
                Event::PredecessorEnded => self.predecessor = None,
                Event::Asked(Asked::End) | Event::Later => self.send(Signal::KILL),
                Event::Asked(_) | Event::SuccessorEnded(_) => {}
            }
        }
    }

    fn pass_on(&self, asked: Asked) {
        match asked {
            Asked::End => {}
            Asked::Reload => self.send(Signal::HUP),
            Asked::ReopenLogs => self.send(Signal::USR1),
        }
    }

    /// To every Envoy there is.
    fn send(&self, signal: Signal) {
        for process in self.processes() {
            process.send(signal);
        }
    }

    fn processes(&self) -> impl Iterator<Item = &Process> {
        std::iter::once(&self.serving).chain(&self.successor).chain(&self.predecessor)
    }

    async fn event(&mut self, at_most: Duration) -> Event {
        let until = Instant::now().checked_add(at_most);
        loop {
            tokio::select! {
                biased;
                status = self.serving.ended() => return Event::Ended(status),
                status = ended(&mut self.successor) => return Event::SuccessorEnded(status),
                _ = ended(&mut self.predecessor) => return Event::PredecessorEnded,
                asked = self.signals.next() => return Event::Asked(asked),
                () = self.orphans.next() => {
                    let own: Vec<Pid> = self.processes().map(Process::pid).collect();
                    Orphans::reap(&own);
                }
                () = at(until) => return Event::Later,
            }
        }
    }
}

async fn ended(process: &mut Option<Process>) -> ExitStatus {
    match process {
        Some(process) => process.ended().await,
        None => std::future::pending().await,
    }
}

/// `None` is never.
async fn at(until: Option<Instant>) {
    match until {
        Some(until) => sleep_until(until).await,
        None => std::future::pending().await,
    }
}
