//! What becomes of a message.

use std::time::Duration;

use sandgate_routes::State;
use serde_json::json;
use tempfile::tempdir;
use tokio::net::TcpListener;

use super::fixture::{Puppet, address, message, patient, push, push_within, pusher, silent_port, with};
use crate::receive::tests::certificates::Authority;
use crate::receive::tests::fixture::{KEY, Plane, eventually, key_file};
use crate::{Credentials, Delivery, MessageError, PeerAddress, PushSettings, RouteMessage};

#[tokio::test]
async fn every_peer_is_told_over_one_connection_each() {
    let planes = [Plane::open().await, Plane::open().await, Plane::open().await];
    let pusher = pusher(patient(), planes.iter().map(address).collect()).await;
    for version in 1..=5 {
        let state = if version % 2 == 0 { "paused" } else { "running" };
        assert_eq!(push(&pusher, &message("demo", state, version)).await, vec![Delivery::Delivered; 3]);
    }
    for plane in &planes {
        assert_eq!(plane.reader.get("team--demo").unwrap().state(), State::Running);
        assert_eq!((plane.status().applied, plane.status().connections), (5, 1));
    }
    assert!(
        pusher.metrics().iter().all(|metrics| (metrics.sent, metrics.pending, metrics.retries) == (5, 0, 0))
    );
}

#[tokio::test]
async fn what_a_peer_does_not_want_is_not_tried_again_and_its_reason_is_told() {
    let plane = Plane::open().await;
    let pusher = pusher(patient(), vec![address(&plane)]).await;
    let wrong = RouteMessage { id: "some where".to_owned(), ..message("demo", "running", 1) };
    let outcome = push(&pusher, &wrong).await.remove(0);
    assert!(
        matches!(&outcome, Delivery::Refused { status: 400, reason } if reason.contains("id")),
        "{outcome:?}"
    );
    let metrics = pusher.metrics().remove(0);
    assert_eq!((metrics.refused, metrics.retries, metrics.failed), (1, 0, 0));
}

#[tokio::test]
async fn a_message_without_an_order_is_not_sent() {
    let plane = Plane::open().await;
    let pusher = pusher(patient(), vec![address(&plane)]).await;
    let unversioned = RouteMessage { resource_version: String::new(), ..message("demo", "dead", 1) };
    assert_eq!(pusher.push(&unversioned).err(), Some(MessageError::Version));
    let nameless = RouteMessage { name: String::new(), ..message("demo", "dead", 1) };
    assert_eq!(pusher.push(&nameless).err(), Some(MessageError::Object));
    let stateless = RouteMessage { state: "asleep".to_owned(), ..message("demo", "dead", 1) };
    assert_eq!(pusher.push(&stateless).err(), Some(MessageError::State));
}

#[tokio::test]
async fn trouble_of_a_peer_is_tried_again_and_signed_anew() {
    let folder = tempdir().unwrap();
    let (_, file) = key_file(&folder, "main", KEY);
    let peer = Puppet::quick(&[503, 500]).await;
    let credentials = Credentials { hmac: Some(("main".to_owned(), file)), ..Credentials::default() };
    let pusher = with(patient(), vec![peer.address.clone()], &credentials).await;
    assert_eq!(push(&pusher, &message("demo", "running", 1)).await, [Delivery::Delivered]);
    let seen = peer.seen();
    assert_eq!((seen.len(), pusher.metrics()[0].retries), (3, 2));
    assert!(seen.windows(2).all(|pair| pair[0].body == pair[1].body), "{seen:?}");
    assert!(seen.windows(2).all(|pair| pair[0].authorization != pair[1].authorization), "{seen:?}");
}

