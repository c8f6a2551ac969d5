//! The hooks of the bootstrap extension, as Envoy calls them.
//!
//! Both of the module's pointers are `Arc`s, given to Envoy by the `new` hook and taken back by the `destroy`
//! hook; each hook holds one more reference while it runs.

use std::ffi::c_void;
use std::sync::Arc;

use super::envoy::{EnvoyConfig, EnvoyExtension};
use super::timer::Timer;
use super::{BootstrapExtension, BootstrapExtensionConfig, CompletionCallback};
use crate::abi::{
    self, envoy_dynamic_module_type_envoy_buffer as RawBuffer,
    envoy_dynamic_module_type_envoy_http_header as RawHeader,
};
use crate::ffi::{bytes, lend, text};
use crate::gate::{Gate, Reentrant};
use crate::panic::{Panicked, drop_guarded, guard};

struct ConfigSlot(Box<dyn BootstrapExtensionConfig>);
type ExtensionSlot = Gate<dyn BootstrapExtension>;

/// One more reference to what Envoy's pointer points at.
///
/// # Safety
/// `module_ptr` must be null or come from `Arc::into_raw` of an `Arc<T>` that Envoy has not given back.
unsafe fn hold<T>(module_ptr: *const c_void) -> Option<Arc<T>> {
    if module_ptr.is_null() {
        return None;
    }
    // SAFETY: the count is at least the one Envoy holds.
    Some(unsafe {
        Arc::increment_strong_count(module_ptr.cast::<T>());
        Arc::from_raw(module_ptr.cast())
    })
}

/// Calls a hook of the config; `None` if there is no config, or it panicked.
///
/// # Safety
/// The pointers must be those Envoy called the hook with.
unsafe fn call_config<R>(
    hook: &'static str,
    envoy_ptr: *mut c_void,
    module_ptr: *const c_void,
    body: impl FnOnce(&dyn BootstrapExtensionConfig, &mut EnvoyConfig) -> R,
) -> Option<R> {
    // SAFETY: Envoy's pointer is what `config_new` returned.
    let slot = unsafe { hold::<ConfigSlot>(module_ptr) }?;
    // SAFETY: Envoy's pointer is the config of this hook, and the value ends with it.
    let mut envoy = unsafe { EnvoyConfig::new(envoy_ptr) };
    let result = guard(hook, || body(&*slot.0, &mut envoy)).ok();
    drop_guarded(hook, slot);
    result
}

