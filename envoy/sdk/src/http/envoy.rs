//! Envoy's side of one request.

use super::scheduler::EnvoyHttpFilterScheduler;
use crate::abi::{self, envoy_dynamic_module_type_metrics_result as MetricsResult};
use crate::buffer::EnvoyBuffer;
use crate::metrics::EnvoyCounterId;

/// Envoy's side of one request, lent to each hook of its filter.
///
/// Reading borrows the filter and changing needs it exclusively, so no buffer read before a change survives
/// it. Header names are matched in lower case; the pseudo headers (`:path`, `:authority`, …) are headers like
/// any other. Envoy treats setting an *empty* value as removal, and refuses to add one.
pub trait EnvoyHttpFilter {
    /// The first value of a request header.
    fn get_request_header_value<'a>(&'a self, key: &str) -> Option<EnvoyBuffer<'a>>;
    /// Whether a request header has more than one value. **Not in the official SDK**: it allocates nothing.
    fn is_request_header_repeated(&self, key: &str) -> bool;
    /// Sets a request header, replacing what is there.
    fn set_request_header(&mut self, key: &str, value: &[u8]) -> bool;
    /// Adds a request header beside what is there.
    fn add_request_header(&mut self, key: &str, value: &[u8]) -> bool;
    /// Removes a request header.
    fn remove_request_header(&mut self, key: &str) -> bool;

    /// Calls `visit` with the name and the value of every response header, in order. Allocates nothing for up
    /// to 32 headers. **Not in the official SDK**, which has `get_response_headers`.
    fn visit_response_headers(&self, visit: &mut dyn FnMut(&[u8], &[u8]));
    /// Removes a response header.
    fn remove_response_header(&mut self, key: &str) -> bool;

    /// Answers the request. `details` is what `%RESPONSE_CODE_DETAILS%` prints. Envoy calls hooks of this
    /// filter before the call returns, and may have finished the request when it does.
    ///
    /// For a gRPC request Envoy turns this into a trailers-only answer with **`grpc-status: 0`**.
    fn send_response<'a>(
        &mut self,
        status_code: u32,
        headers: &'a [(&'a str, &'a [u8])],
        body: Option<&'a [u8]>,
        details: Option<&'a str>,
    );

    /// Stores bytes as filter state.
    fn set_filter_state_bytes(&mut self, key: &[u8], value: &[u8]) -> bool;
    /// Stores filter state that Envoy's factory for this key makes from the bytes.
    fn set_filter_state_typed(&mut self, key: &[u8], value: &[u8]) -> bool;

    /// Makes Envoy choose the route again, by the headers as they are now.
    fn clear_route_cache(&mut self);

    /// A string attribute of the request.
    fn get_attribute_string<'a>(
        &'a self,
        attribute_id: abi::envoy_dynamic_module_type_attribute_id,
    ) -> Option<EnvoyBuffer<'a>>;

    /// Lets a held request go on. Envoy runs the rest of the filter chain before the call returns.
    fn continue_decoding(&mut self);

    /// Makes a scheduler, with which any thread can call this filter's worker: see
    /// [`EnvoyHttpFilterScheduler`].
    fn new_scheduler(&self) -> impl EnvoyHttpFilterScheduler + 'static;

    /// Adds to a counter.
    fn increment_counter(&self, id: EnvoyCounterId, value: u64) -> Result<(), MetricsResult>;

    /// The name of the cluster the route points at.
    fn get_cluster_name<'a>(&'a self) -> Option<EnvoyBuffer<'a>>;

    /// Resets the stream.
    fn reset_stream(
        &mut self,
        reason: abi::envoy_dynamic_module_type_http_filter_stream_reset_reason,
        details: &str,
    );
}
