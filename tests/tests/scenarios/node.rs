//! The node of the scenarios: its pods live, fail and end as on a kubelet, on cue where a scenario needs it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use futures_util::{StreamExt as _, stream};
use sandgate_tests::cluster::{Cluster, Node, Objects, Resource};
use sandgate_tests::{DEADLINE, eventually, eventually_every, process_exists};
use serde_json::{Value, json};

/// A cluster with one node and a namespace.
async fn start(flags: &[&str]) -> (Cluster, Node, String) {
    let cluster = Cluster::builder().without_definitions().start().await;
    let node = flags.iter().fold(cluster.node("a"), |node, flag| node.flag(flag)).start().await;
    let namespace = cluster.namespace("node").await;
    (cluster, node, namespace)
}

/// A pod with one container, whose command is a shell script.
fn pod(name: &str, script: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name },
        "spec": {
            "automountServiceAccountToken": false,
            "terminationGracePeriodSeconds": 1,
            "containers": [{ "name": "c", "image": "sleep", "command": ["sh", "-c", script] }],
        },
    })
}

/// A pod that does nothing, and fails as the cues say.
fn cued(name: &str, cues: &[(&str, &str)]) -> Value {
    let mut object = pod(name, "exec sleep 1000");
    for (cue, value) in cues {
        object["metadata"]["annotations"][format!("node.sandgate.test/{cue}")] = json!(value);
    }
    object
}

fn cue(name: &str, value: Option<&str>) -> Value {
    json!({ "metadata": { "annotations": { format!("node.sandgate.test/{name}"): value } } })
}

fn ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == "True")
}

fn container(pod: &Value) -> &Value {
    &pod["status"]["containerStatuses"][0]
}

fn waits(pod: &Value, reason: &str) -> bool {
    container(pod)["state"]["waiting"]["reason"] == reason
}

/// The number that a script wrote into a file.
async fn number(file: &Path) -> u32 {
    let what = format!("{} is written", file.display());
    eventually(&what, DEADLINE, async || std::fs::read_to_string(file).ok()?.trim().parse().ok()).await
}

async fn until_dead(pid: u32) {
    eventually(&format!("process {pid} is gone"), DEADLINE, async || (!process_exists(pid)).then_some(()))
        .await;
}

/// Does something for each of so many, some at a time.
async fn together(count: usize, each: impl AsyncFn(usize)) {
    stream::iter(0..count).for_each_concurrent(16, |index| each(index)).await;
}

/// The last state of a pod before it went, as a watcher sees it.
async fn last_state(pods: &Objects, name: &str) -> Value {
    let mut last = Value::Null;
    eventually(&format!("{name} is gone"), 3 * DEADLINE, async || match pods.get(name).await {
        Some(found) => {
            last = found;
            None
        }
        None => Some(()),
    })
    .await;
    last
}

