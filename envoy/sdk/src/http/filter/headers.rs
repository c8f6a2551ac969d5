//! Headers of requests and responses.

use std::mem::MaybeUninit;

use super::EnvoyHttpFilterImpl;
use super::snapshot::{Known, MOST};
use crate::abi::{
    self, envoy_dynamic_module_type_envoy_http_header as RawHeader,
    envoy_dynamic_module_type_http_header_type as HeaderType,
};
use crate::buffer::EnvoyBuffer;
use crate::ffi::{NO_BUFFER, NO_HEADER, header_view, lend, lend_optional};

impl EnvoyHttpFilterImpl {
    /// The first value of a request header: from the hook's snapshot if it knows, otherwise from Envoy.
    #[inline]
    pub(super) fn request_header<'a>(&'a self, key: &str) -> Option<EnvoyBuffer<'a>> {
        match self.snapshot.get(key) {
            Known::Header(value) => value,
            // SAFETY: the filter is live, the name is read during the call only, and a header's value stays
            // in place until headers are changed, which needs `&mut self`.
            Known::Nothing => unsafe {
                self.get_buffer(|filter, result| {
                    abi::envoy_dynamic_module_callback_http_get_header(
                        filter,
                        HeaderType::RequestHeader,
                        lend(key.as_bytes()),
                        result,
                        0,
                        std::ptr::null_mut(),
                    )
                })
            },
        }
    }

    /// How many values a request header has, as Envoy counts them.
    pub(super) fn count_request_header(&self, key: &str) -> usize {
        let (mut first, mut count) = (NO_BUFFER, 0);
        // SAFETY: the filter is live, the name is read during the call only, and the out parameters are
        // locals.
        let found = unsafe {
            abi::envoy_dynamic_module_callback_http_get_header(
                self.raw_ptr,
                HeaderType::RequestHeader,
                lend(key.as_bytes()),
                &mut first,
                0,
                &mut count,
            )
        };
        if found { count } else { 0 }
    }

    /// Calls `visit` with each header. Up to [`MOST`] of them are read without an allocation.
    pub(super) fn visit_headers(&self, kind: HeaderType, visit: &mut dyn FnMut(&[u8], &[u8])) {
        // SAFETY: the filter is live.
        let count = unsafe { abi::envoy_dynamic_module_callback_http_get_headers_size(self.raw_ptr, kind) };
        let mut stack = [const { MaybeUninit::<RawHeader>::uninit() }; MOST];
        let mut heap = Vec::new();
        let list = if count <= MOST {
            &mut stack[..count]
        } else {
            heap.resize_with(count, MaybeUninit::uninit);
            &mut heap
        };
        for entry in &mut *list {
            entry.write(NO_HEADER);
        }
        // SAFETY: the filter is live, and the list has room for the `count` entries that Envoy has just
        // counted: no header has changed since.
        let filled = count > 0
            && unsafe {
                abi::envoy_dynamic_module_callback_http_get_headers(
                    self.raw_ptr,
                    kind,
                    list.as_mut_ptr().cast(),
                )
            };
        for entry in list.iter().filter(|_| filled) {
            // SAFETY: every entry was written above. What it points at stays in place until headers are
            // changed, which needs `&mut self`, and `visit` does not outlive this call.
            let (name, value) = unsafe { header_view(entry.assume_init_ref()) };
            visit(name.as_slice(), value.as_slice());
        }
    }

    /// Sets a header, or removes it if there is no value.
    #[inline]
    pub(super) fn set_header(&mut self, kind: HeaderType, key: &str, value: Option<&[u8]>) -> bool {
        self.snapshot.forget();
        let (key, value) = (lend(key.as_bytes()), lend_optional(value));
        // SAFETY: the filter is live; Envoy copies name and value before the call returns. A null value means
        // removal.
        unsafe { abi::envoy_dynamic_module_callback_http_set_header(self.raw_ptr, kind, key, value) }
    }
}
