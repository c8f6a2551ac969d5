//! The cluster's part of the host.

use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use envoy_proxy_dynamic_modules_rust_sdk::abi::{
    envoy_dynamic_module_type_envoy_buffer as EnvoyBuf, envoy_dynamic_module_type_module_buffer as ModuleBuf,
    envoy_dynamic_module_type_packed_address as Packed,
};

use super::{NOTHING, P, give, take, take_list};

/// A host of the cluster; its number is its "pointer".
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Host {
    pub number: usize,
    pub address: String,
    pub name: String,
    pub priority: u32,
}

/// A cluster configuration of the host.
pub(crate) struct Config {
    pub module: Cell<*const c_void>,
}

/// A cluster of the host.
pub(crate) struct Cluster {
    pub module: Cell<*const c_void>,
    pub hosts: RefCell<Vec<Host>>,
    next: Cell<usize>,
    pub ready: Cell<u32>,
    pub persistent: Cell<bool>,
    /// Makes a load balancer as soon as the cluster is ready, as Envoy does.
    pub lb: RefCell<Option<Rc<Lb>>>,
    pub events: Arc<Mutex<Vec<u64>>>,
    pub worker_events: RefCell<Vec<u64>>,
    pub add_calls: Cell<u32>,
}

/// A load balancer of the host.
pub(crate) struct Lb {
    pub module: Cell<*const c_void>,
    pub added: RefCell<Vec<Host>>,
    pub removed: RefCell<Vec<Host>>,
    /// Choose a host from inside reading a header, as re-entrance.
    pub nested: Cell<Option<P>>,
    pub nested_answer: Cell<Option<(P, P)>>,
}

/// The context of a request.
pub(crate) struct Request {
    pub lb: Rc<Lb>,
    pub authority: Vec<u8>,
}

unsafe extern "C" {
    fn envoy_dynamic_module_on_cluster_config_new(
        envoy: P,
        name: EnvoyBuf,
        config: EnvoyBuf,
    ) -> *const c_void;
    fn envoy_dynamic_module_on_cluster_config_destroy(module: *const c_void);
    fn envoy_dynamic_module_on_cluster_new(config: *const c_void, envoy: P) -> *const c_void;
    fn envoy_dynamic_module_on_cluster_init(envoy: P, module: *const c_void);
    fn envoy_dynamic_module_on_cluster_destroy(module: *const c_void);
    fn envoy_dynamic_module_on_cluster_scheduled(envoy: P, module: *const c_void, event: u64);
    fn envoy_dynamic_module_on_cluster_worker_event(envoy: P, module: *const c_void, event: u64);
    fn envoy_dynamic_module_on_cluster_shutdown(
        envoy: P,
        module: *const c_void,
        callback: Option<unsafe extern "C" fn(P)>,
        context: P,
    );
    fn envoy_dynamic_module_on_cluster_lb_new(cluster: *const c_void, envoy: P) -> *const c_void;
    fn envoy_dynamic_module_on_cluster_lb_destroy(module: *const c_void);
    fn envoy_dynamic_module_on_cluster_lb_choose_host(
        module: *const c_void,
        context: P,
        host: *mut P,
        handle: *mut P,
    );
    fn envoy_dynamic_module_on_cluster_lb_on_host_membership_update(
        envoy: P,
        module: *const c_void,
        added: usize,
        removed: usize,
    );
}

impl Config {
    pub(crate) fn new(config: &[u8]) -> Rc<Self> {
        assert_eq!(super::program_init().as_deref(), Some("v0.2.0"));
        let this = Rc::new(Self { module: Cell::new(std::ptr::null()) });
        let envoy = std::ptr::from_ref(&*this).cast_mut().cast();
        this.module
            .set(unsafe { envoy_dynamic_module_on_cluster_config_new(envoy, give(b"c\xff"), give(config)) });
        this
    }
}

impl Drop for Config {
    fn drop(&mut self) {
        unsafe { envoy_dynamic_module_on_cluster_config_destroy(self.module.get()) };
    }
}

impl Cluster {
    pub(crate) fn new(config: &Config) -> Rc<Self> {
        let this = Rc::new(Self {
            module: Cell::new(std::ptr::null()),
            hosts: RefCell::default(),
            next: Cell::new(1),
            ready: Cell::new(0),
            persistent: Cell::new(false),
            lb: RefCell::default(),
            events: Arc::default(),
            worker_events: RefCell::default(),
            add_calls: Cell::new(0),
        });
        this.module.set(unsafe { envoy_dynamic_module_on_cluster_new(config.module.get(), this.ptr()) });
        this
    }

