use std::time::Duration;

use tokio::time::Instant;

use super::world::*;
use crate::scheduler::{ClaimError, Drained, Settings};

#[test]
fn a_claim_ends_at_its_deadline_and_leaves_the_line() {
    run(async {
        let cluster = Cluster::with(&[("p", 0)]);
        let (scheduler, _) = replica(&cluster, 1, Faults::default(), settings());
        let began = Instant::now();
        let ended = claim_within(&scheduler, &pool("p"), 1, ms(700)).await.unwrap();
        assert_eq!((ended, began.elapsed()), (Err(ClaimError::Deadline), ms(700)));
        assert_eq!(scheduler.queued("ns", "p"), 0);
        cluster.add(&pool("p"), "p-0", true);
        assert_eq!(&*claim(&scheduler, &pool("p"), 2).await.unwrap().unwrap().pod.name, "p-0");
        assert_eq!(cluster.won(), [2]);
    });
}

#[test]
fn a_caller_that_leaves_while_its_pod_is_written_gives_it_back() {
    run(async {
        let cluster = Cluster::with(&[("p", 1)]);
        let faults = Faults { takes: ms(100), ..Faults::default() };
        let (scheduler, replica) = replica(&cluster, 1, faults, settings());
        let (first, second) = (claim(&scheduler, &pool("p"), 1), claim(&scheduler, &pool("p"), 2));
        pass(ms(50)).await;
        first.abort();
        assert_eq!(&*second.await.unwrap().unwrap().pod.name, "p-0000", "the next has it");
        assert_eq!((cluster.won(), replica.given_back.lock().clone()), (vec![1, 2], vec![1]));
    });
}

#[test]
fn a_caller_that_leaves_before_its_pod_is_written_costs_no_write() {
    run(async {
        let cluster = Cluster::with(&[("p", 1)]);
        let (scheduler, replica) = replica(&cluster, 1, Faults::default(), settings());
        let ticket = scheduler.enter(&pool("p"), 1).ok().unwrap();
        drop(ticket);
        let won = claim(&scheduler, &pool("p"), 2).await.unwrap().unwrap();
        assert_eq!((won.claim, cluster.won(), replica.swaps.lock().len()), (2, vec![2], 1));
    });
}

#[test]
fn an_answer_that_nobody_reads_gives_the_pod_back() {
    run(async {
        let cluster = Cluster::with(&[("p", 1)]);
        let (scheduler, replica) = replica(&cluster, 1, Faults::default(), settings());
        let ticket = scheduler.enter(&pool("p"), 1).ok().unwrap();
        settled().await;
        assert_eq!(cluster.won(), [1], "the answer is on its way");
        drop(ticket);
        settled().await;
        assert_eq!((cluster.owned().len(), replica.given_back.lock().clone()), (0, vec![1]));
    });
}

#[test]
fn a_task_that_dies_takes_nothing_with_it_but_its_claim() {
    run(async {
        let cluster = Cluster::with(&[("p", 1)]);
        let (scheduler, _) = replica(&cluster, 1, Faults::default(), Settings { swaps: 1, ..settings() });
        let (first, second) = (claim(&scheduler, &pool("p"), DEADLY), claim(&scheduler, &pool("p"), 2));
        assert_eq!(first.await.unwrap(), Err(ClaimError::Interrupted));
        assert_eq!(second.await.unwrap().unwrap().claim, 2);
    });
}

#[test]
fn a_storm_is_over_soon_after_the_end_begins() {
    run(async {
        let cluster = Cluster::with(&[("p", 50)]);
        let faults = Faults { hangs: true, ..Faults::default() };
        let (scheduler, replica) = replica(&cluster, 1, faults, settings());
        let claims: Vec<_> = (0..5000).map(|number| claim(&scheduler, &pool("p"), number)).collect();
        settled().await;
        assert_eq!(replica.swaps.lock().len(), 50);
        let began = Instant::now();
        let drained = scheduler.drain(Duration::from_secs(4)).await;
        assert_eq!(drained, Drained { unsettled: 50 });
        for claim in claims {
            assert_eq!(claim.await.unwrap(), Err(ClaimError::Closed));
        }
        assert!(began.elapsed() < Duration::from_secs(5));
        assert_eq!(scheduler.snapshot(&pool("p")).queued, 0);
        assert_eq!(scheduler.snapshot(&pool("p")).in_flight, 0);
        assert_eq!(replica.told.lock().last().map(|(_, _, claims)| *claims), Some(0), "nobody waits here");
    });
}

