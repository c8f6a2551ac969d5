//! What each sandbox has in use, by which the route table's writer learns whether anybody minds what becomes
//! of it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use foldhash::fast::FixedState;
use parking_lot::Mutex;

use super::client::{Client, Limits, Shares};

/// What one sandbox identity has in use, over all its ports and clusters.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    /// What the table calls the sandbox now, or called it last.
    id: Mutex<Arc<str>>,
    requests: AtomicU32,
    connections: AtomicU32,
    /// What its clients have, once that matters.
    shares: OnceLock<Box<Shares>>,
}

/// Which limit a request would have passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exceeded {
    Requests,
    Connections,
    ClientRequests,
    ClientConnections,
}

/// How a request was counted. It has to be given back with [`Usage::leave`], once.
#[derive(Debug)]
pub(crate) struct Entered {
    /// Whether it has a connection to itself.
    pub(super) alone: bool,
    /// For whom it was counted, if it was.
    pub(super) client: Option<Client>,
}

impl Usage {
    fn new(id: &str) -> Self {
        Self { id: Mutex::new(id.into()), ..Self::default() }
    }

    /// Counts a request, and the connection it needs for itself if `alone`. Whose it is, is asked only where
    /// the sandbox has so much in use that it matters.
    pub(crate) fn enter(
        &self,
        alone: bool,
        limits: &Limits,
        client: impl FnOnce() -> Option<Client>,
    ) -> Result<Entered, Exceeded> {
        let requests = self.requests.fetch_add(1, Ordering::Relaxed);
        if requests >= limits.requests.most {
            self.requests.fetch_sub(1, Ordering::Relaxed);
            return Err(Exceeded::Requests);
        }
        let connections = if alone { self.connections.fetch_add(1, Ordering::Relaxed) } else { 0 };
        let mut entered = Entered { alone, client: None };
        if alone && connections >= limits.connections.most {
            self.leave(entered);
            return Err(Exceeded::Connections);
        }
        let watched = requests >= limits.requests.watched_from
            || (alone && connections >= limits.connections.watched_from);
        if watched && let Some(client) = client() {
            if let Err(exceeded) = self.shares().enter(client, alone, limits) {
                self.leave(entered);
                return Err(exceeded);
            }
            entered.client = Some(client);
        }
        Ok(entered)
    }

    pub(crate) fn leave(&self, Entered { alone, client }: Entered) {
        self.requests.fetch_sub(1, Ordering::Relaxed);
        if alone {
            self.connections.fetch_sub(1, Ordering::Relaxed);
        }
        if let Some(client) = client {
            self.shares().leave(client, alone);
        }
    }

    pub(super) fn shares(&self) -> &Shares {
        self.shares.get_or_init(Box::default)
    }
}

/// The usage of every identity that somebody minds.
///
/// An identity is minded while it has a host in some cluster, a request that waits for one, or a request in
/// flight: while its usage is held.
#[derive(Debug, Default)]
pub(crate) struct Usages {
    /// Its keys are numbers of our own making.
    usages: Mutex<HashMap<u64, Weak<Usage>, FixedState>>,
    /// The highest identity that has ever been minded. Identities are numbered upwards: a new one is above
    /// it.
    highest: AtomicU64,
}

impl Usages {
    fn get(&self, identity: u64) -> Option<Arc<Usage>> {
        self.usages.lock().get(&identity).and_then(Weak::upgrade)
    }

    /// The usage of an identity, which is minded for as long as it is held. `id` is what the table calls it.
    ///
    /// Who has just taken it and then finds the identity served in the table is told of whatever happens to
    /// it later: the one who changes the table asks [`Self::is_followed`] after the change.
    pub(crate) fn of(&self, identity: u64, id: &str) -> Arc<Usage> {
        self.highest.fetch_max(identity, Ordering::AcqRel);
        let mut usages = self.usages.lock();
        if let Some(usage) = usages.get(&identity).and_then(Weak::upgrade) {
            return usage;
        }
        // The forgotten are let go before the map would grow for them.
        if usages.len() == usages.capacity() {
            usages.retain(|_, usage| usage.strong_count() > 0);
        }
        let usage = Arc::new(Usage::new(id));
        usages.insert(identity, Arc::downgrade(&usage));
        usage
    }

    /// Whether anybody minds what becomes of an identity.
    pub(crate) fn is_followed(&self, identity: u64) -> bool {
        self.get(identity).is_some()
    }

    /// The table calls an identity so from now on. Does nothing if nobody minds it.
    pub(crate) fn set_id(&self, identity: u64, id: &str) {
        // Nearly every identity that appears is new, and costs no look.
        if identity <= self.highest.load(Ordering::Acquire)
            && let Some(usage) = self.get(identity)
        {
            *usage.id.lock() = id.into();
        }
    }

    /// What the table calls an identity that is minded, or called it last.
    pub(crate) fn id_of(&self, identity: u64) -> Option<Arc<str>> {
        self.get(identity).map(|usage| Arc::clone(&usage.id.lock()))
    }

    /// Everybody who is minded.
    pub(crate) fn followed(&self) -> Vec<u64> {
        let usages = self.usages.lock();
        let followed = usages.iter().filter(|(_, usage)| usage.strong_count() > 0);
        followed.map(|(identity, _)| *identity).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sandbox_may_have_as_many_as_it_may_and_no_more() {
        let (usage, limits) = (Usage::default(), Limits::new(5, 3, 100));
        let enter = |alone| usage.enter(alone, &limits, || None);
        for _ in 0..3 {
            assert!(enter(true).is_ok());
        }
        assert_eq!(enter(true).err(), Some(Exceeded::Connections));
        assert!(enter(false).is_ok(), "a request that shares its connection needs none");
        let last = enter(false).expect("room for one more request");
        assert_eq!(enter(false).err(), Some(Exceeded::Requests));
        usage.leave(last);
        assert!(enter(false).is_ok());
    }

    #[test]
    fn one_identity_has_one_usage_for_as_long_as_somebody_holds_it() {
        let usages = Usages::default();
        let (one, other) = (usages.of(1, "one"), usages.of(2, "two"));
        assert!(Arc::ptr_eq(&one, &usages.of(1, "one")) && !Arc::ptr_eq(&one, &other));
        let before = Arc::downgrade(&one);
        drop(one);
        assert!(!Weak::ptr_eq(&before, &Arc::downgrade(&usages.of(1, "one"))));
        for identity in 3..10_000 {
            usages.of(identity, "id");
        }
        assert!(usages.usages.lock().len() < 100, "{} usages that nobody has", usages.usages.lock().len());
    }

    #[test]
    fn an_identity_that_is_minded_is_known_by_the_id_it_has_now() {
        let usages = Usages::default();
        let held = usages.of(7, "before");
        usages.set_id(7, "after");
        usages.set_id(8, "nobody");
        assert_eq!(usages.id_of(7).as_deref(), Some("after"));
        assert_eq!((usages.followed(), usages.is_followed(8)), (vec![7], false));
        drop(held);
        usages.set_id(7, "again");
        assert_eq!((usages.id_of(7), usages.followed()), (None, vec![]));
    }
}
