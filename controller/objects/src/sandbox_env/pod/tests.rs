use sandgate_routes::{Clash, MAX_ID, State, TokenKind};
use serde_json::Value;

use super::SELECTOR;
use crate::fixture::{Object, assert_reads_traffic_token};
use crate::provider::Provider;
use crate::sandbox_env::names::{
    ANNOTATION_ACCESS_TOKEN, ANNOTATION_ARMED, ANNOTATION_OWNER, LABEL_PHASE, LABEL_POOL, SANDBOX_ID,
};

const POD_UID: &str = "8c1f03a2-0b4d-4e5f-9a6b-7c8d9e0f1a2b";

fn provider() -> Box<dyn Provider> {
    super::provider(Clash::default())
}

/// A pod of a pool, up and idle.
fn idle() -> Object {
    Object::new()
        .label(LABEL_POOL, "env-2c4gi")
        .label(LABEL_PHASE, "idle")
        .with(&["status", "phase"], "Running")
        .with(&["status", "podIP"], "10.1.2.3")
}

/// The pod while this sandbox has it.
fn claimed(id: &str, phase: &str) -> Object {
    idle().label(SANDBOX_ID, id).label(LABEL_PHASE, phase)
}

fn running() -> Object {
    claimed("sbx-1", "running")
}

fn assert_state(object: &Object, state: State) {
    assert_eq!(object.state(&*provider()), state, "{}", object.0);
}

#[test]
fn the_label_gives_the_state() {
    for (phase, state) in [
        ("starting", State::Creating),
        ("running", State::Running),
        ("stopping", State::Unknown),
        ("failed", State::Unknown),
        ("idle", State::Dead),
        ("", State::Dead),
        ("hibernating", State::Dead),
        ("Running", State::Dead),
    ] {
        assert_state(&claimed("sbx-1", phase), state);
    }
    assert_state(&running().label(LABEL_PHASE, Value::Null), State::Dead);
}

#[test]
fn an_idle_pod_is_nobodys_whatever_its_label_says() {
    assert_state(&idle(), State::Dead);
    for phase in ["starting", "running", "stopping", "failed"] {
        assert_state(&idle().label(LABEL_PHASE, phase), State::Dead);
        assert_state(&idle().label(LABEL_PHASE, phase).label(SANDBOX_ID, ""), State::Dead);
    }
}

#[test]
fn a_pod_being_deleted_is_dead_whatever_else_it_says() {
    for object in [running(), idle(), claimed("sbx-1", "starting"), claimed("sbx-1", "stopping")] {
        assert_state(&object.deleting(), State::Dead);
    }
}

#[test]
fn only_a_pod_that_kubernetes_runs_is_served() {
    let in_phase = |phase: Value| running().with(&["status", "phase"], phase);
    for phase in ["Pending".into(), Value::Null] {
        assert_state(&in_phase(phase), State::Creating);
    }
    for phase in ["Succeeded", "Failed", "Unknown", "Other"] {
        assert_state(&in_phase(phase.into()), State::Unknown);
    }
}

#[test]
fn a_running_sandbox_without_a_usable_address_is_creating() {
    for ip in [Value::Null, "".into(), "0.0.0.0".into(), "224.0.0.1".into(), "nowhere".into()] {
        assert_state(&running().with(&["status", "podIP"], ip), State::Creating);
    }
    let seen = running().seen_by(&*provider()).unwrap();
    assert_eq!(seen.observation.ip, Some([10, 1, 2, 3].into()));
    assert!(!seen.observation.ip_is_claimed, "the kubelet writes it");
}

#[test]
fn where_arming_was_asked_for_only_the_armed_sandbox_is_served() {
    assert_state(&running().annotation(ANNOTATION_ARMED, "sbx-1"), State::Running);
    for other in ["sbx-0", "", "SBX-1"] {
        assert_state(&running().annotation(ANNOTATION_ARMED, other), State::Creating);
    }
    assert_state(&claimed("sbx-1", "stopping").annotation(ANNOTATION_ARMED, "sbx-0"), State::Unknown);
}

