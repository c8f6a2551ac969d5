//! Objects by something else than their name.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::{Key, Seen};

/// Objects by a text of theirs: an ID, an owner, a name.
///
/// It is asked for one text at a time and never walked, so the order of its map shows nowhere. What stands
/// under one text is ordered by key.
pub(crate) struct Index<T>(HashMap<Arc<str>, Spot<T>, foldhash::fast::RandomState>);

impl<T> Default for Index<T> {
    fn default() -> Self {
        Self(HashMap::default())
    }
}

/// What stands under one text. Most texts have one object, and a map of one would cost half a kilobyte.
enum Spot<T> {
    One(Arc<Seen<T>>),
    Many(BTreeMap<Key, Arc<Seen<T>>>),
}

impl<T> Index<T> {
    /// Replaces the object that stood under `before` by the one that stands under `after`. A text that is
    /// empty stands for none.
    pub(crate) fn replace(
        &mut self,
        before: Option<(&str, &Arc<Seen<T>>)>,
        after: Option<(&str, &Arc<Seen<T>>)>,
    ) {
        if let Some((text, seen)) = before
            && after.is_none_or(|(now, _)| now != text)
        {
            self.remove(text, &seen.key);
        }
        if let Some((text, seen)) = after
            && !text.is_empty()
        {
            self.insert(text, seen);
        }
    }

    fn insert(&mut self, text: &str, seen: &Arc<Seen<T>>) {
        let Some(spot) = self.0.get_mut(text) else {
            self.0.insert(text.into(), Spot::One(Arc::clone(seen)));
            return;
        };
        match spot {
            Spot::One(one) if one.key == seen.key => *one = Arc::clone(seen),
            Spot::One(one) => {
                let both = [Arc::clone(one), Arc::clone(seen)];
                *spot = Spot::Many(both.into_iter().map(|seen| (seen.key.clone(), seen)).collect());
            }
            Spot::Many(many) => {
                many.insert(seen.key.clone(), Arc::clone(seen));
            }
        }
    }

    fn remove(&mut self, text: &str, key: &Key) {
        let is_empty = match self.0.get_mut(text) {
            None => return,
            Some(Spot::One(one)) => one.key == *key,
            Some(Spot::Many(many)) => {
                many.remove(key);
                many.is_empty()
            }
        };
        if is_empty {
            self.0.remove(text);
        }
    }

    /// What stands under a text in a namespace, or in all, in the order of the keys.
    pub(crate) fn get<'a>(
        &'a self,
        namespace: Option<&'a str>,
        text: &str,
    ) -> impl Iterator<Item = &'a Arc<Seen<T>>> {
        let (one, many) = match self.0.get(text) {
            None => (None, None),
            Some(Spot::One(one)) => (Some(one), None),
            Some(Spot::Many(many)) => (None, Some(in_namespace(many, namespace))),
        };
        let fits =
            move |seen: &&Arc<Seen<T>>| namespace.is_none_or(|namespace| *seen.key.namespace == *namespace);
        one.into_iter().chain(many.into_iter().flatten()).filter(fits)
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

/// The objects of a namespace, or all.
pub(crate) fn in_namespace<'a, V>(
    map: &'a BTreeMap<Key, V>,
    namespace: Option<&'a str>,
) -> impl Iterator<Item = &'a V> {
    // The empty name comes before every name.
    let first = Key::new(namespace.unwrap_or_default(), "");
    map.range(first..)
        .take_while(move |(key, _)| namespace.is_none_or(|namespace| *key.namespace == *namespace))
        .map(|(_, value)| value)
}
