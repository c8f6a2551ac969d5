//! Candidates as they run, over the real client and paused time.

use std::sync::Arc;

use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::server::LeaseServer;
use super::*;
use crate::{Random, SystemClock};

struct Replica {
    leadership: Leadership,
    status: Arc<CandidateStatus>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

fn start(server: &LeaseServer, name: &str) -> Replica {
    let clock = Arc::new(SystemClock);
    let random = Random::seeded(name.len() as u64);
    let (candidate, leadership) =
        Candidate::new(server.client(), "ns", "lease", name, Times::default(), clock, random);
    let (status, stop) = (candidate.status(), CancellationToken::new());
    let task = tokio::spawn(candidate.run(stop.clone()));
    Replica { leadership, status, stop, task }
}

#[tokio::test(start_paused = true)]
async fn the_first_leads_at_once_and_keeps_the_lease_and_the_second_stands_by() {
    let server = LeaseServer::default();
    let first = start(&server, "first");
    let term = timeout(seconds(1), first.leadership.gained()).await.unwrap();
    assert_eq!(term, Term(0));
    let second = start(&server, "second");
    assert!(timeout(seconds(600), second.leadership.gained()).await.is_err());
    assert_eq!(first.leadership.check().unwrap(), Term(0));
    assert_eq!(second.status.holder().as_deref(), Some("first"));
    assert_eq!((first.status.changes(), second.status.changes()), (1, 0));
    assert!(second.status.last_round().elapsed() <= seconds(2));
    let writes = server.writes();
    let spec = &writes.last().unwrap()["spec"];
    assert_eq!(spec["leaseDurationSeconds"], json!(15));
    assert_eq!(spec["acquireTime"], writes[0]["spec"]["acquireTime"]);
    assert!(writes.len() >= 300, "it was renewed {} times in 600 s", writes.len());
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_dies_is_followed_within_the_duration_and_a_retry() {
    let server = LeaseServer::default();
    let first = start(&server, "first");
    first.leadership.gained().await;
    let second = start(&server, "second");
    tokio::time::sleep(seconds(20)).await;
    first.task.abort();
    let died = Instant::now();
    assert_eq!(second.leadership.gained().await, Term(1));
    assert!(died.elapsed() <= seconds(15 + 2), "{:?}", died.elapsed());
    assert!(first.leadership.check().is_err());
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_stops_hands_over_at_once() {
    let server = LeaseServer::default();
    let first = start(&server, "first");
    first.leadership.gained().await;
    let second = start(&server, "second");
    tokio::time::sleep(seconds(5)).await;
    let stopped = Instant::now();
    first.stop.cancel();
    first.task.await.unwrap();
    assert!(first.leadership.check().is_err());
    assert_eq!(server.holder(), None);
    second.leadership.gained().await;
    assert!(stopped.elapsed() <= seconds(2), "{:?}", stopped.elapsed());
    // A standby that stops leaves the lease alone.
    let third = start(&server, "third");
    tokio::time::sleep(seconds(5)).await;
    third.stop.cancel();
    third.task.await.unwrap();
    assert_eq!(server.holder().as_deref(), Some("second"));
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_cut_off_stops_before_another_one_begins_and_comes_back() {
    let server = LeaseServer::default();
    let first = start(&server, "first");
    first.leadership.gained().await;
    tokio::time::sleep(seconds(5)).await;
    server.cut(true);
    let cut = Instant::now();
    first.leadership.lost().await;
    assert!(cut.elapsed() <= seconds(10), "{:?}", cut.elapsed());
    tokio::time::sleep(seconds(100)).await;
    server.cut(false);
    let back = Instant::now();
    // Nobody else took it: the term is the same.
    assert_eq!(first.leadership.gained().await, Term(0));
    assert!(back.elapsed() <= seconds(10), "{:?}", back.elapsed());
    first.stop.cancel();
    first.task.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn lost_answers_do_not_end_a_leadership() {
    let server = LeaseServer::default();
    server.lose_answers(1);
    let first = start(&server, "first");
    assert_eq!(timeout(seconds(15), first.leadership.gained()).await.unwrap(), Term(0));
    tokio::time::sleep(seconds(5)).await;
    server.lose_answers(1);
    assert!(timeout(seconds(30), first.leadership.lost()).await.is_err());
    assert_eq!(first.status.changes(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_others_wrote_into_the_lease_stays() {
    let server = LeaseServer::default();
    server.put(json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": { "name": "lease", "namespace": "ns", "uid": "u", "labels": { "team": "a" } },
        "spec": { "leaseTransitions": 7 },
    }));
    let first = start(&server, "first");
    assert_eq!(first.leadership.gained().await, Term(8));
    assert_eq!(server.writes()[1]["metadata"]["labels"]["team"], json!("a"));
}

#[tokio::test(start_paused = true)]
async fn a_stop_while_the_api_server_is_silent_does_not_hang() {
    let server = LeaseServer::default();
    let first = start(&server, "first");
    first.leadership.gained().await;
    server.cut(true);
    tokio::time::sleep(seconds(3)).await;
    let stopped = Instant::now();
    first.stop.cancel();
    first.task.await.unwrap();
    assert!(stopped.elapsed() <= seconds(5));
}
