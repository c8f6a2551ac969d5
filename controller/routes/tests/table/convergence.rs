//! Delivery: messages of true histories, reordered, doubled, some lost, by one writer or several at once.
//!
//! Whose an ID is is a matter of who lives, never of delivery, once the time of those who went is over.

use std::collections::BTreeMap;
use std::thread;

use proptest::prelude::*;
use sandgate_routes::{Clash, Filter, ObjectKey, Observation, RouteReader, RouteTable, State};

use crate::fixture::{Bench, cases, sandbox, table, version};

/// What happened to one object, in order: states with growing versions, dead ones among them, and new lives
/// after them.
fn any_history(object: usize) -> impl Strategy<Value = Vec<Observation>> {
    let event = (1u64..4, prop::sample::select(State::ALL.to_vec()), 0u8..2);
    prop::collection::vec(event, 1..8).prop_map(move |events| {
        let (mut at, mut life) = (0, 0);
        let mut history = Vec::new();
        for (step, state, id) in events {
            at += step;
            let mut observed = sandbox(&format!("o{object}"))
                .called(&format!("o{object}-{id}"))
                .with_uid(&format!("o{object}-life-{life}"))
                .being(state);
            observed.0.owner = format!("o{object} at {at}");
            life += u64::from(state == State::Dead);
            history.push(observed.at(at));
        }
        history
    })
}

fn any_histories() -> impl Strategy<Value = Vec<Vec<Observation>>> {
    (any_history(0), any_history(1), any_history(2), any_history(3)).prop_map(|(a, b, c, d)| vec![a, b, c, d])
}

/// Every message at least once, some twice, in any order.
fn any_delivery() -> impl Strategy<Value = (Vec<Vec<Observation>>, Vec<Observation>)> {
    (any_histories(), any::<prop::sample::Index>()).prop_flat_map(|(histories, extra)| {
        let mut messages = histories.concat();
        let doubled = messages[..=extra.index(messages.len())].to_vec();
        messages.extend(doubled);
        (Just(histories), Just(messages).prop_shuffle())
    })
}

/// IDs that objects of two namespaces claim, as their own names and otherwise.
const RIVAL_IDS: [&str; 4] = ["x", "m--o0", "n--o1", "y"];

/// Histories of objects in two namespaces that claim each other's IDs, and every message in some order, none
/// lost.
fn any_rivalry() -> impl Strategy<Value = (Vec<Vec<Observation>>, Vec<Observation>)> {
    // Each life of an object has an age of its own.
    let ages = prop::collection::vec(1u64..6, 32);
    let ids = prop::collection::vec(0usize..RIVAL_IDS.len(), 32);
    (any_histories(), ages, ids)
        .prop_map(|(histories, ages, ids)| {
            let claim = |(object, history): (usize, Vec<Observation>)| {
                let namespace = if object % 2 == 0 { "m" } else { "n" };
                let claims = history.into_iter().enumerate().map(|(at, observed)| {
                    let name = observed.key.name().to_owned();
                    let life: usize = observed.uid.rsplit('-').next().unwrap().parse().unwrap();
                    let key = ObjectKey::new("kruise", namespace, &name).unwrap();
                    let id = RIVAL_IDS[ids[(object * 8 + at) % ids.len()]].to_owned();
                    Observation {
                        own_id: key.has_own_id(&id),
                        key,
                        id,
                        created: Some(ages[object * 8 + life]),
                        ..observed
                    }
                });
                claims.collect::<Vec<_>>()
            };
            histories.into_iter().enumerate().map(claim).collect::<Vec<_>>()
        })
        .prop_flat_map(|histories| {
            let messages = histories.concat();
            (Just(histories), Just(messages).prop_shuffle())
        })
}

fn any_order() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(any::<u64>(), 1..16)
}

type Seen = BTreeMap<String, (String, String, State, String)>;

fn seen(reader: &RouteReader) -> Seen {
    let describe = |route: &sandgate_routes::Route| {
        (route.uid().to_string(), route.owner().to_string(), route.state(), route.version().to_string())
    };
    let page = reader.page(&Filter::default(), None, 1_000);
    page.routes.iter().map(|route| (route.id().to_owned(), describe(route))).collect()
}

/// What a table must show that has heard of all of it.
fn truth(histories: &[Vec<Observation>]) -> Seen {
    let last = histories.iter().filter_map(|history| history.last()).filter(|last| last.state != State::Dead);
    last.map(|o| (o.id.clone(), (o.uid.clone(), o.owner.clone(), o.state, o.version.to_string()))).collect()
}

fn assert_dead_stay_dead(table: &Bench, delivered: &[Observation]) {
    for route in &table.reader.page(&Filter::default(), None, 1_000).routes {
        let newest_death = delivered
            .iter()
            .filter(|observed| observed.state == State::Dead && route.key() == observed.key)
            .map(|observed| &observed.version)
            .max();
        assert!(
            newest_death.is_none_or(|death| *death < route.version()),
            "{route:?} is back from {newest_death:?}"
        );
    }
}

