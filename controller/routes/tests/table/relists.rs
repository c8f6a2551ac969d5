//! Relists: what a complete list says of what it does not name.

use sandgate_routes::{Invalid, Outcome, Scope};

use crate::fixture::{at, everything, key, sandbox, table, version};

#[test]
fn a_relist_deletes_what_it_did_not_see_at_the_list_s_version() {
    let table = table();
    for name in ["a", "b", "c"] {
        table.writer.apply(sandbox(name).at(3));
    }
    let mut relist = table.writer.begin_relist(everything(), version(10));
    assert_eq!(relist.observe(sandbox("a").at(3)), Outcome::Stale, "known already, and seen all the same");
    assert_eq!(relist.observe(sandbox("b").at(7)), Outcome::Applied);
    let summary = relist.commit();
    assert_eq!((summary.observed, summary.deleted, summary.superseded), (2, 1, false));
    assert_eq!(
        (table.served("team--a"), table.served("team--b"), table.served("team--c")),
        (Some(3), Some(7), None)
    );
    assert_eq!(table.writer.apply(sandbox("c").at(10)), Outcome::Stale, "deleted at the list's version");
    assert_eq!(table.writer.apply(sandbox("c").at(11)), Outcome::Applied);
}

#[test]
fn a_push_newer_than_the_list_survives_it() {
    let table = table();
    let mut relist = table.writer.begin_relist(everything(), version(10));
    relist.observe(sandbox("a").at(3));
    table.writer.apply(sandbox("pushed").at(11));
    table.writer.apply(sandbox("old-push").at(10));
    assert_eq!(relist.commit().deleted, 1);
    assert_eq!((table.served("team--pushed"), table.served("team--old-push")), (Some(11), None));
}

#[test]
fn an_aborted_relist_deletes_nothing() {
    let table = table();
    table.writer.apply(sandbox("a").at(3));
    let mut relist = table.writer.begin_relist(everything(), version(10));
    relist.observe(sandbox("b").at(4));
    drop(relist);
    assert_eq!((table.served("team--a"), table.served("team--b")), (Some(3), Some(4)));
    assert_eq!(table.reader.counts().relists, 0);
    assert_eq!(
        table.writer.begin_relist(everything(), version(10)).commit().deleted,
        2,
        "the next one is whole again"
    );
}

#[test]
fn a_delete_or_an_update_between_begin_and_commit_stands() {
    let table = table();
    table.writer.apply(sandbox("a").at(3));
    table.writer.apply(sandbox("b").at(3));
    let mut relist = table.writer.begin_relist(everything(), version(10));
    relist.observe(sandbox("a").at(3));
    relist.observe(sandbox("b").at(3));
    table.writer.delete(&key("a"), at(12));
    table.writer.apply(sandbox("b").paused().at(12));
    assert_eq!(relist.commit().deleted, 0);
    assert_eq!((table.served("team--a"), table.served("team--b")), (None, Some(12)));
    assert_eq!(table.writer.apply(sandbox("a").at(12)), Outcome::Stale);
}

#[test]
fn an_object_listed_before_its_newer_delete_stays_deleted() {
    let table = table();
    table.writer.delete(&key("a"), at(8));
    let mut relist = table.writer.begin_relist(everything(), version(10));
    assert_eq!(relist.observe(sandbox("a").at(5)), Outcome::Stale);
    relist.commit();
    assert_eq!(table.served("team--a"), None);
}

#[test]
fn an_invalid_object_in_a_list_is_still_there() {
    let table = table();
    table.writer.apply(sandbox("a").at(3));
    let mut relist = table.writer.begin_relist(everything(), version(10));
    assert_eq!(relist.observe(sandbox("a").called("").at(9)), Outcome::Invalid(Invalid::Id));
    assert_eq!(relist.commit().deleted, 0);
    assert_eq!(table.served("team--a"), Some(3));
}

#[test]
fn scopes_of_other_providers_and_namespaces_are_left_alone() {
    let table = table();
    table.writer.apply(sandbox("a").at(1));
    table.writer.apply(sandbox("a").of("file").called("f").at(1));
    table.writer.apply(sandbox("a").in_namespace("other").at(1));
    let relist = table.writer.begin_relist(Scope::new("kruise", Some("team"), ""), version(10));
    assert_eq!(relist.commit().deleted, 1);
    assert_eq!(
        (table.served("team--a"), table.served("f"), table.served("other--a")),
        (None, Some(1), Some(1))
    );
}

#[test]
fn scopes_that_differ_by_selector_never_delete_each_other_s_objects() {
    let table = table();
    let [red, blue] = ["colour=red", "colour=blue"].map(|selector| Scope::new("kruise", None, selector));
    let mut relist = table.writer.begin_relist(red.clone(), version(5));
    relist.observe(sandbox("red-listed").at(2));
    relist.commit();
    table.writer.apply_in(&red, sandbox("red-watched").at(6));
    table.writer.apply_in(&blue, sandbox("blue-watched").at(2));
    table.writer.apply(sandbox("pushed").at(2));

    let empty = table.writer.begin_relist(red, version(10)).commit();
    assert_eq!(empty.deleted, 2);
    assert_eq!((table.served("team--red-listed"), table.served("team--red-watched")), (None, None));
    assert_eq!(table.served("team--blue-watched"), Some(2));
    assert_eq!(table.served("team--pushed"), Some(2), "a selector cannot know whose this is");
}

