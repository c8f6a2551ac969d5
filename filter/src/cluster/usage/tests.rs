use super::all::{MOST_REMEMBERED, TIDY, TIDY_SHARE};
use super::*;

#[test]
fn a_sandbox_may_have_as_many_as_it_may_and_no_more() {
    let (usage, limits) = (Usage::default(), Limits::new(5, 3, 100));
    let enter = |alone| usage.enter(alone, &limits, || None);
    for _ in 0..3 {
        assert!(enter(true).is_ok());
    }
    assert_eq!(enter(true).err(), Some(Exceeded::Connections));
    assert!(enter(false).is_ok(), "a request that shares its connection needs none");
    let last = enter(false).expect("room for one more request");
    assert_eq!(enter(false).err(), Some(Exceeded::Requests));
    usage.leave(last);
    assert!(enter(false).is_ok());
}

#[test]
fn one_identity_has_one_usage_for_as_long_as_somebody_holds_it() {
    let usages = Usages::default();
    let (one, other) = (usages.of(1, "one"), usages.of(2, "two"));
    assert!(Arc::ptr_eq(&one, &usages.of(1, "one")) && !Arc::ptr_eq(&one, &other));
    for identity in 3..10_000 {
        usages.of(identity, "id");
    }
    let known = usages.known.lock().usages.len();
    assert!(known <= TIDY + 2, "{known} usages that nobody has and that were never used");
    assert!(Arc::ptr_eq(&one, &usages.of(1, "one")) && usages.followed().len() == 2);
}

/// A request of this identity begins and ends in this second.
fn request(usages: &Usages, identity: u64, second: u32) {
    usages.clock().set(Second(second));
    let usage = usages.of(identity, &identity.to_string());
    let entered = usage.enter(true, &Limits::new(10, 10, 100), || None).expect("room");
    usage.leave(entered);
}

/// What is known, in the order of the identities.
fn used(usages: &Usages) -> Vec<(u64, Option<u32>, u32)> {
    let mut used = usages.used().0;
    used.sort_unstable();
    used.into_iter().map(|used| (used.identity, used.last_end.map(|end| end.0), used.open)).collect()
}

#[test]
fn a_sandbox_is_in_use_while_a_request_is_in_flight_and_was_in_use_when_the_last_one_ended() {
    let (usages, limits) = (Usages::default(), Limits::new(10, 10, 100));
    let usage = usages.of(7, "seven");
    assert_eq!(used(&usages), [], "to have a host is no activity");
    usages.clock().set(Second(5));
    let first = usage.enter(true, &limits, || None).expect("room");
    assert_eq!(used(&usages), [(7, None, 1)]);
    usages.clock().set(Second(9));
    let second = usage.enter(false, &limits, || None).expect("room");
    usage.leave(first);
    assert_eq!(used(&usages), [(7, Some(9), 1)]);
    usages.clock().set(Second(60));
    usage.leave(second);
    assert_eq!(used(&usages), [(7, Some(60), 0)]);
    request(&usages, 7, 60);
    assert_eq!(used(&usages), [(7, Some(60), 0)], "another in the same second");
    request(&usages, 7, 61);
    assert_eq!(used(&usages), [(7, Some(61), 0)]);
}

#[test]
fn what_was_used_is_remembered_when_nobody_follows_it_and_goes_on_when_somebody_does_again() {
    let usages = Usages::default();
    request(&usages, 7, 5);
    assert_eq!(
        (usages.followed(), usages.is_followed(7), used(&usages)),
        (vec![], false, vec![(7, Some(5), 0)])
    );
    usages.set_id(7, "moved");
    usages.known.lock().tidy(MOST_REMEMBERED);
    assert_eq!((usages.id_of(7).as_deref(), used(&usages)), (Some("moved"), vec![(7, Some(5), 0)]));
    let again = usages.of(7, "moved");
    assert!(usages.is_followed(7));
    assert_eq!(used(&usages), [(7, Some(5), 0)]);
    request(&usages, 7, 8);
    drop(again);
    assert_eq!(used(&usages), [(7, Some(8), 0)]);
}

