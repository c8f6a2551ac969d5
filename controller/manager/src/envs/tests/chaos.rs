//! Requests that are lost, and answers that are.

use std::collections::BTreeSet;
use std::time::Duration;

use sandgate_cache::Random;
use sandgate_objects::sandbox_env::names;
use sandgate_objects::sandbox_env::resources::{EnvPod, decode};
use sandgate_sim::model::PODS;

use super::world::{shop, wishing};
use crate::NewSandbox;
use crate::manager::tests::world::{Fate, World, run, somebody};

/// The sandboxes that run, or that are not on their way back.
fn living(world: &World) -> Vec<String> {
    let pods = world.model.list(&PODS).map(|pod| decode::<EnvPod>(pod.to_string().as_bytes()).unwrap());
    let live = pods.filter(|pod| ["starting", "running"].contains(&pod.label(names::LABEL_PHASE)));
    live.map(|pod| pod.sandbox_id().to_owned()).collect()
}

#[test]
fn whatever_is_lost_every_answer_has_one_pod_and_no_other_pod_is_kept() {
    for seed in 0..40 {
        run(async {
            let mut world = shop(2, &[("a", 3, 0), ("b", 3, 0)]);
            let mut random = Random::seeded(seed);
            let creates: Vec<_> = (0..6)
                .map(|number| {
                    let manager = world.manager(number % 2);
                    let idempotency_key = (number < 3).then(|| "k".to_owned());
                    let new = NewSandbox { idempotency_key, ..wishing(&[("startup-timeout", "20")]) };
                    tokio::spawn(async move { manager.create(&somebody(), new).await })
                })
                .collect();
            let mut fate = |_: &_| match random.number() % 8 {
                0 => Fate::Lost,
                1 => Fate::Unanswered,
                _ => Fate::Done,
            };
            let (mut given, mut keyed, mut is_unsure) = (BTreeSet::new(), BTreeSet::new(), false);
            for (number, create) in creates.into_iter().enumerate() {
                match world.end_with(create, &mut fate).await {
                    Ok(made) if number < 3 => drop(keyed.insert(made.id)),
                    Ok(made) => assert!(given.insert(made.id), "seed {seed}: two creates have one sandbox"),
                    // A retry would find its sandbox.
                    Err(_) => is_unsure |= number < 3,
                }
            }
            // What is taken back is tried again after seconds.
            for _ in 0..100 {
                tokio::time::sleep(Duration::from_millis(200)).await;
                world.round(|_| Fate::Done).await;
            }
            assert!(keyed.len() <= 1, "seed {seed}: one key, one sandbox: {keyed:?}");
            given.extend(keyed);
            let living = living(&world);
            let distinct: BTreeSet<_> = living.iter().cloned().collect();
            assert_eq!(distinct.len(), living.len(), "seed {seed}: one sandbox has two pods");
            assert!(given.is_subset(&distinct), "seed {seed}: {given:?} of {distinct:?}");
            let kept = distinct.len() - given.len();
            assert!(kept <= usize::from(is_unsure), "seed {seed}: {kept} pods are nobody's");
        });
    }
}
