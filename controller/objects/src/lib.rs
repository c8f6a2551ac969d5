//! What a custom resource means.

#![forbid(unsafe_code)]