#[test]
fn the_id_is_the_label_and_else_the_annotation() {
    let id = |object: Object| object.seen_by(&*provider()).unwrap().observation.id;
    let both = running().annotation(SANDBOX_ID, "by-annotation");
    assert_eq!(id(both.clone()), "sbx-1");
    assert_eq!(id(both.clone().label(SANDBOX_ID, "")), "by-annotation");
    assert_eq!(id(both.label(SANDBOX_ID, Value::Null)), "by-annotation");
    assert!(
        !running().seen_by(&*provider()).unwrap().observation.own_id,
        "the name of the pod is not the ID"
    );
    for bad in ["a/b".to_owned(), "x".repeat(MAX_ID + 1)] {
        let error = running().label(SANDBOX_ID, bad.as_str()).seen_by(&*provider()).unwrap_err();
        assert_eq!(error.path, format!("metadata.labels[{SANDBOX_ID:?}]"));
        let annotated = running().label(SANDBOX_ID, "").annotation(SANDBOX_ID, bad.as_str());
        let error = annotated.seen_by(&*provider()).unwrap_err();
        assert_eq!(error.path, format!("metadata.annotations[{SANDBOX_ID:?}]"));
    }
}

/// The pod keeps its UID from one sandbox to the next.
#[test]
fn the_uid_is_that_of_the_pod_and_of_the_sandbox_together() {
    let uid = |object: Object| object.seen_by(&*provider()).unwrap().observation.uid;
    assert_eq!(uid(running()), format!("{POD_UID}/sbx-1"));
    assert_eq!(uid(claimed("sbx-2", "running")), format!("{POD_UID}/sbx-2"));
    assert_eq!(uid(claimed("sbx-1", "stopping")), uid(running()), "it is one sandbox from claim to release");
    assert_eq!(uid(idle()), POD_UID);
    let longest = "x".repeat(MAX_ID);
    assert!(uid(claimed(&longest, "running")).ends_with(&longest));
    let error = running().with(&["metadata", "uid"], "u".repeat(147)).seen_by(&*provider()).unwrap_err();
    assert_eq!(error.path, "metadata.uid");
}

#[test]
fn the_token_is_one_of_the_runtime() {
    let token = |text: &str| {
        let object = running().annotation(ANNOTATION_ACCESS_TOKEN, text);
        object.seen_by(&*provider()).unwrap().observation.token
    };
    let found = token("s3cret").unwrap();
    assert!(found.matches(b"s3cret"));
    assert_eq!(found.kind(), TokenKind::Runtime);
    assert_eq!(provider().token_kind(), TokenKind::Runtime, "for pushed routes too");
    assert!(token("").is_none());
    assert!(running().seen_by(&*provider()).unwrap().observation.token.is_none());
}

#[test]
fn the_owner_is_the_one_of_the_claim() {
    let owner = |object: Object| object.seen_by(&*provider()).unwrap().observation.owner;
    assert_eq!(owner(running()), "");
    assert_eq!(owner(running().annotation(ANNOTATION_OWNER, "alice")), "alice");
}

/// A pod in any phase that makes a state other than dead is selected, and an idle pod is not.
#[test]
fn the_selector_selects_every_phase_that_can_have_a_route_and_no_other() {
    let list = SELECTOR.strip_prefix(&format!("{LABEL_PHASE} in (")).and_then(|rest| rest.strip_suffix(')'));
    let selected: Vec<&str> = list.unwrap().split(',').collect();
    for phase in ["idle", "starting", "running", "stopping", "failed", "hibernating"] {
        let has_route = claimed("sbx-1", phase).state(&*provider()) != State::Dead;
        assert_eq!(selected.contains(&phase), has_route, "{phase}");
    }
    assert_eq!(provider().selector(), SELECTOR);
}

#[test]
fn a_traffic_token_is_asked_for_beside_the_other() {
    assert_reads_traffic_token(&running(), &*provider());
    assert_reads_traffic_token(&running().annotation(ANNOTATION_ACCESS_TOKEN, "t"), &*provider());
}
