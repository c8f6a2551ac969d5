mod keysets;
mod peer;
mod tokens;
mod vectors;

use std::sync::Arc;

use serde_json::Value;

use super::{DEFAULT_LEEWAY, KeySet, Sandbox, TokenError, Verifier};
use crate::UnixTime;
use crate::testing::{self, Signer};

pub(super) const ISSUER: &str = "https://issuer.example";
pub(super) const NOW: UnixTime = UnixTime(1_800_000_000);
pub(super) const SANDBOX: Sandbox<'static> = Sandbox { id: b"sandbox-1", uid: b"uid-1" };

/// The claims of a good token for [`SANDBOX`].
pub(super) fn claims() -> Value {
    testing::claims(ISSUER, "sandbox-1", "uid-1", NOW)
}

/// The same with one claim changed.
pub(super) fn claims_with(name: &str, value: impl Into<Value>) -> Value {
    let mut claims = claims();
    claims[name] = value.into();
    claims
}

pub(super) fn claims_without(name: &str) -> Value {
    let mut claims = claims();
    claims.as_object_mut().expect("claims are an object").remove(name).expect("it was there");
    claims
}

pub(super) fn key_set(json: impl AsRef<str>) -> Arc<KeySet> {
    Arc::new(KeySet::parse(json.as_ref().as_bytes()).expect("the set is good"))
}

pub(super) fn verifier(signer: &Signer) -> Verifier {
    Verifier::new(key_set(signer.jwks()), ISSUER, DEFAULT_LEEWAY)
}

pub(super) fn verify(verifier: &Verifier, token: impl AsRef<[u8]>) -> Result<(), TokenError> {
    verifier.verify(token.as_ref(), SANDBOX, NOW)
}
