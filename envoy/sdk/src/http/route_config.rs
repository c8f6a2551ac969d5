//! Per-route configs: their hooks, and the way back from Envoy's pointer.
//!
//! The module's pointer is a `Box<Slot>` that `per_route_config_new` gives to Envoy and
//! `per_route_config_destroy` takes back.
//!
//! # Configs of other modules
//! Envoy finds a per-route config by the name of the filter in the chain. Nothing stops a config from naming
//! another module there, and then Envoy hands that module's pointer to this one. So a pointer is followed
//! only if this module has made it. [`MINE`] has those that exist; each worker has a copy of the list, which
//! it renews when [`CHANGES`] has moved. Why a copy is never too old:
//! 1. A config enters the list before Envoy has its pointer, so the worker that is shown the pointer sees the
//!    change.
//! 2. A config leaves the list before its memory is freed. Whoever makes a new one in that memory does so
//!    after the change, and Envoy shows it to a worker after that.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::abi::envoy_dynamic_module_type_envoy_buffer as RawBuffer;
use crate::ffi::{bytes, text};
use crate::panic::{drop_guarded, guard};

/// What Envoy's module pointer points at.
struct Slot(Arc<dyn Any + Send + Sync>);

/// The addresses of all slots, in order.
static MINE: Mutex<Vec<usize>> = Mutex::new(Vec::new());
/// How often [`MINE`] has changed.
static CHANGES: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// This thread's copy of [`MINE`], and the number of changes it has seen.
    static COPY: RefCell<(u64, Vec<usize>)> = const { RefCell::new((0, Vec::new())) };
}

fn change(body: impl FnOnce(&mut Vec<usize>)) {
    let mut mine = MINE.lock().unwrap_or_else(PoisonError::into_inner);
    body(&mut mine);
    CHANGES.fetch_add(1, Ordering::Release);
}

/// Whether this module has made the config. Takes the lock only after a change.
fn is_mine(config: usize) -> bool {
    COPY.with_borrow_mut(|(seen, copy)| {
        if *seen != CHANGES.load(Ordering::Acquire) {
            let mine = MINE.lock().unwrap_or_else(PoisonError::into_inner);
            copy.clone_from(&mine);
            *seen = CHANGES.load(Ordering::Relaxed);
        }
        copy.binary_search(&config).is_ok()
    })
}

/// What the module's factory has made, if it is this module's.
///
/// # Safety
/// Envoy must have returned `config` as a per-route config, and must not destroy it before this call returns.
pub(super) unsafe fn get(config: *const c_void) -> Option<Arc<dyn Any + Send + Sync>> {
    if config.is_null() || !is_mine(config.addr()) {
        return None;
    }
    // SAFETY: a slot of this module is at this address, and the caller promises that it stays.
    let slot = unsafe { &*config.cast::<Slot>() };
    Some(Arc::clone(&slot.0))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_per_route_config_new(
    name: RawBuffer,
    config: RawBuffer,
) -> *const c_void {
    guard("http_filter_per_route_config_new", || {
        let Some(factory) = crate::NEW_HTTP_FILTER_PER_ROUTE_CONFIG_FUNCTION.get() else {
            crate::envoy_log_error!("this module offers no per-route config of an HTTP filter");
            return std::ptr::null();
        };
        // SAFETY: Envoy keeps the name's and the config's bytes, unchanged, until the hook returns.
        let (name, config) = unsafe { (text(name), bytes(config)) };
        let Some(config) = factory(&name, config) else { return std::ptr::null() };
        let slot = Box::into_raw(Box::new(Slot(config.into()))).cast_const();
        change(|mine| {
            let at = mine.partition_point(|other| *other < slot.addr());
            mine.insert(at, slot.addr());
        });
        slot.cast()
    })
    .unwrap_or(std::ptr::null())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_per_route_config_destroy(module_ptr: *const c_void) {
    if module_ptr.is_null() {
        return;
    }
    change(|mine| mine.retain(|slot| *slot != module_ptr.addr()));
    // SAFETY: Envoy gives back the box that `per_route_config_new` gave it, once, when no request has its
    // route any more.
    let slot = unsafe { Box::from_raw(module_ptr.cast_mut().cast::<Slot>()) };
    drop_guarded("http_filter_per_route_config_destroy", slot);
}
