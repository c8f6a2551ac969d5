//! A set and its sandboxes in a view, in words.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use jiff::Timestamp;
use sandgate_objects::openkruise::resources::SandboxSetStatus;
use serde_json::{Value, json};

use crate::child_name::child_key;
use crate::failures::Failures;
use crate::sandbox_set::observe::{Contents, ContentsOf, Observed, observe};
use crate::sandbox_set::plan::{Plan, plan};
use crate::sandbox_set::{child, status};
use crate::view::{Kind, View};
use crate::{Key, Random};

pub(super) const NOW: i64 = 1_000_000;

pub(super) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// One set and its sandboxes.
pub(super) struct World {
    pub(super) view: View,
    pub(super) set: Value,
    pub(super) sandboxes: BTreeMap<String, Value>,
    pub(super) failures: Failures,
    pub(super) now: i64,
    random: Random,
    version: u64,
}

fn key() -> Key {
    Key::new("n", "pool")
}

impl World {
    pub(super) fn new(replicas: i32) -> Self {
        let set = json!({
            "apiVersion": "agents.kruise.io/v1alpha1",
            "kind": "SandboxSet",
            "metadata": {"name": "pool", "namespace": "n", "uid": "set-uid", "generation": 1},
            "spec": {"replicas": replicas, "template": {"spec": {"containers": [{"name": "c", "image": "a"}]}}},
        });
        let mut world = Self {
            view: View::new(Box::new(|_, _, _| {})),
            set,
            sandboxes: BTreeMap::new(),
            failures: Failures::default(),
            now: NOW,
            random: Random::seeded(7),
            version: 10,
        };
        world.write_set(|_| {});
        world
    }

    fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    pub(super) fn write_set(&mut self, change: impl FnOnce(&mut Value)) {
        change(&mut self.set);
        self.set["metadata"]["resourceVersion"] = json!(self.next_version().to_string());
        self.view.observe_json(Kind::SandboxSet, self.set.to_string().as_bytes()).unwrap();
    }

    pub(super) fn image(&mut self, image: &str) {
        self.write_set(|set| set["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image));
    }

    pub(super) fn observed(&self) -> Observed {
        observe(&self.view, &key(), |_| self.failures.clone(), at(self.now)).unwrap()
    }

    pub(super) fn plan(&self) -> Plan {
        plan(&self.observed())
    }

    fn contents(&self) -> Contents {
        match self.observed().contents {
            ContentsOf::Found(contents) => contents,
            ContentsOf::Missing(why) => panic!("{why}"),
        }
    }

    /// Makes a sandbox of the present revision. Returns its name.
    pub(super) fn make(&mut self) -> String {
        let observed = self.observed();
        let key = child_key(&observed.set.key, &mut self.random);
        let mut sandbox = child::sandbox(&observed.set, &self.contents(), &key);
        sandbox["metadata"]["uid"] = json!(format!("uid-of-{}", key.name));
        sandbox["metadata"]["creationTimestamp"] = json!(at(self.now).to_string());
        sandbox["status"] = json!({"phase": "Pending"});
        self.sandboxes.insert(key.name.to_string(), sandbox);
        self.write(&key.name.clone(), |_| {});
        key.name.to_string()
    }

    /// Makes a sandbox, and lets it be ready.
    pub(super) fn ready(&mut self) -> String {
        let name = self.make();
        self.becomes(&name, "Running", true);
        name
    }

    pub(super) fn becomes(&mut self, name: &str, phase: &str, is_ready: bool) {
        let status = if is_ready { "True" } else { "False" };
        let condition = json!({
            "type": "Ready", "status": status, "reason": "PodReady", "message": "",
            "lastTransitionTime": at(self.now).to_string(),
        });
        self.write(name, |sandbox| {
            sandbox["status"] =
                json!({"phase": phase, "podInfo": {"podIP": "127.0.0.9"}, "conditions": [condition]});
        });
    }

    pub(super) fn write(&mut self, name: &str, change: impl FnOnce(&mut Value)) {
        let version = self.next_version().to_string();
        let sandbox = self.sandboxes.get_mut(name).unwrap();
        change(sandbox);
        sandbox["metadata"]["resourceVersion"] = json!(version);
        self.view.observe_json(Kind::Sandbox, sandbox.to_string().as_bytes()).unwrap();
    }

    pub(super) fn claim(&mut self, name: &str) {
        self.write(name, |sandbox| {
            sandbox["metadata"]["ownerReferences"] = json!([]);
            sandbox["metadata"]["labels"]["agents.kruise.io/sandbox-claimed"] = json!("true");
        });
    }

    pub(super) fn lock(&mut self, name: &str, owner: &str) {
        self.write(name, |sandbox| {
            sandbox["metadata"]["annotations"] =
                json!({"agents.kruise.io/lock": "x", "agents.kruise.io/owner": owner});
        });
    }

    pub(super) fn delete(&mut self, name: &str) {
        let version = NonZeroU64::new(self.next_version()).unwrap().into();
        let sandbox = self.sandboxes.remove(name).unwrap();
        let uid = sandbox["metadata"]["uid"].as_str().unwrap();
        self.view.deleted(Kind::Sandbox, &Key::new("n", name), uid, &version);
    }

    /// Does what the plan says, as the API server would.
    pub(super) fn carry_out(&mut self, plan: &Plan) {
        for child in &plan.delete {
            self.delete(&child.key.name);
        }
        for _ in 0..plan.create {
            self.make();
        }
        self.failures = plan.failures.clone();
    }

    pub(super) fn status(&self) -> SandboxSetStatus {
        let observed = self.observed();
        let trouble = self.plan().trouble;
        status::status(&observed.set, &observed.revision(), &observed.members, trouble.as_ref(), at(self.now))
    }
}

/// The names that a plan deletes, in its order.
pub(super) fn deleted(plan: &Plan) -> Vec<String> {
    plan.delete.iter().map(|child| child.key.name.to_string()).collect()
}
