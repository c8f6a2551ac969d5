//! How long a delete is remembered.

use std::time::Duration;

use sandgate_routes::{Limits, Outcome};

use crate::fixture::{at, key, sandbox, table, table_with};

#[test]
fn a_tombstone_lives_its_time_and_is_then_swept() {
    let table = table();
    table.writer.delete(&key("a"), at(5));
    table.pass(599);
    assert_eq!(table.writer.sweep(), 0);
    assert_eq!(table.writer.apply(sandbox("a").at(5)), Outcome::Stale);
    table.pass(1);
    assert_eq!(table.writer.sweep(), 1);
    let counts = table.reader.counts();
    assert_eq!((counts.tombstones, counts.tombstones_expired), (0, 1));
    assert_eq!(table.writer.apply(sandbox("a").at(5)), Outcome::Applied, "what is forgotten is forgotten");
}

#[test]
fn a_newer_death_renews_a_tombstone() {
    let table = table();
    table.writer.delete(&key("a"), at(5));
    table.pass(400);
    assert_eq!(table.writer.delete(&key("a"), at(9)), Outcome::Applied);
    assert_eq!(table.writer.apply(sandbox("a").at(8)), Outcome::Stale, "the version is the later one");
    assert_eq!(table.writer.delete(&key("a"), at(6)), Outcome::Stale);
    table.pass(599);
    assert_eq!(table.writer.sweep(), 0, "it lives from the newest delete");
    assert_eq!(table.writer.apply(sandbox("a").at(9)), Outcome::Stale);
    table.pass(1);
    assert_eq!(table.writer.sweep(), 1);
}

#[test]
fn an_object_that_lived_again_gets_a_new_deadline() {
    let table = table();
    table.writer.delete(&key("a"), at(5));
    table.pass(400);
    table.writer.apply(sandbox("a").at(6));
    table.writer.delete(&key("a"), at(7));
    table.pass(599);
    assert_eq!(table.writer.sweep(), 0);
    table.pass(1);
    assert_eq!(table.writer.sweep(), 1);
}

#[test]
#[cfg_attr(miri, ignore = "thousands of objects: minutes under Miri")]
fn one_sweep_does_a_bounded_amount_and_the_next_goes_on() {
    let table = table();
    for number in 0..25_000 {
        table.writer.delete(&key(&format!("x{number}")), at(1));
    }
    table.pass(600);
    assert_eq!(table.writer.sweep(), 10_000);
    assert_eq!(table.reader.counts().tombstones, 15_000);
    assert_eq!((table.writer.sweep(), table.writer.sweep(), table.writer.sweep()), (10_000, 5_000, 0));
}

#[test]
fn at_the_cap_the_newest_deletes_are_kept_and_the_lost_are_counted() {
    let table = table_with(Limits { max_tombstones: 3, ..Limits::default() });
    for (name, version) in [("a", 40), ("b", 10), ("c", 30), ("d", 20), ("e", 5)] {
        table.writer.delete(&key(name), at(version));
    }
    let counts = table.reader.counts();
    assert_eq!((counts.tombstones, counts.tombstones_dropped), (3, 2));
    // Whatever their versions: those of different sources cannot be compared, and a source with low ones
    // would be forgotten at once.
    for (name, version, kept) in
        [("a", 40, false), ("b", 10, false), ("c", 30, true), ("d", 20, true), ("e", 5, true)]
    {
        let outcome = table.writer.apply(sandbox(name).at(version));
        assert_eq!(outcome, if kept { Outcome::Stale } else { Outcome::Applied }, "{name}");
    }
}

#[test]
fn a_table_may_be_told_to_remember_nothing() {
    let table =
        table_with(Limits { max_tombstones: 0, tombstone_lifetime: Duration::MAX, ..Limits::default() });
    table.writer.apply(sandbox("a").at(1));
    assert_eq!(table.writer.delete(&key("a"), at(1)), Outcome::Applied);
    assert_eq!(table.reader.counts().tombstones_dropped, 1);
    assert_eq!(table.writer.apply(sandbox("a").at(1)), Outcome::Applied);
}
