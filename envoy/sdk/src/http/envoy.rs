//! Envoy's side of one request.

use std::any::Any;
use std::sync::Arc;

use super::config::EnvoyGenericSecretId;
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
    /// How many bytes the names and values of all request headers have together. Allocates nothing for up to
    /// 32 headers. **Not in the official SDK**.
    fn get_request_headers_byte_size(&self) -> usize;
    /// Sets a request header, replacing what is there.
    fn set_request_header(&mut self, key: &str, value: &[u8]) -> bool;
    /// Adds a request header beside what is there.
    fn add_request_header(&mut self, key: &str, value: &[u8]) -> bool;
    /// Removes a request header.
    fn remove_request_header(&mut self, key: &str) -> bool;

    /// How many bytes of the request's body the running hook was called with; 0 outside of
    /// [`HttpFilter::on_request_body`](super::HttpFilter::on_request_body).
    fn get_received_request_body_size(&mut self) -> usize;

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

    /// What the module's own factory made of the per-route config that is nearest to the request's route: the
    /// route's, or that of its virtual host, or that of the route table. `None` if there is none.
    ///
    /// It may be kept longer than the route exists. The official SDK's is not `Send + Sync`, although every
    /// worker has it.
    fn get_most_specific_route_config(&self) -> Option<Arc<dyn Any + Send + Sync>>;

    /// The value of a generic secret as this worker has it: empty if it has not arrived yet. It may change
    /// between two hooks. `None` if the filter's config has not subscribed to it.
    fn get_generic_secret<'a>(&'a self, id: EnvoyGenericSecretId) -> Option<EnvoyBuffer<'a>>;

    /// The name of the cluster the route points at.
    fn get_cluster_name<'a>(&'a self) -> Option<EnvoyBuffer<'a>>;

    /// Resets the stream.
    fn reset_stream(
        &mut self,
        reason: abi::envoy_dynamic_module_type_http_filter_stream_reset_reason,
        details: &str,
    );
}
