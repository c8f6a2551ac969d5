//! The HTTP filter's part of the host.

mod callbacks;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use envoy_proxy_dynamic_modules_rust_sdk::abi::{
    envoy_dynamic_module_type_envoy_buffer as EnvoyBuf,
    envoy_dynamic_module_type_envoy_http_header as EnvoyHeader,
    envoy_dynamic_module_type_http_header_type as HeaderType,
    envoy_dynamic_module_type_on_http_filter_local_reply_status as LocalReplyStatus,
    envoy_dynamic_module_type_on_http_filter_request_body_status as RequestBodyStatus,
    envoy_dynamic_module_type_on_http_filter_request_headers_status as RequestHeadersStatus,
    envoy_dynamic_module_type_on_http_filter_request_trailers_status as RequestTrailersStatus,
    envoy_dynamic_module_type_on_http_filter_response_body_status as ResponseBodyStatus,
    envoy_dynamic_module_type_on_http_filter_response_headers_status as ResponseHeadersStatus,
    envoy_dynamic_module_type_on_http_filter_response_trailers_status as ResponseTrailersStatus,
};

use super::{Bytes, Metrics, NOTHING, P, give};

/// A local reply as it reached Envoy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reply {
    pub status: u32,
    pub headers: Vec<(String, Bytes)>,
    pub body: Bytes,
    pub details: String,
}

/// Events committed to a filter, from any thread.
#[derive(Default)]
pub(crate) struct Queue(Mutex<Vec<u64>>);

impl Queue {
    pub(crate) fn drain(&self) -> Vec<u64> {
        std::mem::take(&mut self.0.lock().expect("not poisoned"))
    }
}

/// What happens to a filter while a local reply is being sent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnReply {
    Nothing,
    /// Envoy's usual nesting.
    CallHooks,
    /// The nesting, and then the filter is destroyed on the spot.
    CallHooksAndDestroy,
}

/// A filter configuration of the host.
pub(crate) struct Config {
    pub metrics: Metrics,
    /// Name, source and value of each secret that the module has subscribed to, by ID from 1.
    pub secrets: RefCell<Vec<(String, String, Bytes)>>,
    pub module: Cell<*const std::ffi::c_void>,
}

/// A filter of the host.
pub(crate) struct Filter {
    config: Rc<Config>,
    pub module: Cell<*const std::ffi::c_void>,
    pub headers: RefCell<[Vec<(Bytes, Bytes)>; 4]>,
    pub replies: RefCell<Vec<Reply>>,
    pub resets: RefCell<Vec<String>>,
    pub on_reply: Cell<OnReply>,
    pub state: RefCell<HashMap<Bytes, Bytes>>,
    pub queue: Arc<Queue>,
    pub continued: Cell<u32>,
    /// How often the module made Envoy choose the route again. There is no route before.
    pub route_choices: Cell<u32>,
    /// The per-route config of the route.
    pub route_config: Cell<*const std::ffi::c_void>,
    /// How much of the body the next call of the hook comes with.
    pub body: Cell<usize>,
    /// How much the running hook was called with.
    received: Cell<usize>,
}

/// A per-route config of the host.
pub(crate) struct RouteConfig(pub *const std::ffi::c_void);

impl RouteConfig {
    /// Takes a per-route config; the module's pointer is null if it refused.
    pub(crate) fn new(name: EnvoyBuf, config: EnvoyBuf) -> Self {
        assert_eq!(super::program_init().as_deref(), Some("v0.2.0"));
        Self(unsafe { envoy_dynamic_module_on_http_filter_per_route_config_new(name, config) })
    }
}

impl Drop for RouteConfig {
    fn drop(&mut self) {
        unsafe { envoy_dynamic_module_on_http_filter_per_route_config_destroy(self.0) };
    }
}

