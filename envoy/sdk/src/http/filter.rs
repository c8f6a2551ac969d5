//! [`EnvoyHttpFilter`] over the ABI.

mod headers;
mod snapshot;

use std::any::Any;
use std::ffi::c_void;
use std::sync::Arc;

use super::config::EnvoyGenericSecretId;
use super::envoy::EnvoyHttpFilter;
use super::route_config;
use super::scheduler::{EnvoyHttpFilterScheduler, FilterScheduler};
use crate::abi::{
    self, envoy_dynamic_module_type_http_body_type as BodyType,
    envoy_dynamic_module_type_http_header_type as HeaderType,
    envoy_dynamic_module_type_metrics_result as MetricsResult,
};
use crate::buffer::EnvoyBuffer;
use crate::ffi::{NO_BUFFER, NONE, lend, lend_optional, view, with_headers};
use crate::metrics::{EnvoyCounterId, outcome};
use snapshot::Snapshot;

/// The real [`EnvoyHttpFilter`]. Only hooks make one, around the pointer they were called with.
///
/// # What calls rely on
/// - *The filter is live*: the pointer is the filter of the running hook. Envoy keeps that object until the
///   hook has returned, even if the request ends inside it, and each callback checks whether the request has
///   ended.
/// - *Arguments are copied*: Envoy copies what it is lent before a callback returns.
/// - *Views stay*: what a getter returns stays in place until the request is changed, which needs
///   `&mut self`.
// `repr(C)` keeps the snapshot last: see there.
#[repr(C)]
pub struct EnvoyHttpFilterImpl {
    raw_ptr: abi::envoy_dynamic_module_type_http_filter_envoy_ptr,
    snapshot: Snapshot,
}

impl EnvoyHttpFilterImpl {
    /// # Safety
    /// `raw_ptr` must be the filter a hook was called with, and the value must not outlive the hook.
    #[inline]
    pub(super) unsafe fn new(raw_ptr: abi::envoy_dynamic_module_type_http_filter_envoy_ptr) -> Self {
        // SAFETY: the caller promises the filter of the running hook. Headers are changed through `&mut self`
        // only, by methods that forget the snapshot.
        let snapshot = unsafe { Snapshot::new(raw_ptr) };
        Self { raw_ptr, snapshot }
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

impl EnvoyHttpFilter for EnvoyHttpFilterImpl {
    #[inline]
    fn get_request_header_value<'a>(&'a self, key: &str) -> Option<EnvoyBuffer<'a>> {
        self.request_header(key)
    }

    #[inline]
    fn is_request_header_repeated(&self, key: &str) -> bool {
        self.snapshot.is_repeated(key).unwrap_or_else(|| self.count_request_header(key) > 1)
    }

    fn get_request_headers_byte_size(&self) -> usize {
        self.snapshot.byte_size().unwrap_or_else(|| {
            let mut size = 0;
            self.visit_headers(HeaderType::RequestHeader, &mut |name, value| {
                size += name.len() + value.len();
            });
            size
        })
    }

    #[inline]
    fn set_request_header(&mut self, key: &str, value: &[u8]) -> bool {
        self.set_header(HeaderType::RequestHeader, key, Some(value))
    }

    #[inline]
    fn add_request_header(&mut self, key: &str, value: &[u8]) -> bool {
        self.snapshot.forget();
        let (key, value) = (lend(key.as_bytes()), lend(value));
        // SAFETY: the filter is live; Envoy copies name and value before the call returns.
        unsafe {
            abi::envoy_dynamic_module_callback_http_add_header(
                self.raw_ptr,
                HeaderType::RequestHeader,
                key,
                value,
            )
        }
    }

    #[inline]
    fn remove_request_header(&mut self, key: &str) -> bool {
        self.set_header(HeaderType::RequestHeader, key, None)
    }

    #[inline]
    fn get_received_request_body_size(&mut self) -> usize {
        // SAFETY: the filter is live; Envoy knows of a body only while it calls the hook with it.
        unsafe {
            abi::envoy_dynamic_module_callback_http_get_body_size(self.raw_ptr, BodyType::ReceivedRequestBody)
        }
    }

