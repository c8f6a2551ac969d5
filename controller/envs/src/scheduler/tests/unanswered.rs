use super::world::*;
use crate::scheduler::{ClaimError, Settings};

#[test]
fn a_write_that_was_done_without_an_answer_is_the_claims() {
    run(async {
        let cluster = Cluster::with(&[("p", 2)]);
        let faults = Faults { lost_answers: 100, ..Faults::default() };
        let (scheduler, replica) = replica(&cluster, 1, faults, settings());
        let won = claim(&scheduler, &pool("p"), 1).await.unwrap().unwrap();
        assert_eq!(&*won.pod.name, "p-0000");
        assert_eq!((replica.swaps.lock().len(), cluster.won()), (1, vec![1]));
    });
}

#[test]
fn a_write_that_arrives_late_is_never_the_second() {
    for seed in 0..100 {
        run(async move {
            let cluster = Cluster::with(&[("p", 6)]);
            let faults = Faults { late: 60, lost_answers: 20, blind: 30, conflicts: 20, ..Faults::default() };
            let (scheduler, _) = replica(&cluster, seed, faults, settings());
            let claims: Vec<_> = (0..6).map(|number| claim(&scheduler, &pool("p"), number)).collect();
            for (claim, number) in claims.into_iter().zip(0..) {
                assert_eq!(claim.await.unwrap().unwrap().claim, number);
            }
            settled().await;
            let mut won = cluster.won();
            won.sort_unstable();
            assert_eq!(won, [0, 1, 2, 3, 4, 5], "seed {seed}: each has one, and had no other");
        });
    }
}

#[test]
fn a_pod_that_is_another_s_by_now_is_let_go() {
    run(async {
        let cluster = Cluster::with(&[("p", 2)]);
        let faults = Faults { lost_answers: 100, ..Faults::default() };
        let (scheduler, replica) = replica(&cluster, 1, faults, settings());
        // The view is old: the write meets a conflict, and the answer to it is lost.
        cluster.touch(&pool("p-0000"), false);
        let won = claim(&scheduler, &pool("p"), 1).await.unwrap().unwrap();
        assert_eq!(&*won.pod.name, "p-0001");
        assert_eq!(replica.swaps.lock().len(), 2);
    });
}

#[test]
fn a_caller_that_leaves_before_its_write_is_settled_leaves_no_pod_behind() {
    for seed in 0..50 {
        run(async move {
            let cluster = Cluster::with(&[("p", 1)]);
            let faults = Faults { late: 50, lost_answers: 50, blind: 50, takes: ms(10), ..Faults::default() };
            let (scheduler, replica) = replica(&cluster, seed, faults, settings());
            let claimed = claim_within(&scheduler, &pool("p"), 1, ms(5));
            assert!(claimed.await.unwrap().is_err());
            // Its number has left the line, its pod has not been written for the last time.
            assert_eq!(scheduler.snapshot(&pool("p")).queued, 0);
            pass(ms(60_000)).await;
            assert_eq!(cluster.owned().len(), 0, "seed {seed}");
            assert_eq!(*replica.given_back.lock(), [1]);
            *replica.faults.lock() = Faults::default();
            claim(&scheduler, &pool("p"), 2).await.unwrap().unwrap();
        });
    }
}

#[test]
fn a_refusal_after_a_write_without_an_answer_ends_the_claim_and_frees_its_turn() {
    run(async {
        let cluster = Cluster::with(&[("p", 1)]);
        let faults = Faults { dropped: 100, ..Faults::default() };
        let settings = Settings { swaps: 1, ..settings() };
        let (scheduler, replica) = replica(&cluster, 1, faults, settings);
        let first = claim(&scheduler, &pool("p"), 1);
        pass(ms(10)).await;
        assert_eq!(replica.swaps.lock().len(), 1);
        *replica.faults.lock() = Faults { refuses: true, ..Faults::default() };
        pass(ms(9000)).await;
        assert!(replica.swaps.lock().len() > 1 && !first.is_finished(), "the first write may still arrive");
        assert_eq!(first.await.unwrap(), Err(ClaimError::Refused("no more")));
        *replica.faults.lock() = Faults::default();
        claim(&scheduler, &pool("p"), 2).await.unwrap().unwrap();
    });
}

#[test]
fn a_write_that_is_put_off_is_sent_again_and_leaves_no_doubt() {
    run(async {
        let cluster = Cluster::with(&[("p", 1)]);
        let faults = Faults { put_off: 100, blind: 100, ..Faults::default() };
        let (scheduler, replica) = replica(&cluster, 1, faults, settings());
        let first = claim(&scheduler, &pool("p"), 1);
        pass(ms(30_000)).await;
        let tries = replica.swaps.lock().len();
        assert!((5..30).contains(&tries), "{tries} tries, with pauses");
        replica.faults.lock().put_off = 0;
        // It has not to be settled, which nothing answers.
        assert_eq!(first.await.unwrap().unwrap().claim, 1);
    });
}

#[test]
fn a_write_that_is_put_off_ends_when_its_caller_leaves() {
    run(async {
        let cluster = Cluster::with(&[("p", 1)]);
        let faults = Faults { put_off: 100, ..Faults::default() };
        let settings = Settings { swaps: 1, ..settings() };
        let (scheduler, replica) = replica(&cluster, 1, faults, settings);
        assert!(claim_within(&scheduler, &pool("p"), 1, ms(100)).await.unwrap().is_err());
        pass(ms(5000)).await;
        assert_eq!(scheduler.snapshot(&pool("p")).in_flight, 0);
        *replica.faults.lock() = Faults::default();
        claim(&scheduler, &pool("p"), 2).await.unwrap().unwrap();
        assert_eq!(cluster.won(), [2]);
    });
}
