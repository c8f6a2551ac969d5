//! The hooks of the network filter.
//!
//! The config's pointer is an `Arc` that `config_new` gives to Envoy and `config_destroy` takes back; a
//! connection's is a `Box` that `new` gives and `destroy` takes back. A null filter makes Envoy close the
//! connection when it begins. Hooks of one connection that have nothing to say to the module do not touch its
//! filter, so that `close` may call them while `new_connection` runs.

use std::ffi::c_void;
use std::sync::Arc;

use super::{EnvoyNetworkFilterConfigImpl, EnvoyNetworkFilterImpl, NetworkFilter, NetworkFilterConfig};
use crate::abi::{
    envoy_dynamic_module_type_envoy_buffer as RawBuffer,
    envoy_dynamic_module_type_network_connection_close_type as CloseType,
    envoy_dynamic_module_type_on_network_filter_data_status as Status,
};
use crate::ffi::{bytes, text};
use crate::network::EnvoyNetworkFilter as _;
use crate::panic::{drop_guarded, guard};

type Envoy = EnvoyNetworkFilterImpl;

/// What Envoy's config pointer points at: a thin pointer to a fat one.
struct ConfigSlot(Box<dyn NetworkFilterConfig<Envoy>>);

/// What Envoy's filter pointer points at.
struct Slot(Box<dyn NetworkFilter<Envoy>>);

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_network_filter_config_new(
    envoy_ptr: *mut c_void,
    name: RawBuffer,
    config: RawBuffer,
) -> *const c_void {
    guard("network_filter_config_new", || {
        let Some(factory) = crate::NEW_NETWORK_FILTER_CONFIG_FUNCTION.get() else {
            crate::envoy_log_error!("this module offers no network filter");
            return std::ptr::null();
        };
        // SAFETY: Envoy's pointer is the config of this hook, and the value ends with it.
        let mut envoy = unsafe { EnvoyNetworkFilterConfigImpl::new(envoy_ptr) };
        // SAFETY: Envoy's name and config live until the hook returns.
        let (name, config) = unsafe { (text(name), bytes(config)) };
        match factory(&mut envoy, &name, config) {
            #[allow(clippy::arc_with_non_send_sync, reason = "never sent: Envoy holds it as a raw pointer")]
            Some(config) => Arc::into_raw(Arc::new(ConfigSlot(config))).cast(),
            None => std::ptr::null(),
        }
    })
    .unwrap_or(std::ptr::null())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_network_filter_config_destroy(module_ptr: *const c_void) {
    if module_ptr.is_null() {
        return;
    }
    // SAFETY: Envoy gives back the reference `config_new` gave it, once.
    let slot = unsafe { Arc::from_raw(module_ptr.cast::<ConfigSlot>()) };
    drop_guarded("network_filter_config_destroy", slot);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_network_filter_new(
    config_ptr: *const c_void,
    envoy_ptr: *mut c_void,
) -> *const c_void {
    // SAFETY: the new filter holds Envoy's config, and with it what `config_new` returned, throughout this
    // hook.
    let config = unsafe { &*config_ptr.cast::<ConfigSlot>() };
    // SAFETY: Envoy's pointer is the filter of this hook, and the value ends with it.
    let mut envoy = unsafe { Envoy::new(envoy_ptr) };
    match guard("network_filter_new", || config.0.new_network_filter(&mut envoy)) {
        Ok(filter) => Box::into_raw(Box::new(Slot(filter))).cast_const().cast(),
        // Envoy closes the connection of a filter that is null.
        Err(_) => std::ptr::null(),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_network_filter_new_connection(
    envoy_ptr: *mut c_void,
    module_ptr: *const c_void,
) -> Status {
    // SAFETY: Envoy's pointer is the filter of this hook, and the value ends with it.
    let mut envoy = unsafe { Envoy::new(envoy_ptr) };
    // SAFETY: the pointer is the one `new` gave to Envoy, `destroy` has not run, and no other hook of this
    // crate makes a reference from it: this is the only one, on the connection's only thread.
    let slot = unsafe { &mut *module_ptr.cast_mut().cast::<Slot>() };
    guard("network_filter_new_connection", || slot.0.on_new_connection(&mut envoy)).unwrap_or_else(|_| {
        envoy.close(CloseType::NoFlush);
        Status::StopIteration
    })
}

/// Bytes are not the module's business.
#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_network_filter_read(
    _envoy_ptr: *mut c_void,
    _module_ptr: *const c_void,
    _data_length: usize,
    _end_stream: bool,
) -> Status {
    Status::Continue
}

/// Bytes are not the module's business.
#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_network_filter_write(
    _envoy_ptr: *mut c_void,
    _module_ptr: *const c_void,
    _data_length: usize,
    _end_stream: bool,
) -> Status {
    Status::Continue
}

/// How a connection ends shows in the filter's drop.
#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_network_filter_event(
    _envoy_ptr: *mut c_void,
    _module_ptr: *const c_void,
    _event: u32,
) {
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_network_filter_destroy(module_ptr: *const c_void) {
    if module_ptr.is_null() {
        return;
    }
    // SAFETY: Envoy gives back the pointer `new` gave it, once, when no hook of the connection runs.
    let slot = unsafe { Box::from_raw(module_ptr.cast_mut().cast::<Slot>()) };
    drop_guarded("network_filter_destroy", slot);
}
