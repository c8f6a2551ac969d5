//! Bearer tokens: how a request carries one, and tokens that are known beforehand.

use std::fmt;

use subtle::ConstantTimeEq;

use crate::keys::{KeyFileError, MAX_KEY, MAX_KEYS};

/// The token of an `Authorization` header, if its scheme is `Bearer`, in any case. Spaces around the token do
/// not count. An empty token is none.
pub fn bearer_token(value: &[u8]) -> Option<&[u8]> {
    const SCHEME: &[u8] = b"bearer";
    let value = value.trim_ascii();
    let (scheme, token) = value.split_at_checked(SCHEME.len())?;
    let token = token.strip_prefix(b" ")?.trim_ascii();
    (scheme.eq_ignore_ascii_case(SCHEME) && !token.is_empty()).then_some(token)
}

/// A token that is known beforehand. It can be compared and nothing else.
#[derive(Clone)]
pub struct StaticToken(Box<[u8]>);

/// The fewest bytes: a token that can be guessed protects nobody.
const MIN_TOKEN: usize = 16;

impl StaticToken {
    /// Takes a token. White space around it does not count.
    ///
    /// # Errors
    /// When it is shorter than 16 bytes, too long, or has characters that no header can carry.
    pub fn new(token: &[u8]) -> Result<Self, KeyFileError> {
        let token = token.trim_ascii();
        if token.len() < MIN_TOKEN {
            return Err(KeyFileError::TooShort(MIN_TOKEN));
        }
        if token.len() > MAX_KEY {
            return Err(KeyFileError::TooLong);
        }
        if !token.iter().all(u8::is_ascii_graphic) {
            return Err(KeyFileError::Characters(1));
        }
        Ok(Self(token.into()))
    }

    /// Reads a file with one token a line. Empty lines, and lines that begin with `#`, do not count.
    ///
    /// # Errors
    /// When a line is no token, or when there is none.
    pub fn parse_file(text: &[u8]) -> Result<Vec<Self>, KeyFileError> {
        let lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with(b"#"));
        let tokens = lines.enumerate().map(|(index, line)| {
            Self::new(line).map_err(|error| match error {
                KeyFileError::Characters(_) => KeyFileError::Characters(index + 1),
                other => other,
            })
        });
        let tokens: Vec<Self> = tokens.collect::<Result<_, _>>()?;
        match tokens.len() {
            0 => Err(KeyFileError::Empty),
            1..=MAX_KEYS => Ok(tokens),
            _ => Err(KeyFileError::TooMany),
        }
    }

    /// Whether `presented` is the token. The time taken depends on the two lengths, not on what is in them.
    pub fn matches(&self, presented: &[u8]) -> bool {
        self.0.ct_eq(presented).into()
    }
}

impl fmt::Debug for StaticToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Whether one of the tokens is `presented`. All of them are compared, so the time does not say which.
pub fn any_matches(tokens: &[StaticToken], presented: &[u8]) -> bool {
    tokens.iter().fold(false, |found, token| found | token.matches(presented))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheme_is_bearer_in_any_case_and_the_token_is_trimmed() {
        for value in ["Bearer abc", "bearer abc", "BEARER  abc", " Bearer abc "] {
            assert_eq!(bearer_token(value.as_bytes()), Some(b"abc".as_slice()), "{value:?}");
        }
        for value in ["", "Bearer", "Bearer ", "Bearer\tabc", "Bearerabc", "Basic abc", "abc", "Bear er abc"]
        {
            assert_eq!(bearer_token(value.as_bytes()), None, "{value:?}");
        }
    }

    #[test]
    fn only_the_whole_token_matches() {
        let token = StaticToken::new(b" 0123456789abcdef\n").unwrap();
        assert!(token.matches(b"0123456789abcdef"));
        for wrong in ["", "0123456789abcde", "0123456789abcdef0", "0123456789ABCDEF"] {
            assert!(!token.matches(wrong.as_bytes()), "{wrong:?}");
        }
        assert_eq!(format!("{token:?}"), "***");
    }

    #[test]
    fn a_file_has_a_token_a_line_and_every_one_of_them_counts() {
        let file = b"# the old one\n0123456789abcdef\n\n  fedcba9876543210  \r\n";
        let tokens = StaticToken::parse_file(file).unwrap();
        assert!(any_matches(&tokens, b"0123456789abcdef") && any_matches(&tokens, b"fedcba9876543210"));
        assert!(!any_matches(&tokens, b"# the old one") && !any_matches(&tokens, b""));
        for (file, error) in [
            ("", KeyFileError::Empty),
            ("# nothing\n", KeyFileError::Empty),
            ("short", KeyFileError::TooShort(16)),
            ("0123456789abcdef\n0123456789 abcdef", KeyFileError::Characters(2)),
        ] {
            assert_eq!(StaticToken::parse_file(file.as_bytes()).unwrap_err(), error, "{file:?}");
        }
        let many = "0123456789abcdef\n".repeat(MAX_KEYS + 1);
        assert_eq!(StaticToken::parse_file(many.as_bytes()).unwrap_err(), KeyFileError::TooMany);
        let long = "x".repeat(MAX_KEY + 1);
        assert_eq!(StaticToken::parse_file(long.as_bytes()).unwrap_err(), KeyFileError::TooLong);
    }
}
