//! The C side of the boundary: the types, enums and callbacks of Envoy's dynamic-module ABI that this crate
//! uses.
//!
//! Two sets of functions cross the boundary. *Callbacks* are exported by the Envoy executable and called by
//! the module; they are declared in the submodules, one per area, and listed in [`CALLBACKS`]. *Hooks* are
//! exported by the module and called by Envoy; they live next to the traits they serve and are listed in
//! [`HOOKS`]. The lists exist so that a test can hold them against a real Envoy: a module that references one
//! callback Envoy does not have is refused by the dynamic linker as a whole.
//!
//! # Ownership
//! The suffix of a pointer type says who owns what it points at: `_envoy_ptr` belongs to Envoy and is
//! borrowed by the module for as long as the hook that received it runs (unless said otherwise),
//! `_module_ptr` was made for the module and the module has to give it back. An `envoy_buffer` points at
//! memory of Envoy, a `module_buffer` at memory of the module that Envoy copies before the call returns.
//!
//! # Enums
//! An enum that Envoy hands *to* the module crosses the boundary as `u32` and is converted here, because a
//! value this crate does not know must not become a Rust enum. Names and variants are those of the official
//! binding.

#![allow(
    missing_docs,
    non_camel_case_types,
    non_upper_case_globals,
    reason = "names and meanings are the ABI's own; repeating them in prose would say nothing"
)]

use std::ffi::{c_char, c_void};

mod bootstrap;
mod cluster;
mod common;
mod http;
mod network;

pub use bootstrap::*;
pub use cluster::*;
pub use common::*;
pub use http::*;
pub use network::*;

/// The ABI version this crate speaks, as a C string. Envoy warns when its own differs.
pub const envoy_dynamic_modules_abi_version: &[u8; 7] = b"v0.2.0\0";

/// Every callback this crate may call, grouped by area.
#[doc(hidden)]
pub const CALLBACKS: &[&[&str]] = &[COMMON, HTTP, BOOTSTRAP, CLUSTER, NETWORK];

/// Every hook this crate exports, grouped by extension point. `envoy_dynamic_module_on_program_init` is not
/// among them: the `declare_*` macros define it in the crate that uses them.
#[doc(hidden)]
pub const HOOKS: &[&[&str]] =
    &[crate::http::HOOKS, crate::bootstrap::HOOKS, crate::cluster::HOOKS, crate::network::HOOKS];

/// Declares callbacks and lists their names, so that the list cannot drift from the declarations.
macro_rules! callbacks {
    ($list:ident; $(fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)?;)*) => {
        pub(super) const $list: &[&str] = &[$(stringify!($name)),*];
        unsafe extern "C" {
            $(pub fn $name($($arg: $ty),*) $(-> $ret)?;)*
        }
    };
}
use callbacks;

/// Memory of Envoy, borrowed by the module.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct envoy_dynamic_module_type_envoy_buffer {
    pub ptr: *const c_char,
    pub length: usize,
}

/// Memory of the module, borrowed by Envoy for one call.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct envoy_dynamic_module_type_module_buffer {
    pub ptr: *const c_char,
    pub length: usize,
}

/// A header in memory of Envoy.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct envoy_dynamic_module_type_envoy_http_header {
    pub key_ptr: *const c_char,
    pub key_length: usize,
    pub value_ptr: *const c_char,
    pub value_length: usize,
}

/// A header in memory of the module.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct envoy_dynamic_module_type_module_http_header {
    pub key_ptr: *const c_char,
    pub key_length: usize,
    pub value_ptr: *const c_char,
    pub value_length: usize,
}

/// An IP address (network byte order) and port (host byte order); `family` is 4 or 6.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct envoy_dynamic_module_type_packed_address {
    pub address_bytes: [u8; 16],
    pub port: u16,
    pub family: u8,
}

pub type envoy_dynamic_module_type_http_filter_config_envoy_ptr = *mut c_void;
pub type envoy_dynamic_module_type_http_filter_config_module_ptr = *const c_void;
pub type envoy_dynamic_module_type_http_filter_per_route_config_module_ptr = *const c_void;
pub type envoy_dynamic_module_type_http_filter_envoy_ptr = *mut c_void;
pub type envoy_dynamic_module_type_http_filter_module_ptr = *const c_void;
pub type envoy_dynamic_module_type_http_filter_scheduler_module_ptr = *mut c_void;

pub type envoy_dynamic_module_type_bootstrap_extension_config_envoy_ptr = *mut c_void;
pub type envoy_dynamic_module_type_bootstrap_extension_config_module_ptr = *const c_void;
pub type envoy_dynamic_module_type_bootstrap_extension_envoy_ptr = *mut c_void;
pub type envoy_dynamic_module_type_bootstrap_extension_module_ptr = *const c_void;
pub type envoy_dynamic_module_type_bootstrap_extension_config_scheduler_module_ptr = *mut c_void;
pub type envoy_dynamic_module_type_bootstrap_extension_timer_module_ptr = *mut c_void;

pub type envoy_dynamic_module_type_cluster_config_envoy_ptr = *mut c_void;
pub type envoy_dynamic_module_type_cluster_config_module_ptr = *const c_void;
pub type envoy_dynamic_module_type_cluster_envoy_ptr = *mut c_void;
pub type envoy_dynamic_module_type_cluster_module_ptr = *const c_void;
pub type envoy_dynamic_module_type_cluster_lb_envoy_ptr = *mut c_void;
pub type envoy_dynamic_module_type_cluster_lb_module_ptr = *const c_void;
pub type envoy_dynamic_module_type_cluster_host_envoy_ptr = *mut c_void;
pub type envoy_dynamic_module_type_cluster_lb_context_envoy_ptr = *mut c_void;
pub type envoy_dynamic_module_type_cluster_scheduler_module_ptr = *mut c_void;

