//! Desired tasks: what `POST /setTasks` makes of a list.

use std::fs;

use serde_json::{Value, json};

use crate::harness::{Executor, Site, eventually, shell, written};

fn names(tasks: &[Value]) -> Vec<&str> {
    tasks.iter().map(|task| task["name"].as_str().unwrap()).collect()
}

fn reason(task: &Value) -> &str {
    task["processStatus"]["waiting"]["reason"].as_str().unwrap_or("it does not wait")
}

/// A task that notes its run and then waits for the file `go`.
fn waiting_for_go(site: &Site, name: &str) -> Value {
    let (runs, go) = (site.path("runs"), site.path("go"));
    let script =
        format!("echo {name} >> {}; while [ ! -e {} ]; do sleep 0.05; done", runs.display(), go.display());
    shell(name, &script)
}

fn runs(site: &Site) -> Vec<String> {
    fs::read_to_string(site.path("runs")).unwrap_or_default().lines().map(str::to_owned).collect()
}

#[test]
fn the_same_list_again_changes_nothing() {
    let site = Site::new();
    let executor = site.start();
    let list = json!([waiting_for_go(&site, "a")]);
    let first = executor.set(&list);
    assert!(first[0]["processStatus"]["running"].is_object(), "{first:?}");
    for _ in 0..3 {
        assert_eq!(executor.set(&list), first);
    }
    fs::write(site.path("go"), "").unwrap();
    executor.terminated("a");
    executor.set(&list);
    assert_eq!(executor.terminated("a")["exitCode"], 0, "a finished task is not run again");
    assert_eq!(runs(&site), ["a"]);
}

#[test]
fn an_empty_list_and_null_clear() {
    let site = Site::new();
    let executor = site.start();
    for empty in ["[]", "null"] {
        executor.set(&json!([shell("a", "sleep 60")]));
        assert_eq!(executor.request("POST", "/setTasks", empty).status, 200);
        executor.is_empty();
    }
}

#[test]
fn a_task_without_a_name_is_passed_over() {
    let site = Site::new();
    let executor = site.start();
    let list = json!([{"process": {"command": ["false"]}}, null, {"name": ""}, shell("a", "true")]);
    assert_eq!(names(&executor.set(&list)), ["a"]);
}

#[test]
fn two_desired_tasks_run_one_after_the_other_in_the_order_of_the_list() {
    let site = Site::new();
    let executor = site.start();
    let list = json!([waiting_for_go(&site, "b"), waiting_for_go(&site, "a")]);
    let set = executor.set(&list);
    assert_eq!(names(&set), ["b", "a"]);
    assert!(set[0]["processStatus"]["running"].is_object());
    assert_eq!(reason(&set[1]), "Queued");
    assert_eq!(executor.task("a").unwrap(), set[1]);
    fs::write(site.path("go"), "").unwrap();
    executor.terminated("b");
    executor.terminated("a");
    assert_eq!(runs(&site), ["b", "a"]);
}

#[test]
fn a_new_task_waits_until_the_one_before_it_is_gone() {
    let site = Site::new();
    let executor = site.start();
    let ready = site.path("ready");
    executor.set(&json!([shell(
        "old",
        &format!("trap '' TERM; echo up > {}; while :; do sleep 0.05; done", ready.display())
    )]));
    written(&ready);
    // When it runs, the old one must be gone.
    let probe = shell("new", &format!("ls {}", site.data().display()));
    let set = executor.set(&json!([probe]));
    assert_eq!(names(&set), ["new", "old"]);
    assert_eq!(reason(&set[0]), "Queued");
    assert!(set[1]["deletionTimestamp"].is_string());
    assert_eq!(executor.terminated("new")["exitCode"], 0);
    assert_eq!(site.file("new", "stdout.log").unwrap(), "new\n");
    assert_eq!(names(&executor.tasks()), ["new"]);
}

#[test]
fn a_task_whose_namesake_is_being_deleted_runs_when_that_is_gone() {
    let site = Site::new();
    let executor = site.start();
    let ready = site.path("ready");
    executor.set(&json!([shell(
        "t",
        &format!("trap '' TERM; echo up > {}; while :; do sleep 0.05; done", ready.display())
    )]));
    written(&ready);
    executor.set(&json!([]));
    let set = executor.set(&json!([shell("t", "echo again")]));
    assert_eq!(names(&set), ["t"], "a name is there once");
    assert_eq!(reason(&set[0]), "Queued");
    assert_eq!(executor.terminated("t")["exitCode"], 0);
    assert_eq!(site.file("t", "stdout.log").unwrap(), "again\n");
}

#[test]
fn a_task_that_waits_is_forgotten_when_it_is_not_desired_any_more() {
    let site = Site::new();
    let executor = site.start();
    let (a, b) = (waiting_for_go(&site, "a"), waiting_for_go(&site, "b"));
    executor.set(&json!([a, b]));
    assert_eq!(names(&executor.set(&json!([a]))), ["a"]);
    executor.set(&json!([a, b]));
    assert_eq!(executor.request("DELETE", "/tasks/b", "").status, 204);
    assert_eq!(names(&executor.tasks()), ["a"]);
    fs::write(site.path("go"), "").unwrap();
    executor.terminated("a");
    assert_eq!(runs(&site), ["a"]);
}

#[test]
fn a_task_that_waits_is_not_lost_with_the_executor() {
    let site = Site::new();
    let executor = site.start();
    executor.set(&json!([waiting_for_go(&site, "a"), waiting_for_go(&site, "b")]));
    executor.kill();
    let next = site.start();
    assert_eq!(names(&next.tasks()), ["a", "b"]);
    fs::write(site.path("go"), "").unwrap();
    next.terminated("a");
    next.terminated("b");
    assert_eq!(runs(&site), ["a", "b"]);
    assert!(!site.data().join(".queue.json").exists());
}

#[test]
fn one_task_that_cannot_start_does_not_hinder_the_next() {
    let site = Site::new();
    let executor = site.start();
    let wrong = json!({"name": "wrong", "process": {"command": ["true"], "workingDir": "/no/such/folder"}});
    let answer = executor.request("POST", "/setTasks", &json!([wrong, shell("right", "true")]).to_string());
    let message = answer.error(500, "Internal Server Error");
    assert!(message.starts_with("failed to sync tasks: failed to create task wrong:"), "{message}");
    executor.terminated("right");
    assert_eq!(names(&executor.tasks()), ["right"]);
}

#[test]
fn many_clients_at_once_start_a_task_once() {
    let site = Site::new();
    let executor = site.start();
    let list = json!([waiting_for_go(&site, "a")]).to_string();
    let ask = |executor: &Executor| executor.request("POST", "/setTasks", &list).status;
    std::thread::scope(|scope| {
        let asked: Vec<_> = (0..8).map(|_| scope.spawn(|| ask(&executor))).collect();
        for asked in asked {
            assert_eq!(asked.join().unwrap(), 200);
        }
    });
    eventually("it runs", || (site.lines("runs") > 0).then_some(()));
    assert_eq!(runs(&site), ["a"]);
}
