use std::time::Duration;

use sandgate_objects::sandbox_env::resources::{EnvPod, PodTemplate, SandboxPhase};

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn spec(template: &Value) -> SandboxPoolSpec {
    SandboxPoolSpec {
        template: Some(PodTemplate::new(template)),
        idle_image: Some("idle:1".to_owned()),
        ..SandboxPoolSpec::default()
    }
}

fn usual() -> SandboxPoolSpec {
    spec(&json!({"spec": {"containers": [{"name": "main", "image": "app:1"}]}}))
}

fn idle_pod() -> Value {
    json!({
        "metadata": {
            "name": "p-1", "namespace": "n", "uid": "u", "resourceVersion": "1",
            "labels": {(names::LABEL_POOL): "p", (names::LABEL_PHASE): "idle"},
            "annotations": {"kept": "yes"},
        },
        "spec": {"containers": [{"name": "main", "image": "idle:1"}]},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [running("idle:1", "c-1", 0)],
        },
    })
}

fn running(image: &str, id: &str, restarts: u32) -> Value {
    json!({
        "name": "main", "image": image, "containerID": id, "restartCount": restarts, "ready": true,
        "state": {"running": {}},
    })
}

fn read(pod: &Value) -> EnvPod {
    serde_json::from_value(pod.clone()).unwrap()
}

/// As an API server merges a patch into a pod: nulls remove, containers merge by name.
fn merge(pod: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else { panic!("{patch}") };
    for (key, value) in patch {
        match (key.as_str(), value) {
            ("containers", Value::Array(changes)) => {
                for change in changes {
                    let containers = pod["containers"].as_array_mut().unwrap();
                    let known = containers.iter_mut().find(|known| known["name"] == change["name"]).unwrap();
                    known["image"] = change["image"].clone();
                }
            }
            (_, Value::Object(_)) => {
                if pod[key].is_null() {
                    pod[key] = json!({});
                }
                merge(&mut pod[key], value);
            }
            (_, Value::Null) => drop(pod.as_object_mut().unwrap().remove(key)),
            _ => pod[key] = value.clone(),
        }
    }
}

fn wish() -> Claim {
    Claim {
        sandbox: "s-1".to_owned(),
        owner: "key".to_owned(),
        metadata: BTreeMap::from([("purpose".to_owned(), "test".to_owned())]),
        labels: BTreeMap::from([("team".to_owned(), "a".to_owned())]),
        annotations: BTreeMap::from([("note".to_owned(), "b".to_owned())]),
        access_token: Some("token".to_owned()),
        traffic_access_token: Some("traffic".to_owned()),
        idle_timeout: Some(Duration::from_secs(60)),
        at: at(100),
        ..Claim::default()
    }
}

fn claimed() -> Value {
    let mut pod = idle_pod();
    let patch = claim(&read(&pod), &usual(), &wish()).unwrap();
    merge(&mut pod, &patch);
    pod
}

fn sandbox() -> Value {
    let mut pod = claimed();
    pod["status"]["containerStatuses"] = json!([running("app:1", "c-2", 1)]);
    let Progress::Done(SandboxPhase::Running, patch) = progress(&read(&pod), at(105)) else { panic!() };
    merge(&mut pod, &patch);
    pod
}

