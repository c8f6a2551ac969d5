//! Whatever happens to a pool: what must hold of every plan.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use sandgate_objects::opensandbox::names;
use sandgate_sim::model::object::text;
use serde_json::json;

use super::world::{World, run};
use crate::pool::plan::Plan;

/// Something that happens.
#[derive(Clone, Debug)]
enum Happens {
    Look,
    Nodes,
    Batch(i32),
    Deleted(usize),
    Scaled(usize, i32),
    LetGo(usize),
    Lost(usize),
    Evicted(usize),
    Image(u8),
    Restart,
    Time(i64),
}

fn happens() -> impl Strategy<Value = Happens> {
    prop_oneof![
        6 => Just(Happens::Look),
        4 => Just(Happens::Nodes),
        3 => (0..4_i32).prop_map(Happens::Batch),
        2 => (0..20_usize).prop_map(Happens::Deleted),
        1 => (0..20_usize, 0..4_i32).prop_map(|(at, replicas)| Happens::Scaled(at, replicas)),
        2 => (0..20_usize).prop_map(Happens::LetGo),
        1 => (0..20_usize).prop_map(Happens::Lost),
        1 => (0..20_usize).prop_map(Happens::Evicted),
        1 => (0..3_u8).prop_map(Happens::Image),
        1 => Just(Happens::Restart),
        1 => (0..40_i64).prop_map(Happens::Time),
    ]
}

/// What holds of a plan, by the objects that it was made from.
fn check(world: &World, plan: &Plan) -> Result<(), TestCaseError> {
    let observed = world.observed();
    let mut meant = BTreeSet::new();
    let gifts = plan.turns.iter().flat_map(|turn| turn.give.iter().map(|gift| &gift.pod));
    let others = [&plan.evict, &plan.stuck, &plan.delete, &plan.strays, &plan.unclaim].into_iter().flatten();
    let orphans = plan.turns.iter().flat_map(|turn| &turn.orphans);
    for pod in gifts.clone().chain(others).chain(orphans) {
        prop_assert!(meant.insert(pod.key.clone()), "{} is meant twice", pod.key);
    }
    // Nothing that a batch holds is deleted.
    let mut held = BTreeMap::new();
    for name in world.batches() {
        let released: BTreeSet<_> = world.released(&name).into_iter().collect();
        for pod in world.alloc(&name).into_iter().filter(|pod| !released.contains(pod)) {
            held.insert(pod, name.clone());
        }
    }
    for pod in plan.evict.iter().chain(&plan.stuck).chain(&plan.delete).chain(gifts) {
        prop_assert!(!held.contains_key(&*pod.key.name), "{} is held", pod.key);
    }
    let counts = observed.look.counts;
    let all = counts.total() + counts.leaving + observed.look.reserved.len();
    prop_assert!(plan.create == 0 || all + plan.create <= observed.terms.pool_max);
    prop_assert!(
        plan.create == 0
            || plan.delete.iter().all(|pod| { pod.has_ended() || pod.revision != observed.revision }),
        "a pod is made and another one of its revision deleted"
    );
    // First come, first served: nobody gets a pod while an older one lacks it.
    let lacks = |needs: &crate::view::Need, got: usize| got < needs.lacks();
    let got = |name: &str| {
        let turn = plan.turns.iter().find(|turn| *turn.batch.key.name == *name);
        turn.map_or(0, |turn| turn.give.len())
    };
    let mut somebody_lacks = false;
    for (batch, need) in &observed.look.needs {
        let given = got(&batch.key.name);
        prop_assert!(given <= need.lacks());
        let may_refuse = !need.released.is_empty();
        prop_assert!(given == 0 || !somebody_lacks, "{} is served before an older one", batch.key);
        somebody_lacks |= lacks(need, given) && !may_refuse;
    }
    Ok(())
}

