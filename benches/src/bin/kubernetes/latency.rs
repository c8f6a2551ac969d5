//! From an event of the API server to the route that is served.
//!
//! Three clocks for each change, all of one process, matched by the object's version: when etcd had answered
//! the write; when an independent plain watch, on a thread of its own, had received the last byte of the
//! event; when the table had told its change feed, right after the route is visible to readers. *Watch to
//! route* is the third less the second: what the watch adds to what any client of the API server sees. *Write
//! to route* is the third less the first and includes etcd's and the API server's own time.

use std::collections::HashMap;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use http_body_util::BodyExt as _;
use sandgate_benches::record::Record;
use sandgate_benches::stats::percentile;
use sandgate_routes::Notice;
use sandgate_tests::kubernetes::{ApiServer, Kind};
use serde::Deserialize;
use tokio::time::Instant;

use crate::Common;
use crate::engine;
use crate::fleet::Fleet;

/// Changes that the feed may be behind.
const FEED: usize = 1 << 20;
/// How long the last events of a round may take to arrive.
const PATIENCE: Duration = Duration::from_secs(30);

/// Which version, and when.
type Stamp = (u64, Instant);

pub(crate) async fn run(common: &Common, record: &mut Record) {
    let mut fleet = Fleet::start().await;
    for size in common.sandboxes(&[10_000]) {
        fleet.grow(size).await;
        let served = serve(&fleet);
        let arrived = plain_watch(&fleet.api, &fleet.namespace);
        for round in 0..common.rounds() {
            for rate in common.rates(&[100, 1000]) {
                let began = Instant::now();
                let written = fleet.change(rate, Duration::from_secs(common.seconds())).await;
                let reached = written.len() as f64 / began.elapsed().as_secs_f64();
                let last = written.iter().map(|write| write.revision).max().unwrap_or(0);
                let served = collect("the feed", &served, last);
                let arrived = collect("the plain watch", &arrived, last);
                let mut from_watch = Vec::new();
                let mut from_write = Vec::new();
                for write in &written {
                    let (Some(at), Some(seen)) = (served.get(&write.revision), arrived.get(&write.revision))
                    else {
                        panic!("version {} was never seen", write.revision);
                    };
                    from_watch.push(millis(*at, *seen));
                    from_write.push(millis(*at, write.answered));
                }
                let condition = format!("{rate} events/s");
                record.add("written, events/s", "fleet", size, &condition, round, reached);
                for (what, mut samples) in [("watch to route", from_watch), ("write to route", from_write)] {
                    for percent in [50.0, 99.0, 100.0] {
                        let measure = format!("{what}, p{percent:.0}, ms");
                        let value = percentile(&mut samples, percent);
                        record.add(&measure, "watch", size, &condition, round, value);
                    }
                }
            }
        }
    }
}

/// Milliseconds from `start` to `end`; less than none where the reference was later than what it is the
/// reference for.
fn millis(end: Instant, start: Instant) -> f64 {
    let after = end.saturating_duration_since(start).as_secs_f64();
    let before = start.saturating_duration_since(end).as_secs_f64();
    (after - before) * 1000.0
}

/// The gateway under test, without Envoy, in this process; waits for its first list. Gives the moment of each
/// change.
fn serve(fleet: &Fleet) -> mpsc::Receiver<Stamp> {
    let gateway = engine::gateway(&fleet.kubeconfig, &fleet.namespace);
    let mut changes = gateway.subscribe(FEED, |_, _| true);
    engine::wait_until_ready(&gateway);
    let (stamps, stamped) = mpsc::channel();
    thread::spawn(move || {
        // The gateway runs for as long as its changes are read.
        let _gateway = gateway;
        loop {
            match changes.recv_timeout(Duration::from_secs(3600)) {
                Some(Notice::Changed(change)) => {
                    let now = Instant::now();
                    let version = change.after().map(|route| route.version().to_string());
                    let version = version.and_then(|text| text.parse().ok()).unwrap_or(0);
                    if stamps.send((version, now)).is_err() {
                        return;
                    }
                }
                Some(Notice::Lagged { missed }) => panic!("the feed lost {missed} changes"),
                Some(Notice::Closed) | None => return,
            }
        }
    });
    stamped
}

#[derive(Deserialize)]
struct Event {
    object: Object,
}

#[derive(Deserialize)]
struct Object {
    metadata: Metadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    resource_version: String,
}

/// A watch that does nothing but look at the clock, and then at the version. The API server ends a watch that
/// it finds slow: then another goes on from the last version, and what comes first of it is stamped late.
fn plain_watch(api: &ApiServer, namespace: &str) -> mpsc::Receiver<Stamp> {
    let (stamps, stamped) = mpsc::channel();
    let (begun, has_begun) = mpsc::channel();
    let (api, path) = (api.clone(), Kind::OpenKruise.path(Some(namespace)));
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let client = api.client_with(api.admin_token()).await;
            let list = http::Request::get(format!("{path}?limit=1")).body(Vec::new()).expect("a request");
            let list: Object = client.request(list).await.expect("a list");
            let mut version = list.metadata.resource_version;
            loop {
                let from = format!("{path}?watch=true&timeoutSeconds=3600&resourceVersion={version}");
                let request = http::Request::get(from).body(kube::client::Body::empty()).expect("a request");
                let mut body = client.send(request).await.expect("a watch").into_body();
                let _ = begun.send(());
                if !follow(&mut body, &stamps, &mut version).await {
                    return;
                }
                println!("the API server ended the plain watch; another goes on from version {version}");
            }
        });
    });
    has_begun.recv_timeout(PATIENCE).expect("the plain watch begins");
    stamped
}

/// Reads a watch to its end. False where nobody wants to know any more.
async fn follow(body: &mut kube::client::Body, stamps: &mpsc::Sender<Stamp>, version: &mut String) -> bool {
    let mut line = Vec::new();
    while let Some(frame) = body.frame().await {
        let now = Instant::now();
        let frame = frame.expect("the plain watch goes on").into_data().unwrap_or_default();
        for piece in frame.split_inclusive(|byte| *byte == b'\n') {
            line.extend_from_slice(piece);
            if piece.last() == Some(&b'\n') {
                let event: Event = serde_json::from_slice(&line).expect("an event");
                line.clear();
                *version = event.object.metadata.resource_version;
                if stamps.send((version.parse().expect("a version"), now)).is_err() {
                    return false;
                }
            }
        }
    }
    true
}

/// What came until the version `last` did.
fn collect(what: &str, stamps: &mpsc::Receiver<Stamp>, last: u64) -> HashMap<u64, Instant> {
    let mut found = HashMap::new();
    while !found.contains_key(&last) {
        let (version, at) = stamps.recv_timeout(PATIENCE).unwrap_or_else(|error| {
            panic!("version {last} has not come by {what}: {error}");
        });
        found.insert(version, at);
    }
    found
}
