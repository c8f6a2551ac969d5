//! What is asked of this process by signals, and the orphans that the kernel gives it where it is process 1.

use std::io;

use rustix::process::{Pid, WaitOptions, waitpid};
use tokio::signal::unix::{self, SignalKind, signal};

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// SIGINT or SIGTERM.
    End,
    /// SIGHUP.
    Reload,
    /// SIGUSR1, by which Envoy opens its log files anew.
    ReopenLogs,
}

pub(super) struct Signals {
    interrupt: unix::Signal,
    terminate: unix::Signal,
    hangup: unix::Signal,
    user: unix::Signal,
}

impl Signals {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            user: signal(SignalKind::user_defined1())?,
        })
    }

    pub(super) async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.interrupt.recv() => Asked::End,
            _ = self.terminate.recv() => Asked::End,
            _ = self.hangup.recv() => Asked::Reload,
            _ = self.user.recv() => Asked::ReopenLogs,
        }
    }
}

/// Reaps the children that this process did not start. Only process 1 has any: the kernel gives it every
/// process whose parent has ended, and one that is not waited for keeps its place in the table of processes
/// for ever. In a container these are what a probe or `kubectl exec` left behind.
pub(super) struct Orphans {
    /// `None` where somebody else is process 1.
    ended: Option<unix::Signal>,
}

impl Orphans {
    pub(super) fn new() -> io::Result<Self> {
        let ended = if std::process::id() == 1 { Some(signal(SignalKind::child())?) } else { None };
        Ok(Self { ended })
    }

    /// Waits until a child ends, ours or not.
    pub(super) async fn next(&mut self) {
        match &mut self.ended {
            Some(ended) => {
                ended.recv().await;
            }
            None => std::future::pending().await,
        }
    }

    /// Reaps every child that has ended but `own`, whose ends are waited for elsewhere.
    pub(super) fn reap(own: &[Pid]) {
        let children = std::fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
        let children = children.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?));
        for orphan in children.filter(|pid| !own.contains(pid)) {
            // A child that still runs, or is gone meanwhile, is nothing to reap.
            let _ = waitpid(Some(orphan), WaitOptions::NOHANG);
        }
    }
}
