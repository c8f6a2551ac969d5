//! [`EnvoyHttpFilter`] over the ABI.

mod parts;
mod snapshot;

use std::cell::RefCell;
use std::ffi::c_void;
use std::rc::Rc;

use super::envoy::EnvoyHttpFilter;
use super::scheduler::{EnvoyHttpFilterScheduler, FilterScheduler};
use crate::abi::{
    self, envoy_dynamic_module_type_http_body_type as BodyType,
    envoy_dynamic_module_type_http_header_type as HeaderType,
    envoy_dynamic_module_type_metadata_source as MetadataSource,
    envoy_dynamic_module_type_metrics_result as MetricsResult,
};
use crate::buffer::{EnvoyBuffer, EnvoyMutBuffer};
use crate::ffi::{NO_BUFFER, NONE, lend, lend_optional, view, with_headers, with_strs};
use crate::init::ClusterHostCount;
use crate::metrics::{
    EnvoyCounterId, EnvoyCounterVecId, EnvoyGaugeId, EnvoyGaugeVecId, EnvoyHistogramId, EnvoyHistogramVecId,
    metric_methods, outcome,
};
use snapshot::Snapshot;

/// The real [`EnvoyHttpFilter`]. Only hooks make one, around the pointer they were called with.
///
/// # What every call relies on
/// The pointer is the filter of the running hook: Envoy keeps that object alive until the hook has returned, even if the
/// request ends inside it, and its callbacks check whether the request has ended. Arguments are copied before a callback
/// returns. What a getter returns stays in place until something about the request is changed, which needs `&mut self`.
// In this order for the snapshot's sake: see there.
#[repr(C)]
pub struct EnvoyHttpFilterImpl {
    /// Copies of values that Envoy's next getter would free; they live as long as views of them can.
    /// `Rc` because its pointer stays valid when it is moved into the list; a `Box` claims to be the only one.
    copies: RefCell<Vec<Rc<[u8]>>>,
    raw_ptr: abi::envoy_dynamic_module_type_http_filter_envoy_ptr,
    snapshot: Snapshot,
}

impl EnvoyHttpFilterImpl {
    /// # Safety
    /// `raw_ptr` must be the filter a hook was called with, and the value must not outlive the hook.
    #[inline]
    pub(super) unsafe fn new(raw_ptr: abi::envoy_dynamic_module_type_http_filter_envoy_ptr) -> Self {
        // SAFETY: the caller's promise; headers are changed through `&mut self` only, by methods that forget the snapshot.
        let snapshot = unsafe { Snapshot::new(raw_ptr) };
        Self { raw_ptr, copies: RefCell::new(Vec::new()), snapshot }
    }

    #[inline]
    fn with_raw<R>(&self, call: impl FnOnce(*mut c_void) -> R) -> R {
        call(self.raw_ptr)
    }

    /// Keeps a copy of a value that the next getter would free.
    fn keep<'a>(&'a self, value: EnvoyBuffer<'_>) -> EnvoyBuffer<'a> {
        let copy: Rc<[u8]> = value.as_slice().into();
        let (ptr, len) = (Rc::as_ptr(&copy).cast(), copy.len());
        self.copies.borrow_mut().push(copy);
        // SAFETY: the list keeps the bytes, unchanged, until `self` is dropped.
        unsafe { EnvoyBuffer::new_from_raw(ptr, len) }
    }

    /// The result of a getter that answers "found" and fills in a buffer.
    ///
    /// # Safety
    /// What `call` fills in must stay in place while `self` is borrowed.
    #[inline]
    unsafe fn get_buffer<'a>(
        &'a self,
        call: impl FnOnce(*mut c_void, *mut abi::envoy_dynamic_module_type_envoy_buffer) -> bool,
    ) -> Option<EnvoyBuffer<'a>> {
        let mut result = NO_BUFFER;
        // SAFETY: the caller promises that the buffer stays in place during `'a`.
        call(self.raw_ptr, &mut result).then(|| unsafe { view(result) })
    }
}

