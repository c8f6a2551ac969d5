use sandgate_routes::{Clash, State};
use serde_json::{Value, json};

use crate::fixture::{
    BEFORE_NOW, IN_AN_HOUR, Object, assert_reads_secure_access, assert_reads_traffic_token, now,
};
use crate::provider::Provider;

fn provider() -> Box<dyn Provider> {
    super::provider(Clash::default())
}

pub(crate) fn running() -> Object {
    Object::new()
        .with(&["spec", "operatingMode"], "Running")
        .with(&["status", "podIPs"], vec!["10.1.2.3", "fd00::1"])
        .condition("Ready", "True", "DependenciesReady")
}

pub(crate) trait Sig {
    fn suspended(self) -> Self;
    fn not_ready(self, reason: &str) -> Self;
    fn without_address(self) -> Self;
    fn shuts_down(self, time: &str) -> Self;
    fn warm(self) -> Self;
}

impl Sig for Object {
    fn suspended(self) -> Self {
        self.with(&["spec", "operatingMode"], "Suspended")
    }

    fn not_ready(self, reason: &str) -> Self {
        self.with(&["status", "conditions"], Value::Null).condition("Ready", "False", reason)
    }

    fn without_address(self) -> Self {
        self.with(&["status", "podIPs"], Value::Null)
    }

    fn shuts_down(self, time: &str) -> Self {
        self.with(&["spec", "shutdownTime"], time)
    }

    fn warm(self) -> Self {
        self.label("agents.x-k8s.io/warm-pool-sandbox", "5f3a9c")
    }
}

fn assert_state(object: &Object, state: State) {
    assert_eq!(object.state(&*provider()), state, "{}", object.0);
}

#[test]
fn one_being_deleted_is_dead_whatever_else_it_says() {
    for object in [running(), running().warm(), running().suspended(), Object::new()] {
        assert_state(&object.deleting(), State::Dead);
    }
}

#[test]
fn one_past_its_shutdown_time_is_dead_under_either_policy() {
    for policy in [json!("Delete"), json!("Retain"), Value::Null] {
        let object = running().with(&["spec", "shutdownPolicy"], policy);
        assert_state(&object.clone().shuts_down(BEFORE_NOW), State::Dead);
        let seen = object.shuts_down(IN_AN_HOUR).seen_by(&*provider()).unwrap();
        assert_eq!(seen.observation.state, State::Running);
        assert_eq!(seen.dead_at.unwrap().duration_since(now()).unwrap().as_secs(), 3600);
    }
}

#[test]
fn one_that_is_ready_and_has_an_address_is_running() {
    assert_state(&running(), State::Running);
    assert_state(&running().without_address(), State::Creating);
    assert_state(&running().with(&["status", "podIPs"], json!([])), State::Creating);
    assert_state(&running().not_ready("DependenciesNotReady"), State::Creating);
}

#[test]
fn ready_beats_the_mode_that_is_asked_for_and_the_condition_suspended() {
    assert_state(&running().suspended(), State::Running);
    assert_state(&running().condition("Suspended", "True", "PodTerminated"), State::Running);
}

#[test]
fn one_in_a_warm_pool_is_available_once_ready() {
    assert_state(&running().warm(), State::Available);
    assert_state(&running().warm().not_ready("DependenciesNotReady"), State::Creating);
    assert_state(&running().warm().without_address(), State::Creating);
    let pod_only = running().with(
        &["spec", "podTemplate", "metadata", "labels"],
        json!({
            "agents.x-k8s.io/warm-pool-sandbox": "5f3a9c"
        }),
    );
    assert_state(&pod_only, State::Running);
}

#[test]
fn a_suspended_one_is_paused_whatever_its_pod_came_to() {
    for reason in ["SandboxSuspended", "PodFailed", "SandboxExpired"] {
        assert_state(&running().suspended().without_address().not_ready(reason), State::Paused);
    }
}

#[test]
fn a_finished_one_is_dead() {
    for reason in ["PodFailed", "PodSucceeded", "SandboxExpired"] {
        assert_state(&running().not_ready(reason), State::Dead);
    }
    let finished = running().not_ready("DependenciesNotReady").condition("Finished", "True", "PodSucceeded");
    assert_state(&finished, State::Dead);
    let not_finished = running().not_ready("").condition("Finished", "False", "PodFailed");
    assert_state(&not_finished, State::Creating);
}

#[test]
fn anything_else_is_creating() {
    assert_state(&Object::new(), State::Creating);
    for reason in ["DependenciesNotReady", "MultiplePods", "ReconcilerError", ""] {
        assert_state(&running().not_ready(reason), State::Creating);
    }
}

#[test]
fn one_in_a_mode_that_is_not_known_is_served_only_if_its_pod_is_ready() {
    let other = || running().with(&["spec", "operatingMode"], "Hibernated");
    assert_state(&other(), State::Running);
    assert_state(&other().not_ready("DependenciesNotReady"), State::Unknown);
    assert_state(&other().without_address(), State::Unknown);
    assert_state(&other().not_ready("PodFailed"), State::Dead);
}

#[test]
fn the_first_address_is_taken_and_empty_ones_are_passed_over() {
    let ip = |ips: Value| {
        running().with(&["status", "podIPs"], ips).seen_by(&*provider()).map(|seen| seen.observation.ip)
    };
    assert_eq!(ip(json!(["fd00::1", "10.0.0.1"])).unwrap(), Some("fd00::1".parse().unwrap()));
    assert_eq!(ip(json!(["", null, "10.0.0.1"])).unwrap(), Some([10, 0, 0, 1].into()));
    assert_eq!(ip(json!(["no", "10.0.0.1"])).unwrap(), None);
    assert_eq!(ip(json!([{ "ip": "10.0.0.1" }])).unwrap_err().path, "status.podIPs[0]");
}

#[test]
fn the_id_is_namespace_and_name() {
    let seen = running().seen_by(&*provider()).unwrap().observation;
    assert_eq!(
        (seen.id.as_str(), seen.key.to_string().as_str()),
        ("team-a--demo", "agent-sandbox:team-a/demo")
    );
    assert!(seen.own_id);
    assert!(seen.token.is_none() && seen.owner.is_empty() && !seen.require_traffic_auth);
}

#[test]
fn one_that_opensandbox_has_closed_is_closed_here_too() {
    assert_reads_secure_access(&running(), &*provider());
}

#[test]
fn a_traffic_token_is_asked_for_beside_the_other() {
    assert_reads_traffic_token(&running(), &*provider());
}
