//! A small Envoy in memory: it defines the callbacks the module calls and calls the hooks the module exports.
//!
//! # Safety
//! All pointers that cross the boundary here are made in this folder, point at objects the calling test keeps
//! alive, and stay on the test's thread (schedulers excepted, which are behind a lock). That one argument
//! covers every `unsafe` block below, so it is made once.

#![allow(clippy::undocumented_unsafe_blocks, reason = "one argument covers them all: see the module's docs")]

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::c_void;

use envoy_proxy_dynamic_modules_rust_sdk::abi::{
    envoy_dynamic_module_type_envoy_buffer as EnvoyBuf, envoy_dynamic_module_type_log_level as Level,
    envoy_dynamic_module_type_module_buffer as ModuleBuf,
};

pub(crate) mod bootstrap;
pub(crate) mod cluster;
pub(crate) mod http;
pub(crate) mod network;

pub(crate) type P = *mut c_void;
pub(crate) type Bytes = Vec<u8>;

/// Copies what the module lent.
pub(crate) unsafe fn take(lent: ModuleBuf) -> Bytes {
    if lent.ptr.is_null() {
        assert_eq!(lent.length, 0, "a null buffer has no length");
        return Vec::new();
    }
    unsafe { std::slice::from_raw_parts(lent.ptr.cast(), lent.length) }.to_vec()
}

/// Copies a list the module lent.
pub(crate) unsafe fn take_list(list: *const ModuleBuf, n: usize) -> Vec<String> {
    (0..n).map(|i| String::from_utf8(unsafe { take(*list.add(i)) }).expect("UTF-8")).collect()
}

/// Lends bytes to the module.
pub(crate) fn give(bytes: &[u8]) -> EnvoyBuf {
    EnvoyBuf { ptr: bytes.as_ptr().cast(), length: bytes.len() }
}

/// The buffer Envoy passes for "nothing".
pub(crate) const NOTHING: EnvoyBuf = EnvoyBuf { ptr: std::ptr::null(), length: 0 };

thread_local! {
    static LOG: RefCell<Vec<(Level, String)>> = const { RefCell::new(Vec::new()) };
}

/// What this thread has logged since the last call.
pub(crate) fn logged() -> Vec<(Level, String)> {
    LOG.take()
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_log(level: Level, message: ModuleBuf) {
    let message = String::from_utf8(unsafe { take(message) }).expect("UTF-8");
    LOG.with_borrow_mut(|log| log.push((level, message)));
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_log_enabled(level: Level) -> bool {
    level as u32 >= Level::Info as u32
}

unsafe extern "C" {
    fn envoy_dynamic_module_on_program_init() -> *const std::ffi::c_char;
}

/// Loads the module: the ABI version it answers, or `None` if it refuses.
pub(crate) fn program_init() -> Option<String> {
    let version = unsafe { envoy_dynamic_module_on_program_init() };
    (!version.is_null())
        .then(|| unsafe { std::ffi::CStr::from_ptr(version) }.to_str().expect("UTF-8").to_owned())
}

/// Metrics of one config: names and values by ID. None has labels.
#[derive(Default)]
pub(crate) struct Metrics {
    pub frozen: std::cell::Cell<bool>,
    pub defined: RefCell<Vec<String>>,
    pub values: RefCell<HashMap<usize, u64>>,
}

impl Metrics {
    pub(crate) unsafe fn define(&self, name: ModuleBuf, id: *mut usize) -> u32 {
        if self.frozen.get() {
            return 3;
        }
        let mut defined = self.defined.borrow_mut();
        defined.push(String::from_utf8(unsafe { take(name) }).expect("UTF-8"));
        unsafe { *id = defined.len() };
        0
    }

    pub(crate) fn record(&self, id: usize, change: impl FnOnce(u64) -> u64) -> u32 {
        if id == 0 || id > self.defined.borrow().len() {
            return 1;
        }
        let mut values = self.values.borrow_mut();
        let value = values.entry(id).or_default();
        *value = change(*value);
        0
    }

    pub(crate) fn value(&self, id: usize) -> u64 {
        self.values.borrow().get(&id).copied().unwrap_or(0)
    }
}

/// Defines an area's metrics callbacks over `$metrics(pointer)`.
#[macro_export]
macro_rules! metrics_callbacks {
    ($metrics:path; define $($define:ident)*; add $($add:ident)*; set $($set:ident)*) => {
        $(#[unsafe(no_mangle)]
        extern "C" fn $define(p: P, name: ModuleBuf, labels: *mut ModuleBuf, n: usize, id: *mut usize) -> u32 {
            assert!(labels.is_null() && n == 0, "no metric has labels");
            unsafe { $metrics(p).define(name, id) }
        })*
        $($crate::metrics_callbacks!(@record $metrics, $add, |value, old| old + value);)*
        $($crate::metrics_callbacks!(@record $metrics, $set, |value, _old| value);)*
    };
    (@record $metrics:path, $name:ident, |$value:ident, $old:ident| $new:expr) => {
        #[unsafe(no_mangle)]
        extern "C" fn $name(p: P, id: usize, labels: *mut ModuleBuf, n: usize, $value: u64) -> u32 {
            assert!(labels.is_null() && n == 0, "no metric has labels");
            unsafe { $metrics(p).record(id, |$old| $new) }
        }
    };
}
