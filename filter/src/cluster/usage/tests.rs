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
    let before = Arc::downgrade(&one);
    drop(one);
    assert!(!Weak::ptr_eq(&before, &Arc::downgrade(&usages.of(1, "one"))));
    for identity in 3..10_000 {
        usages.of(identity, "id");
    }
    assert!(usages.usages.lock().len() < 100, "{} usages that nobody has", usages.usages.lock().len());
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
    usages.set_id(7, "again");
    assert_eq!((usages.id_of(7), usages.followed()), (None, vec![]));
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
