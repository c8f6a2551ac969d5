use serde_json::{Value, json};

use super::super::predicate::Predicate;
use super::super::{PoolOffer, SandboxNeeds};
use super::{images, labels, needs, offer};

fn passes(predicate: &Predicate, template: Option<&Value>, pool: Option<&Value>) -> bool {
    predicate.against(&needs(template), &offer("pool", pool)).is_none()
}

#[test]
fn one_image_in_common_is_enough() {
    let (nginx, redis, none) = (images(&["nginx:1.25"]), images(&["redis:7"]), images(&[]));
    let (many, others) = (images(&["sidecar", "nginx:1.25"]), images(&["nginx:1.25", "helper"]));
    let bare = json!({ "spec": { "containers": [{ "name": "main" }] } });
    for (case, template, pool, expected) in [
        ("the same", Some(&nginx), Some(&nginx), true),
        ("another", Some(&nginx), Some(&redis), false),
        ("another tag", Some(&nginx), Some(&images(&["nginx:1.26"])), false),
        ("no template", None, Some(&nginx), true),
        ("no template of the pool", Some(&nginx), None, false),
        ("no containers", Some(&none), Some(&nginx), true),
        ("an empty template", Some(&json!({})), Some(&nginx), true),
        ("no containers of the pool", Some(&nginx), Some(&none), false),
        ("one of several", Some(&many), Some(&others), true),
        ("a container without an image", Some(&bare), Some(&nginx), false),
        ("no templates at all", None, None, true),
    ] {
        assert_eq!(passes(&Predicate::Image, template, pool), expected, "{case}");
    }
}

/// A template whose containers request these resources.
fn requests(each: &[Value]) -> Value {
    let containers: Vec<Value> =
        each.iter().map(|requests| json!({ "resources": { "requests": requests } })).collect();
    json!({ "spec": { "containers": containers } })
}

#[test]
fn the_pods_of_a_pool_request_as_much_as_those_of_the_batch() {
    let one = requests(&[json!({ "cpu": "1", "memory": "1Gi" })]);
    let cpu = |amount: &str| requests(&[json!({ "cpu": amount })]);
    let memory = |amount: &str| requests(&[json!({ "memory": amount })]);
    let limits = json!({ "spec": { "containers": [{ "resources": { "limits": { "cpu": "9" } } }] } });
    for (case, template, pool, expected) in [
        ("equal", one.clone(), one.clone(), true),
        ("equal, written otherwise", cpu("1000m"), cpu("1"), true),
        ("greater", one.clone(), requests(&[json!({ "cpu": "2", "memory": "4Gi" })]), true),
        ("too little of the CPU", cpu("2"), cpu("1"), false),
        ("a little too little", cpu("1001m"), cpu("1"), false),
        ("too little memory", memory("4Gi"), memory("2Gi"), false),
        ("units of both kinds", memory("1Gi"), memory("1G"), false),
        ("no requests", images(&["nginx"]), images(&["nginx"]), true),
        ("none in the pool", cpu("1"), images(&["nginx"]), false),
        ("another resource in the pool", cpu("1"), memory("1Gi"), false),
        (
            "a resource of a device",
            requests(&[json!({ "gpu": 1 })]),
            requests(&[json!({ "gpu": "2" })]),
            true,
        ),
        ("an empty template of the pool", images(&["nginx"]), json!({}), true),
        (
            "sums of several containers",
            requests(&[json!({ "cpu": "500m" }), json!({ "cpu": "500m", "memory": "512Mi" })]),
            requests(&[json!({ "cpu": "1", "memory": "256Mi" }), json!({ "memory": "256Mi" })]),
            true,
        ),
        (
            "a sum that is too great",
            requests(&[json!({ "cpu": "1" }), json!({ "cpu": "1" })]),
            cpu("1"),
            false,
        ),
        ("limits are no requests", limits, cpu("1"), true),
        ("an amount that is none", cpu("1"), cpu("many"), false),
    ] {
        assert_eq!(passes(&Predicate::Resource, Some(&template), Some(&pool)), expected, "{case}");
    }
    assert!(passes(&Predicate::Resource, None, Some(&one)), "no template");
    assert!(passes(&Predicate::Resource, Some(&images(&["nginx"])), None), "no template of the pool");
    assert!(!passes(&Predicate::Resource, Some(&one), None), "requests, and no template of the pool");
}

#[test]
fn the_labels_of_the_keys_are_equal() {
    let keys = |keys: &[&str]| Predicate::LabelSelector(keys.iter().map(|key| (*key).to_owned()).collect());
    let (prod, staging) = (labels(&[("env", "prod")]), labels(&[("env", "staging")]));
    let both = labels(&[("env", "prod"), ("tier", "front")]);
    let more = labels(&[("env", "prod"), ("tier", "front"), ("extra", "value")]);
    let empty = labels(&[]);
    for (case, of, sandbox, pool, expected) in [
        ("all keys", keys(&["env", "tier"]), Some(&more), Some(&both), true),
        ("other labels do not count", keys(&["env"]), Some(&more), Some(&prod), true),
        ("another value", keys(&["env"]), Some(&prod), Some(&staging), false),
        ("the batch lacks one", keys(&["env", "tier"]), Some(&prod), Some(&both), false),
        ("the pool lacks one", keys(&["env", "tier"]), Some(&both), Some(&prod), false),
        ("the pool's are empty", keys(&["env"]), Some(&prod), Some(&empty), false),
        ("no keys", keys(&[]), Some(&prod), Some(&staging), true),
        ("no keys and no labels", keys(&[]), None, None, true),
        ("the batch has none", keys(&["env"]), None, Some(&prod), false),
        ("the pool has none", keys(&["env"]), Some(&prod), None, false),
        ("nobody has any", keys(&["env"]), None, None, false),
    ] {
        let needs = SandboxNeeds { labels: sandbox, ..needs(None) };
        let pool = PoolOffer { labels: pool, ..offer("pool", None) };
        assert_eq!(of.against(&needs, &pool).is_none(), expected, "{case}");
    }
}

#[test]
fn a_predicate_says_what_speaks_against_a_pool() {
    let (nginx, redis) = (images(&["nginx", "sidecar"]), images(&["redis"]));
    let much = requests(&[json!({ "cpu": "2", "memory": "1Gi" })]);
    let there = json!({ "spec": { "nodeSelector": { "zone": "west" } } });
    let env = Predicate::LabelSelector(vec!["env".to_owned()]);
    for (predicate, template, expected) in [
        (Predicate::Image, &nginx, "it has none of the images nginx, sidecar"),
        (Predicate::Resource, &much, "its pods have too little cpu, memory"),
        (Predicate::NodeSelector, &there, "it is not where zone is \"west\""),
        (env, &nginx, "the batch has no label env"),
    ] {
        let reason = predicate.against(&needs(Some(template)), &offer("pool", Some(&redis)));
        assert_eq!(reason.as_deref(), Some(expected));
    }
}