#[tokio::test]
async fn a_deletion_gives_processes_their_grace_and_not_more() {
    let (cluster, _node, namespace) = start(&[]).await;
    let pods = cluster.objects(Resource::Pod, &namespace);
    let files = tempfile::tempdir().expect("a folder");
    let path = |name: &str| -> PathBuf { files.path().join(name) };
    let polite = format!(
        "trap 'echo said >{}; exit 0' TERM; echo 1 >{}; while :; do sleep 0.01; done",
        path("goodbye").display(),
        path("up").display()
    );
    let mut polite = pod("polite", &polite);
    polite["spec"]["terminationGracePeriodSeconds"] = json!(30);
    pods.create(&polite).await;
    number(&path("up")).await;
    pods.delete("polite").await;
    pods.until_gone("polite").await;
    assert_eq!(std::fs::read_to_string(path("goodbye")).expect("it was told"), "said\n");

    // Its child, in a session of its own, goes with it.
    let stubborn = format!(
        "trap '' TERM; setsid sleep 1000 & echo $! >{}; while :; do sleep 0.01; done",
        path("child").display()
    );
    pods.create(&pod("stubborn", &stubborn)).await;
    let child = number(&path("child")).await;
    let begin = Instant::now();
    pods.delete("stubborn").await;
    pods.until_gone("stubborn").await;
    assert!(begin.elapsed() >= Duration::from_secs(1), "it was killed after {:?}", begin.elapsed());
    until_dead(child).await;

    // Without grace the object goes first; the name is free at once, and the next pod is another.
    let forced = format!("echo $$$$ >{}; exec sleep 1000", path("forced").display());
    let first = pods.create(&pod("forced", &forced)).await;
    let pid = number(&path("forced")).await;
    pods.delete_at_once("forced").await;
    let second = pods.create(&pod("forced", "exec sleep 1000")).await;
    assert_ne!(first["metadata"]["uid"], second["metadata"]["uid"]);
    until_dead(pid).await;
    let second = pods.until("forced", "it is ready", ready).await;
    assert_eq!(container(&second)["restartCount"], 0);

    // A pod that takes its time on cue shows how it ended before it goes.
    let mut slow = cued("slow", &[("stop-delay", "3s")]);
    slow["spec"]["terminationGracePeriodSeconds"] = json!(30);
    pods.create(&slow).await;
    pods.until("slow", "it is ready", ready).await;
    pods.delete("slow").await;
    let last = last_state(&pods, "slow").await;
    assert!(last["metadata"]["deletionTimestamp"].is_string(), "{last:#}");
}

#[tokio::test]
async fn containers_crash_fail_to_pull_and_start_late_on_cue() {
    let (cluster, _node, namespace) = start(&[]).await;
    let pods = cluster.objects(Resource::Pod, &namespace);
    pods.create(&cued("crash", &[("crash-after", "50ms"), ("exit", "3")])).await;
    pods.create(&cued("pull", &[("image-pull", "fail")])).await;
    let mut unknown = cued("unknown", &[]);
    unknown["spec"]["containers"][0]["image"] = json!("nobody-has-this:1");
    pods.create(&unknown).await;
    pods.create(&cued("late", &[("start-delay", "60s")])).await;
    pods.create(&cued("typo", &[("crash", "1s")])).await;

    let late = pods.until("late", "it has an address", |pod| pod["status"]["podIP"].is_string()).await;
    assert!(waits(&late, "ContainerCreating") && late["status"]["phase"] == "Pending", "{late:#}");
    pods.until("crash", "it waits", |pod| waits(pod, "CrashLoopBackOff")).await;
    let crash =
        pods.until("crash", "it comes again", |pod| container(pod)["restartCount"].as_u64() >= Some(3)).await;
    let last = &container(&crash)["lastState"]["terminated"];
    assert_eq!((&last["exitCode"], &last["reason"]), (&json!(3), &json!("Error")));
    assert_eq!(crash["status"]["phase"], "Running", "a crash loop is no end");
    for name in ["pull", "unknown"] {
        pods.until(name, "the pull failed", |pod| waits(pod, "ErrImagePull")).await;
        pods.until(name, "the pull is put off", |pod| waits(pod, "ImagePullBackOff")).await;
    }
    let typo = pods.until("typo", "it does not start", |pod| waits(pod, "CreateContainerConfigError")).await;
    assert!(container(&typo)["state"]["waiting"]["message"].to_string().contains("no such cue"), "{typo:#}");

    // What made them fail goes, and they run.
    pods.patch("crash", &cue("crash-after", None)).await;
    pods.patch("crash", &cue("exit", None)).await;
    pods.patch("pull", &cue("image-pull", None)).await;
    pods.patch("typo", &cue("crash", None)).await;
    pods.patch("late", &cue("start-delay", None)).await;
    for name in ["crash", "pull", "typo", "late"] {
        pods.until(name, "it is ready", ready).await;
    }
    let changed = cluster.kubectl(&["-n", &namespace, "set", "image", "pod/unknown", "c=sleep:2"]).await;
    assert_eq!(changed.code, Some(0), "{}", changed.stderr);
    pods.until("unknown", "it is ready", ready).await;
}

