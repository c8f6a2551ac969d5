//! One look at one token, without a memory.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use subtle::ConstantTimeEq as _;

use super::claims::{Claims, Lifetime};
use super::compact::{Compact, Header};
use super::key::Key;
use super::{Algorithm, KeySet, TokenError};
use crate::UnixTime;

/// How far clocks may be apart if nothing else is configured.
pub const DEFAULT_LEEWAY: Duration = Duration::from_secs(60);

/// The sandbox that a request goes to, by its route.
#[derive(Clone, Copy, Debug)]
pub struct Sandbox<'a> {
    /// Its ID.
    pub id: &'a [u8],
    /// The UID of its object.
    pub uid: &'a [u8],
}

/// What a token is checked against. Immutable: new keys make a new one, which every worker then gets.
pub struct Verifier {
    /// No other verifier of this process has it.
    pub(super) id: u64,
    pub(super) keys: Arc<KeySet>,
    pub(super) issuer: Arc<str>,
    /// Whole seconds.
    pub(super) leeway: u64,
}

impl Verifier {
    /// A verifier of the tokens of one issuer. The leeway is cut to whole seconds. Without an issuer no token
    /// is good.
    pub fn new(keys: Arc<KeySet>, issuer: impl Into<Arc<str>>, leeway: Duration) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Self { id, keys, issuer: issuer.into(), leeway: leeway.as_secs() }
    }

    /// The keys.
    pub fn keys(&self) -> &Arc<KeySet> {
        &self.keys
    }

    /// The issuer.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// How far clocks may be apart.
    pub fn leeway(&self) -> Duration {
        Duration::from_secs(self.leeway)
    }

    /// Checks a token whole, signature included, whatever it costs. On a worker ask a
    /// [`TokenCache`](super::TokenCache) instead.
    pub fn verify(&self, token: &[u8], sandbox: Sandbox<'_>, now: UnixTime) -> Result<(), TokenError> {
        if self.examine(token, sandbox, now)?.is_signed() { Ok(()) } else { Err(TokenError::Signature) }
    }

    /// Checks everything but the signature.
    pub(super) fn examine<'a>(
        &'a self,
        token: &'a [u8],
        sandbox: Sandbox<'_>,
        now: UnixTime,
    ) -> Result<Examined<'a>, TokenError> {
        let compact = Compact::split(token)?;
        let header = compact.header()?;
        let header = Header::parse(&header)?;
        let algorithm = Algorithm::of_name(&header.alg).ok_or(TokenError::Algorithm)?;
        let key = self.keys.find(&header.kid).ok_or(TokenError::UnknownKey)?;
        if !key.allows(algorithm) {
            return Err(TokenError::Algorithm);
        }
        let signature = compact.signature()?;
        let payload = compact.payload()?;
        let claims = Claims::parse(&payload)?;
        if claims.iss.is_empty() || *claims.iss != *self.issuer {
            return Err(TokenError::Issuer);
        }
        let lifetime = claims.lifetime();
        lifetime.check(now, self.leeway)?;
        let is_id = claims.sandbox_id().as_bytes().ct_eq(sandbox.id);
        let is_uid = claims.sandbox_uid().as_bytes().ct_eq(sandbox.uid);
        if sandbox.id.is_empty() || sandbox.uid.is_empty() || !bool::from(is_id & is_uid) {
            return Err(TokenError::Sandbox);
        }
        if !key.is_signature_len(signature.len()) {
            return Err(TokenError::Signature);
        }
        Ok(Examined { key, algorithm, signature, signed: compact.signed, lifetime })
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifier")
            .field("keys", &self.keys)
            .field("issuer", &self.issuer)
            .field("leeway", &self.leeway)
            .finish()
    }
}

/// A token that is good if its signature is.
pub(super) struct Examined<'a> {
    pub(super) key: &'a Key,
    algorithm: Algorithm,
    signature: Vec<u8>,
    signed: &'a [u8],
    pub(super) lifetime: Lifetime,
}

impl Examined<'_> {
    /// Checks the signature, which is what costs.
    pub(super) fn is_signed(&self) -> bool {
        self.key.verifies(self.algorithm, self.signed, &self.signature)
    }
}
