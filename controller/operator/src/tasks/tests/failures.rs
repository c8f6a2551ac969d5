//! Executors that do not answer, or not as they should.

use super::fixture::{World, counts, reasons};
use crate::tasks::ExecutorError;

fn refused() -> ExecutorError {
    ExecutorError::Refused { status: 500, message: "no such command".to_owned() }
}

#[test]
fn a_task_is_sent_once_and_then_only_asked_about() {
    let mut world = World::new(1);
    world.pass();
    for _ in 0..3 {
        world.later(3);
    }
    assert_eq!(world.sent_to("ip0"), ["list", "bs-0", "list", "list", "list"]);
}

#[test]
fn a_task_whose_request_got_lost_is_sent_again_to_the_same_pod() {
    let mut world = World::new(1);
    world.add_pod(1);
    world.pass();
    world.mute.insert("ip0".to_owned());
    for _ in 0..20 {
        world.later(4);
    }
    assert_eq!((world.shown(), world.sent_to("ip1")), ("bs-0@ip0".to_owned(), vec!["list"]));
}

#[test]
fn a_task_that_runs_is_unknown_after_three_polls_without_an_answer_and_not_after_one() {
    let mut world = World::new(1);
    world.pass();
    world.silent.insert("ip0".to_owned());
    let seen: Vec<[usize; 5]> = (0..4).map(|_| counts(&world.later(4))).collect();
    let [running, unknown] = [[0, 1, 0, 0, 0], [0, 0, 0, 0, 1]];
    assert_eq!(seen, [running, running, unknown, unknown]);
    world.silent.clear();
    assert_eq!(counts(&world.later(10)), running);
}

#[test]
fn an_executor_that_does_not_answer_is_told_of_once() {
    let mut world = World::new(1);
    world.pass();
    world.silent.insert("ip0".to_owned());
    let told: Vec<_> = (0..8).flat_map(|_| reasons(&world.later(4))).collect();
    assert_eq!(told, ["TaskExecutorUnreachable"]);
    let trouble = world.later(10).trouble.unwrap();
    assert!(trouble.contains("p0"), "{trouble}");
    world.silent.clear();
    assert_eq!(world.later(10).trouble, None);
}

#[test]
fn a_wrong_token_is_told_at_once_and_once_for_all_pods() {
    let mut world = World::new(3);
    for index in 0..3 {
        world.errors.insert(format!("ip{index}"), ExecutorError::Unauthorized);
    }
    let report = world.pass();
    assert_eq!((reasons(&report), counts(&report)), (vec!["TaskExecutorUnauthorized"], [3, 0, 0, 0, 0]));
    let note = &report.notices[0].note;
    assert!(note.contains("--task-executor-token-file"), "{note}");
}

#[test]
fn a_task_that_its_executor_refuses_is_tried_ever_later() {
    let mut world = World::new(1);
    let mut tries = Vec::new();
    let mut told = 0;
    for _ in 0..800 {
        let before = world.sent.len();
        let report = refusing_pass(&mut world);
        told += report.notices.len();
        if world.sent[before..].iter().any(|(_, what)| what == "bs-0") {
            tries.push(world.now.as_second());
        }
        world.wait(500);
    }
    let waits: Vec<i64> = tries.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(waits.is_sorted() && waits.len() >= 6, "{waits:?}");
    assert!(waits[0] <= 2 && *waits.last().unwrap() >= 60, "{waits:?}");
    assert!((3..=5).contains(&told), "{told}");
}

/// A pass over one pod whose executor has no task and refuses every one.
fn refusing_pass(world: &mut World) -> crate::tasks::Report {
    use crate::tasks::scheduler::Ask;
    let (pods, specs, done) = (world.pods.clone(), world.specs.clone(), world.done.clone());
    let look = world.look(&pods, &done, specs.as_deref());
    loop {
        let requests = world.scheduler.plan(&look);
        if requests.is_empty() {
            return world.scheduler.report(&look);
        }
        for request in requests {
            let (what, answer) = match &request.ask {
                Ask::Hold(task) => (task.name.clone(), Err(refused())),
                Ask::List | Ask::Clear => ("list".to_owned(), Ok(Vec::new())),
            };
            world.sent.push((request.ip.to_string(), what));
            world.scheduler.answered(&look, &request, answer);
        }
    }
}

#[test]
fn a_task_that_its_executor_has_lost_is_given_to_it_again_and_that_is_counted() {
    let mut world = World::new(1);
    world.pass();
    world.executor(0).tasks.clear();
    let report = world.later(3);
    assert_eq!((report.retried, reasons(&report)), (1, vec!["TaskRetried"]));
    assert_eq!(counts(&world.later(3)), [0, 1, 0, 0, 0]);
    assert_eq!(world.executor(0).starts["bs-0"], 2);
}

#[test]
fn a_result_that_its_executor_has_lost_is_still_one() {
    let mut world = World::new(1);
    world.pass();
    world.ends(0, 0);
    world.later(3);
    world.executor(0).tasks.clear();
    assert_eq!(counts(&world.later(40)), [0, 0, 1, 0, 0]);
    assert_eq!(counts(&world.later(40)), [0, 0, 1, 0, 0]);
    assert_eq!(world.shown(), "");
}

#[test]
fn the_tasks_that_run_are_asked_about_every_three_seconds_and_those_that_ended_every_thirty() {
    let mut world = World::new(2);
    world.pass();
    world.ends(1, 0);
    for _ in 0..20 {
        world.wait(500);
        world.pass();
    }
    world.sent.clear();
    for _ in 0..120 {
        world.wait(500);
        world.pass();
    }
    assert_eq!((world.sent_to("ip0").len(), world.sent_to("ip1").len()), (20, 2));
}

#[test]
fn a_short_task_is_seen_to_end_within_a_second() {
    let mut world = World::new(1);
    world.pass();
    world.ends(0, 0);
    let report = world.pass();
    let again = report.again.unwrap();
    assert!(again.duration_since(world.now).as_millis() <= 500);
    world.now = again;
    assert_eq!(counts(&world.pass()), [0, 0, 1, 0, 0]);
}

#[test]
fn every_report_says_when_to_look_again_if_anything_is_expected() {
    let mut world = World::new(2);
    world.silent.insert("ip1".to_owned());
    for _ in 0..10 {
        let report = world.pass();
        let again = report.again.expect("a pod does not answer");
        assert!(again > world.now);
        world.now = again;
    }
    world.silent.clear();
    world.later(10);
    world.ends(0, 0);
    world.ends(1, 0);
    world.later(3);
    let again = world.pass().again.unwrap();
    assert!(again.duration_since(world.now).as_secs() >= 25);
}