pub type envoy_dynamic_module_type_network_filter_config_envoy_ptr = *mut c_void;
pub type envoy_dynamic_module_type_network_filter_envoy_ptr = *mut c_void;

/// A completion of Envoy: call it once with its context.
pub type envoy_dynamic_module_type_event_cb = Option<unsafe extern "C" fn(context: *mut c_void)>;

/// Defines a C enum whose values count up from zero, and the checked way back from a number.
macro_rules! c_enum {
    ($(#[$meta:meta])* $name:ident { $($variant:ident),* $(,)? }) => {
        $(#[$meta])*
        #[repr(u32)]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name { $($variant),* }

        impl $name {
            /// The variant with this number, if this crate knows it.
            #[inline]
            #[allow(dead_code, reason = "only enums that Envoy hands to the module are converted")]
            pub(crate) const fn from_raw(raw: u32) -> Option<Self> {
                match raw {
                    $(x if x == Self::$variant as u32 => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

c_enum!(envoy_dynamic_module_type_log_level { Trace, Debug, Info, Warn, Error, Critical, Off });
c_enum!(envoy_dynamic_module_type_metrics_result { Success, MetricNotFound, InvalidLabels, Frozen });
c_enum!(envoy_dynamic_module_type_http_header_type {
    RequestHeader,
    RequestTrailer,
    ResponseHeader,
    ResponseTrailer,
});
c_enum!(envoy_dynamic_module_type_http_body_type {
    ReceivedRequestBody,
    BufferedRequestBody,
    ReceivedResponseBody,
    BufferedResponseBody,
});
c_enum!(envoy_dynamic_module_type_http_filter_stream_reset_reason { LocalReset, LocalRefusedStreamReset });
c_enum!(envoy_dynamic_module_type_on_http_filter_request_headers_status {
    Continue,
    StopIteration,
    ContinueAndDontEndStream,
    StopAllIterationAndBuffer,
    StopAllIterationAndWatermark,
});
c_enum!(envoy_dynamic_module_type_on_http_filter_request_body_status {
    Continue,
    StopIterationAndBuffer,
    StopIterationAndWatermark,
    StopIterationNoBuffer,
});
c_enum!(envoy_dynamic_module_type_on_http_filter_request_trailers_status { Continue, StopIteration });
c_enum!(envoy_dynamic_module_type_on_http_filter_response_headers_status {
    Continue,
    StopIteration,
    ContinueAndDontEndStream,
    StopAllIterationAndBuffer,
    StopAllIterationAndWatermark,
});
c_enum!(envoy_dynamic_module_type_on_http_filter_response_body_status {
    Continue,
    StopIterationAndBuffer,
    StopIterationAndWatermark,
    StopIterationNoBuffer,
});
c_enum!(envoy_dynamic_module_type_on_http_filter_response_trailers_status { Continue, StopIteration });
c_enum!(envoy_dynamic_module_type_on_http_filter_local_reply_status { Continue, ContinueAndResetStream });
c_enum!(envoy_dynamic_module_type_on_network_filter_data_status { Continue, StopIteration });
c_enum!(envoy_dynamic_module_type_network_connection_close_type {
    FlushWrite,
    NoFlush,
    FlushWriteAndDelay,
    Abort,
    AbortReset,
});
c_enum!(envoy_dynamic_module_type_attribute_id {
    RequestPath,
    RequestUrlPath,
    RequestHost,
    RequestScheme,
    RequestMethod,
    RequestHeaders,
    RequestReferer,
    RequestUserAgent,
    RequestTime,
    RequestId,
    RequestProtocol,
    RequestQuery,
    RequestDuration,
    RequestSize,
    RequestTotalSize,
    ResponseCode,
    ResponseCodeDetails,
    ResponseFlags,
    ResponseGrpcStatus,
    ResponseHeaders,
    ResponseTrailers,
    ResponseSize,
    ResponseTotalSize,
    ResponseBackendLatency,
    SourceAddress,
    SourcePort,
    DestinationAddress,
    DestinationPort,
    ConnectionId,
    ConnectionMtls,
    ConnectionRequestedServerName,
    ConnectionTlsVersion,
    ConnectionSubjectLocalCertificate,
    ConnectionSubjectPeerCertificate,
    ConnectionDnsSanLocalCertificate,
    ConnectionDnsSanPeerCertificate,
    ConnectionUriSanLocalCertificate,
    ConnectionUriSanPeerCertificate,
    ConnectionSha256PeerCertificateDigest,
    ConnectionTransportFailureReason,
    ConnectionTerminationDetails,
    UpstreamAddress,
    UpstreamPort,
    UpstreamTlsVersion,
    UpstreamSubjectLocalCertificate,
    UpstreamSubjectPeerCertificate,
    UpstreamDnsSanLocalCertificate,
    UpstreamDnsSanPeerCertificate,
    UpstreamUriSanLocalCertificate,
    UpstreamUriSanPeerCertificate,
    UpstreamSha256PeerCertificateDigest,
    UpstreamLocalAddress,
    UpstreamTransportFailureReason,
});