#[tokio::test]
async fn readiness_comes_and_goes_without_a_restart_and_a_new_image_restarts_in_place() {
    let (cluster, _node, namespace) = start(&[]).await;
    let pods = cluster.objects(Resource::Pod, &namespace);
    let mut probed = pod("one", "exec sleep 1000");
    probed["spec"]["containers"][0]["readinessProbe"] =
        json!({ "exec": { "command": ["test", "-e", "go"] }, "periodSeconds": 1 });
    pods.create(&probed).await;
    let unready = pods.until("one", "it runs", |pod| pod["status"]["phase"] == "Running").await;
    assert!(!ready(&unready), "its probe fails");
    let touched = cluster.kubectl(&["-n", &namespace, "exec", "one", "--", "touch", "go"]).await;
    assert_eq!(touched.code, Some(0), "{}", touched.stderr);
    let before = pods.until("one", "it is ready", ready).await;

    for _ in 0..2 {
        pods.patch("one", &cue("ready", Some("false"))).await;
        pods.until("one", "it is not ready", |pod| !ready(pod)).await;
        pods.patch("one", &cue("ready", None)).await;
        pods.until("one", "it is ready", ready).await;
    }
    let after = pods.get("one").await.expect("the pod");
    assert_eq!(container(&after)["containerID"], container(&before)["containerID"]);

    let image =
        json!([{ "op": "replace", "path": "/spec/containers/0/image", "value": "sleep:2" }]).to_string();
    let patched =
        cluster.kubectl(&["-n", &namespace, "patch", "pod", "one", "--type=json", "-p", &image]).await;
    assert_eq!(patched.code, Some(0), "{}", patched.stderr);
    let renewed =
        pods.until("one", "it runs anew", |pod| container(pod)["restartCount"] == 1 && ready(pod)).await;
    assert_eq!(container(&renewed)["image"], "sleep:2");
    assert_eq!(renewed["status"]["podIP"], before["status"]["podIP"], "in place");
}

#[tokio::test]
async fn kubectl_brings_input_takes_exit_codes_and_reads_logs() {
    let (cluster, _node, namespace) = start(&[]).await;
    let pods = cluster.objects(Resource::Pod, &namespace);
    pods.create(&pod("one", "echo begun; exec sleep 1000")).await;
    pods.until("one", "it is ready", ready).await;
    let failed =
        cluster.kubectl(&["-n", &namespace, "exec", "one", "--", "sh", "-c", "echo no >&2; exit 7"]).await;
    assert_eq!((failed.code, failed.stdout.as_str()), (Some(7), ""));
    assert!(failed.stderr.starts_with("no\n"), "{}", failed.stderr);
    eventually("its log is there", DEADLINE, async || {
        let log = cluster.kubectl(&["-n", &namespace, "logs", "one"]).await;
        (log.code == Some(0) && log.stdout == "begun\n").then_some(())
    })
    .await;

    let mut copy = cluster.kubectl_command(&["-n", &namespace, "exec", "-i", "one", "--", "wc", "-c"]);
    let input = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(input.path(), vec![b'x'; 1_000_000]).expect("write the file");
    copy.stdin(std::fs::File::open(input.path()).expect("open the file"));
    let copied = sandgate_tests::Cli::finish(copy).await;
    assert_eq!((copied.code, copied.stdout.trim()), (Some(0), "1000000"), "{}", copied.stderr);
}

