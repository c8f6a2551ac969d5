//! Indexes and reads.

use std::sync::Arc;

use jiff::SignedDuration;
use sandgate_follow::{Head, Sink as _};
use sandgate_objects::openkruise::resources::{Checkpoint, PodTemplate, SandboxFacts, SandboxSet};
use serde_json::{Value, json};

use crate::testing::{TestCache, claimed, key, running, set, stock};
use crate::{Kind, PvcFacts, ReadError, Seen};

fn names<T>(found: &[Arc<Seen<T>>]) -> Vec<String> {
    found.iter().map(|seen| seen.key.to_string()).collect()
}

fn within(namespace: &str, mut object: Value) -> Value {
    object["metadata"]["namespace"] = namespace.into();
    let name = object["metadata"]["name"].as_str().unwrap().to_owned();
    object["metadata"]["uid"] = format!("uid-{namespace}-{name}").into();
    object
}

fn labelled(mut object: Value, label: &str, value: &str) -> Value {
    object["metadata"]["labels"][format!("agents.kruise.io/{label}")] = value.into();
    object
}

fn annotated(mut object: Value, annotation: &str, value: &str) -> Value {
    object["metadata"]["annotations"][format!("agents.kruise.io/{annotation}")] = value.into();
    object
}

fn phased(mut object: Value, phase: &str) -> Value {
    object["status"]["phase"] = phase.into();
    object
}

fn deleting(mut object: Value) -> Value {
    object["metadata"]["deletionTimestamp"] = crate::testing::EPOCH.into();
    object
}

fn checkpoint(name: &str, owner: &str, id: &str) -> Value {
    let status = if id.is_empty() { json!({}) } else { json!({"phase": "Succeeded", "checkpointId": id}) };
    json!({
        "metadata": {"name": name, "annotations": {"agents.kruise.io/owner": owner}},
        "spec": {"sandboxName": "s"}, "status": status,
    })
}

#[test]
fn a_claimed_sandbox_is_found_by_its_label_or_else_by_its_name_and_by_nothing_else() {
    let test = TestCache::new();
    let mut unlabelled = claimed("old", "ada", "");
    unlabelled["metadata"]["labels"].as_object_mut().unwrap().remove("agents.kruise.io/sandbox-id");
    test.show::<SandboxFacts>(&unlabelled);
    assert_eq!(&*test.claimed(None, "default--old").unwrap().key.name, "old");
    test.show::<SandboxFacts>(&claimed("old", "ada", "short"));
    assert_eq!(&*test.claimed(None, "short").unwrap().key.name, "old");
    assert_eq!(test.claimed(None, "default--old").unwrap_err(), ReadError::NotFound, "the alias is gone");
    test.show::<SandboxFacts>(&claimed("old", "ada", "other"));
    assert_eq!(test.claimed(None, "short").unwrap_err(), ReadError::NotFound, "it moved with the label");
    assert!(test.claimed(Some("default"), "other").is_ok());
    assert_eq!(test.claimed(Some("elsewhere"), "other").unwrap_err(), ReadError::NotFound);
    assert_eq!(test.claimed(None, "unknown").unwrap_err(), ReadError::NotFound);
    test.show::<SandboxFacts>(&running("unclaimed"));
    assert_eq!(test.claimed(None, "default--unclaimed").unwrap_err(), ReadError::NotFound);
}

#[test]
fn an_id_that_two_sandboxes_claim_is_nobodys_until_one_of_them_goes() {
    let test = TestCache::new();
    test.show::<SandboxFacts>(&claimed("a", "ada", "same"));
    let second = test.show::<SandboxFacts>(&within("two", claimed("b", "ada", "same")));
    assert_eq!(test.claimed(None, "same").unwrap_err(), ReadError::Ambiguous);
    assert_eq!(&*test.claimed(Some("two"), "same").unwrap().key.name, "b", "a namespace may decide");
    test.end(&second);
    assert_eq!(&*test.claimed(None, "same").unwrap().key.name, "a");
}

