//! Credentials of requests: what each one says, and whether it is good.
//!
//! Each module knows one format and its keys. Nothing here does I/O or knows Envoy; keys come as values, and
//! the time is an argument. Whose credential a sandbox asks for is decided elsewhere (`sandgate-request`).
//!
//! A credential is bytes of a stranger's choosing. It is compared in constant time, bounded before it is
//! read, and never shown: no error and no `Debug` of this crate has a part of it.

#![forbid(unsafe_code)]

mod bearer;
mod failures;
mod keys;
mod review;
mod scoped;
mod signed;

pub use crate::{
    bearer::{StaticToken, any_matches, bearer_token},
    failures::{Failures, KnownTags, PER_SANDBOX, PER_SOURCE},
    keys::{KeyFileError, Keys},
    review::{Caller, Reviewed},
    scoped::{ScopedBuffer, ScopedClaims, ScopedError, ScopedKey, verify_scoped},
    signed::{SignedKeys, TAG},
};
