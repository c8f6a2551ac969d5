//! The hooks of one request's filter, as Envoy calls them on the filter's worker.
//!
//! The module's pointer is an `Rc<Slot>` that `filter_new` gives to Envoy and `filter_destroy` takes back.
//! Each hook holds one more reference while it runs, so a filter destroyed inside its own hook lives until
//! that hook returns. An `Rc` is enough because Envoy uses a filter on one thread.
//!
//! Envoy requires more hooks than the module's trait has. Those at the end of this file exist for it alone.

use std::ffi::c_void;
use std::rc::Rc;

use super::filter::EnvoyHttpFilterImpl;
use super::{EnvoyHttpFilter, HttpFilter};
use crate::abi::{
    envoy_dynamic_module_type_envoy_buffer as RawBuffer,
    envoy_dynamic_module_type_envoy_http_header as RawHeader,
    envoy_dynamic_module_type_http_filter_stream_reset_reason as ResetReason,
    envoy_dynamic_module_type_on_http_filter_local_reply_status as LocalReplyStatus,
    envoy_dynamic_module_type_on_http_filter_request_body_status as RequestBodyStatus,
    envoy_dynamic_module_type_on_http_filter_request_headers_status as RequestHeadersStatus,
    envoy_dynamic_module_type_on_http_filter_request_trailers_status as RequestTrailersStatus,
    envoy_dynamic_module_type_on_http_filter_response_body_status as ResponseBodyStatus,
    envoy_dynamic_module_type_on_http_filter_response_headers_status as ResponseHeadersStatus,
    envoy_dynamic_module_type_on_http_filter_response_trailers_status as ResponseTrailersStatus,
};
use crate::ffi::view;
use crate::panic::{Panicked, drop_guarded, guard};

/// The response-code details of a request that ended in a panic.
const PANIC_DETAILS: &str = "sandgate_panic";

type Envoy = EnvoyHttpFilterImpl;
type DynFilter = dyn HttpFilter<Envoy>;

/// What Envoy's module pointer points at. `None` is a filter that could not be made: Envoy 1.40 calls its
/// hooks whatever `filter_new` returned, so the first of them has to refuse the request.
pub(super) struct Slot(Option<Box<DynFilter>>);

impl Slot {
    /// Gives the filter to Envoy.
    pub(super) fn into_raw(filter: Option<Box<DynFilter>>) -> *const c_void {
        Rc::into_raw(Rc::new(Self(filter))).cast()
    }
}

/// One reference to a slot, dropped under guard because it may be the last.
struct Held(Option<Rc<Slot>>);

impl Held {
    /// # Safety
    /// `module_ptr` must be null or a pointer from [`Slot::into_raw`] that Envoy has not given back.
    #[inline]
    unsafe fn new(module_ptr: *const c_void) -> Self {
        if module_ptr.is_null() {
            return Self(None);
        }
        let slot = module_ptr.cast::<Slot>();
        // SAFETY: the pointer came from `Rc::into_raw` and its count is at least the one Envoy holds.
        Self(Some(unsafe {
            Rc::increment_strong_count(slot);
            Rc::from_raw(slot)
        }))
    }

    #[inline]
    fn filter(&self) -> Option<&DynFilter> {
        self.0.as_ref()?.0.as_deref()
    }
}

impl Drop for Held {
    #[inline]
    fn drop(&mut self) {
        if let Some(slot) = self.0.take()
            && Rc::strong_count(&slot) == 1
        {
            // The filter was destroyed while its hook ran.
            drop_guarded("http_filter drop", slot);
        }
    }
}

/// Ends a request whose filter has panicked on the way in, or does not exist.
#[cold]
fn answer_panic(envoy: &mut Envoy) {
    envoy.send_response(500, &[], Some(b"internal error\n"), Some(PANIC_DETAILS));
}

/// Ends a request whose filter has panicked on the way out.
#[cold]
fn reset_panic(envoy: &mut Envoy) {
    envoy.reset_stream(ResetReason::LocalReset, PANIC_DETAILS);
}

/// Calls one hook of the filter. `missing` answers if there is no filter, `panicked` if it panics.
///
/// # Safety
/// The pointers must be those Envoy called the hook with.
#[inline]
unsafe fn call<R>(
    hook: &'static str,
    envoy_ptr: *mut c_void,
    module_ptr: *const c_void,
    body: impl FnOnce(&DynFilter, &mut Envoy) -> R,
    missing: impl FnOnce(&mut Envoy) -> R,
    panicked: impl FnOnce(&mut Envoy) -> R,
) -> R {
    // SAFETY: Envoy's pointer is the filter of this hook, and the value ends with it.
    let mut envoy = unsafe { Envoy::new(envoy_ptr) };
    // SAFETY: Envoy calls hooks with what `filter_new` returned, and with nothing else after
    // `filter_destroy`.
    let held = unsafe { Held::new(module_ptr) };
    match held.filter() {
        None => missing(&mut envoy),
        Some(filter) => match guard(hook, || body(filter, &mut envoy)) {
            Ok(result) => result,
            Err(Panicked) => panicked(&mut envoy),
        },
    }
}

