//! The wire between managers and gateways.

#![forbid(unsafe_code)]
