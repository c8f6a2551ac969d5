use serde_json::{Value, json};

use super::super::predicate::Predicate;
use super::super::{Labels, PoolOffer};
use super::{labels, needs, offer};

fn passes(template: &Value, of_pool: &Labels, pool: Option<&Value>) -> bool {
    let pool = PoolOffer { labels: Some(of_pool), ..offer("pool", pool) };
    Predicate::NodeSelector.against(&needs(Some(template)), &pool).is_none()
}

fn selector(selector: &Value) -> Value {
    json!({ "spec": { "nodeSelector": selector } })
}

fn terms(terms: &Value) -> Value {
    let required = json!({ "nodeSelectorTerms": terms });
    let affinity = json!({ "requiredDuringSchedulingIgnoredDuringExecution": required });
    json!({ "spec": { "affinity": { "nodeAffinity": affinity } } })
}

/// An affinity with one expression.
fn expression(key: &str, operator: &str, values: &[&str]) -> Value {
    terms(&json!([{ "matchExpressions": [{ "key": key, "operator": operator, "values": values }] }]))
}

#[test]
fn a_node_selector_is_read_with_the_labels_and_the_selector_of_the_pool() {
    let west = selector(&json!({ "zone": "west" }));
    let west_and_rack = selector(&json!({ "zone": "west", "rack": "r1" }));
    let east = selector(&json!({ "zone": "east" }));
    let both = selector(&json!({ "gpu": "yes", "disk": "ssd" }));
    let none = labels(&[]);
    for (case, template, of_pool, pool, expected) in [
        ("the pool's selector has it", &west, &none, Some(&west_and_rack), true),
        ("the pool's selector has another value", &west, &none, Some(&east), false),
        ("no selector", &json!({ "spec": {} }), &none, Some(&west), true),
        ("nothing of the pool", &west, &none, None, false),
        ("the pool's labels have it", &west, &labels(&[("zone", "west")]), Some(&json!({})), true),
        (
            "the pool's labels have another value",
            &west,
            &labels(&[("zone", "east")]),
            Some(&json!({})),
            false,
        ),
        ("labels and no template", &west, &labels(&[("zone", "west")]), None, true),
        (
            "labels and selector together",
            &both,
            &labels(&[("gpu", "yes")]),
            Some(&selector(&json!({ "disk": "ssd" }))),
            true,
        ),
        ("one of two is missing", &both, &labels(&[("gpu", "yes")]), Some(&json!({})), false),
        ("the selector is laid over the labels", &west, &labels(&[("zone", "west")]), Some(&east), false),
        ("over wrong labels too", &west, &labels(&[("zone", "east")]), Some(&west), true),
    ] {
        assert_eq!(passes(template, of_pool, pool), expected, "{case}");
    }
    let pool = offer("pool", Some(&west));
    assert_eq!(Predicate::NodeSelector.against(&needs(None), &pool), None, "no template");
}

