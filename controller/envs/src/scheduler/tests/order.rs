use super::world::*;
use crate::scheduler::{ClaimError, Settings};

fn numbers(from: u32, to: u32) -> Vec<u32> {
    (from..to).collect()
}

#[test]
fn claims_get_pods_in_the_order_in_which_they_came() {
    run(async {
        let cluster = Cluster::with(&[("p", 1)]);
        let (scheduler, _) = replica(&cluster, 1, Faults::default(), settings());
        let claims: Vec<_> = (0..50).map(|number| claim(&scheduler, &pool("p"), number)).collect();
        for claim in claims {
            let won = claim.await.unwrap().unwrap();
            cluster.release(&won);
        }
        assert_eq!(cluster.won(), numbers(0, 50));
    });
}

#[test]
fn a_claim_that_lost_its_pod_keeps_its_place() {
    for seed in 0..20 {
        run(async move {
            let cluster = Cluster::with(&[("p", 60)]);
            let faults = Faults { conflicts: 30, lag: ms(3), takes: ms(1), ..Faults::default() };
            // One write at a time, so that the order of the wins is the order of the line.
            let (scheduler, replica) = replica(&cluster, seed, faults, Settings { swaps: 1, ..settings() });
            let claims: Vec<_> = (0..60).map(|number| claim(&scheduler, &pool("p"), number)).collect();
            for claim in claims {
                claim.await.unwrap().unwrap();
            }
            assert_eq!(cluster.won(), numbers(0, 60), "seed {seed}");
            assert!(replica.swaps.lock().len() > 60, "there were conflicts");
        });
    }
}

#[test]
fn a_pod_that_is_gone_costs_a_claim_nothing_but_time() {
    run(async {
        let cluster = Cluster::with(&[("p", 3)]);
        let (scheduler, _) = replica(&cluster, 1, Faults::default(), Settings { swaps: 1, ..settings() });
        cluster.delete("p-0000", false);
        let (first, second) = (claim(&scheduler, &pool("p"), 1), claim(&scheduler, &pool("p"), 2));
        assert_eq!(&*first.await.unwrap().unwrap().pod.name, "p-0001");
        assert_eq!(&*second.await.unwrap().unwrap().pod.name, "p-0002");
        assert_eq!(cluster.won(), [1, 2]);
    });
}

#[test]
fn a_version_that_was_changed_is_not_tried_again_before_a_newer_one_is_seen() {
    run(async {
        let cluster = Cluster::with(&[("p", 1)]);
        let (scheduler, replica) = replica(&cluster, 1, Faults::default(), settings());
        cluster.touch(&pool("p-0000"), false);
        let claimed = claim(&scheduler, &pool("p"), 1);
        settled().await;
        scheduler.changed(&pool("p"));
        settled().await;
        assert_eq!(replica.swaps.lock().len(), 1);
        replica.relist();
        scheduler.changed(&pool("p"));
        claimed.await.unwrap().unwrap();
        assert_eq!(replica.swaps.lock().len(), 2);
    });
}

#[test]
fn a_version_that_nobody_seems_to_have_changed_is_tried_again_after_a_while() {
    run(async {
        let cluster = Cluster::with(&[("p", 1)]);
        let (scheduler, replica) = replica(&cluster, 1, Faults::default(), settings());
        cluster.touch(&pool("p-0000"), false);
        // Another waits in vain, so the upkeep has looked after that line already.
        let other = claim(&scheduler, &pool("none"), 9);
        settled().await;
        let claimed = claim(&scheduler, &pool("p"), 1);
        settled().await;
        assert_eq!(replica.swaps.lock().len(), 1);
        replica.relist();
        claimed.await.unwrap().unwrap();
        other.abort();
    });
}

#[test]
fn a_claim_that_is_refused_ends_and_the_next_goes_on() {
    run(async {
        let cluster = Cluster::with(&[("p", 1)]);
        let (scheduler, _) = replica(&cluster, 1, Faults::default(), settings());
        let (first, second) = (claim(&scheduler, &pool("p"), REFUSED), claim(&scheduler, &pool("p"), 2));
        assert_eq!(first.await.unwrap(), Err(ClaimError::Refused("no")));
        assert_eq!(&*second.await.unwrap().unwrap().pod.name, "p-0000");
    });
}