unsafe extern "C" {
    fn envoy_dynamic_module_on_http_filter_config_new(
        envoy: P,
        name: EnvoyBuf,
        config: EnvoyBuf,
    ) -> *const std::ffi::c_void;
    fn envoy_dynamic_module_on_http_filter_config_destroy(module: *const std::ffi::c_void);
    fn envoy_dynamic_module_on_http_filter_per_route_config_new(
        name: EnvoyBuf,
        config: EnvoyBuf,
    ) -> *const std::ffi::c_void;
    fn envoy_dynamic_module_on_http_filter_per_route_config_destroy(module: *const std::ffi::c_void);
    fn envoy_dynamic_module_on_http_filter_new(
        config: *const std::ffi::c_void,
        envoy: P,
    ) -> *const std::ffi::c_void;
    fn envoy_dynamic_module_on_http_filter_destroy(module: *const std::ffi::c_void);
    fn envoy_dynamic_module_on_http_filter_request_headers(
        envoy: P,
        module: *const std::ffi::c_void,
        end: bool,
    ) -> RequestHeadersStatus;
    fn envoy_dynamic_module_on_http_filter_request_body(
        envoy: P,
        module: *const std::ffi::c_void,
        end: bool,
    ) -> RequestBodyStatus;
    fn envoy_dynamic_module_on_http_filter_request_trailers(
        envoy: P,
        module: *const std::ffi::c_void,
    ) -> RequestTrailersStatus;
    fn envoy_dynamic_module_on_http_filter_response_headers(
        envoy: P,
        module: *const std::ffi::c_void,
        end: bool,
    ) -> ResponseHeadersStatus;
    fn envoy_dynamic_module_on_http_filter_response_body(
        envoy: P,
        module: *const std::ffi::c_void,
        end: bool,
    ) -> ResponseBodyStatus;
    fn envoy_dynamic_module_on_http_filter_response_trailers(
        envoy: P,
        module: *const std::ffi::c_void,
    ) -> ResponseTrailersStatus;
    fn envoy_dynamic_module_on_http_filter_stream_complete(envoy: P, module: *const std::ffi::c_void);
    fn envoy_dynamic_module_on_http_filter_scheduled(envoy: P, module: *const std::ffi::c_void, event: u64);
    fn envoy_dynamic_module_on_http_filter_local_reply(
        envoy: P,
        module: *const std::ffi::c_void,
        code: u32,
        details: EnvoyBuf,
        reset_imminent: bool,
    ) -> LocalReplyStatus;
    fn envoy_dynamic_module_on_http_filter_http_callout_done(
        envoy: P,
        module: *const std::ffi::c_void,
        id: u64,
        result: u32,
        headers: *const EnvoyHeader,
        n: usize,
        body: *const EnvoyBuf,
        chunks: usize,
    );
    fn envoy_dynamic_module_on_http_filter_http_stream_headers(
        envoy: P,
        module: *const std::ffi::c_void,
        stream: u64,
        headers: *const EnvoyHeader,
        n: usize,
        end: bool,
    );
    fn envoy_dynamic_module_on_http_filter_http_stream_data(
        envoy: P,
        module: *const std::ffi::c_void,
        stream: u64,
        data: *const EnvoyBuf,
        n: usize,
        end: bool,
    );
    fn envoy_dynamic_module_on_http_filter_http_stream_trailers(
        envoy: P,
        module: *const std::ffi::c_void,
        stream: u64,
        trailers: *const EnvoyHeader,
        n: usize,
    );
    fn envoy_dynamic_module_on_http_filter_http_stream_complete(
        envoy: P,
        module: *const std::ffi::c_void,
        stream: u64,
    );
    fn envoy_dynamic_module_on_http_filter_http_stream_reset(
        envoy: P,
        module: *const std::ffi::c_void,
        stream: u64,
        reason: u32,
    );
    fn envoy_dynamic_module_on_http_filter_downstream_above_write_buffer_high_watermark(
        envoy: P,
        module: *const std::ffi::c_void,
    );
    fn envoy_dynamic_module_on_http_filter_downstream_below_write_buffer_low_watermark(
        envoy: P,
        module: *const std::ffi::c_void,
    );
}

impl Config {
    /// Takes a configuration; the module's pointer is null if it refused.
    pub(crate) fn new(name: EnvoyBuf, config: EnvoyBuf) -> Rc<Self> {
        assert_eq!(super::program_init().as_deref(), Some("v0.2.0"));
        let this = Rc::new(Self {
            metrics: Metrics::default(),
            secrets: RefCell::default(),
            module: Cell::new(std::ptr::null()),
        });
        this.module.set(unsafe { envoy_dynamic_module_on_http_filter_config_new(this.ptr(), name, config) });
        this.metrics.frozen.set(true);
        this
    }

    fn ptr(&self) -> P {
        std::ptr::from_ref(self).cast_mut().cast()
    }
}

impl Drop for Config {
    fn drop(&mut self) {
        unsafe { envoy_dynamic_module_on_http_filter_config_destroy(self.module.get()) };
    }
}

