use std::sync::Arc;
use std::time::Duration;

use sandgate_cache::Viewed as _;

use super::*;

fn seen(spec: &Value) -> Seen<SandboxFacts> {
    let object = json!({
        "metadata": { "namespace": "ns", "name": "base-1", "uid": "u-1", "resourceVersion": "7" },
        "spec": spec,
    });
    SandboxFacts::read(object.to_string().as_bytes()).unwrap()
}

fn stock() -> Seen<SandboxFacts> {
    seen(&json!({ "template": {
        "metadata": { "labels": { "app": "web" } },
        "spec": { "containers": [
            { "name": "main", "image": "a:1", "resources": { "requests": { "cpu": "1", "memory": "1Gi" } } },
            { "name": "side", "image": "b:1" },
        ] },
    } }))
}

fn order(wanted: NewSandbox) -> Order {
    let caller = Caller { owner: "me".into(), team: "t".into(), namespace: None, quota: Arc::new([]) };
    let token = Some("token1".to_owned());
    Order { caller, wanted, lock: "lock1".to_owned(), token, traffic_token: None, marker: None }
}

fn now() -> Timestamp {
    "2026-11-18T10:00:00.7Z".parse().unwrap()
}

fn wanted() -> NewSandbox {
    NewSandbox { timeout: Some(Duration::from_secs(300)), ..NewSandbox::default() }
}

#[test]
fn a_plain_claim_is_this_patch() {
    let patch = patch(&stock(), &order(wanted()), "id1", now()).unwrap();
    assert_eq!(
        patch,
        json!({
            "metadata": {
                "uid": "u-1",
                "labels": {
                    "agents.kruise.io/sandbox-claimed": "true",
                    "agents.kruise.io/sandbox-id": "id1",
                    "agents.kruise.io/allow-internet-access": "true",
                },
                "annotations": {
                    "agents.kruise.io/lock": "lock1",
                    "agents.kruise.io/owner": "me",
                    "agents.kruise.io/claim-timestamp": "2026-11-18T10:00:00Z",
                    "agents.kruise.io/updated-metadata-in-claim": "{}",
                    "agents.kruise.io/init-runtime-request": r#"{"accessToken":"token1","envVars":{}}"#,
                    "agents.kruise.io/runtime-access-token": "token1",
                    "sandgate.dev/traffic-access-token": null,
                },
                "ownerReferences": null,
            },
            "spec": {
                "shutdownTime": "2026-11-18T10:05:00Z",
                "pauseTime": null,
                "template": { "metadata": { "labels": {
                    "agents.kruise.io/owner": "me",
                    "agents.kruise.io/sandbox-name": "base-1",
                    "agents.kruise.io/allow-internet-access": "true",
                } } },
            },
        })
    );
}

