//! Names of objects. The key is what a version belongs to; the lookup ID only points at it and is never
//! parsed back into one.

use std::cmp::Ordering;
use std::fmt;

use crate::{MAX_NAME, MAX_NAMESPACE, MAX_PROVIDER};

/// One object of one provider. The provider is part of the name: two kinds may have objects of the same
/// namespace and name at once.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ObjectKey {
    // "provider:namespace/name" in one allocation; neither separator can occur in a part.
    text: Box<str>,
    provider: u8,
    namespace: u8,
}

/// An [`ObjectKey`] by reference, as a [`Route`](crate::Route) gives it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyRef<'a> {
    provider: &'a str,
    namespace: &'a str,
    name: &'a str,
}

/// The parts as bytes: what the index hashes and compares, without looking at the text's encoding again.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct RawKey<'a> {
    pub(crate) provider: &'a [u8],
    pub(crate) namespace: &'a [u8],
    pub(crate) name: &'a [u8],
}

/// Why an object cannot have a key: which part is empty, too long, or has a `/`, a `:` or a control
/// character. A retry does not help: the same parts give the same error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The provider: 1 to 63 bytes.
    #[error("a provider has 1 to 63 bytes, none of them '/', ':' or a control character")]
    Provider,
    /// The namespace: 0 to 63 bytes.
    #[error("a namespace has up to 63 bytes, none of them '/', ':' or a control character")]
    Namespace,
    /// The name: 1 to 253 bytes.
    #[error("a name has 1 to 253 bytes, none of them '/', ':' or a control character")]
    Name,
}

fn is_part(text: &str) -> bool {
    !text.chars().any(|c| c == '/' || c == ':' || c.is_control())
}

impl ObjectKey {
    /// Checks the parts and packs them.
    pub fn new(provider: &str, namespace: &str, name: &str) -> Result<Self, KeyError> {
        if provider.is_empty() || provider.len() > MAX_PROVIDER || !is_part(provider) {
            return Err(KeyError::Provider);
        }
        if namespace.len() > MAX_NAMESPACE || !is_part(namespace) {
            return Err(KeyError::Namespace);
        }
        if name.is_empty() || name.len() > MAX_NAME || !is_part(name) {
            return Err(KeyError::Name);
        }
        let lengths = (u8::try_from(provider.len()), u8::try_from(namespace.len()));
        let (Ok(provider_length), Ok(namespace_length)) = lengths else {
            return Err(KeyError::Provider);
        };
        let mut text = String::with_capacity(provider.len() + namespace.len() + name.len() + 2);
        for part in [provider, ":", namespace, "/", name] {
            text.push_str(part);
        }
        Ok(Self { text: text.into(), provider: provider_length, namespace: namespace_length })
    }

    /// Subject kind of source the object is of.
    pub fn provider(&self) -> &str {
        self.borrowed().provider
    }

    /// Its namespace, or nothing.
    pub fn namespace(&self) -> &str {
        self.borrowed().namespace
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.borrowed().name
    }

    /// Whether an ID is the one that this object has by its name alone: `{namespace}--{name}`, or the name of
    /// an object without a namespace.
    pub fn has_own_id(&self, id: &str) -> bool {
        let KeyRef { namespace, name, .. } = self.borrowed();
        match namespace {
            "" => id == name,
            _ => id.strip_prefix(namespace).and_then(|rest| rest.strip_prefix("--")) == Some(name),
        }
    }

    /// The same key by reference.
    pub fn borrowed(&self) -> KeyRef<'_> {
        let (provider, rest) = self.text.split_at(usize::from(self.provider));
        let (namespace, name) = rest[1..].split_at(usize::from(self.namespace));
        KeyRef { provider, namespace, name: &name[1..] }
    }

    pub(crate) fn raw(&self) -> RawKey<'_> {
        self.borrowed().raw()
    }
}

impl<'a> KeyRef<'a> {
    pub(crate) fn from_parts(provider: &'a str, namespace: &'a str, name: &'a str) -> Self {
        Self { provider, namespace, name }
    }