impl Filter {
    /// A new request.
    pub(crate) fn new(config: &Rc<Config>) -> Rc<Self> {
        let this = Rc::new(Self {
            config: config.clone(),
            module: Cell::new(std::ptr::null()),
            headers: RefCell::default(),
            replies: RefCell::default(),
            resets: RefCell::default(),
            on_reply: Cell::new(OnReply::Nothing),
            state: RefCell::default(),
            queue: Arc::default(),
            continued: Cell::new(0),
            route_choices: Cell::new(0),
            route_config: Cell::new(std::ptr::null()),
            body: Cell::new(0),
            received: Cell::new(0),
        });
        this.module.set(unsafe { envoy_dynamic_module_on_http_filter_new(config.module.get(), this.ptr()) });
        this
    }

    fn ptr(&self) -> P {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    pub(crate) fn add(&self, kind: HeaderType, name: &str, value: &[u8]) {
        self.headers.borrow_mut()[kind as usize].push((name.as_bytes().to_vec(), value.to_vec()));
    }

    pub(crate) fn values(&self, kind: HeaderType, name: &str) -> Vec<Bytes> {
        let headers = self.headers.borrow();
        headers[kind as usize].iter().filter(|(n, _)| n == name.as_bytes()).map(|(_, v)| v.clone()).collect()
    }

    pub(crate) fn request_headers(&self) -> u32 {
        self.call("request_headers")
    }

    pub(crate) fn destroy(&self) {
        let module = self.module.replace(std::ptr::null());
        unsafe { envoy_dynamic_module_on_http_filter_destroy(module) };
    }

    pub(crate) fn scheduled(&self, event: u64) {
        unsafe { envoy_dynamic_module_on_http_filter_scheduled(self.ptr(), self.module.get(), event) };
    }

    /// Calls the hook of this name; the status it answers, or 0.
    pub(crate) fn call(&self, hook: &str) -> u32 {
        let (p, m) = (self.ptr(), self.module.get());
        let header =
            EnvoyHeader { key_ptr: c"k".as_ptr(), key_length: 1, value_ptr: c"v".as_ptr(), value_length: 1 };
        let chunk = give(b"chunk");
        unsafe {
            match hook {
                "request_headers" => envoy_dynamic_module_on_http_filter_request_headers(p, m, false) as u32,
                "request_body" => {
                    self.received.set(self.body.get());
                    let status = envoy_dynamic_module_on_http_filter_request_body(p, m, true);
                    self.received.set(0);
                    status as u32
                }
                "request_trailers" => envoy_dynamic_module_on_http_filter_request_trailers(p, m) as u32,
                "response_headers" => {
                    envoy_dynamic_module_on_http_filter_response_headers(p, m, false) as u32
                }
                "response_body" => envoy_dynamic_module_on_http_filter_response_body(p, m, true) as u32,
                "response_trailers" => envoy_dynamic_module_on_http_filter_response_trailers(p, m) as u32,
                "local_reply" => {
                    envoy_dynamic_module_on_http_filter_local_reply(p, m, 503, NOTHING, false) as u32
                }
                other => {
                    match other {
                        "stream_complete" => envoy_dynamic_module_on_http_filter_stream_complete(p, m),
                        "scheduled" => envoy_dynamic_module_on_http_filter_scheduled(p, m, 1),
                        "above_high_watermark" => {
                            envoy_dynamic_module_on_http_filter_downstream_above_write_buffer_high_watermark(
                                p, m,
                            );
                        }
                        "below_low_watermark" => {
                            envoy_dynamic_module_on_http_filter_downstream_below_write_buffer_low_watermark(
                                p, m,
                            );
                        }
                        "http_callout_done" => {
                            envoy_dynamic_module_on_http_filter_http_callout_done(
                                p, m, 1, 0, &header, 1, &chunk, 1,
                            );
                        }
                        "http_stream_headers" => {
                            envoy_dynamic_module_on_http_filter_http_stream_headers(
                                p, m, 1, &header, 1, false,
                            );
                        }
                        "http_stream_data" => {
                            envoy_dynamic_module_on_http_filter_http_stream_data(p, m, 1, &chunk, 1, false);
                        }
                        "http_stream_trailers" => {
                            envoy_dynamic_module_on_http_filter_http_stream_trailers(p, m, 1, &header, 1);
                        }
                        "http_stream_complete" => {
                            envoy_dynamic_module_on_http_filter_http_stream_complete(p, m, 1);
                        }
                        "http_stream_reset" => {
                            envoy_dynamic_module_on_http_filter_http_stream_reset(p, m, 1, 99);
                        }
                        unknown => panic!("no hook {unknown}"),
                    }
                    0
                }
            }
        }
    }
}

impl Drop for Filter {
    fn drop(&mut self) {
        self.destroy();
    }
}
