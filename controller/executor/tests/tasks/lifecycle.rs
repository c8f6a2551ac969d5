//! A task from its start to its end.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::harness::{Site, eventually, lives, shell, written};

#[test]
fn a_short_task_runs_and_is_reported_as_succeeded() {
    let site = Site::new();
    let executor = site.start();
    let created = executor.create(&shell("short", "echo out; echo err >&2"));
    assert_eq!(created["name"], "short");
    let ended = executor.terminated("short");
    assert_eq!((&ended["exitCode"], &ended["reason"]), (&json!(0), &json!("Succeeded")));
    assert!(ended["startedAt"].as_str().unwrap() <= ended["finishedAt"].as_str().unwrap());
    assert_eq!(site.file("short", "stdout.log").unwrap(), "out\n");
    assert_eq!(site.file("short", "stderr.log").unwrap(), "err\n");
    assert_eq!(site.file("short", "exit").unwrap(), "0");
}

#[test]
fn a_task_that_runs_says_since_when() {
    let site = Site::new();
    let executor = site.start();
    let created = executor.create(&shell("long", "sleep 60"));
    let since = created["processStatus"]["running"]["startedAt"].as_str().unwrap().to_owned();
    assert_eq!(executor.task("long").unwrap()["processStatus"]["running"]["startedAt"], since.as_str());
    assert!(lives(&site.file("long", "pid").unwrap()));
}

#[test]
fn a_failure_has_the_exit_code_that_a_shell_would_tell() {
    let site = Site::new();
    let executor = site.start();
    fs::write(site.path("plain"), "no program").unwrap();
    let plain = site.path("plain");
    for (name, command, code) in [
        ("three", json!(["/bin/sh", "-c", "exit 3"]), 3),
        ("killed", json!(["/bin/sh", "-c", "kill -SEGV $$"]), 139),
        ("missing", json!(["no-such-program"]), 127),
        ("plain", json!([plain]), 126),
    ] {
        executor.create(&json!({"name": name, "process": {"command": command}}));
        let ended = executor.terminated(name);
        assert_eq!((&ended["exitCode"], &ended["reason"]), (&json!(code), &json!("Failed")), "{name}");
    }
    let told = site.file("missing", "stderr.log").unwrap();
    assert!(told.contains("cannot start no-such-program"), "{told}");
}

#[test]
fn a_task_has_the_executors_environment_and_its_own() {
    let site = Site::new();
    let executor = site.start_with(|command| {
        command.env("OF_EXECUTOR", "kept").env("BOTH", "executor");
    });
    let env =
        json!([{"name": "OF_TASK", "value": "a=b c"}, {"name": "BOTH", "value": "task"}, {"name": "EMPTY"}]);
    executor.create(&json!({"name": "env", "process": {"command": ["env"], "env": env}}));
    executor.terminated("env");
    let output = site.file("env", "stdout.log").unwrap();
    for line in ["OF_EXECUTOR=kept", "OF_TASK=a=b c", "BOTH=task", "EMPTY="] {
        assert!(output.lines().any(|found| found == line), "{line} is not in\n{output}");
    }
}

#[test]
fn arguments_arrive_as_they_were_written() {
    let site = Site::new();
    let executor = site.start();
    let args = ["%s|", "it's", "two words", "$HOME `id` \"x\"", "", "line\nbreak", "*"];
    executor.create(&json!({"name": "args", "process": {"command": ["printf"], "args": args}}));
    executor.terminated("args");
    let want = "it's|two words|$HOME `id` \"x\"||line\nbreak|*|";
    assert_eq!(site.file("args", "stdout.log").unwrap(), want);
}

#[test]
fn a_task_starts_in_its_working_directory() {
    let site = Site::new();
    let executor = site.start();
    let folder = site.path("here");
    fs::create_dir(&folder).unwrap();
    let folder = folder.canonicalize().unwrap();
    executor.create(&json!({"name": "pwd", "process": {"command": ["pwd"], "workingDir": folder}}));
    executor.terminated("pwd");
    assert_eq!(site.file("pwd", "stdout.log").unwrap().trim(), folder.to_str().unwrap());
}

#[test]
fn a_task_that_cannot_start_is_refused_and_leaves_nothing() {
    let site = Site::new();
    let executor = site.start();
    let task = json!({"name": "lost", "process": {"command": ["pwd"], "workingDir": "/no/such/folder"}});
    for (path, body) in [("/tasks", task.to_string()), ("/setTasks", json!([task]).to_string())] {
        let message = executor.request("POST", path, &body).error(500, "Internal Server Error");
        assert!(
            message.contains("failed to start task: workingDir /no/such/folder is no folder"),
            "{message}"
        );
        assert!(executor.tasks().is_empty());
        assert!(!site.data().join("lost").exists());
    }
    executor.create(&shell("next", "true"));
}

