//! The change feed, through the table.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use sandgate_routes::{Change, ChangeKind, Changes, Notice, Observation, Outcome};

use crate::fixture::{at, everything, key, sandbox, table, version};

fn told(changes: &mut Changes) -> Vec<String> {
    let mut told = Vec::new();
    while let Some(notice) = changes.try_recv() {
        told.push(match notice {
            Notice::Changed(change) => in_words(&change),
            Notice::Lagged { missed } => format!("lagged by {missed}"),
            Notice::Closed => return told,
        });
    }
    told
}

fn in_words(change: &Change) -> String {
    let side = |route: Option<&Arc<sandgate_routes::Route>>| {
        route.map_or("-".to_owned(), |route| format!("{}@{}", route.key().name(), route.version()))
    };
    let kind = match change.kind() {
        ChangeKind::Appeared => "appeared",
        ChangeKind::Updated => "updated",
        ChangeKind::Replaced => "replaced",
        ChangeKind::Gone => "gone",
    };
    format!("{} {kind} {} {}", change.id(), side(change.before()), side(change.after()))
}

#[test]
fn subscribers_learn_what_happens_to_served_ids() {
    let table = table();
    table.writer.apply(sandbox("before").at(1));
    let mut changes = table.writer.subscribe(100);
    table.writer.apply(sandbox("a").called("x").at(1));
    table.writer.apply(sandbox("a").called("x").paused().at(2));
    table.writer.apply(sandbox("a").called("x").with_uid("other").at(3));
    table.writer.apply(sandbox("a").called("x").at(3));
    table.writer.apply(sandbox("a").called("y").with_uid("other").at(4));
    table.writer.delete(&key("a"), at(4));
    table.writer.delete(&key("never-seen"), at(4));
    assert_eq!(
        told(&mut changes),
        [
            "x appeared - a@1",
            "x updated a@1 a@2",
            "x replaced a@2 a@3",
            "x gone a@3 -",
            "y appeared - a@4",
            "y gone a@4 -",
        ]
    );
}

#[test]
fn a_takeover_is_a_replacement_and_deleting_the_displaced_is_silent() {
    let table = table();
    let mut changes = table.writer.subscribe(100);
    let claim =
        |name: &str, created| Observation { created: Some(created), ..sandbox(name).called("x").at(1) };
    assert_eq!(table.writer.apply(claim("a", 2)), Outcome::Applied);
    let identity = table.reader.get("x").unwrap().identity();
    assert_eq!(table.writer.apply(claim("b", 1)), Outcome::Takeover { displaced: key("a") });
    assert_eq!(table.writer.delete(&key("a"), at(1)), Outcome::Applied);
    let mut gone = Vec::new();
    let mut words = Vec::new();
    while let Some(Notice::Changed(change)) = changes.try_recv() {
        gone.extend(change.identity_gone());
        words.push(in_words(&change));
    }
    assert_eq!(words, ["x appeared - a@1", "x replaced a@1 b@1"]);
    assert_eq!(gone, [identity]);
}

#[test]
fn nobody_is_told_of_the_old_id_of_a_living_sandbox_before_the_new_one_is_served() {
    let table = table();
    table.writer.apply(sandbox("a").called("x").at(1));
    let first = Arc::new(Mutex::new(table.writer.subscribe(100)));
    let (drained, seen) = (Arc::clone(&first), Arc::new(Mutex::new(Vec::new())));
    let noted = Arc::clone(&seen);
    let mut second = table.writer.subscribe_where(100, move |_, _| {
        noted.lock().unwrap().push(told(&mut drained.lock().unwrap()));
        true
    });
    table.writer.apply(sandbox("a").called("y").at(2));
    let both = ["x gone a@1 -", "y appeared - a@2"];
    assert_eq!(
        *seen.lock().unwrap(),
        [vec![] as Vec<String>, vec![]],
        "asked of each, and nothing is queued yet"
    );
    assert_eq!(told(&mut first.lock().unwrap()), both);
    assert_eq!(told(&mut second), both);
}

