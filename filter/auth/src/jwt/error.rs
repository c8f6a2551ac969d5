use std::fmt;

use thiserror::Error;

use super::{MAX_KEY_SET, MAX_KEYS};

/// Why a token does not open a sandbox. It has no part of the token.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
pub enum TokenError {
    /// There is none.
    #[error("no token")]
    Missing,
    /// It is not a compact JWS with a `kid`, or it is too long.
    #[error("malformed token")]
    Malformed,
    /// Its algorithm is not one of ours, or not the key's.
    #[error("algorithm not allowed")]
    Algorithm,
    /// Its key is not in the set.
    #[error("unknown key")]
    UnknownKey,
    /// Another issuer made it.
    #[error("another issuer")]
    Issuer,
    /// It has expired.
    #[error("expired token")]
    Expired,
    /// It is from the future.
    #[error("token not yet valid")]
    NotYetValid,
    /// A claim is missing or is not what it should be.
    #[error("missing or malformed claim")]
    Claims,
    /// It is for another sandbox.
    #[error("another sandbox")]
    Sandbox,
    /// Its signature is wrong.
    #[error("wrong signature")]
    Signature,
    /// Too many signatures were checked lately. Another attempt may help; it is the only error of which that
    /// is true.
    #[error("too many signature checks")]
    Busy,
}

impl TokenError {
    /// A fixed word for it, for metrics and logs.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Malformed => "malformed",
            Self::Algorithm => "algorithm",
            Self::UnknownKey => "unknown_key",
            Self::Issuer => "issuer",
            Self::Expired => "expired",
            Self::NotYetValid => "not_yet_valid",
            Self::Claims => "claims",
            Self::Sandbox => "sandbox",
            Self::Signature => "signature",
            Self::Busy => "busy",
        }
    }
}

/// Why a document is not a set of keys. It has nothing of the document but the place of a fault, since what
/// was read by mistake may be secret.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
pub enum KeySetError {
    /// It is longer than [`MAX_KEY_SET`].
    #[error("the key set is longer than {MAX_KEY_SET} bytes")]
    TooLong,
    /// It is not JSON, or not a JSON Web Key Set.
    #[error("the key set is not a JSON Web Key Set (line {line}, column {column})")]
    NotAKeySet {
        /// The line of the fault, from 1.
        line: usize,
        /// The column of the fault.
        column: usize,
    },
    /// It has no key.
    #[error("the key set has no key")]
    Empty,
    /// It has more than [`MAX_KEYS`].
    #[error("the key set has {found} keys, more than {MAX_KEYS}")]
    TooManyKeys {
        /// How many it has.
        found: usize,
    },
    /// One of its keys refuses the whole set.
    #[error("key {index} of the set {fault}")]
    Key {
        /// Which key, counted from 0.
        index: usize,
        /// What is wrong with it.
        fault: KeyFault,
    },
    /// None of its keys can be used.
    #[error("none of the {found} keys of the set can be used")]
    NothingUsable {
        /// How many it has.
        found: usize,
    },
}

/// What is wrong with a key, so that its whole set is refused.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
pub enum KeyFault {
    /// It has no `kid`, or an empty one.
    #[error("has no kid")]
    NoKid,
    /// Another key has its `kid`.
    #[error("has the kid of another key")]
    DoubleKid,
    /// It is a private key.
    #[error("is a private key")]
    Private,
    /// It is a symmetric key.
    #[error("is a symmetric key")]
    Symmetric,
    /// Its `use` is not `sig`.
    #[error("has a use other than sig")]
    Use,
    /// Its `key_ops` do not have `verify`.
    #[error("has key_ops without verify")]
    KeyOps,
    /// Its `alg` is not for keys of its type.
    #[error("has an alg that is not for its type")]
    Algorithm,
    /// Its curve is not for keys of its type, or there is none.
    #[error("has a curve that is not for its type")]
    Curve,
    /// It is an RSA key of less than 2048 bits.
    #[error("is an RSA key of less than 2048 bits")]
    Weak,
    /// Its numbers are missing, malformed, or no key.
    #[error("is not a valid key")]
    Material,
}

/// A key of a set that is left out, because it cannot be used here.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct UnusableKey {
    /// Its key ID.
    pub kid: String,
    /// Why it is left out.
    pub reason: UnusableReason,
}

impl fmt::Display for UnusableKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The ID is the provider's choice: a log line stays one line, and short.
        let kid: String = self.kid.chars().take(64).collect();
        write!(f, "key {kid:?} {}", self.reason)
    }
}

/// Why a key is left out of its set.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
pub enum UnusableReason {
    /// An unknown `kty`.
    #[error("has an unknown type")]
    Type,
    /// A curve that the gateway does not have: P-521, secp256k1, Ed448, X25519, or an unknown one.
    #[error("has a curve that this gateway does not have")]
    Curve,
    /// An `alg` that the gateway does not have.
    #[error("has an algorithm that this gateway does not have")]
    Algorithm,
    /// An RSA key of more than 8192 bits, or with an exponent of more than 33.
    #[error("is an RSA key that is too large")]
    TooLarge,
}
