//! Who is served after the end of another, by what readers see: nothing here knows how an ID is kept.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use proptest::prelude::*;
use sandgate_routes::{Clash, Filter, Limits, ObjectKey, Observation, Relist, Route, Scope, State};

use crate::fixture::{Bench, cases, table_with, version};

const LIFETIME: u64 = 10;
const IDS: [&str; 3] = ["x", "m--a", "n--a"];
const OBJECTS: [(&str, &str); 5] = [("m", "a"), ("m", "b"), ("n", "a"), ("n", "b"), ("o", "c")];

#[derive(Clone, Debug)]
enum Message {
    Push(Observation),
    Event(Observation),
    DeleteIn(usize, u64),
    DeletePush(usize, u64),
    Begin(u64),
    Listed(Observation),
    Commit,
    Reached(u64),
    Expire(usize),
    Pass(u64),
    Sweep,
}

fn key(object: usize) -> ObjectKey {
    let (namespace, name) = OBJECTS[object];
    ObjectKey::new("kruise", namespace, name).unwrap()
}

fn everything() -> Scope {
    Scope::new("kruise", None, "")
}

prop_compose! {
    fn any_observation()(
        object in 0..OBJECTS.len(),
        id in 0..IDS.len(),
        life in 0u64..3,
        at in 1u64..40,
        state in prop_oneof![8 => Just(State::Running), 1 => Just(State::Paused), 1 => Just(State::Dead)],
        knows_age in prop::bool::weighted(0.8),
        refuses in prop::bool::weighted(0.15),
    ) -> Observation {
        let key = key(object);
        Observation {
            own_id: key.has_own_id(IDS[id]),
            id: IDS[id].to_owned(),
            uid: format!("{object}-{life}"),
            owner: String::new(),
            state,
            version: version(at),
            ip: Some([10, 0, 0, 1].into()),
            ip_is_claimed: false,
            // Each life has an age of its own.
            created: knows_age.then_some(1 + (object as u64 * 7 + life * 5) % 11),
            token: None,
            traffic_token: None,
            require_traffic_auth: false,
            clash: if refuses { Clash::Refuse } else { Clash::Rank },
            key,
        }
    }
}

fn any_message() -> impl Strategy<Value = Message> {
    let object = || 0..OBJECTS.len();
    prop_oneof![
        6 => any_observation().prop_map(|o| Message::Push(Observation { created: None, ..o })),
        10 => any_observation().prop_map(Message::Event),
        4 => (object(), 1u64..40).prop_map(|(object, at)| Message::DeleteIn(object, at)),
        2 => (object(), 1u64..40).prop_map(|(object, at)| Message::DeletePush(object, at)),
        2 => (1u64..40).prop_map(Message::Begin),
        6 => any_observation().prop_map(Message::Listed),
        2 => Just(Message::Commit),
        2 => (1u64..40).prop_map(Message::Reached),
        1 => object().prop_map(Message::Expire),
        3 => (1u64..5).prop_map(Message::Pass),
        3 => Just(Message::Sweep),
    ]
}

/// Whose a route is, as far as an heir is concerned: provider and namespace.
type Home = (String, String);

fn home(route: &Route) -> Home {
    (route.key().provider().to_owned(), route.key().namespace().to_owned())
}

struct Witness {
    table: Bench,
    relist: Option<Relist>,
    now: u64,
    /// Who was served last under an ID, and lives and claims it still.
    last: HashMap<String, (u64, Home)>,
    /// Whose the last was that ended so, and when.
    ended: HashMap<String, (Home, u64)>,
}

impl Witness {
    fn new() -> Self {
        let limits = Limits {
            tombstone_lifetime: Duration::from_secs(LIFETIME),
            push_confirmation: Duration::from_secs(3),
            push_lease: Some(Duration::from_secs(4)),
            ..Limits::default()
        };
        Self { table: table_with(limits), relist: None, now: 0, last: HashMap::new(), ended: HashMap::new() }
    }

    fn send(&mut self, message: Message) {
        let writer = &self.table.writer;
        match message {
            Message::Push(observed) => drop(writer.apply(observed)),
            Message::Event(observed) => drop(writer.apply_in(&everything(), observed)),
            Message::DeleteIn(object, at) => {
                writer.delete_in(&everything(), &key(object), None, Some(version(at)));
            }
            Message::DeletePush(object, at) => drop(writer.delete(&key(object), Some(version(at)))),
            Message::Begin(at) => self.relist = Some(writer.begin_relist(everything(), version(at))),
            Message::Listed(observed) => {
                if let Some(relist) = &mut self.relist {
                    relist.observe(observed);
                }
            }
            Message::Commit => {
                if let Some(relist) = self.relist.take() {
                    relist.commit();
                }
            }
            Message::Reached(at) => writer.reached(&everything(), &version(at)),
            Message::Expire(object) => {
                for at in 1..40 {
                    writer.expire(&key(object), &version(at));
                }
            }
            Message::Pass(seconds) => {
                self.now += seconds;
                self.table.pass(seconds);
            }
            Message::Sweep => drop(writer.sweep()),
        }
    }

    /// Looks at what is served and compares it with what was. Where `many` may have changed at once it cannot
    /// be told whether somebody was served in between and ended too, whose heirs may follow: nobody is judged
    /// then, until the next end.
    fn look(&mut self, many: bool) {
        let shown = self.table.reader.page(&Filter::default(), None, 100).routes;
        let waiting = self.table.writer.displaced(100);
        let claims: HashSet<_> =
            shown.iter().chain(&waiting).map(|route| (route.id().to_owned(), route.identity())).collect();
        for (id, (_, home)) in
            self.last.extract_if(|id, (identity, _)| !claims.contains(&(id.clone(), *identity)))
        {
            self.ended.insert(id, (home, self.now));
        }
        if many {
            self.ended.clear();
        }
        for route in shown.iter().filter(|route| !route.is_ambiguous()) {
            let (id, identity) = (route.id(), route.identity());
            let is_new = self.last.get(id).is_none_or(|(last, _)| *last != identity);
            if is_new && let Some((dead, at)) = self.ended.get(id) {
                let is_heir = *dead == home(route) || route.key().to_key().has_own_id(id);
                let is_free = self.now >= at + LIFETIME;
                let now = self.now;
                assert!(is_heir || is_free, "{id}, of {dead:?} until {at}, is at {now} {route:?}");
            }
            self.last.insert(id.to_owned(), (identity, home(route)));
        }
    }
}

const CASES: u32 = if cfg!(miri) { 2 } else { 300 };
const STEPS: usize = if cfg!(miri) { 25 } else { 120 };

proptest! {
    #![proptest_config(cases(CASES))]

    #[test]
    fn nobody_of_another_namespace_is_served_in_the_time_of_the_dead_unless_it_is_its_own_name(
        messages in prop::collection::vec(any_message(), 1..STEPS),
    ) {
        let mut witness = Witness::new();
        for message in messages {
            let many = matches!(message, Message::Commit | Message::Reached(_) | Message::Sweep);
            witness.send(message);
            witness.look(many);
        }
    }
}
