//! Maps by namespace and name that any number of threads read without a lock, and without making a key first.

use std::hash::Hash;

use foldhash::quality::RandomState;
use papaya::{Equivalent, ResizeMode};
use sandgate_cache::Key;

/// A map by key. Users choose the names, so the hash is keyed.
pub(crate) type ByKey<T> = papaya::HashMap<Key, T, RandomState>;

/// An empty map. It grows at once, as the route table does, so that a search never sees two tables.
pub(crate) fn by_key<T>() -> ByKey<T> {
    papaya::HashMap::builder().hasher(RandomState::default()).resize_mode(ResizeMode::Blocking).build()
}

/// A key that is only looked up. Its hash is that of [`Key`]: both hash two texts in this order.
#[derive(Hash)]
pub(crate) struct Named<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
}

impl Equivalent<Key> for Named<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        *self.namespace == *key.namespace && *self.name == *key.name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_by_key_is_found_by_name() {
        let map = by_key();
        for number in 0..100 {
            map.pin().insert(Key::new("ns", &format!("n{number}")), number);
        }
        for number in 0..100 {
            let name = format!("n{number}");
            assert_eq!(map.pin().get(&Named { namespace: "ns", name: &name }), Some(&number));
            assert_eq!(map.pin().get(&Named { namespace: &name, name: "ns" }), None);
        }
    }
}