#[test]
fn checkpoints_are_found_by_id_and_owner_in_a_namespace_or_in_all() {
    let test = TestCache::new();
    test.show::<Checkpoint>(&within("a", checkpoint("x", "ada", "c1")));
    test.show::<Checkpoint>(&within("b", checkpoint("y", "ada", "c1")));
    test.show::<Checkpoint>(&within("b", checkpoint("z", "bob", "")));
    let found = |namespace, id| test.checkpoint(namespace, id).map(|seen| seen.key.to_string());
    assert_eq!(found(Some("a"), "c1").as_deref(), Some("a/x"));
    assert_eq!(found(Some("b"), "c1").as_deref(), Some("b/y"));
    assert_eq!(found(None, "c1").as_deref(), Some("a/x"), "the first of several");
    assert_eq!(found(Some("c"), "c1"), None);
    assert_eq!(found(None, "unknown"), None);
    assert_eq!(found(None, ""), None, "one without an ID has none");
    assert_eq!(names(&test.checkpoints(None, Some("ada"))), ["a/x", "b/y"]);
    assert_eq!(names(&test.checkpoints(Some("b"), Some("ada"))), ["b/y"]);
    assert_eq!(names(&test.checkpoints(None, None)), ["a/x", "b/y", "b/z"]);
    assert_eq!(names(&test.checkpoints(Some("b"), None)), ["b/y", "b/z"]);
}

#[test]
fn sets_are_found_by_name_in_a_namespace_or_in_all() {
    let test = TestCache::new();
    assert!(test.sets(None).is_empty());
    for (namespace, name) in [("a", "p"), ("b", "p"), ("b", "q")] {
        test.show::<SandboxSet>(&within(namespace, set(name, 1)));
    }
    assert_eq!(names(&test.sets(None)), ["a/p", "b/p", "b/q"]);
    assert_eq!(names(&test.sets(Some("b"))), ["b/p", "b/q"]);
    assert!(test.sets(Some("c")).is_empty());
    let found = |namespace, name| test.set(namespace, name).map(|seen| seen.key.to_string());
    assert_eq!(found(Some("a"), "p").as_deref(), Some("a/p"));
    assert_eq!(found(Some("b"), "p").as_deref(), Some("b/p"));
    assert_eq!(found(None, "p").as_deref(), Some("a/p"));
    assert_eq!(found(None, "q").as_deref(), Some("b/q"));
    assert_eq!(found(Some("a"), "q"), None);
}

#[test]
fn sandboxes_are_listed_by_owner_and_namespace_without_those_kept_for_inspection() {
    let test = TestCache::new();
    test.show::<SandboxFacts>(&within("a", claimed("one", "ada", "i1")));
    test.show::<SandboxFacts>(&within("b", claimed("two", "ada", "i2")));
    test.show::<SandboxFacts>(&within("b", claimed("bobs", "bob", "i3")));
    test.show::<SandboxFacts>(&within(
        "b",
        labelled(claimed("bad", "ada", "i4"), "reserved-failed-sandbox", "true"),
    ));
    test.show::<SandboxFacts>(&within("b", deleting(claimed("going", "ada", "i5"))));
    assert_eq!(names(&test.sandboxes(None, Some("ada"))), ["a/one", "b/going", "b/two"]);
    assert_eq!(names(&test.sandboxes(Some("b"), Some("ada"))), ["b/going", "b/two"]);
    assert_eq!(names(&test.sandboxes(Some("b"), None)), ["b/bobs", "b/going", "b/two"]);
    assert_eq!(test.count_active(None, Some("ada")), 2);
    assert_eq!(test.count_active(Some("b"), Some("ada")), 1);
    assert_eq!(test.count_active(None, Some("nobody")), 0);
    assert_eq!(test.count_active(None, None), 3);
}