    /// Subject kind of source the object is of.
    pub fn provider(&self) -> &'a str {
        self.provider
    }

    /// Its namespace, or nothing.
    pub fn namespace(&self) -> &'a str {
        self.namespace
    }

    /// Its name.
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// The same key, owned.
    ///
    /// # Panics
    /// Never: a reference is only made from checked parts.
    pub fn to_key(&self) -> ObjectKey {
        ObjectKey::new(self.provider, self.namespace, self.name).expect("the parts were checked")
    }

    pub(crate) fn raw(&self) -> RawKey<'a> {
        RawKey {
            provider: self.provider.as_bytes(),
            namespace: self.namespace.as_bytes(),
            name: self.name.as_bytes(),
        }
    }
}

impl Ord for ObjectKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.borrowed().cmp(&other.borrowed())
    }
}

impl PartialOrd for ObjectKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq<ObjectKey> for KeyRef<'_> {
    fn eq(&self, other: &ObjectKey) -> bool {
        *self == other.borrowed()
    }
}

impl PartialEq<KeyRef<'_>> for ObjectKey {
    fn eq(&self, other: &KeyRef<'_>) -> bool {
        self.borrowed() == *other
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

impl fmt::Display for KeyRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}/{}", self.provider, self.namespace, self.name)
    }
}

impl fmt::Debug for KeyRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_gives_its_parts_back() {
        let key = ObjectKey::new("kruise", "team-a", "demo").unwrap();
        assert_eq!((key.provider(), key.namespace(), key.name()), ("kruise", "team-a", "demo"));
        assert_eq!(key.to_string(), "kruise:team-a/demo");
        assert_eq!(key.borrowed().to_string(), key.to_string());
        assert_eq!(key.borrowed().to_key(), key);
    }

    #[test]
    fn a_namespace_may_be_empty_and_still_differs_from_a_name_with_its_text() {
        let bare = ObjectKey::new("file", "", "ab").unwrap();
        assert_eq!((bare.namespace(), bare.name()), ("", "ab"));
        assert_ne!(bare, ObjectKey::new("file", "a", "b").unwrap());
        assert_ne!(ObjectKey::new("a", "bc", "d").unwrap(), ObjectKey::new("ab", "c", "d").unwrap());
    }

    #[test]
    fn an_object_has_one_id_by_its_name() {
        let key = ObjectKey::new("kruise", "team-a", "demo").unwrap();
        assert!(key.has_own_id("team-a--demo"));
        for other in ["demo", "team-a-demo", "team-a--demo2", "team-a--", "--demo", "team--demo", ""] {
            assert!(!key.has_own_id(other), "{other:?}");
        }
        let bare = ObjectKey::new("cluster", "", "demo").unwrap();
        assert!(bare.has_own_id("demo") && !bare.has_own_id("--demo"));
    }

    #[test]
    fn a_bad_part_is_named() {
        let long = "x".repeat(254);
        assert_eq!(ObjectKey::new("", "n", "x"), Err(KeyError::Provider));
        assert_eq!(ObjectKey::new(&long[..64], "n", "x"), Err(KeyError::Provider));
        assert_eq!(ObjectKey::new("p", &long[..64], "x"), Err(KeyError::Namespace));
        assert_eq!(ObjectKey::new("p", "a/b", "x"), Err(KeyError::Namespace));
        assert_eq!(ObjectKey::new("p", "n", ""), Err(KeyError::Name));
        assert_eq!(ObjectKey::new("p", "n", &long), Err(KeyError::Name));
        assert_eq!(ObjectKey::new("p", "n", "a:b"), Err(KeyError::Name));
        assert_eq!(ObjectKey::new("p", "n", "a\nb"), Err(KeyError::Name));
        assert!(ObjectKey::new("p", &long[..63], &long[..253]).is_ok());
    }

    #[test]
    fn keys_sort_by_their_parts() {
        let key = |p: &str, n: &str, x: &str| ObjectKey::new(p, n, x).unwrap();
        let mut keys = [key("b", "a", "a"), key("a", "b", "a"), key("a", "a-", "a"), key("a", "a", "b")];
        keys.sort();
        assert_eq!(keys.map(|k| k.to_string()), ["a:a/b", "a:a-/a", "a:b/a", "b:a/a"]);
    }
}
