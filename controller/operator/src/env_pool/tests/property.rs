//! Whatever happens in whatever order: sandboxes are left alone, and a pool that is left alone gets what it
//! asks for.

use std::collections::BTreeSet;

use proptest::prelude::*;
use sandgate_objects::sandbox_env::names;
use sandgate_sim::model::{DeleteOptions, PODS, object};
use serde_json::json;

use super::world::{World, claim_in, pod_place, run};

#[derive(Clone, Debug)]
enum Step {
    Scale(i32),
    /// A claim of the pod of this number, before the next request.
    Claim(usize),
    /// A claim between the requests of a look.
    Race(usize, &'static str),
    Release(usize),
    Image(u8),
    Lose(usize),
    Look,
    Nodes,
    Pass(i64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0..6_i32).prop_map(Step::Scale),
        3 => (0..6_usize).prop_map(Step::Claim),
        2 => (0..6_usize, prop_oneof![Just("PATCH pods"), Just("DELETE pods")])
            .prop_map(|(at, part)| Step::Race(at, part)),
        2 => (0..6_usize).prop_map(Step::Release),
        1 => (1..4_u8).prop_map(Step::Image),
        1 => (0..6_usize).prop_map(Step::Lose),
        6 => Just(Step::Look),
        4 => Just(Step::Nodes),
        3 => (1..15_i64).prop_map(Step::Pass),
    ]
}

/// The sandboxes that start or run, by pod and ID.
fn sandboxes(world: &World) -> BTreeSet<(String, String)> {
    let model = world.model.lock();
    let is_used = |pod: &&std::sync::Arc<serde_json::Value>| {
        matches!(object::label(pod, names::LABEL_PHASE), "starting" | "running") && !object::deleting(pod)
    };
    let of = |pod: &std::sync::Arc<serde_json::Value>| {
        (object::text(pod, "/metadata/name").to_owned(), object::label(pod, names::SANDBOX_ID).to_owned())
    };
    model.list(&PODS).filter(is_used).map(of).collect()
}

async fn play(steps: Vec<Step>) {
    let mut world = World::ready(3).await;
    let nth = |names: Vec<String>, at: usize| names.get(at % names.len().max(1)).cloned();
    let (mut replicas, mut races) = (3, 0);
    for step in steps {
        match step {
            Step::Scale(to) => {
                replicas = to;
                world.scale(to);
            }
            Step::Claim(at) => {
                if let Some(name) = nth(world.live(), at) {
                    world.claim(&name);
                }
            }
            Step::Race(at, part) => {
                races += 1;
                let (name, id, now) = (nth(world.live(), at), format!("r-{races}"), world.model.lock().now());
                if let Some(name) = name {
                    world.meddle(part, move |model| {
                        claim_in(model, &name, &id, now);
                    });
                }
            }
            Step::Release(at) => {
                let running = world.phases().into_iter().filter(|(_, phase)| phase == "running");
                if let Some(name) = nth(running.map(|(name, _)| name).collect(), at) {
                    world.release(&name);
                }
            }
            Step::Image(number) => {
                world.edit_pool(|pool| pool["spec"]["idleImage"] = json!(format!("idle:{number}")));
            }
            Step::Lose(at) => {
                if let Some(name) = nth(world.live(), at) {
                    world.model.lock().delete(&pod_place(&name), &DeleteOptions::default()).unwrap();
                    world.show();
                }
            }
            Step::Look => {
                let (before, all) = (sandboxes(&world), world.live().len());
                let _ = world.look().await;
                let after = sandboxes(&world);
                prop_check(&before, &after);
                let wanted = usize::try_from(replicas).unwrap();
                assert!(world.live().len() <= all.max(wanted), "pods beyond what is asked for");
            }
            Step::Nodes => world.nodes(),
            Step::Pass(seconds) => world.pass(seconds),
        }
    }
    world.settle().await;
    let used = sandboxes(&world).len();
    assert_eq!(world.live().len(), used.max(usize::try_from(replicas).unwrap()), "{:?}", world.phases());
    assert_eq!(world.counts().idle_marked, 0);
}

/// Time is short, so no sandbox ends by itself: each that was there is there, and new ones came by a race.
fn prop_check(before: &BTreeSet<(String, String)>, after: &BTreeSet<(String, String)>) {
    let lost: Vec<_> = before.difference(after).collect();
    assert_eq!(lost, Vec::<&(String, String)>::new(), "sandboxes were taken away");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn sandboxes_are_left_alone_and_a_pool_gets_what_it_asks_for(
        steps in proptest::collection::vec(step(), 1..50)
    ) {
        run(play(steps));
    }
}
