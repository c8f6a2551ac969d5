//! From a follower into the view.

use std::marker::PhantomData;
use std::sync::Arc;

use sandgate_cache::{Seen, Source};
use sandgate_follow::{Committed, Head, Rejected, Sink};
use sandgate_routes::Version;

use super::decode::Kept;
use super::{Inner, View};
use crate::Key;

/// The sink of one kind. Made by [`View::feed`].
pub struct Feed<T> {
    pub(super) view: View,
    pub(super) kind: PhantomData<fn() -> T>,
}

impl<T: Kept> Feed<T> {
    fn change<R>(&self, change: impl FnOnce(&mut Inner) -> R) -> R {
        self.view.change(change)
    }
}

impl<T: Kept> Sink for Feed<T> {
    type Object = Seen<T>;

    fn decode(&self, object: &[u8]) -> Result<(Version, Seen<T>), Rejected> {
        let seen = T::read(object)?;
        Ok((seen.version.clone(), seen))
    }

    fn begin(&mut self) {
        self.change(|inner| T::store(inner).begin());
    }

    fn apply(&mut self, object: Seen<T>) -> Result<(), Rejected> {
        self.change(|inner| inner.offer(Arc::new(object), Source::Watch));
        Ok(())
    }

    fn deleted(&mut self, head: &Head) -> Result<(), Rejected> {
        let key = Key::new(&head.namespace, &head.name);
        self.change(|inner| inner.ended::<T>(&key, head.uid.as_deref(), head.version.as_ref()));
        Ok(())
    }

    fn reached(&mut self, version: &Version) {
        self.change(|inner| T::store(inner).reached(version));
    }

    fn commit(&mut self, version: &Version) -> Committed {
        let deleted = self.change(|inner| {
            let changes = T::store(inner).commit(version);
            inner.apply(changes)
        });
        Committed { deleted, held_back: 0 }
    }

    fn abandon(&mut self) {
        self.change(|inner| T::store(inner).abandon());
    }

    fn rewind(&mut self, version: &Version) -> u64 {
        self.change(|inner| {
            let changes = T::store(inner).rewind(version);
            inner.apply(changes)
        })
    }
}
