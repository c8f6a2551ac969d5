//! Sandboxes as prose: `kruise(&api, &ns, "a").running("127.1.2.3").create().await`, then `.pause().await`.

use std::net::IpAddr;
use std::time::SystemTime;

use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::providers::{Kind, Shape};
use super::server::ApiServer;
use super::template::pod_template;

/// A sandbox to be made.
#[derive(Clone)]
pub struct Draft {
    api: ApiServer,
    kind: Kind,
    object: Value,
}

impl Draft {
    pub(super) fn new(api: &ApiServer, kind: Kind, namespace: &str, name: &str) -> Self {
        let types = kind.resource();
        let object = json!({
            "apiVersion": types.api_version,
            "kind": types.kind,
            "metadata": { "namespace": namespace, "name": name },
            "spec": {},
        });
        Self { api: api.clone(), kind, object }
    }

    /// Merges anything into the object, its `status` too.
    #[must_use]
    #[expect(clippy::needless_pass_by_value, reason = "callers give a json! literal")]
    pub fn merge(mut self, patch: Value) -> Self {
        merge(&mut self.object, &patch);
        self
    }

    fn shape(self, shape: Shape) -> Self {
        self.merge(shape.object).merge(json!({ "status": shape.status }))
    }

    /// It runs and answers at `ip`.
    #[must_use]
    pub fn running(self, ip: impl Into<Address>) -> Self {
        let shape = self.kind.running(ip.into().0);
        self.shape(shape)
    }

    /// It is paused.
    #[must_use]
    pub fn paused(self) -> Self {
        let shape = self.kind.paused();
        self.shape(shape)
    }

    /// It has failed.
    #[must_use]
    pub fn failed(self) -> Self {
        let shape = self.kind.failed();
        self.shape(shape)
    }

    /// Sets a label.
    #[must_use]
    pub fn label(self, key: &str, value: &str) -> Self {
        self.merge(json!({ "metadata": { "labels": { key: value } } }))
    }

    /// Sets an annotation.
    #[must_use]
    pub fn annotation(self, key: &str, value: &str) -> Self {
        self.merge(json!({ "metadata": { "annotations": { key: value } } }))
    }

    /// Sets the access token.
    #[must_use]
    pub fn token(self, token: &str) -> Self {
        let key = self.kind.token_annotation();
        self.annotation(key, token)
    }

    /// Says when it ends by itself.
    #[must_use]
    pub fn ending(self, at: SystemTime) -> Self {
        let key = self.kind.end_key();
        self.merge(json!({ "spec": { key: timestamp(at) } }))
    }

    /// Gives it a pod template of the size that real ones have.
    #[must_use]
    pub fn with_template(self) -> Self {
        let key = self.kind.template_key();
        self.merge(json!({ "spec": { key: pod_template() } }))
    }

    pub(super) fn into_parts(self) -> (Kind, Value) {
        (self.kind, self.object)
    }

    /// Makes it: the object first, then its status, as a user and a controller would.
    ///
    /// # Panics
    /// When the server refuses.
    pub async fn create(self) -> Object {
        let Self { api, kind, mut object } = self;
        let metadata = &object["metadata"];
        let name = metadata["name"].as_str().expect("a name").to_owned();
        let namespace = metadata["namespace"].as_str().expect("a namespace").to_owned();
        let status = object.as_object_mut().and_then(|object| object.remove("status"));
        let typed = serde_json::from_value(object).expect("an object");
        let api = Api::namespaced_with(api.client(), &namespace, &kind.resource());
        let made: DynamicObject = api
            .create(&PostParams::default(), &typed)
            .await
            .unwrap_or_else(|e| panic!("create {namespace}/{name}: {e}"));
        let object = Object { api, kind, namespace, name, uid: made.metadata.uid.expect("a UID") };
        if let Some(status) = status {
            object.patch_status(status).await;
        }
        object
    }
}

