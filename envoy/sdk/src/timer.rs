//! Envoy timers, which belong to the thread that made them.
//!
//! The traits let a timer travel (`Send`), Envoy does not: arming or deleting one on another thread corrupts the
//! dispatcher's list. So a handle remembers its thread and does nothing but complain on any other; dropped elsewhere, it
//! leaks the timer instead. When a timer fires, the hook gets a second, borrowed handle; it goes dead if the owning one
//! is dropped meanwhile.

use std::cell::RefCell;
use std::ffi::c_void;
use std::thread::ThreadId;
use std::time::Duration;

/// The callbacks of one kind of timer.
pub(crate) struct Ops {
    pub(crate) enable: unsafe extern "C" fn(*mut c_void, u64),
    pub(crate) disable: unsafe extern "C" fn(*mut c_void),
    pub(crate) enabled: unsafe extern "C" fn(*mut c_void) -> bool,
    pub(crate) delete: unsafe extern "C" fn(*mut c_void),
}

thread_local! {
    /// The timers whose hooks are on this thread's stack, outermost first; null once deleted.
    static FIRING: RefCell<Vec<*mut c_void>> = const { RefCell::new(Vec::new()) };
}

/// A handle to a timer: the owning one, or the one lent to the hook.
pub(crate) struct Timer {
    raw: *mut c_void,
    ops: &'static Ops,
    home: ThreadId,
    /// The place in `FIRING` of a borrowed handle.
    borrowed: Option<usize>,
}

// SAFETY: every use of the pointer first checks that it happens on the thread that made the timer.
unsafe impl Send for Timer {}
// SAFETY: as above.
unsafe impl Sync for Timer {}

impl Timer {
    /// Takes ownership of a timer of Envoy's making.
    ///
    /// # Safety
    /// `raw` must come from the `_timer_new` callback that belongs to `ops`, called on this thread, and be owned by
    /// nobody else.
    pub(crate) unsafe fn own(raw: *mut c_void, ops: &'static Ops) -> Self {
        Self { raw, ops, home: std::thread::current().id(), borrowed: None }
    }

    /// Runs the hook of a timer that has fired.
    ///
    /// # Safety
    /// `raw` must be the timer Envoy called this hook with, of the kind of `ops`.
    pub(crate) unsafe fn fire(raw: *mut c_void, ops: &'static Ops, hook: impl FnOnce(&Self)) {
        let place = FIRING.with_borrow_mut(|firing| {
            firing.push(raw);
            firing.len() - 1
        });
        let timer = Self { raw, ops, home: std::thread::current().id(), borrowed: Some(place) };
        hook(&timer);
        FIRING.with_borrow_mut(|firing| firing.truncate(place));
    }

    pub(crate) fn id(&self) -> usize {
        self.raw.addr()
    }

    pub(crate) fn enable(&self, delay: Duration) {
        // Envoy counts in signed milliseconds.
        let delay = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX).min(i64::MAX.cast_unsigned());
        if let Some(raw) = self.usable() {
            // SAFETY: `usable` says that the timer exists and that this is its thread.
            unsafe { (self.ops.enable)(raw, delay) };
        }
    }

    pub(crate) fn disable(&self) {
        if let Some(raw) = self.usable() {
            // SAFETY: `usable` says that the timer exists and that this is its thread.
            unsafe { (self.ops.disable)(raw) };
        }
    }

    pub(crate) fn enabled(&self) -> bool {
        // SAFETY: `usable` says that the timer exists and that this is its thread.
        self.usable().is_some_and(|raw| unsafe { (self.ops.enabled)(raw) })
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
            unsafe { (self.ops.delete)(raw) };
        }
    }
}
