//! Traffic tokens of OpenKruise: JSON Web Tokens that an OpenID provider signed for one sandbox.
//!
//! A token is a compact JWS. It is good if its key is in the provider's set, its `iss` is the provider, its
//! times allow it, and its claims `sandbox.sandboxId` and `sandbox.sandboxUid` are those of the route that
//! the request goes to. `aud` is not looked at. One worker asks its [`TokenCache`], which asks the
//! [`Verifier`] about tokens that it has not seen, as far as the [`Budget`] allows.
//!
//! # The order of checks
//! Everything that needs no cryptography comes first: format, key ID, algorithm, issuer, times, sandbox. The
//! signature comes last, so a flood of bad tokens costs little, and a token for another sandbox costs no
//! signature check.
//!
//! What a caller can learn by that, from the time an answer takes, is how far a token got that it wrote
//! itself. Key IDs, algorithms and the issuer are public. Whether a sandbox has the ID and the UID that the
//! token names is the only other thing: a UID is 122 random bits, is compared in constant time, and opens
//! nothing without a signature. The reply does not depend on it: every refusal of a token is the same one.
//!
//! # What differs from OpenKruise's gateway
//! - Keys may change while the gateway runs. There, they are read once.
//! - ES512 keys are left out of a set ([`KeySet::unusable`]), as are keys of unknown types, curves and
//!   algorithms: `ring` has none of them, and one such key must not take the others away. There, ES512 works
//!   and any unknown key refuses the set.
//! - RSA keys below 2048 bits are refused; above 8192 bits they are left out.
//! - A set has 256 keys at most. `x5c` and thumbprints of a key are not looked at.
//! - A token is read strictly: white space, line breaks and non-zero trailing bits in base64url are refused,
//!   as is the JSON serialisation, which its library would read.
//! - A date beyond 2^53 seconds is refused. There, the conversion of it is up to the processor.
//! - `iat` and `nbf` before 1970 mean "long ago", as there.
//! - An empty sandbox ID or UID equals nothing, not even an empty claim.
//! - Now is a whole second here, so a token lives up to a second longer.

mod algorithm;
mod budget;
mod cache;
mod claims;
mod compact;
mod error;
mod hash;
mod json;
mod jwk;
mod key;
mod keyset;
mod verifier;

#[cfg(test)]
mod tests;

pub use algorithm::Algorithm;
pub use budget::{Budget, Clock, Monotonic};
pub use cache::{CacheCounts, CacheLimits, TokenCache};
pub use compact::MAX_TOKEN;
pub use error::{KeyFault, KeySetError, TokenError, UnusableKey, UnusableReason};
pub use keyset::{KeySet, MAX_KEY_SET, MAX_KEYS};
pub use verifier::{DEFAULT_LEEWAY, Sandbox, Verifier};
