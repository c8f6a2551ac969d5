use sandgate_routes::{Clash, State};
use serde_json::{Value, json};

use crate::fixture::{BEFORE_NOW, IN_AN_HOUR, NOW, Object, assert_reads_traffic_token, now};
use crate::provider::Provider;

pub(crate) fn provider() -> Box<dyn Provider> {
    super::provider(Clash::default())
}

/// A claimed sandbox that serves.
pub(crate) fn running() -> Object {
    Object::new()
        .with(&["spec", "paused"], false)
        .with(&["status", "phase"], "Running")
        .with(&["status", "podInfo", "podIP"], "10.1.2.3")
        .condition("Ready", "True", "PodReady")
}

pub(crate) trait Kruise {
    fn phase(self, phase: &str) -> Self;
    fn paused(self) -> Self;
    fn not_ready(self) -> Self;
    fn without_address(self) -> Self;
    fn shuts_down(self, time: &str) -> Self;
    fn owned_by(self, api_version: &str, kind: &str, controller: impl Into<Value>) -> Self;
    fn in_a_pool(self) -> Self;
}

impl Kruise for Object {
    fn phase(self, phase: &str) -> Self {
        self.with(&["status", "phase"], phase)
    }

    fn paused(self) -> Self {
        self.with(&["spec", "paused"], true)
    }

    fn not_ready(self) -> Self {
        self.with(&["status", "conditions"], Value::Null).condition("Ready", "False", "PodNotReady")
    }

    fn without_address(self) -> Self {
        self.with(&["status", "podInfo"], Value::Null)
    }

    fn shuts_down(self, time: &str) -> Self {
        self.with(&["spec", "shutdownTime"], time)
    }

    fn owned_by(self, api_version: &str, kind: &str, controller: impl Into<Value>) -> Self {
        let owner = json!({
            "apiVersion": api_version, "kind": kind, "name": "pool", "uid": "u", "controller": controller.into()
        });
        self.with(&["metadata", "ownerReferences"], vec![owner])
    }

    fn in_a_pool(self) -> Self {
        self.owned_by("agents.kruise.io/v1alpha1", "SandboxSet", true)
    }
}

/// Phases in which a sandbox rests, and one that nobody has thought of yet.
const OTHER_PHASES: [&str; 5] = ["Paused", "Resuming", "Upgrading", "Recycling", "Something"];

fn assert_state(object: &Object, state: State) {
    assert_eq!(object.state(&*provider()), state, "{}", object.0);
}

#[test]
fn one_being_deleted_is_dead_whatever_else_it_says() {
    for object in [running(), running().phase("Pending"), running().in_a_pool(), running().without_address()]
    {
        assert_state(&object.deleting(), State::Dead);
    }
}

#[test]
fn one_past_its_shutdown_time_is_dead_whatever_else_it_says() {
    for object in [running(), running().phase("Pending"), running().in_a_pool(), running().without_address()]
    {
        let object = object.shuts_down(BEFORE_NOW);
        assert_state(&object, State::Dead);
        assert_eq!(object.seen_by(&*provider()).unwrap().dead_at, None);
    }
}

#[test]
fn one_at_or_before_its_shutdown_time_lives_until_then() {
    for (time, after) in [(NOW, 0), (IN_AN_HOUR, 3600)] {
        let seen = running().shuts_down(time).seen_by(&*provider()).unwrap();
        assert_eq!(seen.observation.state, State::Running);
        assert_eq!(seen.dead_at.unwrap().duration_since(now()).unwrap().as_secs(), after);
    }
    assert_eq!(running().seen_by(&*provider()).unwrap().dead_at, None);
}

#[test]
fn a_dead_one_has_no_end_to_come() {
    for object in [running().deleting(), running().phase("Failed")] {
        assert_eq!(object.shuts_down(IN_AN_HOUR).seen_by(&*provider()).unwrap().dead_at, None);
    }
}

