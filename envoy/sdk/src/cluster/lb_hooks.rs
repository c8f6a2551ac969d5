//! The hooks of a load balancer, as Envoy calls them on its thread.
//!
//! The module's pointer is an `Rc<Slot>` that `lb_new` gives to Envoy and `lb_destroy` takes back; each hook
//! holds one more reference while it runs. An `Rc` is enough because Envoy uses a load balancer on one
//! thread. Hooks take `&mut self`, so a nested one is refused.

use std::cell::RefCell;
use std::ffi::c_void;
use std::rc::Rc;

use super::context::Context;
use super::lb::Envoy;
use super::{ClusterLb, ClusterLbContext, EnvoyAsyncHostSelectionComplete, HostSelectionResult, hooks};
use crate::abi::envoy_dynamic_module_type_cluster_host_envoy_ptr as HostPtr;
use crate::gate::Reentrant;
use crate::panic::{Panicked, drop_guarded, guard};

/// What Envoy's module pointer points at.
struct Slot {
    lb: RefCell<Box<dyn ClusterLb>>,
}

/// The argument of [`ClusterLb::choose_host`] that only the official SDK uses.
struct NoCompletion;

impl EnvoyAsyncHostSelectionComplete for NoCompletion {}

impl Slot {
    /// Asks the load balancer for a host; null is none.
    ///
    /// # Safety
    /// `raw_context` must be null or the context that the running hook was called with.
    unsafe fn choose(&self, raw_context: *mut c_void) -> HostPtr {
        let Ok(mut lb) = self.lb.try_borrow_mut() else {
            crate::envoy_log_error!("cluster_lb_choose_host: called inside another hook, refused");
            return std::ptr::null_mut();
        };
        // SAFETY: the caller promises the context of the running hook, and the value ends with the hook.
        let context = (!raw_context.is_null()).then(|| unsafe { Context::new(raw_context) });
        let context = context.as_ref().map(|context| context as &dyn ClusterLbContext);
        match lb.choose_host(context, Box::new(NoCompletion)) {
            HostSelectionResult::Selected(host) => host,
            HostSelectionResult::NoHost => std::ptr::null_mut(),
        }
    }
}

/// One more reference to the load balancer.
///
/// # Safety
/// `module_ptr` must be null or what `lb_new` returned, and Envoy must not have given it back.
#[inline]
unsafe fn hold(module_ptr: *const c_void) -> Option<Rc<Slot>> {
    if module_ptr.is_null() {
        return None;
    }
    // SAFETY: the count is at least the one Envoy holds.
    Some(unsafe {
        Rc::increment_strong_count(module_ptr.cast::<Slot>());
        Rc::from_raw(module_ptr.cast())
    })
}

/// Gives a reference up; it is the last one if the load balancer was destroyed while its hook ran.
#[inline]
fn release(slot: Rc<Slot>) {
    if Rc::strong_count(&slot) == 1 {
        drop_guarded("cluster_lb drop", slot);
    }
}

/// Calls a hook of the load balancer that has no answer.
///
/// # Safety
/// The pointers must be those Envoy called the hook with.
unsafe fn notify(
    hook: &'static str,
    envoy_ptr: *mut c_void,
    module_ptr: *const c_void,
    body: impl FnOnce(&mut dyn ClusterLb, &Envoy),
) {
    // SAFETY: Envoy's pointer is what `lb_new` returned.
    let Some(slot) = (unsafe { hold(module_ptr) }) else {
        return;
    };
    // SAFETY: Envoy's pointer is the load balancer of this hook, and the value ends with it.
    let envoy = unsafe { Envoy::new(envoy_ptr) };
    let called = guard(hook, || match slot.lb.try_borrow_mut() {
        Ok(mut lb) => {
            body(&mut **lb, &envoy);
            Ok(())
        }
        Err(_) => Err(Reentrant),
    });
    if let Ok(Err(Reentrant)) = called {
        crate::envoy_log_error!("{hook}: called inside another hook, refused");
    }
    release(slot);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_cluster_lb_new(
    cluster_ptr: *const c_void,
    envoy_ptr: *mut c_void,
) -> *const c_void {
    // SAFETY: Envoy's pointer is what `cluster_new` returned; the load balancer holds the cluster.
    let Some(cluster) = (unsafe { hooks::hold(cluster_ptr) }) else {
        return std::ptr::null();
    };
    // SAFETY: Envoy's pointer is the load balancer of this hook, and the value ends with it.
    let envoy = unsafe { Envoy::new(envoy_ptr) };
    let made = guard("cluster_lb_new", || cluster.shared(|cluster| cluster.new_load_balancer(&envoy)));
    drop_guarded("cluster_lb_new", cluster);
    match made {
        Ok(Ok(lb)) => Rc::into_raw(Rc::new(Slot { lb: RefCell::new(lb) })).cast(),
        Ok(Err(Reentrant)) => {
            crate::envoy_log_error!("cluster_lb_new: called inside a hook of the cluster, refused");
            std::ptr::null()
        }
        // Envoy asks a load balancer that is null for no host.
        Err(Panicked) => std::ptr::null(),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_cluster_lb_destroy(module_ptr: *const c_void) {
    if module_ptr.is_null() {
        return;
    }
    // SAFETY: Envoy gives back the reference `lb_new` gave it, once.
    let slot = unsafe { Rc::from_raw(module_ptr.cast::<Slot>()) };
    drop_guarded("cluster_lb_destroy", slot);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_cluster_lb_choose_host(
    module_ptr: *const c_void,
    context_ptr: *mut c_void,
    host_out: *mut HostPtr,
    async_handle_out: *mut *mut c_void,
) {
    let mut host = std::ptr::null_mut();
    // SAFETY: Envoy's pointer is what `lb_new` returned.
    if let Some(slot) = unsafe { hold(module_ptr) } {
        // SAFETY: the context is the one Envoy called this hook with.
        if let Ok(chosen) = guard("cluster_lb_choose_host", || unsafe { slot.choose(context_ptr) }) {
            host = chosen;
        }
        release(slot);
    }
    // SAFETY: both out parameters are Envoy's and valid for this call. A null handle says that there is
    // nothing to wait for.
    unsafe { (*host_out, *async_handle_out) = (host, std::ptr::null_mut()) };
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_cluster_lb_on_host_membership_update(
    envoy_ptr: *mut c_void,
    module_ptr: *const c_void,
    added: usize,
    removed: usize,
) {
    // SAFETY: the pointers are those Envoy called this hook with.
    unsafe {
        notify("cluster_lb_on_host_membership_update", envoy_ptr, module_ptr, |lb, envoy| {
            lb.on_host_membership_update(envoy, added, removed);
        });
    }
}
