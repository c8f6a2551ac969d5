//! Two managers and three gateways: from a create to the first request that is routed, on every gateway.
//!
//! Creates go to the two managers in turn, from a full pool. Each initialises the runtime of its sandbox and
//! tells the gateways. When the 201 is read, one request for the new sandbox goes to each of the gateways at
//! the same time, on connections that are kept. An answer that is not the sandbox's is a *miss*, and the
//! request is repeated until it is. *Until every gateway serves it* has all claims in it, misses or none. The
//! gateways follow the cluster too, as they are shipped.
//!
//! The parts, one after the other in the same round and with as many workers: the write of a claim without a
//! manager, a runtime's `/init` on a new connection, a push to the three gateways, and a first request to a
//! sandbox that a gateway has known for long. *Of the parts* is the p99 of the whole by the p99 of their sum.

mod parts;

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use sandgate_benches::record::Record;
use sandgate_benches::stats::{Spread, percentile};
use sandgate_tests::cluster::{Manager, api_request, new_sandbox};
use sandgate_tests::{Client, Gateway, Request, eventually};
use serde_json::{Value, json};

use crate::site::{SET, Site, address, name};
use crate::{Common, claim, runtimes};
use parts::Parts;

const GATEWAYS: usize = 3;
const MANAGERS: usize = 2;
/// How long a gateway may take to have a new sandbox.
const PATIENCE: Duration = Duration::from_secs(10);
/// The name of the whole, and of what it is compared with.
const RATIO: &str = "p99 of the whole, of the parts";
const SUBJECT: &str = "two managers";

/// Kept connections of one worker.
struct Lines {
    managers: Vec<Client>,
    gateways: Vec<Client>,
}

impl Lines {
    async fn open(managers: &[Manager], gateways: &[Gateway]) -> Self {
        let to_managers = managers.iter().map(|manager| Client::http1(manager.address()));
        Self {
            managers: join_all(to_managers).await.into_iter().map(|line| line.expect("a line")).collect(),
            gateways: join_all(gateways.iter().map(Gateway::client)).await,
        }
    }
}

/// What a worker has measured, in milliseconds.
#[derive(Default)]
struct Times {
    created: Vec<f64>,
    whole: Vec<f64>,
    everywhere: Vec<f64>,
    late: Vec<f64>,
}

pub(crate) async fn run(common: &Common, record: &mut Record) {
    let site = Site::start().await;
    let port = runtimes::start();
    let key = site.cluster.api_key("bench").await;
    let gateways = start_gateways(&site).await;
    let mut managers = Vec::new();
    for _ in 0..MANAGERS {
        let mut manager = site.cluster.manager().flag("--rate=0");
        for gateway in &gateways {
            manager = manager.gateway(gateway).await;
        }
        managers.push(manager.start().await);
    }
    let mould = claim::learn(&site, &managers[0], &key).await;
    let client = site.cluster.api().client_with(site.cluster.api().admin_token()).await;
    let parts = Parts { site: &site, client, mould, gateways: &gateways, port };

    let size = common.sandboxes(1000);
    let mut seeded = 0;
    for &workers in &common.concurrency {
        let condition = format!("{workers} at a time");
        for round in 0..common.rounds(3) {
            let known: Vec<usize> = (seeded..seeded + size).collect();
            seeded += 2 * size;
            site.add(known.iter().map(|number| site.claimed(*number, address(*number)))).await;
            until_served(&gateways, *known.last().expect("a sandbox"), port).await;
            let mut sums = parts.measure(&format!("w{seeded}"), &known, workers).await;

            let members = (0..size).map(|number| {
                let at = seeded - size + number;
                site.member(&name(&format!("m{seeded}"), number), address(at)).merge(runtime(at, port))
            });
            site.add(members).await;
            for manager in &managers {
                site.until_followed(manager, 3 * size).await;
            }
            let mut lines = Vec::new();
            for _ in 0..workers {
                lines.push(Lines::open(&managers, &gateways).await);
            }
            let lives = lines
                .into_iter()
                .enumerate()
                .map(|(worker, lines)| creates(lines, &key, port, (worker..size).step_by(workers)));
            let mut all = Times::default();
            for Times { created, whole, everywhere, late } in join_all(lives).await {
                all.created.extend(created);
                all.whole.extend(whole);
                all.everywhere.extend(everywhere);
                all.late.extend(late);
            }
            let mut add = |measure: &str, samples: &mut [f64]| {
                for percent in [50.0, 99.0, 100.0] {
                    let measure = format!("{measure}, p{percent:.0}, ms");
                    record.add(&measure, SUBJECT, size, &condition, round, percentile(samples, percent));
                }
            };
            add("create to its 201", &mut all.created);
            add("create to the first routed request", &mut all.whole);
            add("201 until every gateway serves it", &mut all.everywhere);
            for (part, samples) in &mut sums.each {
                add(part, samples);
            }
            add("the parts, one after the other", &mut sums.sum);
            if !all.late.is_empty() {
                add("a miss, until it is served", &mut all.late);
            }
            let of_parts = percentile(&mut all.whole, 99.0) / percentile(&mut sums.sum, 99.0);
            record.add(RATIO, SUBJECT, size, &condition, round, of_parts);
            let misses = all.late.len();
            record.add("misses", SUBJECT, size, &condition, round, misses as f64);
            println!("round {round}, {condition}: {misses} misses of {}", size * GATEWAYS);
            site.clear().await;
            for manager in &managers {
                site.until_followed(manager, 0).await;
            }
        }
        let spread = Spread::of(&record.rounds(RATIO, SUBJECT, size, &condition));
        println!("{RATIO}, {condition}: {spread}");
    }
}

