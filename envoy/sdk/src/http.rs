//! The HTTP filter (`envoy.filters.http.dynamic_modules`).
//!
//! An [`HttpFilterConfig`] is made on the main thread when Envoy takes a configuration, shared by all workers, and
//! dropped when the last filter made from it is gone; while a configuration is being replaced, the new one exists before
//! the old one is dropped. It makes one [`HttpFilter`] per request, on the worker that serves the request and that calls
//! all its hooks. Hooks take `&self` because Envoy nests them: [`EnvoyHttpFilter::send_response`] calls
//! [`HttpFilter::on_local_reply`] and possibly [`HttpFilter::on_stream_complete`] before it returns.
//!
//! `stream_complete` is the last hook of a request. The filter is dropped later, when Envoy gets round to it.
//!
//! # When a hook panics
//! On the request's way in (and in `on_scheduled` and the callout hooks) the client gets a 500 with the response-code
//! details `sandgate_panic` and the request goes no further. On the response's way out the stream is reset with the same
//! details. A filter that could not be made answers its request the same way. The other hooks only report.

mod config;
mod config_hooks;
mod envoy;
mod filter;
mod hooks;
mod scheduler;

pub use config::{EnvoyHttpFilterConfig, EnvoyHttpFilterConfigImpl};
pub use envoy::EnvoyHttpFilter;
pub use filter::EnvoyHttpFilterImpl;
pub use scheduler::{EnvoyHttpFilterConfigScheduler, EnvoyHttpFilterScheduler};

use crate::abi;
use crate::buffer::EnvoyBuffer;

