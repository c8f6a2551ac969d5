//! Access tokens: held, compared, never shown.

use std::fmt;

use subtle::ConstantTimeEq;

use crate::packed::{pack_uuid, uuid_text};

/// What a token is for, which decides who checks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum TokenKind {
    /// The token of the runtime inside the sandbox, which checks it itself. A gateway compares it where it is
    /// told to.
    Runtime,
    /// The owner has closed the sandbox to everybody without this token. A gateway always compares it.
    SecureAccess,
}

/// A sandbox's access token. It can be compared with what a client presents and nothing else: no accessor, no
/// formatting shows it (a table's digest has a one-way hash of it).
#[derive(Clone)]
pub struct Secret(Repr);

// Tokens often are UUIDs; a million of them are worth 48 MB. The kind stands in each variant, where there is
// room for it: beside the enum it would make every route longer.
#[derive(Clone)]
enum Repr {
    Uuid(TokenKind, [u8; 16]),
    Other(TokenKind, Box<[u8]>),
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.kind() == other.kind() && other.with_bytes(|bytes| self.matches(bytes))
    }
}

impl Eq for Secret {}

impl Secret {
    /// Takes the token of a sandbox's runtime. Length is checked where it is applied, like every other part
    /// of an observation.
    pub fn new(token: impl AsRef<[u8]>) -> Self {
        Self::of_kind(TokenKind::Runtime, token)
    }

    /// Takes a token without which nobody is served.
    pub fn secure_access(token: impl AsRef<[u8]>) -> Self {
        Self::of_kind(TokenKind::SecureAccess, token)
    }

    fn of_kind(kind: TokenKind, token: impl AsRef<[u8]>) -> Self {
        let token = token.as_ref();
        Self(match pack_uuid(token) {
            Some(packed) => Repr::Uuid(kind, packed),
            None => Repr::Other(kind, token.into()),
        })
    }

    /// What it is for.
    #[inline]
    pub fn kind(&self) -> TokenKind {
        match self.0 {
            Repr::Uuid(kind, _) | Repr::Other(kind, _) => kind,
        }
    }

    /// Whether `presented` is the token. The time taken depends on the two lengths, not on what is in them.
    pub fn matches(&self, presented: &[u8]) -> bool {
        match &self.0 {
            Repr::Uuid(_, packed) => uuid_text(packed).ct_eq(presented).into(),
            Repr::Other(_, token) => token.ct_eq(presented).into(),
        }
    }

    /// Hands the token to `use_it`: for a digest.
    pub(crate) fn with_bytes<R>(&self, use_it: impl FnOnce(&[u8]) -> R) -> R {
        match &self.0 {
            Repr::Uuid(_, packed) => use_it(&uuid_text(packed)),
            Repr::Other(_, token) => use_it(token),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match &self.0 {
            Repr::Uuid(_, packed) => uuid_text(packed).len(),
            Repr::Other(_, token) => token.len(),
        }
    }
}

/// The tokens of a route. Few sandboxes have a traffic token, so a route without one is no longer for it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Tokens {
    None,
    One(Secret),
    Traffic(Box<Traffic>),
}

/// A traffic token, and the other one beside it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Traffic {
    token: Secret,
    first: Option<Secret>,
}

impl Tokens {
    pub(crate) fn new(first: Option<Secret>, traffic: Option<Secret>) -> Self {
        match (first, traffic) {
            (first, Some(token)) => Self::Traffic(Box::new(Traffic { token, first })),
            (Some(first), None) => Self::One(first),
            (None, None) => Self::None,
        }
    }

    /// The token of the runtime, or of the secure access.
    #[inline]
    pub(crate) fn first(&self) -> Option<&Secret> {
        match self {
            Self::None => None,
            Self::One(first) => Some(first),
            Self::Traffic(both) => both.first.as_ref(),
        }
    }

    #[inline]
    pub(crate) fn traffic(&self) -> Option<&Secret> {
        match self {
            Self::None | Self::One(_) => None,
            Self::Traffic(both) => Some(&both.token),
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
    fn a_token_says_what_it_is_for_and_is_not_longer_for_it() {
        for token in ["s3cret", "8c1f03a2-0b4d-4e5f-9a6b-7c8d9e0f1a2b"] {
            let (runtime, secure) = (Secret::new(token), Secret::secure_access(token));
            assert_eq!((runtime.kind(), secure.kind()), (TokenKind::Runtime, TokenKind::SecureAccess));
            assert!(runtime.matches(token.as_bytes()) && secure.matches(token.as_bytes()));
        }
        assert_eq!(size_of::<Option<Secret>>(), 24);
    }

    #[test]
    fn a_traffic_token_beside_the_other_does_not_make_a_route_longer() {
        assert_eq!(size_of::<Tokens>(), size_of::<Option<Secret>>());
        let (first, traffic) = (Secret::secure_access("first"), Secret::new("traffic"));
        for has_first in [false, true] {
            for has_traffic in [false, true] {
                let first = Some(&first).filter(|_| has_first);
                let traffic = Some(&traffic).filter(|_| has_traffic);
                let tokens = Tokens::new(first.cloned(), traffic.cloned());
                assert_eq!((tokens.first(), tokens.traffic()), (first, traffic));
            }
        }
    }

    #[test]
    fn a_secret_is_never_printed() {
        let secret = Secret::new("s3cret");
        assert_eq!(format!("{secret} {secret:?} {:?}", Some(&secret)), "*** *** Some(***)");
    }
}
