//! Creates, replaces and patches.

use serde_json::{Value, json};

use super::super::object::{number, text, uid, version};
use super::super::{Part, Patch, Refusal, SANDBOXES};
use super::{NAMESPACE, made, model, pod, sandbox};

fn merge(patch: Value) -> Patch {
    Patch::read(&SANDBOXES, "application/merge-patch+json", patch).expect("a merge patch")
}

fn json_patch(patch: Value) -> Patch {
    Patch::read(&SANDBOXES, "application/json-patch+json", patch).expect("a JSON patch")
}

fn outcome<T>(result: Result<T, Refusal>) -> (u16, &'static str) {
    result.err().map_or((200, ""), |refusal| (refusal.code, refusal.reason))
}

#[test]
fn an_object_is_made_once_and_carries_what_the_server_gives_it() {
    let mut model = model();
    let mut asked = sandbox("a");
    asked["status"] = json!({ "phase": "Running" });
    asked["metadata"]["uid"] = json!("chosen");
    asked["metadata"]["generation"] = json!(9);
    let (place, made) = made(&mut model, asked);
    assert_eq!(made["status"], Value::Null, "the status has a path of its own");
    assert_ne!(uid(&made), "chosen");
    assert_eq!(number(&made, "/metadata/generation"), Some(1));
    assert_eq!(text(&made, "/metadata/creationTimestamp"), "2026-11-18T10:00:00Z");
    assert_eq!(version(&made), model.revision());
    assert_eq!(outcome(model.create(&SANDBOXES, NAMESPACE, sandbox("a"))), (409, "AlreadyExists"));
    assert_eq!(outcome(model.create(&SANDBOXES, NAMESPACE, json!({}))), (422, "Invalid"));
    assert_eq!(outcome(model.create(&SANDBOXES, NAMESPACE, sandbox("Upper"))), (422, "Invalid"));
    let foreign = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "b" } });
    assert_eq!(outcome(model.create(&SANDBOXES, NAMESPACE, foreign)), (400, "BadRequest"));
    assert_eq!(model.get(&place), Ok(&made), "a refused create changes nothing");
}

#[test]
fn generated_names_and_uids_are_those_of_the_seed() {
    let names = || {
        let mut model = model();
        let mut make = || {
            let made =
                model.create(&SANDBOXES, NAMESPACE, json!({ "metadata": { "generateName": "pool-" } }));
            let made = made.expect("a new object");
            (text(&made, "/metadata/name").to_owned(), uid(&made).to_owned())
        };
        [make(), make(), make()]
    };
    let [first, second, third] = names();
    assert!(first.0.starts_with("pool-") && first.0.len() == 10, "{first:?}");
    assert!(first != second && second != third && first.1 != second.1);
    assert_eq!(names(), [first, second, third]);
}

#[test]
fn a_write_counts_in_the_generation_if_it_changes_what_is_wanted() {
    let mut model = model();
    let (place, made) = made(&mut model, sandbox("a"));
    let mut step = |of: Part, patch: Value| {
        let patched = model.patch(&place, of, &merge(patch)).expect("patched");
        (number(&patched, "/metadata/generation").unwrap_or(0), version(&patched))
    };
    let first = version(&made);
    assert_eq!(step(Part::Main, json!({ "spec": { "paused": false } })), (1, first), "nothing changes");
    assert_eq!(step(Part::Main, json!({ "metadata": { "labels": { "a": "b" } } })), (1, first + 1));
    assert_eq!(step(Part::Main, json!({ "spec": { "paused": true } })), (2, first + 2));
    assert_eq!(step(Part::Status, json!({ "status": { "phase": "Paused" } })), (2, first + 3));
    assert_eq!(step(Part::Main, json!({ "metadata": { "generation": 7 } })), (2, first + 3));
}

#[test]
fn the_status_and_the_rest_are_written_on_paths_of_their_own() {
    let mut model = model();
    let (place, _) = made(&mut model, sandbox("a"));
    let both = json!({ "spec": { "paused": true }, "status": { "phase": "Paused" }, "metadata": { "labels": { "a": "b" } } });
    let written = model.patch(&place, Part::Status, &merge(both.clone())).expect("patched");
    assert_eq!((&written["spec"]["paused"], &written["status"]["phase"]), (&json!(false), &json!("Paused")));
    assert_eq!(written.pointer("/metadata/labels"), None);
    let cleared = merge(json!({ "status": null, "spec": { "paused": true } }));
    let written = model.patch(&place, Part::Main, &cleared).expect("patched");
    assert_eq!((&written["spec"]["paused"], &written["status"]["phase"]), (&json!(true), &json!("Paused")));
}

