//! What a pause does to a sandbox's pod.
//!
//! A strategy says what to do to the pod and when the sandbox is paused. [`Stop`] is the one that needs
//! nothing of the cluster: it deletes the pod. Memory and file system are lost; volume claims survive. A
//! runtime that keeps a pod's state brings a strategy of its own.

use sandgate_objects::openkruise::names;
use sandgate_objects::openkruise::resources::{PauseType, Sandbox};
use serde_json::Value;

use crate::view::{PodFacts, Seen};

/// How long a pod has to end by itself when it is stopped, in seconds.
pub(super) const STOP_GRACE: u32 = 5;

/// How a sandbox pauses and resumes.
pub trait PauseStrategy: Send + Sync + 'static {
    /// Whether this sandbox can pause.
    ///
    /// # Errors
    /// Why not. Nothing is done to the pod then.
    fn accept(&self, sandbox: &Sandbox) -> Result<(), Refusal>;

    /// The next step of the pause of a sandbox with this pod.
    fn pause(&self, pod: Option<&Seen<PodFacts>>) -> Pausing;

    /// Whether a sandbox that is paused still has its pod, and resumes with it.
    fn keeps_pod(&self) -> bool {
        false
    }

    /// Whether the sandbox has to stay until the pause's leftovers are cleaned up.
    fn needs_finalizer(&self) -> bool {
        false
    }

    /// The pod that a sandbox resumes with, from the one that its template asks for.
    fn resume(&self, _sandbox: &Sandbox, pod: Value) -> Value {
        pod
    }
}

/// Why a sandbox cannot pause: reason and message of the condition `SandboxPaused`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// In one word for programs.
    pub reason: &'static str,
    /// For people.
    pub message: String,
}

/// The next step of a pause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pausing {
    /// Delete the pod, with this many seconds to end by itself.
    DeletePod {
        /// The seconds.
        grace: u32,
    },
    /// Wait for the pod to change.
    Wait,
    /// The sandbox is paused: the reason of the condition.
    Done(&'static str),
}

/// Deletes the pod.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stop;

impl PauseStrategy for Stop {
    fn accept(&self, _: &Sandbox) -> Result<(), Refusal> {
        Ok(())
    }

    fn pause(&self, pod: Option<&Seen<PodFacts>>) -> Pausing {
        match pod {
            None => Pausing::Done(names::REASON_STOP_PAUSE_SUCCEED),
            Some(pod) if pod.is_deleting => Pausing::Wait,
            Some(_) => Pausing::DeletePod { grace: STOP_GRACE },
        }
    }
}

/// Refuses: no runtime that could keep a pod's state is installed.
#[derive(Clone, Copy, Debug, Default)]
struct NoRuntime;

/// Why `Hibernate` is refused.
pub(super) const REASON_HIBERNATE_UNSUPPORTED: &str = "HibernateUnsupported";

impl PauseStrategy for NoRuntime {
    fn accept(&self, _: &Sandbox) -> Result<(), Refusal> {
        Err(Refusal {
            reason: REASON_HIBERNATE_UNSUPPORTED,
            message: "no runtime that keeps a pod's state is installed; the pod goes on running. \
                      The strategy Stop pauses without keeping it"
                .to_owned(),
        })
    }

    /// Only for a pause that began under another strategy.
    fn pause(&self, pod: Option<&Seen<PodFacts>>) -> Pausing {
        Stop.pause(pod)
    }
}

/// The strategies that are installed.
#[derive(Default)]
pub struct Pauses {
    /// The one for `Hibernate`, if there is a runtime for it.
    pub hibernate: Option<Box<dyn PauseStrategy>>,
}

impl Pauses {
    /// The strategy of a sandbox.
    pub fn of(&self, sandbox: &Sandbox) -> &dyn PauseStrategy {
        match sandbox.spec.pause_strategy.as_ref().and_then(|strategy| strategy.type_) {
            None | Some(PauseType::Stop) => &Stop,
            Some(PauseType::Hibernate) => match &self.hibernate {
                Some(strategy) => &**strategy,
                None => &NoRuntime,
            },
        }
    }
}
