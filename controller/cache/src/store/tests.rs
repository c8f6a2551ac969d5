use std::num::NonZeroU64;

use super::*;

fn version(number: u64) -> Version {
    NonZeroU64::new(number).unwrap().into()
}

fn named(name: &str, uid: &str, at: u64) -> Arc<Seen<u64>> {
    Arc::new(Seen { key: Key::new("a", name), uid: uid.into(), version: version(at), object: at })
}

fn key() -> Key {
    Key::new("a", "x")
}

fn seen(uid: &str, at: u64) -> Arc<Seen<u64>> {
    named("x", uid, at)
}

fn shown(store: &Store<u64>) -> Option<(&str, u64)> {
    store.get(&key()).map(|seen| (&*seen.uid, seen.object))
}

#[test]
fn an_older_or_equal_version_changes_nothing_whoever_brings_it() {
    let mut store = Store::default();
    assert!(store.offer(seen("u", 5), Source::Answer).is_some());
    for source in [Source::Watch, Source::Answer] {
        assert!(store.offer(seen("u", 5), source).is_none());
        assert!(store.offer(seen("u", 4), source).is_none());
    }
    assert!(store.offer(seen("u", 6), Source::Watch).is_some());
    assert_eq!(shown(&store), Some(("u", 6)));
}

#[test]
fn a_late_answer_does_not_bring_back_what_the_watch_has_ended() {
    let mut store = Store::default();
    store.offer(seen("u", 5), Source::Watch);
    store.ended(&key(), Some("u"), Some(&version(9)));
    store.reached(&version(9));
    assert!(store.offer(seen("u", 7), Source::Answer).is_none());
    assert_eq!(shown(&store), None);
    assert!(store.offer(seen("v", 10), Source::Answer).is_some(), "a later object of the name is news");
}

#[test]
fn a_deleted_object_stays_gone_until_the_watch_has_shown_its_end() {
    let mut store = Store::default();
    store.offer(seen("u", 5), Source::Watch);
    assert!(store.forget(&key(), &"u".into()).is_some());
    assert!(store.offer(seen("u", 6), Source::Watch).is_none());
    assert!(store.offer(seen("v", 8), Source::Watch).is_some(), "another object of the name");
    store.ended(&key(), Some("u"), Some(&version(7)));
    assert_eq!(shown(&store), Some(("v", 8)));
    assert!(store.gone.is_empty());
}

#[test]
fn a_complete_list_ends_what_it_did_not_name_but_nothing_newer() {
    let mut store = Store::default();
    store.offer(seen("u", 5), Source::Watch);
    store.offer(named("y", "w", 12), Source::Answer);
    store.begin();
    assert_eq!(store.commit(&version(10)).len(), 1);
    assert_eq!(shown(&store), None);
    assert_eq!(store.len(), 1, "what was written after the list stays");
    assert!(store.is_complete());
}

#[test]
fn a_list_that_was_abandoned_ends_nothing() {
    let mut store = Store::default();
    store.offer(seen("u", 5), Source::Watch);
    store.begin();
    store.abandon();
    assert_eq!(shown(&store), Some(("u", 5)));
    assert!(!store.is_complete());
}

#[test]
fn what_comes_and_goes_between_lists_leaves_nothing_behind() {
    let mut store = Store::default();
    store.begin();
    store.offer(named("kept", "k", 1), Source::Watch);
    store.commit(&version(1));
    for number in 2..100 {
        store.offer(named(&format!("x{number}"), "u", number), Source::Watch);
        store.ended(&Key::new("a", &format!("x{number}")), Some("u"), Some(&version(number)));
    }
    assert_eq!((store.len(), store.gone.len()), (1, 0));
    assert!(store.named.is_none());
}