#[test]
fn so_many_are_remembered_and_the_least_recent_go_first_and_are_known_to_be_missing() {
    let usages = Usages::default();
    let held = usages.of(100, "held");
    for (identity, second) in [(1, 30), (2, 10), (3, 40), (4, 20), (5, 20)] {
        request(&usages, identity, second);
    }
    request(&usages, 100, 1);
    assert_eq!(usages.used().1, Second::NEVER);
    usages.known.lock().tidy(2);
    assert_eq!(used(&usages), [(1, Some(30), 0), (3, Some(40), 0), (100, Some(1), 0)]);
    assert_eq!(usages.used().1, Second(20));
    drop(held);
    usages.known.lock().tidy(2);
    assert_eq!(used(&usages), [(1, Some(30), 0), (3, Some(40), 0)]);
    assert_eq!(usages.used().1, Second(20), "the newest that was forgotten counts");
}

#[test]
fn memory_is_bounded_however_many_sandboxes_come_and_go() {
    let usages = Usages::default();
    let count = 200_000;
    for identity in 0..count {
        request(&usages, identity, 1 + u32::try_from(identity / 1000).expect("few"));
    }
    let known = usages.known.lock().usages.len();
    assert!(known <= MOST_REMEMBERED + (MOST_REMEMBERED / TIDY_SHARE) * 2, "{known} are known");
    // What is missing is older than the time from which nothing is.
    let (used, forgotten) = usages.used();
    let newer = |used: &&Used| used.last_end > Some(forgotten);
    let complete = used.iter().filter(newer).count();
    assert_eq!(complete as u64, count - u64::from(forgotten.0) * 1000);
}

#[test]
fn the_dead_are_forgotten_at_once_or_when_their_last_request_has_ended() {
    let (usages, limits) = (Usages::default(), Limits::new(10, 10, 100));
    request(&usages, 7, 5);
    assert!(usages.is_known(7));
    usages.set_gone(7);
    assert!(!usages.is_known(7) && used(&usages).is_empty());
    let usage = usages.of(8, "eight");
    let entered = usage.enter(true, &limits, || None).expect("room");
    usages.set_gone(8);
    assert!(usages.is_followed(8), "its connections have yet to end");
    usage.leave(entered);
    drop(usage);
    usages.known.lock().tidy(MOST_REMEMBERED);
    assert!(!usages.is_known(8));
    assert_eq!(usages.used().1, Second::NEVER, "nothing is missing");
}

#[test]
fn what_only_a_sandbox_with_many_clients_needs_is_not_remembered() {
    let usages = Usages::default();
    request(&usages, 7, 5);
    usages.of(7, "seven").shares();
    usages.known.lock().tidy(MOST_REMEMBERED);
    assert!(usages.of(7, "seven").shares.get().is_none());
}

#[test]
fn an_identity_that_is_followed_is_known_by_the_id_it_has_now() {
    let usages = Usages::default();
    let held = usages.of(7, "before");
    usages.set_id(7, "after");
    usages.set_id(8, "nobody");
    assert_eq!(usages.id_of(7).as_deref(), Some("after"));
    assert_eq!((usages.followed(), usages.is_followed(8)), (vec![7], false));
    drop(held);
    assert_eq!((usages.is_followed(7), usages.followed()), (false, vec![]));
}

fn client(last: u8) -> Client {
    Client::of([10, 0, 0, last].into())
}