/// A hook without an answer; a panic ends the request with a 500 if `fatal`.
///
/// # Safety
/// As for [`call`].
#[inline]
unsafe fn notify(
    hook: &'static str,
    envoy_ptr: *mut c_void,
    module_ptr: *const c_void,
    fatal: bool,
    body: impl FnOnce(&DynFilter, &mut Envoy),
) {
    let panicked = |envoy: &mut Envoy| {
        if fatal {
            answer_panic(envoy);
        }
    };
    // SAFETY: the caller's promise is the one `call` asks for.
    unsafe { call(hook, envoy_ptr, module_ptr, body, |_| (), panicked) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_destroy(module_ptr: *const c_void) {
    if module_ptr.is_null() {
        return;
    }
    // SAFETY: Envoy gives back the reference it got from `Slot::into_raw`, once.
    let slot = unsafe { Rc::from_raw(module_ptr.cast::<Slot>()) };
    drop_guarded("http_filter_destroy", slot);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_request_headers(
    envoy_ptr: *mut c_void,
    module_ptr: *const c_void,
    end_of_stream: bool,
) -> RequestHeadersStatus {
    let refuse = |envoy: &mut Envoy| {
        answer_panic(envoy);
        RequestHeadersStatus::StopIteration
    };
    // SAFETY: the pointers are those Envoy called this hook with.
    unsafe {
        call(
            "http_filter_request_headers",
            envoy_ptr,
            module_ptr,
            |filter, envoy| filter.on_request_headers(envoy, end_of_stream),
            refuse,
            refuse,
        )
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_response_headers(
    envoy_ptr: *mut c_void,
    module_ptr: *const c_void,
    end_of_stream: bool,
) -> ResponseHeadersStatus {
    // SAFETY: the pointers are those Envoy called this hook with.
    unsafe {
        call(
            "http_filter_response_headers",
            envoy_ptr,
            module_ptr,
            |filter, envoy| filter.on_response_headers(envoy, end_of_stream),
            |_| ResponseHeadersStatus::Continue,
            |envoy| {
                reset_panic(envoy);
                ResponseHeadersStatus::StopIteration
            },
        )
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_local_reply(
    envoy_ptr: *mut c_void,
    module_ptr: *const c_void,
    response_code: u32,
    details: RawBuffer,
    reset_imminent: bool,
) -> LocalReplyStatus {
    // SAFETY: the pointers are those of this hook; Envoy keeps the details, unchanged, until it returns.
    unsafe {
        call(
            "http_filter_local_reply",
            envoy_ptr,
            module_ptr,
            |filter, envoy| filter.on_local_reply(envoy, response_code, view(details), reset_imminent),
            |_| LocalReplyStatus::Continue,
            |_| LocalReplyStatus::Continue,
        )
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_stream_complete(
    envoy_ptr: *mut c_void,
    module_ptr: *const c_void,
) {
    // SAFETY: the pointers are those Envoy called this hook with.
    unsafe {
        notify("http_filter_stream_complete", envoy_ptr, module_ptr, false, |filter, envoy| {
            filter.on_stream_complete(envoy);
        });
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_scheduled(
    envoy_ptr: *mut c_void,
    module_ptr: *const c_void,
    event_id: u64,
) {
    // SAFETY: the pointers are those Envoy called this hook with.
    unsafe {
        notify("http_filter_scheduled", envoy_ptr, module_ptr, true, |filter, envoy| {
            filter.on_scheduled(envoy, event_id);
        });
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_request_body(
    envoy_ptr: *mut c_void,
    module_ptr: *const c_void,
    end_of_stream: bool,
) -> RequestBodyStatus {
    // SAFETY: the pointers are those Envoy called this hook with.
    unsafe {
        call(
            "http_filter_request_body",
            envoy_ptr,
            module_ptr,
            |filter, envoy| filter.on_request_body(envoy, end_of_stream),
            |_| RequestBodyStatus::StopIterationNoBuffer,
            |envoy| {
                answer_panic(envoy);
                RequestBodyStatus::StopIterationNoBuffer
            },
        )
    }
}

/// Whether Envoy's pointer stands for a filter that could be made.
///
/// # Safety
/// As for [`Held::new`].
unsafe fn is_made(module_ptr: *const c_void) -> bool {
    // SAFETY: the caller's promise is the one `Held::new` asks for.
    unsafe { Held::new(module_ptr) }.filter().is_some()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_request_trailers(
    _envoy_ptr: *mut c_void,
    module_ptr: *const c_void,
) -> RequestTrailersStatus {
    // SAFETY: the pointer is the one Envoy called this hook with.
    if unsafe { is_made(module_ptr) } {
        RequestTrailersStatus::Continue
    } else {
        RequestTrailersStatus::StopIteration
    }
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_http_filter_response_body(
    _envoy_ptr: *mut c_void,
    _module_ptr: *const c_void,
    _end_of_stream: bool,
) -> ResponseBodyStatus {
    ResponseBodyStatus::Continue
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_http_filter_response_trailers(
    _envoy_ptr: *mut c_void,
    _module_ptr: *const c_void,
) -> ResponseTrailersStatus {
    ResponseTrailersStatus::Continue
}

/// Hooks without an answer that nothing here listens to. The callouts and streams they are about cannot be
/// started with this crate.
macro_rules! ignored_hooks {
    ($($name:ident($($ty:ty),*);)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name(_: *mut c_void, _: *const c_void, $(_: $ty),*) {}
    )*};
}

ignored_hooks! {
    envoy_dynamic_module_on_http_filter_downstream_above_write_buffer_high_watermark();
    envoy_dynamic_module_on_http_filter_downstream_below_write_buffer_low_watermark();
    envoy_dynamic_module_on_http_filter_http_callout_done(
        u64, u32, *const RawHeader, usize, *const RawBuffer, usize
    );
    envoy_dynamic_module_on_http_filter_http_stream_headers(u64, *const RawHeader, usize, bool);
    envoy_dynamic_module_on_http_filter_http_stream_data(u64, *const RawBuffer, usize, bool);
    envoy_dynamic_module_on_http_filter_http_stream_trailers(u64, *const RawHeader, usize);
    envoy_dynamic_module_on_http_filter_http_stream_complete(u64);
    envoy_dynamic_module_on_http_filter_http_stream_reset(u64, u32);
}
