//! Which task a pod is given.

use super::fixture::{World, counts, names, reasons, spec};
use crate::tasks::WhenCompleted;

#[test]
fn each_task_is_given_to_the_pod_of_its_index() {
    let mut world = World::new(3);
    let report = world.pass();
    assert_eq!(world.shown(), "bs-0@ip0 bs-1@ip1 bs-2@ip2");
    assert_eq!(counts(&report), [0, 3, 0, 0, 0]);
    assert!(!report.all_released);
}

#[test]
fn a_task_waits_for_a_pod_and_is_counted_as_pending() {
    let mut world = World::new(2);
    world.remove_pod(1);
    assert_eq!(counts(&world.pass()), [1, 1, 0, 0, 0]);
    world.add_pod(1);
    assert_eq!(counts(&world.later(1)), [0, 2, 0, 0, 0]);
}

#[test]
fn without_any_pod_nothing_is_asked_and_all_tasks_are_pending() {
    let mut world = World::new(2);
    world.pods.clear();
    let report = world.pass();
    assert_eq!((counts(&report), world.sent.len(), report.again), ([2, 0, 0, 0, 0], 0, None));
    assert!(report.all_released);
}

#[test]
fn a_pod_is_given_a_task_only_if_it_has_an_address_lives_stays_and_answers() {
    type Change = fn(&mut World);
    let changes: [(&str, Change); 4] = [
        ("no address", |world| world.pod(0).ip = None),
        ("ended", |world| world.pod(0).has_ended = true),
        ("leaves", |world| world.pod(0).is_leaving = true),
        ("silent", |world| world.silent.extend(["ip0".to_owned()])),
    ];
    for (what, change) in changes {
        let mut world = World::new(1);
        change(&mut world);
        assert_eq!(counts(&world.pass()), [1, 0, 0, 0, 0], "{what}");
        assert_eq!(world.shown(), "", "{what}");
        // Another pod is as good.
        world.add_pod(7);
        assert_eq!(counts(&world.later(1)), [0, 1, 0, 0, 0], "{what}");
        assert_eq!(world.shown(), "bs-0@ip7", "{what}");
    }
}

#[test]
fn pods_that_come_out_of_order_keep_to_their_index() {
    let mut world = World::new(3);
    let pods = std::mem::take(&mut world.pods);
    world.pods.push(pods[2].clone());
    world.pass();
    assert_eq!(world.shown(), "bs-2@ip2");
    world.pods.push(pods[0].clone());
    world.later(1);
    world.pods.push(pods[1].clone());
    assert_eq!(counts(&world.later(1)), [0, 3, 0, 0, 0]);
    assert_eq!(world.shown(), "bs-0@ip0 bs-1@ip1 bs-2@ip2");
}

#[test]
fn pods_without_an_index_take_what_is_left_in_the_order_of_their_names() {
    let mut world = World::new(3);
    world.pod(1).index = None;
    world.pass();
    assert_eq!(world.shown(), "bs-0@ip0 bs-1@ip1 bs-2@ip2");
}

#[test]
fn a_larger_batch_gets_the_tasks_that_are_missing_and_keeps_the_others() {
    let mut world = World::new(2);
    world.pass();
    world.replicas = 4;
    world.add_pod(2);
    assert_eq!(counts(&world.later(1)), [1, 3, 0, 0, 0]);
    world.add_pod(3);
    assert_eq!(counts(&world.later(1)), [0, 4, 0, 0, 0]);
    let starts: Vec<u32> = world.executors.values().flat_map(|it| it.starts.values().copied()).collect();
    assert_eq!(starts, [1; 4]);
}

#[test]
fn a_task_that_ended_is_not_run_again_and_keeps_its_pod() {
    let mut world = World::new(2);
    world.pass();
    world.ends(0, 0);
    world.ends(1, 3);
    let report = world.later(3);
    assert_eq!((counts(&report), names(&report.release)), ([0, 0, 1, 1, 0], vec![]));
    for _ in 0..5 {
        assert_eq!(counts(&world.later(40)), [0, 0, 1, 1, 0]);
    }
    assert_eq!((world.executor(0).starts["bs-0"], world.executor(1).starts["bs-1"]), (1, 1));
}

#[test]
fn nothing_is_started_while_no_task_can_be_made_and_what_runs_goes_on() {
    let mut world = World::new(2);
    world.remove_pod(1);
    world.pass();
    world.specs = None;
    world.add_pod(1);
    assert_eq!(counts(&world.later(3)), [1, 1, 0, 0, 0]);
    assert_eq!(world.shown(), "bs-0@ip0");
    world.specs = Some((0..2).map(spec).collect());
    assert_eq!(counts(&world.later(3)), [0, 2, 0, 0, 0]);
}

