//! Whatever dies, and whenever: a task that was accepted runs once.

use std::fs;

use serde_json::json;

use crate::harness::{Executor, Site, eventually, lives, shell, written};

/// Every place of the executor where something on the disk or a process has just changed.
const POINTS: [&str; 16] = [
    "create.folder-made",
    "save.written",
    "create.kept",
    "start.spawned",
    "start.told",
    "set.marked",
    "set.queue-kept",
    "running.kept",
    "end.seen",
    "end.kept",
    "delete.marked",
    "delete.cancelled",
    "stop.asked",
    "stop.killed",
    "queue.begun",
    "remove.moved",
];

fn dying_at(site: &Site, point: &str) -> Option<Executor> {
    site.try_start(|command| {
        command.env("SANDGATE_FAILPOINT", point);
    })
}

/// Asks until it is answered, as an operator does, and restarts the executor when it has died.
struct Client<'a> {
    site: &'a Site,
    executor: Option<Executor>,
    deaths: usize,
}

impl<'a> Client<'a> {
    fn new(site: &'a Site, point: &str) -> Self {
        Self { site, executor: dying_at(site, point), deaths: 0 }
    }

    fn set_until(
        &mut self,
        what: &str,
        list: &serde_json::Value,
        done: impl Fn(&[serde_json::Value]) -> bool,
    ) {
        let body = list.to_string();
        eventually(what, || {
            if self.executor.as_mut().is_none_or(Executor::has_ended) {
                self.deaths += 1;
                self.executor = Some(self.site.start());
            }
            let executor = self.executor.as_ref()?;
            let answer = executor.ask("POST", "/setTasks", &body)?;
            (answer.status == 200 && done(answer.json().as_array()?)).then_some(())
        });
    }
}

#[test]
fn an_executor_that_is_killed_anywhere_runs_a_task_once() {
    for point in POINTS {
        let site = Site::new();
        let mut client = Client::new(&site, point);
        // One that ends by itself, and then one that has to be killed behind which a third waits.
        let first = shell("first", &format!("echo run >> {}", site.path("first").display()));
        let ended = |tasks: &[serde_json::Value]| {
            tasks.iter().any(|task| task["processStatus"]["terminated"].is_object())
        };
        client.set_until(&format!("{point}: the first ends"), &json!([first]), ended);
        client.set_until(&format!("{point}: it is gone"), &json!([]), <[_]>::is_empty);
        let stubborn = format!(
            "trap '' TERM; echo run >> {}; while :; do sleep 0.05; done",
            site.path("second").display()
        );
        let running = |tasks: &[serde_json::Value]| {
            tasks.iter().any(|task| task["processStatus"]["running"].is_object())
        };
        client.set_until(&format!("{point}: the second runs"), &json!([shell("second", &stubborn)]), running);
        eventually("the second has begun", || (site.lines("second") > 0).then_some(()));
        let third = shell("third", &format!("echo run >> {}", site.path("third").display()));
        let alone = |tasks: &[serde_json::Value]| tasks.len() == 1 && ended(tasks);
        client.set_until(&format!("{point}: the third ends"), &json!([third]), alone);
        client.set_until(&format!("{point}: all are gone"), &json!([]), <[_]>::is_empty);
        let runs = ["first", "second", "third"].map(|name| site.lines(name));
        assert_eq!(runs, [1, 1, 1], "{point}");
        let unreached = ["delete.cancelled"];
        assert_eq!(
            client.deaths,
            usize::from(!unreached.contains(&point)),
            "{point}: how often it was killed"
        );
    }
}

#[test]
fn a_task_that_was_accepted_runs_without_being_asked_for_again() {
    for point in ["create.kept", "start.spawned", "start.told", "running.kept"] {
        let site = Site::new();
        let executor = dying_at(&site, point).unwrap();
        let task = shell("a", &format!("echo run >> {}; sleep 0.3", site.path("runs").display()));
        assert!(executor.ask("POST", "/setTasks", &json!([task]).to_string()).is_none(), "{point}");
        let next = site.start();
        assert_eq!(next.terminated("a")["exitCode"], 0, "{point}");
        assert_eq!(site.lines("runs"), 1, "{point}");
    }
}

/// An executor with a task that waits for the file `go`, and behind it one that notes its run.
fn with_one_behind(site: &Site, change: impl FnOnce(&mut std::process::Command)) -> Executor {
    let executor = site.start_with(change);
    let before = shell("z", &format!("while [ ! -e {} ]; do sleep 0.05; done", site.path("go").display()));
    let behind = shell("a", &format!("echo run >> {}; sleep 60", site.path("runs").display()));
    executor.set(&json!([before, behind]));
    assert!(site.data().join(".queue.json").exists());
    executor
}

