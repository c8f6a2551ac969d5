//! Timers of the main thread.
//!
//! The official trait is `Send`, but Envoy's timers belong to the thread that made them: arming or deleting
//! one on another thread corrupts the dispatcher's list. A handle therefore remembers its thread. On any
//! other thread it only logs, and dropping it there leaks the timer. When a timer fires, the hook gets a
//! second, borrowed handle. Dropping the owning handle in that hook makes the borrowed one dead.

use std::cell::RefCell;
use std::ffi::c_void;
use std::thread::ThreadId;
use std::time::Duration;

use crate::abi;

/// A timer on the main thread. Use and drop it there: elsewhere it does nothing, and leaks.
pub trait EnvoyBootstrapExtensionTimer: Send + Sync {
    /// Arms the timer, or arms it anew.
    fn enable(&self, delay: Duration);
}

thread_local! {
    /// The timers whose hooks are on this thread's stack, outermost first; null once deleted.
    static FIRING: RefCell<Vec<*mut c_void>> = const { RefCell::new(Vec::new()) };
}

/// A handle to a timer: the owning one, or the one lent to the hook.
pub(super) struct Timer {
    raw: *mut c_void,
    home: ThreadId,
    /// The place in `FIRING` of a borrowed handle.
    borrowed: Option<usize>,
}

// SAFETY: every use of the pointer first checks that it happens on the thread that made the timer.
unsafe impl Send for Timer {}
// SAFETY: a shared handle checks the thread in the same way.
unsafe impl Sync for Timer {}

impl Timer {
    /// Makes a timer, not yet armed.
    ///
    /// # Safety
    /// `config` must be the config of the running hook.
    pub(super) unsafe fn new(
        config: abi::envoy_dynamic_module_type_bootstrap_extension_config_envoy_ptr,
    ) -> Self {
        // SAFETY: the caller passes a live config, on the main thread; the timer is ours until `delete`.
        let raw = unsafe { abi::envoy_dynamic_module_callback_bootstrap_extension_timer_new(config) };
        Self { raw, home: std::thread::current().id(), borrowed: None }
    }

    /// Runs the hook of a timer that has fired.
    ///
    /// # Safety
    /// `raw` must be the timer Envoy called this hook with.
    pub(super) unsafe fn fire(raw: *mut c_void, hook: impl FnOnce(&Self)) {
        let place = FIRING.with_borrow_mut(|firing| {
            firing.push(raw);
            firing.len() - 1
        });
        let timer = Self { raw, home: std::thread::current().id(), borrowed: Some(place) };
        hook(&timer);
        FIRING.with_borrow_mut(|firing| firing.truncate(place));
    }

    /// The timer, if it may be used here and now.
    fn usable(&self) -> Option<*mut c_void> {
        if std::thread::current().id() != self.home {
            crate::envoy_log_error!("a timer was used on a thread it does not belong to");
            return None;
        }
        match self.borrowed {
            None => Some(self.raw),
            Some(place) => {
                FIRING.with_borrow(|firing| firing.get(place).copied()).filter(|raw| !raw.is_null())
            }
        }
    }
}

impl EnvoyBootstrapExtensionTimer for Timer {
    fn enable(&self, delay: Duration) {
        // Envoy counts in signed milliseconds.
        let delay = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX).min(i64::MAX.cast_unsigned());
        if let Some(raw) = self.usable() {
            // SAFETY: `usable` has checked that the timer exists and that this is its thread.
            unsafe { abi::envoy_dynamic_module_callback_bootstrap_extension_timer_enable(raw, delay) };
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        if self.borrowed.is_some() {
            return;
        }
        if let Some(raw) = self.usable() {
            FIRING.with_borrow_mut(|firing| {
                for entry in firing.iter_mut().filter(|entry| **entry == raw) {
                    *entry = std::ptr::null_mut();
                }
            });
            // SAFETY: owned by this handle alone, deleted here and only here, on its own thread.
            unsafe { abi::envoy_dynamic_module_callback_bootstrap_extension_timer_delete(raw) };
        }
    }
}
