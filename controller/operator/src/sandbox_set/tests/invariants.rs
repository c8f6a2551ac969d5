//! What must hold of every plan, whatever happens to a set.

use proptest::prelude::*;
use serde_json::json;

use super::fixture::World;
use crate::sandbox_set::plan::Plan;

/// Something that happens to a set or to one of its sandboxes.
#[derive(Clone, Debug)]
enum Happens {
    Plan,
    Ready(usize),
    Flaps(usize),
    Fails(usize),
    Claimed(usize),
    Locked(usize),
    Abandoned(usize),
    Scaled(i32),
    Image(u8),
    Time(i64),
}

fn happens() -> impl Strategy<Value = Happens> {
    prop_oneof![
        4 => Just(Happens::Plan),
        4 => (0..20_usize).prop_map(Happens::Ready),
        1 => (0..20_usize).prop_map(Happens::Flaps),
        1 => (0..20_usize).prop_map(Happens::Fails),
        2 => (0..20_usize).prop_map(Happens::Claimed),
        1 => (0..20_usize).prop_map(Happens::Locked),
        1 => (0..20_usize).prop_map(Happens::Abandoned),
        1 => (0..12_i32).prop_map(Happens::Scaled),
        1 => (0..3_u8).prop_map(Happens::Image),
        1 => (0..30_i64).prop_map(Happens::Time),
    ]
}

fn text<'a>(world: &'a World, name: &str, pointer: &str) -> &'a str {
    world.sandboxes[name].pointer(pointer).and_then(serde_json::Value::as_str).unwrap_or_default()
}

fn is_available(world: &World, name: &str) -> bool {
    !is_taken(world, name)
        && text(world, name, "/status/phase") == "Running"
        && text(world, name, "/status/conditions/0/status") == "True"
}

/// Claimed, or locked by somebody while it lives.
fn is_taken(world: &World, name: &str) -> bool {
    let is_claimed = world.sandboxes[name].pointer("/metadata/ownerReferences/0").is_none();
    let is_locked = !text(world, name, "/metadata/annotations/agents.kruise.io~1lock").is_empty();
    let has_ended = matches!(text(world, name, "/status/phase"), "Failed" | "Succeeded");
    is_claimed || (is_locked && !has_ended)
}

fn is_abandoned(world: &World, name: &str) -> bool {
    text(world, name, "/metadata/annotations/agents.kruise.io~1owner") == "__manager_scale_down"
}

fn check(world: &World, plan: &Plan, budget: usize) -> Result<(), TestCaseError> {
    let wanted = usize::try_from(world.set["spec"]["replicas"].as_i64().unwrap()).unwrap();
    let names: Vec<_> = plan.delete.iter().map(|child| child.key.name.to_string()).collect();
    for name in &names {
        prop_assert!(!is_taken(world, name) || is_abandoned(world, name), "{name} is taken");
    }
    let counted = |name: &&String| {
        !is_taken(world, name) && !matches!(text(world, name, "/status/phase"), "Failed" | "Succeeded")
    };
    let has = world.sandboxes.keys().filter(counted).count();
    prop_assert!(has + plan.create <= wanted.max(has), "more than asked for");
    let available: Vec<_> = world.sandboxes.keys().filter(|name| is_available(world, name)).collect();
    let lost = names.iter().filter(|name| available.contains(name)).count();
    let left = available.len() - lost;
    if has > wanted {
        let surplus = names.iter().filter(counted).count();
        prop_assert_eq!(surplus, has - wanted);
    } else if lost > 0 {
        prop_assert!(wanted - left <= budget, "{left} of {wanted} are left with a budget of {budget}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn a_plan_takes_nothing_from_others_keeps_to_its_budget_and_gets_there(
        replicas in 0..10_i32,
        budget in 1..4_usize,
        history in proptest::collection::vec(happens(), 0..60),
    ) {
        let mut world = World::new(replicas);
        world.write_set(|set| set["spec"]["updateStrategy"] = json!({"maxUnavailable": budget}));
        for happens in history {
            let name = |at: usize, world: &World| {
                let names: Vec<_> = world.sandboxes.keys().cloned().collect();
                (!names.is_empty()).then(|| names[at % names.len()].clone())
            };
            match happens {
                Happens::Plan => {
                    let plan = world.plan();
                    check(&world, &plan, budget)?;
                    world.carry_out(&plan);
                }
                Happens::Ready(at) => if let Some(name) = name(at, &world) { world.becomes(&name, "Running", true) },
                Happens::Flaps(at) => if let Some(name) = name(at, &world) { world.becomes(&name, "Running", false) },
                Happens::Fails(at) => if let Some(name) = name(at, &world) { world.becomes(&name, "Failed", false) },
                Happens::Claimed(at) => if let Some(name) = name(at, &world) { world.claim(&name) },
                Happens::Locked(at) => if let Some(name) = name(at, &world) { world.lock(&name, "me") },
                Happens::Abandoned(at) => if let Some(name) = name(at, &world) {
                    world.lock(&name, "__manager_scale_down");
                },
                Happens::Scaled(replicas) => world.write_set(|set| set["spec"]["replicas"] = json!(replicas)),
                Happens::Image(number) => world.image(&format!("image-{number}")),
                Happens::Time(seconds) => world.now += seconds,
            }
        }
        // Left alone, with sandboxes that come up, the set becomes what was asked for, and then rests.
        for _ in 0..200 {
            let lives = |name: &&String| {
                let phase = text(&world, name, "/status/phase");
                !is_taken(&world, name) && matches!(phase, "Pending" | "Running")
            };
            let living: Vec<_> = world.sandboxes.keys().filter(lives).cloned().collect();
            living.iter().for_each(|name| world.becomes(name, "Running", true));
            let plan = world.plan();
            check(&world, &plan, budget)?;
            if plan.create == 0 && plan.delete.is_empty() && plan.trouble.is_none() {
                break;
            }
            world.carry_out(&plan);
            world.now += 60;
        }
        let status = world.status();
        let wanted = i32::try_from(world.set["spec"]["replicas"].as_i64().unwrap()).unwrap();
        prop_assert_eq!(
            (status.replicas, status.available_replicas, status.updated_available_replicas),
            (wanted, wanted, wanted)
        );
    }
}
