//! Claims from a full pool: through the manager's API, and by a bare loop of the same writes.
//!
//! A round claims a whole pool three times: by the loop, by the loop again, and through the API, in an order
//! that rotates, each time from a pool that was made anew. The limit of a round is the mean of its two loops,
//! and what one of them has of the other is the noise. The manager runs and follows the sandboxes in all
//! three, so the API server carries the same.
//!
//! What is in a create and not in the loop: HTTP, the check of the key, the choice among the sandboxes, the
//! answer. The runtime is not initialised (`skip-init-runtime`) and no gateway is told:
//! [`route`](crate::route) has both.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use sandgate_benches::record::Record;
use sandgate_benches::stats::{Spread, percentile};
use sandgate_tests::Client;
use sandgate_tests::cluster::{Manager, api_request, new_sandbox};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::Common;
use crate::bare::{self, Mould};
use crate::site::{SET, Site};

const RATE: &str = "claims/s";
/// The loop, the loop again, and the manager.
const SUBJECTS: [&str; 3] = ["bare loop", "the same again", "manager"];

/// How long claims took.
pub(crate) struct Timed {
    pub(crate) count: usize,
    pub(crate) seconds: f64,
    /// Each, in milliseconds.
    pub(crate) times: Vec<f64>,
}

pub(crate) async fn run(common: &Common, record: &mut Record) {
    let site = Site::start().await;
    let key = site.cluster.api_key("bench").await;
    // As the manager is installed, with its line in the log for each request, but without its limit of
    // requests a second.
    let manager = site.cluster.manager().flag("--rate=0").start().await;
    let mould = Arc::new(learn(&site, &manager, &key).await);
    println!("a claim is a merge patch of {} bytes", mould.bytes());
    let client = site.cluster.api().client_with(site.cluster.api().admin_token()).await;
    let size = common.sandboxes(1000);
    let mut pools = 0;
    for &concurrency in &common.concurrency {
        let condition = format!("{concurrency} at a time");
        for round in 0..=common.rounds(10) {
            let mut subjects = SUBJECTS;
            subjects.rotate_left(round % SUBJECTS.len());
            for subject in subjects {
                pools += 1;
                site.fill(&format!("p{pools}"), size).await;
                site.until_followed(&manager, size).await;
                let mut timed = match subject {
                    "manager" => through_api(&manager, &key, size, concurrency).await,
                    _ => bare::run(&client, &mould, site.sandboxes().await, concurrency).await,
                };
                site.clear().await;
                site.until_followed(&manager, 0).await;
                // The first round of a fresh API server is slower than the others, whoever has it.
                let Some(round) = round.checked_sub(1) else { continue };
                let rate = timed.count as f64 / timed.seconds;
                println!("round {round}: {subject}, {condition}: {rate:.0} {RATE}");
                record.add(RATE, subject, size, &condition, round, rate);
                for percent in [50.0, 99.0] {
                    let measure = format!("a claim, p{percent:.0}, ms");
                    let value = percentile(&mut timed.times, percent);
                    record.add(&measure, subject, size, &condition, round, value);
                }
            }
        }
        compare(record, size, &condition);
    }
}

fn compare(record: &Record, size: usize, condition: &str) {
    let [base, again, manager] = SUBJECTS.map(|subject| record.rounds(RATE, subject, size, condition));
    let limit: Vec<f64> = base.iter().zip(&again).map(|(one, two)| f64::midpoint(*one, *two)).collect();
    let ratios: Vec<f64> = manager.iter().zip(&limit).map(|(value, limit)| value / limit).collect();
    let noise: Vec<f64> = again.iter().zip(&base).map(|(one, two)| one / two).collect();
    println!(
        "{RATE}, {condition}: the manager has {} of the loop (wanted: 0.8); the loop has {} of itself",
        Spread::of(&ratios),
        Spread::of(&noise)
    );
}

/// Does one claim, and sees what it changed.
pub(crate) async fn learn(site: &Site, manager: &Manager, key: &str) -> Mould {
    site.fill("mould", 1).await;
    site.until_followed(manager, 1).await;
    let before = site.sandboxes().await.remove(0);
    manager.create(key, SET, &more()).await;
    let after = site.sandboxes().await.remove(0);
    site.clear().await;
    site.until_followed(manager, 0).await;
    Mould::learn(&before, &after)
}

/// What a create says besides its template.
fn more() -> Value {
    json!({
        "timeout": 3600,
        "metadata": {
            "user": "somebody", "e2b.agents.kruise.io/skip-init-runtime": "true",
            "e2b.agents.kruise.io/create-on-no-stock": "false",
        },
    })
}

/// So many creates, so many at a time, each worker on a connection of its own.
pub(crate) async fn through_api(manager: &Manager, key: &str, count: usize, concurrency: usize) -> Timed {
    let next = Arc::new(AtomicUsize::new(0));
    let mut clients = Vec::new();
    for _ in 0..concurrency {
        clients.push(Client::http1(manager.address()).await.expect("a connection"));
    }
    let mut workers = JoinSet::new();
    let began = Instant::now();
    for mut client in clients {
        let (next, key) = (Arc::clone(&next), key.to_owned());
        workers.spawn(async move {
            let body = new_sandbox(SET, &more());
            let mut times = Vec::new();
            while next.fetch_add(1, Ordering::Relaxed) < count {
                let began = Instant::now();
                let request = api_request(&key, "POST", "/sandboxes", Some(&body));
                let reply = client.send(request).await.expect("an answer");
                assert_eq!(reply.status, 201, "{}", reply.text());
                times.push(began.elapsed().as_secs_f64() * 1e3);
            }
            times
        });
    }
    let times = workers.join_all().await.concat();
    Timed { count, seconds: began.elapsed().as_secs_f64(), times }
}