/// The next executor, which must not run the task again that was being deleted when the last one died.
fn is_only_deleted(site: &Site) {
    let next = site.start();
    eventually("the task is gone, or runs again", || {
        (next.task("a").is_none() || site.lines("runs") > 1).then_some(())
    });
    next.set(&json!([]));
    next.is_empty();
    assert_eq!(site.lines("runs"), 1);
}

#[test]
fn a_task_that_left_the_queue_when_one_executor_died_is_not_run_again_when_the_next_one_dies() {
    let site = Site::new();
    let mut first = with_one_behind(&site, |command| {
        command.env("SANDGATE_FAILPOINT", "queue.begun");
    });
    fs::write(site.path("go"), "").unwrap();
    first.wait();
    let mut second = dying_at(&site, "delete.marked").unwrap();
    eventually("it runs", || (site.lines("runs") > 0).then_some(()));
    second.ask("POST", "/setTasks", "[]");
    second.wait();
    is_only_deleted(&site);
}

#[test]
fn a_task_that_left_a_queue_that_could_not_be_written_is_not_run_again() {
    let site = Site::new();
    let full = site.path("full");
    let mut executor = with_one_behind(&site, |command| {
        command.env("SANDGATE_FAULT", format!("save.queue:{}", full.display()));
        command.env("SANDGATE_FAILPOINT", "delete.marked");
    });
    // With a third one the queue that cannot be written has something in it: an empty one needs no room.
    let list = executor.tasks();
    let third = shell("y", "true");
    executor.set(&json!([list[0], list[1], third]));
    fs::write(&full, "").unwrap();
    fs::write(site.path("go"), "").unwrap();
    eventually("it runs", || (site.lines("runs") > 0).then_some(()));
    assert!(fs::read_to_string(site.data().join(".queue.json")).unwrap().contains("runs"));
    executor.ask("DELETE", "/tasks/a", "");
    executor.wait();
    is_only_deleted(&site);
}

#[test]
fn a_claim_that_was_overwritten_is_a_crash_for_the_next_executor_and_no_second_run() {
    for garbage in ["", "{", "null"] {
        let site = Site::new();
        let executor = site.start();
        let script = format!("echo run >> {}; sleep 60", site.path("runs").display());
        executor.set(&json!([shell("a", &script)]));
        eventually("it runs", || (site.lines("runs") > 0).then_some(()));
        executor.kill();
        fs::write(site.data().join("a/start"), garbage).unwrap();
        let next = site.start();
        assert_eq!(next.terminated("a")["reason"], "ProcessCrashed", "{garbage}");
        next.set(&json!([shell("a", &script)]));
        assert_eq!(site.lines("runs"), 1, "{garbage}");
        // What runs on is nobody's, and ended here.
        let pid: i32 = site.file("a", "pid").unwrap().parse().unwrap();
        rustix::process::kill_process_group(
            rustix::process::Pid::from_raw(pid).unwrap(),
            rustix::process::Signal::KILL,
        )
        .unwrap();
        next.set(&json!([]));
        next.is_empty();
    }
}

#[test]
fn a_claim_that_is_overwritten_while_the_task_runs_hides_nothing() {
    let site = Site::new();
    let executor = site.start();
    executor.set(&json!([shell("a", "sleep 60")]));
    let pid = site.file("a", "pid").unwrap();
    fs::write(site.data().join("a/start"), "{").unwrap();
    assert!(executor.task("a").unwrap()["processStatus"]["running"].is_object());
    executor.set(&json!([]));
    executor.is_empty();
    assert!(!lives(&pid));
}

#[test]
fn a_shim_that_is_slow_does_not_start_what_another_has_started() {
    let site = Site::new();
    let go = site.path("go");
    let executor = site.start_with(|command| {
        command.env("SANDGATE_FAILPOINT", "start.spawned");
        command.env("SANDGATE_HOLD", format!("shim.claiming:{}", go.display()));
    });
    let task = shell("a", &format!("echo run >> {}", site.path("runs").display()));
    assert!(executor.ask("POST", "/tasks", &task.to_string()).is_none());
    let slow = eventually("the first shim is about to claim the start", || {
        fs::read_to_string(site.path("go.reached")).ok().filter(|pid| !pid.is_empty())
    });
    let next = site.start();
    next.terminated("a");
    fs::write(&go, "").unwrap();
    eventually("the slow shim has ended", || (!lives(&slow)).then_some(()));
    assert_eq!(site.lines("runs"), 1);
}

