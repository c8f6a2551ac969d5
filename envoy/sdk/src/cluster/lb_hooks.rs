//! The hooks of a load balancer, as Envoy calls them on its thread.
//!
//! The module's pointer is an `Rc<Slot>` that `lb_new` gives to Envoy and `lb_destroy` takes back; each hook holds one
//! more reference while it runs. Envoy uses one load balancer on one thread, which is why an `Rc` will do. Hooks take
//! `&mut self`, so a nested one is refused.

use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::rc::Rc;
use std::sync::Arc;

use super::context::ClusterLbContextRef;
use super::lb::{Envoy, TIMER};
use super::selection::{Completion, Selection, Waiting};
use super::{ClusterLb, ClusterLbContext, HostSelectionResult, hooks};
use crate::abi::envoy_dynamic_module_type_cluster_host_envoy_ptr as HostPtr;
use crate::gate::Reentrant;
use crate::panic::{Panicked, guard};
use crate::timer::Timer;

/// What Envoy's module pointer points at.
struct Slot {
    lb: RefCell<Box<dyn ClusterLb>>,
    raw_lb: *mut c_void,
    /// The last selection, to be used again if nobody else holds on to it: most answers do not wait.
    spare: Cell<Option<Arc<Selection>>>,
}

impl Slot {
    /// A selection for a new request.
    fn selection(&self) -> Arc<Selection> {
        if let Some(mut selection) = self.spare.take()
            && let Some(unshared) = Arc::get_mut(&mut selection)
        {
            unshared.restart();
            return selection;
        }
        Arc::new(Selection::new())
    }

    /// Asks the load balancer for a host: the host or null, and what to wait for or null.
    fn choose(&self, raw_context: *mut c_void) -> (HostPtr, *mut c_void) {
        let none = (std::ptr::null_mut(), std::ptr::null_mut());
        let Ok(mut lb) = self.lb.try_borrow_mut() else {
            crate::envoy_log_error!("cluster_lb_choose_host: called inside another hook, refused");
            return none;
        };
        // SAFETY: both are those of the running hook, and the value ends with it.
        let context =
            (!raw_context.is_null()).then(|| unsafe { ClusterLbContextRef::new(raw_context, self.raw_lb) });
        let selection = self.selection();
        // SAFETY: as above; the selection is this hook's.
        let completion = Box::new(unsafe { Completion::new(selection.clone(), self.raw_lb, raw_context) });
        let chosen =
            lb.choose_host(context.as_ref().map(|context| context as &dyn ClusterLbContext), completion);
        match chosen {
            HostSelectionResult::AsyncPending(handle) => match selection.wait() {
                Some(host) => (host, std::ptr::null_mut()),
                None => {
                    let waiting = Box::new(Waiting { handle, selection });
                    (std::ptr::null_mut(), Box::into_raw(waiting).cast())
                }
            },
            now => {
                self.spare.set(Some(selection));
                match now {
                    HostSelectionResult::Selected(host) => (host, std::ptr::null_mut()),
                    _ => none,
                }
            }
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
        let _ = guard("cluster_lb drop", || drop(slot));
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
    let _ = guard("cluster_lb_new", || drop(cluster));
    match made {
        Ok(Ok(lb)) => {
            let slot = Slot { lb: RefCell::new(lb), raw_lb: envoy_ptr, spare: Cell::new(None) };
            Rc::into_raw(Rc::new(slot)).cast()
        }
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
    let _ = guard("cluster_lb_destroy", || drop(slot));
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_cluster_lb_choose_host(
    module_ptr: *const c_void,
    context_ptr: *mut c_void,
    host_out: *mut HostPtr,
    async_handle_out: *mut *mut c_void,
) {
    let mut answer = (std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: Envoy's pointer is what `lb_new` returned.
    if let Some(slot) = unsafe { hold(module_ptr) } {
        if let Ok(chosen) = guard("cluster_lb_choose_host", || slot.choose(context_ptr)) {
            answer = chosen;
        }
        release(slot);
    }
    // SAFETY: Envoy's out parameters, valid for this call.
    unsafe { (*host_out, *async_handle_out) = answer };
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_cluster_lb_cancel_host_selection(
    _module_ptr: *const c_void,
    async_handle: *mut c_void,
) {
    if async_handle.is_null() {
        return;
    }
    // SAFETY: Envoy gives back what `choose_host` gave it to wait for, once; also after the answer has been delivered.
    let mut waiting = unsafe { Box::from_raw(async_handle.cast::<Waiting>()) };
    if waiting.selection.cancel() {
        let _ = guard("cluster_lb_cancel_host_selection", || waiting.handle.cancel());
    }
    let _ = guard("cluster_lb_cancel_host_selection", || drop(waiting));
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_cluster_lb_on_host_membership_update(
    envoy_ptr: *mut c_void,
    module_ptr: *const c_void,
    added: usize,
    removed: usize,
) {
    // SAFETY: Envoy's own pointers.
    unsafe {
        notify("cluster_lb_on_host_membership_update", envoy_ptr, module_ptr, |lb, envoy| {
            lb.on_host_membership_update(envoy, added, removed);
        });
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_cluster_worker_timer_fired(
    envoy_ptr: *mut c_void,
    module_ptr: *const c_void,
    timer: *mut c_void,
) {
    // SAFETY: Envoy's own pointers; the timer is the one that fired, on the thread it belongs to.
    unsafe {
        Timer::fire(timer, &TIMER, |timer| {
            notify("cluster_worker_timer_fired", envoy_ptr, module_ptr, |lb, envoy| {
                lb.on_worker_timer_fired(envoy, timer);
            });
        });
    }
}
