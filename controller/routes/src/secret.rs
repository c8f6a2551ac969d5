//! Access tokens: held, compared, never shown.

use std::fmt;

use subtle::ConstantTimeEq;

use crate::packed::{pack_uuid, uuid_text};

/// A sandbox's access token. It can be compared with what a client presents and nothing else: no accessor, no formatting shows it
/// (a table's digest has a one-way hash of it).
#[derive(Clone)]
pub struct Secret(Repr);

// Tokens often are UUIDs; a million of them are worth 48 MB.
#[derive(Clone)]
enum Repr {
    Uuid([u8; 16]),
    Other(Box<[u8]>),
}

impl Secret {
    /// Takes a token. Length is checked where it is applied, like every other part of an observation.
    pub fn new(token: impl AsRef<[u8]>) -> Self {
        let token = token.as_ref();
        Self(pack_uuid(token).map_or_else(|| Repr::Other(token.into()), Repr::Uuid))
    }

    /// Whether `presented` is the token. The time taken depends on the two lengths, not on what is in them.
    pub fn matches(&self, presented: &[u8]) -> bool {
        match &self.0 {
            Repr::Uuid(packed) => uuid_text(packed).ct_eq(presented).into(),
            Repr::Other(token) => token.ct_eq(presented).into(),
        }
    }

    /// Hands the token to `use_it`: for a digest.
    pub(crate) fn with_bytes<R>(&self, use_it: impl FnOnce(&[u8]) -> R) -> R {
        match &self.0 {
            Repr::Uuid(packed) => use_it(&uuid_text(packed)),
            Repr::Other(token) => use_it(token),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match &self.0 {
            Repr::Uuid(packed) => uuid_text(packed).len(),
            Repr::Other(token) => token.len(),
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_token_matches() {
        let secret = Secret::new("s3cret");
        assert!(secret.matches(b"s3cret"));
        for wrong in ["", "s", "s3cre", "s3cret ", "s3creT", "s3cret\0", "S3CRET"] {
            assert!(!secret.matches(wrong.as_bytes()), "{wrong:?}");
        }
    }

    #[test]
    fn a_uuid_is_a_token_like_any() {
        let token = "8c1f03a2-0b4d-4e5f-9a6b-7c8d9e0f1a2b";
        let secret = Secret::new(token);
        assert!(secret.matches(token.as_bytes()));
        assert_eq!(secret.len(), token.len());
        for wrong in
            [&token[1..], &token.to_uppercase(), &token.replace('-', ""), &token.replace('b', "c"), ""]
        {
            assert!(!secret.matches(wrong.as_bytes()), "{wrong:?}");
        }
    }

    #[test]
    fn a_secret_is_never_printed() {
        let secret = Secret::new("s3cret");
        assert_eq!(format!("{secret} {secret:?} {:?}", Some(&secret)), "*** *** Some(***)");
    }
}