    pub(crate) fn ptr(&self) -> P {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    pub(crate) fn init(&self) {
        unsafe { envoy_dynamic_module_on_cluster_init(self.ptr(), self.module.get()) };
    }

    pub(crate) fn scheduled(&self, event: u64) {
        unsafe { envoy_dynamic_module_on_cluster_scheduled(self.ptr(), self.module.get(), event) };
    }

    pub(crate) fn worker_event(&self, event: u64) {
        unsafe { envoy_dynamic_module_on_cluster_worker_event(self.ptr(), self.module.get(), event) };
    }

    /// Shuts down; how often the completion was called.
    pub(crate) fn shutdown(&self) -> u32 {
        unsafe extern "C" fn complete(context: P) {
            unsafe { *context.cast::<u32>() += 1 };
        }
        let mut completed = 0;
        let context = (&raw mut completed).cast();
        unsafe {
            envoy_dynamic_module_on_cluster_shutdown(self.ptr(), self.module.get(), Some(complete), context);
        };
        completed
    }

    pub(crate) fn addresses(&self) -> Vec<String> {
        self.hosts.borrow().iter().map(|host| host.address.clone()).collect()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.lb.take();
        unsafe { envoy_dynamic_module_on_cluster_destroy(self.module.get()) };
    }
}

impl Lb {
    pub(crate) fn new(cluster: &Cluster) -> Rc<Self> {
        let this = Rc::new(Self {
            module: Cell::new(std::ptr::null()),
            added: RefCell::default(),
            removed: RefCell::default(),
            nested: Cell::new(None),
            nested_answer: Cell::new(None),
        });
        this.module.set(unsafe { envoy_dynamic_module_on_cluster_lb_new(cluster.module.get(), this.ptr()) });
        this
    }

    pub(crate) fn ptr(&self) -> P {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    /// Host and handle of the answer.
    pub(crate) fn choose(&self, context: P) -> (P, P) {
        // Not null, so that an answer the hook forgets to write shows.
        let (mut host, mut handle) = (usize::MAX as P, usize::MAX as P);
        unsafe {
            envoy_dynamic_module_on_cluster_lb_choose_host(
                self.module.get(),
                context,
                &mut host,
                &mut handle,
            );
        };
        (host, handle)
    }

    pub(crate) fn members(&self, added: &[Host], removed: &[Host]) {
        (*self.added.borrow_mut(), *self.removed.borrow_mut()) = (added.to_vec(), removed.to_vec());
        let (a, r) = (added.len(), removed.len());
        unsafe {
            envoy_dynamic_module_on_cluster_lb_on_host_membership_update(self.ptr(), self.module.get(), a, r);
        };
    }
}

impl Drop for Lb {
    fn drop(&mut self) {
        unsafe { envoy_dynamic_module_on_cluster_lb_destroy(self.module.get()) };
    }
}

impl Request {
    pub(crate) fn new(lb: &Rc<Lb>, authority: &str) -> Self {
        Self { lb: lb.clone(), authority: authority.into() }
    }