#[test]
fn a_write_with_another_version_or_uid_is_refused() {
    let mut model = model();
    let (place, old) = made(&mut model, sandbox("a"));
    model
        .patch(&place, Part::Main, &merge(json!({ "metadata": { "labels": { "a": "b" } } })))
        .expect("patched");
    let new = model.get(&place).expect("it is there").clone();
    let stale = old["metadata"]["resourceVersion"].clone();

    assert_eq!(outcome(model.replace(&place, Part::Main, Value::clone(&old))), (409, "Conflict"));
    assert_eq!(outcome(model.replace(&place, Part::Status, Value::clone(&old))), (409, "Conflict"));
    assert_eq!(
        outcome(model.replace(&place, Part::Main, sandbox("a"))),
        (422, "Invalid"),
        "no version at all"
    );
    let mut other = Value::clone(&new);
    other["metadata"]["uid"] = json!("other");
    assert_eq!(outcome(model.replace(&place, Part::Main, other)), (409, "Conflict"));
    let patch = merge(json!({ "metadata": { "resourceVersion": stale } }));
    assert_eq!(outcome(model.patch(&place, Part::Main, &patch)), (409, "Conflict"));
    assert_eq!(outcome(model.patch(&place, Part::Status, &patch)), (409, "Conflict"));
    let patch = merge(json!({ "metadata": { "uid": "other" } }));
    assert_eq!(outcome(model.patch(&place, Part::Main, &patch)), (422, "Invalid"));
    let patch = json_patch(json!([{ "op": "test", "path": "/metadata/uid", "value": "other" }]));
    assert_eq!(outcome(model.patch(&place, Part::Main, &patch)), (422, "Invalid"));
    assert_eq!(model.get(&place), Ok(&new), "nothing was written");

    let same = [
        json!({ "op": "test", "path": "/metadata/uid", "value": uid(&new) }),
        json!({ "op": "add", "path": "/metadata/labels/c", "value": "d" }),
    ];
    let written = model.patch(&place, Part::Main, &json_patch(json!(same))).expect("patched");
    assert_eq!(written.pointer("/metadata/labels/c"), Some(&json!("d")));
}

#[test]
fn a_patch_of_a_status_is_held_by_its_version_but_not_by_its_uid() {
    let mut model = model();
    let (place, _) = made(&mut model, sandbox("a"));
    let patch = merge(json!({ "metadata": { "uid": "other" }, "status": { "phase": "Running" } }));
    assert_eq!(outcome(model.patch(&place, Part::Status, &patch)), (200, ""));
}

#[test]
fn owners_are_complete_and_one_at_most_controls() {
    let mut model = model();
    let owner =
        |uid: &str| json!({ "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, "controller": true });
    let mut asked = sandbox("a");
    asked["metadata"]["ownerReferences"] = json!([owner("1"), owner("2")]);
    assert_eq!(outcome(model.create(&SANDBOXES, NAMESPACE, asked)), (422, "Invalid"));
    let mut asked = sandbox("a");
    asked["metadata"]["ownerReferences"] = json!([owner("")]);
    assert_eq!(outcome(model.create(&SANDBOXES, NAMESPACE, asked)), (422, "Invalid"));
}

#[test]
fn of_a_pod_only_the_image_changes_and_the_resources_on_their_own_path() {
    let mut model = model();
    let (place, made) = made(&mut model, pod("a"));
    let mut change = |of: Part, pointer: &str, value: Value| {
        let path = format!("/spec/{pointer}");
        let patch = json_patch(json!([{ "op": "add", "path": path, "value": value }]));
        outcome(model.patch(&place, of, &patch))
    };
    assert_eq!(change(Part::Main, "containers/0/image", json!("b")), (200, ""));
    assert_eq!(change(Part::Main, "containers/0/resources/limits/cpu", json!("2")), (422, "Invalid"));
    assert_eq!(change(Part::Resize, "containers/0/resources/limits/cpu", json!("2")), (200, ""));
    assert_eq!(change(Part::Resize, "containers/0/image", json!("c")), (422, "Invalid"));
    assert_eq!(change(Part::Main, "nodeName", json!("node")), (422, "Invalid"));
    assert_eq!(text(&made, "/status/phase"), "Pending");
}
