//! A door for tests: keys, a clock that is set, and a verifier that says what it is told to.

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::time::Duration;

use sandgate_auth::{Failures, Keys, KnownTags, Reviewed};
use sandgate_routes::Route;

use crate::{Door, TrafficJwt};

pub(super) const NOW: u64 = 1_700_000_000;

pub(super) struct TestDoor {
    pub(super) keys: Keys,
    pub(super) now: Cell<u64>,
    pub(super) source: Cell<Option<IpAddr>>,
    /// The good traffic JWT and what it says; without one there is no verifier.
    pub(super) jwt: Option<(&'static str, TrafficJwt)>,
    /// What was reviewed, and what came of it.
    pub(super) reviewed: Vec<(&'static str, Reviewed)>,
    pub(super) failures: Failures,
    pub(super) tags: RefCell<KnownTags>,
}

impl Default for TestDoor {
    fn default() -> Self {
        Self {
            keys: Keys::default(),
            now: Cell::new(NOW),
            source: Cell::new(Some([192, 0, 2, 1].into())),
            jwt: None,
            reviewed: Vec::new(),
            failures: Failures::default(),
            tags: RefCell::default(),
        }
    }
}

impl Door for TestDoor {
    fn keys<R>(&self, f: impl FnOnce(&Keys) -> R) -> R {
        f(&self.keys)
    }

    fn unix(&self) -> u64 {
        self.now.get()
    }

    fn uptime(&self) -> Duration {
        Duration::from_secs(self.now.get())
    }

    fn source(&self) -> Option<IpAddr> {
        self.source.get()
    }

    fn traffic_jwt(&self, token: &[u8], _: &Route) -> TrafficJwt {
        match self.jwt {
            None => TrafficJwt::NotReady,
            Some((known, found)) if known.as_bytes() == token => found,
            Some(_) => TrafficJwt::Bad,
        }
    }

    fn reviewed<R>(&self, token: &[u8], f: impl FnOnce(Option<&Reviewed>) -> R) -> R {
        let found = self.reviewed.iter().find(|(known, _)| known.as_bytes() == token);
        f(found.map(|(_, reviewed)| reviewed))
    }

    fn failures(&self) -> &Failures {
        &self.failures
    }

    fn known_tags<R>(&self, f: impl FnOnce(&mut KnownTags) -> R) -> R {
        f(&mut self.tags.borrow_mut())
    }
}
