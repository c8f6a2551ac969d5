//! A cache fed by hand on a manual clock, for the tests of whoever uses one.

use std::num::NonZeroU64;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::{SignedDuration, Timestamp};
use sandgate_routes::Version;
use serde_json::{Value, json};

use crate::{Cache, CacheBuilder, Clock, Kept, Key, Kind, ManualClock, Seen};

/// When the clock of a [`TestCache`] begins.
pub const EPOCH: &str = "2026-01-01T00:00:00Z";

/// A cache without an API server. Every object that it is shown gets the next version, unless it has one.
pub struct TestCache {
    cache: Cache,
    clock: Arc<ManualClock>,
    version: AtomicU64,
}

impl Deref for TestCache {
    type Target = Cache;

    fn deref(&self) -> &Cache {
        &self.cache
    }
}

impl Default for TestCache {
    fn default() -> Self {
        Self::new()
    }
}

impl TestCache {
    /// An empty cache that has been listed.
    ///
    /// # Panics
    /// Here and below: where the test is wrong.
    pub fn new() -> Self {
        let test = Self::built(Cache::builder().system_namespace("system"));
        test.listed_all();
        test
    }

    /// A cache of these parts, with the manual clock. Nothing has been listed.
    pub fn built(builder: CacheBuilder) -> Self {
        let clock = Arc::new(ManualClock::new(EPOCH.parse().unwrap()));
        let cache = builder.clock(Arc::clone(&clock) as Arc<dyn Clock>).build().unwrap();
        Self { cache, clock, version: AtomicU64::new(1) }
    }

    /// The cache.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Moves the clock on.
    pub fn advance(&self, by: SignedDuration) {
        self.clock.advance(by);
    }

    /// The next version.
    pub fn next_version(&self) -> Version {
        let number = self.version.fetch_add(1, Ordering::Relaxed) + 1;
        NonZeroU64::new(number).unwrap().into()
    }

    /// Every kind has been listed.
    pub fn listed_all(&self) {
        for kind in Kind::ALL {
            self.cache.listed(kind, &self.next_version());
        }
    }

    /// The watch shows an object, as JSON. A version, a UID, a namespace and a spec that are missing are put
    /// in.
    pub fn show<T: Kept>(&self, object: &Value) -> Arc<Seen<T>> {
        let object = self.whole(object);
        self.cache.observe_json(T::IS, object.to_string().as_bytes()).unwrap();
        Arc::new(T::read(object.to_string().as_bytes()).unwrap())
    }

    /// The API server answers a write with this object; the watch has not shown it yet.
    pub fn answer<T: Kept>(&self, object: &Value) -> Arc<Seen<T>> {
        let seen = Arc::new(T::read(self.whole(object).to_string().as_bytes()).unwrap());
        self.cache.answered(&seen);
        seen
    }

    /// The watch shows that an object is gone.
    pub fn end<T: Kept>(&self, seen: &Seen<T>) {
        self.cache.deleted(T::IS, &seen.key, &seen.uid, &self.next_version());
    }

    /// How many waits there are for objects of a kind.
    pub fn waiting<T: Kept>(&self) -> usize {
        self.cache.waiting::<T>()
    }

    fn whole(&self, object: &Value) -> Value {
        let mut object = object.clone();
        let metadata = &mut object["metadata"];
        let name = metadata["name"].as_str().expect("a name").to_owned();
        let or = |value: &mut Value, default: String| {
            if value.is_null() {
                *value = default.into();
            }
        };
        or(&mut metadata["namespace"], "default".to_owned());
        or(&mut metadata["uid"], format!("uid-{name}"));
        or(&mut metadata["creationTimestamp"], EPOCH.to_owned());
        if metadata["resourceVersion"].is_null() {
            metadata["resourceVersion"] = self.next_version().to_string().into();
        }
        if object["spec"].is_null() {
            object["spec"] = json!({});
        }
        object
    }
}

/// A sandbox of the pool `pool` that can be claimed.
pub fn stock(name: &str, pool: &str) -> Value {
    let mut sandbox = running(name);
    sandbox["metadata"]["labels"] = json!({
        "agents.kruise.io/sandbox-pool": pool, "agents.kruise.io/sandbox-template": pool,
        "agents.kruise.io/sandbox-claimed": "false", "agents.kruise.io/template-hash": "r1",
    });
    sandbox["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "agents.kruise.io/v1alpha1", "kind": "SandboxSet", "name": pool,
        "uid": format!("uid-{pool}"), "controller": true,
    }]);
    sandbox
}