#[test]
fn a_pending_one_is_creating() {
    assert_state(&running().phase("Pending"), State::Creating);
    assert_state(&running().phase("Pending").in_a_pool(), State::Creating);
}

#[test]
fn a_finished_one_is_dead_also_in_a_pool_and_without_an_address() {
    for phase in ["Succeeded", "Failed", "Terminating"] {
        assert_state(&running().phase(phase), State::Dead);
        assert_state(&running().phase(phase).in_a_pool(), State::Dead);
        assert_state(&running().phase(phase).without_address(), State::Dead);
    }
}

#[test]
fn one_without_an_address_is_creating_whatever_phase_it_is_in() {
    for object in [running(), running().not_ready(), running().paused(), running().in_a_pool()] {
        assert_state(&object.clone().without_address(), State::Creating);
        assert_state(&object.with(&["status", "podInfo", "podIP"], ""), State::Creating);
    }
    for phase in OTHER_PHASES {
        assert_state(&running().phase(phase).without_address(), State::Creating);
    }
    assert_state(&Object::new(), State::Creating);
    assert_state(&Object::new().with(&["status"], Value::Null).with(&["spec"], Value::Null), State::Creating);
}

#[test]
fn one_in_a_pool_is_available_once_ready() {
    assert_state(&running().in_a_pool(), State::Available);
    assert_state(&running().in_a_pool().paused(), State::Available);
    assert_state(&running().in_a_pool().not_ready(), State::Creating);
    for phase in OTHER_PHASES {
        assert_state(&running().in_a_pool().phase(phase), State::Available);
    }
}

#[test]
fn only_a_sandbox_set_of_the_exact_version_that_controls_it_is_a_pool() {
    for (api_version, kind, controller) in [
        ("agents.kruise.io/v1alpha2", "SandboxSet", json!(true)),
        ("agents.kruise.io", "SandboxSet", json!(true)),
        ("example.com/v1alpha1", "SandboxSet", json!(true)),
        ("agents.kruise.io/v1alpha1", "SandboxClaim", json!(true)),
        ("agents.kruise.io/v1alpha1", "SandboxSet", json!(false)),
        ("agents.kruise.io/v1alpha1", "SandboxSet", Value::Null),
    ] {
        assert_state(&running().owned_by(api_version, kind, controller), State::Running);
    }
}

#[test]
fn a_running_one_that_shall_pause_is_paused_ready_or_not() {
    assert_state(&running().paused(), State::Paused);
    assert_state(&running().paused().not_ready(), State::Paused);
}

#[test]
fn a_running_one_that_is_ready_is_running() {
    assert_state(&running(), State::Running);
}

#[test]
fn a_running_one_that_is_not_ready_for_a_moment_is_not_dead() {
    assert_state(&running().not_ready(), State::Creating);
    let unready = running().with(&["status", "conditions"], Value::Null);
    assert_state(&unready, State::Creating);
    assert_state(&unready.clone().condition("Ready", "Unknown", ""), State::Creating);
    assert_state(&unready.condition("InplaceUpdate", "True", ""), State::Creating);
    let ending = running().not_ready().shuts_down(IN_AN_HOUR).seen_by(&*provider()).unwrap();
    assert!(ending.dead_at.is_some(), "it still ends when it said it would");
}

#[test]
fn one_that_rests_is_paused() {
    for phase in ["Paused", "Resuming", "Upgrading", "Recycling", ""] {
        assert_state(&running().phase(phase), State::Paused);
    }
    assert_state(&running().with(&["status", "phase"], Value::Null), State::Paused);
}

#[test]
fn one_in_a_phase_that_is_not_known_is_known_and_not_served() {
    for phase in ["Something", "running", "Running "] {
        assert_state(&running().phase(phase), State::Unknown);
        assert_state(&running().phase(phase).paused().not_ready(), State::Unknown);
    }
}

