//! Namespaces: tasks in a main container, and an executor that is the first process of its own.
//!
//! Most need root; see [`root`].

use std::fs;
use std::path::Path;
use std::process::{Child, Command};

use serde_json::{Value, json};

use crate::harness::{Executor, Site, eventually, lives, root, shell, written};

/// A main container: a process in namespaces of its own, where the data folder cannot be seen.
struct Main {
    child: Child,
    name: String,
}

impl Main {
    fn start(site: &Site, name: &str) -> Self {
        let name = format!("{name}-{}", std::process::id());
        let up = site.path("up");
        fs::create_dir_all(site.path("outside")).unwrap();
        let inside = format!(
            "mount -t tmpfs none /mnt && echo from-main > /mnt/marker && hostname main-box && echo up > {}; \
             mount -t tmpfs none {}; exec sleep 300",
            up.display(),
            site.path("").display()
        );
        // The variable is set inside, so that only the process in the namespaces has it.
        let child = Command::new("unshare")
            .args([
                "--mount",
                "--uts",
                "--ipc",
                "--net",
                "--pid",
                "--fork",
                "--mount-proc",
                "--kill-child",
                "env",
            ])
            .args([&format!("SANDBOX_MAIN_CONTAINER={name}"), "OF_MAIN=from main", "BOTH=main"])
            .args(["/bin/sh", "-c", &inside])
            .spawn()
            .unwrap();
        written(&up);
        Self { child, name }
    }

    fn executor(&self, site: &Site) -> Executor {
        site.start_with(|command| {
            command
                .args(["--enable-sidecar-mode", "--main-container-name", &self.name])
                .env("OF_EXECUTOR", "x");
        })
    }
}

