//! Claims of an environment's pods: through the manager's API, and by a bare loop of the same writes.
//!
//! A claim is two writes: the manager's, which gives the pod away, and the operator's, which says that its
//! images have arrived. A create is answered when both are done. The loop does only the first, on pods that
//! it knows beforehand; what it leaves to the operator is not waited for.
//!
//! A round claims a whole pool three times: by the loop, by the loop again, and through the API, in an order
//! that rotates, each time from pods that were made anew.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::Request;
use kube::Client as Kube;
use sandgate_benches::record::Record;
use sandgate_benches::stats::{Spread, percentile};
use sandgate_cache::Viewed as _;
use sandgate_envs::change::{Claim, claim};
use sandgate_objects::sandbox_env::resources::{EnvPod, SandboxPool, SandboxPoolSpec};
use sandgate_tests::Client;
use sandgate_tests::cluster::{Manager, api_request, new_sandbox};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::Common;
use crate::site::Site;

const SUBJECTS: [&str; 3] = ["bare loop", "the same again", "manager"];
const RATE: &str = "claims/s";
/// How many claims are under way at a time.
const AT_A_TIME: [usize; 2] = [1, 16];

struct Timed {
    seconds: f64,
    /// Each, in milliseconds.
    times: Vec<f64>,
}

pub(crate) async fn run(common: &Common, record: &mut Record) {
    let site = Site::start().await;
    let manager = site.manager().await;
    let key = site.place.cluster.api_key("bench").await;
    let client = site.place.cluster.client();
    let size = common.size(500);
    let mut pools = 0;
    for concurrency in AT_A_TIME {
        let condition = format!("{concurrency} at a time");
        for round in 0..=common.rounds(6) {
            let mut subjects = SUBJECTS;
            subjects.rotate_left(round % SUBJECTS.len());
            for subject in subjects {
                pools += 1;
                let pool = format!("p{pools}");
                site.env(&pool, size).await;
                site.levels(&pool, size, 0).await;
                let mut timed = match subject {
                    "manager" => through_api(&manager, &key, &pool, size, concurrency).await,
                    _ => bare(&site, &client, &pool, concurrency).await,
                };
                site.levels(&pool, 0, size).await;
                site.end(&pool).await;
                // The first round of a fresh API server is slower than the others, whoever has it.
                let Some(round) = round.checked_sub(1) else { continue };
                let rate = timed.times.len() as f64 / timed.seconds;
                println!("round {round}: {subject}, {condition}: {rate:.0} {RATE}");
                record.add(RATE, subject, size as usize, &condition, round, rate);
                for percent in [50.0, 99.0] {
                    let measure = format!("a claim, p{percent:.0}, ms");
                    let value = percentile(&mut timed.times, percent);
                    record.add(&measure, subject, size as usize, &condition, round, value);
                }
            }
        }
        let [base, again, ours] =
            SUBJECTS.map(|subject| record.rounds(RATE, subject, size as usize, &condition));
        let ratio =
            |one: &[f64], two: &[f64]| -> Vec<f64> { one.iter().zip(two).map(|(a, b)| a / b).collect() };
        println!(
            "{RATE}, {condition}: the manager, to the end of the start, has {} of the loop; the loop has {} of itself",
            Spread::of(&ratio(&ours, &base)),
            Spread::of(&ratio(&again, &base))
        );
    }
}

/// So many creates, so many at a time, each worker on a connection of its own.
async fn through_api(manager: &Manager, key: &str, env: &str, count: u32, concurrency: usize) -> Timed {
    let next = Arc::new(AtomicUsize::new(0));
    let mut clients = Vec::new();
    for _ in 0..concurrency {
        clients.push(Client::http1(manager.address()).await.expect("a connection"));
    }
    let mut workers = JoinSet::new();
    let began = Instant::now();
    for mut client in clients {
        let (next, key, env) = (Arc::clone(&next), key.to_owned(), env.to_owned());
        workers.spawn(async move {
            let body = new_sandbox(&env, &json!({ "secure": false, "timeout": 3600 }));
            let mut times = Vec::new();
            while next.fetch_add(1, Ordering::Relaxed) < count as usize {
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
    Timed { seconds: began.elapsed().as_secs_f64(), times }
}

/// The same claims without a manager: it knows the pods and their versions, and waits for nothing.
async fn bare(site: &Site, client: &Kube, pool: &str, concurrency: usize) -> Timed {
    let object = site.place.pools.get(pool).await.expect("a pool");
    let spec = SandboxPool::read(object.to_string().as_bytes()).expect("a pool").object.spec;
    let requests: Vec<_> =
        site.idle_pods(pool).await.iter().enumerate().map(|(at, pod)| patch(pod, &spec, at)).collect();
    let (requests, next) = (Arc::new(requests), Arc::new(AtomicUsize::new(0)));
    let mut workers = JoinSet::new();
    let began = Instant::now();
    for _ in 0..concurrency {
        let (client, requests, next) = (client.clone(), Arc::clone(&requests), Arc::clone(&next));
        workers.spawn(async move {
            let mut times = Vec::new();
            while let Some((path, body)) = requests.get(next.fetch_add(1, Ordering::Relaxed)) {
                let began = Instant::now();
                let request = Request::patch(path)
                    .header("content-type", "application/strategic-merge-patch+json")
                    .body(body.clone())
                    .expect("a request");
                let answer: Value = client.request(request).await.expect("a claim");
                assert_eq!(answer["kind"], "Pod", "{answer}");
                times.push(began.elapsed().as_secs_f64() * 1e3);
            }
            times
        });
    }
    let times = workers.join_all().await.concat();
    Timed { seconds: began.elapsed().as_secs_f64(), times }
}

/// The manager's write for a claim of this pod.
fn patch(pod: &Value, spec: &SandboxPoolSpec, number: usize) -> (String, Vec<u8>) {
    let seen = EnvPod::read(pod.to_string().as_bytes()).expect("a pod");
    let wish = Claim {
        sandbox: format!("bench{number:027}"),
        owner: "00000000-0000-4000-8000-000000000000".to_owned(),
        idle_timeout: Some(std::time::Duration::from_secs(3600)),
        at: "2026-11-16T07:00:00Z".parse().expect("a time"),
        ..Claim::default()
    };
    let mut patch = claim(&seen, spec, &wish).expect("a pod that waits");
    patch["metadata"]["resourceVersion"] = json!(seen.version.to_string());
    let path = format!(
        "/api/v1/namespaces/{}/pods/{}?fieldManager=sandgate-manager",
        seen.key.namespace, seen.key.name
    );
    (path, patch.to_string().into_bytes())
}
