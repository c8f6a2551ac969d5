//! The bootstrap extension's part of the host.

use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use envoy_proxy_dynamic_modules_rust_sdk::abi::{
    envoy_dynamic_module_type_envoy_buffer as EnvoyBuf,
    envoy_dynamic_module_type_envoy_http_header as EnvoyHeader,
    envoy_dynamic_module_type_module_buffer as ModuleBuf,
};

use super::{Metrics, P, give, take};

/// A bootstrap configuration of the host, with its extension.
pub(crate) struct Bootstrap {
    pub metrics: Metrics,
    pub events: Arc<Mutex<Vec<u64>>>,
    pub config: Cell<*const c_void>,
    pub extension: Cell<*const c_void>,
    pub ready: Cell<u32>,
    pub handlers: RefCell<Vec<String>>,
    pub answer: RefCell<String>,
    pub timers: Rc<RefCell<Timers>>,
}

/// The timers by ID: armed with a delay, or not.
#[derive(Default)]
pub(crate) struct Timers {
    pub live: Vec<(usize, Option<u64>)>,
    pub deleted: Vec<usize>,
}

struct Timer {
    id: usize,
    timers: Rc<RefCell<Timers>>,
}

unsafe extern "C" {
    fn envoy_dynamic_module_on_bootstrap_extension_config_new(
        envoy: P,
        name: EnvoyBuf,
        config: EnvoyBuf,
    ) -> *const c_void;
    fn envoy_dynamic_module_on_bootstrap_extension_config_destroy(module: *const c_void);
    fn envoy_dynamic_module_on_bootstrap_extension_new(config: *const c_void, envoy: P) -> *const c_void;
    fn envoy_dynamic_module_on_bootstrap_extension_destroy(module: *const c_void);
    fn envoy_dynamic_module_on_bootstrap_extension_server_initialized(envoy: P, module: *const c_void);
    fn envoy_dynamic_module_on_bootstrap_extension_worker_thread_initialized(envoy: P, module: *const c_void);
    fn envoy_dynamic_module_on_bootstrap_extension_drain_started(envoy: P, module: *const c_void);
    fn envoy_dynamic_module_on_bootstrap_extension_shutdown(
        envoy: P,
        module: *const c_void,
        callback: Option<unsafe extern "C" fn(P)>,
        context: P,
    );
    fn envoy_dynamic_module_on_bootstrap_extension_config_scheduled(
        envoy: P,
        module: *const c_void,
        event: u64,
    );
    fn envoy_dynamic_module_on_bootstrap_extension_timer_fired(envoy: P, module: *const c_void, timer: P);
    fn envoy_dynamic_module_on_bootstrap_extension_file_changed(
        envoy: P,
        module: *const c_void,
        path: EnvoyBuf,
        events: u32,
    );
    fn envoy_dynamic_module_on_bootstrap_extension_http_callout_done(
        envoy: P,
        module: *const c_void,
        id: u64,
        result: u32,
        headers: *const EnvoyHeader,
        n: usize,
        body: *const EnvoyBuf,
        chunks: usize,
    );
    fn envoy_dynamic_module_on_bootstrap_extension_admin_request(
        envoy: P,
        module: *const c_void,
        method: EnvoyBuf,
        path: EnvoyBuf,
        body: EnvoyBuf,
    ) -> u32;
    fn envoy_dynamic_module_on_bootstrap_extension_cluster_add_or_update(
        envoy: P,
        module: *const c_void,
        name: EnvoyBuf,
    );
    fn envoy_dynamic_module_on_bootstrap_extension_cluster_removal(
        envoy: P,
        module: *const c_void,
        name: EnvoyBuf,
    );
    fn envoy_dynamic_module_on_bootstrap_extension_listener_add_or_update(
        envoy: P,
        module: *const c_void,
        name: EnvoyBuf,
    );
    fn envoy_dynamic_module_on_bootstrap_extension_listener_removal(
        envoy: P,
        module: *const c_void,
        name: EnvoyBuf,
    );
}

impl Bootstrap {
    /// Takes a configuration and makes its extension; null where the module refused.
    pub(crate) fn new(config: &[u8]) -> Rc<Self> {
        assert_eq!(super::program_init().as_deref(), Some("v0.2.0"));
        let this = Rc::new(Self {
            metrics: Metrics::default(),
            events: Arc::default(),
            config: Cell::new(std::ptr::null()),
            extension: Cell::new(std::ptr::null()),
            ready: Cell::new(0),
            handlers: RefCell::default(),
            answer: RefCell::default(),
            timers: Rc::default(),
        });
        this.config.set(unsafe {
            envoy_dynamic_module_on_bootstrap_extension_config_new(this.ptr(), give(b"b\xff"), give(config))
        });
        this.metrics.frozen.set(true);
        if !this.config.get().is_null() {
            let extension =
                unsafe { envoy_dynamic_module_on_bootstrap_extension_new(this.config.get(), this.ptr()) };
            this.extension.set(extension);
        }
        this
    }