#[test]
fn a_move_wakes_a_subscriber_once() {
    let table = table();
    table.writer.apply(sandbox("a").called("x").at(1));
    let woken = Arc::new(AtomicU64::new(0));
    let mut changes = table.writer.subscribe(100);
    let count = Arc::clone(&woken);
    changes.set_waker(move || {
        count.fetch_add(1, Ordering::Relaxed);
    });
    table.writer.apply(sandbox("a").called("y").at(2));
    assert_eq!((woken.load(Ordering::Relaxed), told(&mut changes).len()), (1, 2));
}

#[test]
fn what_a_relist_deletes_is_told() {
    let table = table();
    table.writer.apply(sandbox("a").at(1));
    let mut changes = table.writer.subscribe(100);
    table.writer.begin_relist(everything(), version(2)).commit();
    assert_eq!(told(&mut changes), ["team--a gone a@1 -"]);
}

#[test]
fn a_slow_subscriber_does_not_hold_the_writer_and_finds_all_it_missed_in_the_table() {
    let table = table();
    let mut slow = table.writer.subscribe(10);
    let last = if cfg!(miri) { 15 } else { 100 };
    for number in 1..=last {
        table.writer.apply(sandbox("a").at(number));
    }
    assert_eq!(told(&mut slow), [format!("lagged by {last}")]);
    assert_eq!(table.served("team--a"), Some(last));
    table.writer.apply(sandbox("a").at(last + 1));
    assert_eq!(told(&mut slow), [format!("team--a updated a@{last} a@{}", last + 1)]);
}

#[test]
fn a_waker_may_use_the_table() {
    let table = table();
    let mut changes = table.writer.subscribe(10);
    let seen = Arc::new(AtomicU64::new(0));
    let (reader, writer, noted) = (table.reader.clone(), table.writer.clone(), Arc::clone(&seen));
    changes.set_waker(move || {
        // The change is in sight, and the writer's lock is free.
        assert!(reader.get("team--a").is_some());
        noted.fetch_add(1 + writer.sweep() as u64, Ordering::SeqCst);
    });
    table.writer.apply(sandbox("a").at(1));
    assert_eq!(seen.load(Ordering::SeqCst), 1);
}

#[test]
fn subscribers_are_told_when_there_is_no_writer_left() {
    let table = table();
    let mut changes = table.writer.subscribe(10);
    let reader = table.reader.clone();
    table.writer.apply(sandbox("a").at(1));
    drop(table);
    assert!(matches!(changes.try_recv(), Some(Notice::Changed(_))));
    assert!(matches!(changes.try_recv(), Some(Notice::Closed)));
    assert!(reader.get("team--a").is_some(), "reads outlive the writer");
}

#[test]
fn what_is_applied_quietly_is_served_and_told_at_once_and_wakes_when_it_is_said_or_by_the_next_change() {
    let table = table();
    let woken = Arc::new(AtomicU64::new(0));
    let mut changes = table.writer.subscribe(100);
    let count = Arc::clone(&woken);
    changes.set_waker(move || {
        count.fetch_add(1, Ordering::Relaxed);
    });
    let outcomes = table.writer.apply_quietly([
        sandbox("a").called("x").at(2),
        sandbox("a").called("x").at(1),
        sandbox("b").called("y").at(1),
    ]);
    assert_eq!(outcomes, [Outcome::Applied, Outcome::Stale, Outcome::Applied]);
    assert!(table.reader.get("x").is_some() && table.reader.get("y").is_some());
    assert_eq!(woken.load(Ordering::Relaxed), 0);
    table.writer.wake();
    table.writer.wake();
    assert_eq!(woken.load(Ordering::Relaxed), 1);
    assert_eq!(told(&mut changes), ["x appeared - a@2", "y appeared - b@1"]);
    table.writer.apply_quietly([sandbox("c").called("z").at(1)]);
    table.writer.sweep();
    assert_eq!(woken.load(Ordering::Relaxed), 2);
}