#[tokio::test]
async fn answers_about_the_moment_are_not_final() {
    let answers = [401, 408, 425, 429, 500, 502, 503, 504];
    let peer = Puppet::quick(&answers).await;
    let pusher = pusher(patient(), vec![peer.address.clone()]).await;
    assert_eq!(push(&pusher, &message("demo", "dead", 1)).await, [Delivery::Delivered]);
    assert_eq!((peer.seen().len(), pusher.metrics()[0].refused), (answers.len() + 1, 0));
    for status in [400, 403, 404, 413, 422] {
        let peer = Puppet::quick(&[status]).await;
        let pusher = self::pusher(patient(), vec![peer.address.clone()]).await;
        let outcome = push(&pusher, &message("demo", "dead", 1)).await.remove(0);
        assert!(matches!(outcome, Delivery::Refused { status: told, .. } if told == status), "{outcome:?}");
        assert_eq!(peer.seen().len(), 1);
    }
}

#[tokio::test]
async fn a_delete_that_a_peer_does_not_believe_is_kept_until_it_does() {
    let folder = tempdir().unwrap();
    let (_, file) = key_file(&folder, "main", KEY);
    let plane = Plane::start(json!({ "hmac": { "keys": [{ "id": "main", "file": file }] } })).await;
    // The sender has another key as yet.
    let (_, own) = key_file(&folder, "own", &KEY.to_uppercase());
    let credentials = Credentials { hmac: Some(("main".to_owned(), own.clone())), ..Credentials::default() };
    let settings = PushSettings { keep: Duration::ZERO, ..patient() };
    let pusher = with(settings, vec![address(&plane)], &credentials).await;
    let outcome = push(&pusher, &message("demo", "dead", 7)).await.remove(0);
    assert!(matches!(&outcome, Delivery::Failed { reason } if reason.contains("401")), "{outcome:?}");
    std::fs::write(own, KEY).unwrap();
    eventually(|| (plane.reader.counts().tombstones == 1).then_some(())).await;
    assert_eq!(pusher.metrics()[0].refused, 0);
}

#[tokio::test]
async fn a_peer_that_is_slower_than_a_try_may_take_is_given_more_time() {
    let peer = Puppet::slow(Duration::from_millis(200)).await;
    let settings = PushSettings { try_timeout: Duration::from_millis(10), ..patient() };
    let pusher = pusher(settings, vec![peer.address.clone()]).await;
    assert_eq!(push(&pusher, &message("demo", "running", 1)).await, [Delivery::Delivered]);
    let tries = peer.seen().len();
    assert!(tries > 1, "the first one was long enough");
    // What it takes is known now.
    assert_eq!(push(&pusher, &message("demo", "running", 2)).await, [Delivery::Delivered]);
    let more = peer.seen().len() - tries;
    assert!(more <= 2, "{more} tries, one of them for a busy machine");
}

#[tokio::test]
async fn a_peer_that_says_nothing_is_given_up_in_time_however_many_tries_are_left() {
    // It takes connections, and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let peer = PeerAddress::at(silent.local_addr().unwrap(), false, None);
    let settings = PushSettings { tries: u32::MAX, ..PushSettings::default() };
    let pusher = pusher(settings, vec![peer]).await;
    let outcome = push(&pusher, &message("demo", "running", 1)).await.remove(0);
    assert!(matches!(&outcome, Delivery::Failed { reason } if reason.contains("in time")), "{outcome:?}");
    assert!(pusher.metrics()[0].retries < 20, "{:?}", pusher.metrics());
}

#[tokio::test]
async fn a_connection_that_takes_longer_than_an_answer_is_made() {
    let ours = Authority::new();
    let plane = Plane::start(json!({ "tls": ours.server(json!({ "client-ca": ours.ca() })) })).await;
    let (line, behind) = (TcpListener::bind("127.0.0.1:0").await.unwrap(), plane.address);
    let peer = PeerAddress::at(line.local_addr().unwrap(), true, Some("gateway.test"));
    tokio::spawn(async move {
        while let Ok((mut near, _)) = line.accept().await {
            tokio::spawn(async move {
                // A handshake takes as long as it takes.
                tokio::time::sleep(Duration::from_millis(200)).await;
                let mut far = tokio::net::TcpStream::connect(behind).await.unwrap();
                let _ended = tokio::io::copy_bidirectional(&mut near, &mut far).await;
            });
        }
    });
    let credentials = Credentials {
        ca: Some(ours.ca()),
        certificate: Some(ours.issue("manager.test")),
        ..Credentials::default()
    };
    let settings = PushSettings {
        connect_timeout: Duration::from_millis(20),
        try_timeout: Duration::from_millis(150),
        ..patient()
    };
    let pusher = with(settings, vec![peer], &credentials).await;
    assert_eq!(push(&pusher, &message("demo", "running", 1)).await, [Delivery::Delivered]);
    assert!(pusher.metrics()[0].retries > 0, "the first one was long enough");
}

