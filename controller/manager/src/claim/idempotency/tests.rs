use std::time::Duration;

use sandgate_cache::{Key, Viewed as _};
use serde_json::Value;

use super::marker::{name_of, new, renewed, request_hash, taken_over};
use super::*;
use crate::claim::write::Mark;
use crate::{Extensions, Network};

fn read(object: &Value) -> Result<Marker, Error> {
    let mut object = object.clone();
    object["metadata"]["uid"] = "u".into();
    object["metadata"]["resourceVersion"] = "1".into();
    Marker::read(Arc::new(ConfigMapFacts::read(object.to_string().as_bytes()).unwrap()))
}

#[test]
fn a_marker_is_read_as_it_was_written() {
    let at = "2026-11-18T10:00:00.25Z".parse().unwrap();
    let key = key("system", "abc");
    assert_eq!(&*key.name, "sandgate-create-abc");
    let mut object = new(&key, "me", "request", "lock", at);
    let marker = read(&object).unwrap();
    assert_eq!((&*marker.request, &*marker.lock), ("request", "lock"));
    assert_eq!(marker.mark(), Mark { name: "abc".to_owned(), uid: "u".into() });
    assert_eq!((marker.at, marker.state), (at, State::Open));
    let reference = Reference { key: Key::new("ns", "x"), uid: "u-1".into() };
    for state in [State::Failed, State::Done(reference), State::Open] {
        for (name, value) in closed(&state)["data"].as_object().unwrap() {
            object["data"][name] = value.clone();
        }
        assert_eq!(read(&object).unwrap().state, state);
    }
    let later = "2026-11-18T10:00:03Z".parse().unwrap();
    object["data"]["at"] = renewed(later)["data"]["at"].clone();
    let marker = read(&object).unwrap();
    assert_eq!((marker.at, &*marker.lock, marker.state), (later, "lock", State::Open));
    object["data"]["state"] = "odd".into();
    assert_eq!(read(&object).unwrap_err().kind, ErrorKind::Internal);
    assert_eq!(taken_over("l2", at)["data"]["sandbox"], Value::Null);
}

#[test]
fn names_differ_by_owner_and_key_and_cannot_be_made_to_meet() {
    let names =
        [name_of("a", "b"), name_of("a", "c"), name_of("b", "b"), name_of("ab", ""), name_of("", "ab")];
    let mut distinct = names.to_vec();
    distinct.sort();
    distinct.dedup();
    assert_eq!(distinct.len(), names.len());
    assert!(names.iter().all(|name| name.len() == 32));
}

#[test]
fn the_hash_of_a_request_depends_on_every_field_but_the_key() {
    let plain = NewSandbox { template: "base".to_owned(), ..NewSandbox::default() };
    let changes: [fn(&mut NewSandbox); 11] = [
        |it| it.template = "other".to_owned(),
        |it| it.timeout = Some(Duration::from_secs(1)),
        |it| it.auto_pause = true,
        |it| it.auto_resume = true,
        |it| it.metadata = [("a".to_owned(), "b".to_owned())].into(),
        |it| it.labels = [("a".to_owned(), "b".to_owned())].into(),
        |it| it.env_vars = [("a".to_owned(), "b".to_owned())].into(),
        |it| it.allow_internet_access = Some(true),
        |it| it.network = Some(Network::default()),
        |it| it.extensions.return_ip = true,
        |it| it.extensions = Extensions { name: Some("x".to_owned()), ..Extensions::default() },
    ];
    let mut hashes: Vec<_> = changes
        .iter()
        .map(|change| {
            let mut wanted = plain.clone();
            change(&mut wanted);
            request_hash(&wanted)
        })
        .collect();
    hashes.push(request_hash(&plain));
    let count = hashes.len();
    hashes.sort();
    hashes.dedup();
    assert_eq!(hashes.len(), count);
    let keyed = NewSandbox { idempotency_key: Some("k".to_owned()), ..plain.clone() };
    assert_eq!(request_hash(&keyed), request_hash(&plain));
}