    pub(crate) fn ptr(&self) -> P {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    pub(crate) fn choose(&self) -> (P, P) {
        self.lb.choose(self.ptr())
    }
}

unsafe fn cluster<'a>(p: P) -> &'a Cluster {
    unsafe { &*p.cast::<Cluster>() }
}

unsafe fn lb<'a>(p: P) -> &'a Lb {
    unsafe { &*p.cast::<Lb>() }
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_cluster_add_hosts_with_hostnames(
    p: P,
    priority: u32,
    addresses: *const ModuleBuf,
    names: *const ModuleBuf,
    weights: *const u32,
    regions: *const ModuleBuf,
    zones: *const ModuleBuf,
    sub_zones: *const ModuleBuf,
    metadata: *const ModuleBuf,
    per_host: usize,
    n: usize,
    out: *mut P,
) -> bool {
    let cluster = unsafe { cluster(p) };
    cluster.add_calls.set(cluster.add_calls.get() + 1);
    let (addresses, names) = unsafe { (take_list(addresses, n), take_list(names, n)) };
    // Reads everything Envoy would read, so that Miri notices a list that is too short.
    for list in [regions, zones, sub_zones] {
        unsafe { take_list(list, n) };
    }
    unsafe { take_list(metadata, 3 * per_host * n) };
    if (0..n).any(|i| unsafe { *weights.add(i) } == 0) || addresses.iter().any(|a| !a.contains(':')) {
        return false;
    }
    let mut added = 0;
    for (address, name) in addresses.into_iter().zip(names) {
        if cluster.addresses().contains(&address) {
            continue;
        }
        let number = cluster.next.replace(cluster.next.get() + 1);
        cluster.hosts.borrow_mut().push(Host { number, address, name, priority });
        unsafe { *out.add(added) = number as P };
        added += 1;
    }
    true
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_cluster_remove_hosts(p: P, hosts: *const P, n: usize) -> usize {
    let numbers: Vec<usize> = (0..n).map(|i| unsafe { *hosts.add(i) } as usize).collect();
    let mut hosts = unsafe { cluster(p) }.hosts.borrow_mut();
    let before = hosts.len();
    hosts.retain(|host| !numbers.contains(&host.number));
    before - hosts.len()
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_cluster_find_host_by_address(p: P, address: ModuleBuf) -> P {
    let address = unsafe { take(address) };
    let hosts = unsafe { cluster(p) }.hosts.borrow();
    hosts.iter().find(|host| host.address.as_bytes() == address).map_or(0, |host| host.number) as P
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_cluster_pre_init_complete(p: P) {
    let cluster = unsafe { cluster(p) };
    cluster.ready.set(cluster.ready.get() + 1);
    let lb = Lb::new(cluster);
    cluster.lb.replace(Some(lb));
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_cluster_use_persistent_host_map(p: P) {
    unsafe { cluster(p) }.persistent.set(true);
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_cluster_get_name(_p: P, result: *mut EnvoyBuf) {
    unsafe { *result = give(b"own") };
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_cluster_scheduler_new(p: P) -> P {
    Arc::into_raw(unsafe { cluster(p) }.events.clone()).cast_mut().cast()
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_cluster_scheduler_commit(s: P, event: u64) {
    unsafe { &*s.cast::<Mutex<Vec<u64>>>() }.lock().expect("not poisoned").push(event);
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_cluster_scheduler_delete(s: P) {
    drop(unsafe { Arc::from_raw(s.cast::<Mutex<Vec<u64>>>()) });
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_cluster_run_on_all_workers(p: P, event: u64) {
    unsafe { cluster(p) }.worker_events.borrow_mut().push(event);
}

unsafe fn member<'a>(p: P, index: usize, added: bool) -> Option<std::cell::Ref<'a, Host>> {
    let lb = unsafe { lb(p) };
    let list = if added { lb.added.borrow() } else { lb.removed.borrow() };
    std::cell::Ref::filter_map(list, |list| list.get(index)).ok()
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_cluster_lb_get_member_update_host(
    p: P,
    index: usize,
    added: bool,
) -> P {
    unsafe { member(p, index, added) }.map_or(0, |host| host.number) as P
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_cluster_lb_get_member_update_host_packed_address(
    p: P,
    index: usize,
    added: bool,
    result: *mut Packed,
) -> bool {
    let Some(host) = (unsafe { member(p, index, added) }) else { return false };
    let Ok(address) = host.address.parse::<std::net::SocketAddr>() else { return false };
    let mut address_bytes = [0; 16];
    let family = match address.ip() {
        std::net::IpAddr::V4(ip) => {
            address_bytes[..4].copy_from_slice(&ip.octets());
            4
        }
        std::net::IpAddr::V6(ip) => {
            address_bytes = ip.octets();
            6
        }
    };
    unsafe { *result = Packed { address_bytes, port: address.port(), family } };
    true
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_cluster_lb_context_get_downstream_header(
    context: P,
    key: ModuleBuf,
    result: *mut EnvoyBuf,
    index: usize,
    count: *mut usize,
) -> bool {
    let request = unsafe { &*context.cast::<Request>() };
    if let Some(nested) = request.lb.nested.take() {
        request.lb.nested_answer.set(Some(request.lb.choose(nested)));
    }
    let found = unsafe { take(key) } == b":authority" && index == 0;
    unsafe {
        *result = if found { give(&request.authority) } else { NOTHING };
        *count = usize::from(found);
    }
    found
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_cluster_lb_context_get_filter_state_bytes(
    context: P,
    key: ModuleBuf,
    result: *mut EnvoyBuf,
) -> bool {
    let request = unsafe { &*context.cast::<Request>() };
    let found = unsafe { take(key) } == b"authority";
    unsafe { *result = if found { give(&request.authority) } else { NOTHING } };
    found
}

// The hosts that a load balancer sees are those it was told of last, at priority 1.
#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_cluster_lb_get_priority_set_size(_p: P) -> usize {
    2
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_cluster_lb_get_hosts_count(p: P, priority: u32) -> usize {
    if priority == 1 { unsafe { lb(p) }.added.borrow().len() } else { 0 }
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_cluster_lb_get_host(p: P, priority: u32, index: usize) -> P {
    assert_eq!(priority, 1);
    unsafe { member(p, index, true) }.map_or(0, |host| host.number) as P
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_cluster_lb_get_host_address(
    p: P,
    priority: u32,
    index: usize,
    result: *mut EnvoyBuf,
) -> bool {
    assert_eq!(priority, 1);
    let host = unsafe { member(p, index, true) };
    unsafe { *result = host.as_ref().map_or(NOTHING, |host| give(host.address.as_bytes())) };
    host.is_some()
}