/// `kill 1` in a container is about the container: the node gives the signal, and runs no such command.
#[tokio::test]
async fn a_kill_of_process_one_restarts_the_container_in_its_pod() {
    let (cluster, _node, namespace) = start(&[]).await;
    let pods = cluster.objects(Resource::Pod, &namespace);
    let last_words =
        "trap 'echo bye >dev/termination-log; rm up; exit 3' TERM; touch up; while :; do sleep 0.02; done";
    let mut one = pod("one", last_words);
    let is_up = json!({ "exec": { "command": ["test", "-e", "up"] } });
    one["spec"]["containers"][0]["readinessProbe"] = is_up;
    pods.create(&one).await;
    let mut hollow = pod("hollow", "");
    hollow["spec"]["containers"][0]["image"] = json!("hollow");
    pods.create(&hollow).await;
    for (name, code) in [("one", 3), ("hollow", 0)] {
        let before = pods.until(name, "it is ready", ready).await;
        let killed = cluster.kubectl(&["-n", &namespace, "exec", name, "--", "kill", "1"]).await;
        assert_eq!(killed.code, Some(0), "{}", killed.stderr);
        let again = |pod: &Value| container(pod)["restartCount"] == 1 && ready(pod);
        let after = pods.until(name, "it runs again", again).await;
        assert_ne!(container(&after)["containerID"], container(&before)["containerID"]);
        assert_eq!(after["status"]["podIP"], before["status"]["podIP"]);
        let last = &container(&after)["lastState"]["terminated"];
        assert_eq!(last["exitCode"], code, "{last}");
        assert!(name == "hollow" || last["message"] == "bye\n", "{last}");
    }
    let refused = cluster.kubectl(&["-n", &namespace, "exec", "one", "--", "kill", "-9", "--", "-1"]).await;
    assert_ne!(refused.code, Some(0), "{}", refused.stdout);
}

/// A Job as OpenSandbox's operator makes it, on the node of the pod and past the scheduler.
#[tokio::test]
async fn a_commit_is_played_and_says_what_it_made() {
    let (cluster, _node, namespace) = start(&[]).await;
    let pods = cluster.objects(Resource::Pod, &namespace);
    pods.create(&pod("one", "echo kept >marker; exec sleep 1000")).await;
    pods.until("one", "it is ready", ready).await;
    let commit = async |name: &str, registry: &str, args: &[&str]| {
        let target = format!("c:{registry}/one-c:snap-gen1");
        let args: Vec<&str> = args.iter().copied().chain([target.as_str()]).collect();
        let socket = json!({ "name": "socket", "hostPath": { "path": "/run/containerd/containerd.sock" } });
        let committer = json!({
            "name": "commit", "image": "image-committer:dev",
            "command": ["/usr/local/bin/image-committer"], "args": args,
            "volumeMounts": [{ "name": "socket", "mountPath": "/run/containerd/containerd.sock" }],
        });
        let spec = json!({
            "restartPolicy": "Never", "nodeName": "a", "containers": [committer], "volumes": [socket],
            "automountServiceAccountToken": false,
        });
        let object = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name }, "spec": spec });
        pods.create(&object).await;
        let ended =
            |pod: &Value| ["Succeeded", "Failed"].contains(&pod["status"]["phase"].as_str().unwrap_or(""));
        let pod = pods.until(name, "it has ended", ended).await;
        (pod["status"]["phase"].clone(), container(&pod)["state"]["terminated"].clone())
    };
    let (phase, end) = commit("good", "registry.test", &["one", &namespace]).await;
    let said = end["message"].as_str().expect("last words");
    let said: Value = serde_json::from_str(said).expect("JSON");
    let made = &said["containers"][0];
    assert_eq!((&phase, &made["name"]), (&json!("Succeeded"), &json!("c")), "{end}");
    assert_eq!(made["image"], "registry.test/one-c:snap-gen1");
    let (phase, end) = commit("bad", "registry.invalid", &["one", &namespace]).await;
    assert_eq!((&phase, &end["exitCode"]), (&json!("Failed"), &json!(1)), "{end}");

    let mut again = pod("again", "grep kept marker && exec sleep 1000");
    again["spec"]["containers"][0]["image"] = json!("registry.test/one-c:snap-gen1");
    pods.create(&again).await;
    pods.until("again", "it runs with what was kept", ready).await;
}

