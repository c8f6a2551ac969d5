use super::*;
use crate::{Clash, ObjectKey, Observation, State};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

fn route(version: u64, identity: u64) -> Route {
    let observed = Observation {
        key: ObjectKey::new("p", "n", "x").unwrap(),
        id: "x".into(),
        uid: format!("u{identity}"),
        owner: String::new(),
        state: State::Paused,
        version: version.to_string().parse().unwrap(),
        ip: None,
        token: None,
        traffic_token: None,
        require_traffic_auth: false,
        clash: Clash::Rank,
        created: None,
        ip_is_claimed: false,
        own_id: false,
    };
    Route::build(observed, identity, 0, 0)
}

fn version(notice: Option<Notice>) -> String {
    match notice {
        Some(Notice::Changed(change)) => change.after().unwrap().version().to_string(),
        Some(Notice::Lagged { missed }) => format!("lagged {missed}"),
        Some(Notice::Closed) => "closed".into(),
        None => "nothing".into(),
    }
}

fn tell(feed: &mut Feed, number: u64) {
    feed.announce(None, Some(&route(number, 1)));
    for waker in feed.drain_wakers() {
        waker();
    }
}

#[test]
fn a_change_says_what_became_of_the_identity() {
    let (a1, a2, b) = (route(1, 1), route(2, 1), route(3, 2));
    let mut feed = Feed::default();
    let mut changes = feed.subscribe(8, None);
    for (old, new) in [(None, Some(&a1)), (Some(&a1), Some(&a2)), (Some(&a2), Some(&b)), (Some(&b), None)] {
        feed.announce(old, new);
    }
    let mut told = Vec::new();
    while let Some(Notice::Changed(change)) = changes.try_recv() {
        assert_eq!((change.id(), change.key().name()), ("x", "x"));
        told.push((change.kind(), change.identity_gone()));
    }
    use ChangeKind::{Appeared, Gone, Replaced, Updated};
    assert_eq!(told, [(Appeared, None), (Updated, None), (Replaced, Some(1)), (Gone, Some(2))]);
}

#[test]
fn a_subscriber_that_falls_behind_is_told_how_far_and_then_goes_on() {
    let mut feed = Feed::default();
    let (mut slow, mut quick) = (feed.subscribe(3, None), feed.subscribe(100, None));
    for number in 1..=5 {
        tell(&mut feed, number);
    }
    assert_eq!(version(slow.try_recv()), "lagged 5", "what was queued is void too");
    assert_eq!(version(slow.try_recv()), "nothing");
    tell(&mut feed, 6);
    assert_eq!(version(slow.try_recv()), "6");
    assert_eq!((1..=6).map(|_| version(quick.try_recv())).collect::<String>(), "123456");
}

#[test]
fn a_full_queue_is_not_a_lag() {
    let mut feed = Feed::default();
    let mut changes = feed.subscribe(3, None);
    for number in 1..=3 {
        tell(&mut feed, number);
    }
    assert_eq!((1..=4).map(|_| version(changes.try_recv())).collect::<String>(), "123nothing");
}

#[test]
fn a_waker_is_called_when_there_is_something_where_there_was_nothing() {
    let mut feed = Feed::default();
    let mut changes = feed.subscribe(2, None);
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let woken = || calls.load(Ordering::SeqCst);
    tell(&mut feed, 1);
    changes.set_waker(move || {
        counted.fetch_add(1, Ordering::SeqCst);
    });
    assert_eq!(woken(), 1, "there was something already");
    tell(&mut feed, 2);
    assert_eq!(woken(), 1, "it has not been taken yet");
    while changes.try_recv().is_some() {}
    tell(&mut feed, 3);
    assert_eq!(woken(), 2);
    tell(&mut feed, 4);
    tell(&mut feed, 5);
    assert_eq!(woken(), 2);
    assert_eq!(version(changes.try_recv()), "lagged 3");
    tell(&mut feed, 6);
    assert_eq!(woken(), 3, "a lag is taken like anything else");
}

#[test]
fn a_waiting_subscriber_is_woken_by_a_change_and_by_the_end() {
    let mut feed = Feed::default();
    let mut changes = feed.subscribe(2, None);
    let waiter = thread::spawn(move || {
        let first = version(changes.recv_timeout(Duration::from_secs(60)));
        (first, version(changes.recv_timeout(Duration::from_secs(60))))
    });
    tell(&mut feed, 1);
    drop(feed);
    assert_eq!(waiter.join().unwrap(), ("1".into(), "closed".into()));
}

#[test]
fn waiting_ends_in_time() {
    let mut feed = Feed::default();
    let mut changes = feed.subscribe(2, None);
    assert_eq!(version(changes.recv_timeout(Duration::from_millis(1))), "nothing");
    assert_eq!(version(changes.recv_timeout(Duration::ZERO)), "nothing");
    tell(&mut feed, 1);
    assert_eq!(version(changes.recv_timeout(Duration::ZERO)), "1");
}

#[test]
fn what_is_queued_comes_before_the_end() {
    let mut feed = Feed::default();
    let mut changes = feed.subscribe(2, None);
    tell(&mut feed, 1);
    drop(feed);
    assert_eq!(version(changes.try_recv()), "1");
    assert_eq!(version(changes.try_recv()), "closed");
    assert_eq!(version(changes.try_recv()), "closed");
}

#[test]
fn who_cares_about_little_is_told_and_woken_of_that_alone() {
    let mut feed = Feed::default();
    let all = feed.subscribe(8, None);
    let mut some = feed.subscribe(
        2,
        Some(Box::new(|old, new| {
            let is_two = |route: Option<&Route>| route.is_some_and(|route| route.identity() == 2);
            is_two(old) || is_two(new)
        })),
    );
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    some.set_waker(move || {
        counted.fetch_add(1, Ordering::SeqCst);
    });
    for number in 1..=5 {
        tell(&mut feed, number);
    }
    assert_eq!((version(some.try_recv()).as_str(), calls.load(Ordering::SeqCst)), ("nothing", 0));
    feed.announce(Some(&route(5, 1)), Some(&route(6, 2)));
    feed.announce(Some(&route(6, 2)), Some(&route(7, 3)));
    feed.drain_wakers().iter().for_each(|waker| waker());
    assert_eq!([some.try_recv(), some.try_recv(), some.try_recv()].map(version), ["6", "7", "nothing"]);
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    assert_eq!(all.queue.inner.lock().changes.len(), 7);
}

#[test]
fn a_dropped_subscriber_is_forgotten() {
    let mut feed = Feed::default();
    let kept = feed.subscribe(2, None);
    drop(feed.subscribe(2, None));
    assert!(feed.has_subscribers());
    assert_eq!(feed.subscribers.len(), 1);
    drop(kept);
    assert!(!feed.has_subscribers());
}
