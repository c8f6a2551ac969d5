//! What a push may claim, and what the watch makes of it. (Sandgate issue 13, A.)

use std::time::Duration;

use sandgate_routes::{Limits, Outcome, Scope, Secret, State};

use crate::fixture::{Bench, at, everything, key, sandbox, table, table_with, version};

/// A gateway that has just started: its list, at version 100, has `alive` and nothing else.
fn restarted() -> Bench {
    let table = table();
    let mut relist = table.writer.begin_relist(everything(), version(100));
    relist.observe(sandbox("alive").at(40));
    relist.commit();
    table
}

fn pass_with_contact(table: &Bench, seconds: u64, reached: u64) {
    table.pass(seconds);
    table.writer.reached(&everything(), &version(reached));
    table.writer.sweep();
}

#[test]
fn a_late_push_does_not_revive_a_dead_sandbox_after_a_restart() {
    let table = restarted();
    assert_eq!(table.writer.apply(sandbox("dead").at(85)), Outcome::Stale);
    assert_eq!(table.writer.apply(sandbox("dead").at(100)), Outcome::Stale);
    assert_eq!(table.served("team--dead"), None);
    assert_eq!(table.writer.apply(sandbox("new").at(101)), Outcome::Applied, "newer than the list");
}

#[test]
fn events_and_bookmarks_raise_the_floor() {
    let table = restarted();
    table.writer.reached(&everything(), &version(120));
    assert_eq!(table.writer.apply(sandbox("dead").at(120)), Outcome::Stale);
    assert_eq!(table.writer.apply(sandbox("new").at(121)), Outcome::Applied);
}

#[test]
fn the_floor_is_of_the_scope_that_was_listed() {
    let table = table();
    table.writer.begin_relist(Scope::new("kruise", Some("team"), ""), version(100)).commit();
    assert_eq!(table.writer.apply(sandbox("dead").at(85)), Outcome::Stale);
    assert_eq!(table.writer.apply(sandbox("a").in_namespace("other").at(85)), Outcome::Applied);
    assert_eq!(table.writer.apply(sandbox("a").of("opensandbox").called("y").at(85)), Outcome::Applied);
    table.writer.begin_relist(Scope::new("file", None, "shard=1"), version(100)).commit();
    assert_eq!(
        table.writer.apply(sandbox("a").of("file").called("z").at(85)),
        Outcome::Applied,
        "a list with a selector says nothing of what it does not name"
    );
}

#[test]
fn a_push_of_a_version_that_the_object_never_had_is_stale() {
    let table = restarted();
    assert_eq!(table.writer.apply(sandbox("alive").paused().at(90)), Outcome::Stale);
    assert_eq!(table.served("team--alive"), Some(40));
}

#[test]
fn a_push_ahead_of_the_watch_counts_until_the_watch_has_come_so_far() {
    let table = restarted();
    assert_eq!(table.writer.apply(sandbox("alive").paused().at(110)), Outcome::Applied);
    let late = table.writer.apply_in(&everything(), sandbox("alive").at(105));
    assert_eq!(late, Outcome::Stale, "an event of before the push");
    table.writer.reached(&everything(), &version(105));
    assert_eq!(table.served("team--alive"), Some(110));
    table.writer.apply_in(&everything(), sandbox("alive").paused().at(110));
    table.writer.reached(&everything(), &version(110));
    assert_eq!(table.served("team--alive"), Some(110), "confirmed");
    assert_eq!(table.reader.counts().overruled, 0);
}

#[test]
fn a_push_that_the_watch_has_passed_without_a_word_is_undone() {
    let table = restarted();
    table.writer.apply(sandbox("alive").paused().at(110));
    table.writer.apply(sandbox("invented").at(110));
    table.writer.apply_in(&everything(), sandbox("alive").owned_by("bob").at(105));
    table.writer.reached(&everything(), &version(111));
    assert_eq!(table.served("team--alive"), Some(105), "what the watch said last");
    assert_eq!(table.served("team--invented"), None);
    assert_eq!(table.reader.counts().overruled, 2);
}

