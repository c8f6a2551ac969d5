//! What watchers learn.

use serde_json::json;

use super::super::object::version;
use super::super::{Change, DeleteOptions, Model, Part, Patch, Selector};
use super::{bind, made, model, pod, sandbox};

fn changes(model: &Model, since: u64, selector: &str) -> Vec<(Change, u64)> {
    let selector = Selector::parse(selector).expect("a selector");
    let events = model.since(since).expect("it is known");
    events.filter_map(|event| Some((event.seen_by(&selector)?, event.revision))).collect()
}

#[test]
fn every_write_is_an_event_of_its_revision() {
    let mut model = model();
    let start = model.revision();
    let (place, _) = made(&mut model, pod("a"));
    bind(&mut model, &place);
    model.delete(&place, &DeleteOptions { grace: Some(0), ..DeleteOptions::default() }).expect("deleted");
    let seen = [
        (Change::Added, start + 1),
        (Change::Modified, start + 2),
        (Change::Modified, start + 3),
        (Change::Deleted, start + 4),
    ];
    assert_eq!(changes(&model, start, ""), seen, "a pod is marked before it goes, even with no grace");
    assert_eq!(changes(&model, start + 2, ""), seen[2..]);
    let last = model.since(start + 3).expect("it is known").next().expect("the deletion").object.clone();
    assert_eq!(version(&last), start + 4);
}

#[test]
fn an_object_whose_last_finalizer_goes_is_deleted_as_it_was() {
    let mut model = model();
    let (place, _) = made(&mut model, sandbox("a"));
    let finalizers = |of: &[&str]| Patch::Merge(json!({ "metadata": { "finalizers": of } }));
    model.patch(&place, Part::Main, &finalizers(&["x"])).expect("patched");
    model.delete(&place, &DeleteOptions::default()).expect("marked");
    let marked = model.revision();
    model.patch(&place, Part::Main, &finalizers(&[])).expect("patched");
    assert_eq!(changes(&model, marked, ""), [(Change::Deleted, marked + 1)]);
    let last = model.since(marked).expect("it is known").next().expect("the deletion").object.clone();
    assert_eq!(last.pointer("/metadata/finalizers"), Some(&json!(["x"])));
}

#[test]
fn an_object_that_gets_or_loses_its_labels_comes_and_goes_for_who_selects_them() {
    let mut model = model();
    let start = model.revision();
    let (place, _) = made(&mut model, sandbox("a"));
    for labels in [json!({ "app": "web" }), json!({ "app": "web", "b": "c" }), json!({ "app": null })] {
        let patch = Patch::Merge(json!({ "metadata": { "labels": labels } }));
        model.patch(&place, Part::Main, &patch).expect("patched");
    }
    model.delete(&place, &DeleteOptions::default()).expect("deleted");
    let seen = [(Change::Added, start + 2), (Change::Modified, start + 3), (Change::Deleted, start + 4)];
    assert_eq!(changes(&model, start, "app=web"), seen);
}

#[test]
fn who_lags_too_far_behind_is_told_so() {
    let mut model = Model::new(1, model().now(), 2);
    let start = model.revision();
    for name in ["a", "b", "c"] {
        made(&mut model, sandbox(name));
    }
    assert_eq!(changes(&model, start + 1, "").len(), 2);
    let refused = model.since(start).map(|_| ()).expect_err("too old");
    assert_eq!((refused.code, refused.reason), (410, "Expired"));
    model.compact(start + 3);
    assert!(model.since(start + 2).is_err());
    assert_eq!(changes(&model, start + 3, ""), []);
}
