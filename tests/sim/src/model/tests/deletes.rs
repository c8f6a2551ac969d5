//! Deletion.

use serde_json::{Value, json};

use super::super::object::{deleting, number, text, uid, version};
use super::super::{DeleteOptions, Deleted, Part, Patch};
use super::{bind, made, model, pod, sandbox};

const AT_ONCE: DeleteOptions = DeleteOptions { uid: None, version: None, grace: Some(0) };

fn finalizers(of: &[&str]) -> Patch {
    Patch::Merge(json!({ "metadata": { "finalizers": of } }))
}

fn is_pending(deleted: &Deleted) -> bool {
    matches!(deleted, Deleted::Pending(_))
}

#[test]
fn an_object_without_finalizers_goes_at_once() {
    let mut model = model();
    let (place, _) = made(&mut model, sandbox("a"));
    let deleted = model.delete(&place, &DeleteOptions::default()).expect("deleted");
    let Deleted::Gone(last) = deleted else { panic!("it waits for nothing") };
    assert_eq!(version(&last), model.revision(), "the deletion is a write");
    assert_eq!(model.delete(&place, &DeleteOptions::default()).map_err(|refusal| refusal.code), Err(404));
}

#[test]
fn a_delete_that_names_another_uid_or_version_is_refused() {
    let mut model = model();
    let (place, made) = made(&mut model, sandbox("a"));
    let uid_of = |uid: &str| DeleteOptions::of_uid(uid);
    let version_of = |version: &Value| DeleteOptions {
        version: version.as_str().map(str::to_owned),
        ..DeleteOptions::default()
    };
    let refused = model.delete(&place, &uid_of("other")).expect_err("another object");
    assert_eq!((refused.code, refused.reason), (409, "Conflict"));
    let refused = model.delete(&place, &version_of(&json!("1"))).expect_err("another version");
    assert_eq!((refused.code, refused.reason), (409, "Conflict"));
    assert!(model.delete(&place, &version_of(&made["metadata"]["resourceVersion"])).is_ok());
}

#[test]
fn finalizers_hold_an_object_until_the_last_is_removed() {
    let mut model = model();
    let (place, _) = made(&mut model, sandbox("a"));
    model.patch(&place, Part::Main, &finalizers(&["x", "y"])).expect("patched");
    assert!(is_pending(&model.delete(&place, &DeleteOptions::default()).expect("marked")));
    let marked = model.get(&place).expect("it waits").clone();
    assert!(deleting(&marked));
    assert_eq!(number(&marked, "/metadata/generation"), Some(2), "the mark is a change of what is wanted");
    assert_eq!(number(&marked, "/metadata/deletionGracePeriodSeconds"), Some(0));

    let again = model.delete(&place, &AT_ONCE).expect("marked already");
    assert_eq!(again, Deleted::Pending(marked.clone()), "a second delete changes nothing");
    let refused = model.patch(&place, Part::Main, &finalizers(&["x", "y", "z"])).expect_err("too late");
    assert_eq!(refused.code, 422);
    model.patch(&place, Part::Main, &finalizers(&["y"])).expect("patched");
    assert!(model.get(&place).is_ok());
    model.patch(&place, Part::Main, &finalizers(&[])).expect("patched");
    assert_eq!(model.get(&place).map_err(|refusal| refusal.code), Err(404));
}

#[test]
fn a_pod_that_no_node_runs_goes_at_once() {
    let mut model = model();
    let (place, _) = made(&mut model, pod("a"));
    assert!(!is_pending(&model.delete(&place, &DeleteOptions::default()).expect("deleted")));
    assert!(model.get(&place).is_err());
}

#[test]
fn a_pod_on_a_node_waits_for_its_grace_period_which_may_only_shrink() {
    let mut model = model();
    let (place, _) = made(&mut model, pod("a"));
    bind(&mut model, &place);
    let grace = |seconds: i64| DeleteOptions { grace: Some(seconds), ..DeleteOptions::default() };
    assert!(is_pending(&model.delete(&place, &DeleteOptions::default()).expect("marked")));
    let marked = model.get(&place).expect("it waits").clone();
    assert_eq!(number(&marked, "/metadata/deletionGracePeriodSeconds"), Some(30), "the default");
    assert_eq!(text(&marked, "/metadata/deletionTimestamp"), "2026-11-18T10:00:30Z");

    model.delete(&place, &grace(60)).expect("marked already");
    assert_eq!(model.get(&place), Ok(&marked), "it may not grow");
    model.delete(&place, &grace(5)).expect("marked already");
    let shorter = model.get(&place).expect("it waits").clone();
    assert_eq!(text(&shorter, "/metadata/deletionTimestamp"), "2026-11-18T10:00:05Z");
    assert_eq!(number(&shorter, "/metadata/generation"), number(&marked, "/metadata/generation"));
    let kubelet = DeleteOptions { uid: Some(uid(&shorter).to_owned()), ..AT_ONCE };
    assert!(!is_pending(&model.delete(&place, &kubelet).expect("deleted")));
}

#[test]
fn a_pod_that_has_ended_needs_no_grace_but_its_finalizers_hold_it() {
    let mut model = model();
    let (place, _) = made(&mut model, pod("a"));
    bind(&mut model, &place);
    let ended = Patch::Merge(json!({ "status": { "phase": "Succeeded" } }));
    model.patch(&place, Part::Status, &ended).expect("patched");
    model.patch(&place, Part::Main, &finalizers(&["x"])).expect("patched");
    assert!(is_pending(&model.delete(&place, &DeleteOptions::default()).expect("marked")));
    model.patch(&place, Part::Main, &finalizers(&[])).expect("patched");
    assert!(model.get(&place).is_err());
}
