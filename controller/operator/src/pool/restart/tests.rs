use serde_json::{Value, json};

use super::*;
use crate::Viewed as _;
use crate::view::ContainerState;
use crate::view::PoolPod;

const NOW: i64 = 1_000_000;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn container(name: &str, id: &str, is_running: bool) -> ContainerState {
    let id = (!id.is_empty()).then(|| id.into());
    ContainerState { name: name.into(), id, is_running, ..ContainerState::default() }
}

/// A pod that runs these containers.
fn pod(containers: &[(&str, &str, bool)]) -> PodState {
    PodState {
        phase: PodPhase::Running,
        containers: containers
            .iter()
            .map(|(name, id, is_running)| container(name, id, *is_running))
            .collect(),
        ..PodState::default()
    }
}

fn step(restart: &Restart, pod: &PodState, now: i64) -> Step {
    restart.next(pod, "batch", at(now))
}

fn names(containers: &[&str]) -> Vec<Arc<str>> {
    containers.iter().map(|name| Arc::from(*name)).collect()
}

/// The record of a step, and the containers that are restarted.
fn begun(step: Step) -> (Value, Vec<Arc<str>>) {
    match step {
        Step::Restart { record, containers, .. } => (serde_json::from_str(&record).unwrap(), containers),
        other => panic!("{other:?}"),
    }
}

/// The pod with the record that this step writes.
fn recorded(mut pod: PodState, step: &Step) -> PodState {
    let Step::Restart { record, .. } = step else { panic!("{step:?}") };
    pod.restart_record = Some(record.as_str().into());
    pod
}

fn with_record(record: &Value) -> PodState {
    let mut pod = pod(&[("main", "c1", true)]);
    pod.restart_record = Some(record.to_string().into());
    pod
}

#[test]
fn a_pod_that_runs_is_recorded_and_restarted() {
    let pod = pod(&[("main", "c1", true), ("side", "c2", true)]);
    let (record, containers) = begun(step(&Restart::default(), &pod, NOW));
    assert_eq!(containers, names(&["main", "side"]));
    assert_eq!(
        record,
        json!({
            "id": "batch",
            "startTime": "1970-01-12T13:46:40Z",
            "containers": {"main": "c1", "side": "c2"},
            "lastRetryTime": "1970-01-12T13:46:40Z",
            "retryCount": 1,
        })
    );
}

#[test]
fn a_pod_that_is_ending_is_over_and_one_that_has_ended_is_deleted() {
    let restart = Restart::default();
    let mut ending = pod(&[("main", "c1", true)]);
    ending.is_deleting = true;
    assert_eq!(step(&restart, &ending, NOW), Step::Over);
    for phase in [PodPhase::Failed, PodPhase::Succeeded] {
        let ended = PodState { phase, ..pod(&[("main", "c1", false)]) };
        assert_eq!(step(&restart, &ended, NOW), Step::Delete);
    }
}

#[test]
fn a_pod_that_has_not_started_is_deleted_and_one_whose_node_is_silent_is_waited_for() {
    for (phase, expected) in [(PodPhase::Pending, Step::Delete), (PodPhase::Unknown, Step::Wait(None))] {
        let pod = PodState { phase, ..pod(&[("main", "c1", true)]) };
        assert_eq!(step(&Restart::default(), &pod, NOW), expected, "{phase:?}");
    }
}

#[test]
fn a_try_is_given_as_long_as_a_command_may_take() {
    for (text, seconds) in [("1s", 10), ("0s", 10), ("10s", 10), ("1m", 60)] {
        let config = Restart::read(&json!({"retryInterval": text}).to_string());
        let Step::Restart { until, .. } = step(&config, &pod(&[("main", "c1", true)]), NOW) else { panic!() };
        assert_eq!(until, at(NOW + seconds), "{text}");
    }
}

#[test]
fn containers_of_the_blacklist_init_containers_and_those_that_do_not_run_are_left_alone() {
    let restart = Restart { blacklist: vec!["side".to_owned()], ..Restart::default() };
    let mut pod = pod(&[("main", "c1", true), ("side", "c2", true), ("off", "c3", false), ("new", "", true)]);
    pod.containers.push(ContainerState { is_init: true, ..container("init", "c4", true) });
    let (record, containers) = begun(step(&restart, &pod, NOW));
    assert_eq!((record["containers"].clone(), containers), (json!({"main": "c1"}), names(&["main"])));
}

#[test]
fn a_pod_without_a_container_to_restart_is_over() {
    let all = Restart { blacklist: vec!["main".to_owned()], ..Restart::default() };
    assert_eq!(step(&all, &pod(&[("main", "c1", true)]), NOW), Step::Over);
    assert_eq!(step(&Restart::default(), &pod(&[]), NOW), Step::Over);
    assert_eq!(step(&Restart::default(), &pod(&[("main", "c1", false)]), NOW), Step::Over);
}

#[test]
fn a_record_of_another_batch_or_one_that_cannot_be_read_is_none() {
    for record in [
        json!({"id": "other", "containers": {"main": "c0"}, "retryCount": 9}),
        json!({"containers": {"main": "c0"}}),
        json!({"id": 7}),
        json!("text"),
    ] {
        let (written, _) = begun(step(&Restart::default(), &with_record(&record), NOW));
        assert_eq!((&written["id"], &written["retryCount"]), (&json!("batch"), &json!(1)), "{record}");
        assert_eq!(written["containers"], json!({"main": "c1"}));
    }
}