#[test]
fn a_task_that_exists_is_not_created_again() {
    let site = Site::new();
    let executor = site.start();
    let task = shell("one", &format!("echo run >> {}", site.path("runs").display()));
    executor.create(&task);
    executor.terminated("one");
    let message = executor.request("POST", "/tasks", &task.to_string()).error(500, "Internal Server Error");
    assert_eq!(message, "failed to create task: task one already exists");
    assert_eq!(site.lines("runs"), 1);
}

#[test]
fn one_task_is_active_at_a_time() {
    let site = Site::new();
    let executor = site.start();
    executor.create(&shell("first", "sleep 60"));
    let second = shell("second", "true").to_string();
    let message = executor.request("POST", "/tasks", &second).error(500, "Internal Server Error");
    assert_eq!(
        message,
        "failed to create task: maximum concurrent tasks (1) reached, cannot create new task"
    );
    assert!(executor.task("second").is_none());
    assert_eq!(executor.request("DELETE", "/tasks/first", "").status, 204);
    executor.is_empty();
    executor.create(&shell("second", "true"));
}

#[test]
fn a_finished_task_is_no_active_one_and_is_kept() {
    let site = Site::new();
    let executor = site.start();
    for name in ["b", "a", "c"] {
        executor.create(&shell(name, "true"));
        executor.terminated(name);
    }
    let names: Vec<_> =
        executor.tasks().iter().map(|task| task["name"].as_str().unwrap().to_owned()).collect();
    assert_eq!(names, ["b", "a", "c"], "in the order of their creation");
}

#[test]
fn a_task_whose_shim_is_killed_has_crashed_and_nothing_of_it_runs_on() {
    let site = Site::new();
    let executor = site.start();
    let pid = site.path("child");
    executor.create(&shell("victim", &format!("echo $$ > {}; exec sleep 60", pid.display())));
    let child = written(&pid);
    let shim = site.file("victim", "pid").unwrap().trim().parse().unwrap();
    kill_process(Pid::from_raw(shim).unwrap(), Signal::KILL).unwrap();
    let ended = executor.terminated("victim");
    assert_eq!((&ended["exitCode"], &ended["reason"]), (&json!(137), &json!("ProcessCrashed")));
    assert!(!lives(&child));
}

#[test]
fn what_a_task_leaves_running_ends_with_its_deletion() {
    let site = Site::new();
    let executor = site.start();
    let pid = site.path("server");
    executor.create(&shell("starter", &format!("sleep 60 & echo $! > {}", pid.display())));
    let server = written(&pid);
    assert_eq!(executor.terminated("starter")["exitCode"], 0);
    assert!(lives(&server), "a task can start a server");
    executor.set(&json!([]));
    executor.is_empty();
    assert!(!lives(&server));
}

#[test]
fn a_stop_of_the_executor_leaves_the_task_running() {
    let site = Site::new();
    let mut executor = site.start();
    executor.create(&shell(
        "long",
        &format!("while [ ! -e {} ]; do sleep 0.05; done", site.path("go").display()),
    ));
    let pid = site.file("long", "pid").unwrap();
    executor.signal(Signal::TERM);
    assert_eq!(executor.wait().code(), Some(0), "{}", executor.log());
    assert!(lives(&pid));
    let next = site.start();
    assert!(next.task("long").unwrap()["processStatus"]["running"].is_object());
    fs::write(site.path("go"), "").unwrap();
    assert_eq!(next.terminated("long")["exitCode"], 0);
}

#[test]
fn a_request_under_way_is_answered_before_the_executor_ends() {
    use std::io::{Read as _, Write as _};
    let site = Site::new();
    let mut executor = site.start();
    let mut stream = std::net::TcpStream::connect(&executor.address).unwrap();
    stream
        .write_all(b"POST /setTasks HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
        .unwrap();
    // The executor asks for the body once it has read the head: from here on the request is under way.
    let mut asked = [0; 25];
    stream.read_exact(&mut asked).unwrap();
    executor.signal(Signal::TERM);
    eventually("it is stopping", || executor.log().contains("stopping").then_some(()));
    stream.write_all(b"[]").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200 OK"), "{text}");
    assert_eq!(executor.wait().code(), Some(0));
}

#[test]
fn a_task_that_finishes_before_its_timeout_succeeds() {
    let site = Site::new();
    let executor = site.start();
    executor.create(&json!({"name": "quick", "process": {"command": ["true"], "timeoutSeconds": 30}}));
    assert_eq!(executor.terminated("quick")["reason"], "Succeeded");
}