#[tokio::test]
async fn a_killed_node_leaves_no_process_and_finds_its_pods_again() {
    let (cluster, mut node, namespace) = start(&[]).await;
    let pods = cluster.objects(Resource::Pod, &namespace);
    let files = tempfile::tempdir().expect("a folder");
    let (main, child) = (files.path().join("main"), files.path().join("child"));
    let script = format!(
        "setsid sleep 1000 & echo $! >{}; echo $$$$ >{}; exec sleep 1000",
        child.display(),
        main.display()
    );
    pods.create(&pod("one", &script)).await;
    let mut hollow = pod("hollow", "");
    hollow["spec"]["containers"][0]["image"] = json!("hollow");
    pods.create(&hollow).await;
    let before = pods.until("one", "it is ready", ready).await;
    let hollow = pods.until("hollow", "it is ready", ready).await;
    let (main_pid, child_pid) = (number(&main).await, number(&child).await);

    node.kill();
    until_dead(main_pid).await;
    until_dead(child_pid).await;
    node.start_again().await;
    let after =
        pods.until("one", "it runs again", |pod| container(pod)["restartCount"] == 1 && ready(pod)).await;
    let last = &container(&after)["lastState"]["terminated"];
    assert_eq!((&last["exitCode"], &last["reason"]), (&json!(137), &json!("ContainerStatusUnknown")));
    assert_ne!(after["status"]["podIP"], before["status"]["podIP"], "a new sandbox has a new address");
    let same = pods.get("hollow").await.expect("the pod");
    assert_eq!(same["status"]["podIP"], hollow["status"]["podIP"], "a hollow pod has nothing to lose");
    assert_eq!(container(&same)["restartCount"], 0);
}

#[tokio::test]
async fn a_node_that_recycles_gives_the_last_address_to_the_next_pod() {
    let (cluster, _node, namespace) = start(&["--recycle"]).await;
    let pods = cluster.objects(Resource::Pod, &namespace);
    let mut last = Value::Null;
    for name in ["one", "two", "three"] {
        pods.create(&cued(name, &[])).await;
        let made = pods.until(name, "it is ready", ready).await;
        if !last.is_null() {
            assert_eq!(made["status"]["podIP"], last);
        }
        last = made["status"]["podIP"].clone();
        pods.delete(name).await;
        pods.until_gone(name).await;
    }
}

#[tokio::test]
async fn a_thousand_hollow_pods_are_ready_each_at_its_own_address_and_go() {
    const PODS: usize = 1_000;
    let (cluster, _node, namespace) = start(&[]).await;
    let pods = cluster.objects(Resource::Pod, &namespace);
    let name = |index: usize| format!("hollow-{index}");
    together(PODS, async |index| {
        let mut hollow = pod(&name(index), "");
        hollow["spec"]["containers"][0]["image"] = json!("hollow");
        pods.create(&hollow).await;
    })
    .await;
    // A look is a list of all of them.
    let pace = Duration::from_millis(500);
    let all = eventually_every(pace, "all are ready", DEADLINE * 6, async || {
        let all = pods.list().await;
        (all.len() == PODS && all.iter().all(ready)).then_some(all)
    })
    .await;
    let addresses: BTreeSet<_> = all.iter().filter_map(|pod| pod["status"]["podIP"].as_str()).collect();
    assert_eq!(addresses.len(), PODS, "no address twice");
    together(PODS, async |index| pods.delete(&name(index)).await).await;
    let gone = async || pods.list().await.is_empty().then_some(());
    eventually_every(pace, "all are gone", DEADLINE * 6, gone).await;
}

#[tokio::test]
async fn the_tests_of_its_parts_pass() {
    let folder = sandgate_tests::locations::repository().join("tests/node");
    let mut command = Command::new("go");
    command.args(["test", "-trimpath", "./..."]).current_dir(folder).env("CGO_ENABLED", "0");
    command.env("GOFLAGS", "-buildvcs=false -mod=readonly");
    let done =
        tokio::task::spawn_blocking(move || command.output().expect("run go")).await.expect("a thread");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(done.status.success(), "{}{}", text(&done.stdout), text(&done.stderr));
}
