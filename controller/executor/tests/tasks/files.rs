//! What is on the disk: ours, what OpenSandbox's executor has left, and what is neither.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use crate::harness::{Site, eventually, lives, shell};

/// A task as OpenSandbox's executor writes it.
fn theirs(site: &Site, name: &str, state: &str, files: &[(&str, &str)]) {
    let folder = site.data().join(name);
    fs::create_dir_all(&folder).unwrap();
    let task = json!({
        "name": name,
        "process": {"command": ["/bin/sh", "-c", format!("echo run >> {}", site.path("runs").display())]},
        "podTemplateSpec": null,
        "status": {"state": state, "subStatuses": [{"startedAt": "2026-06-12T10:00:00.5+08:00"}]},
    });
    fs::write(folder.join("task.json"), serde_json::to_string_pretty(&task).unwrap()).unwrap();
    for (file, text) in files {
        fs::write(folder.join(file), text).unwrap();
    }
}

#[test]
fn a_tasks_file_is_opensandboxs_with_a_key_of_ours() {
    let site = Site::new();
    let executor = site.start();
    executor.create(&shell("a", "exit 4"));
    executor.terminated("a");
    let file: Value = serde_json::from_str(&site.file("a", "task.json").unwrap()).unwrap();
    assert_eq!(file["name"], "a");
    assert_eq!(file["status"]["state"], "Failed");
    assert_eq!(file["status"]["subStatuses"][0]["exitCode"], 4);
    assert_eq!(file["sandgate"]["sequence"], 1);
    assert!(file.get("podTemplateSpec").unwrap().is_null());
}

#[test]
fn a_start_says_in_which_pid_namespace_its_shim_is() {
    let site = Site::new();
    let executor = site.start();
    executor.create(&shell("a", "sleep 60"));
    let start: Value = serde_json::from_str(&site.file("a", "start").unwrap()).unwrap();
    let namespace = fs::read_link("/proc/self/ns/pid").unwrap();
    let said = start["pidNamespace"].as_str().unwrap();
    assert!(said.starts_with(&format!("{}@", namespace.display())), "{said}");
}

#[test]
fn a_pid_of_theirs_that_was_not_written_is_no_second_run() {
    let site = Site::new();
    theirs(&site, "torn", "Running", &[("pid", "")]);
    let executor = site.start();
    assert_eq!(executor.terminated("torn")["reason"], "ProcessCrashed");
    executor.set(&json!([shell("torn", "true")]));
    executor.terminated("torn");
    assert_eq!(site.lines("runs"), 0);
}

#[test]
fn what_their_executor_has_finished_is_kept_and_not_run_again() {
    let site = Site::new();
    theirs(&site, "done", "Running", &[("pid", "1"), ("exit", "0")]);
    theirs(&site, "failed", "Failed", &[("pid", "1"), ("exit", "5")]);
    let executor = site.start();
    assert_eq!(executor.terminated("done")["exitCode"], 0);
    executor.terminated("failed");
    executor.set(&json!([shell("done", "true"), shell("failed", "true")]));
    executor.terminated("done");
    assert_eq!(site.lines("runs"), 0);
}

#[test]
fn what_their_executor_has_not_started_is_run() {
    let site = Site::new();
    theirs(&site, "new", "Pending", &[]);
    let executor = site.start();
    assert_eq!(executor.terminated("new")["exitCode"], 0);
    assert_eq!(site.lines("runs"), 1);
}

#[test]
fn of_several_that_have_not_started_one_runs_at_a_time() {
    let site = Site::new();
    let lock = site.path("lock");
    for name in ["c", "a", "b"] {
        theirs(&site, name, "Pending", &[]);
        let script = format!("mkdir {} || exit 9; sleep 0.1; rmdir {}", lock.display(), lock.display());
        let mut task: Value = serde_json::from_str(&site.file(name, "task.json").unwrap()).unwrap();
        task["process"]["command"] = json!(["/bin/sh", "-c", script]);
        fs::write(site.data().join(name).join("task.json"), task.to_string()).unwrap();
    }
    let executor = site.start();
    for name in ["a", "b", "c"] {
        assert_eq!(executor.terminated(name)["exitCode"], 0, "{name} ran beside another one");
    }
}

