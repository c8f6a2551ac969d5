//! Churn: hundreds of sandboxes of all kinds live, pause, move and die on a few addresses that are recycled
//! at once, over a wire that breaks, while clients ask for them.
//!
//! # What must hold
//! The watch is asynchronous: a gateway hears of a change after it has happened, and an address may have a
//! new tenant by then. So that nobody has to guess, the gateway tells the sandbox who a request is for
//! (`x-sandbox-uid`), and the tenants here, like any careful sandbox, refuse what is for another (421). Then:
//!
//! 1. **No stranger answers.** Whoever answers is the sandbox that was asked for: its name, and the UID that
//!    the object of that name had.
//! 2. **No request goes astray.** One that arrives at an address is for an object of the name that was asked
//!    for, and that object has been at this address.
//! 3. **What is known is obeyed at once.** When the table has the event by which a sandbox left an address,
//!    no request that starts after that moment arrives there for it.
//! 4. **The table comes to be the cluster.** When nothing changes any more it is, field by field and version
//!    by version, what a fresh list says.
//!
//! # Seeds
//! `SANDGATE_SEED` makes every choice of the drivers again: what happens to which sandbox at which address,
//! in which order within one driver, and how the wire breaks. A failure prints its seed. How drivers, clients
//! and gateway interleave is the machine's; a rare failure may take several runs of its seed. Without a seed
//! a slow machine does less of the same in the same time; with one, every step is made.

mod client;
mod driver;
mod ledger;
mod tenant;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures_util::future::join_all;
use kube::api::{Api, DynamicObject, ListParams};
use sandgate_routes::{Capability, Fate, verdict};
use sandgate_tests::Gateway;
use sandgate_tests::kubernetes::{ApiServer, Kind, Object, Wire};
use sandgate_watch::ProviderConfig;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{KINDS, ask, refusals};
use client::Clients;
use driver::{Driver, Life};
use ledger::Ledger;
use tenant::Tenant;

const DRIVERS: usize = 6;
/// Addresses and names of each driver.
const ADDRESSES: usize = 4;
const NAMES: usize = 40;
/// What each driver does: so much on a good wire, and so much on a bad one, and how long each may take.
const STEPS: [usize; 2] = [60, 60];
const BUDGET: Duration = Duration::from_secs(8);
const CLIENTS: usize = 4;

/// Prints the seed when the scenario fails.
struct Seed {
    seed: u64,
    /// Whether it is one that is to be made again, whole.
    given: bool,
}

impl Seed {
    fn choose() -> Self {
        match std::env::var("SANDGATE_SEED") {
            Ok(text) => Self { seed: text.parse().expect("SANDGATE_SEED is a number"), given: true },
            Err(_) => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                Self { seed: u64::from(now.subsec_nanos()) ^ (now.as_secs() << 20), given: false }
            }
        }
    }
}

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- this was SANDGATE_SEED={} ---", self.seed);
        }
    }
}

/// SplitMix64: enough for choices, and the same everywhere.
#[derive(Clone)]
struct Random(u64);