#[test]
fn what_counts_for_a_quota_holds_resources_or_will_again() {
    let test = TestCache::new();
    let mine = |name: &str| claimed(name, "ada", name);
    test.show::<SandboxFacts>(&mine("running"));
    test.show::<SandboxFacts>(&phased(mine("failed"), "Failed"));
    test.show::<SandboxFacts>(&phased(mine("succeeded"), "Succeeded"));
    test.show::<SandboxFacts>(&annotated(mine("unlocked"), "lock", ""));
    test.show::<SandboxFacts>(&phased(mine("terminating"), "Terminating"));
    test.show::<SandboxFacts>(&phased(mine("recycling"), "Recycling"));
    test.show::<SandboxFacts>(&deleting(mine("deleting")));
    test.show::<SandboxFacts>(&annotated(
        annotated(mine("cleaned"), "cleanup", "true"),
        "cleanup-enabled",
        "true",
    ));
    test.show::<SandboxFacts>(&annotated(mine("kept"), "cleanup", "true"));
    let expected =
        ["failed", "kept", "running", "succeeded", "unlocked"].map(|name| format!("default/{name}"));
    assert_eq!(names(&test.live_of("ada")), expected);
    assert!(test.live_of("").is_empty());
}

#[test]
fn a_pool_has_what_is_available_or_in_creation_and_nothing_claimed() {
    let test = TestCache::new();
    test.show::<SandboxFacts>(&within("a", stock("ready", "p")));
    test.show::<SandboxFacts>(&within("a", phased(stock("pending", "p"), "Pending")));
    test.show::<SandboxFacts>(&within("b", stock("other", "p")));
    test.show::<SandboxFacts>(&within("a", phased(stock("dead", "p"), "Failed")));
    test.show::<SandboxFacts>(&within("a", deleting(stock("going", "p"))));
    test.show::<SandboxFacts>(&within("a", claimed("taken", "ada", "i")));
    assert_eq!(names(&test.in_pool(None, "p")), ["a/pending", "a/ready", "b/other"]);
    assert_eq!(names(&test.in_pool(Some("a"), "p")), ["a/pending", "a/ready"]);
    assert_eq!(names(&test.available(Some("a"), "p", None, 9)), ["a/ready"]);
    assert_eq!(test.available(None, "p", None, 9).len(), 2);
    assert_eq!(test.available(None, "p", None, 1).len(), 1);
    assert!(test.in_pool(None, "unknown").is_empty());
}

#[test]
fn what_is_locked_or_has_no_address_cannot_be_claimed() {
    let test = TestCache::new();
    test.show::<SandboxFacts>(&annotated(stock("locked", "p"), "lock", "somebody"));
    let mut nowhere = stock("nowhere", "p");
    nowhere["status"]["podInfo"]["podIP"] = "0.0.0.0".into();
    test.show::<SandboxFacts>(&nowhere);
    assert!(test.available(None, "p", None, 9).is_empty());
    assert_eq!(test.in_pool(None, "p").len(), 2);
    test.show::<SandboxFacts>(&stock("locked", "p"));
    assert_eq!(names(&test.available(None, "p", None, 9)), ["default/locked"]);
}

#[test]
fn a_pool_is_found_by_its_set_and_by_the_template_that_the_set_refers_to() {
    let test = TestCache::new();
    test.show::<SandboxFacts>(&labelled(stock("s", "the-set"), "sandbox-template", "the-template"));
    assert_eq!(test.available(None, "the-set", None, 9).len(), 1);
    assert_eq!(test.available(None, "the-template", None, 9).len(), 1);
    let unlabelled = labelled(stock("t", "p"), "sandbox-template", "");
    test.show::<SandboxFacts>(&unlabelled);
    assert_eq!(test.available(None, "p", None, 9).len(), 1);
    test.show::<SandboxFacts>(&claimed("s", "ada", "i"));
    test.show::<SandboxFacts>(&claimed("t", "ada", "j"));
    assert!(test.shared.inner.read().pools.is_empty(), "nothing is left behind");
}

