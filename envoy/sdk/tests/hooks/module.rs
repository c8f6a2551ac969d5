//! The module under test. Its filters, extension and clusters do what the running test has put into a script.

use std::any::Any;
use std::cell::RefCell;
use std::rc::Rc;

use envoy_proxy_dynamic_modules_rust_sdk::*;

declare_all_init_functions!(init, bootstrap: crate::bootstrap::new_config, http: new_http, http_per_route: new_route_config, cluster: crate::cluster::new_config, network: crate::network::new_config);

fn init() -> bool {
    INIT.get()
}

thread_local! {
    pub(crate) static INIT: std::cell::Cell<bool> = const { std::cell::Cell::new(true) };
    static FILTER: RefCell<Option<Rc<FilterScript>>> = const { RefCell::new(None) };
    static SEEN: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// What a filter does in the hook of this name.
pub(crate) type FilterScript = dyn Fn(&'static str, &mut EnvoyHttpFilterImpl);

/// Scripts the filters this thread makes from now on.
pub(crate) fn script(hooks: impl Fn(&'static str, &mut EnvoyHttpFilterImpl) + 'static) {
    FILTER.set(Some(Rc::new(hooks)));
}

/// Scripts one hook of the filters this thread makes from now on.
pub(crate) fn on(hook: &'static str, script_of: impl Fn(&mut EnvoyHttpFilterImpl) + 'static) {
    script(move |at, envoy| {
        if at == hook {
            script_of(envoy);
        }
    });
}

/// Notes something for [`seen`].
pub(crate) fn note(what: impl Into<String>) {
    SEEN.with_borrow_mut(|seen| seen.push(what.into()));
}

/// What was noted since the last call.
pub(crate) fn seen() -> Vec<String> {
    SEEN.take()
}

fn new_http(
    envoy: &mut EnvoyHttpFilterConfigImpl,
    name: &str,
    config: &[u8],
) -> Option<Box<dyn HttpFilterConfig<EnvoyHttpFilterImpl>>> {
    note(format!("config {name:?} {config:?}"));
    match config {
        b"reject" => return None,
        b"panic" => panic!("no config"),
        b"metrics" => crate::http::use_metrics(envoy),
        b"secrets" => crate::http_configs::use_secrets(envoy),
        _ => {}
    }
    Some(Box::new(Config))
}

/// What the module makes of a per-route config.
pub(crate) struct RouteConfig(pub(crate) Vec<u8>);

impl Drop for RouteConfig {
    fn drop(&mut self) {
        note("route config dropped");
    }
}

fn new_route_config(name: &str, config: &[u8]) -> Option<Box<dyn Any + Send + Sync>> {
    note(format!("route config {name:?} {config:?}"));
    match config {
        b"reject" => None,
        b"panic" => panic!("no config"),
        _ => Some(Box::new(RouteConfig(config.to_vec()))),
    }
}

struct Config;

impl HttpFilterConfig<EnvoyHttpFilterImpl> for Config {
    fn new_http_filter(&self, envoy: &mut EnvoyHttpFilterImpl) -> Box<dyn HttpFilter<EnvoyHttpFilterImpl>> {
        let script = FILTER.with_borrow(Clone::clone).unwrap_or_else(|| Rc::new(|_, _| ()));
        script("new", envoy);
        Box::new(Filter(script))
    }
}

struct Filter(Rc<FilterScript>);

impl Drop for Filter {
    fn drop(&mut self) {
        note("dropped");
    }
}

use abi::{
    envoy_dynamic_module_type_on_http_filter_local_reply_status as LocalReplyStatus,
    envoy_dynamic_module_type_on_http_filter_request_body_status as RequestBodyStatus,
    envoy_dynamic_module_type_on_http_filter_request_headers_status as RequestHeadersStatus,
    envoy_dynamic_module_type_on_http_filter_response_headers_status as ResponseHeadersStatus,
};

impl HttpFilter<EnvoyHttpFilterImpl> for Filter {
    fn on_request_headers(&self, envoy: &mut EnvoyHttpFilterImpl, _eos: bool) -> RequestHeadersStatus {
        (self.0)("request_headers", envoy);
        RequestHeadersStatus::StopAllIterationAndWatermark
    }
    fn on_request_body(&self, envoy: &mut EnvoyHttpFilterImpl, _eos: bool) -> RequestBodyStatus {
        (self.0)("request_body", envoy);
        RequestBodyStatus::Continue
    }
    fn on_response_headers(&self, envoy: &mut EnvoyHttpFilterImpl, _eos: bool) -> ResponseHeadersStatus {
        (self.0)("response_headers", envoy);
        ResponseHeadersStatus::Continue
    }
    fn on_stream_complete(&self, envoy: &mut EnvoyHttpFilterImpl) {
        (self.0)("stream_complete", envoy);
    }
    fn on_scheduled(&self, envoy: &mut EnvoyHttpFilterImpl, event_id: u64) {
        note(format!("scheduled {event_id}"));
        (self.0)("scheduled", envoy);
    }
    fn on_local_reply(
        &self,
        envoy: &mut EnvoyHttpFilterImpl,
        code: u32,
        details: EnvoyBuffer<'_>,
        _reset_imminent: bool,
    ) -> LocalReplyStatus {
        note(format!("local_reply {code} {}", String::from_utf8_lossy(details.as_slice())));
        (self.0)("local_reply", envoy);
        LocalReplyStatus::Continue
    }
}