#[test]
fn a_task_whose_pod_has_ended_is_given_to_the_next_free_one() {
    let mut world = World::new(2);
    world.pass();
    world.pod(1).has_ended = true;
    world.executor(1).tasks.clear();
    let report = world.later(1);
    assert_eq!(
        (counts(&report), report.retried, reasons(&report)),
        ([1, 1, 0, 0, 0], 1, vec!["TaskRetried"])
    );
    world.add_pod(5);
    assert_eq!(counts(&world.later(1)), [0, 2, 0, 0, 0]);
    assert_eq!(world.shown(), "bs-0@ip0 bs-1@ip5");
}

#[test]
fn a_task_whose_pod_is_missing_moves_only_when_that_is_confirmed() {
    let mut world = World::new(2);
    world.pass();
    world.pods.retain(|pod| pod.index != Some(1));
    world.add_pod(2);
    let report = world.later(1);
    assert_eq!((report.missing.len(), &*report.missing[0].uid), (1, "uid1"));
    assert_eq!((counts(&report), world.shown()), ([0, 1, 0, 0, 1], "bs-0@ip0 bs-1@ip1".to_owned()));
    world.scheduler.gone("uid1");
    world.executors.remove("ip1");
    let report = world.later(1);
    assert_eq!((report.missing.len(), report.retried), (0, 1));
    assert_eq!(world.shown(), "bs-0@ip0 bs-1@ip2");
}

#[test]
fn a_pod_that_was_missing_and_is_there_again_still_has_its_task() {
    let mut world = World::new(1);
    world.pass();
    let pods = std::mem::take(&mut world.pods);
    assert_eq!(world.later(1).missing.len(), 1);
    world.pods = pods;
    let report = world.later(3);
    assert_eq!((counts(&report), report.missing.len()), ([0, 1, 0, 0, 0], 0));
    assert_eq!(world.executor(0).starts["bs-0"], 1);
}

#[test]
fn a_new_pod_of_the_same_name_and_address_is_another_pod() {
    let mut world = World::new(1);
    world.pass();
    world.remove_pod(0);
    world.add_pod_as(0, "uid-of-the-next");
    let report = world.later(1);
    assert_eq!((counts(&report), report.missing.len()), ([0, 0, 0, 0, 1], 1));
    world.scheduler.gone("uid0");
    assert_eq!(counts(&world.later(1)), [0, 1, 0, 0, 0]);
}

#[test]
fn a_result_outlives_its_pod() {
    let mut world = World::new(2);
    world.pass();
    world.ends(1, 0);
    world.later(3);
    world.remove_pod(1);
    world.wait(1000);
    world.obey();
    world.wait(1000);
    let report = world.obey();
    assert_eq!((counts(&report), report.done.as_deref()), ([0, 1, 1, 0, 0], Some(r#"{"succeeded":[1]}"#)));
    // Also a restart, and a pod that comes in its place, do not run it again.
    world.restart();
    world.add_pod_as(1, "uid-of-the-next");
    for _ in 0..5 {
        world.wait(3000);
        assert_eq!(counts(&world.obey()), [0, 1, 1, 0, 0]);
    }
    assert_eq!(world.shown(), "bs-0@ip0");
}

#[test]
fn losses_are_counted_and_each_makes_the_next_try_wait_longer() {
    let mut world = World::new(1);
    world.pass();
    let mut waits = Vec::new();
    for loss in 1..=5 {
        world.pods[0].has_ended = true;
        let report = world.pass();
        assert!(report.notices[0].note.contains(&format!("retry {loss}")), "{:?}", report.notices);
        world.pods.clear();
        world.add_pod_as(0, &format!("uid-{loss}"));
        let before = world.now;
        while counts(&world.pass())[1] == 0 {
            world.wait(500);
        }
        waits.push(world.now.duration_since(before).as_secs());
    }
    assert_eq!(waits, [0, 1, 2, 4, 8]);
}

#[test]
fn a_lost_task_does_not_take_the_pod_of_one_that_waits_for_it() {
    let mut world = World::new(2);
    world.policy = WhenCompleted::Retain;
    world.pass();
    // Both are lost, and task 1 for the third time: it has to wait.
    for uid in ["a", "b"] {
        world.pod(1).has_ended = true;
        world.pass();
        world.remove_pod(1);
        world.add_pod_as(1, uid);
        world.later(9);
    }
    world.pod(0).has_ended = true;
    world.pod(1).has_ended = true;
    world.pass();
    world.remove_pod(0);
    world.remove_pod(1);
    world.add_pod_as(1, "c");
    world.pass();
    assert_eq!(world.shown(), "");
    world.add_pod_as(0, "d");
    world.later(1);
    assert_eq!(world.shown(), "bs-0@ip0");
    world.later(9);
    assert_eq!(world.shown(), "bs-0@ip0 bs-1@ip1");
}