#[tokio::test]
async fn after_ten_tries_it_is_said_to_have_failed_and_is_kept_until_the_peer_takes_it() {
    let peer = Puppet::held(&[503; 12]).await;
    let pusher = pusher(patient(), vec![peer.address.clone()]).await;
    peer.release(10);
    let outcome = push(&pusher, &message("demo", "running", 1)).await.remove(0);
    assert!(matches!(&outcome, Delivery::Failed { reason } if reason.contains("503")), "{outcome:?}");
    // The next try may be there, and waits.
    assert!((10..=11).contains(&peer.seen().len()), "{:?}", peer.seen());
    let metrics = pusher.metrics().remove(0);
    assert_eq!((metrics.failed, metrics.sent), (1, 0));
    assert!(metrics.error.is_some());
    peer.release(10);
    eventually(|| (pusher.metrics()[0].sent == 1).then_some(())).await;
    let seen = peer.seen();
    assert_eq!(seen.len(), 13);
    assert!(seen.windows(2).all(|pair| pair[0].body == pair[1].body), "{seen:?}");
    let metrics = pusher.metrics().remove(0);
    assert_eq!((metrics.failed, metrics.pending, metrics.error), (1, 0, None));
}

#[tokio::test]
async fn a_peer_that_was_gone_is_told_the_newest_of_everything_it_missed() {
    let (_kept, at) = silent_port();
    let pusher = pusher(PushSettings::default(), vec![PeerAddress::at(at, false, None)]).await;
    let mut told = Vec::new();
    for version in 1..=3 {
        for number in 0..700 {
            told.push(pusher.push(&message(&format!("n{number}"), "running", version)).unwrap());
        }
    }
    told.push(pusher.push(&message("n7", "dead", 4)).unwrap());
    let deadline = tokio::time::Instant::now() + crate::receive::tests::fixture::DEADLINE;
    for ticket in told {
        // Those behind the first batch as well: nobody waits for a peer that is not there.
        let outcome = ticket.outcomes(deadline).await.remove(0).1;
        assert!(matches!(outcome, Delivery::Failed { .. } | Delivery::Coalesced), "{outcome:?}");
    }
    eventually(|| (pusher.metrics()[0].pending == 700).then_some(())).await;
    let plane = Plane::at(at).await;
    eventually(|| (plane.reader.counts().routes == 699).then_some(())).await;
    assert!(plane.reader.get("team--n7").is_none());
    let version = plane.reader.get("team--n699").unwrap().version().to_string();
    assert_eq!(version, "3");
    // The last batch has left the queue when it is sent, and is settled when it is answered.
    eventually(|| {
        let metrics = pusher.metrics().remove(0);
        (metrics.pending == 0 && metrics.lag.is_zero()).then_some(())
    })
    .await;
}

#[tokio::test]
async fn what_was_kept_for_too_long_is_given_up_unless_it_is_a_delete() {
    let peer = Puppet::held(&[503; 4]).await;
    let settings = PushSettings { tries: 2, keep: Duration::ZERO, batch: false, ..patient() };
    let pusher = pusher(settings, vec![peer.address.clone()]).await;
    let running = pusher.push(&message("old", "running", 1)).unwrap();
    let dead = pusher.push(&message("gone", "dead", 1)).unwrap();
    peer.release(20);
    let deadline = tokio::time::Instant::now() + crate::receive::tests::fixture::DEADLINE;
    assert_eq!(running.outcomes(deadline).await[0].1, Delivery::Dropped);
    assert!(matches!(dead.outcomes(deadline).await[0].1, Delivery::Failed { .. }));
    eventually(|| (pusher.metrics()[0].sent == 1).then_some(())).await;
    let metrics = pusher.metrics().remove(0);
    assert_eq!((metrics.dropped, metrics.pending), (1, 0));
    assert!(peer.seen().last().unwrap().body.contains("dead"));
}