#[test]
fn a_full_line_takes_no_more_and_neither_do_all_lines_together() {
    run(async {
        let cluster = Cluster::with(&[]);
        let limits = Settings { line: 2, lines: 3, ..settings() };
        let (scheduler, _) = replica(&cluster, 1, Faults::default(), limits);
        let full = Err(ClaimError::Full { retry_after: settings().retry_after });
        let first = claim(&scheduler, &pool("p"), 1);
        let second = claim(&scheduler, &pool("p"), 2);
        assert_eq!(claim(&scheduler, &pool("p"), 3).await.unwrap(), full);
        assert!(scheduler.is_full(scheduler.queued("ns", "p")));
        let third = claim(&scheduler, &pool("q"), 4);
        assert_eq!(claim(&scheduler, &pool("r"), 5).await.unwrap(), full);
        assert!(!scheduler.is_full(scheduler.queued("ns", "r")));
        // Who leaves makes room.
        first.abort();
        settled().await;
        let fourth = claim(&scheduler, &pool("p"), 6);
        settled().await;
        assert_eq!(scheduler.snapshot(&pool("p")).queued, 2);
        [second, third, fourth].iter().for_each(tokio::task::JoinHandle::abort);
    });
}

#[test]
fn a_long_line_leaves_the_others_their_turn_to_write() {
    run(async {
        let cluster = Cluster::with(&[("big", 500), ("small", 5)]);
        let faults = Faults { takes: ms(1), ..Faults::default() };
        let (scheduler, _) = replica(&cluster, 1, faults, Settings { swaps: 2, ..settings() });
        let big: Vec<_> = (0..500).map(|number| claim(&scheduler, &pool("big"), number)).collect();
        let small: Vec<_> = (500..505).map(|number| claim(&scheduler, &pool("small"), number)).collect();
        for claim in small {
            claim.await.unwrap().unwrap();
        }
        let before = cluster.won().len();
        assert!(before < 20, "{before} claims were served first");
        for claim in big {
            claim.await.unwrap().unwrap();
        }
    });
}

#[test]
fn no_more_pods_are_written_at_a_time_than_allowed() {
    run(async {
        let cluster = Cluster::with(&[("p", 300), ("q", 300)]);
        let faults = Faults { hangs: true, ..Faults::default() };
        let (scheduler, replica) = replica(&cluster, 1, faults, settings());
        for number in 0..600 {
            claim(&scheduler, &pool(if number % 2 == 0 { "p" } else { "q" }), number);
        }
        settled().await;
        assert_eq!(replica.swaps.lock().len(), 128);
        let in_flight = |name| scheduler.snapshot(&pool(name)).in_flight;
        assert_eq!(in_flight("p") + in_flight("q"), 128);
    });
}

#[test]
fn what_nobody_told_of_is_found_by_looking() {
    run(async {
        let cluster = Cluster::with(&[("p", 0)]);
        let (scheduler, replica) = replica(&cluster, 1, Faults::default(), Settings::default());
        let claimed = claim(&scheduler, &pool("p"), 1);
        let began = tokio::time::Instant::now();
        settled().await;
        cluster.add(&pool("p"), "p-late", false);
        replica.relist();
        claimed.await.unwrap().unwrap();
        assert_eq!(began.elapsed().as_secs(), 10);
        // The looks come ever more seldom: after 10, 30, 70, 150, 310 and 610 s.
        let claimed = claim(&scheduler, &pool("p"), 2);
        let began = tokio::time::Instant::now();
        pass(ms(320_000)).await;
        cluster.add(&pool("p"), "p-later", false);
        replica.relist();
        claimed.await.unwrap().unwrap();
        assert_eq!(began.elapsed().as_secs(), 610);
    });
}