#[test]
fn one_knows_when_it_was_made_and_its_address_is_a_controllers_word() {
    let seen = |object: Object| object.seen_by(&*provider()).unwrap().observation;
    let made = seen(running().with(&["metadata", "creationTimestamp"], NOW));
    assert_eq!((made.created, made.ip_is_claimed), (Some(1_794_808_800), false));
    for none in [Value::Null, json!(""), json!("1969-12-31T23:59:59Z")] {
        assert_eq!(seen(running().with(&["metadata", "creationTimestamp"], none)).created, None);
    }
    let error =
        running().with(&["metadata", "creationTimestamp"], "long ago").seen_by(&*provider()).unwrap_err();
    assert_eq!(error.path, "metadata.creationTimestamp");
}

#[test]
fn the_label_is_the_id_and_else_namespace_and_name() {
    let id = |object: Object| object.seen_by(&*provider()).unwrap().observation.id;
    assert_eq!(id(running()), "team-a--demo");
    assert_eq!(id(running().label("agents.kruise.io/sandbox-id", "box-1")), "box-1");
    assert_eq!(id(running().label("agents.kruise.io/sandbox-id", "")), "team-a--demo");
    assert_eq!(id(running().label("agents.kruise.io/other", "box-1")), "team-a--demo");
}

#[test]
fn an_id_by_label_is_not_the_objects_own_unless_it_says_what_the_name_says() {
    let own = |object: Object| object.seen_by(&*provider()).unwrap().observation.own_id;
    assert!(own(running()));
    assert!(own(running().label("agents.kruise.io/sandbox-id", "team-a--demo")));
    for label in ["demo", "team-b--demo", "box-1"] {
        assert!(!own(running().label("agents.kruise.io/sandbox-id", label)), "{label}");
    }
}

#[test]
fn the_runtime_token_is_taken_before_the_one_of_envd() {
    let (runtime, envd) = ("agents.kruise.io/runtime-access-token", "e2b.agents.kruise.io/envd-access-token");
    let token = |object: Object| object.seen_by(&*provider()).unwrap().observation.token;
    assert!(token(running()).is_none());
    assert!(token(running().annotation(envd, "e")).unwrap().matches(b"e"));
    assert!(token(running().annotation(envd, "e").annotation(runtime, "r")).unwrap().matches(b"r"));
    assert!(token(running().annotation(envd, "e").annotation(runtime, "")).unwrap().matches(b"e"));
    assert!(token(running().annotation(runtime, "q\"\u{e9}")).unwrap().matches("q\"\u{e9}".as_bytes()));
}

#[test]
fn traffic_needs_a_jwt_only_where_the_annotation_is_exactly_true() {
    let key = "security.agents.kruise.io/enable-jwt-auth";
    let needed = |object: Object| object.seen_by(&*provider()).unwrap().observation.require_traffic_auth;
    assert!(needed(running().annotation(key, "true")));
    for text in ["", "True", "TRUE", "1", "yes", " true", "false"] {
        assert!(!needed(running().annotation(key, text)), "{text:?}");
    }
    assert!(!needed(running()));
}

#[test]
fn everything_else_is_carried_over() {
    let seen =
        running().annotation("agents.kruise.io/owner", "alice").seen_by(&*provider()).unwrap().observation;
    assert_eq!(seen.key.to_string(), "openkruise:team-a/demo");
    assert_eq!(seen.uid, "8c1f03a2-0b4d-4e5f-9a6b-7c8d9e0f1a2b");
    assert_eq!(seen.owner, "alice");
    assert_eq!(seen.version.to_string(), "41");
    assert_eq!(seen.ip, Some([10, 1, 2, 3].into()));
    let v6 = running().with(&["status", "podInfo", "podIP"], "fd00::1").seen_by(&*provider()).unwrap();
    assert_eq!(v6.observation.ip, Some("fd00::1".parse().unwrap()));
}

#[test]
fn a_traffic_token_is_asked_for_beside_the_other() {
    assert_reads_traffic_token(&running(), &*provider());
}
