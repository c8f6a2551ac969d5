//! Who may give commands: whoever shows a token of the file.

use std::fs;
use std::io;
use std::path::PathBuf;

use subtle::ConstantTimeEq as _;

/// A file that is longer holds no tokens.
const MOST_BYTES: u64 = 64 * 1024;

/// The file with the tokens, one a line, so that an old and a new one are both good while they are exchanged.
///
/// It is read for every request: what is in it counts at once. If it cannot be read, nobody is let in.
#[derive(Clone, Debug)]
pub(crate) struct Tokens(PathBuf);

impl Tokens {
    pub(crate) fn new(file: PathBuf) -> Self {
        Self(file)
    }

    /// Whether there is a token at all.
    pub(crate) fn check(&self) -> io::Result<()> {
        if self.read()?.lines().all(|line| line.trim().is_empty()) {
            return Err(io::Error::other("there is no token in it"));
        }
        Ok(())
    }

    fn read(&self) -> io::Result<String> {
        if fs::metadata(&self.0)?.len() > MOST_BYTES {
            return Err(io::Error::other("it is too long for a file of tokens"));
        }
        fs::read_to_string(&self.0)
    }

    /// Whether this `Authorization` header has a token of the file. How long that takes does not depend on
    /// where a wrong token differs.
    pub(crate) fn admit(&self, header: Option<&[u8]>) -> bool {
        let Some(shown) = header.and_then(bearer) else { return false };
        let text = match self.read() {
            Ok(text) => text,
            Err(error) => {
                tracing::warn!("--token-file: {error}; nobody is let in");
                return false;
            }
        };
        let tokens = text.lines().map(str::trim).filter(|token| !token.is_empty());
        tokens.fold(false, |admitted, token| admitted | bool::from(token.as_bytes().ct_eq(shown)))
    }
}

fn bearer(header: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = header.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::Tokens;

    #[test]
    fn the_tokens_of_the_file_are_good_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        fs::write(&path, "old\n\n  new  \n").unwrap();
        let tokens = Tokens::new(path);
        tokens.check().unwrap();
        for good in ["Bearer old", "bearer new", "Bearer  new "] {
            assert!(tokens.admit(Some(good.as_bytes())), "{good}");
        }
        for wrong in ["Bearer ol", "Bearer older", "Bearer ", "Bearer", "Basic old", "old", ""] {
            assert!(!tokens.admit(Some(wrong.as_bytes())), "{wrong}");
        }
        assert!(!tokens.admit(None));
    }

    #[test]
    fn what_is_in_the_file_counts_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        fs::write(&path, "one").unwrap();
        let tokens = Tokens::new(path.clone());
        assert!(tokens.admit(Some(b"Bearer one")));
        fs::write(&path, "two").unwrap();
        assert!(!tokens.admit(Some(b"Bearer one")));
        assert!(tokens.admit(Some(b"Bearer two")));
        fs::remove_file(&path).unwrap();
        assert!(!tokens.admit(Some(b"Bearer two")));
        assert!(tokens.check().is_err());
    }

    #[test]
    fn an_empty_file_lets_nobody_in() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        fs::write(&path, " \n\n").unwrap();
        let tokens = Tokens::new(path);
        assert!(tokens.check().is_err());
        assert!(!tokens.admit(Some(b"Bearer ")));
    }
}
