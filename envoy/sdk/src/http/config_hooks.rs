//! The hooks of a filter configuration.
//!
//! The module's pointer is a `Box<Slot>` that `config_new` gives to Envoy and `config_destroy` takes back.
//! Envoy keeps the config alive while any filter made from it exists.

use std::ffi::c_void;

use super::config::EnvoyHttpFilterConfigImpl;
use super::filter::EnvoyHttpFilterImpl;
use super::{HttpFilterConfig, hooks};
use crate::abi::envoy_dynamic_module_type_envoy_buffer as RawBuffer;
use crate::ffi::{bytes, text};
use crate::panic::{drop_guarded, guard};

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
        // SAFETY: Envoy keeps the name's and the config's bytes, unchanged, until the hook returns.
        let (name, config) = unsafe { (text(name), bytes(config)) };
        match factory(&mut envoy, &name, config) {
            Some(config) => Box::into_raw(Box::new(Slot(config))).cast_const().cast(),
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
    // SAFETY: Envoy gives back the box that `config_new` gave it, once, when no filter of the config exists
    // any more.
    let slot = unsafe { Box::from_raw(module_ptr.cast_mut().cast::<Slot>()) };
    drop_guarded("http_filter_config_destroy", slot);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_new(
    config_ptr: *const c_void,
    envoy_ptr: *mut c_void,
) -> *const c_void {
    // SAFETY: the new filter holds Envoy's config, and with it what `config_new` returned, throughout this
    // hook.
    let config = unsafe { &*config_ptr.cast::<Slot>() };
    // SAFETY: Envoy's pointer is the filter of this hook, and the value ends with it.
    let mut envoy = unsafe { EnvoyHttpFilterImpl::new(envoy_ptr) };
    // A filter that could not be made is still a filter: one that refuses its request.
    let filter = guard("http_filter_new", || config.0.new_http_filter(&mut envoy)).ok();
    hooks::Slot::into_raw(filter)
}
