//! What the operator writes for one sandbox, learned by watching it make one.
//!
//! Bodies are what the API server has of them, less what it put there itself. That leaves what the operator
//! sent: labels, annotations, owners and spec of the sandbox, the same of the pod (its spec is the
//! template's), and the first and the last status. With a sandbox alone there may be one between the two,
//! when the pod is bound; among a thousand the pod is ready by the time a worker looks again.

use futures_util::TryStreamExt as _;
use kube::api::WatchParams;
use sandgate_tests::cluster::Resource;
use serde_json::{Value, json};

use crate::observer::{FROM_NOTHING, is_available, sandboxes, shown};
use crate::site::{Site, template};

/// The bodies, with the names and numbers of the sandbox that they were learned from.
pub(crate) struct Mould {
    sandbox: String,
    pod: String,
    statuses: Vec<Value>,
    learned: Identity,
}

/// What differs from one sandbox to the next.
#[derive(Clone, Default)]
pub(crate) struct Identity {
    pub(crate) set_uid: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) pod_uid: String,
    pub(crate) pod_ip: String,
}

impl Mould {
    /// Has the operator make a set of one sandbox, and takes everything away again.
    pub(crate) async fn learn(site: &Site) -> Self {
        let namespace = site.cluster.namespace("mould").await;
        let operator = site.operator().await;
        let api = sandboxes(site.client(), &namespace);
        let set = site.make_set(&namespace, 1).await;
        let events = api.watch(&WatchParams::default(), FROM_NOTHING).await.expect("a watch");
        let mut events = std::pin::pin!(events);
        let mut statuses: Vec<Value> = Vec::new();
        let sandbox = loop {
            let event = events.try_next().await.expect("an event").expect("the watch goes on");
            let Some(object) = shown(event) else { continue };
            let status = &object.data["status"];
            if !status.is_null() {
                // The last one takes the place of whatever was between.
                statuses.truncate(1);
                statuses.push(status.clone());
            }
            if is_available(status) {
                break serde_json::to_value(object).expect("JSON");
            }
        };
        let name = text(&sandbox["metadata"]["name"]);
        let pod = site.cluster.objects(Resource::Pod, &namespace).get(&name).await.expect("its pod");
        let learned = Identity {
            set_uid: text(&set["metadata"]["uid"]),
            uid: text(&sandbox["metadata"]["uid"]),
            pod_uid: text(&pod["metadata"]["uid"]),
            pod_ip: text(&pod["status"]["podIP"]),
            name,
        };
        drop(operator);
        site.clear(&namespace).await;
        let body = |object: &Value, spec: &Value| {
            let mut metadata = object["metadata"].clone();
            for field in ["uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"] {
                metadata.as_object_mut().expect("an object").remove(field);
            }
            metadata.as_object_mut().expect("an object").remove("namespace");
            let (version, kind) = (&object["apiVersion"], &object["kind"]);
            json!({ "apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec }).to_string()
        };
        Self {
            sandbox: body(&sandbox, &sandbox["spec"]),
            pod: body(&pod, &template()["spec"]),
            statuses,
            learned,
        }
    }

    /// How often the status of a sandbox is written until it is available.
    pub(crate) fn statuses(&self) -> usize {
        self.statuses.len()
    }

    pub(crate) fn sandbox(&self, of: &Identity) -> String {
        self.fill(&self.sandbox, of)
    }

    pub(crate) fn pod(&self, of: &Identity) -> String {
        self.fill(&self.pod, of)
    }

    /// The patch that makes the status of this number out of the one before, if the sandbox is still of this
    /// version.
    pub(crate) fn status(&self, number: usize, of: &Identity, version: &str) -> String {
        let before = number.checked_sub(1).map_or(&Value::Null, |before| &self.statuses[before]);
        let patch = difference(before, &self.statuses[number]);
        let patch = json!({ "metadata": { "resourceVersion": version }, "status": patch });
        self.fill(&patch.to_string(), of)
    }

    fn fill(&self, text: &str, of: &Identity) -> String {
        let Identity { set_uid, name, uid, pod_uid, pod_ip } = &self.learned;
        let pairs = [
            (set_uid, &of.set_uid),
            (name, &of.name),
            (uid, &of.uid),
            (pod_uid, &of.pod_uid),
            (pod_ip, &of.pod_ip),
        ];
        pairs.iter().fold(text.to_owned(), |text, (learned, own)| text.replace(learned.as_str(), own))
    }
}

/// The JSON merge patch from one value to another: what changed, and null for what went.
fn difference(before: &Value, after: &Value) -> Value {
    let (Value::Object(before), Value::Object(after)) = (before, after) else { return after.clone() };
    let gone = before.keys().filter(|key| !after.contains_key(*key)).map(|key| (key.clone(), Value::Null));
    let changed = after
        .iter()
        .filter(|(key, value)| before.get(*key) != Some(*value))
        .map(|(key, value)| (key.clone(), difference(before.get(key).unwrap_or(&Value::Null), value)));
    Value::Object(gone.chain(changed).collect())
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_has_what_changed_and_null_for_what_went() {
        let before = json!({ "phase": "Pending", "info": { "a": 1, "b": 2 }, "old": true });
        let after = json!({ "phase": "Running", "info": { "a": 1, "b": 3 }, "new": [1] });
        let patch = json!({ "phase": "Running", "info": { "b": 3 }, "old": null, "new": [1] });
        assert_eq!(difference(&before, &after), patch);
        assert_eq!(difference(&Value::Null, &after), after);
    }
}