/// A sandbox on the server.
#[derive(Clone)]
pub struct Object {
    api: Api<DynamicObject>,
    kind: Kind,
    namespace: String,
    name: String,
    uid: String,
}

impl Object {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// What requests call it, unless a label says otherwise.
    pub fn id(&self) -> String {
        self.kind.id(&self.namespace, &self.name)
    }

    /// Its UID: another one when the name is made anew.
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// The whole object as the server has it, or `None` when it is gone.
    pub async fn get(&self) -> Option<Value> {
        let object = self.api.get_opt(&self.name).await.unwrap_or_else(|e| panic!("get {}: {e}", self.name));
        object.map(|object| serde_json::to_value(object).expect("JSON"))
    }

    /// Its version now.
    pub async fn version(&self) -> String {
        let object = self.get().await.expect("the object exists");
        object["metadata"]["resourceVersion"].as_str().expect("a version").to_owned()
    }

    /// Merges a patch into the object, all but its status.
    pub async fn patch(&self, patch: Value) {
        let done = self.api.patch(&self.name, &PatchParams::default(), &Patch::Merge(&patch)).await;
        done.unwrap_or_else(|e| panic!("patch {}: {e}", self.name));
    }

    /// Merges a patch into the status.
    pub async fn patch_status(&self, status: Value) {
        let patch = Patch::Merge(json!({ "status": status }));
        let done = self.api.patch_status(&self.name, &PatchParams::default(), &patch).await;
        done.unwrap_or_else(|e| panic!("patch the status of {}: {e}", self.name));
    }

    async fn become_shape(&self, shape: Shape) {
        if shape.object != json!({}) {
            self.patch(shape.object).await;
        }
        self.patch_status(shape.status).await;
    }

    /// Pauses it: the wish first, then the status.
    pub async fn pause(&self) {
        self.become_shape(self.kind.paused()).await;
    }

    /// Resumes it at an address, which may be another one than before.
    pub async fn resume(&self, ip: impl Into<Address>) {
        self.become_shape(self.kind.running(ip.into().0)).await;
    }

    /// Lets its readiness probe fail, and nothing else.
    pub async fn become_unready(&self) {
        self.become_shape(self.kind.unready()).await;
    }

    /// Lets it fail.
    pub async fn fail(&self) {
        self.become_shape(self.kind.failed()).await;
    }

    /// Says when it ends by itself.
    pub async fn end_at(&self, at: SystemTime) {
        self.patch(json!({ "spec": { self.kind.end_key(): timestamp(at) } })).await;
    }

    /// Deletes it, and only it: not another of its name.
    pub async fn delete(&self) {
        let params = DeleteParams::default()
            .preconditions(kube::api::Preconditions { uid: Some(self.uid.clone()), resource_version: None });
        let done = self.api.delete(&self.name, &params).await;
        done.unwrap_or_else(|e| panic!("delete {}: {e}", self.name));
    }
}

/// An IP address, from whatever a scenario has at hand.
#[derive(Clone, Copy, Debug)]
pub struct Address(IpAddr);

impl From<IpAddr> for Address {
    fn from(ip: IpAddr) -> Self {
        Self(ip)
    }
}

impl From<&str> for Address {
    fn from(ip: &str) -> Self {
        Self(ip.parse().expect("an IP address"))
    }
}

/// A time as the API writes it.
pub(crate) fn timestamp(at: SystemTime) -> String {
    let at = Timestamp::try_from(at).expect("a time of this age");
    // The API has whole seconds.
    Timestamp::from_second(at.as_second()).expect("a time of this age").to_string()
}

/// A JSON merge patch (RFC 7386), except that nothing is removed: a draft has nothing to lose.
fn merge(into: &mut Value, patch: &Value) {
    match (into, patch) {
        (Value::Object(into), Value::Object(patch)) => {
            for (key, value) in patch {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (into, patch) => *into = patch.clone(),
    }
}
