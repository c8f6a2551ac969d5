//! What is said of sandboxes in the scenarios about pushes that arrive late, twice and in any order, and what
//! must hold of them.
//!
//! Every version of a sandbox has a UID of its own, so the answer to a request says which version it was
//! served from.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use sandgate_tests::Gateway;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::support::{Seeded, ask, assert_turned_away};

pub(crate) const OBJECTS: usize = 5;

/// One version of one object.
#[derive(Clone)]
pub(crate) struct Said {
    pub(crate) object: usize,
    pub(crate) version: u64,
    pub(crate) state: &'static str,
    pub(crate) at: usize,
}

impl Said {
    /// As it is pushed, of sandboxes at these addresses.
    pub(crate) fn message(&self, sandboxes: &[IpAddr]) -> Value {
        json!({
            "ip": sandboxes[self.at].to_string(), "id": id(self.object), "namespace": "team",
            "name": format!("box-{}", self.object), "uid": format!("v{}", self.version), "owner": "",
            "state": self.state, "resourceVersion": self.version.to_string(),
        })
    }
}

/// What requests call an object.
pub(crate) fn id(object: usize) -> String {
    format!("team--box-{object}")
}

/// What happened, in order: every object lives, sleeps, dies and comes back somewhere else.
pub(crate) fn history(random: &mut Seeded, versions: RangeInclusive<u64>, places: usize) -> Vec<Said> {
    let states = ["running", "running", "running", "paused", "dead", "creating"];
    let say = |version| Said {
        object: random.next(OBJECTS),
        version,
        state: states[random.next(states.len())],
        at: random.next(places),
    };
    versions.map(say).collect()
}

/// The same, as one gateway hears it: some twice, each within a while of its turn.
pub(crate) fn heard(random: &mut Seeded, history: &[Said]) -> Vec<Said> {
    let mut heard: Vec<(usize, Said)> = Vec::new();
    for (turn, said) in history.iter().enumerate() {
        for _ in 0..=usize::from(random.next(4) == 0) {
            heard.push((turn + random.next(40), said.clone()));
        }
    }
    heard.sort_by_key(|(turn, _)| *turn);
    heard.into_iter().map(|(_, said)| said).collect()
}

/// The newest version of each object that a gateway has acknowledged, and how many requests it has answered.
pub(crate) struct Acknowledged {
    newest: [AtomicU64; OBJECTS],
    answers: Semaphore,
}

impl Default for Acknowledged {
    fn default() -> Self {
        Self { newest: Default::default(), answers: Semaphore::new(0) }
    }
}

impl Acknowledged {
    pub(crate) fn note(&self, said: &Said) {
        self.newest[said.object].fetch_max(said.version, Ordering::SeqCst);
    }

    pub(crate) fn of(&self, object: usize) -> u64 {
        self.newest[object].load(Ordering::SeqCst)
    }

    /// Waits for an answer that nobody has waited for before: whoever does so between pushes leaves time for
    /// requests.
    pub(crate) async fn answered(&self) {
        self.answers.acquire().await.expect("never closed").forget();
    }
}

/// Asks for every object in turn until told to stop; returns how many requests were served and refused.
pub(crate) async fn ask_on(
    gateway: &Gateway,
    names: &[String],
    history: &BTreeMap<u64, Said>,
    acknowledged: &Acknowledged,
    stop: &AtomicBool,
) -> (usize, usize) {
    let mut client = gateway.client().await;
    let (mut served, mut refused) = (0, 0);
    for object in (0..OBJECTS).cycle() {
        if stop.load(Ordering::SeqCst) {
            break;
        }
        let floor = acknowledged.of(object);
        let reply = client.send(ask(&id(object))).await.expect("an answer of the gateway");
        acknowledged.answers.add_permits(1);
        if reply.status != 200 {
            assert_turned_away(&reply);
            refused += 1;
            continue;
        }
        served += 1;
        let uid = reply.seen("x-sandbox-uid").concat();
        let version: u64 = uid.strip_prefix('v').and_then(|text| text.parse().ok()).expect("a version");
        let said = &history[&version];
        assert!(version >= floor, "served {version} of {object} when {floor} was known");
        assert_eq!((said.object, said.state), (object, "running"), "version {version}");
        assert_eq!(reply.sandbox(), names[said.at], "version {version}");
    }
    (served, refused)
}

/// The IDs a table has after this history, and the version of each.
pub(crate) fn table_of(history: &[Said]) -> BTreeMap<String, String> {
    let mut newest: BTreeMap<usize, &Said> = BTreeMap::new();
    for said in history {
        newest.insert(said.object, said);
    }
    let living = newest.values().filter(|said| said.state != "dead");
    living.map(|said| (id(said.object), said.version.to_string())).collect()
}

/// The same of a table that a gateway told.
pub(crate) fn versions_in(table: &Value) -> BTreeMap<String, String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let routes = table.as_array().expect("a list").iter();
    routes.map(|route| (text(&route["id"]), text(&route["version"]))).collect()
}