/// The six methods of one kind of header.
macro_rules! header_methods {
    ($($kind:ident: $get:ident $values:ident $all:ident $set:ident $add:ident $remove:ident;)*) => {$(
        #[inline]
        fn $get<'a>(&'a self, key: &str) -> Option<EnvoyBuffer<'a>> {
            self.first_value(HeaderType::$kind, key)
        }
        fn $values<'a>(&'a self, key: &str) -> Vec<EnvoyBuffer<'a>> {
            self.header_values(HeaderType::$kind, key)
        }
        fn $all<'a>(&'a self) -> Vec<(EnvoyBuffer<'a>, EnvoyBuffer<'a>)> {
            self.headers(HeaderType::$kind)
        }
        #[inline]
        fn $set(&mut self, key: &str, value: &[u8]) -> bool {
            self.set_header(HeaderType::$kind, key, Some(value))
        }
        #[inline]
        fn $add(&mut self, key: &str, value: &[u8]) -> bool {
            self.add_header(HeaderType::$kind, key, value)
        }
        #[inline]
        fn $remove(&mut self, key: &str) -> bool {
            self.set_header(HeaderType::$kind, key, None)
        }
    )*};
}

/// The four methods of one kind of body.
macro_rules! body_methods {
    ($($kind:ident: $get:ident $size:ident $drain:ident $append:ident;)*) => {$(
        fn $get<'a>(&'a mut self) -> Option<Vec<EnvoyMutBuffer<'a>>> {
            self.body(BodyType::$kind)
        }
        fn $size(&mut self) -> usize {
            self.body_size(BodyType::$kind)
        }
        fn $drain(&mut self, number_of_bytes: usize) -> bool {
            self.drain_body(BodyType::$kind, number_of_bytes)
        }
        fn $append(&mut self, data: &[u8]) -> bool {
            self.append_body(BodyType::$kind, data)
        }
    )*};
}

impl EnvoyHttpFilter for EnvoyHttpFilterImpl {
    header_methods! {
        RequestHeader: get_request_header_value get_request_header_values get_request_headers
            set_request_header add_request_header remove_request_header;
        RequestTrailer: get_request_trailer_value get_request_trailer_values get_request_trailers
            set_request_trailer add_request_trailer remove_request_trailer;
        ResponseHeader: get_response_header_value get_response_header_values get_response_headers
            set_response_header add_response_header remove_response_header;
        ResponseTrailer: get_response_trailer_value get_response_trailer_values get_response_trailers
            set_response_trailer add_response_trailer remove_response_trailer;
    }

    body_methods! {
        ReceivedRequestBody: get_received_request_body get_received_request_body_size
            drain_received_request_body append_received_request_body;
        BufferedRequestBody: get_buffered_request_body get_buffered_request_body_size
            drain_buffered_request_body append_buffered_request_body;
        ReceivedResponseBody: get_received_response_body get_received_response_body_size
            drain_received_response_body append_received_response_body;
        BufferedResponseBody: get_buffered_response_body get_buffered_response_body_size
            drain_buffered_response_body append_buffered_response_body;
    }

    #[inline]
    fn visit_response_headers(&self, visit: &mut dyn FnMut(&[u8], &[u8])) {
        self.visit_headers(HeaderType::ResponseHeader, visit);
    }

    #[inline]
    fn is_request_header_repeated(&self, key: &str) -> bool {
        self.snapshot.is_repeated(key).unwrap_or_else(|| self.count(HeaderType::RequestHeader, key) > 1)
    }

    fn received_buffered_request_body(&mut self) -> bool {
        // SAFETY: see the type.
        unsafe { abi::envoy_dynamic_module_callback_http_received_buffered_request_body(self.raw_ptr) }
    }

    fn received_buffered_response_body(&mut self) -> bool {
        // SAFETY: see the type.
        unsafe { abi::envoy_dynamic_module_callback_http_received_buffered_response_body(self.raw_ptr) }
    }

