//! Three gateways under churn: pushes arrive late, twice and in another order on each, while requests go on.
//!
//! Every version of a sandbox has a UID of its own, so the answer to a request says which version it was served from.
//! What must hold at each gateway, at every moment: no request is served from a version older than the newest that the
//! gateway had acknowledged when the request began. A dead or paused version that was acknowledged is thus never served
//! from again. When everything has arrived everywhere, the tables are equal to the byte, and are what the newest versions say.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use sandgate_tests::{Client, Gateway, Sandbox, refresh_request};
use serde_json::{Value, json};

use crate::support::{Seeded, ask, assert_turned_away, sandbox};

const OBJECTS: usize = 5;
const VERSIONS: u64 = 60;

/// One version of one object.
#[derive(Clone)]
struct Said {
    object: usize,
    version: u64,
    state: &'static str,
    at: usize,
}

impl Said {
    fn message(&self, sandboxes: &[Sandbox]) -> Value {
        json!({
            "ip": sandboxes[self.at].ip().to_string(), "id": id(self.object), "namespace": "team",
            "name": format!("box-{}", self.object), "uid": format!("v{}", self.version), "owner": "",
            "state": self.state, "resourceVersion": self.version.to_string(),
        })
    }
}

fn id(object: usize) -> String {
    format!("team--box-{object}")
}

/// What happened, in order: every object lives, sleeps, dies and comes back somewhere else.
fn history(random: &mut Seeded, places: usize) -> Vec<Said> {
    let states = ["running", "running", "running", "paused", "dead", "creating"];
    let say = |version| Said {
        object: random.next(OBJECTS),
        version,
        state: states[random.next(states.len())],
        at: random.next(places),
    };
    (1..=VERSIONS * OBJECTS as u64).map(say).collect()
}

/// The same, as one gateway hears it: some twice, each within a while of its turn.
fn heard(random: &mut Seeded, history: &[Said]) -> Vec<Said> {
    let mut heard: Vec<(usize, Said)> = Vec::new();
    for (turn, said) in history.iter().enumerate() {
        for _ in 0..=usize::from(random.next(4) == 0) {
            heard.push((turn + random.next(40), said.clone()));
        }
    }
    heard.sort_by_key(|(turn, _)| *turn);
    heard.into_iter().map(|(_, said)| said).collect()
}

/// The newest version of each object that a gateway has acknowledged.
#[derive(Default)]
struct Acknowledged([AtomicU64; OBJECTS]);

impl Acknowledged {
    fn note(&self, said: &Said) {
        self.0[said.object].fetch_max(said.version, Ordering::SeqCst);
    }

    fn of(&self, object: usize) -> u64 {
        self.0[object].load(Ordering::SeqCst)
    }
}

async fn deliver(gateway: &Gateway, messages: &[(Said, Value)], acknowledged: &Acknowledged) {
    let mut client = Client::http1(gateway.refresh_address().await).await.expect("connect");
    for (said, message) in messages {
        let reply = client.send(refresh_request(message)).await.expect("an answer of the receiver");
        assert_eq!(reply.status, 204, "{message}: {}", reply.text());
        acknowledged.note(said);
    }
}

/// Asks for every object in turn until told to stop; returns how many requests were served and refused.
async fn ask_on(
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

/// Everything that happens at one gateway; two senders at once, whose pushes overtake each other as well.
async fn plane(
    gateway: &Gateway,
    plan: &[(Said, Value)],
    names: &[String],
    history: &BTreeMap<u64, Said>,
) -> (usize, usize) {
    let acknowledged = Acknowledged::default();
    let stop = AtomicBool::new(false);
    let halves: [Vec<_>; 2] =
        std::array::from_fn(|half| plan.iter().skip(half).step_by(2).cloned().collect());
    let delivered = async {
        let (first, second) = (&halves[0], &halves[1]);
        tokio::join!(deliver(gateway, first, &acknowledged), deliver(gateway, second, &acknowledged));
        stop.store(true, Ordering::SeqCst);
    };
    let ((), counts) = tokio::join!(delivered, ask_on(gateway, names, history, &acknowledged, &stop));
    counts
}

async fn churn(seed: u64) {
    let mut random = Seeded(seed);
    let mut sandboxes = Vec::new();
    for name in ["north", "south", "east", "west"] {
        sandboxes.push(sandbox(name).await);
    }
    let names: Vec<String> = sandboxes.iter().map(|sandbox| sandbox.name().to_owned()).collect();
    let history = history(&mut random, sandboxes.len());
    let by_version: BTreeMap<u64, Said> = history.iter().map(|said| (said.version, said.clone())).collect();
    let start = || Gateway::builder().refresh(json!({ "insecure": true })).start();
    let gateways = [start().await, start().await, start().await];
    let plans: [Vec<(Said, Value)>; 3] = std::array::from_fn(|_| {
        heard(&mut random, &history)
            .into_iter()
            .map(|said| (said.clone(), said.message(&sandboxes)))
            .collect()
    });

    let run = |at: usize| plane(&gateways[at], &plans[at], &names, &by_version);
    let (first, second, third) = tokio::join!(run(0), run(1), run(2));
    for (served, refused) in [first, second, third] {
        assert!(
            served > 10 && refused > 10,
            "the requests saw too little: {served} served, {refused} refused"
        );
    }

    let dumps =
        [gateways[0].table_dump().await, gateways[1].table_dump().await, gateways[2].table_dump().await];
    assert_eq!(dumps[0], dumps[1]);
    assert_eq!(dumps[0], dumps[2]);
    let table: Value = serde_json::from_str(&dumps[0]).expect("a dump is JSON");
    let found: BTreeMap<String, String> = table
        .as_array()
        .expect("a list")
        .iter()
        .map(|route| {
            (
                route["id"].as_str().unwrap_or_default().to_owned(),
                route["version"].as_str().unwrap_or_default().to_owned(),
            )
        })
        .collect();
    let mut newest: BTreeMap<usize, &Said> = BTreeMap::new();
    for said in &history {
        newest.insert(said.object, said);
    }
    let expected = newest.values().filter(|said| said.state != "dead");
    let expected: BTreeMap<String, String> =
        expected.map(|said| (id(said.object), said.version.to_string())).collect();
    assert_eq!(found, expected);
}

#[tokio::test]
async fn pushes_that_arrive_late_twice_and_in_any_order_converge_and_the_dead_are_never_served() {
    churn(0x5eed_0001).await;
}

#[tokio::test]
async fn and_so_they_do_with_another_seed() {
    churn(0x0dd5_eed2).await;
}
