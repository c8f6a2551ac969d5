//! Peers that are slow: order, coalescing, batches.

use std::collections::HashMap;

use super::fixture::{Puppet, address, message, patient, push, pusher};
use crate::receive::tests::fixture::{Plane, eventually};
use crate::{Delivery, PushSettings};

#[tokio::test]
async fn a_slow_peer_gets_the_newest_of_each_object_in_order_and_never_something_older() {
    let peer = Puppet::held(&[]).await;
    let settings = PushSettings { batch: false, ..patient() };
    let pusher = pusher(settings, vec![peer.address.clone()]).await;
    let mut tickets = vec![pusher.push(&message("a", "running", 1)).unwrap()];
    eventually(|| (peer.seen().len() == 1).then_some(())).await;
    // All of this happens while the first is under way.
    for version in 2..=50 {
        for name in ["b", "a", "c"] {
            tickets.push(pusher.push(&message(name, "running", version)).unwrap());
        }
    }
    tickets.push(pusher.push(&message("b", "running", 7)).unwrap());
    assert_eq!(pusher.metrics()[0].pending, 3);
    peer.release(1000);
    let deadline = tokio::time::Instant::now() + crate::receive::tests::fixture::DEADLINE;
    let mut outcomes: HashMap<Delivery, usize> = HashMap::new();
    for ticket in tickets {
        for (_, outcome) in ticket.outcomes(deadline).await {
            *outcomes.entry(outcome).or_default() += 1;
        }
    }
    assert_eq!(outcomes, HashMap::from([(Delivery::Delivered, 4), (Delivery::Coalesced, 145)]));
    let seen = peer.seen();
    let sent: Vec<(bool, u64)> =
        seen.iter().map(|seen| (seen.body.contains("team--b"), seen.version())).collect();
    assert_eq!(sent, [(false, 1), (true, 50), (false, 50), (false, 50)]);
    assert_eq!(pusher.metrics()[0].coalesced, 145);
}

#[tokio::test]
async fn a_message_that_is_tried_again_is_left_when_something_newer_waits() {
    // The first try fails; before the second, the delete has come.
    let peer = Puppet::held(&[503]).await;
    let pusher = pusher(patient(), vec![peer.address.clone()]).await;
    let first = pusher.push(&message("a", "running", 1)).unwrap();
    eventually(|| (peer.seen().len() == 1).then_some(())).await;
    let delete = pusher.push(&message("a", "dead", 1)).unwrap();
    peer.release(10);
    let deadline = tokio::time::Instant::now() + crate::receive::tests::fixture::DEADLINE;
    assert_eq!(first.outcomes(deadline).await[0].1, Delivery::Coalesced);
    assert_eq!(delete.outcomes(deadline).await[0].1, Delivery::Delivered);
    let seen = peer.seen();
    assert_eq!(seen.len(), 2);
    assert!(seen[1].body.contains("dead"), "{seen:?}");
}

#[tokio::test]
async fn what_waits_goes_as_one_batch_to_a_receiver_and_each_message_has_its_own_outcome() {
    let plane = Plane::open().await;
    let pusher = pusher(patient(), vec![address(&plane)]).await;
    let mut tickets = Vec::new();
    for number in 0..1200 {
        let mut message = message(&format!("n{number}"), "running", 1);
        if number % 100 == 7 {
            message.id = "some where".to_owned();
        }
        tickets.push(pusher.push(&message).unwrap());
    }
    let deadline = tokio::time::Instant::now() + crate::receive::tests::fixture::DEADLINE;
    for (number, ticket) in tickets.into_iter().enumerate() {
        let outcome = ticket.outcomes(deadline).await.remove(0).1;
        assert_eq!(
            matches!(outcome, Delivery::Refused { status: 400, .. }),
            number % 100 == 7,
            "{outcome:?}"
        );
        assert_eq!(outcome == Delivery::Delivered, number % 100 != 7, "{outcome:?}");
    }
    assert_eq!(plane.reader.counts().objects, 1188);
    assert!((2..=4).contains(&plane.status().batches), "{:?}", plane.status());
}

#[tokio::test]
async fn a_peer_that_takes_no_batches_gets_none_and_everything() {
    let peer = Puppet::held(&[204, 404]).await;
    let pusher = pusher(patient(), vec![peer.address.clone()]).await;
    let mut tickets = vec![pusher.push(&message("first", "running", 1)).unwrap()];
    eventually(|| (peer.seen().len() == 1).then_some(())).await;
    for number in 0..5 {
        tickets.push(pusher.push(&message(&format!("n{number}"), "running", 1)).unwrap());
    }
    peer.release(100);
    let deadline = tokio::time::Instant::now() + crate::receive::tests::fixture::DEADLINE;
    for ticket in tickets {
        assert_eq!(ticket.outcomes(deadline).await[0].1, Delivery::Delivered);
    }
    assert_eq!(push(&pusher, &message("last", "running", 1)).await, [Delivery::Delivered]);
    let paths: Vec<String> = peer.seen().into_iter().map(|seen| seen.path).collect();
    assert_eq!(paths.iter().filter(|path| *path == "/refresh/batch").count(), 1, "{paths:?}");
    assert_eq!(paths.iter().filter(|path| *path == "/refresh").count(), 7, "{paths:?}");
}
