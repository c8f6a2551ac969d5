//! TLS of both sides: rustls on ring, HTTP/1.1 only.

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};

pub(crate) const ALPN: &[u8] = b"http/1.1";

pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}