/// Calls a hook of the extension.
///
/// # Safety
/// `module_ptr` must be the one Envoy called the hook with.
unsafe fn call_extension(
    hook: &'static str,
    module_ptr: *const c_void,
    body: impl FnOnce(&mut dyn BootstrapExtension, &mut EnvoyExtension),
) {
    // SAFETY: Envoy's pointer is what `extension_new` returned.
    let Some(slot) = (unsafe { hold::<ExtensionSlot>(module_ptr) }) else {
        return;
    };
    match guard(hook, || slot.exclusive(|extension| body(extension, &mut EnvoyExtension))) {
        Ok(Ok(())) | Err(Panicked) => {}
        Ok(Err(Reentrant)) => crate::envoy_log_error!("{hook}: called inside another hook, refused"),
    }
    drop_guarded(hook, slot);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_bootstrap_extension_config_new(
    envoy_ptr: *mut c_void,
    name: RawBuffer,
    config: RawBuffer,
) -> *const c_void {
    guard("bootstrap_extension_config_new", || {
        let Some(factory) = crate::NEW_BOOTSTRAP_EXTENSION_CONFIG_FUNCTION.get() else {
            crate::envoy_log_error!("this module offers no bootstrap extension");
            return std::ptr::null();
        };
        // SAFETY: Envoy's pointer is the config of this hook, and the value ends with it.
        let mut envoy = unsafe { EnvoyConfig::new(envoy_ptr) };
        // SAFETY: Envoy keeps the name's and the config's bytes, unchanged, until the hook returns.
        let (name, config) = unsafe { (text(name), bytes(config)) };
        match factory(&mut envoy, &name, config) {
            Some(config) => Arc::into_raw(Arc::new(ConfigSlot(config))).cast(),
            None => std::ptr::null(),
        }
    })
    .unwrap_or(std::ptr::null())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_bootstrap_extension_config_destroy(module_ptr: *const c_void) {
    if module_ptr.is_null() {
        return;
    }
    // SAFETY: Envoy gives back the reference `config_new` gave it, once.
    let slot = unsafe { Arc::from_raw(module_ptr.cast::<ConfigSlot>()) };
    drop_guarded("bootstrap_extension_config_destroy", slot);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_bootstrap_extension_new(
    config_ptr: *const c_void,
    _envoy_ptr: *mut c_void,
) -> *const c_void {
    // SAFETY: the new extension holds Envoy's config, and with it what `config_new` returned, throughout this
    // hook.
    let config = unsafe { &*config_ptr.cast::<ConfigSlot>() };
    match guard("bootstrap_extension_new", || config.0.new_bootstrap_extension(&mut EnvoyExtension)) {
        Ok(extension) => Arc::into_raw(Arc::new(ExtensionSlot::new(extension))).cast(),
        // Envoy calls no hook of an extension that is null.
        Err(Panicked) => std::ptr::null(),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_bootstrap_extension_destroy(module_ptr: *const c_void) {
    if module_ptr.is_null() {
        return;
    }
    // SAFETY: Envoy gives back the reference `extension_new` gave it, once.
    let slot = unsafe { Arc::from_raw(module_ptr.cast::<ExtensionSlot>()) };
    drop_guarded("bootstrap_extension_destroy", slot);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_bootstrap_extension_server_initialized(
    _envoy_ptr: *mut c_void,
    module_ptr: *const c_void,
) {
    // SAFETY: the pointer is the one Envoy called this hook with.
    unsafe {
        call_extension("bootstrap_extension_server_initialized", module_ptr, |extension, envoy| {
            extension.on_server_initialized(envoy);
        });
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_bootstrap_extension_drain_started(
    _envoy_ptr: *mut c_void,
    module_ptr: *const c_void,
) {
    // SAFETY: the pointer is the one Envoy called this hook with.
    unsafe {
        call_extension("bootstrap_extension_drain_started", module_ptr, |extension, envoy| {
            extension.on_drain_started(envoy);
        });
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_bootstrap_extension_shutdown(
    _envoy_ptr: *mut c_void,
    module_ptr: *const c_void,
    callback: abi::envoy_dynamic_module_type_event_cb,
    context: *mut c_void,
) {
    // SAFETY: function and context are Envoy's completion of this shutdown. Whatever happens here, dropping
    // completes.
    let completion = unsafe { CompletionCallback::new(callback, context) };
    // SAFETY: the pointer is the one Envoy called this hook with.
    unsafe {
        call_extension("bootstrap_extension_shutdown", module_ptr, |extension, envoy| {
            extension.on_shutdown(envoy, completion);
        });
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_bootstrap_extension_config_scheduled(
    envoy_ptr: *mut c_void,
    module_ptr: *const c_void,
    event_id: u64,
) {
    // SAFETY: the pointers are those Envoy called this hook with.
    unsafe {
        call_config("bootstrap_extension_config_scheduled", envoy_ptr, module_ptr, |config, envoy| {
            config.on_scheduled(envoy, event_id);
        });
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_bootstrap_extension_timer_fired(
    envoy_ptr: *mut c_void,
    module_ptr: *const c_void,
    timer: *mut c_void,
) {
    // SAFETY: the pointers are those Envoy called this hook with; the timer is the one that fired, on its
    // thread.
    unsafe {
        Timer::fire(timer, |timer| {
            call_config("bootstrap_extension_timer_fired", envoy_ptr, module_ptr, |config, envoy| {
                config.on_timer_fired(envoy, timer);
            });
        });
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_bootstrap_extension_admin_request(
    envoy_ptr: *mut c_void,
    module_ptr: *const c_void,
    method: RawBuffer,
    path: RawBuffer,
    body: RawBuffer,
) -> u32 {
    // SAFETY: the pointers are those of this hook; Envoy keeps method, path and body, unchanged, until it
    // returns.
    let answer = unsafe {
        call_config("bootstrap_extension_admin_request", envoy_ptr, module_ptr, |config, envoy| {
            config.on_admin_request(envoy, &text(method), &text(path), bytes(body))
        })
    };
    let (status, body) = answer.unwrap_or_else(|| (500, "internal error\n".to_owned()));
    // SAFETY: the config of this hook; Envoy copies the body before the call returns.
    unsafe {
        abi::envoy_dynamic_module_callback_bootstrap_extension_admin_set_response(
            envoy_ptr,
            lend(body.as_bytes()),
        );
    }
    status
}

/// Hooks that Envoy requires and nothing here listens to. What they are about (file watches, cluster and
/// listener updates, callouts) cannot be asked for with this crate.
macro_rules! ignored_hooks {
    ($($name:ident($($ty:ty),*);)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name(_: *mut c_void, _: *const c_void, $(_: $ty),*) {}
    )*};
}

ignored_hooks! {
    envoy_dynamic_module_on_bootstrap_extension_worker_thread_initialized();
    envoy_dynamic_module_on_bootstrap_extension_file_changed(RawBuffer, u32);
    envoy_dynamic_module_on_bootstrap_extension_cluster_add_or_update(RawBuffer);
    envoy_dynamic_module_on_bootstrap_extension_cluster_removal(RawBuffer);
    envoy_dynamic_module_on_bootstrap_extension_listener_add_or_update(RawBuffer);
    envoy_dynamic_module_on_bootstrap_extension_listener_removal(RawBuffer);
    envoy_dynamic_module_on_bootstrap_extension_http_callout_done(
        u64, u32, *const RawHeader, usize, *const RawBuffer, usize
    );
}
