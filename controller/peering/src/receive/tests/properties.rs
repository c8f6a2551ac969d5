//! Arbitrary bytes never panic, and never make a route when they are refused.

use proptest::prelude::*;
use sandgate_routes::{Limits, Outcome, RouteTable};
use serde_json::{Map, Value, json};

use crate::RouteMessage;
use sandgate_routes::AddressPolicy;

/// Values that are nearly right.
fn value() -> impl Strategy<Value = Value> {
    let texts = prop::sample::select(vec![
        "",
        "team",
        "demo",
        "a/b",
        "running",
        "dead",
        "paused",
        "0",
        "01",
        "7",
        "99999999999999999999999",
        "10.0.0.1",
        "127.0.0.1",
        "169.254.169.254",
        "::1",
        "fd00::1",
        "\u{0}",
        "ünï",
    ]);
    prop_oneof![
        8 => texts.prop_map(Value::from),
        1 => any::<String>().prop_map(Value::from),
        1 => Just(Value::Null),
        1 => any::<i64>().prop_map(Value::from),
        1 => any::<bool>().prop_map(Value::from),
        1 => Just(json!([])),
        1 => Just(json!({})),
    ]
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    let keys = prop::sample::select(vec![
        "ip",
        "id",
        "namespace",
        "name",
        "uid",
        "owner",
        "state",
        "resourceVersion",
        "accessToken",
        "trafficAccessToken",
        "requireTrafficAuth",
        "more",
    ]);
    let object = prop::collection::vec((keys, value()), 0..14).prop_map(|pairs| {
        let object: Map<String, Value> =
            pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        Value::Object(object).to_string().into_bytes()
    });
    let object = object.boxed();
    prop_oneof![
        6 => object.clone(),
        1 => prop::collection::vec(any::<u8>(), 0..200),
        2 => (object, any::<prop::sample::Index>(), any::<u8>()).prop_map(|(mut body, at, byte)| {
            let at = at.index(body.len());
            body[at] = byte;
            body
        }),
    ]
}

#[test]
fn whether_a_pushed_id_is_the_objects_own_is_its_providers_rule() {
    for (provider, own, other) in [("opensandbox", "demo", "box-1"), ("openkruise", "team-a--demo", "demo")] {
        let pushed = &super::fixture::pushed(provider);
        for (id, is_own) in [(own, true), ("team-a--demo", true), (other, false)] {
            let message = json!({ "id": id, "namespace": "team-a", "name": "demo", "resourceVersion": "1" });
            let message = RouteMessage::parse(message.to_string().as_bytes()).unwrap();
            let Ok(Some(observation)) = message.observation(pushed) else { panic!("a route") };
            assert_eq!(observation.own_id, is_own, "{provider} {id}");
        }
    }
}

proptest! {
    #[test]
    fn what_is_refused_changes_nothing_and_what_is_taken_is_within_the_ranges(
        bodies in prop::collection::vec(body(), 1..20)
    ) {
        let (writer, reader) = RouteTable::new(Limits::default());
        let policy = AddressPolicy::default();
        let pushed = super::fixture::pushed("openkruise");
        for body in bodies {
            let before = reader.counts();
            match RouteMessage::parse(&body).and_then(|message| message.observation(&pushed)) {
                Err(_) | Ok(None) => {}
                Ok(Some(mut observation)) => {
                    policy.screen(&mut observation);
                    let outcome = writer.apply(observation);
                    if matches!(outcome, Outcome::Invalid(_)) {
                        prop_assert_eq!((reader.counts().objects, reader.counts().tombstones), (before.objects, before.tombstones));
                    }
                    continue;
                }
            }
            prop_assert_eq!(reader.counts(), before);
        }
        for route in &reader.page(&Default::default(), None, 100).routes {
            prop_assert!(route.ip().is_none_or(|ip| policy.admits(ip)));
            prop_assert!(!route.key().namespace().is_empty());
        }
    }

    #[test]
    fn a_message_reads_as_it_was_written(
        [ip, id, name, access_token, traffic_access_token] in any::<[String; 5]>(), require_traffic_auth: bool
    ) {
        let message = RouteMessage {
            ip, id, name, access_token, traffic_access_token, require_traffic_auth, ..RouteMessage::default()
        };
        let text = serde_json::to_vec(&message).unwrap();
        prop_assert_eq!(RouteMessage::parse(&text), Ok(message));
    }
}
