//! Envoy's side of one request.

use super::scheduler::EnvoyHttpFilterScheduler;
use crate::abi::{self, envoy_dynamic_module_type_metrics_result as MetricsResult};
use crate::buffer::{EnvoyBuffer, EnvoyMutBuffer};
use crate::init::ClusterHostCount;
use crate::metrics::{
    EnvoyCounterId, EnvoyCounterVecId, EnvoyGaugeId, EnvoyGaugeVecId, EnvoyHistogramId, EnvoyHistogramVecId,
};

/// Envoy's side of one request, lent to each hook of its filter.
///
/// Reading borrows the filter, changing needs it exclusively: no buffer read before a change survives it. Header names
/// are matched in lower case; the pseudo headers (`:path`, `:authority`, …) are headers like any other. Envoy treats
/// setting an *empty* value as removal, and refuses to add one.
pub trait EnvoyHttpFilter {
    /// The first value of a request header.
    fn get_request_header_value<'a>(&'a self, key: &str) -> Option<EnvoyBuffer<'a>>;
    /// All values of a request header.
    fn get_request_header_values<'a>(&'a self, key: &str) -> Vec<EnvoyBuffer<'a>>;
    /// Whether a request header has more than one value. Not in the official SDK: it allocates nothing.
    fn is_request_header_repeated(&self, key: &str) -> bool;
    /// All request headers.
    fn get_request_headers<'a>(&'a self) -> Vec<(EnvoyBuffer<'a>, EnvoyBuffer<'a>)>;
    /// Sets a request header, replacing what is there.
    fn set_request_header(&mut self, key: &str, value: &[u8]) -> bool;
    /// Adds a request header beside what is there.
    fn add_request_header(&mut self, key: &str, value: &[u8]) -> bool;
    /// Removes a request header.
    fn remove_request_header(&mut self, key: &str) -> bool;

    /// The first value of a request trailer.
    fn get_request_trailer_value<'a>(&'a self, key: &str) -> Option<EnvoyBuffer<'a>>;
    /// All values of a request trailer.
    fn get_request_trailer_values<'a>(&'a self, key: &str) -> Vec<EnvoyBuffer<'a>>;
    /// All request trailers.
    fn get_request_trailers<'a>(&'a self) -> Vec<(EnvoyBuffer<'a>, EnvoyBuffer<'a>)>;
    /// Sets a request trailer, replacing what is there.
    fn set_request_trailer(&mut self, key: &str, value: &[u8]) -> bool;
    /// Adds a request trailer beside what is there.
    fn add_request_trailer(&mut self, key: &str, value: &[u8]) -> bool;
    /// Removes a request trailer.
    fn remove_request_trailer(&mut self, key: &str) -> bool;

    /// The first value of a response header.
    fn get_response_header_value<'a>(&'a self, key: &str) -> Option<EnvoyBuffer<'a>>;
    /// All values of a response header.
    fn get_response_header_values<'a>(&'a self, key: &str) -> Vec<EnvoyBuffer<'a>>;
    /// All response headers.
    fn get_response_headers<'a>(&'a self) -> Vec<(EnvoyBuffer<'a>, EnvoyBuffer<'a>)>;
    /// Calls `visit` with the name and the value of every response header, in order. Allocates nothing for as many headers
    /// as most responses have. **Not in the official SDK**: use [`Self::get_response_headers`] there.
    fn visit_response_headers(&self, visit: &mut dyn FnMut(&[u8], &[u8]));
    /// Sets a response header, replacing what is there.
    fn set_response_header(&mut self, key: &str, value: &[u8]) -> bool;
    /// Adds a response header beside what is there.
    fn add_response_header(&mut self, key: &str, value: &[u8]) -> bool;
    /// Removes a response header.
    fn remove_response_header(&mut self, key: &str) -> bool;

    /// The first value of a response trailer.
    fn get_response_trailer_value<'a>(&'a self, key: &str) -> Option<EnvoyBuffer<'a>>;
    /// All values of a response trailer.
    fn get_response_trailer_values<'a>(&'a self, key: &str) -> Vec<EnvoyBuffer<'a>>;
    /// All response trailers.
    fn get_response_trailers<'a>(&'a self) -> Vec<(EnvoyBuffer<'a>, EnvoyBuffer<'a>)>;
    /// Sets a response trailer, replacing what is there.
    fn set_response_trailer(&mut self, key: &str, value: &[u8]) -> bool;
    /// Adds a response trailer beside what is there.
    fn add_response_trailer(&mut self, key: &str, value: &[u8]) -> bool;
    /// Removes a response trailer.
    fn remove_response_trailer(&mut self, key: &str) -> bool;

    /// Answers the request. `details` is what `%RESPONSE_CODE_DETAILS%` prints. Envoy calls hooks of this filter before
    /// the call returns, and may have finished the request when it does.
    ///
    /// To a gRPC request Envoy turns this into a trailers-only answer with **`grpc-status: 0`**.
    fn send_response<'a>(
        &mut self,
        status_code: u32,
        headers: &'a [(&'a str, &'a [u8])],
        body: Option<&'a [u8]>,
        details: Option<&'a str>,
    );
    /// Begins a response piece by piece; the headers must contain `:status`.
    fn send_response_headers<'a>(&mut self, headers: &'a [(&'a str, &'a [u8])], end_stream: bool);
    /// Sends a piece of the body of a response begun with [`Self::send_response_headers`].
    fn send_response_data(&mut self, body: &[u8], end_stream: bool);
    /// Ends a response begun with [`Self::send_response_headers`].
    fn send_response_trailers<'a>(&mut self, trailers: &'a [(&'a str, &'a [u8])]);

    /// A number from metadata.
    fn get_metadata_number(
        &self,
        source: abi::envoy_dynamic_module_type_metadata_source,
        namespace: &str,
        key: &str,
    ) -> Option<f64>;
    /// Puts a number into the request's dynamic metadata.
    fn set_dynamic_metadata_number(&mut self, namespace: &str, key: &str, value: f64);
    /// A string from metadata.
    fn get_metadata_string<'a>(
        &'a self,
        source: abi::envoy_dynamic_module_type_metadata_source,
        namespace: &str,
        key: &str,
    ) -> Option<EnvoyBuffer<'a>>;
    /// Puts a string into the request's dynamic metadata.
    fn set_dynamic_metadata_string(&mut self, namespace: &str, key: &str, value: &str);

    /// Filter state stored as bytes.
    fn get_filter_state_bytes<'a>(&'a self, key: &[u8]) -> Option<EnvoyBuffer<'a>>;
    /// Stores bytes as filter state.
    fn set_filter_state_bytes(&mut self, key: &[u8], value: &[u8]) -> bool;
    /// Stores filter state that Envoy's factory for this key makes from the bytes.
    fn set_filter_state_typed(&mut self, key: &[u8], value: &[u8]) -> bool;
    /// The serialised form of a filter state object.
    fn get_filter_state_typed<'a>(&'a self, key: &[u8]) -> Option<EnvoyBuffer<'a>>;

    /// The piece of the request's body that arrived with this hook.
    fn get_received_request_body<'a>(&'a mut self) -> Option<Vec<EnvoyMutBuffer<'a>>>;
    /// The part of the request's body that Envoy has buffered so far.
    fn get_buffered_request_body<'a>(&'a mut self) -> Option<Vec<EnvoyMutBuffer<'a>>>;
    /// Its size in bytes.
    fn get_received_request_body_size(&mut self) -> usize;
    /// Its size in bytes.
    fn get_buffered_request_body_size(&mut self) -> usize;
    /// Takes bytes off its front.
    fn drain_received_request_body(&mut self, number_of_bytes: usize) -> bool;
    /// Takes bytes off its front.
    fn drain_buffered_request_body(&mut self, number_of_bytes: usize) -> bool;
    /// Appends bytes to it.
    fn append_received_request_body(&mut self, data: &[u8]) -> bool;
    /// Appends bytes to it.
    fn append_buffered_request_body(&mut self, data: &[u8]) -> bool;
    /// The piece of the response's body that arrived with this hook.
    fn get_received_response_body<'a>(&'a mut self) -> Option<Vec<EnvoyMutBuffer<'a>>>;
    /// The part of the response's body that Envoy has buffered so far.
    fn get_buffered_response_body<'a>(&'a mut self) -> Option<Vec<EnvoyMutBuffer<'a>>>;
    /// Its size in bytes.
    fn get_received_response_body_size(&mut self) -> usize;
    /// Its size in bytes.
    fn get_buffered_response_body_size(&mut self) -> usize;
    /// Takes bytes off its front.
    fn drain_received_response_body(&mut self, number_of_bytes: usize) -> bool;
    /// Takes bytes off its front.
    fn drain_buffered_response_body(&mut self, number_of_bytes: usize) -> bool;
    /// Appends bytes to it.
    fn append_received_response_body(&mut self, data: &[u8]) -> bool;
    /// Appends bytes to it.
    fn append_buffered_response_body(&mut self, data: &[u8]) -> bool;
    /// Whether received and buffered request body are one and the same (an earlier filter buffered it).
    fn received_buffered_request_body(&mut self) -> bool;
    /// Whether received and buffered response body are one and the same.
    fn received_buffered_response_body(&mut self) -> bool;

    /// Makes Envoy choose the route again, by the headers as they are now.
    fn clear_route_cache(&mut self);
    /// Makes Envoy choose the route's cluster again, and keeps the route.
    fn clear_route_cluster_cache(&mut self);

    /// A string attribute of the request.
    fn get_attribute_string<'a>(
        &'a self,
        attribute_id: abi::envoy_dynamic_module_type_attribute_id,
    ) -> Option<EnvoyBuffer<'a>>;
    /// A number attribute of the request.
    fn get_attribute_int(&self, attribute_id: abi::envoy_dynamic_module_type_attribute_id) -> Option<i64>;
    /// A yes-or-no attribute of the request.
    fn get_attribute_bool(&self, attribute_id: abi::envoy_dynamic_module_type_attribute_id) -> Option<bool>;

    /// Lets a held request go on. Envoy runs the rest of the filter chain before the call returns.
    fn continue_decoding(&mut self);
    /// Lets a held response go on.
    fn continue_encoding(&mut self);

    /// A way back onto this filter's worker from any thread: see [`EnvoyHttpFilterScheduler`].
    fn new_scheduler(&self) -> impl EnvoyHttpFilterScheduler + 'static;

    /// Adds to a counter.
    fn increment_counter(&self, id: EnvoyCounterId, value: u64) -> Result<(), MetricsResult>;
    /// Adds to a counter with labels.
    fn increment_counter_vec(
        &self,
        id: EnvoyCounterVecId,
        labels: &[&str],
        value: u64,
    ) -> Result<(), MetricsResult>;
    /// Adds to a gauge.
    fn increase_gauge(&self, id: EnvoyGaugeId, value: u64) -> Result<(), MetricsResult>;
    /// Adds to a gauge with labels.
    fn increase_gauge_vec(
        &self,
        id: EnvoyGaugeVecId,
        labels: &[&str],
        value: u64,
    ) -> Result<(), MetricsResult>;
    /// Subtracts from a gauge.
    fn decrease_gauge(&self, id: EnvoyGaugeId, value: u64) -> Result<(), MetricsResult>;
    /// Subtracts from a gauge with labels.
    fn decrease_gauge_vec(
        &self,
        id: EnvoyGaugeVecId,
        labels: &[&str],
        value: u64,
    ) -> Result<(), MetricsResult>;
    /// Sets a gauge.
    fn set_gauge(&self, id: EnvoyGaugeId, value: u64) -> Result<(), MetricsResult>;
    /// Sets a gauge with labels.
    fn set_gauge_vec(&self, id: EnvoyGaugeVecId, labels: &[&str], value: u64) -> Result<(), MetricsResult>;
    /// Records a value in a histogram.
    fn record_histogram_value(&self, id: EnvoyHistogramId, value: u64) -> Result<(), MetricsResult>;
    /// Records a value in a histogram with labels.
    fn record_histogram_value_vec(
        &self,
        id: EnvoyHistogramVecId,
        labels: &[&str],
        value: u64,
    ) -> Result<(), MetricsResult>;

    /// The number of the worker that runs this filter.
    fn get_worker_index(&self) -> u32;

    /// Sets a socket option on the connection to the upstream (or to the client).
    fn set_socket_option_int(
        &mut self,
        level: i64,
        name: i64,
        state: abi::envoy_dynamic_module_type_socket_option_state,
        direction: abi::envoy_dynamic_module_type_socket_direction,
        value: i64,
    ) -> bool;

    /// How many bytes Envoy may buffer for this request.
    fn get_buffer_limit(&self) -> u64;
    /// Changes how many bytes Envoy may buffer for this request.
    fn set_buffer_limit(&mut self, limit: u64);

    /// The name of the cluster the route points at.
    fn get_cluster_name<'a>(&'a self) -> Option<EnvoyBuffer<'a>>;
    /// How many hosts that cluster has at a priority.
    fn get_cluster_host_count(&self, priority: u32) -> Option<ClusterHostCount>;
    /// Names the host (`ip:port`) the load balancer should pick; if `strict`, no other will do.
    fn set_upstream_override_host(&mut self, host: &str, strict: bool) -> bool;
    /// The upstream connection in use, or 0.
    fn get_upstream_connection_id(&self) -> u64;

    /// Resets the stream.
    fn reset_stream(
        &mut self,
        reason: abi::envoy_dynamic_module_type_http_filter_stream_reset_reason,
        details: &str,
    );
    /// Starts the request over, as an internal redirect with these response headers if there are any. If `true`, this
    /// filter is finished.
    fn recreate_stream<'a>(&mut self, headers: Option<&'a [(&'a str, &'a [u8])]>) -> bool;
}
