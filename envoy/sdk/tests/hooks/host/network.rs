//! Envoy's side of a network filter.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use envoy_proxy_dynamic_modules_rust_sdk::abi::{
    envoy_dynamic_module_type_envoy_buffer as EnvoyBuf, envoy_dynamic_module_type_module_buffer as ModuleBuf,
    envoy_dynamic_module_type_network_connection_close_type as CloseType,
    envoy_dynamic_module_type_on_network_filter_data_status as Status,
};

use super::{P, give, take};

unsafe extern "C" {
    fn envoy_dynamic_module_on_network_filter_config_new(envoy: P, name: EnvoyBuf, config: EnvoyBuf) -> P;
    fn envoy_dynamic_module_on_network_filter_config_destroy(config: P);
    fn envoy_dynamic_module_on_network_filter_new(config: P, envoy: P) -> P;
    fn envoy_dynamic_module_on_network_filter_new_connection(envoy: P, filter: P) -> Status;
    fn envoy_dynamic_module_on_network_filter_read(envoy: P, filter: P, length: usize, end: bool) -> Status;
    fn envoy_dynamic_module_on_network_filter_write(envoy: P, filter: P, length: usize, end: bool) -> Status;
    fn envoy_dynamic_module_on_network_filter_event(envoy: P, filter: P, event: u32);
    fn envoy_dynamic_module_on_network_filter_destroy(filter: P);
}

/// A filter configuration.
pub(crate) struct Config {
    module: Cell<P>,
    counters: RefCell<Vec<String>>,
}

impl Config {
    /// `None` if the module rejects it.
    pub(crate) fn new(config: &[u8]) -> Option<Rc<Self>> {
        assert_eq!(super::program_init().as_deref(), Some("v0.2.0"));
        let this = Rc::new(Self { module: Cell::new(std::ptr::null_mut()), counters: RefCell::default() });
        let envoy: P = Rc::as_ptr(&this).cast_mut().cast();
        let module = unsafe {
            envoy_dynamic_module_on_network_filter_config_new(envoy, give(b"filter"), give(config))
        };
        this.module.set(module);
        (!module.is_null()).then_some(this)
    }
}

impl Drop for Config {
    fn drop(&mut self) {
        unsafe { envoy_dynamic_module_on_network_filter_config_destroy(self.module.get()) };
    }
}

/// One connection.
pub(crate) struct Connection {
    _config: Rc<Config>,
    module: Cell<P>,
    address: Option<&'static str>,
    pub(crate) closed: Cell<Option<u32>>,
    pub(crate) counted: Cell<u64>,
}

impl Connection {
    /// As Envoy makes one: the filter, then its first hook. The status, or `None` if there is no filter and
    /// Envoy closes.
    pub(crate) fn open(config: &Rc<Config>, address: Option<&'static str>) -> (Box<Self>, Option<u32>) {
        let this = Box::new(Self {
            _config: Rc::clone(config),
            module: Cell::new(std::ptr::null_mut()),
            address,
            closed: Cell::new(None),
            counted: Cell::new(0),
        });
        let envoy = this.envoy();
        this.module.set(unsafe { envoy_dynamic_module_on_network_filter_new(config.module.get(), envoy) });
        let module = this.module.get();
        let status = (!module.is_null())
            .then(|| unsafe { envoy_dynamic_module_on_network_filter_new_connection(envoy, module) as u32 });
        (this, status)
    }

    fn envoy(&self) -> P {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    /// Bytes both ways, and the end of the connection.
    pub(crate) fn serve(&self) -> [u32; 2] {
        let (envoy, module) = (self.envoy(), self.module.get());
        unsafe {
            [
                envoy_dynamic_module_on_network_filter_read(envoy, module, 7, false) as u32,
                envoy_dynamic_module_on_network_filter_write(envoy, module, 7, true) as u32,
            ]
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if !self.module.get().is_null() {
            unsafe { envoy_dynamic_module_on_network_filter_destroy(self.module.get()) };
        }
    }
}

unsafe fn connection<'a>(p: P) -> &'a Connection {
    unsafe { &*p.cast::<Connection>() }
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_network_filter_close(p: P, close_type: CloseType) {
    let this = unsafe { connection(p) };
    this.closed.set(Some(close_type as u32));
    // As Envoy does: the filter hears of it before the call returns.
    unsafe { envoy_dynamic_module_on_network_filter_event(p, this.module.get(), 1) };
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_network_filter_get_remote_address(
    p: P,
    address: *mut EnvoyBuf,
    port: *mut u32,
) -> bool {
    let Some(text) = unsafe { connection(p) }.address else { return false };
    unsafe {
        *address = give(text.as_bytes());
        *port = 4321;
    }
    true
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_network_filter_config_define_counter(
    p: P,
    name: ModuleBuf,
    id: *mut usize,
) -> u32 {
    let config = unsafe { &*p.cast::<Config>() };
    let mut counters = config.counters.borrow_mut();
    counters.push(String::from_utf8(unsafe { take(name) }).expect("UTF-8"));
    unsafe { *id = counters.len() };
    0
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_network_filter_increment_counter(
    p: P,
    id: usize,
    value: u64,
) -> u32 {
    if id != 1 {
        return 1;
    }
    let this = unsafe { connection(p) };
    this.counted.set(this.counted.get() + value);
    0
}
