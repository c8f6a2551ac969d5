//! Conversions at the boundary: slices to the ABI's pointer-and-length pairs and back, without allocating for
//! the sizes that occur on the request path.

use std::borrow::Cow;
use std::ffi::c_void;

use crate::abi::{
    envoy_dynamic_module_type_envoy_buffer as RawEnvoyBuffer,
    envoy_dynamic_module_type_envoy_http_header as RawEnvoyHeader,
    envoy_dynamic_module_type_module_buffer as ModuleBuffer,
    envoy_dynamic_module_type_module_http_header as ModuleHeader,
};
use crate::buffer::EnvoyBuffer;

/// A header: name and value, both memory of Envoy.
pub(crate) type HeaderView<'a> = (EnvoyBuffer<'a>, EnvoyBuffer<'a>);

/// What Envoy writes into before a getter has answered.
pub(crate) const NO_BUFFER: RawEnvoyBuffer = RawEnvoyBuffer { ptr: std::ptr::null(), length: 0 };
pub(crate) const NO_HEADER: RawEnvoyHeader =
    RawEnvoyHeader { key_ptr: std::ptr::null(), key_length: 0, value_ptr: std::ptr::null(), value_length: 0 };
/// The absent argument.
pub(crate) const NONE: ModuleBuffer = ModuleBuffer { ptr: std::ptr::null(), length: 0 };

/// Lends bytes to Envoy for one call.
#[inline]
pub(crate) fn lend(bytes: &[u8]) -> ModuleBuffer {
    ModuleBuffer { ptr: bytes.as_ptr().cast(), length: bytes.len() }
}

/// Lends bytes to Envoy for one call, or says that there are none.
#[inline]
pub(crate) fn lend_optional(bytes: Option<&[u8]>) -> ModuleBuffer {
    bytes.map_or(NONE, lend)
}

/// Views what a getter returned.
///
/// # Safety
/// The buffer must be empty, null, or point at bytes that live and stay unchanged during `'a`.
#[inline]
pub(crate) unsafe fn view<'a>(raw: RawEnvoyBuffer) -> EnvoyBuffer<'a> {
    // SAFETY: the caller's promise is the one `new_from_raw` asks for.
    unsafe { EnvoyBuffer::new_from_raw(raw.ptr.cast(), raw.length) }
}

/// Views the bytes of a hook's argument.
///
/// # Safety
/// As for [`view`].
#[inline]
pub(crate) unsafe fn bytes<'a>(raw: RawEnvoyBuffer) -> &'a [u8] {
    if raw.ptr.is_null() {
        return &[];
    }
    // SAFETY: not null, and the caller promises `length` unchanging bytes for `'a`.
    unsafe { std::slice::from_raw_parts(raw.ptr.cast(), raw.length) }
}

/// Views a hook's argument as text; bytes that are not UTF-8 become replacement characters.
///
/// # Safety
/// As for [`view`].
pub(crate) unsafe fn text<'a>(raw: RawEnvoyBuffer) -> Cow<'a, str> {
    // SAFETY: the caller's promise is the one `bytes` asks for.
    String::from_utf8_lossy(unsafe { bytes(raw) })
}

/// Views a header that Envoy has filled in.
///
/// # Safety
/// Both halves must be null, or point at bytes that live and stay unchanged during `'a`.
pub(crate) unsafe fn header_view<'a>(raw: &RawEnvoyHeader) -> HeaderView<'a> {
    // SAFETY: the caller's promise is the one `new_from_raw` asks for.
    unsafe {
        (
            EnvoyBuffer::new_from_raw(raw.key_ptr.cast(), raw.key_length),
            EnvoyBuffer::new_from_raw(raw.value_ptr.cast(), raw.value_length),
        )
    }
}

/// Headers that fit on the stack; a reply has a handful.
const STACK_HEADERS: usize = 16;

/// Lends a list of headers to Envoy for one call.
#[inline]
pub(crate) fn with_headers<R>(list: &[(&str, &[u8])], call: impl FnOnce(*mut ModuleHeader, usize) -> R) -> R {
    const EMPTY: ModuleHeader = ModuleHeader {
        key_ptr: std::ptr::null(),
        key_length: 0,
        value_ptr: std::ptr::null(),
        value_length: 0,
    };
    let lend = |(name, value): &(&str, &[u8])| ModuleHeader {
        key_ptr: name.as_ptr().cast(),
        key_length: name.len(),
        value_ptr: value.as_ptr().cast(),
        value_length: value.len(),
    };
    if list.is_empty() {
        return call(std::ptr::null_mut(), 0);
    }
    if list.len() <= STACK_HEADERS {
        let mut stack = [EMPTY; STACK_HEADERS];
        for (slot, header) in stack.iter_mut().zip(list) {
            *slot = lend(header);
        }
        return call(stack.as_mut_ptr(), list.len());
    }
    let mut heap: Vec<ModuleHeader> = list.iter().map(lend).collect();
    call(heap.as_mut_ptr(), heap.len())
}

/// The pointer as an `Option`.
#[inline]
pub(crate) fn non_null(ptr: *mut c_void) -> Option<*mut c_void> {
    (!ptr.is_null()).then_some(ptr)
}
