//! A disk that is full, or that does not do what it is told.

use std::fs;

use serde_json::json;

use crate::harness::{Executor, Site, eventually, lives, root, shell, written};

/// Runs until it is killed.
const STUBBORN: &str = "trap '' TERM; while :; do sleep 0.05; done";

/// An executor for which what has this name fails as long as the file `full` exists, which it does not yet.
fn failing(site: &Site, name: &str) -> Executor {
    let full = site.path("full");
    site.start_with(|command| {
        command.env("SANDGATE_FAULT", format!("{name}:{}", full.display()));
    })
}

fn fill(site: &Site) {
    fs::write(site.path("full"), "").unwrap();
}

fn make_room(site: &Site) {
    fs::remove_file(site.path("full")).unwrap();
}

/// An executor whose data folder is a disk of its own, and small. Nobody else sees it.
fn on_a_small_disk(site: &Site) -> Executor {
    let data = site.data();
    let mount = "mkdir -p \"$0\" && mount -t tmpfs -o size=256k tmpfs \"$0\" && exec \"$@\"";
    let words = ["--mount", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", mount];
    site.start_by("unshare", &[&words[..], &[data.to_str().unwrap()]].concat(), |_| {})
}

/// A script that fills the disk with its output, and then says so.
fn filling(site: &Site, then: &str) -> String {
    format!("cat /dev/zero; echo full > {}; {then}", site.path("is-full").display())
}

#[test]
fn a_task_that_has_filled_the_disk_is_stopped_and_the_next_one_runs() {
    if !root("a full disk") {
        return;
    }
    let site = Site::new();
    let executor = on_a_small_disk(&site);
    for name in ["one", "two"] {
        executor.create(&shell(name, &filling(&site, STUBBORN)));
        written(&site.path("is-full"));
        fs::remove_file(site.path("is-full")).unwrap();
        let answer = executor.request("POST", "/setTasks", "[]");
        assert!(answer.error(500, "Internal Server Error").contains("No space left"));
        executor.is_empty();
    }
    executor.set(&json!([shell("three", "true")]));
    assert_eq!(executor.terminated("three")["exitCode"], 0);
}

#[test]
fn a_task_that_has_filled_the_disk_ends_with_its_own_exit_code() {
    if !root("an exit code on a full disk") {
        return;
    }
    let site = Site::new();
    let executor = on_a_small_disk(&site);
    executor.create(&shell("a", &filling(&site, "exit 3")));
    let ended = executor.terminated("a");
    assert_eq!((&ended["exitCode"], &ended["reason"]), (&json!(3), &json!("Failed")));
    let refused = executor.request("POST", "/tasks", &shell("b", "true").to_string());
    assert!(refused.error(500, "Internal Server Error").contains("failed to persist task"));
    executor.request("DELETE", "/tasks/a", "");
    executor.is_empty();
    executor.create(&shell("b", "true"));
}

#[test]
fn a_task_that_has_filled_the_disk_is_stopped_by_its_timeout() {
    if !root("a timeout on a full disk") {
        return;
    }
    let site = Site::new();
    let executor = on_a_small_disk(&site);
    let mut task = shell("slow", &filling(&site, STUBBORN));
    task["process"]["timeoutSeconds"] = json!(1);
    executor.create(&task);
    let ended = executor.terminated("slow");
    assert_eq!((&ended["exitCode"], &ended["reason"]), (&json!(137), &json!("TaskTimeout")));
    assert!(site.path("is-full").exists());
}

#[test]
fn a_task_that_could_not_be_written_leaves_its_name_free() {
    let site = Site::new();
    let executor = failing(&site, "save.task");
    fill(&site);
    let task = shell("a", "true");
    for (path, body) in [("/tasks", task.clone()), ("/setTasks", json!([task]))] {
        let refused = executor.request("POST", path, &body.to_string());
        let message = refused.error(500, "Internal Server Error");
        assert!(message.contains("failed to persist task"), "{message}");
        assert!(!site.data().join("a").exists());
    }
    make_room(&site);
    executor.create(&task);
    assert_eq!(executor.terminated("a")["exitCode"], 0);
}

#[test]
fn a_task_of_the_queue_that_could_not_be_written_is_written_later() {
    let site = Site::new();
    let executor = failing(&site, "save.task");
    let go = site.path("go");
    let first = shell("first", &format!("while [ ! -e {} ]; do sleep 0.05; done", go.display()));
    executor.set(&json!([first, shell("second", "true")]));
    fill(&site);
    fs::write(&go, "").unwrap();
    executor.terminated("first");
    eventually("the second could not be created", || executor.log().contains("not created").then_some(()));
    make_room(&site);
    assert_eq!(executor.terminated("second")["exitCode"], 0);
}

#[test]
fn a_task_is_stopped_although_its_deletion_cannot_be_written() {
    let site = Site::new();
    let executor = failing(&site, "save.task");
    for (name, method, path, body) in
        [("set", "POST", "/setTasks", "[]"), ("deleted", "DELETE", "/tasks/deleted", "")]
    {
        executor.create(&shell(name, STUBBORN));
        let pid = site.file(name, "pid").unwrap();
        fill(&site);
        let answer = executor.request(method, path, body);
        assert!(answer.error(500, "Internal Server Error").contains("failed to persist task"));
        executor.is_empty();
        assert!(!lives(&pid));
        make_room(&site);
    }
}

#[test]
fn a_deletion_that_could_not_be_written_is_written_when_there_is_room() {
    let site = Site::new();
    let full = site.path("full");
    let executor = site.start_with(|command| {
        command.env("SANDGATE_FAULT", format!("save.task:{}", full.display()));
        command.env("SANDGATE_GRACE_MILLIS", "60000");
    });
    let ready = site.path("ready");
    executor.create(&shell("a", &format!("trap '' TERM; echo up > {}; {STUBBORN}", ready.display())));
    written(&ready);
    fill(&site);
    executor.request("DELETE", "/tasks/a", "").error(500, "Internal Server Error");
    assert!(executor.task("a").unwrap()["deletionTimestamp"].is_string(), "it is under way");
    executor.request("DELETE", "/tasks/a", "").error(500, "Internal Server Error");
    assert!(!site.file("a", "task.json").unwrap().contains("deletionTimestamp"));
    make_room(&site);
    eventually("it is written, and nobody had to ask", || {
        site.file("a", "task.json").filter(|text| text.contains("deletionTimestamp"))
    });
    assert_eq!(executor.request("DELETE", "/tasks/a", "").status, 204);
}

#[test]
fn a_timeout_counts_although_it_cannot_be_written() {
    let site = Site::new();
    let executor = failing(&site, "save.task");
    let mut task = shell("slow", "trap 'exit 0' TERM; while :; do sleep 0.05; done");
    task["process"]["timeoutSeconds"] = json!(1);
    executor.create(&task);
    fill(&site);
    let ended = executor.terminated("slow");
    assert_eq!((&ended["exitCode"], &ended["reason"]), (&json!(137), &json!("TaskTimeout")));
}

#[test]
fn an_exit_code_that_could_not_be_written_is_written_when_there_is_room() {
    let site = Site::new();
    let (full, go) = (site.path("full"), site.path("go"));
    let executor = site.start_with(|command| {
        command.env("SANDGATE_FAULT", format!("save.exit:{}", full.display()));
        command.env("SANDGATE_HOLD", format!("shim.exit-refused:{}", go.display()));
    });
    fill(&site);
    executor.create(&shell("a", "exit 3"));
    eventually("the shim could not write it", || site.path("go.reached").exists().then_some(()));
    assert!(executor.task("a").unwrap()["processStatus"]["running"].is_object());
    make_room(&site);
    fs::write(&go, "").unwrap();
    assert_eq!(executor.terminated("a")["exitCode"], 3);
}

#[test]
fn a_task_whose_files_cannot_be_deleted_is_removed_all_the_same() {
    let site = Site::new();
    fill(&site);
    let left = || fs::read_dir(site.data().join(".trash")).unwrap().count();
    for deaths in 1..=2 {
        let executor = failing(&site, "remove.emptying");
        for _ in 0..2 {
            executor.create(&shell("a", "true"));
            executor.terminated("a");
            executor.set(&json!([]));
            executor.is_empty();
        }
        assert_eq!(left(), 2 * deaths);
        executor.kill();
    }
    make_room(&site);
    let executor = site.start();
    assert_eq!(left(), 0);
    executor.create(&shell("a", "true"));
}
