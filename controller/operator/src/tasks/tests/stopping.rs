//! Tasks that have to stop: what is heard of them before, and since when they are waited for.

use std::collections::BTreeMap;

use super::fixture::{Doing, World, counts, names, reasons};
use crate::tasks::scheduler::Ask;
use crate::tasks::{Done, ExecutorError, Intent};

#[test]
fn a_task_that_has_ended_before_the_batch_is_paused_keeps_its_result() {
    for code in [0, 7] {
        let mut world = World::new(1);
        world.pass();
        world.ends(0, code);
        world.intent = Intent::Pause;
        let report = world.pass();
        let kept = if code == 0 { r#"{"succeeded":[0]}"# } else { r#"{"failed":[0]}"# };
        assert_eq!((report.done.as_deref(), report.all_released), (Some(kept), false));
        assert_eq!(world.shown(), "bs-0@ip0", "its executor keeps it until the result is written down");
        world.done = Done::read(report.done.as_deref());
        assert!(world.later(1).all_released);
        world.restart();
        world.intent = Intent::Run;
        world.pods.clear();
        world.add_pod_as(0, "resumed");
        world.pass();
        let report = world.later(4);
        assert_eq!(report.counts.succeed + report.counts.failed, 1);
        assert_eq!(world.shown(), "", "it does not run again");
    }
}

#[test]
fn a_task_that_has_ended_on_a_pod_that_leaves_keeps_its_result() {
    let mut world = World::new(1);
    world.pass();
    world.ends(0, 7);
    world.pod(0).is_leaving = true;
    let report = world.pass();
    assert_eq!((report.done.as_deref(), names(&report.cleared)), (Some(r#"{"failed":[0]}"#), vec![]));
    world.done = Done::read(report.done.as_deref());
    let report = world.later(1);
    assert_eq!((counts(&report), names(&report.cleared)), ([0, 0, 0, 1, 0], vec!["p0"]));
}

#[test]
fn a_task_that_fails_on_a_pod_that_is_being_deleted_runs_again_and_one_that_succeeds_does_not() {
    for (code, expected) in [(143, [1, 0, 0, 0, 0]), (0, [0, 0, 1, 0, 0])] {
        let mut world = World::new(1);
        world.pass();
        (world.pod(0).is_leaving, world.pod(0).is_deleting) = (true, true);
        world.ends(0, code);
        assert_eq!(counts(&world.pass()), expected, "{code}");
    }
}

#[test]
fn a_task_that_dies_while_the_batch_grows_again_has_no_result_and_runs_again() {
    for (is_ours, restarts) in [(false, false), (true, false), (true, true)] {
        let mut world = World::new(2);
        (world.executor(1).stops_slowly, world.executor(1).is_ours) = (true, is_ours);
        world.pass();
        world.replicas = 1;
        world.pod(1).is_leaving = true;
        world.later(1);
        world.executor(1).tasks.insert("bs-1".to_owned(), Doing::Died(143));
        world.replicas = 2;
        world.pod(1).is_leaving = false;
        if restarts {
            world.restart();
        }
        for _ in 0..3 {
            assert_eq!(counts(&world.later(4)), [0, 1, 0, 0, 1], "{is_ours} {restarts}");
        }
        world.executor(1).tasks.clear();
        assert_eq!(world.later(4).retried, 1);
        assert_eq!((counts(&world.later(4)), world.executor(1).starts["bs-1"]), ([0, 2, 0, 0, 0], 2));
    }
}

#[test]
fn a_pod_is_cleared_when_a_task_that_was_sent_to_it_cannot_arrive_any_more() {
    for is_cut_off in [false, true] {
        let mut world = World::new(1);
        let (pods, done, specs) = (world.pods.clone(), Done::default(), world.specs.clone());
        let look = world.look(&pods, &done, specs.as_deref());
        let met = world.scheduler.plan(&look);
        world.scheduler.answered(&look, &met[0], Ok(Vec::new()));
        let sent = world.scheduler.plan(&look).remove(0);
        let Ask::Hold(task) = &sent.ask else { panic!("{sent:?}") };
        if !is_cut_off {
            let lost = ExecutorError::Unreachable("no answer within 3 s".to_owned());
            world.scheduler.answered(&look, &sent, Err(lost));
        }
        world.intent = Intent::Delete;
        assert!(!world.pass().all_released);
        world.wait(2900);
        assert!(!world.pass().all_released);
        world.executor(0).set(std::slice::from_ref(task));
        world.wait(100);
        assert!(world.pass().all_released);
        assert_eq!(world.shown(), "");
    }
}

#[test]
fn a_task_that_does_not_end_is_waited_for_since_its_stop() {
    let mut world = World::new(2);
    world.executor(1).stops_slowly = true;
    world.pass();
    world.intent = Intent::Delete;
    let since = world.now;
    for _ in 0..30 {
        let report = world.pass();
        assert_eq!((report.all_released, report.stopping_since), (false, Some(since)));
        world.wait(4000);
    }
    world.executor(1).tasks.clear();
    let report = world.pass();
    assert_eq!((report.all_released, report.stopping_since), (true, None));
}

#[test]
fn a_pod_that_leaves_is_waited_for_since_it_leaves_whatever_became_of_others() {
    let mut world = World::new(3);
    world.executors.values_mut().for_each(|executor| executor.stops_slowly = true);
    world.pass();
    let mut uncleared = BTreeMap::new();
    for index in [2, 1] {
        world.replicas = index;
        world.pod(index).is_leaving = true;
        uncleared.insert(format!("p{index}").into(), world.now);
        assert_eq!(world.pass().uncleared, uncleared);
        world.wait(90_000);
    }
    world.executor(2).tasks.clear();
    uncleared.remove("p2");
    let report = world.pass();
    assert_eq!((report.uncleared, names(&report.cleared)), (uncleared, vec!["p2"]));
}

#[test]
fn a_stop_counts_from_itself_and_not_from_the_first_poll_that_failed() {
    let mut world = World::new(2);
    world.pass();
    world.silent.insert("ip1".to_owned());
    (0..30).for_each(|_| drop(world.later(4)));
    world.intent = Intent::Delete;
    let report = world.later(4);
    assert_eq!(report.stopping_since, Some(world.now));
}

#[test]
fn pods_without_an_address_and_pods_that_are_not_seen_are_waited_for_since_the_stop() {
    let mut world = World::new(1);
    world.pass();
    world.pod(0).ip = None;
    world.intent = Intent::Pause;
    let since = world.now;
    world.pass();
    assert_eq!(world.later(10).stopping_since, Some(since));

    let mut world = World::new(1);
    world.pods.clear();
    world.is_whole = false;
    world.restart();
    world.later(10);
    world.intent = Intent::Delete;
    let since = world.now;
    world.pass();
    let report = world.later(10);
    assert_eq!((report.all_released, report.stopping_since), (false, Some(since)));
}

#[test]
fn a_task_that_is_stopped_on_a_pod_that_leaves_is_counted_as_given_out_again() {
    let mut world = World::new(1);
    world.pass();
    world.pod(0).is_leaving = true;
    let report = world.later(1);
    assert_eq!((report.retried, reasons(&report)), (1, vec!["TaskRetried"]));
    world.add_pod(1);
    assert_eq!((world.later(1).retried, world.shown()), (0, "bs-0@ip1".to_owned()));
    // One that its executor has lost by then is counted once.
    world.pod(1).is_leaving = true;
    world.executor(1).tasks.clear();
    assert_eq!(world.later(1).retried, 1);
    world.add_pod(2);
    assert_eq!((world.later(1).retried, world.shown()), (0, "bs-0@ip2".to_owned()));
}
