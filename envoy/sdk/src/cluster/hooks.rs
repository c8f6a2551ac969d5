//! The hooks of the cluster and its config, as Envoy calls them.
//!
//! The config's pointer is a `Box` and the cluster's an `Arc`, given to Envoy by the `new` hook and taken
//! back by the `destroy` hook. Each hook of the cluster holds one more reference while it runs.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::envoy::{During, Envoy};
use super::{Cluster, ClusterConfig, EnvoyClusterMetrics};
use crate::abi::{self, envoy_dynamic_module_type_envoy_buffer as RawBuffer};
use crate::bootstrap::CompletionCallback;
use crate::ffi::{bytes, text};
use crate::gate::{Gate, Reentrant};
use crate::panic::{Panicked, drop_guarded, guard};

/// What Envoy's config pointer points at: a thin pointer to a fat one.
struct ConfigSlot(Box<dyn ClusterConfig>);

/// The argument of the factory that only the official SDK uses.
struct NoMetrics;

impl EnvoyClusterMetrics for NoMetrics {}

pub(super) type ClusterSlot = Gate<dyn Cluster>;

/// One more reference to the cluster.
///
/// # Safety
/// `module_ptr` must be null or what `cluster_new` returned, and Envoy must not have given it back.
pub(super) unsafe fn hold(module_ptr: *const c_void) -> Option<Arc<ClusterSlot>> {
    if module_ptr.is_null() {
        return None;
    }
    // SAFETY: the count is at least the one Envoy holds.
    Some(unsafe {
        Arc::increment_strong_count(module_ptr.cast::<ClusterSlot>());
        Arc::from_raw(module_ptr.cast())
    })
}

/// Calls a `&mut self` hook of the cluster.
///
/// # Safety
/// The pointers must be those Envoy called the hook with.
unsafe fn call_mut(
    hook: &'static str,
    envoy_ptr: *mut c_void,
    module_ptr: *const c_void,
    body: impl FnOnce(&mut dyn Cluster, &Envoy),
) {
    // SAFETY: Envoy's pointer is what `cluster_new` returned.
    let Some(slot) = (unsafe { hold(module_ptr) }) else {
        return;
    };
    // SAFETY: Envoy's pointer is the cluster of this hook, and the value ends with it.
    let envoy = unsafe { Envoy::new(envoy_ptr, During::Exclusive(AtomicBool::new(false))) };
    match guard(hook, || slot.exclusive(|cluster| body(cluster, &envoy))) {
        Ok(Ok(())) | Err(Panicked) => {}
        Ok(Err(Reentrant)) => crate::envoy_log_error!("{hook}: called inside another hook, refused"),
    }
    envoy.finish();
    drop_guarded(hook, slot);
}

/// Calls a `&self` hook of the cluster.
///
/// # Safety
/// The pointers must be those Envoy called the hook with.
unsafe fn call(
    hook: &'static str,
    envoy_ptr: *mut c_void,
    module_ptr: *const c_void,
    body: impl FnOnce(&dyn Cluster, &Envoy),
) {
    // SAFETY: Envoy's pointer is what `cluster_new` returned.
    let Some(slot) = (unsafe { hold(module_ptr) }) else {
        return;
    };
    // SAFETY: Envoy's pointer is the cluster of this hook, and the value ends with it.
    let envoy = unsafe { Envoy::new(envoy_ptr, During::Shared) };
    match guard(hook, || slot.shared(|cluster| body(cluster, &envoy))) {
        Ok(Ok(())) | Err(Panicked) => {}
        Ok(Err(Reentrant)) => crate::envoy_log_error!("{hook}: called inside another hook, refused"),
    }
    drop_guarded(hook, slot);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_cluster_config_new(
    _envoy_ptr: *mut c_void,
    name: RawBuffer,
    config: RawBuffer,
) -> *const c_void {
    guard("cluster_config_new", || {
        let Some(factory) = crate::NEW_CLUSTER_CONFIG_FUNCTION.get() else {
            crate::envoy_log_error!("this module offers no cluster");
            return std::ptr::null();
        };
        // SAFETY: Envoy keeps the name's and the config's bytes, unchanged, until the hook returns.
        let (name, config) = unsafe { (text(name), bytes(config)) };
        match factory(&name, config, Arc::new(NoMetrics)) {
            Some(config) => Box::into_raw(Box::new(ConfigSlot(config))).cast_const().cast(),
            None => std::ptr::null(),
        }
    })
    .unwrap_or(std::ptr::null())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_cluster_config_destroy(module_ptr: *const c_void) {
    if module_ptr.is_null() {
        return;
    }
    // SAFETY: Envoy gives back the box that `config_new` gave it, once.
    let slot = unsafe { Box::from_raw(module_ptr.cast_mut().cast::<ConfigSlot>()) };
    drop_guarded("cluster_config_destroy", slot);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_cluster_new(
    config_ptr: *const c_void,
    envoy_ptr: *mut c_void,
) -> *const c_void {
    // SAFETY: the new cluster holds Envoy's config, and with it what `config_new` returned, throughout this
    // hook.
    let slot = unsafe { &*config_ptr.cast::<ConfigSlot>() };
    // SAFETY: Envoy's pointer is the cluster of this hook, and the value ends with it.
    let envoy = unsafe { Envoy::new(envoy_ptr, During::Construction) };
    match guard("cluster_new", || slot.0.new_cluster(&envoy)) {
        Ok(cluster) => Arc::into_raw(Arc::new(ClusterSlot::new(cluster))).cast(),
        Err(Panicked) => std::ptr::null(),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_cluster_destroy(module_ptr: *const c_void) {
    if module_ptr.is_null() {
        return;
    }
    // SAFETY: Envoy gives back the reference `cluster_new` gave it, once.
    let slot = unsafe { Arc::from_raw(module_ptr.cast::<ClusterSlot>()) };
    drop_guarded("cluster_destroy", slot);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_cluster_init(envoy_ptr: *mut c_void, module_ptr: *const c_void) {
    // SAFETY: the pointers are those Envoy called this hook with.
    unsafe {
        call_mut("cluster_init", envoy_ptr, module_ptr, |cluster, envoy| {
            cluster.on_init(envoy);
        });
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_cluster_scheduled(
    envoy_ptr: *mut c_void,
    module_ptr: *const c_void,
    event_id: u64,
) {
    // SAFETY: the pointers are those Envoy called this hook with.
    unsafe {
        call("cluster_scheduled", envoy_ptr, module_ptr, |cluster, envoy| {
            cluster.on_scheduled(envoy, event_id);
        });
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_cluster_worker_event(
    envoy_ptr: *mut c_void,
    module_ptr: *const c_void,
    event_id: u64,
) {
    // SAFETY: the pointers are those Envoy called this hook with.
    unsafe {
        call("cluster_worker_event", envoy_ptr, module_ptr, |cluster, envoy| {
            cluster.on_worker_event(envoy, event_id);
        });
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_cluster_shutdown(
    envoy_ptr: *mut c_void,
    module_ptr: *const c_void,
    callback: abi::envoy_dynamic_module_type_event_cb,
    context: *mut c_void,
) {
    // SAFETY: function and context are Envoy's completion of this shutdown. Whatever happens here, dropping
    // completes.
    let completion = unsafe { CompletionCallback::new(callback, context) };
    // SAFETY: the pointers are those Envoy called this hook with.
    unsafe {
        call_mut("cluster_shutdown", envoy_ptr, module_ptr, |cluster, envoy| {
            cluster.on_shutdown(envoy, completion);
        });
    }
}