async fn start_gateways(site: &Site) -> Vec<Gateway> {
    let providers = json!([{ "kind": "openkruise", "namespaces": [site.namespace] }]);
    let mut gateways = Vec::new();
    for _ in 0..GATEWAYS {
        let gateway = Gateway::builder()
            .kubernetes(&site.cluster.kubeconfig(), &providers)
            .refresh(json!({ "insecure": true }))
            .concurrency(1)
            .start()
            .await;
        gateways.push(gateway);
    }
    gateways
}

/// Waits until each gateway serves the sandbox of this number, which came last.
async fn until_served(gateways: &[Gateway], number: usize, port: u16) {
    let mut lines = join_all(gateways.iter().map(Gateway::client)).await;
    for line in &mut lines {
        eventually("a gateway serves what it has known", PATIENCE * 6, async || {
            (ask(line, &known_id(number), &known_token(number), port).await == 200).then_some(())
        })
        .await;
    }
}

/// The ID that [`Site::claimed`] gives to one of many.
fn known_id(number: usize) -> String {
    format!("id{number:018}")
}

/// The token that [`Site::claimed`] gives to one of many.
fn known_token(number: usize) -> String {
    format!("{number:032}")
}

/// What leads a manager to the runtime of one of many.
fn runtime(number: usize, port: u16) -> Value {
    let [a, b, c, d] = address(number);
    json!({ "metadata": { "annotations": {
        "agents.kruise.io/runtime-url": format!("http://{a}.{b}.{c}.{d}:{port}"),
    } } })
}

/// One create after the other, each with a request to every gateway.
async fn creates(mut lines: Lines, key: &str, port: u16, numbers: impl Iterator<Item = usize>) -> Times {
    let more = json!({
        "timeout": 3600,
        "metadata": { "e2b.agents.kruise.io/create-on-no-stock": "false" },
    });
    let body = new_sandbox(SET, &more);
    let mut times = Times::default();
    for number in numbers {
        let began = Instant::now();
        let request = api_request(key, "POST", "/sandboxes", Some(&body));
        let reply = lines.managers[number % MANAGERS].send(request).await.expect("an answer");
        assert_eq!(reply.status, 201, "{}", reply.text());
        times.created.push(millis(began));
        let made = reply.json();
        let id = made["sandboxID"].as_str().expect("an ID");
        let token = made["envdAccessToken"].as_str().unwrap_or_default();
        let answered = Instant::now();
        let served = join_all(lines.gateways.iter_mut().map(async |gateway| {
            let mut is_late = false;
            while ask(gateway, id, token, port).await != 200 {
                is_late = true;
                assert!(answered.elapsed() < PATIENCE, "{id} is not served");
            }
            (millis(began), millis(answered), is_late)
        }))
        .await;
        let first = served.iter().map(|(whole, ..)| *whole).fold(f64::INFINITY, f64::min);
        times.whole.push(first);
        times.everywhere.push(served.iter().map(|(_, since, _)| *since).fold(0.0, f64::max));
        times.late.extend(served.iter().filter(|(.., is_late)| *is_late).map(|(_, since, _)| *since));
    }
    times
}

/// One request to a sandbox, by a gateway. Says the status.
async fn ask(gateway: &mut Client, id: &str, token: &str, port: u16) -> u16 {
    let request = Request::get("/")
        .header("e2b-sandbox-id", id)
        .header("e2b-sandbox-port", port.to_string())
        .header("x-access-token", token);
    gateway.send(request).await.expect("an answer of the gateway").status
}

fn millis(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}
