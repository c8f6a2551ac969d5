//! Two processes that both believe that they lead, each with a view of its own age.

use proptest::prelude::*;
use serde_json::json;

use super::world::{Fate, POOL, World, key, run};
use crate::{Random, Reconciler as _};

/// Something that happens.
#[derive(Clone, Debug)]
enum Happens {
    /// Both look at the same time.
    Both,
    /// One of them looks.
    One(bool),
    /// One of them is shown what has happened.
    Shown(bool),
    Nodes,
    Batch(i32),
    Deleted(usize),
    LetGo(usize),
    More(usize),
    Lost(usize),
}

fn happens() -> impl Strategy<Value = Happens> {
    prop_oneof![
        6 => Just(Happens::Both),
        2 => any::<bool>().prop_map(Happens::One),
        5 => any::<bool>().prop_map(Happens::Shown),
        3 => Just(Happens::Nodes),
        4 => (1..4_i32).prop_map(Happens::Batch),
        2 => (0..20_usize).prop_map(Happens::Deleted),
        2 => (0..20_usize).prop_map(Happens::LetGo),
        1 => (0..20_usize).prop_map(Happens::More),
        1 => (0..20_usize).prop_map(Happens::Lost),
    ]
}

async fn plays(strategy: &str, seed: u64, history: Vec<Happens>) {
    let mut world = World::new([1, 3, 0, 6]);
    world.recycle_by(strategy);
    world.delayed(seed);
    let mut random = Random::seeded(seed);
    for _ in 0..random.number() % 12 {
        let fate = if random.number().is_multiple_of(2) { Fate::Lost } else { Fate::Unanswered };
        world.fate(usize::try_from(random.number() % 300).unwrap(), fate);
    }
    let mut other = world.other();
    other.show(&world.model.lock());
    let pool = key(POOL);
    let mut made = 0;
    for happens in history {
        let some = |at: usize, of: Vec<String>| (!of.is_empty()).then(|| of[at % of.len()].clone());
        match happens {
            Happens::Both => {
                let (one, two) = (world.process.pools.reconcile(&pool), other.pools.reconcile(&pool));
                let _ = tokio::join!(one, two);
            }
            Happens::One(true) => drop(world.process.pools.reconcile(&pool).await),
            Happens::One(false) => drop(other.pools.reconcile(&pool).await),
            Happens::Shown(true) => world.show(),
            Happens::Shown(false) => other.show(&world.model.lock()),
            Happens::Nodes => world.nodes_unseen(),
            Happens::Batch(replicas) => {
                made += 1;
                world.batch_unseen(&format!("b{made}"), replicas);
            }
            Happens::Deleted(at) => {
                if let Some(name) = some(at, world.batches()) {
                    world.delete_unseen(&name);
                }
            }
            Happens::LetGo(at) => {
                if let Some(name) = some(at, world.batches())
                    && let Some(pod) = some(at / 3, world.alloc(&name))
                {
                    world.wish_unseen(&name, &pod);
                }
            }
            Happens::More(at) => {
                if let Some(name) = some(at, world.batches()) {
                    world.edit_unseen(&name, |batch| {
                        let replicas = batch["spec"]["replicas"].as_i64().unwrap();
                        batch["spec"]["replicas"] = json!(replicas + 1);
                    });
                }
            }
            Happens::Lost(at) => {
                if let Some(pod) = some(at, world.live()) {
                    world.lose_unseen(&pod);
                }
            }
        }
        world.check();
        for command in world.restarts().await {
            let pod = command.split(' ').next().unwrap().to_owned();
            if world.of_pod(&pod).is_some() {
                world.restarted(&pod);
            }
        }
    }
    // One of them is left, and puts everything in order.
    drop(other);
    world.restart();
    for _ in 0..20 {
        let _ = world.look().await;
        for command in world.restarts().await {
            let pod = command.split(' ').next().unwrap().to_owned();
            if world.of_pod(&pod).is_some() {
                world.restarted(&pod);
            }
        }
        world.nodes();
        world.pass(31);
    }
    world.settle(true).await;
    let observed = world.observed();
    assert!(observed.orphans.is_empty() && observed.strays.is_empty());
    let plan = world.plan();
    assert!(
        plan.unmet == 0 || observed.look.counts.total() >= observed.terms.pool_max,
        "{} wait",
        plan.unmet
    );
    for batch in world.batches() {
        let released = world.released(&batch);
        for pod in world.alloc(&batch).into_iter().filter(|pod| !released.contains(pod)) {
            assert!(plan.unmet > 0 || world.of_pod(&pod).is_some(), "{pod} of {batch} is lost");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(150) })]

    #[test]
    fn two_processes_at_a_time_give_no_pod_to_two_batches(
        strategy in prop_oneof![2 => Just("Noop"), 1 => Just("Delete"), 1 => Just("Restart")],
        seed in any::<u64>(),
        history in proptest::collection::vec(happens(), 0..60),
    ) {
        run(plays(strategy, seed, history));
    }
}
