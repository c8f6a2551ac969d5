use std::num::NonZeroU64;
use std::sync::Arc;

use sandgate_cache::Key;
use sandgate_objects::openkruise::resources::Sandbox;

use super::*;
use crate::claim::idempotency::Reference;

const ABANDONED: Duration = Duration::from_secs(3600);
const KEEP: Duration = Duration::from_secs(24 * 3600);

fn marker(state: State, lock: &str) -> Marker {
    let version = NonZeroU64::MIN.into();
    let seen = Seen { key: Key::new("system", "m"), uid: "m".into(), version, object: Default::default() };
    Marker {
        seen: Arc::new(seen),
        request: "r".to_owned(),
        lock: lock.to_owned(),
        at: Timestamp::UNIX_EPOCH,
        state,
    }
}

fn done(uid: &str) -> State {
    State::Done(Reference { key: Key::new("ns", "x"), uid: uid.into() })
}

#[test]
fn markers_fail_and_go_as_the_table_says() {
    let table = [
        (State::Open, 3600, Fate::Stays),
        (State::Open, 3601, Fate::Fails),
        (State::Open, 100 * 3600, Fate::Fails),
        (State::Failed, 24 * 3600, Fate::Stays),
        (State::Failed, 24 * 3600 + 1, Fate::Goes),
        (done("u"), 24 * 3600, Fate::Stays),
        (done("u"), 24 * 3600 + 1, Fate::Goes),
        (done("u"), -5, Fate::Stays),
    ];
    for (state, second, expected) in table {
        let now = Timestamp::from_second(second).unwrap();
        let marker = marker(state, "l");
        assert_eq!(fate(&marker, now, ABANDONED, KEEP), expected, "{:?} after {second} s", marker.state);
    }
}

#[test]
fn a_sandbox_is_anothers_if_its_marker_has_another_sandbox_or_lock() {
    let seen = |marker: Option<&str>| {
        let mut whole = Sandbox::default();
        let lock = ("agents.kruise.io/lock".to_owned(), "mine".to_owned());
        whole.metadata.annotations = Some([lock].into());
        let of = |uid: &str| ("sandgate.dev/create-uid".to_owned(), uid.to_owned());
        whole.metadata.labels = Some(marker.into_iter().map(of).collect());
        let object = SandboxFacts::from(whole);
        let version = NonZeroU64::MIN.into();
        Seen { key: Key::new("ns", "x"), uid: "u".into(), version, object }
    };
    let table = [
        (marker(done("u"), "mine"), false),
        (marker(done("v"), "mine"), true),
        (marker(State::Open, "mine"), false),
        (marker(State::Open, "theirs"), true),
        (marker(State::Failed, "mine"), true),
    ];
    for (marker, expected) in table {
        let case = format!("{:?} {}", marker.state, marker.lock);
        assert_eq!(is_anothers(&marker, &seen(Some("m"))), expected, "{case}");
        // The key was used before: that marker is gone.
        assert!(!is_anothers(&marker, &seen(Some("before"))), "{case}");
        assert!(!is_anothers(&marker, &seen(None)), "{case}");
    }
}
