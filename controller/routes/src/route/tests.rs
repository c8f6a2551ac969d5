use super::*;
use crate::ObjectKey;
use proptest::prelude::*;

fn observation() -> Observation {
    Observation {
        key: ObjectKey::new("kruise", "team-a", "demo").unwrap(),
        id: "team-a--demo".into(),
        uid: "8c1f03a2-0b4d-4e5f-9a6b-7c8d9e0f1a2b".into(),
        owner: "alice".into(),
        state: State::Running,
        version: "42".parse().unwrap(),
        ip: Some("10.1.2.3".parse().unwrap()),
        token: Some(Secret::new("s3cret")),
        traffic_token: Some(Secret::new("tr4ffic")),
        require_traffic_auth: true,
        clash: Clash::Rank,
        created: None,
        ip_is_claimed: false,
        own_id: false,
    }
}

fn assert_same(route: &Route, observed: &Observation) {
    assert_eq!(route.key(), observed.key);
    assert_eq!(route.id(), observed.id);
    assert_eq!(route.uid(), observed.uid.as_str());
    assert_eq!(route.owner(), observed.owner.as_str());
    assert_eq!(route.version(), observed.version);
    assert_eq!(route.ip(), observed.ip);
    assert_eq!(route.require_traffic_auth(), observed.require_traffic_auth);
    assert_eq!(route.token(), observed.token.as_ref());
    assert_eq!(route.traffic_token(), observed.traffic_token.as_ref());
}

#[test]
fn a_route_says_what_was_observed() {
    let observed = observation();
    let route = Route::build(observed.clone(), 7, 3, 99);
    assert_same(&route, &observed);
    assert_eq!((route.identity(), route.slot(), route.id_hash()), (7, 3, 99));
    assert_eq!(route.state(), State::Running);
    assert!(route.token().unwrap().matches(b"s3cret"));
    assert!(route.traffic_token().unwrap().matches(b"tr4ffic"));
    assert_eq!(route.authority(49983).as_str(), "10.1.2.3:49983");
}

#[test]
fn an_ipv6_address_is_bracketed() {
    let ip = Some("2001:db8::1".parse().unwrap());
    let route = Route::build(Observation { ip, ..observation() }, 1, 0, 0);
    assert_eq!(route.authority(80).as_str(), "[2001:db8::1]:80");
}

#[test]
fn running_without_an_address_is_creating() {
    let route = Route::build(Observation { ip: None, ..observation() }, 1, 0, 0);
    assert_eq!((route.state(), route.ip()), (State::Creating, None));
    let paused = Observation { ip: None, state: State::Paused, ..observation() };
    assert_eq!(Route::build(paused, 1, 0, 0).state(), State::Paused);
}

#[test]
fn printing_a_route_does_not_print_its_token() {
    let printed = format!("{:?}", Route::build(observation(), 1, 0, 0));
    assert!(printed.contains("team-a--demo") && printed.contains("***"), "{printed}");
    assert!(!printed.contains("s3cret") && !printed.contains("tr4ffic"), "{printed}");
}

#[test]
fn a_route_with_another_traffic_token_says_something_else() {
    let build = |token: Option<Secret>, traffic_token: Option<&str>| {
        let traffic_token = traffic_token.map(Secret::new);
        Route::build(Observation { token, traffic_token, ..observation() }, 1, 0, 0)
    };
    let tokens = || [None, Some(Secret::new("t")), Some(Secret::secure_access("t"))];
    let all = tokens().into_iter().flat_map(|token| [None, Some("t"), Some("u")].map(|t| (token.clone(), t)));
    let all: Vec<_> = all.collect();
    for one in &all {
        for other in &all {
            let (a, b) = (build(one.0.clone(), one.1), build(other.0.clone(), other.1));
            assert_eq!(a.is_same_observation(&b), one == other, "{one:?} {other:?}");
        }
    }
}

#[test]
fn a_route_with_a_sixty_byte_id_is_one_piece_of_168_bytes() {
    assert_eq!(size_of::<Route>(), 168);
    let observed = Observation {
        key: ObjectKey::new("agent-sandbox", "team-0042", &"n".repeat(49)).unwrap(),
        id: format!("team-0042--{}", "n".repeat(49)),
        token: Some(Secret::new(observation().uid)),
        ..observation()
    };
    assert_eq!(observed.id.len(), 60);
    let route = Route::build(observed.clone(), 1, 0, 0);
    assert!(matches!(route.text, Text::Inside(_)));
    assert_same(&route, &observed);
    let observed = Observation {
        key: ObjectKey::new("kruise", "team-0042", &"n".repeat(49)).unwrap(),
        owner: observed.uid.clone(),
        ..observed
    };
    let route = Route::build(observed.clone(), 1, 0, 0);
    assert!(matches!(route.text, Text::Inside(_)), "an owner that is a UUID fits too");
    assert_same(&route, &observed);
}

#[test]
fn everything_at_its_limit_still_fits() {
    let observed = Observation {
        key: ObjectKey::new(&"p".repeat(63), &"s".repeat(63), &"n".repeat(253)).unwrap(),
        id: "i".repeat(253),
        uid: "u".repeat(400),
        owner: "o".repeat(255),
        version: u64::MAX.to_string().parse().unwrap(),
        ip: Some("2001:db8::1".parse().unwrap()),
        ..observation()
    };
    assert_eq!(observed.check(), Ok(()));
    assert_same(&Route::build(observed.clone(), 1, 0, 0), &observed);
}

prop_compose! {
    // Parts that overlap with the ID in every way: as prefix, as suffix, both, neither, and longer than it.
    fn any_observation()(
        parts in prop::array::uniform3("[ab.-]{1,40}"),
        namespace in "[ab-]{0,10}",
        id in prop_oneof!["[ab.-]{1,90}", Just("=".to_owned()), Just("n".to_owned())],
        owner in prop_oneof!["[ a-zé]{0,40}", Just(observation().uid)],
        uuid in any::<bool>(),
        version in 1u64..,
        ip in prop::option::of(any::<IpAddr>()),
        (paused, auth) in any::<(bool, bool)>(),
        (token, traffic_token) in any::<(Option<String>, Option<String>)>(),
    ) -> Observation {
        let [provider, name, uid] = parts;
        let id = match id.as_str() {
            "=" => format!("{namespace}--{name}"),
            "n" => name.clone(),
            _ => id,
        };
        Observation {
            key: ObjectKey::new(&provider, &namespace, &name).unwrap(),
            id,
            uid: if uuid { observation().uid } else { uid },
            owner,
            state: if paused { State::Paused } else { State::Running },
            version: version.to_string().parse().unwrap(),
            ip,
            token: token.map(Secret::secure_access),
            traffic_token: traffic_token.map(Secret::new),
            require_traffic_auth: auth,
            clash: Clash::Rank,
            created: None,
            ip_is_claimed: false,
            own_id: false,
        }
    }
}

proptest! {
    #[test]
    fn whatever_is_packed_comes_back(observed in any_observation()) {
        assert_same(&Route::build(observed.clone(), 1, 0, 0), &observed);
    }
}
