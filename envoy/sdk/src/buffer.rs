//! Views of memory that Envoy owns.
//!
//! A view carries the borrow of the object it was read from. Reading takes `&self` there and everything that could move
//! or free the bytes takes `&mut self`, so the borrow checker ends every view before Envoy's memory can change. Where an
//! Envoy getter breaks that rule (its *next* call frees what the last one returned), this crate copies the bytes first.

use std::marker::PhantomData;

/// Bytes owned by Envoy, readable while the object they came from stays borrowed. Copying the view copies no bytes.
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
    /// Unless it is null, `raw_ptr` must point at `length` readable bytes that nobody writes or frees during `'a`.
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
        // SAFETY: both constructors promise `length` readable, unchanging bytes for `'a`, which outlives `&self`.
        unsafe { std::slice::from_raw_parts(self.raw_ptr, self.length) }
    }
}

/// Like [`EnvoyBuffer`], but the bytes may be changed in place.
///
/// Unlike the official type this one cannot be copied: two copies would be two mutable views of the same bytes.
#[repr(C)]
#[derive(Debug)]
pub struct EnvoyMutBuffer<'a> {
    raw_ptr: *mut u8,
    length: usize,
    _marker: PhantomData<&'a mut [u8]>,
}

impl Default for EnvoyMutBuffer<'_> {
    fn default() -> Self {
        Self { raw_ptr: std::ptr::null_mut(), length: 0, _marker: PhantomData }
    }
}

impl EnvoyMutBuffer<'_> {
    /// A view of storage that lives long enough, for tests.
    ///
    /// # Safety
    /// The pointer must be valid for reads and writes as long as the view lives, and be the only way to the bytes.
    pub unsafe fn new(static_buf: *mut [u8]) -> Self {
        Self { raw_ptr: static_buf.cast(), length: static_buf.len(), _marker: PhantomData }
    }

    /// A view of `length` bytes at `raw_ptr`. A null pointer makes an empty view, whatever the length says.
    ///
    /// # Safety
    /// Unless it is null, `raw_ptr` must point at `length` bytes that only this view reads or writes while it lives.
    #[inline]
    pub unsafe fn new_from_raw(raw_ptr: *mut u8, length: usize) -> Self {
        Self { raw_ptr, length, _marker: PhantomData }
    }

    /// The bytes.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        if self.raw_ptr.is_null() {
            return &[];
        }
        // SAFETY: both constructors promise `length` bytes that only this view can reach.
        unsafe { std::slice::from_raw_parts(self.raw_ptr, self.length) }
    }

    /// The bytes, writable.
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        if self.raw_ptr.is_null() {
            return &mut [];
        }
        // SAFETY: both constructors promise `length` bytes that only this view can reach, and `&mut self` is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.raw_ptr, self.length) }
    }
}
