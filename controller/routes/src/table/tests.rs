use std::collections::BTreeMap;

use crate::served::tests::KEPT;
use crate::{Clash, Invalid, Limits, ObjectKey, Observation, Outcome, RouteTable, State, Version};

const IDS: u64 = 9;

fn key(number: u64) -> ObjectKey {
    ObjectKey::new("p", "n", &format!("o{number}")).unwrap()
}

fn id(number: u64) -> String {
    format!("id-{number}")
}

fn version(number: u64) -> Version {
    number.to_string().parse().unwrap()
}

pub(crate) fn observed(object: u64, id_number: u64, at: u64) -> Observation {
    Observation {
        key: key(object),
        id: id(id_number),
        uid: format!("uid-{object}"),
        owner: String::new(),
        state: State::Paused,
        version: version(at),
        ip: None,
        token: None,
        traffic_token: None,
        require_traffic_auth: false,
        clash: Clash::Rank,
        created: None,
        ip_is_claimed: false,
        own_id: false,
    }
}

/// Objects move between IDs, claim them together, go and come back, many times over, and the map is rebuilt
/// again and again. With few bits of hash many IDs share one, and only the first to come can be claimed.
fn assert_ids_are_told_apart(kept_bits: u64, rounds: u64) {
    KEPT.set(kept_bits);
    let (writer, reader) = RouteTable::new(Limits::default());
    let hash = |number: u64| writer.with(|_, shared| shared.served.hash(id(number).as_bytes()));
    let hashes: BTreeMap<u64, u64> = (0..IDS).map(|number| (number, hash(number))).collect();
    // Of the claimants of an ID the one with the smallest UID is shown: none has an age or the ID as its
    // name.
    let mut id_of: BTreeMap<u64, u64> = BTreeMap::new();
    let holder = |id_of: &BTreeMap<u64, u64>, id: u64| {
        id_of.iter().filter(|(_, other)| **other == id).map(|(object, _)| *object).min()
    };
    let mut random = 1u64;
    for at in 1..=rounds {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (object, new_id) = ((random >> 33) % 6, (random >> 43) % IDS);
        let is_free = |other: u64| other == new_id || hashes[&other] != hashes[&new_id];
        if random >> 62 == 0 {
            id_of.remove(&object);
            writer.delete(&key(object), Some(version(at)));
        } else if !id_of.values().all(|&other| is_free(other)) {
            let outcome = writer.apply(observed(object, new_id, at));
            assert_eq!(outcome, Outcome::Invalid(Invalid::Clash), "at {at}");
        } else {
            let before = holder(&id_of, new_id);
            id_of.insert(object, new_id);
            let after = holder(&id_of, new_id);
            let outcome = match (before, after) {
                (Some(before), Some(after)) if after == object && before != object => {
                    Outcome::Takeover { displaced: key(before) }
                }
                (_, Some(after)) if after != object => Outcome::Displaced { by: Some(key(after)) },
                _ => Outcome::Applied,
            };
            assert_eq!(writer.apply(observed(object, new_id, at)), outcome, "at {at}");
        }
        for number in 0..IDS {
            let found = reader.get(&id(number)).map(|route| route.key().to_key());
            assert_eq!(found, holder(&id_of, number).map(key), "id {number} at {at}");
        }
        assert_eq!(reader.counts().objects, id_of.len() as u64, "at {at}");
    }
    KEPT.set(u64::MAX);
}

#[test]
fn ids_are_told_apart_through_many_rebuilds_of_the_map() {
    assert_ids_are_told_apart(u64::MAX, if cfg!(miri) { 15 } else { 30_000 });
}

#[test]
fn of_ids_that_share_a_hash_one_is_served_and_the_others_are_refused() {
    for kept_bits in [0, 1, 3] {
        assert_ids_are_told_apart(kept_bits, if cfg!(miri) { 15 } else { 5_000 });
    }
}
