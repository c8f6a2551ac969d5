use jiff::Timestamp;
use sandgate_envs::change::{Claim, Released, Stop, claim, release};
use sandgate_objects::sandbox_env::names;
use sandgate_objects::sandbox_env::resources::{PodTemplate, SandboxPoolSpec};
use serde_json::{Value, json};

use super::world::{read, template};
use crate::env_pool::chore::{Chore, Need, Why, need};
use crate::env_pool::revision_of;
use crate::writes::Merge;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn spec() -> SandboxPoolSpec {
    SandboxPoolSpec {
        template: Some(PodTemplate::new(&template())),
        idle_image: Some("idle:1".to_owned()),
        ..SandboxPoolSpec::default()
    }
}

/// Pods wait with the image of the template, so none is given back.
fn kept() -> SandboxPoolSpec {
    SandboxPoolSpec { idle_image: None, ..spec() }
}

fn idle() -> Value {
    json!({
        "metadata": {
            "name": "a", "namespace": "n", "uid": "u", "resourceVersion": "1",
            "creationTimestamp": "1970-01-01T00:00:10Z",
            "labels": {
                (names::LABEL_POOL): "p", (names::LABEL_PHASE): "idle",
                (names::LABEL_TEMPLATE_HASH): &*revision_of(&spec()),
            },
            "annotations": {}, "finalizers": ["other", names::FINALIZER_POD],
        },
        "spec": {"containers": [{"name": "main", "image": "idle:1"}]},
        "status": {
            "phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [container("idle:1", 1)],
        },
    })
}

fn container(image: &str, number: u32) -> Value {
    json!({
        "name": "main", "image": image, "containerID": format!("c-{number}"), "restartCount": number,
        "ready": true, "state": {"running": {}},
    })
}

fn merge(pod: &mut Value, patch: &Value) {
    for field in ["labels", "annotations"] {
        for (name, value) in patch["metadata"][field].as_object().into_iter().flatten() {
            match value {
                Value::Null => drop(pod["metadata"][field].as_object_mut().unwrap().remove(name)),
                value => pod["metadata"][field][name] = value.clone(),
            }
        }
    }
    if let Some(image) = patch.pointer("/spec/containers/0/image") {
        pod["spec"]["containers"][0]["image"] = image.clone();
    }
}

/// Claimed at second 100.
fn starting() -> Value {
    let mut pod = idle();
    let wish = Claim { sandbox: "s".to_owned(), at: at(100), ..Claim::default() };
    let patch = claim(&read(&pod), &spec(), &wish).unwrap();
    merge(&mut pod, &patch);
    pod
}

fn patched(need: Need) -> (Value, Why) {
    match need.chore {
        Some(Chore::Patch(patch, _, why)) => (patch, why),
        other => panic!("{other:?}"),
    }
}

/// Ran from second 105 on.
fn running() -> Value {
    let mut pod = starting();
    pod["status"]["containerStatuses"] = json!([container("app:1", 2)]);
    let (patch, why) = patched(need(&read(&pod), &spec(), true, at(105)));
    assert_eq!(why, Why::Started);
    merge(&mut pod, &patch);
    pod
}

/// The template of today has nothing in which something of a sandbox could be left; that of the pod had.
#[test]
fn a_released_pod_of_an_older_template_is_not_given_back() {
    let chore = |change: &dyn Fn(&mut Value), spec: &SandboxPoolSpec| {
        let mut pod = running();
        let Released::Patch(patch) = release(&read(&pod), spec, &Stop::default(), at(200)) else { panic!() };
        merge(&mut pod, &patch);
        pod["status"]["containerStatuses"] = json!([container("idle:1", 3)]);
        change(&mut pod);
        need(&read(&pod), spec, true, at(205)).chore
    };
    let returned = chore(&|_| (), &spec());
    assert!(matches!(returned, Some(Chore::Patch(_, _, Why::Returned))), "{returned:?}");
    let older = |pod: &mut Value| pod["metadata"]["labels"][names::LABEL_TEMPLATE_HASH] = json!("older");
    assert_eq!(chore(&older, &spec()), Some(Chore::Delete(Why::NotRenewed)));
    let another = |pod: &mut Value| {
        pod["spec"]["containers"].as_array_mut().unwrap().push(json!({"name": "injected", "image": "i"}));
    };
    assert_eq!(chore(&another, &spec()), Some(Chore::Delete(Why::NotRenewed)));
}

#[test]
fn no_time_to_start_is_none_said() {
    let spec = SandboxPoolSpec { default_startup_timeout: Some("0s".to_owned()), ..spec() };
    assert_eq!(need(&read(&starting()), &spec, true, at(101)), Need { chore: None, again: Some(at(220)) });
}

#[test]
fn a_pod_that_waits_or_runs_needs_nothing() {
    for pod in [idle(), running()] {
        assert_eq!(need(&read(&pod), &spec(), true, at(100_000)), Need::default());
    }
}