#[test]
fn a_pushed_huge_version_does_not_win_for_ever() {
    let table = restarted();
    assert_eq!(table.writer.apply(sandbox("alive").with_uid("forged").at(u64::MAX)), Outcome::Applied);
    table.writer.apply_in(&everything(), sandbox("alive").paused().at(120));
    pass_with_contact(&table, 29, 120);
    assert_eq!(table.served("team--alive"), Some(u64::MAX));
    pass_with_contact(&table, 1, 121);
    assert_eq!(table.served("team--alive"), Some(120));
    assert_eq!(table.reader.get("team--alive").unwrap().state(), State::Paused);
    assert_eq!(table.writer.apply_in(&everything(), sandbox("alive").at(130)), Outcome::Applied);
}

#[test]
fn a_pushed_huge_version_of_an_unknown_object_goes_when_the_watch_has_no_word_of_it() {
    let table = restarted();
    table.writer.apply(sandbox("invented").at(u64::MAX));
    pass_with_contact(&table, 30, 101);
    assert_eq!(table.served("team--invented"), None);
    let real = table.writer.apply_in(&everything(), sandbox("invented").at(130));
    assert_eq!(real, Outcome::Applied, "and the lie does not keep the truth away");
}

#[test]
fn a_pushed_death_of_a_huge_version_does_not_win_for_ever_either() {
    let table = restarted();
    assert_eq!(table.writer.delete(&key("alive"), at(u64::MAX)), Outcome::Applied);
    assert_eq!(table.writer.delete(&key("unborn"), at(u64::MAX)), Outcome::Applied);
    table.writer.apply_in(&everything(), sandbox("alive").at(120));
    table.writer.apply_in(&everything(), sandbox("unborn").at(121));
    assert_eq!((table.served("team--alive"), table.served("team--unborn")), (None, None));
    pass_with_contact(&table, 30, 122);
    assert_eq!((table.served("team--alive"), table.served("team--unborn")), (Some(120), Some(121)));
}

#[test]
fn a_pushed_death_at_the_last_version_of_a_life_stands_until_the_watch_tells_it() {
    let table = restarted();
    assert_eq!(table.writer.delete(&key("alive"), at(40)), Outcome::Applied);
    table.writer.reached(&everything(), &version(150));
    assert_eq!(table.served("team--alive"), None, "the watch is behind, and whoever deletes knows");
    table.writer.delete_in(&everything(), &key("alive"), None, at(151));
    pass_with_contact(&table, 60, 160);
    assert_eq!(table.served("team--alive"), None);
}

#[test]
fn the_end_that_the_watch_tells_beats_a_version_that_a_push_has_claimed() {
    let table = restarted();
    table.writer.apply(sandbox("alive").at(u64::MAX));
    let end = table.writer.delete_in(&everything(), &key("alive"), Some("uid-of-alive"), at(120));
    assert_eq!(end, Outcome::Applied);
    assert_eq!(table.served("team--alive"), None);
    table.writer.apply(sandbox("alive").with_uid("next").at(130));
    let old = table.writer.delete_in(&everything(), &key("alive"), Some("uid-of-alive"), at(125));
    assert_eq!(old, Outcome::Stale, "the end of the one before says nothing of its successor");
    assert_eq!(table.served("team--alive"), Some(130));
}

#[test]
fn at_an_equal_version_the_watch_is_right() {
    let table = restarted();
    table.writer.apply(sandbox("alive").owned_by("mallory").at(110));
    let word = table.writer.apply_in(&everything(), sandbox("alive").owned_by("bob").at(110));
    assert_eq!(word, Outcome::Applied);
    assert_eq!(table.reader.get("team--alive").unwrap().owner(), "bob");
    let again = table.writer.apply_in(&everything(), sandbox("alive").owned_by("carol").at(110));
    assert_eq!(again, Outcome::Stale, "once confirmed, an equal version is stale for everybody");
}

