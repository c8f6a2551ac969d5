//! Version order: what applies, what is stale.

use sandgate_routes::{Fate, Invalid, Outcome, State, Version, verdict};

use crate::fixture::{at, key, sandbox, table, version};

#[test]
fn an_upsert_applies_only_if_strictly_newer() {
    let table = table();
    assert_eq!(table.writer.apply(sandbox("a").at(5)), Outcome::Applied);
    assert_eq!(table.writer.apply(sandbox("a").owned_by("mallory").at(5)), Outcome::Stale);
    assert_eq!(table.writer.apply(sandbox("a").owned_by("mallory").at(4)), Outcome::Stale);
    assert_eq!(table.reader.get("team--a").unwrap().owner(), "alice");
    assert_eq!(table.writer.apply(sandbox("a").owned_by("bob").at(6)), Outcome::Applied);
    assert_eq!(table.reader.get("team--a").unwrap().owner(), "bob");
}

#[test]
fn a_delete_applies_if_equal_or_newer() {
    let table = table();
    table.writer.apply(sandbox("a").at(5));
    assert_eq!(table.writer.delete(&key("a"), at(4)), Outcome::Stale);
    assert_eq!(table.served("team--a"), Some(5));
    assert_eq!(table.writer.delete(&key("a"), at(5)), Outcome::Applied);
    assert_eq!(table.served("team--a"), None);

    table.writer.apply(sandbox("b").at(5));
    assert_eq!(table.writer.delete(&key("b"), at(9)), Outcome::Applied);
    assert_eq!(
        table.writer.apply(sandbox("b").at(9)),
        Outcome::Stale,
        "the tombstone has the delete's version"
    );
    assert_eq!(table.writer.apply(sandbox("b").at(10)), Outcome::Applied);
}

#[test]
fn a_delete_leaves_a_tombstone_also_for_an_object_never_seen() {
    let table = table();
    assert_eq!(table.writer.delete(&key("a"), at(7)), Outcome::Applied);
    assert_eq!(table.reader.counts().tombstones, 1);
    assert_eq!(table.writer.apply(sandbox("a").at(7)), Outcome::Stale);
    assert_eq!(table.served("team--a"), None);
    assert_eq!(table.writer.apply(sandbox("a").at(8)), Outcome::Applied);
    assert_eq!(table.reader.counts().tombstones, 0, "a newer object has no tombstone");
}

#[test]
fn a_delete_without_a_version_takes_the_record_s() {
    let table = table();
    table.writer.apply(sandbox("a").at(5));
    assert_eq!(table.writer.delete(&key("a"), None), Outcome::Applied);
    assert_eq!(table.served("team--a"), None);
    assert_eq!(table.writer.apply(sandbox("a").at(5)), Outcome::Stale);
    assert_eq!(table.writer.apply(sandbox("a").at(6)), Outcome::Applied);
}

#[test]
fn a_delete_without_a_version_of_nothing_known_is_nothing() {
    let table = table();
    assert_eq!(table.writer.delete(&key("a"), None), Outcome::Stale);
    assert_eq!(table.reader.counts().tombstones, 0);
    table.writer.delete(&key("a"), at(3));
    assert_eq!(table.writer.delete(&key("a"), None), Outcome::Stale, "it is deleted already");
    assert_eq!(table.writer.apply(sandbox("a").at(1)), Outcome::Stale);
}

#[test]
fn an_observation_that_is_not_kept_is_a_delete_at_its_version() {
    for state in State::ALL {
        let table = table();
        table.writer.apply(sandbox("a").at(1));
        assert_eq!(table.writer.apply(sandbox("a").being(state).at(2)), Outcome::Applied);
        let kept = verdict(state, Default::default()).fate == Fate::Keep;
        assert_eq!(table.served("team--a").is_some(), kept, "{state}");
        assert_eq!(table.reader.counts().tombstones, u64::from(!kept), "{state}");
    }
}

#[test]
fn a_dead_observation_is_a_delete_even_if_it_could_not_be_a_route() {
    let table = table();
    table.writer.apply(sandbox("a").at(1));
    assert_eq!(
        table.writer.apply(sandbox("a").called("not an id").with_uid("").dead().at(1)),
        Outcome::Applied
    );
    assert_eq!(table.served("team--a"), None);
}

#[test]
fn texts_that_are_no_versions_are_invalid() {
    for text in ["0", "01", "", "rv", "-1", "1e3", "18446744073709551616", &"9".repeat(1_024)] {
        assert!(text.parse::<Version>().is_err(), "{text:?}");
    }
}

#[test]
fn an_invalid_observation_changes_nothing_however_new() {
    let table = table();
    table.writer.apply(sandbox("a").at(1));
    let before = table.reader.get("team--a").unwrap();
    assert_eq!(table.writer.apply(sandbox("a").called("no/id").at(9)), Outcome::Invalid(Invalid::Id));
    assert_eq!(table.served("team--a"), Some(1));
    assert_eq!(table.reader.get("team--a").unwrap().identity(), before.identity());
    assert_eq!(table.writer.apply(sandbox("a").at(2)), Outcome::Applied, "its version was not taken");
}

#[test]
fn every_outcome_is_counted() {
    let table = table();
    table.writer.apply(sandbox("a").at(2));
    table.writer.apply(sandbox("a").at(1));
    table.writer.apply(sandbox("b").called("").at(1));
    table.writer.apply(sandbox("b").called("team--a").paused().at(1));
    table.writer.apply(sandbox("c").dead().at(4));
    let counts = table.reader.counts();
    assert_eq!((counts.applied, counts.stale, counts.invalid, counts.takeovers), (3, 1, 1, 0));
    assert_eq!(counts.displaced, 1, "b claims the name of a");
    assert_eq!((counts.routes, counts.objects, counts.tombstones), (1, 2, 1));
    assert_eq!((counts.in_state(State::Running), counts.in_state(State::Paused)), (1, 1));
}

#[test]
fn readers_are_told_when_the_first_lists_are_in() {
    let table = table();
    let other = table.writer.reader();
    table.writer.apply(sandbox("a").at(1));
    assert!(!table.reader.is_ready());
    table.writer.set_ready();
    assert!(table.reader.is_ready() && other.is_ready());
    assert_eq!(other.pin().get("team--a").unwrap().version(), version(1));
}
