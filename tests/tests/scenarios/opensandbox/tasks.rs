//! Tasks in the pods of a batch, run by the real task-executor.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use sandgate_tests::cluster::{
    Batches, allocated, batch_sandbox, endpoints, holds, pod_template, pool, pooled, released,
};
use sandgate_tests::{Client, DEADLINE, Request, eventually, locations, process_exists};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{TASK_FINALIZER, has_finalizer, recycling};

/// The template of pods that have the executor, which the node starts.
fn executor() -> Value {
    // Said here, so that a missing one is a clear failure.
    locations::task_executor();
    pod_template("task-executor:dev")
}

fn shell(script: &str) -> Value {
    json!({ "spec": { "process": { "command": ["sh", "-c", script] } } })
}

/// The same batch with a task for each of its sandboxes.
fn running(mut batch: Value, task: Value) -> Value {
    batch["spec"]["taskTemplate"] = task;
    batch
}

/// Waits until the tasks of a batch are so.
async fn counts(place: &Batches, batch: &str, field: &str, count: u32) -> Value {
    let what = format!("{field} is {count}");
    place.batches.until(batch, &what, |one| one["status"][field] == count).await
}

fn lines(file: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn files() -> (TempDir, impl Fn(&str) -> PathBuf) {
    let folder = TempDir::with_prefix("sandgate-tasks-").expect("a folder");
    let path = folder.path().to_owned();
    (folder, move |name| path.join(name))
}

#[tokio::test]
async fn each_sandbox_runs_its_task_once_and_all_goes_cleanly() {
    let place = Batches::shared("tasks").await;
    let _operator = place.operator().start().await;
    let (_folder, file) = files();
    place.pools.create(&pool("p", &executor(), [2, 2], [0, 6])).await;
    let script = format!("echo done >>{}; echo hello", file("said").display());
    place.batches.create(&running(pooled("one", 2, "p"), shell(&script))).await;
    let one = counts(&place, "one", "taskSucceed", 2).await;
    assert_eq!((&one["status"]["taskFailed"], &one["status"]["taskRunning"]), (&json!(0), &json!(0)));
    assert!(has_finalizer(&one, TASK_FINALIZER), "{one:#}");
    assert_eq!(holds(&place.ready("one", 2).await).len(), 2, "what has ended keeps its pod");
    assert_eq!(lines(&file("said")), ["done", "done"]);

    // One that runs is stopped before its pod is given back.
    let script = format!("echo $$ >{}; exec sleep 1000", file("pid").display());
    place.batches.create(&running(pooled("two", 1, "p"), shell(&script))).await;
    counts(&place, "two", "taskRunning", 1).await;
    let pid: u32 = lines(&file("pid"))[0].parse().expect("a process ID");
    assert!(process_exists(pid));
    place.end("two").await;
    assert!(!process_exists(pid), "the task of a batch that is gone still runs");
    place.end("one").await;
    place.levels("p", 2, 0, 2).await;
}

#[tokio::test]
async fn tasks_differ_fail_and_time_out_as_their_patches_say() {
    let place = Batches::shared("shardtasks").await;
    let _operator = place.operator().start().await;
    let (_folder, file) = files();
    place.pools.create(&pool("p", &executor(), [4, 4], [0, 8])).await;
    let script = format!("echo $WORD >>{}", file("words").display());
    let mut batch = running(pooled("one", 4, "p"), shell(&script));
    batch["spec"]["taskTemplate"]["spec"]["process"]["env"] = json!([{ "name": "WORD", "value": "plain" }]);
    batch["spec"]["taskTemplate"]["spec"]["timeoutSeconds"] = json!(2);
    batch["spec"]["shardTaskPatches"] = json!([
        { "spec": { "process": { "env": [{ "name": "WORD", "value": "zero" }] } } },
        { "spec": { "process": { "command": ["sh", "-c", "exit 7"] } } },
        { "spec": { "process": { "command": ["sleep", "1000"] } } },
    ]);
    place.batches.create(&batch).await;
    let ended = |one: &Value| one["status"]["taskSucceed"] == 2 && one["status"]["taskFailed"] == 2;
    place.batches.until("one", "two have succeeded and two failed", ended).await;
    let mut words = lines(&file("words"));
    words.sort();
    assert_eq!(words, ["plain", "zero"]);
}

#[tokio::test]
async fn by_release_a_pod_goes_back_when_its_task_has_ended() {
    let place = Batches::shared("release").await;
    let _operator = place.operator().start().await;
    place.pools.create(&pool("p", &executor(), [1, 2], [0, 6])).await;
    let mut batch = running(pooled("one", 2, "p"), shell("true"));
    batch["spec"]["taskResourcePolicyWhenCompleted"] = json!("Release");
    batch["spec"]["shardTaskPatches"] = json!([
        { "spec": { "process": { "command": ["sleep", "1000"] } } },
    ]);
    place.batches.create(&batch).await;
    let one = place
        .batches
        .until("one", "one pod is back", |one| holds(one).len() == 1 && released(one).len() == 1)
        .await;
    assert_eq!(holds(&one)[0], allocated(&one)[0], "the one whose task runs stays");
    place.pods.until_gone(&released(&one)[0]).await;
    let one = place.batches.get("one").await.expect("the batch");
    assert_eq!(allocated(&one).len(), 2, "a place that was given back is not filled again");
    place.end("one").await;
}

#[tokio::test]
async fn a_task_whose_pod_is_lost_runs_in_the_next_one() {
    let place = Batches::shared("rebinds").await;
    let mut operator = place.operator().start().await;
    let (_folder, file) = files();
    place.pools.create(&pool("p", &executor(), [1, 1], [0, 6])).await;
    let script = format!("echo $POD_NAME >>{}; exec sleep 1000", file("pods").display());
    place.batches.create(&running(pooled("one", 1, "p"), shell(&script))).await;
    let first = allocated(&counts(&place, "one", "taskRunning", 1).await).remove(0);
    place.pods.delete_at_once(&first).await;
    let ran_twice = async || (lines(&file("pods")).len() == 2).then_some(());
    eventually("it runs again", 3 * DEADLINE, ran_twice).await;
    let one = counts(&place, "one", "taskRunning", 1).await;
    assert_eq!(lines(&file("pods")), [first, allocated(&one)[0].clone()]);

    // A restart of the operator starts nothing twice.
    operator.kill();
    operator.start_again().await;
    place.batches.create(&running(pooled("two", 1, "p"), shell("true"))).await;
    counts(&place, "two", "taskSucceed", 1).await;
    counts(&place, "one", "taskRunning", 1).await;
    assert_eq!(lines(&file("pods")).len(), 2);
}

#[tokio::test]
async fn a_batch_of_its_own_pods_runs_tasks_too() {
    let place = Batches::shared("owntasks").await;
    let mut operator = place.operator().start().await;
    let (_folder, file) = files();
    let script = format!(
        "echo ran >>{0}; until test -e {1}; do sleep 0.05; done",
        file("ran").display(),
        file("go").display()
    );
    place.batches.create(&running(batch_sandbox("one", 2, &executor()), shell(&script))).await;
    counts(&place, "one", "taskRunning", 2).await;
    operator.kill();
    std::fs::write(file("go"), "").expect("a file");
    operator.start_again().await;
    counts(&place, "one", "taskSucceed", 2).await;
    assert_eq!(lines(&file("ran")), ["ran", "ran"], "each ran once");
    place.end("one").await;
    place.settled(0).await;
}

/// Theirs asks nobody for anything.
#[tokio::test]
async fn with_a_token_only_the_operator_may_give_out_tasks() {
    let place = Batches::shared("token").await;
    let (_folder, file) = files();
    std::fs::write(file("token"), "open sesame\n").expect("a file");
    let flag = format!("--task-executor-token-file={}", file("token").display());
    let _operator = place.operator().flag(&flag).start().await;
    let mut template = executor();
    template["spec"]["containers"][0]["env"] = json!([{ "name": "TOKEN_FILE", "value": file("token") }]);
    place.pools.create(&pool("p", &template, [1, 1], [0, 4])).await;
    place.batches.create(&running(pooled("one", 1, "p"), shell("true"))).await;
    let one = counts(&place, "one", "taskSucceed", 1).await;
    let ip = endpoints(&one)[0].parse().expect("an address");
    let ask = async |request: Request| {
        let mut client = Client::http1(SocketAddr::new(ip, 5758)).await.expect("a connection");
        client.send(request).await.expect("an answer")
    };
    let refused = ask(Request::get("/getTasks")).await;
    assert_eq!(refused.status, 401, "{}", refused.text());
    let tasks = ask(Request::get("/getTasks").header("authorization", "Bearer open sesame")).await;
    assert_eq!((tasks.status, &tasks.json()[0]["name"]), (200, &json!("one-0")));
    place.end("one").await;
}

/// The pool would keep the pod as it is: what runs in it must not be the next one's.
#[tokio::test]
async fn a_batch_with_a_task_that_leaves_its_pool_leaves_nothing_running_there() {
    let place = Batches::shared("detachtask").await;
    let _operator = place.operator().start().await;
    let (_folder, file) = files();
    let noop = recycling(pool("p", &executor(), [0, 1], [1, 1]), "Noop");
    place.pools.create(&noop).await;
    let script = format!("echo $$ >>{}; exec sleep 1000", file("pids").display());
    place.batches.create(&running(pooled("one", 1, "p"), shell(&script))).await;
    let held = allocated(&counts(&place, "one", "taskRunning", 1).await);
    let pid = |index: usize| lines(&file("pids"))[index].parse::<u32>().expect("a process ID");
    let first = pid(0);
    assert!(process_exists(first));
    place.batches.create(&pooled("next", 1, "p")).await;
    let own = json!({ "spec": { "poolRef": null, "template": executor() } });
    place.batches.patch("one", &own).await;
    let next = place.ready("next", 1).await;
    assert_ne!(allocated(&next), held, "a pod that nobody has cleared is not used again");
    place.pods.until_gone(&held[0]).await;
    let has_ended = async || (!process_exists(first)).then_some(());
    eventually("the task ends with its pod", DEADLINE, has_ended).await;
    let ran_twice = async || (lines(&file("pids")).len() == 2).then_some(());
    eventually("it runs in a pod of its own", 3 * DEADLINE, ran_twice).await;
    counts(&place, "one", "taskRunning", 1).await;
    place.end("one").await;
    assert!(!process_exists(pid(1)));
    place.end("next").await;
    place.levels("p", 1, 0, 1).await;
}
