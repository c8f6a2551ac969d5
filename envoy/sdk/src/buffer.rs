//! Views of memory that Envoy owns.
//!
//! A view carries the borrow of the object it was read from. Reading takes `&self` there and everything that
//! could move or free the bytes takes `&mut self`, so the borrow checker ends every view before Envoy's
//! memory can change.

use std::marker::PhantomData;

/// Bytes owned by Envoy, readable while the object they came from stays borrowed. Copying the view copies no
/// bytes.
///
/// Not `Send`: the bytes belong to the thread whose hook is running.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct EnvoyBuffer<'a> {
    raw_ptr: *const u8,
    length: usize,
    _marker: PhantomData<&'a ()>,
}

impl Default for EnvoyBuffer<'_> {
    fn default() -> Self {
        Self { raw_ptr: std::ptr::null(), length: 0, _marker: PhantomData }
    }
}

impl<'a> EnvoyBuffer<'a> {
    /// A view of ordinary Rust bytes, for tests of code that takes an `EnvoyBuffer`.
    pub fn new(s: &'a [u8]) -> Self {
        Self { raw_ptr: s.as_ptr(), length: s.len(), _marker: PhantomData }
    }

    /// A view of `length` bytes at `raw_ptr`. A null pointer makes an empty view, whatever the length says.
    ///
    /// # Safety
    /// Unless it is null, `raw_ptr` must point at `length` readable bytes that nobody writes or frees during
    /// `'a`.
    #[inline]
    pub unsafe fn new_from_raw(raw_ptr: *const u8, length: usize) -> Self {
        Self { raw_ptr, length, _marker: PhantomData }
    }

    /// The bytes.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        if self.raw_ptr.is_null() {
            return &[];
        }
        // SAFETY: both constructors promise `length` readable, unchanging bytes for `'a`, which outlives
        // `&self`.
        unsafe { std::slice::from_raw_parts(self.raw_ptr, self.length) }
    }
}
