//! Labels and annotations in little memory.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Labels or annotations that do not change, in the order of their names.
///
/// A map of a few texts costs half a kilobyte, and each name of it another 50 bytes. Here a pair costs 32
/// bytes and its value; the names of many objects can be one text (see [`share`](Self::share)).
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Texts(Box<[(Arc<str>, Box<str>)]>);

impl Texts {
    /// The value of this name.
    pub fn get(&self, name: &str) -> Option<&str> {
        let at = self.0.binary_search_by(|(is, _)| (**is).cmp(name)).ok()?;
        self.0.get(at).map(|(_, value)| &**value)
    }

    /// Whether there is a value of this name.
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them: name and value.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }

    /// The names.
    pub fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.0.iter().map(|(name, _)| name)
    }

    /// Puts names that are kept already in the place of equal ones.
    pub fn share(&mut self, kept: impl Fn(&str) -> Option<Arc<str>>) {
        for (name, _) in &mut self.0 {
            if let Some(kept) = kept(name).filter(|kept| kept == name) {
                *name = kept;
            }
        }
    }
}

impl From<BTreeMap<String, String>> for Texts {
    fn from(texts: BTreeMap<String, String>) -> Self {
        texts.into_iter().map(|(name, value)| (name.into(), value.into())).collect::<Vec<_>>().into()
    }
}

impl From<Vec<(Arc<str>, Box<str>)>> for Texts {
    fn from(mut pairs: Vec<(Arc<str>, Box<str>)>) -> Self {
        pairs.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        pairs.dedup_by(|(a, _), (b, _)| a == b);
        Self(pairs.into())
    }
}

/// The names alone: a value may be a secret.
impl fmt::Debug for Texts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}
