//! Picking a host now or later.
//!
//! A later answer races with the end of the request it is for, after which Envoy's pointers are void. Both sides share a
//! [`Selection`]: the completion delivers only while it is pending, and Envoy's cancellation ends it first. A completion
//! that arrives while `choose_host` is still running becomes that hook's synchronous answer, and one that is dropped
//! undelivered answers "no host", because a request must not wait for nobody.
//!
//! Envoy itself checks a delivered answer against the *latest* selection of the load balancer, so an answer delivered in
//! the same moment as the cancellation of its request relies on Envoy. Holding the request in an HTTP filter until the
//! host is known avoids that path altogether.

use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::abi::{self, envoy_dynamic_module_type_cluster_host_envoy_ptr as HostPtr};
use crate::ffi::lend;

/// The answer of [`ClusterLb::choose_host`](super::ClusterLb::choose_host).
pub enum HostSelectionResult {
    /// This host.
    Selected(HostPtr),
    /// None; Envoy answers 503.
    NoHost,
    /// Later, through the completion. The handle is told if Envoy stops waiting.
    AsyncPending(Box<dyn AsyncHostSelectionHandle>),
}

/// The module's side of a pending selection.
pub trait AsyncHostSelectionHandle: Send {
    /// Envoy has stopped waiting; an answer will be ignored. Not called once the answer is delivered.
    fn cancel(&mut self);
}

/// Delivers the answer of a pending selection, from any thread. Dropping it undelivered answers "no host".
///
/// Left out: `request_context`, whose view outlives the request it looks at.
pub trait EnvoyAsyncHostSelectionComplete: Send {
    /// Delivers the host, or `None`; `details` says why there is none.
    fn complete(self: Box<Self>, host: Option<HostPtr>, details: &str);
}

/// How far a selection has come.
enum State {
    /// `choose_host` is running, or has answered without waiting.
    Choosing,
    /// The completion was used before `choose_host` answered, or although it did not want to wait. A host is kept by
    /// address.
    Answered(Option<usize>),
    /// Envoy waits for the completion.
    Pending,
    /// Answered or cancelled.
    Over,
}

/// What the two sides share.
pub(super) struct Selection(Mutex<State>);

impl Selection {
    pub(super) fn new() -> Self {
        Self(Mutex::new(State::Choosing))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts over, for the next request; nobody else may hold on to it.
    pub(super) fn restart(&mut self) {
        *self.0.get_mut().unwrap_or_else(PoisonError::into_inner) = State::Choosing;
    }

    /// `choose_host` wants to wait. `Some` is the answer if it is there already.
    pub(super) fn wait(&self) -> Option<HostPtr> {
        let mut state = self.state();
        match *state {
            State::Answered(host) => {
                *state = State::Over;
                Some(host.map_or(std::ptr::null_mut(), |host| host as HostPtr))
            }
            State::Choosing => {
                *state = State::Pending;
                None
            }
            State::Pending | State::Over => None,
        }
    }

    /// Envoy lets go of the handle. Whether it was still waiting.
    pub(super) fn cancel(&self) -> bool {
        matches!(std::mem::replace(&mut *self.state(), State::Over), State::Pending)
    }
}

/// The real [`EnvoyAsyncHostSelectionComplete`].
pub(super) struct Completion {
    selection: Arc<Selection>,
    raw_lb: *mut c_void,
    raw_context: *mut c_void,
}

// SAFETY: the pointers are passed to one callback only, which may be called from any thread.
unsafe impl Send for Completion {}

impl Completion {
    /// # Safety
    /// The pointers must be those of the `choose_host` hook that `selection` is for.
    pub(super) unsafe fn new(
        selection: Arc<Selection>,
        raw_lb: *mut c_void,
        raw_context: *mut c_void,
    ) -> Self {
        Self { selection, raw_lb, raw_context }
    }

    fn deliver(&self, host: Option<HostPtr>, details: &str) {
        {
            let mut state = self.selection.state();
            match *state {
                State::Choosing => {
                    *state = State::Answered(host.map(|host| host as usize));
                    return;
                }
                State::Pending => *state = State::Over,
                State::Answered(_) | State::Over => return,
            }
        }
        // The lock is free: Envoy may let go of the handle before the call returns.
        // SAFETY: the selection was pending, so Envoy has not cancelled it: load balancer and context are those of a
        // waiting request. Envoy checks the host, and copies the details before the call returns.
        unsafe {
            abi::envoy_dynamic_module_callback_cluster_lb_async_host_selection_complete(
                self.raw_lb,
                self.raw_context,
                host.unwrap_or(std::ptr::null_mut()),
                lend(details.as_bytes()),
            );
        }
    }
}

impl EnvoyAsyncHostSelectionComplete for Completion {
    fn complete(self: Box<Self>, host: Option<HostPtr>, details: &str) {
        self.deliver(host, details);
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        self.deliver(None, "host selection abandoned");
    }
}

/// What Envoy holds while it waits.
pub(super) struct Waiting {
    pub(super) handle: Box<dyn AsyncHostSelectionHandle>,
    pub(super) selection: Arc<Selection>,
}
