//! The hooks of a filter configuration.
//!
//! The module's pointer is an `Arc<Slot>` that `config_new` gives to Envoy and `config_destroy` takes back. Envoy keeps
//! the config alive while any filter made from it exists, and while one of its own hooks runs.

use std::ffi::c_void;
use std::sync::Arc;

use super::config::EnvoyHttpFilterConfigImpl;
use super::filter::EnvoyHttpFilterImpl;
use super::{HttpFilterConfig, hooks};
use crate::abi::{
    envoy_dynamic_module_type_envoy_buffer as RawBuffer,
    envoy_dynamic_module_type_envoy_http_header as RawHeader,
    envoy_dynamic_module_type_http_callout_result as CalloutResult,
    envoy_dynamic_module_type_http_stream_reset_reason as StreamResetReason,
};
use crate::ffi::{bytes, chunks, headers, text};
use crate::panic::guard;

type DynConfig = dyn HttpFilterConfig<EnvoyHttpFilterImpl>;

/// What Envoy's module pointer points at: a thin pointer to a fat one.
struct Slot(Box<DynConfig>);

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_config_new(
    envoy_ptr: *mut c_void,
    name: RawBuffer,
    config: RawBuffer,
) -> *const c_void {
    guard("http_filter_config_new", || {
        let Some(factory) = crate::NEW_HTTP_FILTER_CONFIG_FUNCTION.get() else {
            crate::envoy_log_error!("this module offers no HTTP filter");
            return std::ptr::null();
        };
        // SAFETY: Envoy's pointer is the config of this hook, and the value ends with it.
        let mut envoy = unsafe { EnvoyHttpFilterConfigImpl::new(envoy_ptr) };
        // SAFETY: Envoy's name and config live until the hook returns.
        let (name, config) = unsafe { (text(name), bytes(config)) };
        match factory(&mut envoy, &name, config) {
            #[allow(clippy::arc_with_non_send_sync, reason = "never sent: Envoy holds it as a raw pointer")]
            Some(config) => Arc::into_raw(Arc::new(Slot(config))).cast(),
            None => std::ptr::null(),
        }
    })
    .unwrap_or(std::ptr::null())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_config_destroy(module_ptr: *const c_void) {
    if module_ptr.is_null() {
        return;
    }
    // SAFETY: Envoy gives back the reference `config_new` gave it, once.
    let slot = unsafe { Arc::from_raw(module_ptr.cast::<Slot>()) };
    let _ = guard("http_filter_config_destroy", || drop(slot));
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_new(
    config_ptr: *const c_void,
    envoy_ptr: *mut c_void,
) -> *const c_void {
    // SAFETY: the new filter holds Envoy's config, and with it what `config_new` returned, throughout this hook.
    let config = unsafe { &*config_ptr.cast::<Slot>() };
    // SAFETY: Envoy's pointer is the filter of this hook, and the value ends with it.
    let mut envoy = unsafe { EnvoyHttpFilterImpl::new(envoy_ptr) };
    // A filter that could not be made is still a filter: one that refuses its request.
    let filter = guard("http_filter_new", || config.0.new_http_filter(&mut envoy)).ok();
    hooks::Slot::into_raw(filter)
}

/// Calls a hook of the config.
///
/// # Safety
/// The pointers must be those Envoy called the hook with.
unsafe fn notify(
    hook: &'static str,
    envoy_ptr: *mut c_void,
    module_ptr: *const c_void,
    body: impl FnOnce(&DynConfig, &mut EnvoyHttpFilterConfigImpl),
) {
    if module_ptr.is_null() {
        return;
    }
    let slot = module_ptr.cast::<Slot>();
    // SAFETY: the pointer came from `Arc::into_raw` and its count is at least the one Envoy holds.
    let slot = unsafe {
        Arc::increment_strong_count(slot);
        Arc::from_raw(slot)
    };
    // SAFETY: Envoy's pointer is the config of this hook, and the value ends with it.
    let mut envoy = unsafe { EnvoyHttpFilterConfigImpl::new(envoy_ptr) };
    let _ = guard(hook, || body(&*slot.0, &mut envoy));
    let _ = guard(hook, || drop(slot));
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_config_scheduled(
    envoy_ptr: *mut c_void,
    module_ptr: *const c_void,
    event_id: u64,
) {
    // SAFETY: Envoy's own pointers.
    unsafe {
        notify("http_filter_config_scheduled", envoy_ptr, module_ptr, |config, _| {
            config.on_scheduled(event_id);
        });
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_config_http_callout_done(
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
        notify("http_filter_config_http_callout_done", envoy_ptr, module_ptr, |config, envoy| {
            let headers = (!header_list.is_null()).then(|| headers(header_list, header_count));
            let body = (!chunk_list.is_null()).then(|| chunks(chunk_list, chunk_count));
            config.on_http_callout_done(envoy, callout_id, result, headers.as_deref(), body.as_deref());
        });
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_config_http_stream_headers(
    envoy_ptr: *mut c_void,
    module_ptr: *const c_void,
    stream: u64,
    header_list: *const RawHeader,
    header_count: usize,
    end_stream: bool,
) {
    // SAFETY: Envoy's own pointers; the headers live until the hook returns.
    unsafe {
        notify("http_filter_config_http_stream_headers", envoy_ptr, module_ptr, |config, envoy| {
            config.on_http_stream_headers(envoy, stream, &headers(header_list, header_count), end_stream);
        });
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_config_http_stream_data(
    envoy_ptr: *mut c_void,
    module_ptr: *const c_void,
    stream: u64,
    chunk_list: *const RawBuffer,
    chunk_count: usize,
    end_stream: bool,
) {
    // SAFETY: Envoy's own pointers; the chunks live until the hook returns.
    unsafe {
        notify("http_filter_config_http_stream_data", envoy_ptr, module_ptr, |config, envoy| {
            config.on_http_stream_data(envoy, stream, &chunks(chunk_list, chunk_count), end_stream);
        });
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_config_http_stream_trailers(
    envoy_ptr: *mut c_void,
    module_ptr: *const c_void,
    stream: u64,
    trailer_list: *const RawHeader,
    trailer_count: usize,
) {
    // SAFETY: Envoy's own pointers; the trailers live until the hook returns.
    unsafe {
        notify("http_filter_config_http_stream_trailers", envoy_ptr, module_ptr, |config, envoy| {
            config.on_http_stream_trailers(envoy, stream, &headers(trailer_list, trailer_count));
        });
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_config_http_stream_complete(
    envoy_ptr: *mut c_void,
    module_ptr: *const c_void,
    stream: u64,
) {
    // SAFETY: Envoy's own pointers.
    unsafe {
        notify("http_filter_config_http_stream_complete", envoy_ptr, module_ptr, |config, envoy| {
            config.on_http_stream_complete(envoy, stream);
        });
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_config_http_stream_reset(
    envoy_ptr: *mut c_void,
    module_ptr: *const c_void,
    stream: u64,
    reason: u32,
) {
    let reason = StreamResetReason::from_raw(reason).unwrap_or(StreamResetReason::RemoteReset);
    // SAFETY: Envoy's own pointers.
    unsafe {
        notify("http_filter_config_http_stream_reset", envoy_ptr, module_ptr, |config, envoy| {
            config.on_http_stream_reset(envoy, stream, reason);
        });
    }
}