#[test]
fn a_process_that_their_executor_has_started_is_taken_over() {
    use std::os::unix::process::CommandExt as _;
    let site = Site::new();
    let mut process = Command::new("sleep").arg("60").process_group(0).spawn().unwrap();
    let pid = process.id().to_string();
    theirs(&site, "old", "Running", &[("pid", &pid)]);
    let executor = site.start();
    assert!(executor.task("old").unwrap()["processStatus"]["running"].is_object());
    executor.set(&json!([]));
    eventually("the process is gone", || process.try_wait().unwrap());
    executor.is_empty();
}

#[test]
fn a_process_that_has_the_pid_by_chance_is_not_touched() {
    let site = Site::new();
    let mut process = Command::new("sleep").arg("60").spawn().unwrap();
    let pid = process.id().to_string();
    theirs(&site, "old", "Running", &[("pid", &pid)]);
    // The pid was written long before this process started.
    let file = fs::File::options().write(true).open(site.data().join("old/pid")).unwrap();
    file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000)).unwrap();
    let executor = site.start();
    assert_eq!(executor.terminated("old")["reason"], "ProcessCrashed");
    executor.set(&json!([]));
    executor.is_empty();
    assert!(lives(&pid));
    process.kill().unwrap();
    process.wait().unwrap();
}

#[test]
fn a_folder_that_is_no_task_keeps_its_name() {
    let site = Site::new();
    fs::create_dir_all(site.data().join("photos")).unwrap();
    fs::write(site.data().join("photos/1.jpg"), "x").unwrap();
    let executor = site.start();
    assert!(executor.tasks().is_empty());
    let answer = executor.request("POST", "/tasks", &shell("photos", "true").to_string());
    assert!(answer.error(500, "Internal Server Error").contains("task photos already exists"));
    assert!(site.data().join("photos/1.jpg").exists());
}

#[test]
fn a_second_executor_of_the_same_port_does_not_touch_the_tasks() {
    let site = Site::new();
    let executor = site.start();
    executor.create(&shell("a", "sleep 60"));
    let second = site.try_start(|command| {
        command.args(["--listen-addr", &executor.address]);
    });
    assert!(second.is_none());
    assert!(executor.task("a").unwrap()["processStatus"]["running"].is_object());
}

#[test]
fn a_second_executor_of_the_same_folder_does_not_start() {
    let site = Site::new();
    let executor = site.start();
    executor.create(&shell("a", "sleep 60"));
    assert!(site.try_start(|_| {}).is_none());
    // The tasks do not hold the folder: the next executor can have it at once.
    executor.kill();
    assert!(site.start().task("a").unwrap()["processStatus"]["running"].is_object());
}

#[test]
fn the_log_is_in_a_file_if_a_folder_is_given() {
    let site = Site::new();
    let folder = site.path("logs");
    let log = folder.join("task-executor.log");
    let listening = || fs::read_to_string(&log).is_ok_and(|text| text.contains("listening on"));
    let mut child = Command::new(env!("CARGO_BIN_EXE_task-executor"))
        .args(["-listen-addr=127.0.0.1:0", "-log-dir"])
        .arg(&folder)
        .env("DATA_DIR", site.data())
        .stdout(fs::File::create(site.path("stdout")).unwrap())
        .spawn()
        .unwrap();
    eventually("the log says that it listens", || listening().then_some(()));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(fs::read_to_string(site.path("stdout")).unwrap(), "");
}

#[test]
fn help_teaches() {
    let output = Command::new(env!("CARGO_BIN_EXE_task-executor")).arg("--help").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    for part in ["Examples:", "setTasks", "--token-file", "DATA_DIR", "shareProcessNamespace"] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

#[test]
fn the_program_copies_itself_and_the_copy_runs() {
    let site = Site::new();
    let copy = site.path("bin/here/task-executor");
    for _ in 0..2 {
        let done =
            Command::new(env!("CARGO_BIN_EXE_task-executor")).arg("--install").arg(&copy).status().unwrap();
        assert!(done.success());
    }
    let said = Command::new(&copy).arg("--version").output().unwrap();
    assert_eq!(
        String::from_utf8(said.stdout).unwrap(),
        format!("task-executor {}\n", env!("CARGO_PKG_VERSION"))
    );
    assert!(!site.data().exists(), "nothing else was done");
}