/// A sandbox that `owner` has claimed under the ID `id`, and that runs.
pub fn claimed(name: &str, owner: &str, id: &str) -> Value {
    let mut sandbox = running(name);
    sandbox["metadata"]["labels"] = json!({
        "agents.kruise.io/sandbox-claimed": "true", "agents.kruise.io/sandbox-id": id,
    });
    sandbox["metadata"]["annotations"] =
        json!({"agents.kruise.io/owner": owner, "agents.kruise.io/lock": format!("lock-{name}")});
    sandbox
}

/// A sandbox that runs.
pub fn running(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "generation": 1},
        "spec": {},
        "status": {
            "phase": "Running", "observedGeneration": 1, "podInfo": {"podIP": "10.0.0.1"},
            "conditions": [condition("Ready", true, "PodReady")],
        },
    })
}

/// A condition.
pub fn condition(kind: &str, holds: bool, reason: &str) -> Value {
    let status = if holds { "True" } else { "False" };
    json!({
        "type": kind, "status": status, "reason": reason, "message": "", "lastTransitionTime": EPOCH,
    })
}

/// The same sandbox, asked to pause.
#[must_use]
pub fn pausing(mut sandbox: Value) -> Value {
    sandbox["spec"]["paused"] = true.into();
    sandbox
}

/// The same sandbox, paused.
#[must_use]
pub fn paused(sandbox: Value) -> Value {
    let mut sandbox = pausing(sandbox);
    sandbox["status"]["phase"] = "Paused".into();
    sandbox["status"]["conditions"] =
        json!([condition("Ready", false, "PodReady"), condition("SandboxPaused", true, "StopPauseSucceed")]);
    sandbox
}

/// A pod of an environment's pool `pool` that can be claimed.
pub fn env_pod(name: &str, pool: &str) -> Value {
    let mut ready = condition("Ready", true, "PodReady");
    ready["lastTransitionTime"] = EPOCH.into();
    json!({
        "metadata": {
            "name": name,
            "labels": {"agentbox.navix.sh/sandbox-pool": pool, "agentbox.navix.sh/sandbox-phase": "idle"},
        },
        "spec": {"containers": [{"name": "main", "image": "idle:1"}]},
        "status": {"phase": "Running", "podIP": "10.0.0.1", "conditions": [ready]},
    })
}

/// The same pod, as the sandbox `id` of `owner`, in this phase.
#[must_use]
pub fn env_sandbox(mut pod: Value, id: &str, owner: &str, phase: &str) -> Value {
    pod["metadata"]["labels"]["agentbox.navix.sh/sandbox-phase"] = phase.into();
    pod["metadata"]["labels"]["agentbox.navix.sh/sandbox-id"] = id.into();
    pod["metadata"]["annotations"]["sandgate.dev/owner"] = owner.into();
    pod
}

/// A set of this many.
pub fn set(name: &str, replicas: i32) -> Value {
    json!({"metadata": {"name": name}, "spec": {"replicas": replicas}, "status": {"updateRevision": "r1"}})
}

/// The key of a name in the namespace that objects here have.
pub fn key(name: &str) -> Key {
    Key::new("default", name)
}

/// Makes the n-th part of a start fail, once. Given to a builder by [`CacheBuilder::failing_start`]. The
/// cache may be one without an API server: it can be started then, in as many parts as it has kinds, and is
/// fed by hand as before.
pub struct FailingStart {
    left: AtomicU64,
}

impl FailingStart {
    /// Fails at the n-th part, counted from one and over all starts.
    pub fn at(number: usize) -> Arc<Self> {
        Arc::new(Self { left: AtomicU64::new(number as u64) })
    }

    fn next(&self) -> Result<(), String> {
        let counted =
            self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        if counted == Ok(1) { Err("as asked".to_owned()) } else { Ok(()) }
    }
}

impl CacheBuilder {
    /// Lets a start fail on cue.
    #[must_use]
    pub fn failing_start(mut self, failing: &Arc<FailingStart>) -> Self {
        let failing = Arc::clone(failing);
        self.before_start = Some(Arc::new(move |_| failing.next()));
        self
    }
}
