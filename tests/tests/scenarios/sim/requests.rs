//! Requests, chosen at random, for two servers that give different versions and UIDs to the same object.

use http::Request;
use sandgate_sim::Random;
use sandgate_sim::model::{Kind, object};
use serde_json::{Value, json};

const NAMES: [&str; 2] = ["first", "second"];
const ANOTHER_UID: &str = "00000000-0000-0000-0000-000000000000";

/// What a client of one server knows of an object.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// As it is; null if there is none.
    now: Value,
    /// A version that it had before.
    older: Option<String>,
}

impl Known {
    /// Takes in what a read has shown, and says whether the object has changed.
    pub(super) fn observe(&mut self, read: &Value) -> bool {
        let now = if read["kind"] == "Status" { Value::Null } else { read.clone() };
        let version = |of: &Value| object::text(of, "/metadata/resourceVersion").to_owned();
        let changed = version(&self.now) != version(&now);
        if changed && !self.now.is_null() {
            self.older = Some(version(&self.now));
        }
        self.now = now;
        changed
    }
}

/// What a request carries to be refused when the object is another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    Nothing,
    Right,
    Wrong,
}

const HELD: [Held; 4] = [Held::Nothing, Held::Right, Held::Right, Held::Wrong];

/// What a request changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Nothing,
    Label(&'static str),
    Spec(bool),
    Status(&'static str),
    Finalizers(&'static [&'static str]),
    /// Something that nobody may change.
    Forbidden,
    /// Two owners, both of which control.
    Owners,
}

const CHANGES: [Change; 12] = [
    Change::Nothing,
    Change::Label("a"),
    Change::Label("b"),
    Change::Spec(true),
    Change::Spec(false),
    Change::Status("Running"),
    Change::Status("Failed"),
    Change::Finalizers(&[]),
    Change::Finalizers(&["example.com/one"]),
    Change::Finalizers(&["example.com/one", "example.com/two"]),
    Change::Forbidden,
    Change::Owners,
];

#[derive(Clone, Copy, Debug)]
enum Action {
    Create { finalized: bool, on_node: bool },
    Replace { change: Change, version: Held, uid: Held, status: bool },
    Merge { change: Change, version: Held, uid: Held, status: bool, strategic: bool },
    JsonPatch { version: Held },
    Delete { version: Held, uid: Held, grace: Option<i64> },
}

/// A request, in words that mean the same for both servers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish {
    /// Which of the objects.
    pub(super) object: usize,
    action: Action,
}

impl Wish {
    pub(super) fn choose(kind: &Kind, random: &mut Random) -> Self {
        let status = |random: &mut Random| kind.status && random.chance(300);
        let action = match random.below(12) {
            0..3 => Action::Create { finalized: random.chance(300), on_node: random.chance(600) },
            3..5 => Action::Replace {
                change: *random.pick(&CHANGES),
                version: *random.pick(&HELD),
                uid: *random.pick(&HELD),
                status: status(random),
            },
            5..9 => Action::Merge {
                change: *random.pick(&CHANGES),
                version: *random.pick(&HELD),
                uid: *random.pick(&HELD),
                status: status(random),
                strategic: random.chance(300),
            },
            9 => Action::JsonPatch { version: *random.pick(&HELD) },
            _ => Action::Delete {
                version: *random.pick(&HELD),
                uid: *random.pick(&HELD),
                grace: *random.pick(&[None, None, Some(0), Some(5), Some(60)]),
            },
        };
        Self { object: random.below(NAMES.len()), action }
    }

    /// The request to a server, by one who knows this of the object there.
    pub(super) fn request(&self, kind: &Kind, namespace: &str, known: &Known) -> Request<Vec<u8>> {
        let name = NAMES[self.object];
        let at = path(kind, namespace, name);
        let sub = |status: bool| if status { format!("{at}/status") } else { at.clone() };
        match self.action {
            Action::Create { finalized, on_node } => {
                let at = path(kind, namespace, "");
                let mut object = fresh(kind, name, on_node);
                if finalized {
                    object["metadata"]["finalizers"] = json!(["example.com/one"]);
                }
                send("POST", at.trim_end_matches('/'), "application/json", &object)
            }
            Action::Replace { change, version, uid, status } => {
                let mut object =
                    if known.now.is_null() { fresh(kind, name, false) } else { known.now.clone() };
                json_merge(&mut object, &change_of(kind, change));
                hold(&mut object, known, version, uid);
                send("PUT", &sub(status), "application/json", &object)
            }
            Action::Merge { change, version, uid, status, strategic } => {
                let mut patch = change_of(kind, change);
                hold(&mut patch, known, version, uid);
                let way = if strategic { "strategic-merge" } else { "merge" };
                send("PATCH", &sub(status), &format!("application/{way}-patch+json"), &patch)
            }
            Action::JsonPatch { version } => {
                let mut steps =
                    vec![json!({ "op": "add", "path": "/metadata/labels", "value": { "json": "patch" } })];
                if version != Held::Nothing {
                    let value = held_version(known, version).unwrap_or_default();
                    steps.insert(
                        0,
                        json!({ "op": "test", "path": "/metadata/resourceVersion", "value": value }),
                    );
                }
                send("PATCH", &at, "application/json-patch+json", &json!(steps))
            }
            Action::Delete { version, uid, grace } => {
                let mut preconditions = json!({});
                if let Some(version) = held_version(known, version) {
                    preconditions["resourceVersion"] = json!(version);
                }
                if let Some(uid) = held_uid(known, uid) {
                    preconditions["uid"] = json!(uid);
                }
                let mut options = json!({ "kind": "DeleteOptions", "apiVersion": "v1" });
                options["preconditions"] = preconditions;
                options["gracePeriodSeconds"] = json!(grace);
                options["propagationPolicy"] = json!("Background");
                send("DELETE", &at, "application/json", &options)
            }
        }
    }
}

