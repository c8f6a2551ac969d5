//! The hooks of the cluster and its config, as Envoy calls them.
//!
//! The module's pointers are `Arc`s, given to Envoy by the `new` hook and taken back by the `destroy` hook; each hook
//! holds one more reference while it runs.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::envoy::{During, Envoy};
use super::metrics::EnvoyClusterMetricsImpl;
use super::{Cluster, ClusterConfig};
use crate::abi::{
    self, envoy_dynamic_module_type_envoy_buffer as RawBuffer,
    envoy_dynamic_module_type_envoy_http_header as RawHeader,
    envoy_dynamic_module_type_http_callout_result as CalloutResult,
};
use crate::bootstrap::CompletionCallback;
use crate::ffi::{bytes, chunks, headers, text};
use crate::gate::{Gate, Reentrant};
use crate::panic::{Panicked, guard};

struct ConfigSlot {
    config: Box<dyn ClusterConfig>,
    metrics: Arc<EnvoyClusterMetricsImpl>,
}

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
    let _ = guard(hook, || drop(slot));
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
    let _ = guard(hook, || drop(slot));
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_cluster_config_new(
    envoy_ptr: *mut c_void,
    name: RawBuffer,
    config: RawBuffer,
) -> *const c_void {
    let Some(factory) = crate::NEW_CLUSTER_CONFIG_FUNCTION.get() else {
        crate::envoy_log_error!("this module offers no cluster");
        return std::ptr::null();
    };
    // SAFETY: Envoy's config lives until `config_destroy`, which closes the metrics; if this hook fails there is no
    // `config_destroy`, and they are closed below.
    let metrics = Arc::new(unsafe { EnvoyClusterMetricsImpl::new(envoy_ptr) });
    // SAFETY: Envoy's name and config live until the hook returns.
    let made =
        guard("cluster_config_new", || unsafe { factory(&text(name), bytes(config), metrics.clone()) });
    metrics.freeze();
    match made {
        Ok(Some(config)) => Arc::into_raw(Arc::new(ConfigSlot { config, metrics })).cast(),
        Ok(None) | Err(Panicked) => {
            metrics.close();
            std::ptr::null()
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_cluster_config_destroy(module_ptr: *const c_void) {
    if module_ptr.is_null() {
        return;
    }
    // SAFETY: Envoy gives back the reference `config_new` gave it, once.
    let slot = unsafe { Arc::from_raw(module_ptr.cast::<ConfigSlot>()) };
    let metrics = slot.metrics.clone();
    let _ = guard("cluster_config_destroy", || drop(slot));
    metrics.close();
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_cluster_new(
    config_ptr: *const c_void,
    envoy_ptr: *mut c_void,
) -> *const c_void {
    // SAFETY: the new cluster holds Envoy's config, and with it what `config_new` returned, throughout this hook.
    let slot = unsafe { &*config_ptr.cast::<ConfigSlot>() };
    // SAFETY: Envoy's pointer is the cluster of this hook, and the value ends with it.
    let envoy = unsafe { Envoy::new(envoy_ptr, During::Construction) };
    match guard("cluster_new", || slot.config.new_cluster(&envoy)) {
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
    let _ = guard("cluster_destroy", || drop(slot));
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_cluster_init(envoy_ptr: *mut c_void, module_ptr: *const c_void) {
    // SAFETY: Envoy's own pointers.
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
    // SAFETY: Envoy's own pointers.
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
    // SAFETY: Envoy's own pointers.
    unsafe {
        call("cluster_worker_event", envoy_ptr, module_ptr, |cluster, envoy| {
            cluster.on_worker_event(envoy, event_id);
        });
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_cluster_server_initialized(
    envoy_ptr: *mut c_void,
    module_ptr: *const c_void,
) {
    // SAFETY: Envoy's own pointers.
    unsafe {
        call_mut("cluster_server_initialized", envoy_ptr, module_ptr, |cluster, envoy| {
            cluster.on_server_initialized(envoy);
        });
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_cluster_drain_started(
    envoy_ptr: *mut c_void,
    module_ptr: *const c_void,
) {
    // SAFETY: Envoy's own pointers.
    unsafe {
        call_mut("cluster_drain_started", envoy_ptr, module_ptr, |cluster, envoy| {
            cluster.on_drain_started(envoy);
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
    // SAFETY: Envoy's completion for this shutdown. Whatever happens to it here, dropping it completes.
    let completion = unsafe { CompletionCallback::new(callback, context) };
    // SAFETY: Envoy's own pointers.
    unsafe {
        call_mut("cluster_shutdown", envoy_ptr, module_ptr, |cluster, envoy| {
            cluster.on_shutdown(envoy, completion);
        });
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_cluster_http_callout_done(
    envoy_ptr: *mut c_void,
    module_ptr: *const c_void,
    callout_id: u64,
    result: u32,
    header_list: *const RawHeader,
    header_count: usize,
    chunk_list: *const RawBuffer,
    chunk_count: usize,
) {
    let result = CalloutResult::from_raw(result).unwrap_or(CalloutResult::Reset);
    // SAFETY: Envoy's own pointers; headers and chunks live until the hook returns.
    unsafe {
        call_mut("cluster_http_callout_done", envoy_ptr, module_ptr, |cluster, envoy| {
            let headers = (!header_list.is_null()).then(|| headers(header_list, header_count));
            let body = (!chunk_list.is_null()).then(|| chunks(chunk_list, chunk_count));
            cluster.on_http_callout_done(envoy, callout_id, result, headers.as_deref(), body.as_deref());
        });
    }
}
