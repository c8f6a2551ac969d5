//! Nothing unwinds into Envoy.
//!
//! Every hook runs inside `guard`. A panic in it is caught, counted ([`panics`]) and logged once, and the
//! hook answers with a value that fails closed; what that is stands at each hook. The log line names the hook
//! and the place in the source. It repeats the panic's message only if that is a string literal: a formatted
//! message may quote what the code was looking at (slicing a `str` in the wrong place prints the `str`), and
//! that may be a client's header.
//!
//! For the same reason `program_init` replaces the process's panic hook, which would print such a message to
//! stderr. The replacement is silent for panics inside a guarded hook. It counts all others (the module's own
//! threads) and passes them to the hook that was there before. It is installed after the program's own init,
//! so a hook that the init sets is the one it passes them to, and does not take its place.
//!
//! # What is counted
//! Each panic once: inside a guarded hook when it is caught, by the guard or by code that hands it to
//! [`report_panic`]; elsewhere when it begins, because a runtime or a `catch_unwind` may swallow it. A panic
//! inside a hook that the module's own code catches and does not report is not counted.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(not(panic = "unwind"))]
compile_error!("a panic must unwind: with panic = \"abort\" one bad request would take Envoy down");

static PANICS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// How many guards are on this thread's stack.
    static GUARDS: Cell<u32> = const { Cell::new(0) };
    /// Where the last guarded panic of this thread happened.
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// How many panics there have been since the module was loaded: those that were caught in hooks, and those of
/// the module's own threads. Not part of the official SDK.
pub fn panics() -> u64 {
    PANICS.load(Ordering::Relaxed)
}

/// The mark of a caught panic; it has been counted and logged.
pub(crate) struct Panicked;

/// Runs the body of a hook.
#[inline]
pub(crate) fn guard<R>(hook: &'static str, body: impl FnOnce() -> R) -> Result<R, Panicked> {
    GUARDS.set(GUARDS.get() + 1);
    let result = catch_unwind(AssertUnwindSafe(body));
    GUARDS.set(GUARDS.get() - 1);
    result.map_err(|payload| caught(hook, payload))
}

/// Drops a value of the module, whose `Drop` may panic.
#[inline]
pub(crate) fn drop_guarded<T>(hook: &'static str, value: T) {
    // `guard` has counted and logged a panic, and a destructor has no answer to give.
    let _ = guard(hook, || drop(value));
}

/// Counts and logs a panic that the module's own code has caught inside a hook: for a hook that has a better
/// answer than the guard's. Not part of the official SDK.
pub fn report_panic(hook: &'static str, payload: Box<dyn Any + Send>) {
    caught(hook, payload);
}

#[cold]
#[inline(never)]
fn caught(hook: &'static str, payload: Box<dyn Any + Send>) -> Panicked {
    PANICS.fetch_add(1, Ordering::Relaxed);
    let place = PLACE.with_borrow_mut(Option::take);
    let place = place.as_deref().unwrap_or("an unknown place");
    match payload.downcast_ref::<&'static str>() {
        Some(literal) => crate::envoy_log_error!("{hook}: panic at {place}: {literal}"),
        None => crate::envoy_log_error!("{hook}: panic at {place}"),
    }
    discard(payload);
    Panicked
}

/// Drops a panic's payload, whose own `Drop` may panic: that one belongs to the panic that has been counted.
fn discard(payload: Box<dyn Any + Send>) {
    GUARDS.set(GUARDS.get() + 1);
    let dropped = catch_unwind(AssertUnwindSafe(|| drop(payload)));
    GUARDS.set(GUARDS.get() - 1);
    if let Err(again) = dropped {
        std::mem::forget(again);
    }
}

/// Replaces the panic hook, once.
fn replace_panic_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info: &PanicHookInfo<'_>| {
            if GUARDS.get() == 0 {
                PANICS.fetch_add(1, Ordering::Relaxed);
                before(info);
            } else {
                PLACE.set(info.location().map(ToString::to_string));
            }
        }));
    });
}

/// For the `declare_*` macros: runs the registration and the program's own init, and turns a panic into a
/// refusal.
#[doc(hidden)]
pub fn program_init(register_and_init: impl FnOnce() -> bool) -> *const std::ffi::c_char {
    let initialised = guard("program_init", register_and_init);
    replace_panic_hook();
    match initialised {
        Ok(true) => crate::abi::envoy_dynamic_modules_abi_version.as_ptr().cast(),
        Ok(false) | Err(Panicked) => std::ptr::null(),
    }
}
