//! Follows a Kubernetes resource.

#![forbid(unsafe_code)]

mod access;

pub use access::{Access, AccessError, chain};
