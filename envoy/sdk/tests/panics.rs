//! What [`panics`] counts. The count is the process's, so this is the only test of its process.

use std::panic::{AssertUnwindSafe, catch_unwind, set_hook};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use envoy_proxy_dynamic_modules_rust_sdk::abi::{
    envoy_dynamic_module_type_log_level as Level, envoy_dynamic_module_type_module_buffer as ModuleBuffer,
};
use envoy_proxy_dynamic_modules_rust_sdk::{panics, program_init, report_panic};

static LOG: Mutex<Vec<String>> = Mutex::new(Vec::new());
/// Panics that the program's own hook was told of.
static TOLD: AtomicU64 = AtomicU64::new(0);

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_log(_: Level, message: ModuleBuffer) {
    // SAFETY: the module lends `length` bytes for the call.
    let bytes = unsafe { std::slice::from_raw_parts(message.ptr.cast::<u8>(), message.length) };
    let message = String::from_utf8_lossy(bytes).into_owned();
    LOG.lock().unwrap_or_else(PoisonError::into_inner).push(message);
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_log_enabled(_: Level) -> bool {
    true
}

fn logged() -> Vec<String> {
    std::mem::take(&mut *LOG.lock().unwrap_or_else(PoisonError::into_inner))
}

#[test]
fn every_panic_of_hooks_and_threads_is_counted_once_whatever_hook_the_program_sets() {
    let init = || {
        set_hook(Box::new(|_| {
            TOLD.fetch_add(1, Ordering::Relaxed);
        }));
        true
    };
    assert!(!program_init(init).is_null());
    assert_eq!(panics(), 0, "an init that succeeds is no panic");

    assert!(program_init(|| panic!("in a hook")).is_null());
    assert_eq!((panics(), TOLD.load(Ordering::Relaxed)), (1, 0), "the guard reports it, nobody else");
    let log = logged();
    assert!(log.len() == 1 && log[0].contains("tests/panics.rs:"), "once, with its place: {log:?}");

    let reported = || {
        let caught = catch_unwind(|| panic!("in a hook, with an answer of its own"));
        report_panic("a hook", caught.expect_err("it panics"));
        true
    };
    assert!(!program_init(reported).is_null());
    assert_eq!((panics(), TOLD.load(Ordering::Relaxed)), (2, 0));
    let log = logged();
    assert!(log.len() == 1 && log[0].starts_with("a hook: panic at "), "{log:?}");

    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("again");
        }
    }
    assert!(program_init(|| std::panic::panic_any(Bomb)).is_null());
    assert_eq!((panics(), TOLD.load(Ordering::Relaxed)), (3, 0), "what its payload does is part of it");

    assert!(std::thread::spawn(|| panic!("on a thread")).join().is_err());
    assert_eq!((panics(), TOLD.load(Ordering::Relaxed)), (4, 1), "the program's hook still logs it");

    let swallowed = std::thread::spawn(|| {
        let _ = catch_unwind(AssertUnwindSafe(|| panic!("in a task whose runtime catches it")));
    });
    assert!(swallowed.join().is_ok());
    assert_eq!((panics(), TOLD.load(Ordering::Relaxed)), (5, 2));
}
