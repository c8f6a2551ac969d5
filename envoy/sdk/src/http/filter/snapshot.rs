//! The request's headers as one hook has read them.
//!
//! Asking Envoy for a header by name costs it a copy of the name and a walk over all headers, and a filter
//! that looks for several forms of an address asks for several. So the first question of a hook reads all
//! headers at once, as pointers into Envoy's own memory, and the others are answered from those. Nothing is
//! allocated.
//!
//! # How stale it may be
//! Not at all: whatever can change the request's headers takes `&mut self` of the filter, and each such
//! method forgets the snapshot. That is the rule by which a view that was handed out ends, too.

use std::cell::{Cell, UnsafeCell};
use std::mem::MaybeUninit;

use crate::abi::{
    self, envoy_dynamic_module_type_envoy_http_header as RawHeader,
    envoy_dynamic_module_type_http_header_type as HeaderType,
};
use crate::buffer::EnvoyBuffer;
use crate::ffi::NO_HEADER;

/// More headers than this are asked for one at a time.
pub(super) const MOST: usize = 32;

#[derive(Clone, Copy)]
enum State {
    Unread,
    Read(usize),
    TooMany,
}

/// See the module.
// In this order: next to a field that begins as zero, the compiler would have the entries begin as zero too,
// in every hook.
#[repr(C)]
pub(super) struct Snapshot {
    state: Cell<State>,
    /// A bit for each length that a name has: most names that are asked for and not there are of another
    /// length.
    lengths: Cell<u64>,
    filter: abi::envoy_dynamic_module_type_http_filter_envoy_ptr,
    entries: UnsafeCell<MaybeUninit<[RawHeader; MOST]>>,
}

/// What a snapshot knows of a header.
pub(super) enum Known<'a> {
    /// Its first value, or that there is none.
    Header(Option<EnvoyBuffer<'a>>),
    /// Nothing: Envoy has to be asked.
    Nothing,
}

impl Snapshot {
    /// # Safety
    /// `filter` must be the filter of the running hook, and the value must not outlive the hook. The
    /// request's headers must stay as they are from the first [`Self::get`] until [`Self::forget`], and while
    /// what it returned is borrowed.
    #[inline]
    pub(super) unsafe fn new(filter: abi::envoy_dynamic_module_type_http_filter_envoy_ptr) -> Self {
        let (state, entries) = (Cell::new(State::Unread), UnsafeCell::new(MaybeUninit::uninit()));
        Self { filter, state, lengths: Cell::new(0), entries }
    }

    /// Something has changed, or may have.
    #[inline]
    pub(super) fn forget(&mut self) {
        self.state.set(State::Unread);
    }

    /// The first value of a request header.
    #[inline]
    pub(super) fn get<'a>(&'a self, name: &str) -> Known<'a> {
        let Some(mut found) = self.named(name) else { return Known::Nothing };
        // SAFETY: Envoy's pointer and length; the headers stay as they are, as promised to `new`.
        Known::Header(
            found.next().map(|entry| unsafe {
                EnvoyBuffer::new_from_raw(entry.value_ptr.cast(), entry.value_length)
            }),
        )
    }

    /// Whether a request header has more than one value; `None` where Envoy has to be asked.
    #[inline]
    pub(super) fn is_repeated(&self, name: &str) -> Option<bool> {
        Some(self.named(name)?.nth(1).is_some())
    }

    /// The bytes of all names and values; `None` where Envoy has to be asked.
    pub(super) fn byte_size(&self) -> Option<usize> {
        Some(self.entries()?.iter().map(|entry| entry.key_length + entry.value_length).sum())
    }

    /// The entries of a name, in order; `None` where Envoy has to be asked.
    #[inline]
    fn named<'a>(&'a self, name: &'a str) -> Option<impl Iterator<Item = &'a RawHeader>> {
        let entries = self.entries()?;
        let entries = if self.lengths.get() & length_bit(name.len()) == 0 { &[] } else { entries };
        Some(entries.iter().filter(move |entry| {
            // SAFETY: Envoy's pointer and length; the headers stay as they are, as promised to `new`.
            let key = unsafe { EnvoyBuffer::new_from_raw(entry.key_ptr.cast(), entry.key_length) };
            // Few are of one length. Envoy's names are lower case, and it folds the one it is asked for,
            // which nearly always is lower case too: then comparing is quicker.
            key.as_slice().len() == name.len()
                && (key.as_slice() == name.as_bytes() || key.as_slice().eq_ignore_ascii_case(name.as_bytes()))
        }))
    }

    /// All entries; `None` where Envoy has to be asked.
    #[inline]
    fn entries(&self) -> Option<&[RawHeader]> {
        let count = match self.state.get() {
            State::Read(count) => count,
            State::TooMany => return None,
            State::Unread => self.read()?,
        };
        // SAFETY: `read` filled at least `count` entries and is not run again while a view of them can live:
        // it runs only in the state `Unread`, which needs `&mut self` to come back to.
        Some(unsafe { std::slice::from_raw_parts(self.entries.get().cast::<RawHeader>(), count) })
    }

    /// Reads all headers, if there is room for them.
    fn read(&self) -> Option<usize> {
        let kind = HeaderType::RequestHeader;
        // SAFETY: the filter is the one of the running hook, as promised to `new`.
        let count = unsafe { abi::envoy_dynamic_module_callback_http_get_headers_size(self.filter, kind) };
        self.state.set(State::TooMany);
        if count > MOST {
            return None;
        }
        let entries = self.entries.get().cast::<RawHeader>();
        for at in 0..count {
            // SAFETY: `at` is below `MOST`, and nobody else looks at the entries: `get` has not taken its
            // slice yet.
            unsafe { entries.add(at).write(NO_HEADER) };
        }
        // SAFETY: Envoy fills as many entries as it just counted, and nothing ran in between.
        let filled = count == 0
            || unsafe { abi::envoy_dynamic_module_callback_http_get_headers(self.filter, kind, entries) };
        if !filled {
            return None;
        }
        // SAFETY: Envoy has filled them.
        let lengths = (0..count).map(|at| length_bit(unsafe { (*entries.add(at)).key_length }));
        self.lengths.set(lengths.fold(0, |all, one| all | one));
        self.state.set(State::Read(count));
        Some(count)
    }
}

fn length_bit(length: usize) -> u64 {
    1 << length.min(63)
}