#[test]
fn every_operator_is_opensandboxs() {
    let (west, rack) = (labels(&[("zone", "west")]), labels(&[("rack", "r1")]));
    let of = |text: &str| labels(&[("priority", text)]);
    for (case, template, of_pool, expected) in [
        ("In, listed", expression("zone", "In", &["west", "north"]), &west, true),
        ("In, not listed", expression("zone", "In", &["east"]), &west, false),
        ("In, absent", expression("zone", "In", &["west"]), &rack, false),
        ("In of nothing", expression("zone", "In", &[]), &west, false),
        ("NotIn, not listed", expression("zone", "NotIn", &["east", "north"]), &west, true),
        ("NotIn, listed", expression("zone", "NotIn", &["east", "west"]), &west, false),
        ("NotIn, absent", expression("zone", "NotIn", &["east"]), &rack, true),
        ("NotIn of nothing", expression("zone", "NotIn", &[]), &west, true),
        ("Exists, there", expression("zone", "Exists", &[]), &west, true),
        ("Exists, absent", expression("zone", "Exists", &[]), &rack, false),
        ("Exists, whatever the values", expression("zone", "Exists", &["east"]), &west, true),
        ("DoesNotExist, absent", expression("zone", "DoesNotExist", &[]), &rack, true),
        ("DoesNotExist, there", expression("zone", "DoesNotExist", &[]), &west, false),
        ("DoesNotExist, whatever the values", expression("zone", "DoesNotExist", &["x"]), &rack, true),
        ("Gt, greater", expression("priority", "Gt", &["5"]), &of("10"), true),
        ("Gt, less", expression("priority", "Gt", &["5"]), &of("3"), false),
        ("Gt, equal", expression("priority", "Gt", &["5"]), &of("5"), false),
        ("Gt, absent", expression("priority", "Gt", &["5"]), &rack, false),
        ("Gt, no number", expression("priority", "Gt", &["5"]), &of("high"), false),
        ("Gt than no number", expression("priority", "Gt", &["low"]), &of("10"), false),
        ("Gt than the first of two", expression("priority", "Gt", &["5", "20"]), &of("10"), true),
        ("Gt than nothing", expression("priority", "Gt", &[]), &of("10"), false),
        ("Lt, less", expression("priority", "Lt", &["5"]), &of("3"), true),
        ("Lt, greater", expression("priority", "Lt", &["5"]), &of("10"), false),
        ("Lt, equal", expression("priority", "Lt", &["5"]), &of("5"), false),
        ("Lt, below zero", expression("priority", "Lt", &["-5"]), &of("-10"), true),
        ("Lt, absent", expression("priority", "Lt", &["5"]), &rack, false),
        ("an operator that there is not", expression("zone", "Near", &["west"]), &west, false),
        ("no operator", expression("zone", "", &["west"]), &west, false),
    ] {
        assert_eq!(passes(&template, of_pool, None), expected, "{case}");
    }
}

#[test]
fn one_term_is_enough_and_of_a_term_every_expression_counts() {
    let is = |key: &str, value: &str| json!({ "key": key, "operator": "In", "values": [value] });
    let pool = labels(&[("zone", "west"), ("disk", "ssd")]);
    for (case, of, expected) in [
        ("both expressions", json!([{ "matchExpressions": [is("zone", "west"), is("disk", "ssd")] }]), true),
        ("one of two", json!([{ "matchExpressions": [is("zone", "west"), is("disk", "hdd")] }]), false),
        (
            "the second term",
            json!([{ "matchExpressions": [is("zone", "east")] }, { "matchExpressions": [is("disk", "ssd")] }]),
            true,
        ),
        (
            "no term",
            json!([{ "matchExpressions": [is("zone", "east")] }, { "matchExpressions": [is("disk", "hdd")] }]),
            false,
        ),
        ("a term without expressions", json!([{}]), true),
        ("a term with an empty list", json!([{ "matchExpressions": [] }]), true),
        ("an empty one beside", json!([{ "matchExpressions": [is("zone", "east")] }, {}]), true),
        ("no terms", json!([]), true),
        ("fields of the node alone", json!([{ "matchFields": [is("metadata.name", "node")] }]), true),
        (
            "fields of the node beside an expression",
            json!([{
                "matchFields": [is("metadata.name", "node")], "matchExpressions": [is("zone", "east")],
            }]),
            false,
        ),
    ] {
        assert_eq!(passes(&terms(&of), &pool, None), expected, "{case}");
    }
}

#[test]
fn selector_and_affinity_are_both_asked() {
    let mut template = expression("zone", "In", &["west"]);
    template["spec"]["nodeSelector"] = json!({ "disk": "ssd" });
    let ssd = selector(&json!({ "disk": "ssd" }));
    assert!(passes(&template, &labels(&[("zone", "west")]), Some(&ssd)));
    assert!(!passes(&template, &labels(&[("zone", "east")]), Some(&ssd)));
    assert!(!passes(&template, &labels(&[("zone", "west")]), None));
    let by_selector = selector(&json!({ "zone": "west" }));
    assert!(passes(&expression("zone", "In", &["west"]), &labels(&[]), Some(&by_selector)));
}

#[test]
fn an_affinity_that_requires_nothing_is_none() {
    let preferred = json!({ "preferredDuringSchedulingIgnoredDuringExecution": [{ "weight": 1 }] });
    for affinity in [
        json!(null),
        json!({}),
        json!({ "nodeAffinity": null }),
        json!({ "nodeAffinity": {} }),
        json!({ "nodeAffinity": preferred }),
        json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": null } }),
    ] {
        let template = json!({ "spec": { "affinity": affinity } });
        assert!(passes(&template, &labels(&[]), None), "{template}");
    }
}
