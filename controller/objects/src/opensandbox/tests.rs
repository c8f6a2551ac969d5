use sandgate_routes::{Clash, State};
use serde_json::{Value, json};

use crate::fixture::{
    BEFORE_NOW, IN_AN_HOUR, Object, assert_reads_secure_access, assert_reads_traffic_token, now,
};
use crate::provider::Provider;

fn provider() -> Box<dyn Provider> {
    super::provider(Clash::default())
}

const ENDPOINTS: &str = "sandbox.opensandbox.io/endpoints";

pub(crate) fn running() -> Object {
    Object::new()
        .with(&["status", "phase"], "Succeed")
        .with(&["status", "ready"], 1)
        .annotation(ENDPOINTS, r#"["10.1.2.3"]"#)
}

fn phase(phase: &str) -> Object {
    running().with(&["status", "phase"], phase)
}

fn assert_state(object: &Object, state: State) {
    assert_eq!(object.state(&*provider()), state, "{}", object.0);
}

#[test]
fn one_being_deleted_is_dead_whatever_else_it_says() {
    for object in [running(), phase("Paused"), Object::new()] {
        assert_state(&object.deleting(), State::Dead);
    }
}

#[test]
fn one_past_its_expire_time_is_dead_whatever_else_it_says() {
    for object in [running(), phase("Paused"), Object::new()] {
        assert_state(&object.with(&["spec", "expireTime"], BEFORE_NOW), State::Dead);
    }
    let seen = running().with(&["spec", "expireTime"], IN_AN_HOUR).seen_by(&*provider()).unwrap();
    assert_eq!(seen.observation.state, State::Running);
    assert_eq!(seen.dead_at.unwrap().duration_since(now()).unwrap().as_secs(), 3600);
}

#[test]
fn a_failed_one_is_dead() {
    assert_state(&phase("Failed"), State::Dead);
}

#[test]
fn a_paused_one_and_one_on_its_way_there_are_paused() {
    for name in ["Paused", "Pausing"] {
        assert_state(&phase(name), State::Paused);
        assert_state(&phase(name).annotation(ENDPOINTS, Value::Null), State::Paused);
    }
}

#[test]
fn one_that_is_ready_and_has_an_endpoint_is_running() {
    for name in ["Succeed", "Pending", "Resuming", ""] {
        assert_state(&phase(name), State::Running);
    }
    assert_state(&running().with(&["status", "ready"], 3), State::Running);
    for ready in [json!(0), json!(-1), Value::Null] {
        assert_state(&running().with(&["status", "ready"], ready), State::Creating);
    }
    for endpoints in ["", "[]", r#"[""]"#, "null"] {
        assert_state(&running().annotation(ENDPOINTS, endpoints), State::Creating);
    }
    assert_state(&Object::new(), State::Creating);
}

#[test]
fn one_in_a_phase_that_is_not_known_is_known_and_not_served() {
    for name in ["Hibernated", "succeed", "Running"] {
        assert_state(&phase(name), State::Unknown);
        assert_state(&phase(name).with(&["status", "ready"], 0), State::Unknown);
    }
}

#[test]
fn the_address_is_the_word_of_whoever_wrote_the_object() {
    let seen = running().with(&["metadata", "creationTimestamp"], IN_AN_HOUR).seen_by(&*provider()).unwrap();
    assert!(seen.observation.ip_is_claimed);
    assert_eq!(seen.observation.created, Some(1_794_808_800 + 3600));
}

#[test]
fn an_id_that_two_claim_is_ranked_unless_the_config_says_refuse() {
    let clash = |clash| running().seen_by(&*super::provider(clash)).unwrap().observation.clash;
    assert_eq!((clash(Clash::default()), clash(Clash::Refuse)), (Clash::Rank, Clash::Refuse));
}

#[test]
fn the_first_endpoint_that_is_assigned_is_taken() {
    for (endpoints, ip) in [
        (r#"["10.0.0.1", "10.0.0.2"]"#, "10.0.0.1"),
        (r#"["", "", "10.0.0.2"]"#, "10.0.0.2"),
        (r#"[null, "fd00::1"]"#, "fd00::1"),
        (r#" [ "10.0.0.1" ] "#, "10.0.0.1"),
        (r#"["no", "10.0.0.1"]"#, ""),
    ] {
        let seen = running().annotation(ENDPOINTS, endpoints).seen_by(&*provider()).unwrap();
        assert_eq!(seen.observation.ip, ip.parse().ok(), "{endpoints}");
    }
}

#[test]
fn endpoints_that_are_no_list_of_texts_are_refused() {
    let nested = "[".repeat(10_000);
    for endpoints in ["10.0.0.1", "{}", "[1]", r#"["10.0.0.1""#, r#"["10.0.0.1"] x"#, r#""x""#, &nested] {
        let error = running().annotation(ENDPOINTS, endpoints).seen_by(&*provider()).unwrap_err();
        assert!(error.path.contains(ENDPOINTS), "{endpoints} gave {error}");
    }
}

#[test]
fn the_id_is_the_name() {
    let seen = running().seen_by(&*provider()).unwrap().observation;
    assert_eq!((seen.id.as_str(), seen.key.to_string().as_str()), ("demo", "opensandbox:team-a/demo"));
    assert!(seen.own_id);
}

#[test]
fn a_sandbox_with_a_token_for_secure_access_is_closed_to_everybody_without_it() {
    assert_reads_secure_access(&running(), &*provider());
}

#[test]
fn a_traffic_token_is_asked_for_beside_the_other() {
    assert_reads_traffic_token(&running(), &*provider());
}