#[test]
fn a_complete_list_beats_a_version_that_only_a_push_has_claimed() {
    let table = restarted();
    table.writer.apply(sandbox("alive").paused().at(150));
    table.writer.apply(sandbox("invented").at(u64::MAX));
    let mut relist = table.writer.begin_relist(everything(), version(200));
    relist.observe(sandbox("alive").at(40));
    relist.commit();
    assert_eq!(table.served("team--alive"), Some(40), "at version 200 it was as it had been");
    assert_eq!(
        table.served("team--invented"),
        Some(u64::MAX),
        "a push that is newer than the list survives it"
    );
    pass_with_contact(&table, 30, 201);
    assert_eq!(table.served("team--invented"), None, "until its time is over");
}

#[test]
fn a_silent_watch_overrules_nobody() {
    let table = restarted();
    table.writer.apply(sandbox("alive").paused().at(150));
    table.pass(10_000);
    table.writer.sweep();
    assert_eq!(table.served("team--alive"), Some(150));
    pass_with_contact(&table, 1, 110);
    table.pass(1);
    table.writer.sweep();
    assert_eq!(table.served("team--alive"), Some(40), "it is back, and has no word of it");
}

#[test]
fn a_push_that_no_watch_covers_has_a_lease_that_a_push_renews() {
    let lease = Some(Duration::from_secs(300));
    let table = table_with(Limits { push_lease: lease, ..Limits::default() });
    table.writer.apply(sandbox("a").at(5));
    table.pass(200);
    table.writer.sweep();
    assert_eq!(table.writer.apply(sandbox("a").at(5)), Outcome::Stale, "nothing new, but a renewal");
    table.pass(299);
    table.writer.sweep();
    assert_eq!(table.served("team--a"), Some(5));
    table.pass(1);
    table.writer.sweep();
    assert_eq!(table.served("team--a"), None);
    assert_eq!(table.writer.apply(sandbox("a").at(4)), Outcome::Stale, "older than what had the lease");
}

#[test]
fn a_route_whose_lease_ended_comes_back_with_the_next_equal_push() {
    let lease = Some(Duration::from_secs(300));
    for version in [1, 5] {
        let table = table_with(Limits { push_lease: lease, ..Limits::default() });
        table.writer.apply(sandbox("a").at(version));
        table.pass(300);
        table.writer.sweep();
        assert_eq!(table.served("team--a"), None);
        let again = table.writer.apply(sandbox("a").at(version));
        assert_eq!(again, Outcome::Applied, "whoever was away says that it lives, at {version}");
        assert_eq!(table.served("team--a"), Some(version));
    }
}

#[test]
fn a_pushed_death_outside_every_list_does_not_keep_the_watchs_word_away() {
    let table = table();
    let shard = Scope::new("kruise", None, "shard=1");
    table.writer.begin_relist(shard.clone(), version(20)).commit();
    assert_eq!(table.writer.delete(&key("x"), at(u64::MAX)), Outcome::Applied);
    assert_eq!(table.writer.apply_in(&shard, sandbox("x").at(21)), Outcome::Stale, "a push may be ahead");
    table.pass(30);
    table.writer.reached(&shard, &version(22));
    table.writer.sweep();
    assert_eq!(table.served("team--x"), Some(21));
}

#[test]
fn a_pushed_death_that_nobody_speaks_of_ends_with_its_tombstone() {
    let table = table();
    table.writer.delete(&key("x"), at(9));
    table.pass(599);
    table.writer.sweep();
    assert_eq!(table.writer.apply(sandbox("x").at(9)), Outcome::Stale);
    table.pass(1);
    table.writer.sweep();
    assert_eq!((table.reader.counts().tombstones, table.reader.counts().overruled), (0, 0));
}

#[test]
fn a_list_that_named_an_object_keeps_it_whatever_pushes_did_meanwhile() {
    let table = table();
    let mut relist = table.writer.begin_relist(everything(), version(20));
    relist.observe(sandbox("a").at(10));
    table.writer.delete(&key("a"), at(12));
    table.writer.apply(sandbox("a").at(13));
    relist.commit();
    assert_eq!(table.served("team--a"), Some(10), "at version 20 it was as the list says");

    let table = restarted();
    table.writer.delete(&key("alive"), at(150));
    let mut relist = table.writer.begin_relist(everything(), version(200));
    relist.observe(sandbox("alive").at(40));
    pass_with_contact(&table, 30, 101);
    assert_eq!(table.served("team--alive"), Some(40), "the push is overruled while the list is read");
    relist.commit();
    assert_eq!(table.served("team--alive"), Some(40));
}

