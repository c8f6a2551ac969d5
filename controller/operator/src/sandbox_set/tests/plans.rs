//! The rules of a plan, one by one.

use serde_json::json;

use super::fixture::{NOW, World, at, deleted};
use crate::sandbox_set::plan::{CREATE_FAILED, MAX_CREATES, SANDBOXES_FAIL, TEMPLATE_NOT_FOUND};
use crate::view::Kind;
use crate::{Again, Key};

#[test]
fn a_new_set_is_filled() {
    let plan = World::new(3).plan();
    assert_eq!((plan.create, plan.delete.len(), plan.materialise), (3, 0, true));
    assert_eq!(plan.again(at(NOW)), Again::Rarely);
}

#[test]
fn a_big_set_is_filled_in_several_looks() {
    assert_eq!(World::new(100_000).plan().create, MAX_CREATES);
}

#[test]
fn sandboxes_in_creation_count_and_so_do_names_that_were_asked_for() {
    let mut world = World::new(5);
    world.make();
    world.ready();
    let observed = world.observed();
    assert!(world.view.reserve(&observed.set.uid, &Key::new("n", "pool-x"), &observed.revision()));
    assert_eq!(world.plan().create, 2);
}

#[test]
fn growth_is_bounded_by_what_may_be_in_creation() {
    for (limit, in_creation, expected) in [
        (json!(3), 0, 3),
        (json!(3), 2, 1),
        (json!(3), 4, 0),
        (json!("25%"), 0, 3),
        (json!("25%"), 1, 2),
        (json!(0), 0, 0),
        (json!("many"), 0, 10),
    ] {
        let mut world = World::new(10);
        world.write_set(|set| set["spec"]["scaleStrategy"] = json!({"maxUnavailable": limit}));
        (0..in_creation).for_each(|_| drop(world.make()));
        assert_eq!(world.plan().create, expected, "{limit} {in_creation}");
    }
}

#[test]
fn a_claimed_sandbox_is_none_of_the_sets_business_and_is_replaced() {
    let mut world = World::new(2);
    let (claimed, _) = (world.ready(), world.ready());
    world.claim(&claimed);
    let plan = world.plan();
    assert_eq!((plan.create, plan.delete.len()), (1, 0));
    world.write_set(|set| set["spec"]["replicas"] = json!(0));
    assert!(!deleted(&world.plan()).contains(&claimed));
}

#[test]
fn a_surplus_goes_in_order() {
    let mut world = World::new(0);
    // Of the old revision: one that is ready.
    let old = world.ready();
    world.image("b");
    let later = |seconds: i64, world: &mut World| world.now = NOW + seconds;
    later(1, &mut world);
    let oldest = world.ready();
    later(2, &mut world);
    let newest = world.ready();
    let recycled = world.ready();
    world.write(&recycled, |sandbox| sandbox["status"]["recycledCount"] = json!(2));
    later(3, &mut world);
    let unready = world.make();
    world.becomes(&unready, "Running", false);
    let pending = world.make();
    let all = [old, pending, recycled, unready, oldest, newest];
    assert_eq!(deleted(&world.plan()), all);
    for wanted in 0..=all.len() {
        world.write_set(|set| set["spec"]["replicas"] = json!(wanted));
        let plan = world.plan();
        assert_eq!(deleted(&plan), all[..all.len() - wanted], "{wanted}");
        assert_eq!(plan.create, 0);
    }
}

#[test]
fn a_delete_is_for_the_version_that_was_seen() {
    let mut world = World::new(0);
    let name = world.ready();
    let planned = world.plan().delete[0].clone();
    assert_eq!(planned.version.to_string(), world.sandboxes[&name]["metadata"]["resourceVersion"]);
    assert_eq!(*planned.uid, *format!("uid-of-{name}"));
    // Something that changes nothing for the set still counts as a change.
    world.write(&name, |sandbox| sandbox["metadata"]["annotations"] = json!({"x": "y"}));
    assert!(world.plan().delete[0].version > planned.version);
}

#[test]
fn what_openkruise_locked_for_a_scale_down_and_left_is_deleted_and_not_counted() {
    let mut world = World::new(2);
    let (left, _) = (world.ready(), world.ready());
    world.lock(&left, "__manager_scale_down");
    let plan = world.plan();
    assert_eq!((deleted(&plan), plan.create), (vec![left], 1));
}