#[test]
fn a_client_is_an_address_or_half_of_an_ipv6_address_whatever_the_port() {
    let at = |text: &str| Client::at(text.as_bytes());
    assert_eq!(at("10.0.0.1:80"), at("10.0.0.1:4711"));
    assert_ne!(at("10.0.0.1:80"), at("10.0.0.2:80"));
    assert_eq!(at("[2001:db8::1]:80"), at("[2001:db8::ffff:2]:81"));
    assert_ne!(at("[2001:db8::1]:80"), at("[2001:db8:0:1::1]:80"));
    assert_eq!(at("[::ffff:10.0.0.1]:80"), at("10.0.0.1:80"));
    assert_eq!((at("@/run/socket"), at(""), at("\u{e9}")), (None, None, None));
}

#[test]
fn a_share_is_a_part_of_the_limit_and_never_less_than_a_few() {
    assert_eq!([share(1_000, 50), share(1_001, 50), share(1_000_000, 1)], [500, 501, 10_000]);
    assert_eq!([share(64, 50), share(20, 50), share(3, 50), share(64, 1)], [32, 16, 3, 16]);
    assert_eq!([share(1_000, 100), share(u32::MAX, 99)], [1_000, 4_252_017_623]);
}

#[test]
fn one_client_gets_its_share_and_no_more_and_others_get_in() {
    let (usage, limits) = (Usage::default(), Limits::new(10_000, 1_000, 50));
    let enter = |last: u8| usage.enter(true, &limits, || Some(client(last)));
    let mut held = Vec::new();
    let refused = loop {
        match enter(1) {
            Ok(entered) => held.push(entered),
            Err(exceeded) => break exceeded,
        }
    };
    assert_eq!((refused, held.len()), (Exceeded::ClientConnections, 500));
    // Another has three quarters of its own share at the least.
    for _ in 0..375 {
        enter(2).expect("another client gets in");
    }
    assert_eq!(enter(2).err(), Some(Exceeded::ClientConnections));
    // A refusal costs nothing, and what is over makes room.
    assert_eq!(enter(1).err(), Some(Exceeded::ClientConnections));
    usage.leave(held.pop().expect("one that is counted"));
    enter(1).expect("there is room again");
}

#[test]
fn a_client_that_holds_requests_without_connections_of_their_own_has_a_share_of_requests() {
    let (usage, limits) = (Usage::default(), Limits::new(1_000, 1_000, 25));
    let enter = |last: u8| usage.enter(false, &limits, || Some(client(last)));
    let held = (0..).take_while(|_| enter(1).is_ok()).count();
    assert_eq!((held, enter(1).err()), (250, Some(Exceeded::ClientRequests)));
    enter(2).expect("another client gets in");
}

#[test]
fn below_a_quarter_of_the_share_and_without_a_share_nobody_asks_who_it_is() {
    let asked = || -> Option<Client> { panic!("somebody asked") };
    let (usage, limits) = (Usage::default(), Limits::new(1_000, 1_000, 50));
    let held: Vec<Entered> = (0..125).map(|_| usage.enter(true, &limits, asked).expect("room")).collect();
    held.into_iter().for_each(|entered| usage.leave(entered));
    let off = Limits::new(1_000, 1_000, 100);
    for _ in 0..1_000 {
        usage.enter(true, &off, asked).expect("room");
    }
    assert_eq!(usage.enter(true, &off, asked).err(), Some(Exceeded::Requests));
}

#[test]
fn counts_come_back_to_nothing_whatever_the_order_of_threads() {
    let (usage, limits) = (Usage::default(), Limits::new(400, 400, 50));
    std::thread::scope(|scope| {
        for thread in 0..4_u8 {
            let (usage, limits) = (&usage, &limits);
            scope.spawn(move || {
                for round in 0..2_000_u32 {
                    let who = client(thread / 2);
                    let entered: Vec<_> = (0..round % 200)
                        .filter_map(|_| usage.enter(true, limits, || Some(who)).ok())
                        .collect();
                    entered.into_iter().for_each(|entered| usage.leave(entered));
                }
            });
        }
    });
    let shares = usage.shares();
    assert!(shares.0.iter().flatten().all(|place| place.load(Ordering::Relaxed) == 0));
}
