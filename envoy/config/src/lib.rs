//! The configs of Sandgate's Envoy extensions.
//!
//! Every config is read the same way. A *raw* struct says what may be written: it derives `Deserialize` with
//! `deny_unknown_fields`, and its JSON schema with the same limits. [`parse`] or [`parse_extension`] reads
//! it. Its `check` then makes the *checked* struct that the rest of the code uses. An error names the key and
//! the reason.
//!
//! [`ClusterConfig`] and [`ConnectionsConfig`] are here. The HTTP filter's config is in `sandgate-request`,
//! whose grammar of addresses it is checked with, and the bootstrap extension's is in `sandgate-watch`, with
//! the settings of the sources.
#![forbid(unsafe_code)]

mod cluster;
mod connections;
mod json;

pub use cluster::{ClusterConfig, Ending, TlsRule};
pub use connections::ConnectionsConfig;
pub use json::{
    ConfigError, MAX_CONFIG, given, given_object, given_objects, in_range, object, objects, parse,
    parse_extension, parse_extension_or_default, shortened,
};
