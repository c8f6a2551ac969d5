//! The keys of a gateway, and what keys and key files have in common.

use std::sync::Arc;

use crate::{ScopedKey, SignedKeys, StaticToken, Verifier};

/// Everything that verifies, as it is at one moment. Whoever keeps the keys replaces it whole.
#[derive(Clone, Debug, Default)]
pub struct Keys {
    /// Those of OpenSandbox's signed routes; `None` if none are configured.
    pub signed: Option<Arc<SignedKeys>>,
    /// Those of agent-sandbox's scoped tokens.
    pub scoped: Arc<[ScopedKey]>,
    /// The tokens of callers that are known beforehand.
    pub bearer: Arc<[StaticToken]>,
    /// Those of traffic JWTs.
    pub jwt: JwtKeys,
}

/// The keys of traffic JWTs.
#[derive(Clone, Debug, Default)]
pub enum JwtKeys {
    /// They are not configured.
    #[default]
    Off,
    /// They are configured, and there were never any.
    NotReady,
    /// The last good ones. This is the same value while issuer and keys are the same.
    Ready(Arc<Verifier>),
}

/// Why a text is no key, or a file no list of keys. A retry does not help: the content is wrong.
///
/// It never has a part of the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyFileError {
    /// There is nothing in it.
    #[error("expected at least one key, found none")]
    Empty,
    /// More keys than are tried.
    #[error("expected at most {MAX_KEYS} keys")]
    TooMany,
    /// A route key is not written as `a=BASE64`.
    #[error("entry {0}: expected a key as ID=BASE64, such as a=MDEyMw==")]
    Form(usize),
    /// The ID of a route key is not one character of 0-9 and a-z.
    #[error("entry {0}: expected an ID of one character, 0-9 or a-z")]
    Id(usize),
    /// The same ID twice.
    #[error("entry {0}: its ID is given twice")]
    Twice(usize),
    /// It is shorter than it has to be.
    #[error("expected a key of at least {0} bytes")]
    TooShort(usize),
    /// It is longer than it may be.
    #[error("expected a key of at most {MAX_KEY} bytes")]
    TooLong,
    /// It has bytes that no header can carry.
    #[error("entry {0}: expected a token of visible ASCII characters without spaces")]
    Characters(usize),
}

/// The most keys of one kind: each of them is tried.
pub(crate) const MAX_KEYS: usize = 36;
/// The longest key.
pub(crate) const MAX_KEY: usize = 4096;