#[tokio::test]
async fn a_peer_that_is_down_costs_the_others_nothing_and_is_not_asked_without_end() {
    let plane = Plane::open().await;
    let (_kept, nobody) = silent_port();
    let peers = vec![PeerAddress::at(nobody, false, None), address(&plane)];
    let settings = PushSettings { pause: Duration::ZERO, ..patient() };
    let pusher = pusher(settings, peers).await;
    for number in 0..60 {
        let outcomes = push(&pusher, &message(&format!("n{number}"), "running", 1)).await;
        let delivered = outcomes.iter().filter(|outcome| **outcome == Delivery::Delivered).count();
        let failed = outcomes.iter().filter(|outcome| matches!(outcome, Delivery::Failed { .. })).count();
        assert_eq!((delivered, failed), (1, 1), "{outcomes:?}");
    }
    let metrics = pusher.metrics();
    let down = metrics.iter().find(|metrics| metrics.failed > 0).unwrap();
    // Nine more tries for each would be 540.
    assert_eq!(down.failed, 60);
    assert!(down.retries < 400, "{down:?}");
}

#[tokio::test]
async fn a_caller_waits_until_its_deadline_and_no_longer_and_the_message_goes_on() {
    let peer = Puppet::held(&[]).await;
    let pusher = pusher(patient(), vec![peer.address.clone()]).await;
    let outcome = push_within(&pusher, &message("demo", "dead", 1), Duration::from_millis(50)).await;
    assert_eq!(outcome, [Delivery::Pending]);
    assert!(pusher.metrics()[0].lag >= Duration::from_millis(50));
    peer.release(1);
    eventually(|| (pusher.metrics()[0].sent == 1).then_some(())).await;
    assert_eq!(pusher.metrics()[0].lag, Duration::ZERO);
}

#[tokio::test]
async fn each_way_to_prove_oneself_is_believed_by_a_receiver_and_none_is_not() {
    let (ours, folder) = (Authority::new(), tempdir().unwrap());
    let (_, file) = key_file(&folder, "main", KEY);
    let plane = Plane::start(json!({
        "tls": ours.server(json!({ "client-ca": ours.ca() })),
        "hmac": { "keys": [{ "id": "main", "file": file }] },
    }))
    .await;
    let peer = PeerAddress::at(plane.address, true, Some("gateway.test"));
    let nobody = Credentials { ca: Some(ours.ca()), ..Credentials::default() };
    let certified = Credentials { certificate: Some(ours.issue("manager.test")), ..nobody.clone() };
    let signing = Credentials { hmac: Some(("main".to_owned(), file)), ..nobody.clone() };
    let bearing = Credentials { token: Some(ours.ca()), ..nobody.clone() };
    assert!(super::super::Proofs::read(&bearing).is_err(), "a certificate is no token");
    for (version, credentials, believed) in [(1, nobody, false), (2, certified, true), (3, signing, true)] {
        let pusher = with(patient(), vec![peer.clone()], &credentials).await;
        let outcome = push(&pusher, &message("demo", "running", version)).await.remove(0);
        assert_eq!(outcome == Delivery::Delivered, believed, "{credentials:?} {outcome:?}");
        let unknown = matches!(&outcome, Delivery::Failed { reason } if reason.contains("401"));
        assert_eq!(unknown, !believed, "{outcome:?}");
    }
    let blind = with(PushSettings { tries: 1, ..patient() }, vec![peer], &Credentials::default()).await;
    let outcome = push(&blind, &message("demo", "running", 4)).await.remove(0);
    assert!(matches!(&outcome, Delivery::Failed { reason } if reason.contains("authorities")), "{outcome:?}");
}
