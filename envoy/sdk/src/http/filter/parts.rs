//! Headers, trailers and bodies, once for all their kinds.

use std::mem::MaybeUninit;

use super::EnvoyHttpFilterImpl;
use super::snapshot::{Known, MOST};
use crate::abi::{
    self, envoy_dynamic_module_type_envoy_http_header as RawHeader,
    envoy_dynamic_module_type_http_body_type as BodyType,
    envoy_dynamic_module_type_http_header_type as HeaderType,
};
use crate::buffer::{EnvoyBuffer, EnvoyMutBuffer};
use crate::ffi::{HeaderView, NO_BUFFER, NO_HEADER, lend, lend_optional, view};

// "See the type" is the section on `EnvoyHttpFilterImpl` about what every call relies on.
impl EnvoyHttpFilterImpl {
    /// The first value of a header; of the request's from the hook's snapshot, where it has one.
    #[inline]
    pub(super) fn first_value<'a>(&'a self, kind: HeaderType, key: &str) -> Option<EnvoyBuffer<'a>> {
        if kind != HeaderType::RequestHeader {
            return self.header(kind, key);
        }
        match self.snapshot.get(key) {
            Known::Header(value) => value,
            Known::Nothing => self.header(kind, key),
        }
    }

    #[inline]
    fn header<'a>(&'a self, kind: HeaderType, key: &str) -> Option<EnvoyBuffer<'a>> {
        // SAFETY: a header's value stays in place until headers are changed, which needs `&mut self`.
        unsafe {
            self.get_buffer(|filter, result| {
                abi::envoy_dynamic_module_callback_http_get_header(
                    filter,
                    kind,
                    lend(key.as_bytes()),
                    result,
                    0,
                    std::ptr::null_mut(),
                )
            })
        }
    }

    /// How many values a header has.
    pub(super) fn count(&self, kind: HeaderType, key: &str) -> usize {
        let (mut first, mut count) = (NO_BUFFER, 0);
        let key = lend(key.as_bytes());
        // SAFETY: see the type; the out parameters are locals.
        let found = unsafe {
            abi::envoy_dynamic_module_callback_http_get_header(
                self.raw_ptr,
                kind,
                key,
                &mut first,
                0,
                &mut count,
            )
        };
        if found { count } else { 0 }
    }

    pub(super) fn header_values<'a>(&'a self, kind: HeaderType, key: &str) -> Vec<EnvoyBuffer<'a>> {
        let (mut first, mut count) = (NO_BUFFER, 0);
        let key = lend(key.as_bytes());
        // SAFETY: see the type; the out parameters are locals.
        let found = unsafe {
            abi::envoy_dynamic_module_callback_http_get_header(
                self.raw_ptr,
                kind,
                key,
                &mut first,
                0,
                &mut count,
            )
        };
        if !found || count == 0 {
            return Vec::new();
        }
        let mut values = vec![NO_BUFFER; count];
        values[0] = first;
        if count > 1 {
            // SAFETY: Envoy fills as many entries as it just counted, and nothing ran in between.
            let filled = unsafe {
                abi::envoy_dynamic_module_callback_http_get_header_values(
                    self.raw_ptr,
                    kind,
                    key,
                    values.as_mut_ptr(),
                )
            };
            values.truncate(if filled { count } else { 1 });
        }
        // SAFETY: header values stay in place until headers are changed, which needs `&mut self`.
        values.into_iter().map(|value| unsafe { view(value) }).collect()
    }

    pub(super) fn headers<'a>(&'a self, kind: HeaderType) -> Vec<HeaderView<'a>> {
        // SAFETY: see the type.
        let count = unsafe { abi::envoy_dynamic_module_callback_http_get_headers_size(self.raw_ptr, kind) };
        let mut list = vec![NO_HEADER; count];
        // SAFETY: Envoy fills as many entries as it just counted, and nothing ran in between.
        let filled = count > 0
            && unsafe {
                abi::envoy_dynamic_module_callback_http_get_headers(self.raw_ptr, kind, list.as_mut_ptr())
            };
        if !filled {
            return Vec::new();
        }
        // SAFETY: the array is local; headers stay in place until they are changed, which needs `&mut self`.
        unsafe { crate::ffi::headers(list.as_ptr(), list.len()) }
    }

    /// Calls `visit` with each header. Up to [`MOST`] of them are read without an allocation.
    pub(super) fn visit_headers(&self, kind: HeaderType, visit: &mut dyn FnMut(&[u8], &[u8])) {
        // SAFETY: see the type.
        let count = unsafe { abi::envoy_dynamic_module_callback_http_get_headers_size(self.raw_ptr, kind) };
        if count > MOST {
            for (name, value) in self.headers(kind) {
                visit(name.as_slice(), value.as_slice());
            }
            return;
        }
        let mut list = [const { MaybeUninit::<RawHeader>::uninit() }; MOST];
        for entry in &mut list[..count] {
            entry.write(NO_HEADER);
        }
        // SAFETY: Envoy fills as many entries as it just counted, and nothing ran in between.
        let filled = count > 0
            && unsafe {
                abi::envoy_dynamic_module_callback_http_get_headers(
                    self.raw_ptr,
                    kind,
                    list.as_mut_ptr().cast(),
                )
            };
        for entry in list[..count].iter().filter(|_| filled) {
            // SAFETY: the first `count` entries were written above. What they point at stays in place until headers are
            // changed, which needs `&mut self`, and `visit` does not outlive this call.
            let (name, value) = unsafe {
                let entry = entry.assume_init_ref();
                (
                    EnvoyBuffer::new_from_raw(entry.key_ptr.cast(), entry.key_length),
                    EnvoyBuffer::new_from_raw(entry.value_ptr.cast(), entry.value_length),
                )
            };
            visit(name.as_slice(), value.as_slice());
        }
    }

    #[inline]
    pub(super) fn set_header(&mut self, kind: HeaderType, key: &str, value: Option<&[u8]>) -> bool {
        self.snapshot.forget();
        let (key, value) = (lend(key.as_bytes()), lend_optional(value));
        // SAFETY: see the type; a null value means removal.
        unsafe { abi::envoy_dynamic_module_callback_http_set_header(self.raw_ptr, kind, key, value) }
    }

    #[inline]
    pub(super) fn add_header(&mut self, kind: HeaderType, key: &str, value: &[u8]) -> bool {
        self.snapshot.forget();
        let (key, value) = (lend(key.as_bytes()), lend(value));
        // SAFETY: see the type.
        unsafe { abi::envoy_dynamic_module_callback_http_add_header(self.raw_ptr, kind, key, value) }
    }

    pub(super) fn body<'a>(&'a mut self, kind: BodyType) -> Option<Vec<EnvoyMutBuffer<'a>>> {
        // SAFETY: see the type.
        let count =
            unsafe { abi::envoy_dynamic_module_callback_http_get_body_chunks_size(self.raw_ptr, kind) };
        if count == 0 {
            return None;
        }
        let mut list = vec![NO_BUFFER; count];
        // SAFETY: Envoy fills as many entries as it just counted, and nothing ran in between.
        let filled = unsafe {
            abi::envoy_dynamic_module_callback_http_get_body_chunks(self.raw_ptr, kind, list.as_mut_ptr())
        };
        // SAFETY: the chunks are disjoint slices of one buffer of Envoy, which only this hook can reach while `self` is
        // exclusively borrowed.
        let chunk = |raw: abi::envoy_dynamic_module_type_envoy_buffer| unsafe {
            EnvoyMutBuffer::new_from_raw(raw.ptr.cast_mut().cast(), raw.length)
        };
        filled.then(|| list.into_iter().map(chunk).collect())
    }

    pub(super) fn body_size(&mut self, kind: BodyType) -> usize {
        // SAFETY: see the type.
        unsafe { abi::envoy_dynamic_module_callback_http_get_body_size(self.raw_ptr, kind) }
    }

    pub(super) fn drain_body(&mut self, kind: BodyType, bytes: usize) -> bool {
        // SAFETY: see the type; Envoy drains at most what is there.
        unsafe { abi::envoy_dynamic_module_callback_http_drain_body(self.raw_ptr, kind, bytes) }
    }

    pub(super) fn append_body(&mut self, kind: BodyType, data: &[u8]) -> bool {
        // SAFETY: see the type.
        unsafe { abi::envoy_dynamic_module_callback_http_append_body(self.raw_ptr, kind, lend(data)) }
    }
}