async fn plays(strategy: &str, terms: [i32; 4], history: Vec<Happens>) -> Result<(), TestCaseError> {
    let mut world = World::new(terms);
    world.recycle_by(strategy);
    let mut made = 0;
    for happens in history {
        let some = |at: usize, of: Vec<String>| (!of.is_empty()).then(|| of[at % of.len()].clone());
        match happens {
            Happens::Look => {
                check(&world, &world.plan())?;
                let _ = world.look().await;
            }
            Happens::Nodes => world.nodes(),
            Happens::Batch(replicas) => {
                made += 1;
                world.batch(&format!("b{made}"), replicas);
            }
            Happens::Deleted(at) => {
                if let Some(name) = some(at, world.batches()) {
                    world.delete_batch(&name);
                }
            }
            Happens::Scaled(at, replicas) => {
                if let Some(name) = some(at, world.batches()) {
                    let replicas = replicas.max(i32::try_from(world.alloc(&name).len()).unwrap());
                    world.edit_batch(&name, |batch| batch["spec"]["replicas"] = json!(replicas));
                }
            }
            Happens::LetGo(at) => {
                if let Some(name) = some(at, world.batches())
                    && let Some(pod) = some(at / 3, world.alloc(&name))
                {
                    let mut wished = world.wished(&name);
                    wished.push(pod);
                    wished.sort();
                    wished.dedup();
                    let wished: Vec<_> = wished.iter().map(String::as_str).collect();
                    world.wish(&name, &wished);
                }
            }
            Happens::Lost(at) => {
                if let Some(pod) = some(at, world.live()) {
                    world.lose_pod(&pod);
                }
            }
            Happens::Evicted(at) => {
                if let Some(pod) = some(at, world.live()) {
                    world.edit_pod(&pod, |pod| pod["metadata"]["labels"][names::LABEL_EVICT] = json!("1"));
                }
            }
            Happens::Image(number) => world.image(&format!("base:{number}")),
            Happens::Restart => world.restart(),
            Happens::Time(seconds) => world.pass(seconds),
        }
        for command in world.restarts().await {
            let pod = command.split(' ').next().unwrap().to_owned();
            if world.of_pod(&pod).is_some() {
                world.restarted(&pod);
            }
        }
    }
    // Left alone, it comes to rest, and then everybody has what the pool can give.
    for _ in 0..40 {
        let _ = world.look().await;
        for command in world.restarts().await {
            let pod = command.split(' ').next().unwrap().to_owned();
            if world.of_pod(&pod).is_some() {
                world.restarted(&pod);
            }
        }
        world.nodes();
        world.pass(301);
    }
    world.settle(true).await;
    let plan = world.plan();
    check(&world, &plan)?;
    prop_assert_eq!((plan.create, plan.delete.len(), plan.turns.len()), (0, 0, 0));
    let observed = world.observed();
    let counts = observed.look.counts;
    prop_assert_eq!((counts.leaving, counts.orphans, counts.dead, counts.evicting), (0, 0, 0, 0));
    prop_assert_eq!(counts.unready_new + counts.unready_old + counts.ready_old, 0);
    prop_assert!(plan.unmet == 0 || counts.total() >= observed.terms.pool_max, "{} wait", plan.unmet);
    for batch in world.batches() {
        prop_assert!(world.of_batch(&batch).unwrap()["metadata"].get("deletionTimestamp").is_none());
    }
    let status = world.status();
    prop_assert_eq!(status["total"].as_u64(), Some(counts.total() as u64));
    prop_assert_eq!(text(&status, "/revision"), &*observed.revision);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(60) })]

    #[test]
    fn no_pod_is_given_twice_the_oldest_is_served_first_and_it_comes_to_rest(
        strategy in prop_oneof![Just("Delete"), Just("Noop"), Just("Restart")],
        (buffer_min, band, pool_min, pool_max) in (0..4_i32, 0..4_i32, 0..4_i32, 4..14_i32),
        history in proptest::collection::vec(happens(), 0..50),
    ) {
        let terms = [buffer_min, buffer_min + band, pool_min, pool_max];
        run(plays(strategy, terms, history))?;
    }
}
