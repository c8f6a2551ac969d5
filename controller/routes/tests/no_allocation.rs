//! A lookup allocates nothing. A test of its own: it counts every allocation of its thread.

#![forbid(unsafe_code)]

use sandgate_routes::{Clash, Limits, ObjectKey, Observation, RouteTable, Secret, State};

fn observation(number: u32) -> Observation {
    let name = format!("sandbox-{number:040}");
    Observation {
        key: ObjectKey::new("kruise", "team-0042", &name).unwrap(),
        id: format!("team-0042--{name}"),
        uid: format!("8c1f03a2-0b4d-4e5f-9a6b-{number:012x}"),
        owner: "alice".into(),
        state: State::Running,
        version: "12345".parse().unwrap(),
        ip: Some("2001:db8::8a2e:370:7334".parse().unwrap()),
        token: Some(Secret::new("s3cret")),
        traffic_token: None,
        require_traffic_auth: false,
        clash: Clash::Rank,
        created: None,
        ip_is_claimed: false,
        own_id: false,
    }
}

#[test]
fn a_lookup_and_all_a_request_asks_of_a_route_allocate_nothing() {
    let (writer, reader) = RouteTable::new(Limits::default());
    let ids: Vec<_> = (0..1_000).map(|number| observation(number).id).collect();
    for number in 0..1_000 {
        writer.apply(observation(number));
    }
    writer.set_ready();
    // A thread's first pin makes its place among the readers.
    assert!(reader.pin().get(&ids[0]).is_some());

    let lookups = allocation_counter::measure(|| {
        for id in &ids {
            assert!(reader.is_ready());
            let pin = reader.pin();
            let route = pin.get(id).unwrap();
            assert_eq!(route.state(), State::Running);
            assert!(route.token().unwrap().matches(b"s3cret"));
            assert!(route.uid().starts_with("8c1f03a2-"));
            assert_eq!(route.key().namespace(), "team-0042");
            assert_eq!(route.authority(8888).as_str().len(), "[2001:db8::8a2e:370:7334]:8888".len());
            assert!(route.version() > "1".parse().unwrap());
            assert!(pin.get("no-such-id").is_none());
        }
    });
    assert_eq!((lookups.count_total, lookups.bytes_total), (0, 0));

    let counted = allocation_counter::measure(|| drop(reader.get(&ids[0])));
    assert!(counted.count_total > 0, "the counter counts");
}