const CASES: u32 = if cfg!(miri) { 2 } else { 200 };

proptest! {
    #![proptest_config(cases(CASES))]

    #[test]
    fn all_messages_in_any_order_make_the_same_table((histories, messages) in any_delivery()) {
        let table = table();
        for message in &messages {
            table.writer.apply(message.clone());
        }
        prop_assert_eq!(seen(&table.reader), truth(&histories));
    }

    #[test]
    fn where_nobody_shares_an_id_any_order_makes_the_same_table((histories, messages) in any_delivery()) {
        let contest = |observed: &Observation| {
            let id = observed.id.rsplit('-').next().unwrap().to_owned();
            Observation { id, own_id: false, clash: Clash::Refuse, ..observed.clone() }
        };
        let table = table();
        for message in &messages {
            table.writer.apply(contest(message));
        }
        let last = histories.iter().filter_map(|history| history.last());
        let live: Vec<_> = last.filter(|last| last.state != State::Dead).map(contest).collect();
        for id in ["0", "1"] {
            let claimants: Vec<_> = live.iter().filter(|live| live.id == id).collect();
            let found = table.reader.get(id).map(|route| (route.key().to_key(), route.is_ambiguous()));
            let servable = claimants.iter().filter(|o| matches!(o.state, State::Running | State::Paused)).count();
            // Histories are in the order of their objects' UIDs, which is their rank.
            let expected = claimants.first().map(|first| (first.key.clone(), servable > 1));
            prop_assert_eq!(found, expected, "{}", id);
        }
    }

    #[test]
    fn replicas_agree_on_whose_an_id_is_in_any_order((histories, messages) in any_rivalry(), other in any_order()) {
        let replicas = [table(), table()];
        let mut shuffled = messages.clone();
        let place = |message: &Observation| usize::try_from(message.version.get()).unwrap() % other.len();
        shuffled.sort_by_key(|message| other[place(message)]);
        for (replica, messages) in replicas.iter().zip([&messages, &shuffled]) {
            for message in messages {
                replica.writer.apply_in(&crate::fixture::everything(), message.clone());
            }
            replica.pass(600);
            replica.writer.sweep();
        }
        let last = histories.iter().filter_map(|history| history.last());
        let live: Vec<_> = last.filter(|last| last.state != State::Dead).collect();
        for id in RIVAL_IDS {
            let rank = |o: &&&Observation| {
                (o.id != format!("{}--{}", o.key.namespace(), o.key.name()), o.created, o.uid.clone())
            };
            let first = live.iter().filter(|live| live.id == id).min_by_key(rank).map(|first| first.key.clone());
            for replica in &replicas {
                let found = replica.reader.get(id).map(|route| route.key().to_key());
                prop_assert_eq!(found, first.clone(), "{}", id);
            }
        }
        prop_assert_eq!(replicas[0].reader.digest(), replicas[1].reader.digest());
    }

    #[test]
    fn no_stale_message_makes_a_dead_object_visible_in_its_tombstone_s_life(
        (_, messages) in any_delivery(), lost in prop::collection::vec(any::<bool>(), 64), seconds in 0u64..20,
    ) {
        let table = table();
        let mut delivered = Vec::new();
        for (message, lost) in messages.into_iter().zip(lost) {
            if lost {
                continue;
            }
            table.writer.apply(message.clone());
            delivered.push(message);
            table.pass(seconds.min(590 / 64));
            table.writer.sweep();
            assert_dead_stay_dead(&table, &delivered);
        }
    }

    #[test]
    fn a_relist_makes_up_for_whatever_was_lost(
        (histories, messages) in any_delivery(), lost in prop::collection::vec(any::<bool>(), 64), before in any::<prop::sample::Index>(),
    ) {
        let table = table();
        let survivors: Vec<_> = messages.into_iter().zip(lost).filter(|(_, lost)| !lost).map(|(m, _)| m).collect();
        let (early, late) = survivors.split_at(before.index(survivors.len() + 1));
        early.iter().for_each(|message| drop(table.writer.apply(message.clone())));
        // The list is of the end of all histories; what comes late is of their past.
        let mut relist = table.writer.begin_relist(crate::fixture::everything(), version(1_000));
        for last in histories.iter().filter_map(|history| history.last()).filter(|last| last.state != State::Dead) {
            relist.observe(last.clone());
        }
        relist.commit();
        prop_assert_eq!(seen(&table.reader), truth(&histories));
        for message in late {
            table.writer.apply(message.clone());
        }
        prop_assert_eq!(seen(&table.reader), truth(&histories));
    }

    #[test]
    fn writers_at_once_end_as_one_writer((histories, messages) in any_delivery()) {
        let (writer, reader) = RouteTable::new(Default::default());
        thread::scope(|scope| {
            for share in messages.chunks(messages.len().div_ceil(3)) {
                let writer = writer.clone();
                scope.spawn(move || share.iter().for_each(|message| drop(writer.apply(message.clone()))));
            }
        });
        prop_assert_eq!(seen(&reader), truth(&histories));
    }
}
