//! Batches that leave the choice of their pool to the operator (`poolRef: "*"`).

use sandgate_tests::cluster::{Batches, allocated, pod_template, pool, pooled};
use serde_json::{Value, json};

use super::labelled;

/// A case: what the right pool has, what the wrong one has, and what the batch asks for.
struct Case {
    name: &'static str,
    right: Has,
    wrong: Option<Has>,
    asks: Value,
}

/// What makes one pool differ from another.
#[derive(Default)]
struct Has {
    labels: Value,
    node_selector: Value,
    image: Option<&'static str>,
    cpu: Option<&'static str>,
}

impl Has {
    /// The pool has no pods: what is asked is which one is chosen.
    fn pool(&self, name: &str) -> Value {
        let mut template = pod_template(self.image.unwrap_or("hollow"));
        if !self.node_selector.is_null() {
            template["spec"]["nodeSelector"] = self.node_selector.clone();
        }
        if let Some(cpu) = self.cpu {
            template["spec"]["containers"][0]["resources"] =
                json!({ "requests": { "cpu": cpu, "memory": "1Gi" } });
        }
        let mut pool = pool(name, &template, [0, 0], [0, 0]);
        if !self.labels.is_null() {
            pool["metadata"]["labels"] = self.labels.clone();
        }
        pool
    }
}

/// What a batch asks of the node, as a part of its template.
fn asking(change: impl FnOnce(&mut Value)) -> Value {
    let mut template = pod_template("hollow");
    change(&mut template["spec"]);
    template
}

fn affinity(key: &str, operator: &str, values: &[&str]) -> Value {
    let mut expression = json!({ "key": key, "operator": operator });
    if !values.is_empty() {
        expression["values"] = json!(values);
    }
    json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{ "matchExpressions": [expression] }],
    } } })
}

fn cases() -> Vec<Case> {
    let labels = |value: Value| Has { labels: value, ..Has::default() };
    let selects = |value: Value| Has { node_selector: value, ..Has::default() };
    let image = |name| Has { image: Some(name), ..Has::default() };
    let cpu = |amount| Has { cpu: Some(amount), ..Has::default() };
    vec![
        Case { name: "only", right: Has::default(), wrong: None, asks: Value::Null },
        Case {
            name: "image",
            right: image("sleep"),
            wrong: Some(image("hollow")),
            asks: pod_template("sleep"),
        },
        Case {
            name: "selector-selector",
            right: selects(json!({ "disk": "ssd" })),
            wrong: Some(selects(json!({ "disk": "tape" }))),
            asks: asking(|spec| spec["nodeSelector"] = json!({ "disk": "ssd" })),
        },
        Case {
            name: "labels-affinity",
            right: labels(json!({ "zone": "one" })),
            wrong: Some(labels(json!({ "zone": "two" }))),
            asks: asking(|spec| spec["affinity"] = affinity("zone", "In", &["one", "three"])),
        },
        Case {
            name: "labels-selector",
            right: labels(json!({ "zone": "one" })),
            wrong: Some(labels(json!({ "zone": "two" }))),
            asks: asking(|spec| spec["nodeSelector"] = json!({ "zone": "one" })),
        },
        Case {
            name: "selector-affinity",
            right: selects(json!({ "cores": "16" })),
            wrong: Some(selects(json!({ "cores": "4" }))),
            asks: asking(|spec| spec["affinity"] = affinity("cores", "Gt", &["8"])),
        },
        Case {
            name: "resources",
            right: cpu("4"),
            wrong: Some(cpu("500m")),
            asks: asking(|spec| {
                spec["containers"][0]["resources"] = json!({ "requests": { "cpu": "2", "memory": "1Gi" } });
            }),
        },
    ]
}

#[tokio::test]
async fn a_batch_gets_a_pool_that_has_what_it_asks_for() {
    let place = Batches::shared("assign").await;
    let _operator = place.operator().start().await;
    for Case { name, right, wrong, asks } in cases() {
        // By its name alone the wrong one would be taken.
        let (right_name, wrong_name) = (format!("b-{name}"), format!("a-{name}"));
        place.pools.create(&right.pool(&right_name)).await;
        if let Some(wrong) = wrong {
            place.pools.create(&wrong.pool(&wrong_name)).await;
        }
        let mut batch = pooled(name, 1, "*");
        if !asks.is_null() {
            batch["spec"]["template"] = asks;
        }
        place.batches.create(&batch).await;
        let what = format!("it gets {right_name}");
        let assigned = |one: &Value| one["spec"]["poolRef"] != "*";
        let one = place.batches.until(name, &what, assigned).await;
        assert_eq!(one["spec"]["poolRef"], right_name.as_str(), "{name}");
        place.end(name).await;
        place.pools.delete(&right_name).await;
        place.pools.delete(&wrong_name).await;
        place.pools.until_gone(&right_name).await;
        place.pools.until_gone(&wrong_name).await;
    }
}

/// Theirs chose a pool for it, which then passed it over.
#[tokio::test]
async fn a_batch_with_a_template_is_assigned_and_then_allocated() {
    let place = Batches::shared("templated").await;
    let _operator = place.operator().start().await;
    let mut one = pooled("one", 2, "*");
    one["spec"]["template"] = labelled(pod_template("hollow"), "asked");
    place.batches.create(&one).await;
    // No pool yet: it waits for one.
    place.pools.create(&pool("other", &pod_template("sleep"), [0, 0], [0, 4])).await;
    place.levels("other", 0, 0, 0).await;
    let waits = place.batches.get("one").await.expect("the batch");
    assert_eq!(waits["spec"]["poolRef"], "*");
    assert!(allocated(&waits).is_empty());
    place.pools.create(&pool("p", &labelled(pod_template("hollow"), "pool"), [1, 1], [0, 10])).await;
    let ready = place.ready("one", 2).await;
    assert_eq!(ready["spec"]["poolRef"], "p");
    for pod in allocated(&ready) {
        let pod = place.pods.get(&pod).await.expect("its pod");
        assert_eq!(pod["metadata"]["labels"]["generation"], "pool", "its pods are the pool's");
    }
    assert!(place.pods.get("one-0").await.is_none());
    place.end("one").await;
    place.levels("p", 1, 0, 1).await;
}

#[tokio::test]
async fn of_two_pools_that_fit_the_emptier_one_is_taken() {
    let place = Batches::shared("score").await;
    let _operator = place.operator().start().await;
    for name in ["a", "b"] {
        place.pools.create(&pool(name, &pod_template("hollow"), [2, 2], [0, 10])).await;
        place.levels(name, 2, 0, 2).await;
    }
    place.batches.create(&pooled("first", 1, "a")).await;
    place.ready("first", 1).await;
    place.levels("a", 3, 1, 2).await;
    place.batches.create(&pooled("second", 1, "*")).await;
    let second = place.ready("second", 1).await;
    assert_eq!(second["spec"]["poolRef"], "b");
    place.batches.create(&pooled("tie", 1, "*")).await;
    let tie = place.ready("tie", 1).await;
    assert!(["a", "b"].contains(&tie["spec"]["poolRef"].as_str().expect("a pool")));
}
