//! Three gateways under churn: pushes arrive late, twice and in another order on each, while requests go on.
//!
//! Every version of a sandbox has a UID of its own, so the answer to a request says which version it was
//! served from. What must hold at each gateway, at every moment: no request is served from a version older
//! than the newest that the gateway had acknowledged when the request began. A dead or paused version that
//! was acknowledged is thus never served from again. When everything has arrived everywhere, the tables are
//! equal to the byte, and are what the newest versions say.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use sandgate_tests::{Client, Gateway, refresh_request};
use serde_json::{Value, json};

use crate::said::{Acknowledged, Said, ask_on, heard, history, table_of, versions_in};
use crate::support::{Seeded, sandbox};

const VERSIONS: u64 = 300;

async fn deliver(gateway: &Gateway, messages: &[(Said, Value)], acknowledged: &Acknowledged) {
    let mut client = Client::http1(gateway.refresh_address().await).await.expect("connect");
    for (said, message) in messages {
        let reply = client.send(refresh_request(message)).await.expect("an answer of the receiver");
        assert_eq!(reply.status, 204, "{message}: {}", reply.text());
        acknowledged.note(said);
        acknowledged.answered().await;
    }
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
    let ips: Vec<IpAddr> = sandboxes.iter().map(|sandbox| sandbox.ip()).collect();
    let history = history(&mut random, 1..=VERSIONS, sandboxes.len());
    let by_version: BTreeMap<u64, Said> = history.iter().map(|said| (said.version, said.clone())).collect();
    let start = || Gateway::builder().refresh(json!({ "insecure": true })).start();
    let gateways = [start().await, start().await, start().await];
    let plans: [Vec<(Said, Value)>; 3] = std::array::from_fn(|_| {
        heard(&mut random, &history).into_iter().map(|said| (said.clone(), said.message(&ips))).collect()
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
    assert_eq!(versions_in(&table), table_of(&history));
}

#[tokio::test]
async fn pushes_that_arrive_late_twice_and_in_any_order_converge_and_the_dead_are_never_served() {
    churn(0x5eed_0001).await;
}

#[tokio::test]
async fn and_so_they_do_with_another_seed() {
    churn(0x0dd5_eed2).await;
}