#[test]
fn what_somebody_else_locked_is_neither_counted_nor_deleted() {
    let mut world = World::new(2);
    let (locked, _) = (world.ready(), world.ready());
    world.lock(&locked, "somebody");
    let plan = world.plan();
    assert_eq!((plan.delete.len(), plan.create), (0, 1));
    world.write_set(|set| set["spec"]["replicas"] = json!(0));
    assert_eq!(world.plan().delete.len(), 1);
}

#[test]
fn a_lock_does_not_keep_what_has_failed() {
    let mut world = World::new(1);
    let locked = world.ready();
    world.lock(&locked, "somebody");
    world.becomes(&locked, "Failed", false);
    assert_eq!(deleted(&world.plan()), [locked]);
}

#[test]
fn a_set_that_waits_says_why_the_api_server_refused_its_sandboxes() {
    let mut world = World::new(1);
    let revision = world.observed().revision();
    for _ in 0..2 {
        world.now += 1;
        world.failures = world.failures.clone().and_refused(&revision, "exceeded quota", at(world.now));
    }
    let plan = world.plan();
    let trouble = plan.trouble.unwrap();
    assert_eq!((plan.create, trouble.reason, trouble.message.as_str()), (0, CREATE_FAILED, "exceeded quota"));
}

#[test]
fn what_is_being_deleted_is_not_counted_and_not_deleted_again() {
    let mut world = World::new(1);
    let name = world.ready();
    world.write(&name, |sandbox| sandbox["metadata"]["deletionTimestamp"] = json!(at(NOW).to_string()));
    let plan = world.plan();
    assert_eq!((plan.create, plan.delete.len()), (1, 0));
}

#[test]
fn what_failed_completed_or_expired_is_replaced() {
    let mut world = World::new(4);
    let names: Vec<_> = (0..4).map(|_| world.ready()).collect();
    world.becomes(&names[0], "Failed", false);
    world.becomes(&names[1], "Succeeded", false);
    world.write(&names[2], |sandbox| sandbox["spec"]["shutdownTime"] = json!(at(NOW - 1).to_string()));
    let plan = world.plan();
    let mut gone = deleted(&plan);
    gone.sort();
    let mut expected = names[..3].to_vec();
    expected.sort();
    assert_eq!((gone, plan.create), (expected, 3));
}

#[test]
fn the_set_looks_again_when_a_sandbox_expires() {
    let mut world = World::new(1);
    let name = world.ready();
    world.write(&name, |sandbox| sandbox["spec"]["shutdownTime"] = json!(at(NOW + 60).to_string()));
    assert_eq!(world.plan().again(at(NOW)), Again::After(std::time::Duration::from_millis(60_001)));
    assert_eq!(world.plan().delete.len(), 0);
    world.now = NOW + 61;
    assert_eq!(deleted(&world.plan()), [name]);
}

#[test]
fn a_flap_of_readiness_deletes_nothing() {
    let mut world = World::new(1);
    let name = world.ready();
    world.becomes(&name, "Running", false);
    let plan = world.plan();
    assert_eq!((plan.create, plan.delete.len()), (0, 0));
}

#[test]
fn sandboxes_that_keep_failing_are_replaced_ever_later() {
    let mut world = World::new(1);
    let mut waits = Vec::new();
    for _ in 0..12 {
        let plan = world.plan();
        world.carry_out(&plan);
        world.now += 1;
        if plan.create == 0 {
            assert_eq!(plan.trouble.as_ref().unwrap().reason, SANDBOXES_FAIL);
            let Again::After(wait) = plan.again(at(world.now)) else { panic!() };
            waits.push(wait.as_secs());
            world.now += i64::try_from(wait.as_secs()).unwrap() + 1;
        }
        let names: Vec<_> = world.sandboxes.keys().cloned().collect();
        names.iter().for_each(|name| world.becomes(name, "Failed", false));
    }
    assert!(waits.windows(2).all(|pair| pair[0] < pair[1]) && waits.len() > 3, "{waits:?}");
    world.image("fixed");
    let plan = world.plan();
    assert_eq!(plan.create, 1, "another template is tried at once");
}

