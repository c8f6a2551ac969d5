//! The compact serialisation of a JWS.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;

use super::TokenError;
use super::json::{Object, Present};

/// How long a token may be.
pub const MAX_TOKEN: usize = 64 << 10;

/// A token in its three parts, still encoded.
pub(super) struct Compact<'a> {
    header: &'a [u8],
    payload: &'a [u8],
    signature: &'a [u8],
    /// What is signed: the first two parts as they came.
    pub(super) signed: &'a [u8],
}

impl<'a> Compact<'a> {
    pub(super) fn split(token: &'a [u8]) -> Result<Self, TokenError> {
        if token.is_empty() {
            return Err(TokenError::Missing);
        }
        if token.len() > MAX_TOKEN {
            return Err(TokenError::Malformed);
        }
        let mut parts = token.split(|&byte| byte == b'.');
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(header), Some(payload), Some(signature), None) => {
                let signed = token.get(..header.len() + 1 + payload.len()).unwrap_or_default();
                Ok(Self { header, payload, signature, signed })
            }
            _ => Err(TokenError::Malformed),
        }
    }

    pub(super) fn header(&self) -> Result<Vec<u8>, TokenError> {
        decode(self.header)
    }

    pub(super) fn payload(&self) -> Result<Vec<u8>, TokenError> {
        decode(self.payload)
    }

    pub(super) fn signature(&self) -> Result<Vec<u8>, TokenError> {
        decode(self.signature)
    }
}

/// The members of a header that are looked at.
#[derive(Deserialize)]
pub(super) struct Header<'a> {
    #[serde(borrow)]
    pub(super) alg: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) kid: Cow<'a, str>,
    /// It names members that a reader must understand, and there are none that this one does.
    #[serde(default)]
    crit: Present,
}

impl<'a> Header<'a> {
    pub(super) fn parse(json: &'a [u8]) -> Result<Self, TokenError> {
        match serde_json::from_str(text(json)?) {
            Ok(Object(Self { crit: Present(false), alg, kid })) if !kid.is_empty() => {
                Ok(Self { crit: Present(false), alg, kid })
            }
            _ => Err(TokenError::Malformed),
        }
    }
}

/// JSON as text: `serde_json` does not look at the bytes of a text that nobody asked for.
pub(super) fn text(json: &[u8]) -> Result<&str, TokenError> {
    str::from_utf8(json).map_err(|_| TokenError::Malformed)
}

// Strict: no padding, no white space, and no bits after the last byte.
fn decode(part: &[u8]) -> Result<Vec<u8>, TokenError> {
    URL_SAFE_NO_PAD.decode(part).map_err(|_| TokenError::Malformed)
}
