//! Who is told, and what the view makes of what it is shown.

use std::sync::Arc;

use parking_lot::Mutex;
use sandgate_follow::{Head, Sink as _};
use sandgate_objects::openkruise::resources::{Sandbox, SandboxSet};
use serde_json::{Value, json};

use super::{Controller, Kind, PodFacts, View, Viewed as _};
use crate::Key;

struct Marked {
    view: View,
    marks: Arc<Mutex<Vec<String>>>,
}

impl Marked {
    fn new() -> Self {
        let marks = Arc::new(Mutex::new(Vec::new()));
        let written = Arc::clone(&marks);
        let view = View::new(Box::new(move |controller, key, _| {
            let kind = match controller {
                Controller::Sandbox => "sandbox",
                Controller::SandboxSet => "set",
                Controller::BatchSandbox => "batch",
                Controller::Pool => "pool",
                Controller::SandboxSnapshot => "snapshot",
                Controller::SandboxEnv | Controller::EnvPool | Controller::PoolAdoption => "environment",
            };
            written.lock().push(format!("{kind} {}", key.name));
        }));
        Self { view, marks }
    }

    fn marks(&self) -> Vec<String> {
        std::mem::take(&mut self.marks.lock())
    }

    fn show(&self, kind: Kind, object: &Value) -> Vec<String> {
        self.view.observe_json(kind, object.to_string().as_bytes()).unwrap();
        self.marks()
    }
}

fn object(name: &str, version: u64) -> Value {
    json!({
        "metadata": {
            "name": name, "namespace": "n", "uid": format!("uid-{name}"), "resourceVersion": version.to_string(),
        },
        "spec": {},
    })
}

fn owned(mut object: Value, kind: &str, name: &str) -> Value {
    object["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "agents.kruise.io/v1alpha1", "kind": kind, "name": name, "uid": format!("uid-{name}"),
        "controller": true,
    }]);
    object
}

fn set(name: &str, version: u64) -> Value {
    let mut set = object(name, version);
    set["spec"] = json!({"replicas": 1});
    set
}

#[test]
fn a_sandbox_wakes_itself_and_its_set_and_a_claim_wakes_the_set_that_it_left() {
    let marked = Marked::new();
    assert_eq!(marked.show(Kind::Sandbox, &owned(object("s", 5), "SandboxSet", "p")), ["sandbox s", "set p"]);
    let mut same = owned(object("s", 6), "SandboxSet", "p");
    same["metadata"]["annotations"] = json!({"x": "y"});
    assert_eq!(marked.show(Kind::Sandbox, &same), ["sandbox s"], "nothing that the set counts by");
    assert_eq!(marked.show(Kind::Sandbox, &object("s", 7)), ["sandbox s", "set p"]);
    assert_eq!(marked.show(Kind::Sandbox, &object("s", 8)), ["sandbox s"]);
}

#[test]
fn what_was_seen_before_wakes_nobody() {
    let marked = Marked::new();
    marked.show(Kind::Sandbox, &object("s", 5));
    assert_eq!(marked.show(Kind::Sandbox, &object("s", 5)), Vec::<String>::new());
    assert_eq!(marked.show(Kind::Sandbox, &object("s", 4)), Vec::<String>::new());
}

#[test]
fn a_pod_wakes_the_sandbox_of_its_name_whoever_owns_it() {
    let marked = Marked::new();
    assert_eq!(marked.show(Kind::Pod, &owned(object("s", 5), "Sandbox", "s")), ["sandbox s"]);
    let key = Key::new("n", "s");
    marked.view.deleted(Kind::Pod, &key, "uid-s", &"6".parse().unwrap());
    assert_eq!(marked.marks(), ["sandbox s"]);
    assert_eq!(marked.show(Kind::Pod, &object("s", 7)), ["sandbox s"]);
}

#[test]
fn a_template_wakes_whoever_names_it_and_nobody_else() {
    let marked = Marked::new();
    let mut sandbox = object("s", 5);
    sandbox["spec"] = json!({"templateRef": {"name": "t"}});
    let mut pool = set("p", 6);
    pool["spec"]["templateRef"] = json!({"name": "t"});
    marked.show(Kind::Sandbox, &sandbox);
    marked.show(Kind::SandboxSet, &pool);
    assert_eq!(marked.show(Kind::SandboxTemplate, &object("t", 7)), ["sandbox s", "set p"]);
    assert_eq!(marked.show(Kind::SandboxTemplate, &object("u", 8)), Vec::<String>::new());
    marked.show(Kind::Sandbox, &object("s", 9));
    assert_eq!(marked.show(Kind::SandboxTemplate, &object("t", 10)), ["set p"]);
    marked.view.deleted(Kind::SandboxTemplate, &Key::new("n", "t"), "uid-t", &"11".parse().unwrap());
    assert_eq!(marked.marks(), ["set p"]);
    assert_eq!(marked.show(Kind::SandboxTemplate, &owned(object("p-1", 12), "SandboxSet", "p")), ["set p"]);
}

