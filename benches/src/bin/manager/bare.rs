//! The limit: the manager's one write for a claim, without a manager.
//!
//! The body is what a real claim has changed, with an ID, a lock and a token of each sandbox's own, and the
//! version that it is conditional on. The loop knows beforehand which sandboxes there are and at which
//! version: it chooses nothing, waits for nothing and follows nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::Request;
use kube::Client;
use serde_json::{Map, Value};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::claim::Timed;

/// What the server changes by itself, or a claim has to be conditional on.
const NOT_IN_THE_PATCH: [&str; 3] = ["managedFields", "generation", "resourceVersion"];

/// The patch of a claim.
pub(crate) struct Mould(Value);

impl Mould {
    /// What a claim has changed.
    pub(crate) fn learn(before: &Value, after: &Value) -> Self {
        let mut patch = difference(before, after);
        for field in NOT_IN_THE_PATCH {
            patch["metadata"].as_object_mut().map(|metadata| metadata.remove(field));
        }
        patch.as_object_mut().map(|fields| fields.remove("status"));
        patch["metadata"]["uid"] = after["metadata"]["uid"].clone();
        Self(patch)
    }

    /// How long a patch is.
    pub(crate) fn bytes(&self) -> usize {
        self.patch(&self.0, 0).len()
    }

    fn patch(&self, sandbox: &Value, number: usize) -> Vec<u8> {
        let mut patch = self.0.clone();
        let metadata = &mut patch["metadata"];
        for field in ["uid", "resourceVersion"] {
            metadata[field] = sandbox["metadata"][field].clone();
        }
        for (part, field) in [
            ("labels", "agents.kruise.io/sandbox-id"),
            ("annotations", "agents.kruise.io/lock"),
            ("annotations", "agents.kruise.io/runtime-access-token"),
        ] {
            let width = metadata[part][field].as_str().map_or(0, str::len);
            if width > 0 {
                metadata[part][field] = format!("{number:0width$}").into();
            }
        }
        patch.to_string().into_bytes()
    }
}

/// Claims all of these, so many at a time.
pub(crate) async fn run(
    client: &Client,
    mould: &Arc<Mould>,
    sandboxes: Vec<Value>,
    concurrency: usize,
) -> Timed {
    let count = sandboxes.len();
    let (sandboxes, next) = (Arc::new(sandboxes), Arc::new(AtomicUsize::new(0)));
    let mut workers = JoinSet::new();
    let began = Instant::now();
    for _ in 0..concurrency {
        let (client, mould, sandboxes, next) =
            (client.clone(), Arc::clone(mould), Arc::clone(&sandboxes), Arc::clone(&next));
        workers.spawn(async move {
            let mut times = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(sandbox) = sandboxes.get(number) else { return times };
                let began = Instant::now();
                claim(&client, &mould, sandbox, number).await;
                times.push(began.elapsed().as_secs_f64() * 1e3);
            }
        });
    }
    let times = workers.join_all().await.concat();
    Timed { count, seconds: began.elapsed().as_secs_f64(), times }
}

/// Claims this one, and returns it as it is then.
pub(crate) async fn claim(client: &Client, mould: &Mould, sandbox: &Value, number: usize) -> Value {
    let text = |field: &str| sandbox["metadata"][field].as_str().unwrap_or_default();
    let path = format!(
        "/apis/agents.kruise.io/v1alpha1/namespaces/{}/sandboxes/{}?fieldManager=sandgate-manager",
        text("namespace"),
        text("name")
    );
    let request = Request::patch(path)
        .header("content-type", "application/merge-patch+json")
        .body(mould.patch(sandbox, number))
        .expect("a request");
    let answer: Value = client.request(request).await.expect("a claim");
    assert_eq!(answer["kind"], "Sandbox", "{answer}");
    answer
}

/// A merge patch from one to the other.
fn difference(before: &Value, after: &Value) -> Value {
    let (Value::Object(before), Value::Object(after)) = (before, after) else { return after.clone() };
    let gone = before.keys().filter(|key| !after.contains_key(*key)).map(|key| (key.clone(), Value::Null));
    let changed = after
        .iter()
        .filter(|(key, value)| before.get(*key) != Some(*value))
        .map(|(key, value)| (key.clone(), difference(before.get(key).unwrap_or(&Value::Null), value)));
    let patch: Map<String, Value> = gone.chain(changed).collect();
    Value::Object(patch)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_patch_is_what_changed_with_the_sandboxs_own_version() {
        let before = json!({ "metadata": {
            "uid": "u", "resourceVersion": "5", "ownerReferences": [1], "labels": { "a": "b" },
        } });
        let after = json!({ "metadata": {
            "uid": "u", "resourceVersion": "6", "labels": { "a": "b", "agents.kruise.io/sandbox-id": "abcd" },
        } });
        let mould = Mould::learn(&before, &after);
        let sandbox = json!({ "metadata": { "uid": "v", "resourceVersion": "9" } });
        let patch: Value = serde_json::from_slice(&mould.patch(&sandbox, 7)).expect("JSON");
        let expected = json!({ "metadata": {
            "uid": "v", "resourceVersion": "9", "ownerReferences": null,
            "labels": { "agents.kruise.io/sandbox-id": "0007" },
        } });
        assert_eq!(patch, expected);
    }
}