#[test]
fn an_update_replaces_what_is_in_creation_and_of_the_rest_what_the_budget_allows() {
    for (budget, available, in_creation, replicas, expected) in [
        // Old ones in creation go at once; the budget is for those that are available.
        (None, 10, 0, 10, 2),
        (Some(json!("25%")), 10, 0, 10, 3),
        (Some(json!(1)), 10, 0, 10, 1),
        (Some(json!(0)), 10, 0, 10, 0),
        (Some(json!("0%")), 10, 0, 10, 0),
        (Some(json!("100%")), 10, 0, 10, 10),
        (Some(json!(3)), 8, 2, 10, 3),
        (Some(json!(2)), 8, 2, 10, 2),
        (Some(json!(0)), 8, 2, 10, 2),
        (None, 1, 0, 1, 1),
    ] {
        let mut world = World::new(replicas);
        world.write_set(|set| {
            if let Some(budget) = &budget {
                set["spec"]["updateStrategy"] = json!({"maxUnavailable": budget});
            }
        });
        (0..available).for_each(|_| drop(world.ready()));
        (0..in_creation).for_each(|_| drop(world.make()));
        assert_eq!(world.plan().delete.len(), 0);
        world.image("b");
        let plan = world.plan();
        assert_eq!((plan.delete.len(), plan.create), (expected, 0), "{budget:?} {available} {in_creation}");
    }
}

#[test]
fn an_update_waits_while_new_sandboxes_are_in_creation() {
    let mut world = World::new(10);
    (0..10).for_each(|_| drop(world.ready()));
    world.image("b");
    let first = world.plan();
    world.carry_out(&first);
    let second = world.plan();
    assert_eq!((second.create, second.delete.len()), (2, 0));
    world.carry_out(&second);
    assert_eq!(world.plan().delete.len(), 0, "both new ones are in creation");
    let name = world.sandboxes.iter().find(|(_, it)| it["status"]["phase"] == "Pending").unwrap().0.clone();
    world.becomes(&name, "Running", true);
    assert_eq!(world.plan().delete.len(), 1);
}

#[test]
fn a_missing_template_makes_nothing_and_rolls_nothing_but_the_rest_goes_on() {
    let mut world = World::new(3);
    let (dead, _) = (world.ready(), world.ready());
    world.write_set(|set| {
        set["spec"] = json!({"replicas": 3, "templateRef": {"name": "t"}});
    });
    world.becomes(&dead, "Failed", false);
    let plan = world.plan();
    assert_eq!((plan.create, deleted(&plan), plan.materialise), (0, vec![dead], false));
    assert_eq!(plan.trouble.unwrap().reason, TEMPLATE_NOT_FOUND);
    let template = json!({
        "metadata": {"name": "t", "namespace": "n", "uid": "t-uid", "resourceVersion": "900"},
        "spec": {"template": {"spec": {"containers": []}}},
    });
    world.view.observe_json(Kind::SandboxTemplate, template.to_string().as_bytes()).unwrap();
    let plan = world.plan();
    assert_eq!((plan.create, plan.trouble), (2, None));
}

#[test]
fn ten_revisions_are_kept_and_those_in_use() {
    let mut world = World::new(1);
    world.ready();
    let used = world.observed().revision();
    for number in 0..14 {
        let hash = if number == 0 { used.to_string() } else { format!("h{number}") };
        let template = json!({
            "metadata": {
                "name": format!("pool-{hash}"), "namespace": "n", "uid": format!("t{number}"),
                "resourceVersion": (100 + number).to_string(),
                "creationTimestamp": at(NOW + number).to_string(),
                "labels": {"agents.kruise.io/template-hash": hash},
                "ownerReferences": [{
                    "apiVersion": "agents.kruise.io/v1alpha1", "kind": "SandboxSet", "name": "pool",
                    "uid": "set-uid", "controller": true,
                }],
            },
            "spec": {},
        });
        world.view.observe_json(Kind::SandboxTemplate, template.to_string().as_bytes()).unwrap();
    }
    world.image("b");
    let pruned: Vec<_> = world.plan().prune.iter().map(|template| template.key.name.to_string()).collect();
    assert_eq!(pruned, ["pool-h3", "pool-h2", "pool-h1"]);
    assert!(world.plan().materialise);
}

#[test]
fn a_set_that_is_being_deleted_does_nothing() {
    let mut world = World::new(3);
    let dead = world.ready();
    world.becomes(&dead, "Failed", false);
    world.write_set(|set| set["metadata"]["deletionTimestamp"] = json!(at(NOW).to_string()));
    let plan = world.plan();
    assert_eq!((plan.create, plan.delete.len(), plan.materialise), (0, 0, false));
}
