//! Two managers and three gateways: from a create to the first request that is routed.
//!
//! One create after the other, from a full pool, of the two managers in turn; each initialises the runtime of
//! its sandbox and tells the gateways. When the 201 is read, one request for the new sandbox goes to each
//! gateway, on connections that are kept. An answer that is not the sandbox's is a *miss*, and the request is
//! repeated until it is. The gateways follow the cluster too, as they are shipped.
//!
//! The parts, measured in the same round: the create alone (to its 201), and a first request to a sandbox
//! that the gateway has known for long. *Of the parts* is the p99 of the whole by the sum of theirs.

use std::time::{Duration, Instant};

use sandgate_benches::record::Record;
use sandgate_benches::stats::percentile;
use sandgate_tests::cluster::{api_request, new_sandbox};
use sandgate_tests::{Client, Gateway, Request};
use serde_json::json;

use crate::site::{SET, Site, address, name};
use crate::{Common, runtimes};

const GATEWAYS: usize = 3;
/// How long a gateway may take to have a new sandbox.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) async fn run(common: &Common, record: &mut Record) {
    let site = Site::start().await;
    let port = runtimes::start();
    let key = site.cluster.api_key("bench").await;
    let providers = json!([{ "name": "openkruise", "namespaces": [site.namespace] }]);
    let mut gateways = Vec::new();
    for _ in 0..GATEWAYS {
        let gateway = Gateway::builder()
            .kubernetes(&site.cluster.kubeconfig(), &providers)
            .refresh(json!({ "insecure": true, "lease-seconds": 86_400 }))
            .concurrency(1)
            .start()
            .await;
        gateways.push(gateway);
    }
    let mut managers = Vec::new();
    for _ in 0..2 {
        let mut manager = site.cluster.manager().flag("--log=warn").flag("--rate=0");
        for gateway in &gateways {
            manager = manager.gateway(gateway).await;
        }
        managers.push(manager.start().await);
    }
    let (mut to_managers, mut to_gateways) = (Vec::new(), Vec::new());
    for manager in &managers {
        to_managers.push(Client::http1(manager.address()).await.expect("a connection"));
    }
    for gateway in &gateways {
        to_gateways.push(gateway.client().await);
    }

    let size = common.sandboxes(1000);
    let runtime = |number: usize| {
        let [a, b, c, d] = address(number);
        json!({ "metadata": { "annotations": {
            "agents.kruise.io/runtime-url": format!("http://{a}.{b}.{c}.{d}:{port}"),
        } } })
    };
    for round in 0..common.rounds(3) {
        let known = (0..size).map(|number| site.claimed(number, address(size + number)));
        site.cluster.api().seed(known).await;
        let members = (0..size).map(|number| {
            site.member(&name(&format!("r{round}"), number), address(number)).merge(runtime(number))
        });
        site.cluster.api().seed(members).await;
        for manager in &managers {
            site.until_followed(manager, 2 * size).await;
        }
        let body = new_sandbox(
            SET,
            &json!({
                "timeout": 3600,
                "metadata": { "e2b.agents.kruise.io/create-on-no-stock": "false" },
            }),
        );
        let (mut created, mut whole, mut first, mut late) = (vec![], vec![], vec![], vec![]);
        let mut misses = 0_u32;
        for number in 0..size {
            let id = format!("id{number:018}");
            let gateway = &mut to_gateways[number % GATEWAYS];
            let began = Instant::now();
            let status = ask(gateway, &id, &format!("{number:032}"), port).await;
            assert_eq!(status, 200, "a sandbox that is known is served");
            first.push(millis(began));

            let began = Instant::now();
            let request = api_request(&key, "POST", "/sandboxes", Some(&body));
            let reply = to_managers[number % 2].send(request).await.expect("an answer");
            assert_eq!(reply.status, 201, "{}", reply.text());
            created.push(millis(began));
            let made = reply.json();
            let id = made["sandboxID"].as_str().expect("an ID").to_owned();
            let token = made["envdAccessToken"].as_str().unwrap_or_default().to_owned();
            let answered = Instant::now();
            for turn in 0..GATEWAYS {
                let gateway = &mut to_gateways[(number + turn) % GATEWAYS];
                let mut tries = 0_u32;
                while ask(gateway, &id, &token, port).await != 200 {
                    tries += 1;
                    assert!(answered.elapsed() < PATIENCE, "{id} is not served");
                }
                if turn == 0 {
                    whole.push(millis(began));
                }
                if tries > 0 {
                    misses += 1;
                    late.push(millis(answered));
                }
            }
        }
        let mut add = |measure: &str, samples: &mut [f64]| {
            for percent in [50.0, 99.0, 100.0] {
                let measure = format!("{measure}, p{percent:.0}, ms");
                record.add(&measure, "two managers", size, "", round, percentile(samples, percent));
            }
        };
        add("create to its 201", &mut created);
        add("create to the first routed request", &mut whole);
        add("a first request to a known sandbox", &mut first);
        if !late.is_empty() {
            add("a miss, until it is served", &mut late);
        }
        let parts = percentile(&mut created, 99.0) + percentile(&mut first, 99.0);
        let of_parts = percentile(&mut whole, 99.0) / parts;
        record.add("p99 of the whole, of the parts", "two managers", size, "", round, of_parts);
        record.add("misses", "two managers", size, "", round, f64::from(misses));
        println!("round {round}: {misses} misses of {}", size * GATEWAYS);
        site.clear().await;
        for manager in &managers {
            site.until_followed(manager, 0).await;
        }
    }
}

/// One request to a sandbox, by a gateway. Says the status.
async fn ask(gateway: &mut Client, id: &str, token: &str, port: u16) -> u16 {
    let request = Request::get("/").host(&format!("{port}-{id}.bench.test")).header("x-access-token", token);
    gateway.send(request).await.expect("an answer of the gateway").status
}

fn millis(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}