/// The pool depends on the time, and nobody sends an event when it passes.
#[test]
fn a_sandbox_leaves_its_pool_when_its_time_has_passed_without_an_event() {
    let test = TestCache::new();
    let mut ends = stock("s", "p");
    ends["spec"]["shutdownTime"] = "2026-01-01T00:01:00Z".into();
    test.show::<SandboxFacts>(&ends);
    // One that has no end, and one that ends later, in another namespace.
    test.show::<SandboxFacts>(&stock("t", "p"));
    ends["spec"]["shutdownTime"] = "2026-01-01T00:02:00Z".into();
    test.show::<SandboxFacts>(&within("later", ends.clone()));
    let counts = || {
        let of = |namespace| test.count_available(namespace, "p");
        let members = test.in_pool(Some("default"), "p").len();
        (members, test.available(Some("default"), "p", None, 9).len(), of(Some("default")), of(None))
    };
    test.advance(SignedDuration::from_secs(60));
    assert_eq!(counts(), (2, 2, 2, 3), "it ends after its time, not at it");
    test.advance(SignedDuration::from_secs(1));
    assert_eq!(counts(), (1, 1, 1, 2));
    assert!(test.pick(Some("default"), "p", None, 0, |seen| seen.key == key("s")).is_none());
    ends["spec"]["shutdownTime"] = "2026-01-01T02:00:00Z".into();
    test.show::<SandboxFacts>(&ends);
    assert_eq!(counts(), (2, 2, 2, 3), "its time was extended");
    assert_eq!(test.count_active(Some("default"), None), 2);
    test.advance(SignedDuration::from_hours(3));
    assert_eq!(test.count_active(Some("default"), None), 1);
    ends["spec"]["shutdownTime"] = Value::Null;
    test.show::<SandboxFacts>(&ends);
    assert_eq!(counts(), (2, 2, 2, 2), "it has no end any more");
}

#[test]
fn candidates_of_the_wanted_revision_come_first_and_each_start_gives_another_order_of_all() {
    let test = TestCache::new();
    for number in 0..20 {
        let revision = if number % 2 == 0 { "r1" } else { "r2" };
        test.show::<SandboxFacts>(&labelled(stock(&format!("s{number}"), "p"), "template-hash", revision));
    }
    let order = |start| names(&test.available_from(None, "p", Some("r2"), start, 99));
    let first = order(0);
    assert_eq!(first.len(), 20);
    let revision = |name: &String| name["default/s".len()..].parse::<u32>().unwrap() % 2;
    assert!(
        first[..10].iter().all(|name| revision(name) == 1)
            && first[10..].iter().all(|name| revision(name) == 0)
    );
    let other = order(u64::MAX / 2);
    assert_ne!(first, other);
    let sorted = |mut names: Vec<String>| {
        names.sort();
        names
    };
    assert_eq!(sorted(first.clone()), sorted(other));
    let second = test.pick(None, "p", Some("r2"), 0, |seen| seen.key.to_string() != first[0]).unwrap();
    assert_eq!(second.key.to_string(), first[1]);
    assert_eq!(test.count_available(None, "p"), 20);
}

#[test]
fn volume_claims_are_found_by_owner_and_volume() {
    let test = TestCache::new();
    let pvc = |name: &str, volume: &str| {
        json!({
            "metadata": {"name": name, "annotations": {"agents.kruise.io/owner": "ada"}},
            "spec": {"volumeName": volume}, "status": {"phase": "Bound"},
        })
    };
    test.show::<PvcFacts>(&pvc("x", "v1"));
    test.show::<PvcFacts>(&pvc("y", ""));
    assert_eq!(names(&test.pvcs(None, Some("ada"))), ["default/x", "default/y"]);
    assert_eq!(test.pvcs(Some("elsewhere"), None).len(), 0);
    assert_eq!(&*test.volume(None, "v1").unwrap().key.name, "x");
    assert!(test.volume(None, "").is_none());
}

