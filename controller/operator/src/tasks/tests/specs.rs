//! The tasks of a batch.

use serde_json::{Value, json};

use crate::tasks::specs::{index, name};
use crate::tasks::{Done, FromTemplate, InvalidTask, TaskSchedulingStrategy as _, TaskSource};

fn source<'a>(template: &'a Value, patches: &'a [Value], replicas: usize) -> TaskSource<'a> {
    TaskSource { batch: "bs", replicas, template: Some(template), patches }
}

fn template() -> Value {
    json!({"spec": {"process": {"command": ["echo"], "args": ["a"]}, "timeoutSeconds": 30}})
}

#[test]
fn each_replica_has_a_task_of_its_index_with_the_patch_of_it() {
    let patches = [json!({"spec": {"process": {"args": ["0"]}}}), Value::Null];
    let template = template();
    let tasks = FromTemplate.specs(&source(&template, &patches, 3)).unwrap();
    let of = |index: usize| {
        let process = tasks[index].process.clone().unwrap();
        (tasks[index].name.clone(), process.command.join(" "), process.args.join(" "))
    };
    let words = |name: &str, args: &str| (name.to_owned(), "echo".to_owned(), args.to_owned());
    assert_eq!([of(0), of(1), of(2)], [words("bs-0", "0"), words("bs-1", "a"), words("bs-2", "a")]);
}

#[test]
fn the_timeout_is_the_templates_whatever_a_patch_says() {
    let (template, patch) = (template(), [json!({"spec": {"timeoutSeconds": 1}})]);
    let tasks = FromTemplate.specs(&source(&template, &patch, 2)).unwrap();
    let timeouts: Vec<_> = tasks.iter().map(|task| task.process.as_ref().unwrap().timeout_seconds).collect();
    assert_eq!(timeouts, [Some(30), Some(30)]);
}

#[test]
fn more_patches_than_replicas_are_passed_over() {
    let patches = [json!({}), json!({}), json!({"$patch": "turn"})];
    let template = template();
    assert_eq!(FromTemplate.specs(&source(&template, &patches, 2)).unwrap().len(), 2);
}

#[test]
fn what_no_task_can_be_made_of_is_an_error_that_says_which_task_and_why() {
    let patch = |patch: Value| vec![Value::Null, patch];
    for (template, patches, expected) in [
        (json!({}), vec![], InvalidTask::NoProcess(0)),
        (json!({"spec": {}}), vec![], InvalidTask::NoProcess(0)),
        (json!({"spec": {"process": null}}), vec![], InvalidTask::NoProcess(0)),
        (Value::Null, vec![], InvalidTask::NoProcess(0)),
        (json!({"spec": {"process": {"command": []}}}), vec![], InvalidTask::NoCommand(0)),
        (json!({"spec": {"process": {"args": ["a"]}}}), vec![], InvalidTask::NoCommand(0)),
        (template(), patch(json!({"spec": {"process": null}})), InvalidTask::NoProcess(1)),
        (template(), patch(json!({"spec": {"process": {"command": null}}})), InvalidTask::NoCommand(1)),
    ] {
        let error = FromTemplate.specs(&source(&template, &patches, 2)).unwrap_err();
        assert_eq!(error, expected, "{template}");
    }
    let (template, patches) = (template(), [json!({"$patch": "turn"})]);
    let error = FromTemplate.specs(&source(&template, &patches, 1)).unwrap_err();
    assert!(matches!(error, InvalidTask::Patch { index: 0, .. }), "{error}");
    let template = json!({"spec": {"process": {"command": "echo"}}});
    let error = FromTemplate.specs(&source(&template, &[], 1)).unwrap_err();
    assert!(matches!(error, InvalidTask::Malformed { index: 0, .. }), "{error}");
}

#[test]
fn a_batch_has_tasks_if_it_has_a_template() {
    let (template, none) = (template(), Value::Null);
    assert!(FromTemplate.needs_tasks(&source(&template, &[], 1)));
    assert!(!FromTemplate.needs_tasks(&source(&none, &[], 1)));
    let without = TaskSource { batch: "bs", replicas: 1, template: None, patches: &[] };
    assert!(!FromTemplate.needs_tasks(&without));
}

#[test]
fn a_name_is_read_as_it_is_written_and_no_other_is() {
    for number in [0, 1, 9, 10, 1234] {
        assert_eq!(index("a-b", &name("a-b", number)), Some(number));
    }
    for other in [
        "a-b",
        "a-b-",
        "a-b-01",
        "a-b-+1",
        "a-b--1",
        "a-b-c",
        "a-bc-1",
        "a-b-1-0",
        "a-b-99999999999999999999",
    ] {
        assert_eq!(index("a-b", other), None, "{other}");
    }
    assert_eq!(index("a", "a-1-0"), None);
}

#[test]
fn results_are_read_as_they_are_written() {
    let done = Done([(0, true), (1, false), (2, true)].into());
    assert_eq!(done.write().unwrap(), r#"{"succeeded":[0,2],"failed":[1]}"#);
    assert_eq!(Done::read(done.write().as_deref()), done);
    assert_eq!(Done::default().write(), None);
    for text in [None, Some(""), Some("x"), Some("[]"), Some("null"), Some("{\"failed\":[-1]}")] {
        assert_eq!(Done::read(text), Done::default(), "{text:?}");
    }
}