#[test]
fn a_complete_scope_answers_for_what_nobody_else_has_seen() {
    let table = table();
    table.writer.apply(sandbox("pushed").at(2));
    table.writer.apply_in(&Scope::new("kruise", None, "colour=blue"), sandbox("blue").at(2));
    assert_eq!(table.writer.begin_relist(everything(), version(10)).commit().deleted, 1);
    assert_eq!((table.served("team--pushed"), table.served("team--blue")), (None, Some(2)));
}

#[test]
fn an_object_of_several_scopes_is_deleted_by_the_last_that_misses_it() {
    let table = table();
    let scopes = ["team=a", "tier=1"].map(|selector| Scope::new("kruise", None, selector));
    for scope in &scopes {
        table.writer.apply_in(scope, sandbox("a").at(2));
    }
    let [first, second] = scopes;
    let summary = table.writer.begin_relist(first, version(5)).commit();
    assert_eq!((summary.deleted, summary.released), (0, 1));
    assert_eq!(table.served("team--a"), Some(2));
    assert_eq!(table.writer.begin_relist(second, version(6)).commit().deleted, 1);
    assert_eq!(table.served("team--a"), None);
}

#[test]
fn two_scopes_may_relist_one_object_at_once() {
    let table = table();
    let [one, two] = ["team=a", "tier=1"].map(|selector| Scope::new("kruise", None, selector));
    let mut first = table.writer.begin_relist(one, version(5));
    let mut second = table.writer.begin_relist(two, version(5));
    first.observe(sandbox("a").at(2));
    second.observe(sandbox("a").at(2));
    assert_eq!((second.commit().released, first.commit().released), (0, 0), "both have seen it");
    assert_eq!(table.served("team--a"), Some(2));
}

#[test]
fn a_second_relist_of_a_scope_ends_the_first() {
    let table = table();
    table.writer.apply(sandbox("a").at(1));
    let first = table.writer.begin_relist(everything(), version(5));
    let mut second = table.writer.begin_relist(everything(), version(6));
    second.observe(sandbox("a").at(1));
    let summary = first.commit();
    assert!(summary.superseded);
    assert_eq!((summary.deleted, table.served("team--a")), (0, Some(1)));
    assert_eq!(second.commit().deleted, 0);
}

#[test]
fn a_streamed_list_tells_its_version_at_the_end() {
    let table = table();
    table.writer.apply(sandbox("a").at(5));
    table.writer.apply(sandbox("b").at(9));
    let relist = table.writer.begin_relist(everything(), version(1));
    assert_eq!(relist.commit_at(version(8)).deleted, 1);
    assert_eq!((table.served("team--a"), table.served("team--b")), (None, Some(9)));
}

#[test]
fn a_relist_deletes_an_object_that_lost_its_id_and_not_the_one_that_took_it() {
    let table = table();
    table.writer.apply(sandbox("a").called("x").at(1));
    let mut relist = table.writer.begin_relist(everything(), version(5));
    relist.observe(sandbox("b").called("x").at(2));
    assert_eq!(relist.commit().deleted, 1);
    assert_eq!((table.holder("x").unwrap().as_str(), table.reader.counts().objects), ("b", 1));
}

#[test]
#[cfg_attr(miri, ignore = "thousands of objects: minutes under Miri")]
fn a_relist_of_more_than_one_step_sees_and_deletes_all_of_it() {
    let table = table();
    for number in 0..10_000 {
        table.writer.apply(sandbox(&format!("x{number}")).at(1));
    }
    let mut relist = table.writer.begin_relist(everything(), version(5));
    for number in (0..10_000).filter(|number| number % 3 == 0) {
        relist.observe(sandbox(&format!("x{number}")).at(1));
    }
    assert_eq!(relist.commit().deleted, 6_666);
    let counts = table.reader.counts();
    assert_eq!((counts.routes, counts.objects, counts.tombstones), (3_334, 3_334, 6_666));
    for number in 0..10_000 {
        assert_eq!(table.served(&format!("team--x{number}")).is_some(), number % 3 == 0, "{number}");
    }
}

#[test]
fn a_complete_list_keeps_the_deleted_from_coming_back_with_what_it_outdates() {
    let table = table();
    table.writer.delete(&key("a"), at(3));
    table.writer.delete(&key("newer"), at(20));
    table.writer.begin_relist(Scope::new("kruise", None, "colour=red"), version(9)).commit();
    assert_eq!(table.writer.delete(&key("a"), at(5)), Outcome::Applied, "a selector knows nothing of it");
    table.writer.begin_relist(everything(), version(10)).commit();
    assert_eq!(table.writer.apply(sandbox("a").at(10)), Outcome::Stale);
    assert_eq!(table.writer.apply(sandbox("newer").at(20)), Outcome::Stale);
    assert_eq!(table.writer.apply(sandbox("a").at(11)), Outcome::Applied);
}