    fn ptr(&self) -> P {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    pub(crate) fn scheduled(&self, event: u64) {
        unsafe {
            envoy_dynamic_module_on_bootstrap_extension_config_scheduled(
                self.ptr(),
                self.config.get(),
                event,
            );
        };
    }

    pub(crate) fn admin(&self, path: &[u8]) -> (u32, String) {
        self.answer.borrow_mut().clear();
        let (method, body) = (give(b"GET"), super::NOTHING);
        let status = unsafe {
            envoy_dynamic_module_on_bootstrap_extension_admin_request(
                self.ptr(),
                self.config.get(),
                method,
                give(path),
                body,
            )
        };
        (status, self.answer.borrow().clone())
    }

    /// The ID of the timer, of which there is one.
    pub(crate) fn only_timer(&self) -> usize {
        let timers = self.timers.borrow();
        assert_eq!(timers.live.len(), 1);
        timers.live[0].0
    }

    /// Lets the timer fire.
    pub(crate) fn fire(&self, id: usize) {
        unsafe {
            envoy_dynamic_module_on_bootstrap_extension_timer_fired(self.ptr(), self.config.get(), id as P);
        };
    }

    pub(crate) fn server_initialized(&self) {
        unsafe {
            envoy_dynamic_module_on_bootstrap_extension_server_initialized(self.ptr(), self.extension.get());
        };
    }

    pub(crate) fn drain_started(&self) {
        unsafe {
            envoy_dynamic_module_on_bootstrap_extension_drain_started(self.ptr(), self.extension.get());
        }
    }

    /// All the hooks that nothing listens to.
    pub(crate) fn call_ignored_hooks(&self) {
        let (p, c, e) = (self.ptr(), self.config.get(), self.extension.get());
        let (headers, chunks) = (std::ptr::null(), std::ptr::null());
        unsafe {
            envoy_dynamic_module_on_bootstrap_extension_worker_thread_initialized(p, e);
            envoy_dynamic_module_on_bootstrap_extension_file_changed(p, c, give(b"/f"), 2);
            envoy_dynamic_module_on_bootstrap_extension_cluster_add_or_update(p, c, give(b"c\xff"));
            envoy_dynamic_module_on_bootstrap_extension_cluster_removal(p, c, give(b"c"));
            envoy_dynamic_module_on_bootstrap_extension_listener_add_or_update(p, c, give(b"l"));
            envoy_dynamic_module_on_bootstrap_extension_listener_removal(p, c, super::NOTHING);
            envoy_dynamic_module_on_bootstrap_extension_http_callout_done(p, c, 1, 0, headers, 0, chunks, 0);
        }
    }

    /// Shuts down; how often the completion was called before the hook returned.
    pub(crate) fn shutdown(&self, completed: &Cell<u32>) {
        unsafe extern "C" fn complete(context: P) {
            let completed = unsafe { &*context.cast::<Cell<u32>>() };
            completed.set(completed.get() + 1);
        }
        let context = std::ptr::from_ref(completed).cast_mut().cast();
        unsafe {
            envoy_dynamic_module_on_bootstrap_extension_shutdown(
                self.ptr(),
                self.extension.get(),
                Some(complete),
                context,
            );
        }
    }
}

impl Drop for Bootstrap {
    fn drop(&mut self) {
        unsafe {
            envoy_dynamic_module_on_bootstrap_extension_destroy(self.extension.get());
            envoy_dynamic_module_on_bootstrap_extension_config_destroy(self.config.get());
        }
    }
}

unsafe fn bootstrap<'a>(p: P) -> &'a Bootstrap {
    unsafe { &*p.cast::<Bootstrap>() }
}

unsafe fn metrics<'a>(p: P) -> &'a Metrics {
    unsafe { &bootstrap(p).metrics }
}

crate::metrics_callbacks!(metrics;
    define envoy_dynamic_module_callback_bootstrap_extension_config_define_counter
        envoy_dynamic_module_callback_bootstrap_extension_config_define_gauge;
    add envoy_dynamic_module_callback_bootstrap_extension_config_increment_counter;
    set envoy_dynamic_module_callback_bootstrap_extension_config_set_gauge);

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_bootstrap_extension_config_scheduler_new(p: P) -> P {
    Arc::into_raw(unsafe { bootstrap(p) }.events.clone()).cast_mut().cast()
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_bootstrap_extension_config_scheduler_commit(s: P, event: u64) {
    unsafe { &*s.cast::<Mutex<Vec<u64>>>() }.lock().expect("not poisoned").push(event);
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_bootstrap_extension_config_scheduler_delete(s: P) {
    drop(unsafe { Arc::from_raw(s.cast::<Mutex<Vec<u64>>>()) });
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_bootstrap_extension_config_signal_init_complete(p: P) {
    let ready = &unsafe { bootstrap(p) }.ready;
    ready.set(ready.get() + 1);
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_bootstrap_extension_register_admin_handler(
    p: P,
    path: ModuleBuf,
    _help: ModuleBuf,
    _removable: bool,
    _mutates: bool,
) -> bool {
    let path = String::from_utf8(unsafe { take(path) }).expect("UTF-8");
    unsafe { bootstrap(p) }.handlers.borrow_mut().push(path);
    true
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_bootstrap_extension_admin_set_response(p: P, body: ModuleBuf) {
    let body = String::from_utf8(unsafe { take(body) }).expect("UTF-8");
    unsafe { bootstrap(p) }.answer.replace(body);
}

// A timer's pointer is its box; its ID in `Timers` is the same number.
#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_bootstrap_extension_timer_new(p: P) -> P {
    let timers = unsafe { bootstrap(p) }.timers.clone();
    let raw = Box::into_raw(Box::new(Timer { id: 0, timers }));
    let timer = unsafe { &mut *raw };
    timer.id = raw as usize;
    timer.timers.borrow_mut().live.push((timer.id, None));
    raw.cast()
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_bootstrap_extension_timer_enable(timer: P, delay: u64) {
    let timer = unsafe { &*timer.cast::<Timer>() };
    let mut timers = timer.timers.borrow_mut();
    timers.live.iter_mut().find(|(id, _)| *id == timer.id).expect("a live timer").1 = Some(delay);
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_bootstrap_extension_timer_delete(timer: P) {
    let timer = unsafe { Box::from_raw(timer.cast::<Timer>()) };
    let mut timers = timer.timers.borrow_mut();
    timers.live.retain(|(id, _)| *id != timer.id);
    timers.deleted.push(timer.id);
}
