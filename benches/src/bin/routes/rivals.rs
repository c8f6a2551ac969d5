//! What could be in the table's place, behind one trait: only the map from an ID to a route, without
//! versions, tombstones or scopes. So the comparison flatters them in memory and writes; for lookups it is
//! even. All use the same hash.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, RwLock};

use arc_swap::ArcSwap;
use dashmap::DashMap;
use foldhash::quality::RandomState;
use sandgate_routes::{Limits, RouteReader, RouteTable, RouteWriter, State};

use crate::fixture;

/// A table under test.
pub(crate) trait Table: Sync {
    const NAME: &'static str;

    /// Whether a write costs the whole table.
    const COPIES: bool = false;

    fn empty() -> Self;

    /// Adds or replaces a sandbox at a version.
    fn put(&self, number: usize, version: u64);

    /// Removes a sandbox at a version.
    fn remove(&self, number: usize, version: u64);

    /// Looks an ID up as a request does, and says whether it is to be served. Touches the route: a pointer
    /// alone serves nobody.
    fn serves(&self, id: &str) -> bool;

    /// Loads the first `size` sandboxes.
    fn filled(size: usize) -> Self
    where
        Self: Sized,
    {
        let table = Self::empty();
        for number in 0..size {
            table.put(number, 1);
        }
        table
    }
}

/// The table of this project.
pub(crate) struct Sandgate {
    pub(crate) writer: RouteWriter,
    pub(crate) reader: RouteReader,
}

impl Table for Sandgate {
    const NAME: &'static str = "sandgate";

    fn empty() -> Self {
        let (writer, reader) = RouteTable::new(Limits::default());
        Self { writer, reader }
    }

    fn put(&self, number: usize, version: u64) {
        assert!(self.writer.apply(fixture::observation(number, version)).is_applied());
    }

    fn remove(&self, number: usize, version: u64) {
        self.writer.delete(&fixture::key(number), Some(fixture::version(version)));
    }

    fn serves(&self, id: &str) -> bool {
        self.reader.pin().get(id).is_some_and(|route| route.state() == State::Running)
    }
}

/// What the others hold for a sandbox.
pub(crate) struct Plain {
    state: State,
    _ip: IpAddr,
    _version: u64,
}

impl Plain {
    fn new(number: usize, version: u64) -> Arc<Self> {
        Arc::new(Self { state: State::Running, _ip: fixture::ip(number), _version: version })
    }
}

/// One lock around a map.
pub(crate) struct Locked(RwLock<HashMap<String, Arc<Plain>, RandomState>>);

impl Table for Locked {
    const NAME: &'static str = "rwlock";

    fn empty() -> Self {
        Self(RwLock::default())
    }

    fn put(&self, number: usize, version: u64) {
        let (id, plain) = (fixture::id(number), Plain::new(number, version));
        self.0.write().expect("no writer panics").insert(id, plain);
    }

    fn remove(&self, number: usize, _: u64) {
        self.0.write().expect("no writer panics").remove(&fixture::id(number));
    }

    fn serves(&self, id: &str) -> bool {
        self.0.read().expect("no writer panics").get(id).is_some_and(|plain| plain.state == State::Running)
    }
}

/// Locks around parts of a map.
pub(crate) struct Sharded(DashMap<String, Arc<Plain>, RandomState>);

impl Table for Sharded {
    const NAME: &'static str = "dashmap";

    fn empty() -> Self {
        Self(DashMap::default())
    }

    fn put(&self, number: usize, version: u64) {
        self.0.insert(fixture::id(number), Plain::new(number, version));
    }

    fn remove(&self, number: usize, _: u64) {
        self.0.remove(&fixture::id(number));
    }

    fn serves(&self, id: &str) -> bool {
        self.0.get(id).is_some_and(|plain| plain.state == State::Running)
    }
}

/// A map that is never changed, and replaced whole.
pub(crate) struct Swapped {
    map: ArcSwap<HashMap<Arc<str>, Arc<Plain>, RandomState>>,
    writer: Mutex<()>,
}

impl Swapped {
    fn change(&self, change: impl FnOnce(&mut HashMap<Arc<str>, Arc<Plain>, RandomState>)) {
        let _one = self.writer.lock().expect("no writer panics");
        let mut map = HashMap::clone(&self.map.load());
        change(&mut map);
        self.map.store(Arc::new(map));
    }
}

impl Table for Swapped {
    const NAME: &'static str = "arc-swap";
    const COPIES: bool = true;

    fn empty() -> Self {
        Self { map: ArcSwap::default(), writer: Mutex::default() }
    }

    fn put(&self, number: usize, version: u64) {
        self.change(|map| {
            map.insert(fixture::id(number).into(), Plain::new(number, version));
        });
    }

    fn remove(&self, number: usize, _: u64) {
        self.change(|map| {
            map.remove(&*fixture::id(number));
        });
    }

    fn serves(&self, id: &str) -> bool {
        self.map.load().get(id).is_some_and(|plain| plain.state == State::Running)
    }

    fn filled(size: usize) -> Self {
        let map = (0..size).map(|number| (fixture::id(number).into(), Plain::new(number, 1))).collect();
        Self { map: ArcSwap::from_pointee(map), writer: Mutex::default() }
    }
}