fn held_version(known: &Known, held: Held) -> Option<String> {
    let now = || known.now.pointer("/metadata/resourceVersion").and_then(Value::as_str).map(str::to_owned);
    match held {
        Held::Nothing => None,
        Held::Right => now(),
        Held::Wrong => known.older.clone().or_else(|| Some("1".to_owned())),
    }
}

fn held_uid(known: &Known, held: Held) -> Option<String> {
    match held {
        Held::Nothing => None,
        Held::Right => known.now.pointer("/metadata/uid").and_then(Value::as_str).map(str::to_owned),
        Held::Wrong => Some(ANOTHER_UID.to_owned()),
    }
}

fn hold(object: &mut Value, known: &Known, version: Held, uid: Held) {
    let mut set = |field: &str, value: Option<String>| match value {
        Some(value) => object["metadata"][field] = json!(value),
        None => {
            object
                .pointer_mut("/metadata")
                .and_then(Value::as_object_mut)
                .and_then(|fields| fields.remove(field));
        }
    };
    set("resourceVersion", held_version(known, version));
    set("uid", held_uid(known, uid));
}

fn change_of(kind: &Kind, change: Change) -> Value {
    let owner = |uid: &str| json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid, "controller": true });
    match change {
        Change::Nothing => json!({}),
        Change::Label(value) => json!({ "metadata": { "labels": { "label": value } } }),
        Change::Spec(on) => match kind.plural {
            "pods" => {
                json!({ "spec": { "containers": [{ "name": "main", "image": if on { "a" } else { "b" } }] } })
            }
            "configmaps" => json!({ "data": { "on": on.to_string() } }),
            "batchsandboxes" => json!({ "spec": { "pause": on } }),
            "jobs" => json!({ "spec": { "suspend": on } }),
            _ => json!({ "spec": { "paused": on } }),
        },
        Change::Status(phase) if kind.status => match kind.plural {
            // Its phases are others.
            "batchsandboxes" if phase == "Running" => json!({ "status": { "phase": "Succeed" } }),
            "jobs" => json!({ "status": { "active": phase.len() } }),
            _ => json!({ "status": { "phase": phase } }),
        },
        Change::Status(_) => json!({}),
        Change::Finalizers(finalizers) => json!({ "metadata": { "finalizers": finalizers } }),
        Change::Forbidden => match kind.plural {
            "pods" => json!({ "spec": { "nodeName": "another" } }),
            _ => json!({ "metadata": { "name": "another" } }),
        },
        Change::Owners => json!({ "metadata": { "ownerReferences": [owner("1"), owner("2")] } }),
    }
}

fn fresh(kind: &Kind, name: &str, on_node: bool) -> Value {
    let mut object =
        json!({ "apiVersion": kind.api_version(), "kind": kind.kind, "metadata": { "name": name } });
    match kind.plural {
        "pods" => {
            object["spec"] = json!({ "containers": [{ "name": "main", "image": "a" }] });
            if on_node {
                object["spec"]["nodeName"] = json!("node");
            }
        }
        "configmaps" => object["data"] = json!({ "on": "false" }),
        "batchsandboxes" => object["spec"] = json!({ "pause": false, "poolRef": "pool" }),
        "jobs" => {
            let containers = json!([{ "name": "main", "image": "a" }]);
            let template = json!({ "spec": { "containers": containers, "restartPolicy": "Never" } });
            object["spec"] = json!({ "suspend": false, "template": template });
            // A Job without labels gets some.
            object["metadata"]["labels"] = json!({ "label": "mine" });
        }
        _ => object["spec"] = json!({ "paused": false }),
    }
    object
}

fn json_merge(object: &mut Value, patch: &Value) {
    match (object, patch) {
        (Value::Object(object), Value::Object(patch)) => {
            for (field, value) in patch {
                json_merge(object.entry(field).or_insert(Value::Null), value);
            }
        }
        (object, patch) => *object = patch.clone(),
    }
}

fn path(kind: &Kind, namespace: &str, name: &str) -> String {
    let root = if kind.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", kind.group) };
    format!("{root}/{}/namespaces/{namespace}/{}/{name}", kind.version, kind.plural)
}

fn send(method: &str, path: &str, content_type: &str, body: &Value) -> Request<Vec<u8>> {
    let request = Request::builder().method(method).uri(path).header("content-type", content_type);
    request.body(body.to_string().into_bytes()).expect("a request")
}

pub(super) fn get(kind: &Kind, namespace: &str, object: usize) -> Request<Vec<u8>> {
    Request::get(path(kind, namespace, NAMES[object])).body(Vec::new()).expect("a request")
}

pub(super) fn list(kind: &Kind, namespace: &str) -> Request<Vec<u8>> {
    Request::get(path(kind, namespace, "").trim_end_matches('/')).body(Vec::new()).expect("a request")
}

/// A watch that the server ends after so many seconds.
pub(super) fn watch(kind: &Kind, namespace: &str, since: &str, seconds: u32) -> Request<Vec<u8>> {
    let at = path(kind, namespace, "");
    let at = at.trim_end_matches('/');
    let uri = format!("{at}?watch=true&resourceVersion={since}&timeoutSeconds={seconds}");
    Request::get(uri).body(Vec::new()).expect("a request")
}
