//! Access tokens: held, compared, never shown.

use std::fmt;

use subtle::ConstantTimeEq;

/// A sandbox's access token. It can be compared with what a client presents and nothing else: no accessor, no formatting shows it.
#[derive(Clone)]
pub struct Secret(Box<[u8]>);

impl Secret {
    /// Takes a token. Length is checked where it is applied, like every other part of an observation.
    pub fn new(token: impl AsRef<[u8]>) -> Self {
        Self(token.as_ref().into())
    }

    /// Whether `presented` is the token. The time taken depends on the two lengths, not on what is in them.
    pub fn matches(&self, presented: &[u8]) -> bool {
        self.0.ct_eq(presented).into()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
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
    fn a_secret_is_never_printed() {
        let secret = Secret::new("s3cret");
        assert_eq!(format!("{secret} {secret:?} {:?}", Some(&secret)), "*** *** Some(***)");
    }
}
