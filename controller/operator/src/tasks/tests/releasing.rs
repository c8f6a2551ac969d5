//! Pods that are freed of their tasks.

use std::collections::BTreeMap;

use super::fixture::{Doing, World, counts, names};
use crate::tasks::{Done, Intent, WhenCompleted};

#[test]
fn a_pod_whose_task_has_ended_is_released_after_its_result_is_kept() {
    let mut world = World::new(2);
    world.policy = WhenCompleted::Release;
    world.pass();
    world.ends(1, 0);
    let report = world.later(3);
    assert_eq!(report.done.as_deref(), Some(r#"{"succeeded":[1]}"#));
    // The annotation is not written yet: the executor still has the task.
    assert_eq!((names(&report.release), world.shown()), (vec![], "bs-0@ip0 bs-1@ip1".to_owned()));
    world.done = Done::read(report.done.as_deref());
    let report = world.later(1);
    assert_eq!((names(&report.release), world.shown()), (vec!["p1"], "bs-0@ip0".to_owned()));
    assert_eq!(counts(&report), [0, 1, 1, 0, 0]);
    // Until the pod is gone from the batch.
    assert_eq!(names(&world.later(3).release), ["p1"]);
    world.remove_pod(1);
    let report = world.later(3);
    assert_eq!((names(&report.release), report.missing.len(), counts(&report)), (vec![], 0, [0, 1, 1, 0, 0]));
}

#[test]
fn a_pod_of_a_failed_task_is_released_as_well() {
    let mut world = World::new(1);
    world.policy = WhenCompleted::Release;
    world.pass();
    world.ends(0, 7);
    world.wait(3000);
    world.obey();
    let report = world.later(1);
    assert_eq!((counts(&report), names(&report.release)), ([0, 0, 0, 1, 0], vec!["p0"]));
}

#[test]
fn pods_of_tasks_that_run_or_wait_are_not_released() {
    let mut world = World::new(3);
    world.policy = WhenCompleted::Release;
    world.silent.insert("ip2".to_owned());
    let report = world.pass();
    assert_eq!((counts(&report), names(&report.release)), ([1, 2, 0, 0, 0], vec![]));
}

#[test]
fn a_release_that_a_restart_cuts_off_is_made_afterwards() {
    let mut world = World::new(2);
    world.policy = WhenCompleted::Release;
    world.pass();
    world.ends(1, 0);
    world.wait(3000);
    world.obey();
    world.wait(1000);
    assert_eq!(names(&world.obey().release), ["p1"]);
    world.restart();
    world.pass();
    let report = world.later(4);
    assert_eq!((names(&report.release), counts(&report)), (vec!["p1"], [0, 1, 1, 0, 0]));
}

#[test]
fn a_batch_that_is_deleted_has_released_all_when_every_executor_has_said_so() {
    let mut world = World::new(2);
    world.executor(1).stops_slowly = true;
    world.pass();
    world.intent = Intent::Delete;
    let report = world.later(1);
    assert_eq!((report.all_released, world.shown()), (false, "bs-1@ip1".to_owned()));
    assert!(!world.later(1).all_released);
    world.executor(1).tasks.clear();
    assert!(world.later(1).all_released);
}

#[test]
fn a_poll_that_fails_releases_nothing_however_often_and_tells_since_when() {
    let mut world = World::new(1);
    world.pass();
    world.intent = Intent::Delete;
    world.silent.insert("ip0".to_owned());
    let since = world.now;
    for _ in 0..30 {
        let report = world.pass();
        assert_eq!((report.all_released, report.stopping_since), (false, Some(since)));
        world.wait(4000);
    }
    world.silent.clear();
    let report = world.later(10);
    assert_eq!((report.all_released, report.stopping_since), (true, None));
}

#[test]
fn an_answer_that_gets_lost_after_the_stop_releases_nothing() {
    let mut world = World::new(1);
    world.pass();
    world.intent = Intent::Delete;
    world.mute.insert("ip0".to_owned());
    assert!(!world.later(1).all_released);
    assert_eq!(world.shown(), "");
    world.mute.clear();
    assert!(world.later(3).all_released);
}

#[test]
fn a_pod_that_has_ended_or_is_confirmed_to_be_gone_is_released() {
    let mut world = World::new(2);
    world.pass();
    world.intent = Intent::Delete;
    world.silent.extend(["ip0".to_owned(), "ip1".to_owned()]);
    assert!(!world.later(1).all_released);
    world.pod(0).has_ended = true;
    world.remove_pod(1);
    let report = world.later(1);
    assert_eq!((report.all_released, report.missing.len()), (false, 1));
    world.scheduler.gone("uid1");
    assert!(world.later(1).all_released);
}

#[test]
fn a_batch_that_is_deleted_starts_nothing() {
    let mut world = World::new(3);
    world.remove_pod(2);
    world.pass();
    world.intent = Intent::Delete;
    world.add_pod(2);
    for _ in 0..5 {
        world.later(3);
    }
    assert_eq!((world.shown(), world.sent_to("ip2")), (String::new(), vec![]));
}

#[test]
fn a_batch_without_a_started_task_is_released_at_once() {
    let mut world = World::new(2);
    world.intent = Intent::Delete;
    let report = world.pass();
    assert_eq!((report.all_released, world.sent.len()), (true, 0));
}

#[test]
fn a_pause_stops_all_and_keeps_the_results_first() {
    let mut world = World::new(2);
    world.pass();
    world.ends(0, 0);
    world.later(3);
    world.intent = Intent::Pause;
    let report = world.later(1);
    assert_eq!((report.all_released, report.done.as_deref()), (false, Some(r#"{"succeeded":[0]}"#)));
    assert_eq!(world.shown(), "bs-0@ip0");
    world.done = Done::read(report.done.as_deref());
    assert!(world.later(1).all_released);
    assert_eq!(world.shown(), "");
    // After the resume only what has not ended runs again.
    world.restart();
    world.intent = Intent::Run;
    world.pods.clear();
    world.add_pod_as(0, "resumed");
    world.add_pod_as(1, "resumed too");
    world.pass();
    assert_eq!(counts(&world.later(4)), [0, 1, 1, 0, 0]);
    assert_eq!(world.shown(), "bs-1@ip1");
}

#[test]
fn a_task_that_ends_because_it_is_stopped_has_no_result() {
    let mut world = World::new(1);
    world.executor(0).stops_slowly = true;
    world.pass();
    world.intent = Intent::Pause;
    world.later(1);
    world.executor(0).tasks.insert("bs-0".to_owned(), Doing::Ended(143));
    let report = world.later(1);
    assert_eq!((report.done, report.all_released), (None, true));
    world.intent = Intent::Run;
    assert_eq!(counts(&world.later(1)), [0, 1, 0, 0, 0]);
}

#[test]
fn a_smaller_batch_stops_and_drops_the_tasks_beyond_it() {
    let mut world = World::new(4);
    world.pass();
    world.replicas = 2;
    world.pod(2).is_leaving = true;
    world.pod(3).is_leaving = true;
    world.executor(3).stops_slowly = true;
    let report = world.later(1);
    assert_eq!((counts(&report), names(&report.cleared)), ([0, 2, 0, 0, 0], vec!["p2"]));
    world.executor(3).tasks.clear();
    let report = world.later(1);
    assert_eq!((names(&report.cleared), world.shown()), (vec!["p2", "p3"], "bs-0@ip0 bs-1@ip1".to_owned()));
    assert_eq!(report.retried, 0);
}

#[test]
fn a_task_on_a_pod_that_leaves_moves_to_one_that_stays() {
    let mut world = World::new(2);
    world.remove_pod(0);
    world.pods.retain(|pod| pod.index == Some(1));
    world.add_pod(3);
    world.pass();
    assert_eq!(world.shown(), "bs-0@ip3 bs-1@ip1");
    world.add_pod(0);
    world.pod(3).is_leaving = true;
    world.later(1);
    let report = world.later(1);
    assert_eq!((world.shown(), names(&report.cleared)), ("bs-0@ip0 bs-1@ip1".to_owned(), vec!["p3"]));
}

#[test]
fn a_pod_that_leaves_and_does_not_answer_is_not_cleared() {
    let mut world = World::new(2);
    world.pass();
    world.replicas = 1;
    world.pod(1).is_leaving = true;
    world.silent.insert("ip1".to_owned());
    let since = world.now;
    let report = world.pass();
    assert_eq!((names(&report.cleared), report.stopping_since), (vec![], None));
    assert_eq!(report.uncleared, BTreeMap::from([("p1".into(), since)]));
    world.pod(1).has_ended = true;
    assert_eq!(names(&world.later(1).cleared), ["p1"]);
}

#[test]
fn a_batch_that_shrinks_and_grows_again_runs_the_task_anew_after_it_has_stopped() {
    let mut world = World::new(2);
    world.executor(1).stops_slowly = true;
    world.pass();
    world.replicas = 1;
    world.later(1);
    world.replicas = 2;
    world.later(1);
    // It still dies. Only then it is given out again, and nowhere else.
    world.executor(1).tasks.clear();
    world.later(3);
    world.later(3);
    assert_eq!((world.shown(), world.executor(1).starts["bs-1"]), ("bs-0@ip0 bs-1@ip1".to_owned(), 2));
}