    #[inline]
    fn send_response<'a>(
        &mut self,
        status_code: u32,
        headers: &'a [(&'a str, &'a [u8])],
        body: Option<&'a [u8]>,
        details: Option<&'a str>,
    ) {
        self.snapshot.forget();
        let (body, details) = (lend_optional(body), details.map_or(NONE, |d| lend(d.as_bytes())));
        // SAFETY: see the type; the header list lives until the call returns.
        with_headers(headers, |list, n| unsafe {
            abi::envoy_dynamic_module_callback_http_send_response(
                self.raw_ptr,
                status_code,
                list,
                n,
                body,
                details,
            );
        });
    }

    fn send_response_headers<'a>(&mut self, headers: &'a [(&'a str, &'a [u8])], end_stream: bool) {
        self.snapshot.forget();
        // SAFETY: see the type; the header list lives until the call returns.
        with_headers(headers, |list, n| unsafe {
            abi::envoy_dynamic_module_callback_http_send_response_headers(self.raw_ptr, list, n, end_stream);
        });
    }

    fn send_response_data(&mut self, body: &[u8], end_stream: bool) {
        self.snapshot.forget();
        // SAFETY: see the type.
        unsafe {
            abi::envoy_dynamic_module_callback_http_send_response_data(self.raw_ptr, lend(body), end_stream);
        }
    }

    fn send_response_trailers<'a>(&mut self, trailers: &'a [(&'a str, &'a [u8])]) {
        self.snapshot.forget();
        // SAFETY: see the type; the list lives until the call returns.
        with_headers(trailers, |list, n| unsafe {
            abi::envoy_dynamic_module_callback_http_send_response_trailers(self.raw_ptr, list, n);
        });
    }

    fn get_metadata_number(&self, source: MetadataSource, namespace: &str, key: &str) -> Option<f64> {
        let (namespace, key) = (lend(namespace.as_bytes()), lend(key.as_bytes()));
        let mut value = 0.0;
        // SAFETY: see the type; the out parameter is a local.
        unsafe {
            abi::envoy_dynamic_module_callback_http_get_metadata_number(
                self.raw_ptr,
                source,
                namespace,
                key,
                &mut value,
            )
        }
        .then_some(value)
    }

    fn set_dynamic_metadata_number(&mut self, namespace: &str, key: &str, value: f64) {
        let (namespace, key) = (lend(namespace.as_bytes()), lend(key.as_bytes()));
        // SAFETY: see the type.
        unsafe {
            abi::envoy_dynamic_module_callback_http_set_dynamic_metadata_number(
                self.raw_ptr,
                namespace,
                key,
                value,
            );
        }
    }

    fn get_metadata_string<'a>(
        &'a self,
        source: MetadataSource,
        namespace: &str,
        key: &str,
    ) -> Option<EnvoyBuffer<'a>> {
        let (namespace, key) = (lend(namespace.as_bytes()), lend(key.as_bytes()));
        // SAFETY: the metadata stays in place until the next metadata getter at the least, and the view is copied before
        // there can be one unless it is dynamic metadata, which only `&mut self` changes.
        let value = unsafe {
            self.get_buffer(|filter, result| {
                abi::envoy_dynamic_module_callback_http_get_metadata_string(
                    filter, source, namespace, key, result,
                )
            })
        }?;
        Some(if source == MetadataSource::Dynamic { value } else { self.keep(value) })
    }

    #[inline]
    fn set_dynamic_metadata_string(&mut self, namespace: &str, key: &str, value: &str) {
        let (namespace, key) = (lend(namespace.as_bytes()), lend(key.as_bytes()));
        let value = lend(value.as_bytes());
        // SAFETY: see the type.
        unsafe {
            abi::envoy_dynamic_module_callback_http_set_dynamic_metadata_string(
                self.raw_ptr,
                namespace,
                key,
                value,
            );
        }
    }

    #[inline]
    fn get_filter_state_bytes<'a>(&'a self, key: &[u8]) -> Option<EnvoyBuffer<'a>> {
        // SAFETY: filter state stays in place until it is replaced, which needs `&mut self`.
        unsafe {
            self.get_buffer(|filter, result| {
                abi::envoy_dynamic_module_callback_http_get_filter_state_bytes(filter, lend(key), result)
            })
        }
    }

    #[inline]
    fn set_filter_state_bytes(&mut self, key: &[u8], value: &[u8]) -> bool {
        // SAFETY: see the type.
        unsafe {
            abi::envoy_dynamic_module_callback_http_set_filter_state_bytes(
                self.raw_ptr,
                lend(key),
                lend(value),
            )
        }
    }

    #[inline]
    fn set_filter_state_typed(&mut self, key: &[u8], value: &[u8]) -> bool {
        // SAFETY: see the type.
        unsafe {
            abi::envoy_dynamic_module_callback_http_set_filter_state_typed(
                self.raw_ptr,
                lend(key),
                lend(value),
            )
        }
    }

    fn get_filter_state_typed<'a>(&'a self, key: &[u8]) -> Option<EnvoyBuffer<'a>> {
        // SAFETY: Envoy keeps the serialised value until the next call of this getter; the view is copied before.
        let value = unsafe {
            self.get_buffer(|filter, result| {
                abi::envoy_dynamic_module_callback_http_get_filter_state_typed(filter, lend(key), result)
            })
        }?;
        Some(self.keep(value))
    }

    #[inline]
    fn clear_route_cache(&mut self) {
        self.snapshot.forget();
        // SAFETY: see the type.
        unsafe { abi::envoy_dynamic_module_callback_http_clear_route_cache(self.raw_ptr) };
    }

    #[inline]
    fn clear_route_cluster_cache(&mut self) {
        self.snapshot.forget();
        // SAFETY: see the type.
        unsafe { abi::envoy_dynamic_module_callback_http_clear_route_cluster_cache(self.raw_ptr) };
    }

    fn get_attribute_string<'a>(
        &'a self,
        attribute_id: abi::envoy_dynamic_module_type_attribute_id,
    ) -> Option<EnvoyBuffer<'a>> {
        // SAFETY: attributes are views of the request's headers and stream info, which only `&mut self` changes.
        unsafe {
            self.get_buffer(|filter, result| {
                abi::envoy_dynamic_module_callback_http_filter_get_attribute_string(
                    filter,
                    attribute_id,
                    result,
                )
            })
        }
    }

    fn get_attribute_int(&self, attribute_id: abi::envoy_dynamic_module_type_attribute_id) -> Option<i64> {
        let mut value = 0;
        // SAFETY: see the type; the out parameter is a local.
        unsafe {
            abi::envoy_dynamic_module_callback_http_filter_get_attribute_int(
                self.raw_ptr,
                attribute_id,
                &mut value,
            )
        }
        .then_some(value.cast_signed())
    }

    fn get_attribute_bool(&self, attribute_id: abi::envoy_dynamic_module_type_attribute_id) -> Option<bool> {
        let mut value = false;
        // SAFETY: see the type; the out parameter is a local.
        unsafe {
            abi::envoy_dynamic_module_callback_http_filter_get_attribute_bool(
                self.raw_ptr,
                attribute_id,
                &mut value,
            )
        }
        .then_some(value)
    }

    #[inline]
    fn continue_decoding(&mut self) {
        self.snapshot.forget();
        // SAFETY: see the type.
        unsafe { abi::envoy_dynamic_module_callback_http_filter_continue_decoding(self.raw_ptr) };
    }

    #[inline]
    fn continue_encoding(&mut self) {
        self.snapshot.forget();
        // SAFETY: see the type.
        unsafe { abi::envoy_dynamic_module_callback_http_filter_continue_encoding(self.raw_ptr) };
    }

    #[inline]
    fn new_scheduler(&self) -> impl EnvoyHttpFilterScheduler + 'static {
        // SAFETY: `new` was given the filter of the running hook.
        unsafe { FilterScheduler::new(self.raw_ptr) }
    }

    metric_methods!(record {
        increment_counter, increment_counter_vec,
            envoy_dynamic_module_callback_http_filter_increment_counter, EnvoyCounterId, EnvoyCounterVecId;
        increase_gauge, increase_gauge_vec,
            envoy_dynamic_module_callback_http_filter_increment_gauge, EnvoyGaugeId, EnvoyGaugeVecId;
        decrease_gauge, decrease_gauge_vec,
            envoy_dynamic_module_callback_http_filter_decrement_gauge, EnvoyGaugeId, EnvoyGaugeVecId;
        set_gauge, set_gauge_vec,
            envoy_dynamic_module_callback_http_filter_set_gauge, EnvoyGaugeId, EnvoyGaugeVecId;
        record_histogram_value, record_histogram_value_vec,
            envoy_dynamic_module_callback_http_filter_record_histogram_value, EnvoyHistogramId, EnvoyHistogramVecId;
    });

    #[inline]
    fn get_worker_index(&self) -> u32 {
        // SAFETY: see the type.
        unsafe { abi::envoy_dynamic_module_callback_http_filter_get_worker_index(self.raw_ptr) }
    }

    #[inline]
    fn set_socket_option_int(
        &mut self,
        level: i64,
        name: i64,
        state: abi::envoy_dynamic_module_type_socket_option_state,
        direction: abi::envoy_dynamic_module_type_socket_direction,
        value: i64,
    ) -> bool {
        // SAFETY: see the type.
        unsafe {
            abi::envoy_dynamic_module_callback_http_set_socket_option_int(
                self.raw_ptr,
                level,
                name,
                state,
                direction,
                value,
            )
        }
    }

    fn get_buffer_limit(&self) -> u64 {
        // SAFETY: see the type.
        unsafe { abi::envoy_dynamic_module_callback_http_get_buffer_limit(self.raw_ptr) }
    }

    fn set_buffer_limit(&mut self, limit: u64) {
        // SAFETY: see the type.
        unsafe { abi::envoy_dynamic_module_callback_http_set_buffer_limit(self.raw_ptr, limit) };
    }

    fn get_cluster_name<'a>(&'a self) -> Option<EnvoyBuffer<'a>> {
        // SAFETY: the route holds the cluster's name in place; choosing another route needs `&mut self`.
        unsafe {
            self.get_buffer(|filter, result| {
                abi::envoy_dynamic_module_callback_http_get_cluster_name(filter, result)
            })
        }
    }

    fn get_cluster_host_count(&self, priority: u32) -> Option<ClusterHostCount> {
        let (mut total, mut healthy, mut degraded) = (0, 0, 0);
        // SAFETY: see the type; the out parameters are locals.
        unsafe {
            abi::envoy_dynamic_module_callback_http_get_cluster_host_count(
                self.raw_ptr,
                priority,
                &mut total,
                &mut healthy,
                &mut degraded,
            )
        }
        .then_some(ClusterHostCount { total, healthy, degraded })
    }

    #[inline]
    fn set_upstream_override_host(&mut self, host: &str, strict: bool) -> bool {
        let host = lend(host.as_bytes());
        // SAFETY: see the type.
        unsafe {
            abi::envoy_dynamic_module_callback_http_set_upstream_override_host(self.raw_ptr, host, strict)
        }
    }

    fn get_upstream_connection_id(&self) -> u64 {
        // SAFETY: see the type.
        unsafe { abi::envoy_dynamic_module_callback_http_get_upstream_connection_id(self.raw_ptr) }
    }

    fn reset_stream(
        &mut self,
        reason: abi::envoy_dynamic_module_type_http_filter_stream_reset_reason,
        details: &str,
    ) {
        self.snapshot.forget();
        let details = lend(details.as_bytes());
        // SAFETY: see the type.
        unsafe { abi::envoy_dynamic_module_callback_http_filter_reset_stream(self.raw_ptr, reason, details) };
    }

    fn recreate_stream<'a>(&mut self, headers: Option<&'a [(&'a str, &'a [u8])]>) -> bool {
        self.snapshot.forget();
        // SAFETY: see the type; the header list lives until the call returns.
        with_headers(headers.unwrap_or_default(), |list, n| unsafe {
            abi::envoy_dynamic_module_callback_http_filter_recreate_stream(self.raw_ptr, list, n)
        })
    }
}
