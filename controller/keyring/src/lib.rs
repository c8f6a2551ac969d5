//! Where the gateway's keys come from, and how they stay up to date.
//!
//! A [`Keyring`] has everything that credentials of requests are checked with ([`Keys`]). A request reads it
//! as it is now, without a lock. One thread keeps it up to date ([`Keyring::run`]); it has these parts:
//!
//! - **Files** of OpenSandbox's route keys, of secrets of scoped tokens and of bearer tokens. They are read
//!   when the keyring is made, and again when they change (checked once a second).
//! - **The issuer of traffic JWTs**: an OIDC provider, a key set at a URL, or a key set in a file (see
//!   [`JwtSettings`]). The keys are fetched on a timer, and when a token names a key that nobody knows.
//! - **TokenReviews**: the API server is asked whose a bearer token is, and its answers are remembered.
//!
//! # What holds
//! - **The last good value stays.** A file or a key set that is wrong or cannot be had changes nothing, at
//!   any time after the first good one. The error is logged and in the [status](KeyringStatus).
//! - **A wait ends.** What waits for keys or for a review gives a [`Wake`]. It is called exactly once, also
//!   when the fetch fails, and when the thread dies. While no thread runs, nothing may wait.
//! - **Strangers cost little.** Tokens with made-up key IDs lead to one fetch every `min-refetch-seconds` at
//!   most, and made-up bearer tokens to a bounded number of questions, shared fairly by source.
//! - **No secret leaves.** No error, status or log line has a key or a token.

#![forbid(unsafe_code)]

mod error;
mod files;
mod https;
mod jwt;
mod keyring;
mod review;
mod settings;
mod status;

pub use error::KeyringError;
pub use https::{HttpsUrl, HttpsUrlError};
pub use keyring::Keyring;
pub use sandgate_auth::{Caller, JwtKeys, Keys, Reviewed};
pub use settings::{AuthSettings, JwtOrigin, JwtSettings, RawAuth, ReviewSettings};
pub use status::{KeySource, KeySourceStatus, KeyringStatus, ReviewStatus};

/// What is called once when a wait is over, from the keyring's thread. It must not block.
pub type Wake = Box<dyn FnOnce() + Send>;