#[test]
fn everything_that_was_asked_for_is_in_the_patch() {
    let mut order = order(NewSandbox {
        auto_pause: true,
        auto_resume: true,
        metadata: [("who".to_owned(), "x".to_owned())].into(),
        labels: [("tier".to_owned(), "gold".to_owned())].into(),
        env_vars: [("A".to_owned(), "1".to_owned())].into(),
        allow_internet_access: Some(false),
        ..wanted()
    });
    order.wanted.extensions.reserve_paused = Some(Duration::from_secs(3600));
    order.wanted.extensions.return_ip = true;
    order.traffic_token = Some("traffic1".to_owned());
    order.marker = Some(Mark { name: "hash".to_owned(), uid: "m-1".into() });
    let patch = patch(&stock(), &order, "id1", now()).unwrap();
    let labels = &patch["metadata"]["labels"];
    assert_eq!(labels["tier"], "gold");
    assert_eq!(labels["agents.kruise.io/allow-internet-access"], "false");
    assert_eq!(
        (&labels["sandgate.dev/create"], &labels["sandgate.dev/create-uid"]),
        (&json!("hash"), &json!("m-1"))
    );
    let annotations = &patch["metadata"]["annotations"];
    assert_eq!(annotations["who"], "x");
    assert_eq!(annotations["sandgate.dev/traffic-access-token"], "traffic1");
    let given = &annotations["agents.kruise.io/updated-metadata-in-claim"];
    assert_eq!(given, r#"{"annotations":["who"],"labels":["tier"]}"#);
    assert_eq!(annotations["agents.kruise.io/reserve-paused-sandbox-duration"], "3600s");
    assert_eq!(annotations["e2b.agents.kruise.io/return-sandbox-ip"], "true");
    let init = annotations["agents.kruise.io/init-runtime-request"].as_str().unwrap();
    assert_eq!(init, r#"{"accessToken":"token1","envVars":{"A":"1"}}"#);
    let spec = &patch["spec"];
    assert_eq!(spec["pauseTime"], "2026-11-18T10:05:00Z");
    assert_eq!(spec["shutdownTime"], "2026-11-18T11:05:00Z");
    assert_eq!(
        spec["autoPausePolicy"],
        json!({ "resume": { "onIngressTraffic": { "pauseTimeout": "300s" } } })
    );
    let pod = &spec["template"]["metadata"]["labels"];
    assert_eq!(
        (&pod["tier"], &pod["agents.kruise.io/allow-internet-access"]),
        (&json!("gold"), &json!("false"))
    );
}

#[test]
fn the_times_are_as_the_table_says() {
    let table = [
        (None, false, None, None),
        (None, true, None, None),
        (Some(60), false, None, Some("2026-11-18T10:01:00Z")),
        (Some(60), true, Some("2026-11-18T10:01:00Z"), Some("2126-10-25T10:01:00Z")),
    ];
    for (timeout, auto_pause, pause, shutdown) in table {
        let timeout = timeout.map(Duration::from_secs);
        let order = order(NewSandbox { timeout, auto_pause, ..NewSandbox::default() });
        let patch = patch(&stock(), &order, "id1", now()).unwrap();
        assert_eq!(patch["spec"]["pauseTime"], json!(pause), "{timeout:?} {auto_pause}");
        assert_eq!(patch["spec"]["shutdownTime"], json!(shutdown), "{timeout:?} {auto_pause}");
        let kept = &patch["metadata"]["annotations"]["agents.kruise.io/reserve-paused-sandbox-duration"];
        assert_eq!(*kept, if auto_pause { json!("forever") } else { Value::Null });
    }
}

#[test]
fn traffic_wakes_a_sandbox_only_if_this_caller_wants_it() {
    let with = seen(&json!({ "autoPausePolicy": {
        "resume": { "onIngressTraffic": {} }, "pause": { "whenProbedIdleState": {} },
    } }));
    let patch = patch(&with, &order(wanted()), "id1", now()).unwrap();
    assert_eq!(patch["spec"]["autoPausePolicy"], json!({ "resume": { "onIngressTraffic": null } }));
    let wakes = order(NewSandbox { auto_resume: true, ..wanted() });
    let patch = super::patch(&stock(), &wakes, "id1", now()).unwrap();
    assert_eq!(patch["spec"]["autoPausePolicy"], json!({ "resume": { "onIngressTraffic": {} } }));
}

#[test]
fn a_runtime_that_is_not_initialised_has_no_token() {
    let mut order = order(wanted());
    order.token = None;
    let patch = patch(&stock(), &order, "id1", now()).unwrap();
    let annotations = patch["metadata"]["annotations"].as_object().unwrap();
    assert!(!annotations.keys().any(|name| name.contains("runtime")), "{annotations:?}");
}

#[test]
fn a_sandbox_without_a_template_of_its_own_gets_none() {
    let patch =
        patch(&seen(&json!({ "templateRef": { "name": "t" } })), &order(wanted()), "id1", now()).unwrap();
    assert_eq!(patch["spec"].get("template"), None);
}

#[test]
fn an_image_and_cpu_change_the_first_container_and_cpu_only_where_it_is() {
    let mut order = order(wanted());
    order.wanted.extensions.image = Some("a:2".to_owned());
    order.wanted.extensions.cpu_request = Some("2".to_owned());
    order.wanted.extensions.cpu_limit = Some("4".to_owned());
    let patch = patch(&stock(), &order, "id1", now()).unwrap();
    assert_eq!(
        patch["spec"]["template"]["spec"]["containers"],
        json!([
            { "name": "main", "image": "a:2", "resources": { "requests": { "cpu": "2", "memory": "1Gi" } } },
            { "name": "side", "image": "b:1" },
        ])
    );
    let empty = seen(&json!({ "template": { "spec": {} } }));
    assert_eq!(super::patch(&empty, &order, "id1", now()).unwrap_err().kind, crate::ErrorKind::Internal);
}