#[test]
fn a_malformed_object_takes_itself_out_and_nothing_else() {
    let marked = Marked::new();
    marked.show(Kind::Sandbox, &object("s", 5));
    let mut feed = marked.view.feed::<Sandbox>();
    let mut bad = object("s", 6);
    bad["spec"]["paused"] = json!("yes");
    assert!(feed.decode(bad.to_string().as_bytes()).is_err());
    for missing in ["name", "namespace", "uid", "resourceVersion"] {
        let mut object = object("s", 6);
        object["metadata"].as_object_mut().unwrap().remove(missing);
        assert!(Sandbox::read(object.to_string().as_bytes()).is_err(), "{missing}");
    }
    let head = Head {
        namespace: "n".to_owned(),
        name: "s".to_owned(),
        version: "6".parse().ok(),
        uid: Some("uid-s".to_owned()),
    };
    feed.deleted(&head).unwrap();
    assert!(marked.view.get::<Sandbox>(&Key::new("n", "s")).is_none());
    assert_eq!(marked.marks(), ["sandbox s"]);
}

#[test]
fn the_view_is_ready_when_every_kind_has_been_listed() {
    let marked = Marked::new();
    let version = "3".parse().unwrap();
    let kinds = [Kind::Sandbox, Kind::SandboxSet, Kind::SandboxTemplate, Kind::Pod];
    for kind in [Kind::Sandbox, Kind::SandboxSet, Kind::SandboxTemplate] {
        marked.view.listed(kind, &version);
        assert!(!marked.view.synced(&kinds));
    }
    let mut feed = marked.view.feed::<PodFacts>();
    feed.begin();
    feed.commit(&version);
    assert!(marked.view.synced(&kinds));
    assert!(!marked.view.synced(&[Kind::Pool]));
}

#[test]
fn a_name_that_was_asked_for_counts_until_the_sandbox_is_seen_or_the_set_is_gone() {
    let marked = Marked::new();
    marked.show(Kind::SandboxSet, &set("p", 5));
    let (uid, revision): (Arc<str>, Arc<str>) = ("uid-p".into(), "r".into());
    let now = jiff::Timestamp::UNIX_EPOCH;
    let reserved = || marked.view.members("uid-p", "r", now, 1, 0).reserved.len();
    for name in ["a", "b", "c"] {
        assert!(marked.view.reserve(&uid, &Key::new("n", name), &revision));
    }
    assert!(!marked.view.reserve(&uid, &Key::new("n", "a"), &revision), "it is asked for already");
    assert_eq!(reserved(), 3);
    marked.show(Kind::Sandbox, &object("a", 6));
    assert_eq!(reserved(), 2, "it was seen, if only after it had been claimed");
    assert!(!marked.view.reserve(&uid, &Key::new("n", "a"), &revision), "it is there");
    marked.view.release(&Key::new("n", "b"));
    assert_eq!(reserved(), 1);
    marked.view.deleted(Kind::SandboxSet, &Key::new("n", "p"), "uid-p", &"9".parse().unwrap());
    assert_eq!(reserved(), 0);
    assert!(marked.view.get::<SandboxSet>(&Key::new("n", "p")).is_none());
}

#[test]
fn a_strangers_pod_is_not_kept_as_nobody_would_tell_of_its_end() {
    let marked = Marked::new();
    let read = |object: &Value| Arc::new(PodFacts::read(object.to_string().as_bytes()).unwrap());
    let mut pod = object("s", 5);
    marked.view.answered(&read(&pod));
    assert!(marked.view.get::<PodFacts>(&Key::new("n", "s")).is_none());
    pod["metadata"]["labels"] = json!({"agents.kruise.io/created-by": "sandbox"});
    marked.view.answered(&read(&pod));
    assert!(marked.view.get::<PodFacts>(&Key::new("n", "s")).is_some());
}

#[test]
fn a_pod_is_read_with_what_its_containers_wait_for() {
    let pod = json!({
        "metadata": {
            "name": "s", "namespace": "n", "uid": "u", "resourceVersion": "5",
            "managedFields": [{"manager": "x"}], "deletionTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {"nodeName": "a", "containers": [{"name": "c", "image": "i", "resources": {}}]},
        "status": {
            "phase": "Pending", "podIP": "",
            "conditions": [{"type": "PodResizeInProgress", "status": "True"}],
            "containerStatuses": [{
                "name": "c", "image": "", "state": {"waiting": {"reason": "ErrImagePull", "message": "no"}},
            }],
        },
    });
    let pod = PodFacts::read(pod.to_string().as_bytes()).unwrap();
    assert!(pod.is_deleting && !pod.is_ready);
    assert_eq!((pod.ip.as_deref(), pod.node.as_deref()), (None, Some("a")));
    assert_eq!(pod.resize, super::Resize::Underway);
    assert_eq!(pod.containers[0].waiting.as_deref(), Some("ErrImagePull"));
    assert_eq!(pod.containers[0].running_image, None);
}

#[test]
fn a_look_at_a_set_is_given_only_the_children_that_may_be_too_many() {
    let marked = Marked::new();
    let count = 5;
    for number in 0..count {
        let child = owned(object(&format!("c{number}"), 10 + number), "SandboxSet", "p");
        marked.show(Kind::Sandbox, &child);
    }
    let count = usize::try_from(count).unwrap();
    let now = jiff::Timestamp::UNIX_EPOCH;
    for (wanted, limit, given) in [(count, 9, 0), (count + 1, 9, 0), (count - 2, 9, 2), (0, 9, 5), (0, 3, 3)]
    {
        let members = marked.view.members("uid-p", "", now, limit, wanted);
        assert_eq!((members.counts.all(), members.new_creating.len()), (count, given), "{wanted} wanted");
        // Of another revision all may have to go.
        let members = marked.view.members("uid-p", "other", now, limit, wanted);
        assert_eq!(members.old_creating.len(), count.min(limit), "{wanted} wanted");
    }
}
