//! Scopes: what a list covers, how far its watch has reported, and which scopes have seen an object.

use std::collections::HashMap;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;

use crate::Version;
use crate::key::RawKey;

/// What one list or watch covers: a provider's objects in one namespace or all, that match a selector.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Scope(Arc<Parts>);

#[derive(PartialEq, Eq, Hash)]
struct Parts {
    provider: Box<str>,
    namespace: Option<Box<str>>,
    selector: Box<str>,
}

impl Scope {
    /// A scope; no namespace is all of them, an empty selector is every object.
    pub fn new(provider: &str, namespace: Option<&str>, selector: &str) -> Self {
        Self(Arc::new(Parts {
            provider: provider.into(),
            namespace: namespace.map(Into::into),
            selector: selector.into(),
        }))
    }

    /// Whether a complete list of this scope must name `key` if the object exists. A selector cannot be known
    /// from a key: a scope with one covers only the objects that it has seen.
    pub(crate) fn covers(&self, key: RawKey<'_>) -> bool {
        self.0.selector.is_empty()
            && self.0.provider.as_bytes() == key.provider
            && self.0.namespace.as_ref().is_none_or(|namespace| namespace.as_bytes() == key.namespace)
    }
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Parts { provider, namespace, selector } = &*self.0;
        write!(f, "{provider}:{}[{selector}]", namespace.as_deref().unwrap_or("*"))
    }
}

/// A scope by number.
pub(crate) type ScopeNumber = u32;

/// The scopes that have seen an object, as the number of a set. Few sets occur, and each is stored once, so
/// the claims on an object take four bytes of its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClaimSet(NonZeroU32);

impl ClaimSet {
    /// No scope has seen the object.
    pub(crate) const NONE: Self = Self(NonZeroU32::MIN);

    pub(crate) fn is_empty(self) -> bool {
        self == Self::NONE
    }

    fn at(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// The version up to which the watch of a scope has reported everything, and when it last reported anything.
struct Floor {
    version: Version,
    heard: u64,
}

/// Every scope and every set of scopes ever used. Scopes come from the configuration, not from messages, so
/// there are few of both.
pub(crate) struct Scopes {
    numbers: HashMap<Scope, ScopeNumber>,
    by_number: Vec<(Scope, Option<Floor>)>,
    sets: Vec<Box<[ScopeNumber]>>,
    set_numbers: HashMap<Box<[ScopeNumber]>, ClaimSet>,
}

impl Scopes {
    pub(crate) fn new() -> Self {
        let nobody: Box<[ScopeNumber]> = Box::default();
        Self {
            numbers: HashMap::new(),
            by_number: Vec::new(),
            sets: vec![nobody.clone()],
            set_numbers: HashMap::from([(nobody, ClaimSet::NONE)]),
        }
    }

    pub(crate) fn number(&mut self, scope: &Scope) -> ScopeNumber {
        if let Some(&number) = self.numbers.get(scope) {
            return number;
        }
        let number = ScopeNumber::try_from(self.numbers.len()).unwrap_or(ScopeNumber::MAX);
        self.numbers.insert(scope.clone(), number);
        self.by_number.push((scope.clone(), None));
        number
    }

    /// A scope whose lists must name an object of this key.
    pub(crate) fn covering(&self, key: RawKey<'_>) -> Option<ScopeNumber> {
        let at = self.by_number.iter().position(|(scope, _)| scope.covers(key))?;
        ScopeNumber::try_from(at).ok()
    }

    /// The first scope of a set.
    pub(crate) fn first(&self, claims: ClaimSet) -> Option<ScopeNumber> {
        self.sets[claims.at()].first().copied()
    }

    /// The floor of a scope; `None` before its first complete list.
    pub(crate) fn floor(&self, scope: ScopeNumber) -> Option<&Version> {
        self.by_number.get(scope as usize)?.1.as_ref().map(|floor| &floor.version)
    }

    /// When the watch of a scope last reported anything.
    pub(crate) fn heard(&self, scope: ScopeNumber) -> Option<u64> {
        self.by_number.get(scope as usize)?.1.as_ref().map(|floor| floor.heard)
    }

    /// Sets the floor to the version of a complete list, also if it was higher before.
    pub(crate) fn set_floor(&mut self, scope: ScopeNumber, version: Version, heard: u64) {
        if let Some((_, floor)) = self.by_number.get_mut(scope as usize) {
            *floor = Some(Floor { version, heard });
        }
    }

    /// Raises the floor to a version that the watch has reached.
    pub(crate) fn raise_floor(&mut self, scope: ScopeNumber, version: &Version, heard: u64) {
        if let Some((_, Some(floor))) = self.by_number.get_mut(scope as usize) {
            floor.heard = heard;
            if floor.version < *version {
                floor.version.clone_from(version);
            }
        }
    }

    pub(crate) fn contains(&self, claims: ClaimSet, scope: ScopeNumber) -> bool {
        self.sets[claims.at()].contains(&scope)
    }

    pub(crate) fn with(&mut self, claims: ClaimSet, scope: ScopeNumber) -> ClaimSet {
        let set = &self.sets[claims.at()];
        let Err(at) = set.binary_search(&scope) else { return claims };
        let mut more = set.to_vec();
        more.insert(at, scope);
        self.intern(more)
    }

    pub(crate) fn without(&mut self, claims: ClaimSet, scope: ScopeNumber) -> ClaimSet {
        let rest = self.sets[claims.at()].iter().copied().filter(|&other| other != scope).collect();
        self.intern(rest)
    }

    fn intern(&mut self, set: Vec<ScopeNumber>) -> ClaimSet {
        if let Some(&number) = self.set_numbers.get(set.as_slice()) {
            return number;
        }
        self.sets.push(set.clone().into());
        let number = u32::try_from(self.sets.len()).ok().and_then(NonZeroU32::new);
        let number = ClaimSet(number.expect("there are few sets"));
        self.set_numbers.insert(set.into(), number);
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ObjectKey;

    #[test]
    fn a_scope_without_selector_covers_its_provider_and_namespace() {
        let key = ObjectKey::new("kruise", "a", "x").unwrap();
        let covers = |scope: Scope| scope.covers(key.raw());
        assert!(covers(Scope::new("kruise", None, "")));
        assert!(covers(Scope::new("kruise", Some("a"), "")));
        assert!(!covers(Scope::new("kruise", Some("b"), "")));
        assert!(!covers(Scope::new("file", None, "")));
        assert!(!covers(Scope::new("kruise", None, "shard=1")));
    }

    #[test]
    fn equal_claims_are_one_set_whatever_the_order() {
        let mut scopes = Scopes::new();
        let [a, b] = ["a", "b"].map(|name| scopes.number(&Scope::new(name, None, "")));
        let nobody = ClaimSet::NONE;
        let (only_a, only_b) = (scopes.with(nobody, a), scopes.with(nobody, b));
        assert_eq!(scopes.with(only_a, b), scopes.with(only_b, a));
        let both = scopes.with(only_a, b);
        assert!(scopes.contains(both, a) && scopes.contains(both, b) && !scopes.contains(only_a, b));
        assert_eq!(scopes.without(both, b), only_a);
        assert_eq!(scopes.without(only_a, a), nobody);
        assert_eq!(scopes.without(only_a, b), only_a);
        assert!(scopes.without(only_a, a).is_empty());
    }
}