/// The hooks this extension point exports.
pub(crate) const HOOKS: &[&str] = &[
    "envoy_dynamic_module_on_http_filter_config_new",
    "envoy_dynamic_module_on_http_filter_config_destroy",
    "envoy_dynamic_module_on_http_filter_config_scheduled",
    "envoy_dynamic_module_on_http_filter_config_http_callout_done",
    "envoy_dynamic_module_on_http_filter_config_http_stream_headers",
    "envoy_dynamic_module_on_http_filter_config_http_stream_data",
    "envoy_dynamic_module_on_http_filter_config_http_stream_trailers",
    "envoy_dynamic_module_on_http_filter_config_http_stream_complete",
    "envoy_dynamic_module_on_http_filter_config_http_stream_reset",
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

/// The module's side of a filter configuration: makes a filter for each request. Called on every worker at once.
#[allow(unused_variables, reason = "parameter names are documentation")]
pub trait HttpFilterConfig<EHF: EnvoyHttpFilter>: Sync {
    /// Makes the filter of a new request.
    fn new_http_filter(&self, envoy: &mut EHF) -> Box<dyn HttpFilter<EHF>>;

    /// An [`EnvoyHttpFilterConfigScheduler::commit`] has arrived on the main thread.
    fn on_scheduled(&self, event_id: u64) {}

    /// A callout started from this config has ended. (This crate does not offer starting one.)
    fn on_http_callout_done(
        &self,
        envoy_config: &mut EnvoyHttpFilterConfigImpl,
        callout_id: u64,
        result: abi::envoy_dynamic_module_type_http_callout_result,
        response_headers: Option<&[(EnvoyBuffer<'_>, EnvoyBuffer<'_>)]>,
        response_body: Option<&[EnvoyBuffer<'_>]>,
    ) {
    }

    /// A stream started from this config has response headers. (This crate does not offer starting one.)
    fn on_http_stream_headers(
        &self,
        envoy_config: &mut EnvoyHttpFilterConfigImpl,
        stream_handle: u64,
        response_headers: &[(EnvoyBuffer<'_>, EnvoyBuffer<'_>)],
        end_stream: bool,
    ) {
    }

    /// A stream started from this config has response data.
    fn on_http_stream_data(
        &self,
        envoy_config: &mut EnvoyHttpFilterConfigImpl,
        stream_handle: u64,
        response_data: &[EnvoyBuffer<'_>],
        end_stream: bool,
    ) {
    }

    /// A stream started from this config has response trailers.
    fn on_http_stream_trailers(
        &self,
        envoy_config: &mut EnvoyHttpFilterConfigImpl,
        stream_handle: u64,
        response_trailers: &[(EnvoyBuffer<'_>, EnvoyBuffer<'_>)],
    ) {
    }

    /// A stream started from this config has ended well.
    fn on_http_stream_complete(&self, envoy_config: &mut EnvoyHttpFilterConfigImpl, stream_handle: u64) {}

    /// A stream started from this config was reset.
    fn on_http_stream_reset(
        &self,
        envoy_config: &mut EnvoyHttpFilterConfigImpl,
        stream_handle: u64,
        reset_reason: abi::envoy_dynamic_module_type_http_stream_reset_reason,
    ) {
    }
}

/// The module's side of one request. All hooks run on one worker thread.
#[allow(unused_variables, reason = "parameter names are documentation")]
pub trait HttpFilter<EHF: EnvoyHttpFilter> {
    /// The request's headers are here. To hold the request, return `StopAllIterationAndWatermark` and later call
    /// [`EnvoyHttpFilter::continue_decoding`] from [`HttpFilter::on_scheduled`]; after a local reply return
    /// `StopIteration`.
    fn on_request_headers(
        &self,
        envoy_filter: &mut EHF,
        end_of_stream: bool,
    ) -> abi::envoy_dynamic_module_type_on_http_filter_request_headers_status {
        abi::envoy_dynamic_module_type_on_http_filter_request_headers_status::Continue
    }

    /// A piece of the request's body is here.
    fn on_request_body(
        &self,
        envoy_filter: &mut EHF,
        end_of_stream: bool,
    ) -> abi::envoy_dynamic_module_type_on_http_filter_request_body_status {
        abi::envoy_dynamic_module_type_on_http_filter_request_body_status::Continue
    }

    /// The request's trailers are here.
    fn on_request_trailers(
        &self,
        envoy_filter: &mut EHF,
    ) -> abi::envoy_dynamic_module_type_on_http_filter_request_trailers_status {
        abi::envoy_dynamic_module_type_on_http_filter_request_trailers_status::Continue
    }

    /// The response's headers are here. Not called for a response this filter sent itself.
    fn on_response_headers(
        &self,
        envoy_filter: &mut EHF,
        end_of_stream: bool,
    ) -> abi::envoy_dynamic_module_type_on_http_filter_response_headers_status {
        abi::envoy_dynamic_module_type_on_http_filter_response_headers_status::Continue
    }

    /// A piece of the response's body is here.
    fn on_response_body(
        &self,
        envoy_filter: &mut EHF,
        end_of_stream: bool,
    ) -> abi::envoy_dynamic_module_type_on_http_filter_response_body_status {
        abi::envoy_dynamic_module_type_on_http_filter_response_body_status::Continue
    }

    /// The response's trailers are here.
    fn on_response_trailers(
        &self,
        envoy_filter: &mut EHF,
    ) -> abi::envoy_dynamic_module_type_on_http_filter_response_trailers_status {
        abi::envoy_dynamic_module_type_on_http_filter_response_trailers_status::Continue
    }

    /// The request is over, whichever way it ended. The place to take it out of the module's own bookkeeping.
    fn on_stream_complete(&self, envoy_filter: &mut EHF) {}

    /// A callout has ended. (This crate does not offer starting one.)
    fn on_http_callout_done(
        &self,
        envoy_filter: &mut EHF,
        callout_id: u64,
        result: abi::envoy_dynamic_module_type_http_callout_result,
        response_headers: Option<&[(EnvoyBuffer<'_>, EnvoyBuffer<'_>)]>,
        response_body: Option<&[EnvoyBuffer<'_>]>,
    ) {
    }

    /// A stream started from this filter has response headers. (This crate does not offer starting one.)
    fn on_http_stream_headers(
        &self,
        envoy_filter: &mut EHF,
        stream_handle: u64,
        response_headers: &[(EnvoyBuffer<'_>, EnvoyBuffer<'_>)],
        end_stream: bool,
    ) {
    }

    /// A stream started from this filter has response data.
    fn on_http_stream_data(
        &self,
        envoy_filter: &mut EHF,
        stream_handle: u64,
        response_data: &[EnvoyBuffer<'_>],
        end_stream: bool,
    ) {
    }

    /// A stream started from this filter has response trailers.
    fn on_http_stream_trailers(
        &self,
        envoy_filter: &mut EHF,
        stream_handle: u64,
        response_trailers: &[(EnvoyBuffer<'_>, EnvoyBuffer<'_>)],
    ) {
    }

    /// A stream started from this filter has ended well.
    fn on_http_stream_complete(&self, envoy_filter: &mut EHF, stream_handle: u64) {}

    /// A stream started from this filter was reset.
    fn on_http_stream_reset(
        &self,
        envoy_filter: &mut EHF,
        stream_handle: u64,
        reset_reason: abi::envoy_dynamic_module_type_http_stream_reset_reason,
    ) {
    }

    /// An [`EnvoyHttpFilterScheduler::commit`] has arrived on this filter's worker.
    fn on_scheduled(&self, envoy_filter: &mut EHF, event_id: u64) {}

    /// The client reads more slowly than the response arrives: the downstream buffer is above its limit.
    fn on_downstream_above_write_buffer_high_watermark(&self, envoy_filter: &mut EHF) {}

    /// The downstream buffer has drained again.
    fn on_downstream_below_write_buffer_low_watermark(&self, envoy_filter: &mut EHF) {}

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