#[test]
fn what_this_process_wrote_is_never_shown_older_and_what_it_deleted_stays_gone() {
    let test = TestCache::new();
    let old = test.show::<SandboxFacts>(&claimed("s", "ada", "i"));
    let mine = test.answer::<SandboxFacts>(&claimed("s", "ada", "j"));
    assert!(test.claimed(None, "j").is_ok() && test.claimed(None, "i").is_err());
    let mut late = claimed("s", "ada", "i");
    late["metadata"]["resourceVersion"] = old.version.to_string().into();
    test.show::<SandboxFacts>(&late);
    assert_eq!(test.get::<SandboxFacts>(&key("s")).unwrap().version, mine.version, "the watch is behind");
    test.deleted_by_us::<SandboxFacts>(&mine.key, &mine.uid);
    test.show::<SandboxFacts>(&claimed("s", "ada", "i"));
    assert!(test.get::<SandboxFacts>(&key("s")).is_none());
    assert!(test.claimed(None, "i").is_err() && test.sandboxes(None, Some("ada")).is_empty());
}

#[test]
fn a_relist_ends_what_it_does_not_name_in_every_index() {
    let test = TestCache::new();
    test.show::<SandboxFacts>(&claimed("s", "ada", "i"));
    test.show::<SandboxFacts>(&stock("t", "p"));
    let mut feed = test.feed::<SandboxFacts>();
    feed.begin();
    let kept = Head { namespace: "default".into(), name: "no".into(), version: None, uid: None };
    feed.deleted(&kept).unwrap();
    assert_eq!(feed.commit(&test.next_version()).deleted, 2);
    assert_eq!(test.count(Kind::Sandbox), 0);
    let inner = test.shared.inner.read();
    assert!(inner.pools.is_empty());
    assert_eq!((inner.ids.len(), inner.owners.len(), inner.sharing.templates()), (0, 0, 0));
}

#[test]
fn equal_pod_templates_are_one_text_whoever_brings_them() {
    let test = TestCache::new();
    let templated = |name: &str| {
        let mut sandbox = stock(name, "p");
        sandbox["spec"]["template"] = json!({"spec": {"containers": [{"name": "c", "image": "i"}]}});
        sandbox
    };
    test.show::<SandboxFacts>(&templated("a"));
    test.show::<SandboxFacts>(&templated("b"));
    test.answer::<SandboxFacts>(&templated("c"));
    let text = |name: &str| {
        let seen = test.get::<SandboxFacts>(&key(name)).unwrap();
        let template: &PodTemplate = seen.template.as_ref().unwrap();
        template.get().as_ptr()
    };
    assert_eq!(text("a"), text("b"));
    assert_eq!(text("a"), text("c"));
    // A claim gives labels to the pod, and these are the one thing in which the templates differ.
    for name in ["d", "e"] {
        let mut sandbox = templated(name);
        sandbox["spec"]["template"]["metadata"]["labels"] = json!({
            "agents.kruise.io/owner": name, "agents.kruise.io/sandbox-name": name,
            "agents.kruise.io/allow-internet-access": "true",
        });
        test.show::<SandboxFacts>(&sandbox);
    }
    assert_eq!(text("d"), text("e"));
    assert_eq!(test.shared.inner.read().sharing.templates(), 2, "unclaimed ones have no labels at all");
    let name = |name: &str| {
        let seen = test.get::<SandboxFacts>(&key(name)).unwrap();
        seen.labels.names().next().unwrap().as_ptr()
    };
    assert_eq!(name("a"), name("c"), "the name of a label is one text too");
}

#[test]
fn what_nobody_reads_is_not_kept_whoever_brings_it() {
    let test = TestCache::new();
    let mut sandbox = running("s");
    sandbox["status"]["podInfo"] = json!({"podIP": "10.0.0.1", "nodeName": "n", "labels": {"a": "b"}});
    sandbox["metadata"]["annotations"] = json!({
        "kept": "yes", "kubectl.kubernetes.io/last-applied-configuration": "{}",
    });
    for answered in [false, true] {
        if answered {
            test.answer::<SandboxFacts>(&sandbox)
        } else {
            test.show::<SandboxFacts>(&sandbox)
        };
        let seen = test.get::<SandboxFacts>(&key("s")).unwrap();
        assert_eq!(&*seen.pod_ip, "10.0.0.1");
        assert_eq!(seen.annotations.iter().collect::<Vec<_>>(), [("kept", "yes")]);
    }
}