#[test]
fn it_is_over_when_every_recorded_container_runs_with_another_id() {
    let restart = Restart::default();
    let before = pod(&[("main", "c1", true), ("side", "c2", true)]);
    let first = step(&restart, &before, NOW);
    for (containers, expected) in [
        (vec![("main", "c1", true), ("side", "c2", true)], false),
        (vec![("main", "c9", true), ("side", "c2", true)], false),
        (vec![("main", "c9", false), ("side", "c8", true)], false),
        (vec![("main", "", true), ("side", "c8", true)], false),
        (vec![("side", "c8", true)], false),
        (vec![("main", "c9", true), ("side", "c8", true)], true),
        (vec![("main", "c9", true), ("side", "c8", true), ("more", "c1", false)], true),
    ] {
        let now = recorded(pod(&containers), &first);
        let is_over = step(&restart, &now, NOW + 1) == Step::Over;
        assert_eq!(is_over, expected, "{containers:?}");
    }
}

#[test]
fn it_is_tried_again_after_the_interval_where_it_was_not_done() {
    let restart = Restart::default();
    let first = step(&restart, &pod(&[("main", "c1", true), ("side", "c2", true)]), NOW);
    let half = recorded(pod(&[("main", "c9", true), ("side", "c2", true)]), &first);
    assert_eq!(step(&restart, &half, NOW + 29), Step::Wait(Some(at(NOW + 30))));
    let (record, containers) = begun(step(&restart, &half, NOW + 30));
    assert_eq!(containers, names(&["side"]));
    assert_eq!((&record["retryCount"], &record["startTime"]), (&json!(2), &json!("1970-01-12T13:46:40Z")));
    assert_eq!(record["lastRetryTime"], "1970-01-12T13:47:10Z");
    assert_eq!(record["containers"], json!({"main": "c1", "side": "c2"}), "the first IDs stay");
}

#[test]
fn after_the_last_try_and_its_interval_the_pod_is_deleted() {
    let restart = Restart { max_retries: 2, ..Restart::default() };
    let stuck = || pod(&[("main", "c1", true)]);
    let first = step(&restart, &stuck(), NOW);
    let second = step(&restart, &recorded(stuck(), &first), NOW + 30);
    let pod = recorded(stuck(), &second);
    assert_eq!(step(&restart, &pod, NOW + 59), Step::Wait(Some(at(NOW + 60))));
    assert_eq!(step(&restart, &pod, NOW + 60), Step::Delete);
    let mut done = recorded(stuck(), &second);
    done.containers = vec![container("main", "c9", true)];
    assert_eq!(step(&restart, &done, NOW + 500), Step::Over, "late, but done");
}

#[test]
fn a_record_of_their_operator_is_gone_on_with() {
    let theirs = json!({
        "id": "batch",
        "startTime": "1970-01-12T13:46:40.123456789Z",
        "containers": {"main": "c1"},
        "lastRetryTime": "1970-01-12T13:46:40.5Z",
        "retryCount": 2,
    });
    let (record, _) = begun(step(&Restart::default(), &with_record(&theirs), NOW + 31));
    assert_eq!(record["retryCount"], 3);
    let begun_only =
        json!({"id": "batch", "containers": {"main": "c1"}, "lastRetryTime": null, "retryCount": 0});
    let (record, _) = begun(step(&Restart::default(), &with_record(&begun_only), NOW));
    assert_eq!(record["retryCount"], 1);
}

#[test]
fn the_configuration_has_defaults_for_what_is_missing_or_wrong() {
    let default = Restart::default();
    for text in
        ["", "{}", "null", "nonsense", r#"{"retryInterval":"soon","maxRetries":0,"restartCommand":[]}"#]
    {
        assert_eq!(Restart::read(text), default, "{text}");
    }
    let text =
        r#"{"blacklist":["a"],"retryInterval":"1m30s","maxRetries":5,"restartCommand":["x","y"],"z":1}"#;
    let read = Restart::read(text);
    assert_eq!((read.blacklist.clone(), read.max_retries), (vec!["a".to_owned()], 5));
    assert_eq!((read.retry_interval.as_secs(), read.command()), (90, &["x".to_owned(), "y".to_owned()][..]));
}

#[test]
fn a_record_is_read_from_the_pod_and_containers_have_their_ids() {
    let pod = json!({
        "metadata": {
            "name": "p", "namespace": "n", "uid": "u", "resourceVersion": "1",
            "annotations": {"sandbox.opensandbox.io/restart-record": "{\"id\":\"batch\"}"},
        },
        "status": {
            "phase": "Running",
            "containerStatuses": [{"name": "main", "containerID": "c1", "state": {"running": {}}}],
        },
    });
    let pod = PoolPod::read(pod.to_string().as_bytes()).unwrap();
    assert_eq!(pod.restart_record.as_deref(), Some("{\"id\":\"batch\"}"));
    // A record without containers is of a pod that had none to restart.
    assert_eq!(step(&Restart::default(), &pod, NOW), Step::Over);
}