#[test]
fn who_waits_ends_at_once_and_who_has_a_pod_in_hand_gets_it() {
    run(async {
        let cluster = Cluster::with(&[("p", 3)]);
        let faults = Faults { takes: ms(500), ..Faults::default() };
        let (scheduler, _) = replica(&cluster, 1, faults, settings());
        let claims: Vec<_> = (0..10).map(|number| claim(&scheduler, &pool("p"), number)).collect();
        pass(ms(100)).await;
        let began = Instant::now();
        assert_eq!(scheduler.drain(Duration::from_secs(4)).await, Drained { unsettled: 0 });
        assert_eq!(began.elapsed(), ms(400));
        for (number, claim) in claims.into_iter().enumerate() {
            let ended = claim.await.unwrap();
            assert_eq!(ended.is_ok(), number < 3, "{number}: {ended:?}");
        }
    });
}

#[test]
fn nobody_enters_a_line_that_is_being_ended() {
    run(async {
        let cluster = Cluster::with(&[("p", 2)]);
        let faults = Faults { takes: ms(500), ..Faults::default() };
        let (scheduler, _) = replica(&cluster, 1, faults, settings());
        let first = claim(&scheduler, &pool("p"), 1);
        pass(ms(10)).await;
        let ending = tokio::spawn({
            let scheduler = scheduler.clone();
            async move { scheduler.drain(Duration::from_secs(4)).await }
        });
        pass(ms(10)).await;
        assert!(!ending.is_finished());
        assert_eq!(claim(&scheduler, &pool("p"), 2).await.unwrap(), Err(ClaimError::Closed));
        first.await.unwrap().unwrap();
        assert_eq!(ending.await.unwrap().unsettled, 0);
        assert_eq!(claim(&scheduler, &pool("p"), 3).await.unwrap(), Err(ClaimError::Closed));
        assert_eq!(cluster.won(), [1]);
    });
}

#[test]
fn a_claim_that_loses_its_pod_during_the_end_does_not_wait_for_another() {
    run(async {
        let cluster = Cluster::with(&[("p", 1)]);
        let faults = Faults { takes: ms(500), conflicts: 100, ..Faults::default() };
        let (scheduler, _) = replica(&cluster, 1, faults, settings());
        let first = claim(&scheduler, &pool("p"), 1);
        pass(ms(10)).await;
        assert_eq!(scheduler.drain(Duration::from_secs(4)).await, Drained { unsettled: 0 });
        assert_eq!(first.await.unwrap(), Err(ClaimError::Closed));
    });
}

/// A runtime that ends drops its tasks one by one. Each that is dropped lets the next claim go on, and a task
/// that is started by then is dropped at once.
#[test]
fn a_runtime_that_ends_takes_the_lines_with_it() {
    let cluster = Cluster::with(&[("p", 50)]);
    let faults = Faults { hangs: true, ..Faults::default() };
    let mut kept = None;
    run(async {
        let (scheduler, replica) = replica(&cluster, 1, faults, Settings { swaps: 2, ..settings() });
        (0..50).for_each(|number| drop(claim(&scheduler, &pool("p"), number)));
        settled().await;
        assert_eq!(replica.swaps.lock().len(), 2);
        kept = Some((scheduler, replica));
    });
    let (scheduler, replica) = kept.unwrap();
    scheduler.changed(&pool("p"));
    assert_eq!(replica.swaps.lock().len(), 2, "nothing is written any more");
    assert_eq!(scheduler.snapshot(&pool("p")), crate::scheduler::Snapshot::default());
}
