//! What of a pool is compared, and what is written.

use std::sync::Arc;

use sandgate_objects::sandbox_env::resources::{Member, SandboxEnv, SandboxPool};
use serde_json::{Value, json};

use super::super::pools::desired;
use super::world::*;
use crate::Key;
use crate::view::Seen;

fn seen(env: &Value) -> Seen<SandboxEnv> {
    Seen { key: Key::new("n", "e"), uid: Arc::from("u"), version: "1".parse().unwrap(), object: read(env) }
}

/// The drift of a pool that was made of one member, and is asked for by another.
fn drift(made: &Value, asked: &Value, has_secret: Option<bool>) -> Option<Value> {
    let env = seen(&env(&[]));
    let [made, asked]: [Member; 2] = [made, asked].map(read);
    let live: SandboxPool = read(&desired(&env, &made, Some(false), None).object(&env, "e-a"));
    desired(&env, &asked, has_secret, Some(&live)).drift(&live)
}

fn with(pointer: &str, value: Value) -> Value {
    let mut member = frozen("e-a", 2);
    let (at, field) = pointer.rsplit_once('/').unwrap();
    member.pointer_mut(at).unwrap()[field] = value;
    member
}

#[test]
fn a_pool_as_it_was_made_has_no_drift() {
    assert_eq!(drift(&frozen("e-a", 2), &frozen("e-a", 2), Some(false)), None);
}

#[test]
fn each_field_that_the_member_says_is_compared_and_written_alone() {
    for (field, value) in [
        ("replicas", json!(5)),
        ("templateName", json!("t2")),
        ("podCreationImagePolicy", json!("PoolDefaultImage")),
        ("defaultStartupTimeout", json!("2m")),
        ("defaultIdleTimeout", json!("0s")),
        ("gateway", json!({"enabled": true})),
        ("maxUnavailable", json!("30%")),
        ("idleImage", json!("idle:2")),
        ("runtimes", json!([{"name": "e2b", "port": 49983}])),
    ] {
        let changed = with(&format!("/spec/{field}"), value.clone());
        let patch = drift(&frozen("e-a", 2), &changed, Some(false));
        assert_eq!(patch, Some(json!({"spec": {field: value}})), "{field}");
    }
}

#[test]
fn no_timeout_is_not_a_timeout_of_zero() {
    let zero = with("/spec/defaultIdleTimeout", json!("0s"));
    let none = frozen("e-a", 2);
    assert_eq!(drift(&zero, &none, Some(false)), Some(json!({"spec": {"defaultIdleTimeout": null}})));
    assert_eq!(drift(&none, &zero, Some(false)), Some(json!({"spec": {"defaultIdleTimeout": "0s"}})));
    let [minute, seconds] = ["1m", "60s"].map(|text| with("/spec/defaultIdleTimeout", json!(text)));
    assert_eq!(drift(&minute, &seconds, Some(false)), None, "the same time");
}

#[test]
fn a_policy_that_the_member_does_not_say_stays() {
    let said = with("/spec/podCreationImagePolicy", json!("PoolDefaultImage"));
    assert_eq!(drift(&said, &frozen("e-a", 2), Some(false)), None);
}

#[test]
fn a_template_that_means_the_same_is_no_drift() {
    let mut member = frozen("e-a", 2);
    let pods = &mut member["spec"]["template"];
    pods["metadata"]["creationTimestamp"] = json!(null);
    pods["metadata"]["annotations"] = json!({});
    let container = &mut pods["spec"]["containers"][0];
    container["resources"]["limits"] = json!({"memory": "4096Mi", "cpu": "2000m"});
    container["env"] = json!([]);
    assert_eq!(drift(&frozen("e-a", 2), &member, Some(false)), None);
    // What is empty and means something is none of it.
    let volume = json!([{"name": "v", "emptyDir": {}}]);
    let asked = with("/spec/template/spec/volumes", volume.clone());
    let patch = drift(&frozen("e-a", 2), &asked, Some(false));
    assert_eq!(patch, Some(json!({"spec": {"template": {"spec": {"volumes": volume}}}})));
}

#[test]
fn a_field_of_the_template_that_is_gone_is_taken_out() {
    let had = with("/spec/template/spec/affinity", json!({"x": 1}));
    let patch = drift(&had, &frozen("e-a", 2), Some(false));
    assert_eq!(patch, Some(json!({"spec": {"template": {"spec": {"affinity": null}}}})));
}

#[test]
fn a_pool_with_containers_is_not_emptied_by_a_member_without() {
    for empty in [json!(null), json!({}), json!({"spec": {"containers": []}})] {
        let mut bare = frozen("e-a", 4);
        bare["spec"]["template"] = empty;
        bare["spec"]["idleImage"] = json!(null);
        let patch = drift(&frozen("e-a", 2), &bare, Some(false));
        assert_eq!(patch, Some(json!({"spec": {"replicas": 4}})));
    }
}

#[test]
fn a_group_that_the_member_left_is_taken_off_the_pool() {
    let left = with("/config/scalingGroup", json!(""));
    let label = json!({"metadata": {"labels": {"agentbox.navix.sh/scaling-group": null}}});
    assert_eq!(drift(&frozen("e-a", 2), &left, Some(false)), Some(label));
    assert_eq!(drift(&left, &left, Some(false)), None);
}

#[test]
fn where_it_is_not_known_whether_the_pull_secret_exists_the_pool_keeps_what_it_has() {
    let env = seen(&env(&[]));
    let member: Member = read(&frozen("e-a", 2));
    for has in [true, false] {
        let live: SandboxPool = read(&desired(&env, &member, Some(has), None).object(&env, "e-a"));
        assert_eq!(desired(&env, &member, None, Some(&live)).drift(&live), None, "{has}");
        assert!(desired(&env, &member, Some(!has), Some(&live)).drift(&live).is_some());
    }
    // One of the user's own stays in any case.
    let own = with("/spec/template/spec/imagePullSecrets", json!([{"name": "own"}]));
    let pool = desired(&env, &read(&own), Some(true), None).object(&env, "e-a");
    let secrets = &pool["spec"]["template"]["spec"]["imagePullSecrets"];
    assert_eq!(*secrets, json!([{"name": "own"}, {"name": "ips-e"}]));
}
