use std::net::IpAddr;

use sandgate_routes::{
    Changes, Clash, Limits as TableLimits, ObjectKey, Observation, RouteTable, RouteWriter, State,
};

use super::*;
use crate::cluster::main_thread::change_filter;
use crate::cluster::usage::Limits;

fn observed(name: &str, id: &str, uid: &str, version: u64) -> Observation {
    Observation {
        key: ObjectKey::new("sandbox-env", "team", name).expect("a key"),
        id: id.to_owned(),
        uid: uid.to_owned(),
        owner: String::new(),
        state: State::Running,
        version: version.to_string().parse().expect("a version"),
        ip: Some(IpAddr::from([10, 0, 0, 1])),
        ip_is_claimed: false,
        own_id: false,
        created: None,
        token: None,
        traffic_token: None,
        require_traffic_auth: false,
        clash: Clash::default(),
    }
}

/// A table, and a process that hears its changes.
struct World {
    writer: RouteWriter,
    process: Arc<Process>,
    _changes: Changes,
}

impl World {
    fn new() -> Self {
        let (writer, reader) = RouteTable::new(TableLimits::default());
        let process = Arc::<Process>::default();
        let changes = writer.subscribe_where(10, change_filter(&process, &reader));
        Self { writer, process, _changes: changes }
    }

    /// The object's identity, after a request of it began and ended.
    fn used(&self, id: &str) -> u64 {
        let identity = self.writer.reader().get(id).expect("a route").identity();
        let usage = self.process.usages.of(identity, id);
        let entered = usage.enter(true, &Limits::new(10, 10, 100), || None).expect("room");
        usage.leave(entered);
        identity
    }

    fn knows(&self, identity: u64) -> bool {
        self.process.usages.is_known(identity)
    }
}

#[test]
fn a_sandbox_is_forgotten_when_its_object_is_deleted_or_made_anew() {
    let world = World::new();
    world.writer.apply(observed("demo", "demo", "u-1", 1));
    let first = world.used("demo");
    world.writer.apply(Observation { state: State::Paused, ..observed("demo", "demo", "u-1", 2) });
    assert!(world.knows(first), "one that is paused lives");
    world.writer.apply(observed("demo", "demo", "u-2", 3));
    let second = world.used("demo");
    assert!(!world.knows(first) && world.knows(second));
    world.writer.apply(Observation { state: State::Dead, ..observed("demo", "demo", "u-2", 4) });
    assert!(!world.knows(second));
}

#[test]
fn a_sandbox_that_gets_another_id_is_remembered_under_it() {
    let world = World::new();
    world.writer.apply(observed("demo", "one", "u-1", 1));
    let identity = world.used("one");
    world.writer.apply(observed("demo", "two", "u-1", 2));
    assert_eq!(Activity::id_of(&*world.process, identity).as_deref(), Some("two"));
}

#[test]
fn a_sandbox_whose_id_is_disputed_lives() {
    let world = World::new();
    let disputed = |name: &str, version| Observation {
        clash: Clash::Refuse,
        ..observed(name, "shared", &format!("u-{name}"), version)
    };
    world.writer.apply(disputed("demo", 1));
    let identity = world.used("shared");
    world.writer.apply(disputed("rival", 2));
    assert!(world.writer.reader().get("shared").is_some_and(|route| route.is_ambiguous()));
    assert!(world.knows(identity));
}

#[test]
fn times_are_of_the_wall_clock_and_counted_by_the_processs_own() {
    let process = Process::default();
    let (usages, limits) = (&process.usages, Limits::new(10, 10, 100));
    let (idle, busy) = (usages.of(1, "idle"), usages.of(2, "busy"));
    usages.clock().set(Second(10));
    let entered = idle.enter(true, &limits, || None).expect("room");
    idle.leave(entered);
    let _open = busy.enter(true, &limits, || None).expect("room");
    usages.clock().set(Second(110));
    let observed = process.observe().expect("everything is counted");
    let now = observed.now;
    assert!(observed.start > 0 && observed.start <= now, "{observed:?}");
    assert_eq!(observed.complete, now - 109);
    let mut sandboxes = observed.sandboxes;
    sandboxes.sort_unstable_by_key(|active| active.identity);
    let expected = [
        // By the end of the second.
        Active { identity: 1, last: now - 99, open: 0 },
        Active { identity: 2, last: now, open: 1 },
    ];
    assert_eq!(sandboxes, expected);
}

#[test]
fn the_clock_counts_seconds_and_none_of_them_is_never() {
    let clock = Clock::default();
    assert!(clock.now() > Second::NEVER);
    assert_eq!([0, 999, 1000, 2500].map(|ms| Second::after(Duration::from_millis(ms)).0), [1, 1, 2, 3]);
    clock.set(Second(u32::MAX));
    clock.tick();
    assert!(clock.now() < Second(u32::MAX), "it follows the time since it was made");
}

#[test]
fn a_process_that_does_not_count_every_request_says_nothing() {
    let process = Process::default();
    assert!(process.observe().is_ok());
    process.unseen.note();
    assert_eq!(process.observe(), Err(Uncounted));
}