#[test]
fn a_shim_that_is_slow_does_not_start_what_has_been_deleted() {
    let site = Site::new();
    let go = site.path("go");
    let executor = site.start_with(|command| {
        command.env("SANDGATE_FAILPOINT", "start.spawned");
        command.env("SANDGATE_HOLD", format!("shim.claiming:{}", go.display()));
    });
    let script = format!("echo run >> {}", site.path("runs").display());
    assert!(executor.ask("POST", "/tasks", &shell("a", &script).to_string()).is_none());
    let slow = eventually("the first shim is about to claim the start", || {
        fs::read_to_string(site.path("go.reached")).ok().filter(|pid| !pid.is_empty())
    });
    // The next one dies between the mark and the removal, and the one after that removes it.
    let mut file: serde_json::Value = serde_json::from_str(&site.file("a", "task.json").unwrap()).unwrap();
    file["deletionTimestamp"] = json!("2026-06-12T00:00:00Z");
    fs::write(site.data().join("a/task.json"), file.to_string()).unwrap();
    if let Some(mut dying) = dying_at(&site, "delete.cancelled") {
        dying.wait();
    }
    let next = site.start();
    next.is_empty();
    next.create(&shell("a", &script));
    next.terminated("a");
    fs::write(&go, "").unwrap();
    eventually("the slow shim has ended", || (!lives(&slow)).then_some(()));
    assert_eq!(site.lines("runs"), 1, "the task that was created later, and not the deleted one");
}

#[test]
fn a_shim_that_dies_before_it_has_claimed_the_start_loses_nothing() {
    for point in ["shim.begun", "shim.claiming"] {
        let site = Site::new();
        let executor = dying_at(&site, point).unwrap();
        let task = shell("a", &format!("echo run >> {}", site.path("runs").display()));
        let answer = executor.request("POST", "/setTasks", &json!([task]).to_string());
        assert!(answer.error(500, "Internal Server Error").contains("the shim ended without a word"));
        assert!(executor.tasks().is_empty());
        assert_eq!(site.lines("runs"), 0);
    }
}

#[test]
fn a_shim_that_dies_once_it_has_claimed_the_start_is_a_crash_and_no_second_run() {
    for (point, runs) in [("shim.claimed", 0), ("shim.spawned", 1), ("shim.ended", 1)] {
        let site = Site::new();
        let executor = dying_at(&site, point).unwrap();
        let task = shell("a", &format!("echo run >> {}", site.path("runs").display()));
        let list = json!([task]).to_string();
        // Whether the first answer says so depends on where it died.
        executor.ask("POST", "/setTasks", &list);
        assert_eq!(executor.terminated("a")["reason"], "ProcessCrashed", "{point}");
        executor.set(&json!([task]));
        assert_eq!(executor.terminated("a")["exitCode"], 137, "{point}");
        assert!(site.lines("runs") <= runs, "{point}");
    }
}

#[test]
fn a_timeout_that_was_written_down_is_a_timeout_for_the_next_executor() {
    let site = Site::new();
    let executor = dying_at(&site, "timeout.kept").unwrap();
    let mut task = shell("slow", "trap 'exit 0' TERM; while :; do sleep 0.05; done");
    task["process"]["timeoutSeconds"] = json!(1);
    executor.create(&task);
    let mut executor = executor;
    executor.wait();
    let next = site.start();
    let ended = next.terminated("slow");
    assert_eq!((&ended["exitCode"], &ended["reason"]), (&json!(137), &json!("TaskTimeout")));
}

#[test]
fn a_refusal_that_was_cut_is_no_task() {
    let site = Site::new();
    let executor = dying_at(&site, "undo.cancelled").unwrap();
    let task = json!({"name": "a", "process": {"command": ["true"], "workingDir": "/no/such/folder"}});
    assert!(executor.ask("POST", "/tasks", &task.to_string()).is_none());
    let next = site.start();
    assert!(next.tasks().is_empty());
    assert!(!site.data().join("a").exists());
}

#[test]
fn the_output_of_a_task_goes_on_while_the_executor_is_away() {
    let site = Site::new();
    let executor = site.start();
    let go = site.path("go");
    let script = format!("echo one; while [ ! -e {} ]; do sleep 0.05; done; echo two; exit 5", go.display());
    executor.create(&shell("a", &script));
    written(&site.data().join("a/stdout.log"));
    executor.kill();
    fs::write(&go, "").unwrap();
    eventually("the task ends by itself", || site.file("a", "exit"));
    let next = site.start();
    assert_eq!(next.terminated("a")["exitCode"], 5);
    assert_eq!(site.file("a", "stdout.log").unwrap(), "one\ntwo\n");
}
