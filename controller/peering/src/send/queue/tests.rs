//! The order of a queue, and what it gives up.

use super::*;

fn message(name: &str, version: u64, deletes: bool) -> (Pending, oneshot::Receiver<Delivery>) {
    let (waiter, told) = oneshot::channel();
    let pending = Pending {
        key: ObjectKey::new("p", "n", name).unwrap(),
        version: version.to_string().parse().unwrap(),
        deletes,
        body: Bytes::from(format!("{name}@{version}")),
        since: Instant::now(),
        queued: Instant::now(),
        waiter: Some(waiter),
    };
    (pending, told)
}

/// Takes up to `max` messages.
fn take(queue: &mut Queue, max: usize) -> Vec<Pending> {
    std::iter::from_fn(|| queue.pop()).take(max).collect()
}

/// Puts messages back, from the last to the first, as the worker does.
fn put_back(queue: &mut Queue, messages: Vec<Pending>) -> Vec<Queued> {
    messages.into_iter().rev().map(|message| queue.push_front(message)).collect()
}

fn bodies(taken: &[Pending]) -> Vec<&str> {
    taken.iter().map(|message| str::from_utf8(&message.body).unwrap()).collect()
}

#[test]
fn the_newest_of_each_object_is_taken_in_the_order_of_the_objects() {
    let mut queue = Queue::new(10);
    let mut told = Vec::new();
    for (name, version) in [("a", 1), ("b", 5), ("a", 3), ("c", 1), ("a", 2), ("b", 4)] {
        let (pending, waiter) = message(name, version, false);
        queue.push_back(pending);
        told.push(waiter);
    }
    assert_eq!((queue.len(), bodies(&take(&mut queue, 2))), (3, vec!["a@3", "b@5"]));
    assert_eq!(bodies(&take(&mut queue, 9)), ["c@1"]);
    assert!(take(&mut queue, 1).is_empty() && queue.oldest().is_none());
    // a@1, a@2 and b@4 were left out, and their callers know.
    let left_out: Vec<bool> =
        told.iter_mut().map(|told| told.try_recv() == Ok(Delivery::Coalesced)).collect();
    assert_eq!(left_out, [true, false, false, false, true, true]);
}

#[test]
fn at_one_version_a_delete_counts_and_is_not_taken_back() {
    let mut queue = Queue::new(10);
    for deletes in [false, true, false] {
        queue.push_back(message("a", 7, deletes).0);
    }
    let taken = take(&mut queue, 1);
    assert!(taken[0].deletes);
    queue.push_back(message("a", 7, false).0);
    assert!(!queue.supersedes(&taken[0]));
    queue.push_back(message("a", 8, false).0);
    assert!(queue.supersedes(&taken[0]));
}

#[test]
fn past_its_room_the_one_that_waits_longest_is_given_up() {
    let mut queue = Queue::new(2);
    let (first, mut told) = message("a", 1, false);
    assert_eq!(queue.push_back(first), Queued::Added);
    assert_eq!(queue.push_back(message("b", 1, false).0), Queued::Added);
    assert_eq!(queue.push_back(message("b", 2, false).0), Queued::Coalesced);
    assert_eq!(queue.push_back(message("c", 1, false).0), Queued::Displaced);
    assert_eq!(told.try_recv(), Ok(Delivery::Dropped));
    assert_eq!(bodies(&take(&mut queue, 9)), ["b@2", "c@1"]);
}