    #[inline]
    fn visit_response_headers(&self, visit: &mut dyn FnMut(&[u8], &[u8])) {
        self.visit_headers(HeaderType::ResponseHeader, visit);
    }

    #[inline]
    fn remove_response_header(&mut self, key: &str) -> bool {
        self.set_header(HeaderType::ResponseHeader, key, None)
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
        // SAFETY: the filter is live even if the request ends in the call; the list has `n` headers and, like
        // body and details, lives until the call returns, by which time Envoy has copied them.
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

    #[inline]
    fn set_filter_state_bytes(&mut self, key: &[u8], value: &[u8]) -> bool {
        // SAFETY: the filter is live; Envoy copies key and value before the call returns.
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
        // SAFETY: the filter is live; Envoy copies key and value before the call returns.
        unsafe {
            abi::envoy_dynamic_module_callback_http_set_filter_state_typed(
                self.raw_ptr,
                lend(key),
                lend(value),
            )
        }
    }

    #[inline]
    fn clear_route_cache(&mut self) {
        self.snapshot.forget();
        // SAFETY: the filter is live, and `&mut self` means that no view of the old route exists.
        unsafe { abi::envoy_dynamic_module_callback_http_clear_route_cache(self.raw_ptr) };
    }

    fn get_attribute_string<'a>(
        &'a self,
        attribute_id: abi::envoy_dynamic_module_type_attribute_id,
    ) -> Option<EnvoyBuffer<'a>> {
        // SAFETY: the filter is live, and attributes are views of its headers and stream info, which only
        // `&mut self` changes.
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

    #[inline]
    fn continue_decoding(&mut self) {
        self.snapshot.forget();
        // SAFETY: the filter is live even if the request ends in the call.
        unsafe { abi::envoy_dynamic_module_callback_http_filter_continue_decoding(self.raw_ptr) };
    }

    #[inline]
    fn new_scheduler(&self) -> impl EnvoyHttpFilterScheduler + 'static {
        // SAFETY: `new` was given the filter of the running hook.
        unsafe { FilterScheduler::new(self.raw_ptr) }
    }

    #[inline]
    fn increment_counter(&self, id: EnvoyCounterId, value: u64) -> Result<(), MetricsResult> {
        // SAFETY: the filter is live; Envoy checks the ID and reads no labels because there are none.
        outcome(unsafe {
            abi::envoy_dynamic_module_callback_http_filter_increment_counter(
                self.raw_ptr,
                id.0,
                std::ptr::null_mut(),
                0,
                value,
            )
        })
    }

    fn get_most_specific_route_config(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        // SAFETY: the filter is live.
        let config =
            unsafe { abi::envoy_dynamic_module_callback_get_most_specific_route_config(self.raw_ptr) };
        // SAFETY: the request holds its route, and with it the config, until the route is chosen anew, which
        // needs `&mut self`.
        unsafe { route_config::get(config) }
    }

    fn get_generic_secret<'a>(&'a self, id: EnvoyGenericSecretId) -> Option<EnvoyBuffer<'a>> {
        // SAFETY: the filter is live, and Envoy replaces a worker's value only between two hooks.
        unsafe {
            self.get_buffer(|filter, result| {
                abi::envoy_dynamic_module_callback_http_filter_get_generic_secret(filter, id.0, result)
            })
        }
    }

    fn get_cluster_name<'a>(&'a self) -> Option<EnvoyBuffer<'a>> {
        // SAFETY: the filter is live, and its route holds the cluster's name; choosing another route needs
        // `&mut self`.
        unsafe {
            self.get_buffer(|filter, result| {
                abi::envoy_dynamic_module_callback_http_get_cluster_name(filter, result)
            })
        }
    }

    fn reset_stream(
        &mut self,
        reason: abi::envoy_dynamic_module_type_http_filter_stream_reset_reason,
        details: &str,
    ) {
        self.snapshot.forget();
        let details = lend(details.as_bytes());
        // SAFETY: the filter is live even if the request ends in the call; Envoy copies the details.
        unsafe { abi::envoy_dynamic_module_callback_http_filter_reset_stream(self.raw_ptr, reason, details) };
    }
}