#[test]
fn a_tombstone_ends_with_a_list_that_was_asked_for_after_it() {
    let mut store = Store::default();
    store.offer(seen("u", 5), Source::Watch);
    store.begin();
    store.offer(seen("u", 5), Source::Watch);
    store.forget(&key(), &"u".into());
    store.commit(&version(6));
    assert!(store.offer(seen("u", 6), Source::Watch).is_none(), "that list began before the delete");
    store.begin();
    store.commit(&version(8));
    assert!(!store.gone.is_empty(), "that list may have been asked for before the delete");
    store.begin();
    store.commit(&version(9));
    assert!(store.gone.is_empty());
}

/// A list begins for the store when the server begins to answer, and says how it was when it was asked for.
#[test]
fn a_list_that_was_asked_for_before_a_delete_and_begins_after_it_brings_nothing_back() {
    let mut store = Store::default();
    store.offer(seen("u", 5), Source::Watch);
    store.forget(&key(), &"u".into());
    store.begin();
    store.offer(seen("u", 5), Source::Watch);
    store.commit(&version(6));
    assert!(store.offer(seen("u", 6), Source::Watch).is_none());
    assert_eq!(shown(&store), None);
}

/// A streamed list shows deletes too, and how far the watch has come is known only at its end.
#[test]
fn a_late_answer_does_not_bring_back_what_a_list_under_way_has_ended() {
    for is_dated in [true, false] {
        let mut store = Store::default();
        store.begin();
        store.offer(seen("u", 5), Source::Watch);
        store.ended(&key(), Some("u"), is_dated.then(|| version(9)).as_ref());
        let answered = store.offer(seen("u", 8), Source::Answer).is_some();
        assert_eq!(answered, !is_dated, "an end without a version does not say which answers are older");
        store.commit(&version(10));
        assert_eq!(shown(&store), None);
        assert!(store.gone.is_empty());
    }
}

#[test]
fn what_leaves_and_comes_back_within_a_list_is_there() {
    let mut store = Store::default();
    store.begin();
    store.offer(seen("u", 5), Source::Watch);
    store.ended(&key(), Some("u"), Some(&version(8)));
    store.offer(seen("u", 9), Source::Watch);
    assert!(store.offer(seen("u", 7), Source::Answer).is_none());
    store.commit(&version(10));
    assert_eq!(shown(&store), Some(("u", 9)));
}

#[test]
fn an_answer_between_an_end_and_what_the_watch_has_reached_with_it_brings_nothing_back() {
    let mut store = Store::default();
    store.offer(seen("u", 5), Source::Watch);
    store.ended(&key(), Some("u"), Some(&version(9)));
    assert!(store.offer(seen("u", 8), Source::Answer).is_none());
}

#[test]
fn what_left_by_an_answer_comes_back_by_a_newer_version_and_by_no_older_one() {
    let mut store = Store::default();
    store.offer(seen("u", 5), Source::Watch);
    assert!(store.left(&key(), &"other".into(), &version(9)).is_none(), "another object of the name");
    assert!(store.left(&key(), &"u".into(), &version(5)).is_none(), "it came back at this version");
    assert!(store.left(&key(), &"u".into(), &version(8)).is_some());
    // Others had taken it out and in again before: the watch shows that late.
    store.ended(&key(), Some("u"), Some(&version(6)));
    assert!(store.offer(seen("u", 7), Source::Watch).is_none());
    store.begin();
    store.commit(&version(7));
    assert!(store.offer(seen("u", 8), Source::Watch).is_none(), "the list is older");
    assert!(store.offer(seen("u", 9), Source::Watch).is_some());
    assert!(store.gone.is_empty());
    assert!(store.left(&key(), &"u".into(), &version(10)).is_some());
    store.ended(&key(), Some("u"), Some(&version(10)));
    assert!(store.gone.is_empty(), "the watch has come so far");
}

#[test]
fn a_rewind_drops_what_is_newer_and_takes_older_versions_again() {
    let mut store = Store::default();
    store.offer(seen("u", 50), Source::Watch);
    assert_eq!(store.rewind(&version(10)).len(), 1);
    assert!(store.offer(seen("u", 8), Source::Watch).is_some());
}
