//! After a restart.

use sandgate_executor_wire::Task;

use super::fixture::{Doing, World, counts, names};
use crate::tasks::{Intent, WhenCompleted};

/// Four seconds after a restart: what was sent before it has arrived.
fn recovered(world: &mut World) -> crate::tasks::Report {
    world.restart();
    world.pass();
    world.later(4)
}

#[test]
fn tasks_are_found_where_they_run_and_not_started_again() {
    let mut world = World::new(3);
    world.pass();
    world.ends(1, 0);
    world.ends(2, 1);
    assert_eq!(counts(&recovered(&mut world)), [0, 1, 1, 1, 0]);
    let starts: Vec<u32> = world.executors.values().flat_map(|it| it.starts.values().copied()).collect();
    assert_eq!(starts, [1, 1, 1]);
}

#[test]
fn the_first_answers_tell_the_counts_at_once() {
    let mut world = World::new(3);
    world.pass();
    world.restart();
    assert_eq!(counts(&world.pass()), [0, 3, 0, 0, 0]);
}

#[test]
fn a_task_is_found_on_any_pod_by_its_name() {
    let mut world = World::new(2);
    world.executor(0).set(&[Task { name: "bs-1".to_owned(), ..Task::default() }]);
    assert_eq!(counts(&recovered(&mut world)), [0, 2, 0, 0, 0]);
    assert_eq!(world.shown(), "bs-0@ip1 bs-1@ip0");
}

#[test]
fn no_task_is_given_out_while_a_pod_has_not_answered() {
    let mut world = World::new(2);
    world.executor(1).set(&[Task { name: "bs-0".to_owned(), ..Task::default() }]);
    world.silent.insert("ip1".to_owned());
    world.restart();
    for _ in 0..20 {
        assert_eq!(counts(&world.later(4)), [2, 0, 0, 0, 0]);
    }
    world.silent.clear();
    assert_eq!(counts(&world.later(10)), [0, 2, 0, 0, 0]);
    assert_eq!(world.shown(), "bs-0@ip1 bs-1@ip0");
}

#[test]
fn a_pod_that_is_confirmed_to_be_gone_or_has_ended_does_not_hold_tasks_up() {
    for has_ended in [false, true] {
        let mut world = World::new(2);
        world.silent.insert("ip1".to_owned());
        world.restart();
        assert_eq!(counts(&world.pass()), [2, 0, 0, 0, 0]);
        if has_ended {
            world.pod(1).has_ended = true;
        } else {
            world.remove_pod(1);
            let report = world.later(4);
            assert_eq!((counts(&report), report.missing.len()), ([2, 0, 0, 0, 0], 1));
            world.scheduler.gone("uid1");
        }
        assert_eq!(counts(&world.later(4)), [1, 1, 0, 0, 0]);
    }
}

#[test]
fn a_pod_without_an_address_and_one_that_comes_later_do_not_hold_tasks_up() {
    let mut world = World::new(3);
    world.pod(1).ip = None;
    let late = world.pods.pop().unwrap();
    world.restart();
    world.pass();
    world.pods.push(late);
    world.silent.insert("ip2".to_owned());
    assert_eq!(counts(&world.later(4)), [2, 1, 0, 0, 0]);
}

#[test]
fn a_pod_of_the_batch_that_is_not_seen_yet_holds_tasks_up() {
    let mut world = World::new(2);
    world.executor(1).set(&[Task { name: "bs-0".to_owned(), ..Task::default() }]);
    let unseen = world.pods.pop().unwrap();
    world.is_whole = false;
    world.restart();
    world.pass();
    let report = world.later(10);
    assert_eq!((counts(&report), report.all_released), ([2, 0, 0, 0, 0], false));
    world.pods.push(unseen);
    world.is_whole = true;
    world.pass();
    assert_eq!(counts(&world.later(10)), [0, 2, 0, 0, 0]);
    assert_eq!(world.shown(), "bs-0@ip1 bs-1@ip0");
}

#[test]
fn what_the_one_before_had_just_sent_is_waited_for() {
    let mut world = World::new(2);
    world.remove_pod(1);
    world.restart();
    world.pass();
    world.wait(1000);
    // A task arrives that was sent before the restart: here to the pod of another index.
    world.executor(0).set(&[Task { name: "bs-1".to_owned(), ..Task::default() }]);
    world.add_pod(1);
    world.later(1);
    world.later(4);
    assert_eq!(world.shown(), "bs-0@ip1 bs-1@ip0");
}

#[test]
fn a_batch_that_is_being_deleted_asks_every_pod_before_it_is_released() {
    let mut world = World::new(2);
    world.pass();
    world.intent = Intent::Delete;
    world.silent.insert("ip1".to_owned());
    world.restart();
    let since = world.now;
    let report = world.pass();
    assert_eq!((report.all_released, report.stopping_since), (false, Some(since)));
    assert!(!world.later(10).all_released);
    world.silent.clear();
    assert!(world.later(10).all_released);
    assert_eq!(world.shown(), "");
}

#[test]
fn tasks_beyond_the_batch_that_are_found_are_stopped_before_anything_is_given_to_their_pods() {
    let mut world = World::new(3);
    world.pass();
    world.replicas = 1;
    world.pod(1).is_leaving = true;
    world.restart();
    world.pass();
    let report = world.later(4);
    assert_eq!((counts(&report), names(&report.cleared)), ([0, 1, 0, 0, 0], vec!["p1"]));
    assert_eq!(world.shown(), "bs-0@ip0");
}

#[test]
fn tasks_of_others_on_a_pod_are_replaced_by_its_own() {
    let mut world = World::new(1);
    world.executor(0).set(&[Task { name: "older-0".to_owned(), ..Task::default() }]);
    assert_eq!(counts(&recovered(&mut world)), [0, 1, 0, 0, 0]);
    assert_eq!(world.shown(), "bs-0@ip0");
}

#[test]
fn a_task_that_is_found_twice_is_stopped_on_one_of_them() {
    let mut world = World::new(2);
    let twice = [Task { name: "bs-0".to_owned(), ..Task::default() }];
    world.executor(0).set(&twice);
    world.executor(1).set(&twice);
    recovered(&mut world);
    assert_eq!(counts(&world.later(3)), [0, 2, 0, 0, 0]);
    assert_eq!(world.shown(), "bs-0@ip0 bs-1@ip1");
}

#[test]
fn a_result_that_is_kept_is_not_overruled_and_its_task_is_cleared_away() {
    let mut world = World::new(1);
    world.policy = WhenCompleted::Release;
    world.done.0.insert(0, true);
    world.executor(0).tasks.insert("bs-0".to_owned(), Doing::Ended(1));
    let report = recovered(&mut world);
    assert_eq!((counts(&report), names(&report.release)), ([0, 0, 1, 0, 0], vec!["p0"]));
    assert_eq!(world.shown(), "");
}

#[test]
fn a_task_that_dies_on_a_pod_is_given_to_no_other_before_it_is_gone() {
    let mut world = World::new(3);
    world.executor(1).stops_slowly = true;
    world.pass();
    world.replicas = 1;
    world.restart();
    world.pass();
    world.later(4);
    assert_eq!(world.shown(), "bs-0@ip0 bs-1@ip1");
    // The batch grows again: pod 2 is free, and task 1 waits for nothing else.
    world.replicas = 2;
    for _ in 0..5 {
        world.later(3);
        assert_eq!(world.shown(), "bs-0@ip0 bs-1@ip1");
    }
    world.executor(1).tasks.clear();
    world.later(3);
    assert_eq!(counts(&world.later(3)), [0, 2, 0, 0, 0]);
}
