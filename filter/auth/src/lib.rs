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
mod jwt;
mod keys;
mod review;
mod scoped;
mod signed;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod time;

pub use crate::{
    bearer::{StaticToken, any_matches, bearer_token},
    failures::{Failures, KnownTags, PER_SANDBOX, PER_SOURCE},
    jwt::{
        Algorithm, Budget, CacheCounts, CacheLimits, Clock, DEFAULT_LEEWAY, KeyFault, KeySet, KeySetError,
        MAX_KEY_SET, MAX_KEYS, MAX_TOKEN, Monotonic, Sandbox, TokenCache, TokenError, UnusableKey,
        UnusableReason, Verifier,
    },
    keys::{JwtKeys, KeyFileError, Keys},
    review::{Caller, Reviewed},
    scoped::{ScopedBuffer, ScopedClaims, ScopedError, ScopedKey, verify_scoped},
    signed::{SignedKeys, TAG},
    time::UnixTime,
};
