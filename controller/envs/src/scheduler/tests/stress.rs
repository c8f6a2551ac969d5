use std::collections::BTreeSet;
use std::time::Duration;

use sandgate_cache::Random;
use tokio::time::sleep;

use super::world::*;
use crate::scheduler::{ClaimError, Settings};

#[test]
fn two_thousand_claims_of_five_hundred_pods() {
    run(async {
        let cluster = Cluster::with(&[("p", 500)]);
        let faults = Faults { takes: ms(2), lag: ms(1), ..Faults::default() };
        let (scheduler, _) = replica(&cluster, 1, faults, settings());
        let mut claims: Vec<_> = (0..2000).map(|number| claim(&scheduler, &pool("p"), number)).collect();
        settled().await;
        let mut pods = BTreeSet::new();
        for round in 0..4_u32 {
            assert_eq!(scheduler.queued("ns", "p"), 1500 - 500 * usize::try_from(round).unwrap());
            let mut wins = Vec::new();
            for claim in claims.drain(..500) {
                wins.push(claim.await.unwrap().unwrap());
            }
            let round_pods: BTreeSet<_> = wins.iter().map(|won| won.pod.clone()).collect();
            assert_eq!(round_pods.len(), 500, "each pod once");
            pods.extend(round_pods);
            let served: BTreeSet<u32> = wins.iter().map(|won| won.claim).collect();
            assert_eq!(served, (round * 500..(round + 1) * 500).collect(), "those that came first");
            wins.iter().for_each(|won| cluster.release(won));
            sleep(Duration::from_secs(3)).await;
        }
        assert_eq!((pods.len(), cluster.won().len()), (500, 2000));
    });
}

#[test]
fn a_third_of_the_writes_in_conflict() {
    run(async {
        let cluster = Cluster::with(&[("p", 500)]);
        let faults = Faults { conflicts: 30, takes: ms(2), lag: ms(1), ..Faults::default() };
        let (scheduler, replica) = replica(&cluster, 7, faults, settings());
        let claims: Vec<_> = (0..500).map(|number| claim(&scheduler, &pool("p"), number)).collect();
        for claim in claims {
            claim.await.unwrap().unwrap();
        }
        let swaps = replica.swaps.lock().len();
        assert!(swaps > 600, "{swaps} writes");
        // Whoever lost goes before all that have no pod in hand: nobody falls back by more than are written.
        for (place, claim) in cluster.won().into_iter().enumerate() {
            let late = place.saturating_sub(usize::try_from(claim).unwrap());
            assert!(late <= 4 * 128, "claim {claim} came {place}th");
        }
    });
}

/// Two replicas, lost answers, late writes, conflicts, callers that leave, sandboxes that end.
#[test]
fn two_replicas_share_the_pods_and_no_claim_is_lost() {
    for seed in 0..30 {
        run(async move {
            let cluster = Cluster::with(&[("p", 40), ("q", 10)]);
            let faults = Faults {
                conflicts: 10,
                lost_answers: 10,
                late: 5,
                blind: 20,
                lag: ms(1),
                takes: ms(3),
                ..Faults::default()
            };
            let limits = Settings { swaps: 16, ..settings() };
            let schedulers = [
                replica(&cluster, seed, faults, limits.clone()).0,
                replica(&cluster, seed + 1000, faults, limits).0,
            ];
            let mut random = Random::seeded(seed);
            let mut claims = Vec::new();
            for number in 0..300_u32 {
                let chosen = usize::try_from(random.number() % 2).unwrap();
                let scheduler = schedulers[chosen].clone();
                let name = if random.number().is_multiple_of(4) { "q" } else { "p" };
                let leaves = random.number().is_multiple_of(10);
                let within = if leaves { ms(random.number() % 40) } else { Duration::from_secs(3600) };
                let lives = ms(random.number() % 100);
                let cluster = cluster.clone();
                claims.push(tokio::spawn(async move {
                    match claim_within(&scheduler, &pool(name), number, within).await.unwrap() {
                        Ok(won) => {
                            assert_eq!(won.claim, number);
                            sleep(lives).await;
                            cluster.release(&won);
                            true
                        }
                        Err(error) => {
                            assert_eq!(error, ClaimError::Deadline, "claim {number}");
                            assert!(leaves, "claim {number} had time");
                            false
                        }
                    }
                }));
                sleep(ms(random.number() % 2)).await;
            }
            let mut served = 0;
            for claim in claims {
                served += usize::from(claim.await.unwrap());
            }
            assert!(served >= 250, "seed {seed}: {served}");
            for scheduler in &schedulers {
                assert_eq!(scheduler.drain(Duration::from_secs(60)).await.unsettled, 0, "seed {seed}");
            }
            settled().await;
            assert!(cluster.owned().is_empty(), "seed {seed}: no pod is kept for nobody");
        });
    }
}
