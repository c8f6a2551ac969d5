//! The HTTP filter (`envoy.filters.http.dynamic_modules`).
//!
//! Envoy makes an [`HttpFilterConfig`] on the main thread when it accepts a configuration. All workers share
//! it, and it is dropped after the last filter made from it. While a configuration is being replaced, the new
//! one exists before the old one is dropped. The config makes one [`HttpFilter`] for each request, on the
//! worker that serves the request and that calls all hooks of the filter. Hooks take `&self` because Envoy
//! nests them: [`EnvoyHttpFilter::send_response`] calls [`HttpFilter::on_local_reply`] and possibly
//! [`HttpFilter::on_stream_complete`] before it returns.
//!
//! `stream_complete` is the last hook of a request. Envoy destroys the filter later.
//!
//! A per-route config is made by a factory of its own, on the main thread, without knowledge of any filter
//! config: see [`EnvoyHttpFilter::get_most_specific_route_config`].
//!
//! The body of a response and trailers pass this filter without a call into the module's own code.
//!
//! # When a hook panics
//! - `on_request_headers`, `on_request_body` and `on_scheduled`: the client gets a 500 with the response-code
//!   details `sandgate_panic`, and the request goes no further. A filter that could not be made answers its
//!   request the same way.
//! - `on_response_headers`: the stream is reset with the same details.
//! - The other hooks only report the panic.

mod config;
mod config_hooks;
mod envoy;
mod filter;
mod hooks;
mod route_config;
mod scheduler;

pub use config::{EnvoyGenericSecretId, EnvoyHttpFilterConfig, EnvoyHttpFilterConfigImpl};
pub use envoy::EnvoyHttpFilter;
pub use filter::EnvoyHttpFilterImpl;
pub use scheduler::EnvoyHttpFilterScheduler;

use crate::abi;
use crate::buffer::EnvoyBuffer;

/// The hooks this extension point exports.
pub(crate) const HOOKS: &[&str] = &[
    "envoy_dynamic_module_on_http_filter_config_new",
    "envoy_dynamic_module_on_http_filter_config_destroy",
    "envoy_dynamic_module_on_http_filter_per_route_config_new",
    "envoy_dynamic_module_on_http_filter_per_route_config_destroy",
    "envoy_dynamic_module_on_http_filter_new",
    "envoy_dynamic_module_on_http_filter_destroy",
    "envoy_dynamic_module_on_http_filter_request_headers",
    "envoy_dynamic_module_on_http_filter_request_body",
    "envoy_dynamic_module_on_http_filter_request_trailers",
    "envoy_dynamic_module_on_http_filter_response_headers",
    "envoy_dynamic_module_on_http_filter_response_body",
    "envoy_dynamic_module_on_http_filter_response_trailers",
    "envoy_dynamic_module_on_http_filter_stream_complete",
    "envoy_dynamic_module_on_http_filter_scheduled",
    "envoy_dynamic_module_on_http_filter_local_reply",
    "envoy_dynamic_module_on_http_filter_http_callout_done",
    "envoy_dynamic_module_on_http_filter_http_stream_headers",
    "envoy_dynamic_module_on_http_filter_http_stream_data",
    "envoy_dynamic_module_on_http_filter_http_stream_trailers",
    "envoy_dynamic_module_on_http_filter_http_stream_complete",
    "envoy_dynamic_module_on_http_filter_http_stream_reset",
    "envoy_dynamic_module_on_http_filter_downstream_above_write_buffer_high_watermark",
    "envoy_dynamic_module_on_http_filter_downstream_below_write_buffer_low_watermark",
];

/// The module's side of a filter configuration: makes a filter for each request. Workers call it
/// concurrently.
pub trait HttpFilterConfig<EHF: EnvoyHttpFilter>: Sync {
    /// Makes the filter of a new request.
    fn new_http_filter(&self, envoy: &mut EHF) -> Box<dyn HttpFilter<EHF>>;
}

/// The module's side of one request. All hooks run on one worker thread.
#[allow(unused_variables, reason = "parameter names are documentation")]
pub trait HttpFilter<EHF: EnvoyHttpFilter> {
    /// The request's headers have arrived. To hold the request, return `StopAllIterationAndWatermark` and
    /// later call [`EnvoyHttpFilter::continue_decoding`] from [`HttpFilter::on_scheduled`]. After a local
    /// reply return `StopIteration`.
    fn on_request_headers(
        &self,
        envoy_filter: &mut EHF,
        end_of_stream: bool,
    ) -> abi::envoy_dynamic_module_type_on_http_filter_request_headers_status {
        abi::envoy_dynamic_module_type_on_http_filter_request_headers_status::Continue
    }

    /// A part of the request's body has arrived; [`EnvoyHttpFilter::get_received_request_body_size`] says how
    /// much. After a local reply return `StopIterationNoBuffer`. Envoy calls it after
    /// [`HttpFilter::on_request_headers`] only, and not while the request is held.
    fn on_request_body(
        &self,
        envoy_filter: &mut EHF,
        end_of_stream: bool,
    ) -> abi::envoy_dynamic_module_type_on_http_filter_request_body_status {
        abi::envoy_dynamic_module_type_on_http_filter_request_body_status::Continue
    }

    /// The response's headers have arrived. Not called for a response that this filter sent itself.
    fn on_response_headers(
        &self,
        envoy_filter: &mut EHF,
        end_of_stream: bool,
    ) -> abi::envoy_dynamic_module_type_on_http_filter_response_headers_status {
        abi::envoy_dynamic_module_type_on_http_filter_response_headers_status::Continue
    }

    /// The request has ended, for whatever reason. Remove it from the module's own records here.
    fn on_stream_complete(&self, envoy_filter: &mut EHF) {}

    /// An [`EnvoyHttpFilterScheduler::commit`] has arrived on this filter's worker.
    fn on_scheduled(&self, envoy_filter: &mut EHF, event_id: u64) {}

    /// Envoy, or some filter, answers the request itself.
    fn on_local_reply(
        &self,
        envoy_filter: &mut EHF,
        response_code: u32,
        details: EnvoyBuffer<'_>,
        reset_imminent: bool,
    ) -> abi::envoy_dynamic_module_type_on_http_filter_local_reply_status {
        abi::envoy_dynamic_module_type_on_http_filter_local_reply_status::Continue
    }
}