#[test]
fn a_scope_answers_for_what_came_back_by_its_word() {
    let table = table();
    let shard = Scope::new("kruise", None, "shard=1");
    table.writer.begin_relist(shard.clone(), version(5)).commit();
    table.writer.apply_in(&shard, sandbox("a").at(10));
    table.writer.delete(&key("a"), at(12));
    table.writer.apply(sandbox("a").at(13));
    table.writer.reached(&shard, &version(14));
    assert_eq!(table.served("team--a"), Some(10), "the watch has no word of what was pushed");
    table.writer.begin_relist(shard, version(20)).commit();
    assert_eq!(table.served("team--a"), None, "the list does not name it");
}

#[test]
fn a_rewind_takes_away_what_is_not_shown_too() {
    let table = restarted();
    for name in ["a", "b"] {
        table.writer.apply_in(&everything(), sandbox(name).called("x").refusing().at(150));
    }
    let mut named = Vec::new();
    let forgotten =
        table.writer.forget_after(&everything(), &version(120), |key| named.push(key.name().to_owned()));
    named.sort();
    assert_eq!((forgotten, named), (2, vec!["a".to_owned(), "b".to_owned()]));
    assert_eq!(table.served("x"), None, "neither is served as the one that remains");
    assert_eq!(table.served("team--alive"), Some(40));
    assert_eq!(table.writer.apply(sandbox("new").at(121)), Outcome::Applied, "the floor is the backup's");
}

fn traffic_token(table: &Bench, id: &str) -> Option<Secret> {
    table.reader.get(id).unwrap().traffic_token().cloned()
}

#[test]
fn a_push_without_a_traffic_token_leaves_the_sandbox_the_one_that_it_has() {
    let table = table();
    let closed = || sandbox("a").with_traffic_token("t");
    table.writer.apply_in(&everything(), closed().at(40));
    let old_pusher = || sandbox("a").paused().with_ip(None);
    assert_eq!(table.writer.apply(old_pusher().at(50)), Outcome::Applied);
    assert_eq!(table.served("team--a"), Some(50));
    assert_eq!(traffic_token(&table, "team--a"), Some(Secret::new("t")));
    // Another one is news.
    table.writer.apply(sandbox("a").with_traffic_token("u").at(51));
    assert_eq!(traffic_token(&table, "team--a"), Some(Secret::new("u")));
    // Not undone by what was never confirmed.
    pass_with_contact(&table, 31, 60);
    assert_eq!(table.served("team--a"), Some(40));
    assert_eq!(traffic_token(&table, "team--a"), Some(Secret::new("t")));
}

#[test]
fn the_watch_takes_a_traffic_token_away_and_gives_one_at_the_version_of_a_push() {
    let table = table();
    table.writer.apply_in(&everything(), sandbox("a").with_traffic_token("t").at(40));
    table.writer.apply_in(&everything(), sandbox("a").at(41));
    assert_eq!(traffic_token(&table, "team--a"), None);
    table.writer.apply(sandbox("a").at(42));
    assert_eq!(traffic_token(&table, "team--a"), None);
    table.writer.apply_in(&everything(), sandbox("a").with_traffic_token("v").at(42));
    assert_eq!(traffic_token(&table, "team--a"), Some(Secret::new("v")));
}

#[test]
fn another_sandbox_does_not_get_the_traffic_token_of_the_one_before() {
    let table = table();
    table.writer.apply(sandbox("a").with_traffic_token("t").at(1));
    table.writer.apply(sandbox("a").with_uid("second").at(2));
    assert_eq!(traffic_token(&table, "team--a"), None);
    table.writer.apply(sandbox("b").with_traffic_token("t").at(3));
    table.writer.apply(sandbox("b").called("other").at(4));
    assert_eq!(traffic_token(&table, "other"), None, "another ID, as of an object that is used again");
}
