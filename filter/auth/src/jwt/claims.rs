//! What a token says, and when.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::error::Category;

use super::TokenError;
use super::compact::text;
use super::json::{NumericDate, Object};
use crate::UnixTime;

/// The claims that are looked at. All must be there.
#[derive(Deserialize)]
pub(super) struct Claims<'a> {
    #[serde(borrow)]
    pub(super) iss: Cow<'a, str>,
    #[serde(borrow)]
    sub: Cow<'a, str>,
    exp: NumericDate,
    iat: NumericDate,
    nbf: NumericDate,
    #[serde(borrow)]
    sandbox: Object<SandboxClaims<'a>>,
}

#[derive(Deserialize)]
struct SandboxClaims<'a> {
    #[serde(borrow, rename = "sandboxId")]
    id: Cow<'a, str>,
    #[serde(borrow, rename = "sandboxUid")]
    uid: Cow<'a, str>,
}

impl<'a> Claims<'a> {
    pub(super) fn parse(json: &'a [u8]) -> Result<Self, TokenError> {
        let Object(claims): Object<Self> =
            serde_json::from_str(text(json)?).map_err(|error| match error.classify() {
                Category::Data => TokenError::Claims,
                Category::Io | Category::Syntax | Category::Eof => TokenError::Malformed,
            })?;
        if claims.sub.is_empty() { Err(TokenError::Claims) } else { Ok(claims) }
    }

    pub(super) fn lifetime(&self) -> Lifetime {
        Lifetime { from: self.iat.0.max(self.nbf.0), until: self.exp.0 }
    }

    pub(super) fn sandbox_id(&self) -> &str {
        &self.sandbox.0.id
    }

    pub(super) fn sandbox_uid(&self) -> &str {
        &self.sandbox.0.uid
    }
}

/// When a token is valid.
#[derive(Clone, Copy)]
pub(super) struct Lifetime {
    /// The later one of `iat` and `nbf`.
    from: i64,
    /// `exp`.
    until: i64,
}

impl Lifetime {
    /// Both ends belong to it, and the leeway makes it longer on both.
    pub(super) fn check(self, now: UnixTime, leeway: u64) -> Result<(), TokenError> {
        let [now, leeway] = [now.0, leeway].map(|seconds| i64::try_from(seconds).unwrap_or(i64::MAX));
        if now.saturating_sub(leeway) > self.until {
            return Err(TokenError::Expired);
        }
        if now.saturating_add(leeway) < self.from {
            return Err(TokenError::NotYetValid);
        }
        Ok(())
    }
}