#[test]
fn a_pod_without_the_finalizer_gets_it_and_one_that_goes_loses_it() {
    let mut pod = idle();
    pod["metadata"]["finalizers"] = json!(["other"]);
    let (patch, why) = patched(need(&read(&pod), &spec(), true, at(1)));
    assert_eq!(
        (patch, why),
        (json!({"metadata": {"finalizers": ["other", names::FINALIZER_POD]}}), Why::Protect)
    );
    assert_eq!(need(&read(&pod), &spec(), false, at(1)), Need::default(), "it is somebody else's");
    let mut pod = idle();
    pod["metadata"]["deletionTimestamp"] = json!("1970-01-01T00:00:10Z");
    for is_ours in [true, false] {
        let (patch, why) = patched(need(&read(&pod), &spec(), is_ours, at(1)));
        assert_eq!((patch, why), (json!({"metadata": {"finalizers": ["other"]}}), Why::LetGo));
    }
    pod["metadata"]["finalizers"] = json!(["other"]);
    assert_eq!(need(&read(&pod), &spec(), true, at(1)), Need::default());
}

#[test]
fn a_pod_that_has_ended_goes() {
    for phase in ["Failed", "Succeeded"] {
        let mut pod = running();
        pod["status"]["phase"] = json!(phase);
        assert_eq!(need(&read(&pod), &spec(), true, at(1)).chore, Some(Chore::Delete(Why::Ended)));
        assert_eq!(need(&read(&pod), &spec(), false, at(1)), Need::default());
    }
}

#[test]
fn a_sandbox_that_does_not_start_in_time_has_failed() {
    let of = |annotation: Option<&str>, default: Option<&str>, second: i64| {
        let mut pod = starting();
        if let Some(seconds) = annotation {
            pod["metadata"]["annotations"][names::ANNOTATION_STARTUP_TIMEOUT] = json!(seconds);
        }
        let spec = SandboxPoolSpec { default_startup_timeout: default.map(str::to_owned), ..spec() };
        need(&read(&pod), &spec, true, at(second))
    };
    assert_eq!(of(None, None, 219), Need { chore: None, again: Some(at(220)) });
    assert_eq!(of(None, Some("30s"), 129).again, Some(at(130)));
    assert_eq!(of(Some("5"), Some("30s"), 104).again, Some(at(105)));
    let (patch, why) = patched(of(Some("5"), Some("30s"), 105));
    assert_eq!(why, Why::StartupTimeout);
    let says = |key: &str| patch["metadata"]["annotations"][key].clone();
    assert_eq!(says(names::ANNOTATION_STOP_REASON), "Failed");
    assert_eq!(says(names::ANNOTATION_FAILURE_REASON), "StartupTimeout");
    assert_eq!(patch["metadata"]["labels"][names::LABEL_PHASE], "stopping");
    assert_eq!(patch["spec"]["containers"][0]["image"], "idle:1");
    // What cannot be read does not keep a sandbox starting for ever.
    let mut pod = starting();
    pod["metadata"]["annotations"][names::ANNOTATION_INPLACE_STATE] = json!("?");
    assert_eq!(need(&read(&pod), &spec(), true, at(219)).again, Some(at(220)));
    assert_eq!(patched(need(&read(&pod), &spec(), true, at(220))).1, Why::StartupTimeout);
}

#[test]
fn a_released_pod_comes_back_or_goes_when_it_is_stuck() {
    let mut pod = running();
    let stop = Stop { reason: names::STOP_RELEASED, ..Stop::default() };
    let Released::Patch(patch) = release(&read(&pod), &spec(), &stop, at(200)) else { panic!() };
    merge(&mut pod, &patch);
    assert_eq!(need(&read(&pod), &spec(), true, at(319)), Need { chore: None, again: Some(at(320)) });
    let stuck = need(&read(&pod), &spec(), true, at(320)).chore;
    assert_eq!(stuck, Some(Chore::Delete(Why::StuckStopping)));
    pod["status"]["containerStatuses"] = json!([container("idle:1", 3)]);
    let (patch, why) = patched(need(&read(&pod), &spec(), true, at(320)));
    assert_eq!(why, Why::Returned);
    merge(&mut pod, &patch);
    assert_eq!(read(&pod).sandbox_id(), "");
    assert_eq!(need(&read(&pod), &spec(), true, at(321)), Need::default());
}

#[test]
fn a_sandbox_whose_container_was_restarted_has_failed() {
    let mut pod = running();
    pod["status"]["containerStatuses"] = json!([container("app:1", 3)]);
    let (patch, why) = patched(need(&read(&pod), &spec(), true, at(300)));
    assert_eq!(why, Why::UnexpectedEnd);
    assert_eq!(patch["metadata"]["annotations"][names::ANNOTATION_STOP_REASON], "Failed");
    assert_eq!(patch["metadata"]["annotations"][names::ANNOTATION_FAILURE_REASON], "Restarted");
}

#[test]
fn a_pod_that_cannot_be_given_back_says_why_and_then_goes() {
    let mut pod = running();
    pod["status"]["containerStatuses"][0]["state"] =
        json!({"terminated": {"exitCode": 7, "reason": "Error", "message": "m"}});
    let first = need(&read(&pod), &kept(), true, at(300));
    assert!(matches!(&first.chore, Some(Chore::Patch(_, Merge::Strategic, Why::UnexpectedEnd))));
    let (patch, _) = patched(first);
    assert_eq!(patch["spec"], Value::Null, "its image stays");
    merge(&mut pod, &patch);
    let says = |key: &str| pod["metadata"]["annotations"][key].clone();
    assert_eq!(says(names::ANNOTATION_EXIT_CODE), "7");
    assert_eq!(says(names::ANNOTATION_FAILURE_MESSAGE), "m");
    let next = need(&read(&pod), &kept(), true, at(301)).chore;
    assert_eq!(next, Some(Chore::Delete(Why::NotRenewed)));
}
