use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::world::*;
use crate::scheduler::Snapshot;

fn told(replica: &Replica, began: Instant) -> Vec<(u64, usize)> {
    let told = replica.told.lock();
    told.iter().map(|(at, _, claims)| (u64::try_from((*at - began).as_millis()).unwrap(), *claims)).collect()
}

#[test]
fn a_line_can_be_looked_at() {
    run(async {
        let cluster = Cluster::with(&[("p", 2)]);
        let faults = Faults { takes: ms(100), ..Faults::default() };
        let (scheduler, _) = replica(&cluster, 1, faults, settings());
        assert_eq!(scheduler.snapshot(&pool("p")), Snapshot::default());
        let claims: Vec<_> = (0..5).map(|number| claim(&scheduler, &pool("p"), number)).collect();
        pass(ms(50)).await;
        let expected = Snapshot { queued: 5, in_flight: 2, last_dispatch: None };
        assert_eq!(scheduler.snapshot(&pool("p")), expected);
        assert_eq!(scheduler.queued("ns", "p"), 5);
        assert_eq!(scheduler.pending().into_iter().collect::<Vec<_>>(), [(pool("p"), 5)]);
        let written = Instant::now() + ms(50);
        settled().await;
        let expected = Snapshot { queued: 3, in_flight: 0, last_dispatch: Some(written) };
        assert_eq!(scheduler.snapshot(&pool("p")), expected);
        assert_eq!(scheduler.queued("ns", "p"), 3);
        claims.iter().for_each(JoinHandle::abort);
        settled().await;
        assert!(scheduler.pending().is_empty());
        assert_eq!(scheduler.queued("ns", "p"), 0);
    });
}

#[test]
fn claims_that_find_a_pod_at_once_are_no_demand() {
    run(async {
        let cluster = Cluster::with(&[("p", 100)]);
        let faults = Faults { takes: ms(10), ..Faults::default() };
        let (scheduler, replica) = replica(&cluster, 1, faults, settings());
        for number in 0..100 {
            claim(&scheduler, &pool("p"), number).await.unwrap().unwrap();
        }
        pass(Duration::from_secs(60)).await;
        assert!(replica.told.lock().is_empty());
    });
}

#[test]
fn the_first_that_waits_is_told_at_once_and_the_rest_by_and_by() {
    run(async {
        let cluster = Cluster::with(&[("p", 0)]);
        let (scheduler, replica) = replica(&cluster, 1, Faults::default(), settings());
        let began = Instant::now();
        let mut claims = vec![claim(&scheduler, &pool("p"), 0)];
        pass(ms(1000)).await;
        claims.extend((1..10).map(|number| claim(&scheduler, &pool("p"), number)));
        pass(ms(9000)).await;
        assert_eq!(told(&replica, began), [(0, 1), (3000, 10)]);
        // A tenth more is much the same; a fifth is not.
        claims.push(claim(&scheduler, &pool("p"), 10));
        pass(ms(10_000)).await;
        assert_eq!(told(&replica, began).len(), 2);
        claims.push(claim(&scheduler, &pool("p"), 11));
        pass(ms(10_000)).await;
        assert_eq!(told(&replica, began)[2..], [(20_000, 12)]);
        // They leave, and the next one comes.
        claims.iter().for_each(JoinHandle::abort);
        pass(ms(10_000)).await;
        assert_eq!(told(&replica, began)[3..], [(30_000, 0)]);
        let last = claim(&scheduler, &pool("p"), 12);
        pass(ms(100)).await;
        last.abort();
        pass(ms(10_000)).await;
        assert_eq!(told(&replica, began)[4..], [(40_000, 1), (43_000, 0)]);
    });
}

#[test]
fn a_line_that_comes_and_goes_is_told_every_three_seconds_at_most_twice() {
    run(async {
        let cluster = Cluster::with(&[("p", 0)]);
        let (scheduler, replica) = replica(&cluster, 1, Faults::default(), settings());
        let began = Instant::now();
        for number in 0..1000 {
            let claim = claim(&scheduler, &pool("p"), number);
            pass(ms(20)).await;
            claim.abort();
            pass(ms(10)).await;
        }
        let told = told(&replica, began).len();
        assert!((1..=22).contains(&told), "{told} times in thirty seconds");
    });
}
