use std::num::NonZeroU64;

use super::*;

fn seen(name: &str, version: u64) -> Arc<Seen<SandboxFacts>> {
    let version = NonZeroU64::new(version).unwrap().into();
    Arc::new(Seen { key: Key::new("ns", name), uid: name.into(), version, object: SandboxFacts::default() })
}

fn look(ticket: &Ticket, pool: &[Arc<Seen<SandboxFacts>>]) -> Turn {
    ticket.look(|fits| pool.iter().find(|seen| fits(seen)).cloned())
}

fn taken(turn: &Turn) -> &str {
    match turn {
        Turn::Take(pick) => &pick.seen.key.name,
        Turn::First => "first",
        Turn::Behind => "behind",
    }
}

#[test]
fn what_is_picked_is_not_picked_again_until_it_is_given_back() {
    let queue = Queue::default();
    let (set, pool) = (Key::new("ns", "base"), [seen("a", 1), seen("b", 1)]);
    let (first, second, third) = (queue.draw(&set), queue.draw(&set), queue.draw(&set));
    let one = look(&first, &pool);
    let two = look(&second, &pool);
    assert_eq!((taken(&one), taken(&two), taken(&look(&third, &pool))), ("a", "b", "first"));
    drop(one);
    assert_eq!(taken(&look(&third, &pool)), "a");
}

#[test]
fn whoever_waits_is_left_a_sandbox_by_those_who_came_later() {
    let queue = Queue::default();
    let set = Key::new("ns", "base");
    let (first, second) = (queue.draw(&set), queue.draw(&set));
    first.enter();
    second.enter();
    let third = queue.draw(&set);
    let pool = [seen("a", 1), seen("b", 1)];
    assert_eq!(taken(&look(&third, &pool)), "behind");
    assert_eq!(taken(&look(&second, &pool)), "b", "the first is left one");
    assert_eq!(taken(&look(&first, &pool)), "a");
    first.leave();
    drop(second);
    let other = queue.draw(&Key::new("ns", "other"));
    assert_eq!(taken(&look(&other, &pool)), "a", "another pool has its own line");
    assert_eq!(taken(&look(&third, &pool)), "a");
}

#[test]
fn a_version_that_was_changed_by_others_is_not_tried_again() {
    let queue = Queue::default();
    let ticket = queue.draw(&Key::new("ns", "base"));
    let old = seen("a", 5);
    queue.is_stale(&old, |_| None);
    assert_eq!(taken(&look(&ticket, &[Arc::clone(&old)])), "first");
    assert_eq!(taken(&look(&ticket, &[seen("a", 6)])), "a");
}

#[test]
fn a_version_that_nobody_seems_to_have_changed_is_tried_again_after_a_while() {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_time().start_paused(true).build().unwrap().block_on(async {
        let queue = Queue::default();
        let ticket = queue.draw(&Key::new("ns", "base"));
        let old = seen("a", 5);
        queue.is_stale(&old, |_| None);
        tokio::time::sleep_until(queue.tried_again().unwrap()).await;
        assert_eq!(queue.tried_again(), None);
        assert_eq!(taken(&look(&ticket, &[old])), "a");
    });
}

#[test]
fn versions_that_the_cache_has_left_behind_are_forgotten() {
    let queue = Queue::default();
    for number in 0..200 {
        queue.is_stale(&seen(&format!("s{number}"), 5), |_| None);
    }
    assert!(queue.0.lock().stale.len() <= STALE);
}

#[test]
fn the_bell_rings_for_the_first_when_somebody_leaves_or_gives_back() {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_time().start_paused(true).build().unwrap().block_on(async {
        let queue = Queue::default();
        let set = Key::new("ns", "base");
        let (first, second) = (queue.draw(&set), queue.draw(&set));
        first.enter();
        second.enter();
        drop(first);
        second.rung().await;
        let other = queue.draw(&set);
        let pick = other.look(|_| Some(seen("a", 1)));
        drop(pick);
        second.rung().await;
    });
}
