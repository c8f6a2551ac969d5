//! The least an HTTP filter can do: every request goes on at once. What the benches measure a real filter
//! against.
//!
//! `cargo build --profile module --example noop` makes `libnoop.so`.

#![forbid(unsafe_code)]

use abi::envoy_dynamic_module_type_on_http_filter_request_headers_status as Status;
use envoy_proxy_dynamic_modules_rust_sdk::*;

declare_all_init_functions!(init, http: new_filter_config);

fn init() -> bool {
    true
}

fn new_filter_config<EC: EnvoyHttpFilterConfig, EHF: EnvoyHttpFilter>(
    _envoy: &mut EC,
    _name: &str,
    _config: &[u8],
) -> Option<Box<dyn HttpFilterConfig<EHF>>> {
    Some(Box::new(Nothing))
}

struct Nothing;

impl<EHF: EnvoyHttpFilter> HttpFilterConfig<EHF> for Nothing {
    fn new_http_filter(&self, _envoy: &mut EHF) -> Box<dyn HttpFilter<EHF>> {
        Box::new(Nothing)
    }
}

impl<EHF: EnvoyHttpFilter> HttpFilter<EHF> for Nothing {
    fn on_request_headers(&self, _envoy: &mut EHF, _end_of_stream: bool) -> Status {
        Status::Continue
    }
}
