//! What an executor's words make of a task.

use sandgate_executor_wire::{PodCondition, PodStatus, ProcessStatus, Running, Task, Terminated, Waiting};

use super::fixture::{World, counts};

fn process(status: ProcessStatus) -> Task {
    Task { name: "bs-0".to_owned(), process_status: Some(status), ..Task::default() }
}

fn terminated(exit_code: i32, reason: &str) -> Task {
    let terminated = Terminated { exit_code, reason: reason.to_owned(), ..Terminated::default() };
    process(ProcessStatus { terminated: Some(terminated), ..ProcessStatus::default() })
}

fn pod(phase: &str, is_ready: bool) -> Task {
    let status = if is_ready { "True" } else { "False" };
    let ready = PodCondition { type_: "Ready".to_owned(), status: status.to_owned() };
    let status = PodStatus { phase: phase.to_owned(), conditions: vec![ready] };
    Task { name: "bs-0".to_owned(), pod_status: Some(status), ..Task::default() }
}

/// The counts of a batch whose only executor says this.
fn said(task: Task) -> [usize; 5] {
    let mut world = World::new(1);
    world.pass();
    world.wait(3000);
    let requests = world.planned();
    let (pods, done) = (world.pods.clone(), world.done.clone());
    let look = world.look(&pods, &done, None);
    world.scheduler.answered(&look, &requests[0], Ok(vec![task]));
    counts(&world.scheduler.report(&look))
}

#[test]
fn the_status_of_a_process_or_of_a_pod_says_what_a_task_is_doing() {
    let [running, succeeded, failed, unknown] =
        [[0, 1, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 1]];
    let running_process = ProcessStatus { running: Some(Running::default()), ..ProcessStatus::default() };
    let waiting = ProcessStatus { waiting: Some(Waiting::default()), ..ProcessStatus::default() };
    let both =
        ProcessStatus { running: Some(Running::default()), ..terminated(0, "").process_status.unwrap() };
    for (what, task, expected) in [
        ("a process runs", process(running_process), running),
        ("a process waits", process(waiting), unknown),
        ("a process has a status that says nothing", process(ProcessStatus::default()), unknown),
        ("a process has ended with 0", terminated(0, "Succeeded"), succeeded),
        ("a process has ended with 1", terminated(1, "Failed"), failed),
        ("a process was stopped", terminated(143, "Failed"), failed),
        ("a process was out of time", terminated(137, "TaskTimeout"), failed),
        ("a process has ended and is said to run", process(both), succeeded),
        ("there is no status", Task { name: "bs-0".to_owned(), ..Task::default() }, unknown),
        ("a pod runs and is ready", pod("Running", true), running),
        ("a pod runs and is not ready", pod("Running", false), unknown),
        ("a pod has succeeded", pod("Succeeded", false), succeeded),
        ("a pod has failed", pod("Failed", false), failed),
        ("a pod is pending", pod("Pending", false), unknown),
    ] {
        assert_eq!(said(task), expected, "{what}");
    }
}

#[test]
fn a_task_that_its_executor_does_not_name_is_not_taken_for_another() {
    let other = Task { name: "bs-1".to_owned(), ..terminated(0, "") };
    assert_eq!(said(other), [0, 0, 0, 0, 1]);
    let stranger = Task { name: "x".to_owned(), ..terminated(0, "") };
    assert_eq!(said(stranger), [0, 0, 0, 0, 1]);
}