impl Drop for Main {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn deleted(executor: &Executor, site: &Site, name: &str) {
    executor.set(&json!([]));
    executor.is_empty();
    assert!(!site.data().join(name).exists());
}

#[test]
fn a_short_task_runs_in_the_namespaces_of_the_main_container() {
    if !root("a task in a main container") {
        return;
    }
    let site = Site::new();
    let main = Main::start(&site, "short");
    let executor = main.executor(&site);
    let script = format!("cat /mnt/marker; hostname; pwd; echo $$; ls {} | wc -l", site.path("").display());
    executor.set(&json!([shell("short", &script)]));
    assert_eq!(executor.terminated("short")["exitCode"], 0);
    let output = site.file("short", "stdout.log").unwrap();
    let lines: Vec<_> = output.lines().map(str::trim).collect();
    assert_eq!(lines[..3], ["from-main", "main-box", "/"], "{output}");
    assert!(lines[3].parse::<u32>().unwrap() < 50, "a pid of the main container's namespace: {output}");
    assert_eq!(lines[4], "0", "the data folder cannot be seen there");
    deleted(&executor, &site, "short");
}

#[test]
fn a_task_has_the_main_containers_environment_and_its_own() {
    if !root("the environment of a main container") {
        return;
    }
    let site = Site::new();
    let main = Main::start(&site, "env");
    let executor = main.executor(&site);
    let env = json!([{"name": "OF_TASK", "value": "from task"}, {"name": "BOTH", "value": "task"}]);
    executor
        .set(&json!([{"name": "env", "process": {"command": ["env"], "env": env, "workingDir": "/mnt"}}]));
    assert_eq!(executor.terminated("env")["exitCode"], 0);
    let output = site.file("env", "stdout.log").unwrap();
    for line in ["OF_MAIN=from main", "OF_TASK=from task", "BOTH=task"] {
        assert!(output.lines().any(|found| found == line), "{line} is not in\n{output}");
    }
    assert!(!output.contains("OF_EXECUTOR"), "{output}");
    deleted(&executor, &site, "env");
}

fn with_timeout(mut task: Value, seconds: u64) -> Value {
    task["process"]["timeoutSeconds"] = json!(seconds);
    task
}

#[test]
fn a_task_of_a_main_container_that_runs_too_long_is_137() {
    if !root("a timeout in a main container") {
        return;
    }
    let site = Site::new();
    let main = Main::start(&site, "slow");
    let executor = main.executor(&site);
    executor.set(&json!([with_timeout(shell("slow", "trap '' TERM; while :; do sleep 0.05; done"), 1)]));
    let ended = executor.terminated("slow");
    assert_eq!((&ended["exitCode"], &ended["reason"]), (&json!(137), &json!("TaskTimeout")));
    deleted(&executor, &site, "slow");
}

#[test]
fn a_task_of_a_main_container_that_finishes_before_its_timeout_succeeds() {
    if !root("no timeout in a main container") {
        return;
    }
    let site = Site::new();
    let main = Main::start(&site, "quick");
    let executor = main.executor(&site);
    executor.set(&json!([with_timeout(shell("quick", "exit 0"), 30)]));
    assert_eq!(executor.terminated("quick")["reason"], "Succeeded");
    deleted(&executor, &site, "quick");
}

#[test]
fn a_task_of_a_main_container_survives_the_executor_and_is_ended_by_the_next() {
    if !root("a main container and two executors") {
        return;
    }
    let site = Site::new();
    let main = Main::start(&site, "two");
    let executor = main.executor(&site);
    executor.set(&json!([shell("long", "sleep 60 & wait")]));
    let shim = site.file("long", "pid").unwrap();
    executor.kill();
    assert!(lives(&shim));
    let next = main.executor(&site);
    assert!(next.task("long").unwrap()["processStatus"]["running"].is_object());
    deleted(&next, &site, "long");
    assert!(!lives(&shim));
}

#[test]
fn without_a_main_container_a_task_is_refused_and_leaves_nothing() {
    let site = Site::new();
    let executor = site.start_with(|command| {
        command.args(["--enable-sidecar-mode=true", "--main-container-name", "nobody-has-this-name"]);
    });
    let answer = executor.request("POST", "/setTasks", &json!([shell("a", "true")]).to_string());
    let message = answer.error(500, "Internal Server Error");
    assert!(message.contains("SANDBOX_MAIN_CONTAINER=nobody-has-this-name"), "{message}");
    assert!(!site.data().join("a").exists());
}

#[test]
fn an_executor_that_may_not_read_environments_says_what_it_lacks() {
    if !root("an executor without CAP_SYS_PTRACE") {
        return;
    }
    // A newer kernel shows environments to whoever has CAP_PERFMON or CAP_SYS_ADMIN, but no namespaces.
    for (lacks, what) in [("-sys_ptrace", ""), ("-sys_ptrace,-perfmon,-sys_admin", "environment can be read")]
    {
        let site = Site::new();
        let main = Main::start(&site, "hidden");
        let lacking = "exec setpriv --bounding-set \"$0\" --inh-caps \"$0\" \"$@\"";
        let executor = site.start_by("sh", &["-c", lacking, lacks], |command| {
            command.args(["--enable-sidecar-mode", "--main-container-name", &main.name]);
        });
        let answer = executor.request("POST", "/setTasks", &json!([shell("a", "true")]).to_string());
        let message = answer.error(500, "Internal Server Error");
        assert!(message.contains("needs CAP_SYS_PTRACE") && message.contains(what), "{message}");
    }
}

#[test]
fn an_executor_that_is_the_first_process_leaves_no_zombies() {
    if !root("an executor that is the first process") {
        return;
    }
    let site = Site::new();
    let (address, log) = (format!("127.0.0.1:{}", free_port()), site.path("log"));
    let mut child = Command::new("unshare")
        .args([
            "--mount",
            "--pid",
            "--fork",
            "--mount-proc",
            "--kill-child",
            env!("CARGO_BIN_EXE_task-executor"),
        ])
        .args(["--listen-addr", &address, "--data-dir"])
        .arg(site.data())
        .stdout(fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let executor = Executor::known(&address, &log);
    eventually("it listens", || executor.ask("GET", "/health", ""));
    // Children whose parent is gone become the executor's, and end.
    executor.create(&shell("orphans", "for n in 1 2 3 4 5; do (sleep 0.1 &) ; done; echo $PPID"));
    executor.terminated("orphans");
    eventually("every child that has ended was waited for", || {
        executor.create(&shell("look", "grep -l ') [ZX]' /proc/[0-9]*/stat; pgrep sleep; true"));
        executor.terminated("look");
        let seen = site.file("look", "stdout.log").unwrap();
        assert_eq!(executor.request("DELETE", "/tasks/look", "").status, 204);
        eventually("it is deleted", || executor.task("look").is_none().then_some(()));
        seen.is_empty().then_some(())
    });
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(Path::new(&site.data()).exists());
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
