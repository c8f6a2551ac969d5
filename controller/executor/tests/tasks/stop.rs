//! Deletions and timeouts: what is stopped, how, and what is said of it.

use serde_json::{Value, json};

use crate::harness::{Site, eventually, lives, shell, written};

/// Runs until it is killed.
const STUBBORN: &str = "trap '' TERM; while :; do sleep 0.05; done";

fn with_timeout(mut task: Value, seconds: u64) -> Value {
    task["process"]["timeoutSeconds"] = json!(seconds);
    task
}

#[test]
fn a_deleted_task_is_asked_to_end_and_then_its_folder_is_gone() {
    let site = Site::new();
    let executor = site.start_with(|command| {
        command.env("SANDGATE_GRACE_MILLIS", "60000");
    });
    let (ready, asked) = (site.path("ready"), site.path("asked"));
    let script = format!(
        "trap 'echo bye > {}; exit 0' TERM; echo up > {}; while :; do sleep 0.05; done",
        asked.display(),
        ready.display()
    );
    executor.create(&shell("polite", &script));
    written(&ready);
    assert_eq!(executor.request("DELETE", "/tasks/polite", "").status, 204);
    executor.is_empty();
    assert_eq!(written(&asked), "bye\n");
    assert!(!site.data().join("polite").exists());
}

#[test]
fn a_task_that_does_not_end_is_killed_with_its_children() {
    let site = Site::new();
    let executor = site.start();
    let pids = site.path("pids");
    let script = format!("trap '' TERM; sleep 60 & echo $$ $! > {}; {STUBBORN}", pids.display());
    executor.create(&shell("stubborn", &script));
    let pids = written(&pids);
    executor.set(&json!([]));
    executor.is_empty();
    for pid in pids.split_whitespace() {
        assert!(!lives(pid), "{pid} of {pids}");
    }
}

#[test]
fn groups_that_a_shell_makes_for_its_jobs_end_too() {
    let site = Site::new();
    let executor = site.start();
    let pids = site.path("pids");
    let script = format!("set -m; sleep 60 & echo $$ $! > {}; wait", pids.display());
    executor.create(&shell("jobs", &script));
    let pids = written(&pids);
    executor.set(&json!([]));
    executor.is_empty();
    for pid in pids.split_whitespace() {
        assert!(!lives(pid), "{pid} of {pids}");
    }
}

#[test]
fn a_task_that_is_being_deleted_is_listed_until_it_is_gone() {
    let site = Site::new();
    let executor = site.start_with(|command| {
        command.env("SANDGATE_GRACE_MILLIS", "1500");
    });
    let ready = site.path("ready");
    executor.create(&shell("dying", &format!("trap '' TERM; echo up > {}; {STUBBORN}", ready.display())));
    written(&ready);
    let left = executor.set(&json!([]));
    assert_eq!(left.len(), 1, "{left:?}");
    assert!(left[0]["deletionTimestamp"].is_string());
    assert!(left[0]["processStatus"]["running"].is_object());
    let second = shell("second", "true").to_string();
    let message = executor.request("POST", "/tasks", &second).error(500, "Internal Server Error");
    assert!(message.contains("maximum concurrent tasks"), "a dying task is an active one: {message}");
    executor.is_empty();
}

#[test]
fn the_deletion_of_a_task_that_nobody_knows_is_done() {
    let site = Site::new();
    let executor = site.start();
    for path in ["/tasks/nobody", "/tasks/..%2fnobody", "/tasks/..", "/tasks/%2fetc%2fpasswd"] {
        assert_eq!(executor.request("DELETE", path, "").status, 204, "{path}");
        assert_eq!(executor.request("GET", path, "").status, 404, "{path}");
    }
}

#[test]
fn a_task_that_is_deleted_twice_is_deleted_once() {
    let site = Site::new();
    let executor = site.start();
    executor.create(&shell("once", "sleep 60"));
    for _ in 0..3 {
        assert_eq!(executor.request("DELETE", "/tasks/once", "").status, 204);
    }
    executor.is_empty();
}

#[test]
fn a_task_that_runs_too_long_is_reported_as_137_and_stays_so() {
    let site = Site::new();
    let executor = site.start();
    // It ends well when it is asked to, and still it has run too long.
    let script = "trap 'exit 0' TERM; while :; do sleep 0.05; done";
    executor.create(&with_timeout(shell("slow", script), 1));
    let ended = executor.terminated("slow");
    assert_eq!((&ended["exitCode"], &ended["reason"]), (&json!(137), &json!("TaskTimeout")));
    assert_eq!(ended["message"], "the task ran longer than its timeout of 1 seconds");
    assert_eq!(site.file("slow", "exit").unwrap(), "0");
    executor.kill();
    let next = site.start();
    assert_eq!(next.terminated("slow"), ended);
    next.set(&json!([]));
    next.is_empty();
}

#[test]
fn a_task_that_runs_too_long_and_does_not_end_is_killed() {
    let site = Site::new();
    let executor = site.start();
    executor.create(&with_timeout(shell("slow", STUBBORN), 1));
    let pid = site.file("slow", "pid").unwrap();
    let ended = executor.terminated("slow");
    assert_eq!((&ended["exitCode"], &ended["reason"]), (&json!(137), &json!("TaskTimeout")));
    assert!(!lives(&pid));
}

#[test]
fn a_task_whose_timeout_has_passed_is_active_until_it_is_gone() {
    let site = Site::new();
    let executor = site.start_with(|command| {
        command.env("SANDGATE_GRACE_MILLIS", "1500");
    });
    executor.create(&with_timeout(shell("slow", STUBBORN), 1));
    eventually("its timeout is written down", || {
        site.file("slow", "task.json").filter(|text| text.contains("timedOutAt"))
    });
    assert!(executor.task("slow").unwrap()["processStatus"]["running"].is_object());
    let second = shell("second", "true").to_string();
    assert_eq!(executor.request("POST", "/tasks", &second).status, 500);
    executor.terminated("slow");
    executor.create(&shell("second", "true"));
}

#[test]
fn a_timeout_of_an_executor_that_was_away_counts_from_the_start_of_the_task() {
    let site = Site::new();
    let executor = site.start();
    executor.create(&with_timeout(shell("slow", "sleep 60"), 1));
    executor.kill();
    let next = site.start();
    assert_eq!(next.terminated("slow")["reason"], "TaskTimeout");
}

#[test]
fn a_task_can_be_deleted_while_its_timeout_stops_it() {
    let site = Site::new();
    let executor = site.start();
    executor.create(&with_timeout(shell("slow", STUBBORN), 1));
    eventually("its timeout is written down", || {
        site.file("slow", "task.json").filter(|text| text.contains("timedOutAt"))
    });
    executor.set(&json!([]));
    executor.is_empty();
}
