//! Identities and IDs: who is meant by a name, and who answers to an ID.

use sandgate_routes::Outcome;

use crate::fixture::{at, key, sandbox, table};

#[test]
fn a_new_uid_under_the_same_name_is_a_new_identity() {
    let table = table();
    table.writer.apply(sandbox("a").with_uid("first").with_token("old").at(1));
    let first = table.reader.get("team--a").unwrap();
    assert_eq!(table.writer.apply(sandbox("a").with_uid("second").owned_by("bob").at(2)), Outcome::Applied);
    let second = table.reader.get("team--a").unwrap();
    assert_ne!(second.identity(), first.identity());
    assert_eq!((second.uid().as_str(), second.owner().as_str()), ("second", "bob"));
    assert!(second.token().is_none(), "nothing of the first carries over");
    assert!(first.token().is_some(), "and who holds the first still sees it whole");
}

#[test]
fn the_same_uid_keeps_its_identity_through_updates() {
    let table = table();
    table.writer.apply(sandbox("a").at(1));
    let identity = table.reader.get("team--a").unwrap().identity();
    table.writer.apply(sandbox("a").paused().at(2));
    table.writer.apply(sandbox("a").called("other").at(3));
    assert_eq!(table.reader.get("other").unwrap().identity(), identity);
}

#[test]
fn another_uid_with_an_older_version_is_stale_like_any() {
    let table = table();
    table.writer.apply(sandbox("a").with_uid("second").at(5));
    assert_eq!(table.writer.apply(sandbox("a").with_uid("first").at(4)), Outcome::Stale);
    assert_eq!(table.reader.get("team--a").unwrap().uid(), "second");
}

#[test]
fn an_object_that_comes_back_after_a_delete_is_a_new_identity() {
    let table = table();
    table.writer.apply(sandbox("a").at(1));
    let before = table.reader.get("team--a").unwrap().identity();
    table.writer.delete(&key("a"), at(2));
    table.writer.apply(sandbox("a").at(3));
    assert_ne!(table.reader.get("team--a").unwrap().identity(), before);
}

#[test]
fn identity_numbers_are_never_shared_between_objects_or_tables() {
    let tables = [table(), table()];
    let mut seen = std::collections::HashSet::new();
    for table in &tables {
        for name in ["a", "b"] {
            table.writer.apply(sandbox(name).at(1));
            assert!(seen.insert(table.reader.get(&format!("team--{name}")).unwrap().identity()));
        }
    }
}

#[test]
fn a_change_of_id_frees_the_old_id() {
    let table = table();
    table.writer.apply(sandbox("a").called("old").at(1));
    assert_eq!(table.writer.apply(sandbox("a").called("new").at(2)), Outcome::Applied);
    assert_eq!((table.served("old"), table.served("new")), (None, Some(2)));
    assert_eq!(
        table.writer.apply(sandbox("b").called("old").at(1)),
        Outcome::Applied,
        "free is free: no takeover"
    );
    assert_eq!(table.reader.counts().takeovers, 0);
}

#[test]
fn objects_of_two_providers_may_have_one_name() {
    let table = table();
    table.writer.apply(sandbox("a").called("x").at(5));
    assert_eq!(table.writer.apply(sandbox("a").of("opensandbox").called("y").at(1)), Outcome::Applied);
    table.writer.delete(&key("a"), at(6));
    assert_eq!((table.served("x"), table.served("y")), (None, Some(1)));
}