#[test]
fn a_pod_is_claimed_runs_is_released_and_is_as_it_was() {
    let starting = read(&claimed());
    assert_eq!((starting.sandbox_phase(), starting.sandbox_id()), (SandboxPhase::Starting, "s-1"));
    assert_eq!(starting.containers[0].image, "app:1");
    assert_eq!(starting.label("team"), "a");
    assert_eq!(starting.annotation(names::ANNOTATION_METADATA), r#"{"purpose":"test"}"#);
    assert_eq!(starting.annotation(names::ANNOTATION_IDLE_TIMEOUT), "60");
    assert_eq!(progress(&starting, at(101)), Progress::Underway(Some(at(100))));

    assert_eq!(starting.annotation(names::ANNOTATION_TRAFFIC_ACCESS_TOKEN), "traffic");

    let running_pod = sandbox();
    let is = read(&running_pod);
    assert_eq!(is.sandbox_phase(), SandboxPhase::Running);
    assert_eq!(is.time(names::ANNOTATION_STARTED_AT), Some(at(105)));
    assert_eq!(is.annotation(names::ANNOTATION_CONTAINER_ID), "c-2");
    assert_eq!((unexpected_end(&is), progress(&is, at(106))), (None, Progress::None));

    let mut pod = running_pod;
    let stop = Stop { reason: names::STOP_RELEASED, ..Stop::default() };
    let Released::Patch(patch) = release(&is, &usual(), &stop, at(200)) else { panic!() };
    merge(&mut pod, &patch);
    let stopping = read(&pod);
    assert_eq!((stopping.sandbox_phase(), stopping.sandbox_id()), (SandboxPhase::Stopping, "s-1"));
    assert_eq!(stopping.annotation(names::ANNOTATION_ACCESS_TOKEN), "", "a token ends with its sandbox");
    assert_eq!(stopping.annotation(names::ANNOTATION_TRAFFIC_ACCESS_TOKEN), "");
    assert_eq!(release(&stopping, &usual(), &stop, at(201)), Released::Nothing);

    pod["status"]["containerStatuses"] = json!([running("idle:1", "c-3", 2)]);
    let Progress::Done(SandboxPhase::Idle, patch) = progress(&read(&pod), at(205)) else { panic!() };
    merge(&mut pod, &patch);
    let mut was = idle_pod();
    was["metadata"]["annotations"][names::ANNOTATION_TERMINATED_AT] = json!(written(at(200)));
    was["status"]["containerStatuses"] = json!([running("idle:1", "c-3", 2)]);
    assert_eq!(pod, was, "nothing of the sandbox is left");
}

#[test]
fn only_a_pod_that_waits_and_is_ready_is_claimed() {
    let refused = |change: &dyn Fn(&mut Value)| {
        let mut pod = idle_pod();
        change(&mut pod);
        matches!(claim(&read(&pod), &usual(), &wish()), Err(Unclaimable::NotIdle(_)))
    };
    assert!(!refused(&|_| ()));
    for phase in ["starting", "running", "stopping", "failed"] {
        assert!(refused(&|pod| pod["metadata"]["labels"][names::LABEL_PHASE] = json!(phase)), "{phase}");
    }
    assert!(refused(&|pod| pod["metadata"]["annotations"][names::ANNOTATION_SCALE_DOWN] = json!("t")));
    assert!(refused(&|pod| pod["metadata"]["deletionTimestamp"] = json!("2026-11-16T07:00:00Z")));
    assert!(refused(&|pod| pod["status"]["conditions"] = json!([])));
    assert_eq!(claim(&read(&idle_pod()), &SandboxPoolSpec::default(), &wish()), Err(Unclaimable::NoTemplate));
}

#[test]
fn a_user_cannot_write_what_programs_write() {
    for key in [names::LABEL_PHASE, names::ANNOTATION_OWNER, "a.kubernetes.io/b", "scheduling.navix.sh/team"]
    {
        for labels in [true, false] {
            let texts = BTreeMap::from([(key.to_owned(), "x".to_owned())]);
            let mut wish = wish();
            *(if labels { &mut wish.labels } else { &mut wish.annotations }) = texts;
            let refused = claim(&read(&idle_pod()), &usual(), &wish);
            assert_eq!(refused, Err(Unclaimable::Reserved(key.to_owned())));
        }
    }
    // What the template says is nobody's to change, or to lose at the end of a sandbox.
    let mut pod = idle_pod();
    pod["metadata"]["labels"]["team"] = json!("the template's");
    assert_eq!(claim(&read(&pod), &usual(), &wish()), Err(Unclaimable::Reserved("team".to_owned())));
    assert!(!is_reserved("team") && !is_reserved("example.com/navix.sh") && !is_reserved("notnavix.sh/a"));
    // A list in an annotation that somebody wrote by hand takes nothing off that is not a sandbox's.
    let mut pod = sandbox();
    let forged = json!([names::LABEL_POOL, "team"]).to_string();
    pod["metadata"]["annotations"][names::ANNOTATION_MANAGED_LABELS] = json!(forged);
    let Released::Patch(patch) = release(&read(&pod), &usual(), &Stop::default(), at(1)) else { panic!() };
    merge(&mut pod, &patch);
    pod["status"]["containerStatuses"] = json!([running("idle:1", "c-3", 2)]);
    let Progress::Done(_, patch) = progress(&read(&pod), at(2)) else { panic!() };
    merge(&mut pod, &patch);
    assert_eq!(pod["metadata"]["labels"], json!({(names::LABEL_POOL): "p", (names::LABEL_PHASE): "idle"}));
}

#[test]
fn where_the_images_are_the_same_the_pod_is_a_sandbox_at_once_and_is_deleted_after() {
    let spec = SandboxPoolSpec { idle_image: Some("app:1".to_owned()), ..usual() };
    let mut pod = idle_pod();
    pod["spec"]["containers"][0]["image"] = json!("app:1");
    pod["status"]["containerStatuses"] = json!([running("docker.io/library/app:1", "c-1", 0)]);
    let patch = claim(&read(&pod), &spec, &wish()).unwrap();
    assert!(patch["spec"].is_null());
    merge(&mut pod, &patch);
    let is = read(&pod);
    assert_eq!(
        (is.sandbox_phase(), is.time(names::ANNOTATION_STARTED_AT)),
        (SandboxPhase::Running, Some(at(100)))
    );
    assert!(matches!(release(&is, &spec, &Stop::default(), at(1)), Released::Delete(_)));
    pod["status"]["containerStatuses"] = json!([running("app:1", "c-2", 1)]);
    assert_eq!(unexpected_end(&read(&pod)).unwrap().reason, "Restarted");
}

/// A kubelet may know an image by its digest alone, or by another of its names.
#[test]
fn an_image_has_arrived_by_whatever_name_the_kubelet_knows_it() {
    let with_id = |image: &str, id: &str, container: &str| {
        let mut status = running(image, container, 1);
        status["imageID"] = json!(id);
        status
    };
    let after = |wanted: &str, status: Value| {
        let mut pod = idle_pod();
        pod["status"]["containerStatuses"] = json!([with_id("idle:1", "idle@sha256:aa", "c-1")]);
        let wish = Claim { image: Some(wanted.to_owned()), ..wish() };
        let patch = claim(&read(&pod), &usual(), &wish).unwrap();
        merge(&mut pod, &patch);
        pod["status"]["containerStatuses"] = json!([status]);
        matches!(progress(&read(&pod), at(101)), Progress::Done(..))
    };
    assert!(after("app@sha256:bb", with_id("sha256:cc", "registry/app@sha256:bb", "c-2")));
    assert!(after("app:2", with_id("app:one-of-its-names", "app@sha256:bb", "c-2")));
    assert!(!after("app:2", with_id("idle:1", "idle@sha256:aa", "c-2")), "the old image came back");
    assert!(!after("app:2", with_id("app:one-of-its-names", "app@sha256:bb", "c-1")), "the same container");
    // The idle image is pinned too, and comes back.
    let spec = SandboxPoolSpec { idle_image: Some("idle@sha256:aa".to_owned()), ..usual() };
    let mut pod = sandbox();
    pod["status"]["containerStatuses"] = json!([with_id("app:1", "app@sha256:bb", "c-2")]);
    let Released::Patch(patch) = release(&read(&pod), &spec, &Stop::default(), at(1)) else { panic!() };
    merge(&mut pod, &patch);
    pod["status"]["containerStatuses"] = json!([with_id("sha256:dd", "idle@sha256:aa", "c-3")]);
    assert!(matches!(progress(&read(&pod), at(2)), Progress::Done(SandboxPhase::Idle, _)));
}

#[test]
fn a_pinned_image_that_runs_already_is_a_sandbox_at_once() {
    let image = "app@sha256:bb";
    let spec = SandboxPoolSpec {
        pod_creation_image_policy: Some(ImagePolicy::PoolDefaultImage),
        ..spec(&json!({
            "spec": {"containers": [{"name": "main", "image": image}]},
        }))
    };
    let mut pod = idle_pod();
    pod["spec"]["containers"][0]["image"] = json!(image);
    pod["status"]["containerStatuses"] = json!([running("sha256:cc", "c-1", 0)]);
    let patch = claim(&read(&pod), &spec, &wish()).unwrap();
    assert_eq!(patch["metadata"]["labels"][names::LABEL_PHASE], "running");
}

#[test]
fn timeouts_are_rounded_up_and_no_time_to_start_is_none_said() {
    let times = |idle: u64, startup: u64| {
        let wish = Claim {
            idle_timeout: Some(Duration::from_millis(idle)),
            startup_timeout: Some(Duration::from_millis(startup)),
            ..wish()
        };
        let patch = claim(&read(&idle_pod()), &usual(), &wish).unwrap();
        let says = |key: &str| patch["metadata"]["annotations"][key].as_str().map(str::to_owned);
        (says(names::ANNOTATION_IDLE_TIMEOUT).unwrap(), says(names::ANNOTATION_STARTUP_TIMEOUT))
    };
    assert_eq!(times(0, 0), ("0".to_owned(), None));
    assert_eq!(times(500, 1500), ("1".to_owned(), Some("2".to_owned())));
}

#[test]
fn a_pod_of_a_template_whose_container_has_another_name_is_not_claimed() {
    let other = spec(&json!({"spec": {"containers": [{"name": "renamed", "image": "app:1"}]}}));
    assert_eq!(claim(&read(&idle_pod()), &other, &wish()), Err(Unclaimable::OtherTemplate));
}

/// The same container of the old image, and one of the new image that was there before, are not the change.
#[test]
fn a_change_is_done_when_another_container_runs_the_image() {
    let is_done = |status: Value| {
        let mut pod = claimed();
        pod["status"]["containerStatuses"] = json!([status]);
        matches!(progress(&read(&pod), at(101)), Progress::Done(..))
    };
    assert!(is_done(running("app:1", "c-2", 1)));
    assert!(!is_done(running("idle:1", "c-2", 1)), "the old image crashed and came back");
    assert!(!is_done(running("app:1", "c-1", 0)), "the same container");
    let mut ended = running("app:1", "c-2", 1);
    ended["state"] = json!({"terminated": {"exitCode": 1}});
    assert!(!is_done(ended));
}

#[test]
fn a_sandbox_whose_container_ended_is_told() {
    let mut pod = sandbox();
    let mut ended = running("app:1", "c-2", 1);
    ended["state"] = json!({"terminated": {"exitCode": 7, "reason": "Error", "message": "m"}});
    pod["status"]["containerStatuses"] = json!([ended]);
    let end = unexpected_end(&read(&pod)).unwrap();
    assert_eq!((end.exit_code, end.reason.as_str()), (7, "Error"));
    let stop = Stop {
        reason: names::STOP_FAILED,
        failure: Some(end.reason.clone()),
        message: "it ended".to_owned(),
        end: Some(end),
    };
    let Released::Patch(patch) = release(&read(&pod), &usual(), &stop, at(1)) else { panic!() };
    let says = |key: &str| patch["metadata"]["annotations"][key].as_str().unwrap().to_owned();
    assert_eq!(
        (says(names::ANNOTATION_EXIT_CODE), says(names::ANNOTATION_FAILURE_REASON)),
        ("7".to_owned(), "Error".to_owned())
    );
}

#[test]
fn a_pod_in_which_something_could_be_left_is_not_given_back() {
    let why = |template: Value| renewal(&spec(&template));
    let main = json!({"name": "main", "image": "app:1"});
    let with_volume =
        |volume: Value| why(json!({"spec": {"containers": [main.clone()], "volumes": [volume]}}));
    assert_eq!(why(json!({"spec": {"containers": [main.clone()]}})), None);
    assert_eq!(with_volume(json!({"name": "v", "configMap": {"name": "c"}})), None);
    assert!(with_volume(json!({"name": "v", "emptyDir": {}})).is_some());
    assert!(with_volume(json!({"name": "v", "hostPath": {"path": "/"}})).is_some());
    assert!(why(json!({"spec": {"containers": [main, {"name": "b", "image": "b"}]}})).is_some());
    assert!(why(json!({"spec": {"containers": [{"name": "main", "image": "idle:1"}]}})).is_some());
    let policy =
        SandboxPoolSpec { pod_creation_image_policy: Some(ImagePolicy::PoolDefaultImage), ..usual() };
    assert!(renewal(&policy).is_some());
}