impl Random {
    fn new(seed: u64, stream: u64) -> Self {
        Self(seed ^ stream.wrapping_mul(0xD129_0D3C_6A7E_91F5))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).expect("below a usize")
    }

    fn one_in(&mut self, chances: usize) -> bool {
        self.below(chances) == 0
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

/// A sandbox that clients may ask for, whether it exists or not.
struct Name {
    kind: Kind,
    name: String,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_stranger_ever_answers_and_the_table_comes_to_be_the_cluster() {
    let seed = Seed::choose();
    let api = ApiServer::shared().await;
    let (namespace, wire) = (api.namespace("churn").await, Arc::new(Wire::to(&api).await));
    let providers = KINDS.map(|kind| json!({ "kind": kind.provider(), "namespaces": [namespace] }));
    let builder = Gateway::builder().kubernetes(&wire.kubeconfig(wire.admin_token()), &json!(providers));
    let gateway = builder.start().await;
    let ledger = Arc::new(Ledger::new(DRIVERS * ADDRESSES));
    let mut tenants = Vec::new();
    for number in 0..DRIVERS * ADDRESSES {
        tenants.push(Tenant::start(number, &ledger).await);
    }
    let names = (0..DRIVERS * NAMES).map(|number| Name {
        kind: KINDS[number / NAMES % KINDS.len()],
        name: format!("{namespace}-{number}"),
    });
    let names: Arc<[Name]> = names.collect();
    let clients = Clients::start(CLIENTS, gateway.address(), &namespace, &names, &ledger, seed.seed);

    let mut sentinels = Vec::new();
    for kind in KINDS {
        let name = format!("{namespace}-{}-sentinel", kind.provider());
        sentinels.push(kind.draft(&api, &namespace, &name).create().await);
    }
    let followed = Arc::new(KINDS.map(|_| AtomicBool::new(true)));
    let mut drivers: Vec<Driver> = (0..DRIVERS)
        .map(|number| Driver {
            api: api.clone(),
            namespace: namespace.clone(),
            names: Arc::clone(&names),
            own: number * NAMES..(number + 1) * NAMES,
            addresses: tenants[number * ADDRESSES..(number + 1) * ADDRESSES].iter().map(Tenant::ip).collect(),
            first: number * ADDRESSES,
            scope: number % KINDS.len(),
            free: (0..ADDRESSES).collect(),
            alive: Default::default(),
            ledger: Arc::clone(&ledger),
            hot: Arc::clone(&clients.hot),
            wire: None,
            followed: Arc::clone(&followed),
            random: Random::new(seed.seed, number as u64 + 1),
        })
        .collect();
    for (round, steps) in STEPS.into_iter().enumerate() {
        let mut running = JoinSet::new();
        for mut driver in drivers.drain(..) {
            driver.wire = (round > 0).then(|| Arc::clone(&wire));
            let end = (!seed.given).then(|| Instant::now() + BUDGET);
            running.spawn(async move {
                for _ in 0..steps {
                    driver.step().await;
                    if end.is_some_and(|end| Instant::now() > end) {
                        break;
                    }
                }
                driver
            });
        }
        let done = AtomicBool::new(false);
        let driving = async {
            while let Some(driver) = running.join_next().await {
                drivers.push(driver.expect("the driver came to its end"));
            }
            done.store(true, Ordering::Relaxed);
            // A line that is held back for the next one would wait for ever.
            wire.clear();
        };
        // While they drive, what they have done becomes known to the gateway, again and again.
        let settling = (0..KINDS.len()).map(async |scope| {
            while !done.load(Ordering::Relaxed) {
                settle(&gateway, scope, &sentinels[scope], &ledger).await;
                followed[scope].store(true, Ordering::Relaxed);
            }
        });
        tokio::join!(driving, join_all(settling));
        drivers.sort_by_key(|driver| driver.first);
    }
    for (scope, sentinel) in sentinels.iter().enumerate() {
        settle(&gateway, scope, sentinel, &ledger).await;
    }
    clients.stop().await;
    ledger.assert_clean();

    let cluster = cluster(&api, &namespace).await;
    assert_eq!(table(&gateway).await, cluster, "the table is not the cluster");
    everyone_is_what_the_cluster_says(&gateway, &namespace, &names, &drivers).await;
    let fresh = Gateway::builder().kubernetes(&api.admin_kubeconfig(), &json!(providers)).start().await;
    assert_eq!(gateway.digest().await, fresh.digest().await);
    ledger.assert_clean();
    let counts = ledger.counts();
    eprintln!("seed {}: {counts:?}, asked {} times", seed.seed, wire.seen().len());
    assert!(counts.answered > 100 && counts.left > 30, "too little happened: {counts:?}");
    let asked = wire.seen().len();
    assert!(asked > 10, "the wire was hardly ever broken: the gateway asked {asked} times");
}

/// Makes what has happened so far in a scope known: when the table has a later event, it has all that came
/// before.
async fn settle(gateway: &Gateway, scope: usize, sentinel: &Object, ledger: &Ledger) {
    let told = ledger.take_told(scope);
    let touched = ledger.now().to_string();
    sentinel.patch(json!({ "metadata": { "annotations": { "example.com/touched": touched } } })).await;
    gateway.follows(sentinel).await;
    ledger.settled(told);
}

/// What a route of the table says, in the order of IDs.
type Row = [String; 7];

async fn table(gateway: &Gateway) -> Vec<Row> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let row = |route: &Value| {
        ["provider", "name", "id", "uid", "state", "ip", "version"].map(|key| text(&route[key]))
    };
    let mut rows: Vec<Row> = gateway.table().await.iter().map(row).collect();
    rows.sort();
    rows
}

/// What the table must say: every object of a fresh list, read by its provider.
async fn cluster(api: &ApiServer, namespace: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    for kind in KINDS {
        let config: ProviderConfig =
            serde_json::from_value(json!({ "kind": kind.provider() })).expect("a config");
        let provider = config.build().expect("a provider");
        let objects: Api<DynamicObject> = Api::namespaced_with(api.client(), namespace, &kind.resource());
        for object in objects.list(&ListParams::default()).await.expect("a list").items {
            let object = serde_json::to_vec(&object).expect("JSON");
            let seen = provider.project(&object, SystemTime::now()).expect("an object").observation;
            if verdict(seen.state, Capability::default()).fate == Fate::Keep {
                let ip = seen.ip.map(|ip| ip.to_string()).unwrap_or_default();
                let (state, version) = (seen.state.as_str().to_owned(), seen.version.to_string());
                let (provider, name) = (provider.name().to_owned(), seen.key.name().to_owned());
                rows.push([provider, name, seen.id, seen.uid, state, ip, version]);
            }
        }
    }
    rows.sort();
    rows
}

/// Asks for every name once: nothing changes any more, so the answer is certain.
async fn everyone_is_what_the_cluster_says(
    gateway: &Gateway,
    namespace: &str,
    names: &[Name],
    drivers: &[Driver],
) {
    let mut client = gateway.client().await;
    for (number, Name { kind, name }) in names.iter().enumerate() {
        let life = drivers[number / NAMES].alive.get(&number);
        let request = client::stamped(ask(*kind, namespace, name), name, &drivers[0].ledger);
        let reply = client.send(request).await.expect("an answer");
        let [not_found, not_running] = refusals(*kind);
        let expected = match life {
            Some(Life { at: Some(_), .. }) => {
                assert_eq!((reply.status, &reply.json()["name"]), (200, &json!(name)));
                continue;
            }
            Some(Life { failed: false, .. }) => not_running,
            _ => not_found,
        };
        assert_eq!((reply.status, &reply.json()["reason"]), (expected.0, &json!(expected.1)), "{name}");
    }
    assert!(gateway.stat("sandgate.kubernetes_up").await.is_some());
}
