mod cases;
mod long;
mod random;

use serde_json::json;

use super::{pod, task};

#[test]
fn the_variables_of_a_task_are_merged_by_name_and_its_arguments_are_replaced() {
    let variable = |name: &str, value: &str| json!({ "name": name, "value": value });
    let template = json!({
        "spec": {
            "process": {
                "command": ["run"], "args": ["a", "b"], "workingDir": "/work",
                "env": [variable("A", "1"), variable("B", "2")],
            },
            "timeoutSeconds": 30,
        },
    });
    let patch = json!({
        "spec": {
            "process": {
                "args": ["c"], "workingDir": null,
                "env": [variable("B", "3"), { "name": "A", "$patch": "delete" }, variable("C", "4")],
            },
        },
    });
    let expected = json!({
        "spec": {
            "process": {
                "command": ["run"], "args": ["c"],
                "env": [variable("B", "3"), variable("C", "4")],
            },
            "timeoutSeconds": 30,
        },
    });
    assert_eq!(task(&template, &patch), Ok(expected));
}

#[test]
fn a_task_without_a_process_gets_that_of_the_patch() {
    let process = json!({ "spec": { "process": { "command": ["run"] } } });
    assert_eq!(task(&json!({}), &process), Ok(process.clone()));
    assert_eq!(task(&json!({ "spec": null }), &process), Ok(process));
}

#[test]
fn what_is_no_object_is_refused() {
    for (before, patch) in [(json!([]), json!({})), (json!({}), json!("text")), (json!({}), json!(null))] {
        let refused = pod(&before, &patch).expect_err("it is no object").to_string();
        assert_eq!(refused, "the patched object is not an object");
    }
}

#[test]
fn a_key_that_is_an_object_is_refused() {
    let before = json!({ "spec": { "containers": [{ "name": "a" }] } });
    let patch = json!({ "spec": { "containers": [{ "name": { "a": "b" } }] } });
    let refused = pod(&before, &patch).expect_err("it is no key").to_string();
    assert_eq!(refused, r#"spec.containers has an element whose "name" is neither text nor a number"#);
}