#[test]
fn past_its_room_a_delete_is_the_last_to_be_given_up() {
    let mut queue = Queue::new(3);
    let (living, mut told) = message("b", 1, false);
    queue.push_back(message("a", 1, true).0);
    queue.push_back(living);
    queue.push_back(message("c", 1, true).0);
    assert_eq!(queue.push_back(message("d", 1, false).0), Queued::Displaced);
    assert_eq!(told.try_recv(), Ok(Delivery::Dropped), "the living one that waits longest goes");
    assert_eq!(queue.push_back(message("e", 1, true).0), Queued::Displaced);
    // Only deletes are left: what lives finds no room.
    let (living, mut told) = message("f", 1, false);
    assert_eq!(queue.push_back(living), Queued::Displaced);
    assert_eq!(told.try_recv(), Ok(Delivery::Dropped));
    // Among deletes the one that waits longest goes.
    assert_eq!(queue.push_back(message("g", 1, true).0), Queued::Displaced);
    assert_eq!(bodies(&take(&mut queue, 9)), ["c@1", "e@1", "g@1"]);

    // Those that were in flight come back to a full queue.
    let mut told = Vec::new();
    let mut push = |queue: &mut Queue, name, deletes| {
        let (pending, waiter) = message(name, 1, deletes);
        queue.push_back(pending);
        told.push((name, waiter));
    };
    for (name, deletes) in [("a", true), ("b", false), ("c", true)] {
        push(&mut queue, name, deletes);
    }
    let taken = take(&mut queue, 3);
    for (name, deletes) in [("d", true), ("e", false), ("f", false)] {
        push(&mut queue, name, deletes);
    }
    // e goes for c, b finds no room, and f goes for a.
    assert_eq!(put_back(&mut queue, taken), [Queued::Displaced; 3]);
    let dropped = told
        .iter_mut()
        .filter_map(|(name, told)| (told.try_recv() == Ok(Delivery::Dropped)).then_some(*name));
    assert_eq!(dropped.collect::<Vec<_>>(), ["b", "e", "f"]);
    assert_eq!(bodies(&take(&mut queue, 9)), ["a@1", "c@1", "d@1"]);
}

#[test]
fn a_message_that_another_took_the_place_of_counts_as_what_it_is_now() {
    let mut queue = Queue::new(2);
    for (name, version, deletes) in [("a", 1, true), ("a", 2, false), ("b", 1, false), ("b", 2, true)] {
        queue.push_back(message(name, version, deletes).0);
    }
    assert_eq!(queue.push_back(message("c", 1, true).0), Queued::Displaced);
    assert_eq!(bodies(&take(&mut queue, 9)), ["b@2", "c@1"]);
}

#[test]
fn of_a_peer_that_is_gone_the_deletes_are_kept() {
    let mut queue = Queue::new(10);
    let mut told = Vec::new();
    for (name, deletes) in [("a", true), ("b", false), ("c", true)] {
        let (pending, waiter) = message(name, 1, deletes);
        queue.push_back(pending);
        told.push(waiter);
    }
    assert_eq!(queue.retain_deletes("gone"), 1);
    let kept = || Delivery::Failed { reason: "gone".to_owned() };
    let told: Vec<Delivery> = told.iter_mut().map(|told| told.try_recv().unwrap()).collect();
    assert_eq!(told, [kept(), Delivery::Dropped, kept()]);
    assert_eq!((queue.len(), bodies(&take(&mut queue, 9))), (2, vec!["a@1", "c@1"]));
}

#[test]
fn what_comes_back_stands_first_unless_something_newer_waits_or_there_is_no_room() {
    let mut queue = Queue::new(3);
    for name in ["a", "b", "c"] {
        queue.push_back(message(name, 1, false).0);
    }
    let taken = take(&mut queue, 3);
    queue.push_back(message("d", 1, false).0);
    queue.push_back(message("b", 2, false).0);
    // From the last to the first: c has room, b@2 replaces b, and a finds no room.
    assert_eq!(put_back(&mut queue, taken), [Queued::Added, Queued::Coalesced, Queued::Displaced]);
    assert_eq!(bodies(&take(&mut queue, 9)), ["c@1", "d@1", "b@2"]);
    // Something older that came in the meantime does not count.
    queue.push_back(message("e", 5, false).0);
    let taken = take(&mut queue, 1);
    queue.push_back(message("e", 4, false).0);
    assert_eq!(put_back(&mut queue, taken), [Queued::Coalesced]);
    assert_eq!(bodies(&take(&mut queue, 9)), ["e@5"]);
}
