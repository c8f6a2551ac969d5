//! From a follower into the cache.

use std::marker::PhantomData;

use sandgate_follow::{Committed, Head, Rejected, Sink};
use sandgate_routes::Version;

use super::{Cache, Kept};
use crate::{Key, Seen};

/// The sink of one kind. Made by [`Cache::feed`].
pub struct Feed<T> {
    pub(super) cache: Cache,
    pub(super) kind: PhantomData<fn() -> T>,
}

impl<T: Kept> Sink for Feed<T> {
    type Object = Seen<T>;

    fn decode(&self, object: &[u8]) -> Result<(Version, Seen<T>), Rejected> {
        let seen = T::read(object)?;
        Ok((seen.version.clone(), seen))
    }

    fn begin(&mut self) {
        self.cache.shared.change(|inner| T::store(inner).begin());
    }

    fn apply(&mut self, object: Seen<T>) -> Result<(), Rejected> {
        self.cache.shared.watched(object);
        Ok(())
    }

    fn deleted(&mut self, head: &Head) -> Result<(), Rejected> {
        let key = Key::new(&head.namespace, &head.name);
        self.cache.shared.change(|inner| inner.ended::<T>(&key, head.uid.as_deref(), head.version.as_ref()));
        Ok(())
    }

    fn reached(&mut self, version: &Version) {
        self.cache.shared.change(|inner| T::store(inner).reached(version));
    }

    fn commit(&mut self, version: &Version) -> Committed {
        let deleted = self.cache.shared.change(|inner| {
            let changes = T::store(inner).commit(version);
            inner.apply(changes)
        });
        Committed { deleted, held_back: 0 }
    }

    fn abandon(&mut self) {
        self.cache.shared.change(|inner| T::store(inner).abandon());
    }

    fn rewind(&mut self, version: &Version) -> u64 {
        self.cache.shared.change(|inner| {
            let changes = T::store(inner).rewind(version);
            inner.apply(changes)
        })
    }
}
