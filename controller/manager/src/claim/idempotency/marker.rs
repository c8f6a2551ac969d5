//! The marker of an `Idempotency-Key`, as it is written and read.

use std::sync::Arc;

use jiff::Timestamp;
use ring::digest::{SHA256, digest};
use sandgate_cache::{ConfigMapFacts, Key, Seen};
use sandgate_objects::openkruise::resources::SandboxFacts;
use serde_json::{Value, json};

use crate::claim::write::Mark;
use crate::names::{KIND_CREATE, LABEL_KIND};
use crate::secrets::hex;
use crate::{Error, ErrorKind, Network, NewSandbox};

/// What the names of markers begin with.
const PREFIX: &str = "sandgate-create-";

/// A marker.
#[derive(Clone, Debug)]
pub(crate) struct Marker {
    /// The object.
    pub(crate) seen: Arc<Seen<ConfigMapFacts>>,
    /// The hash of the request that it is for.
    pub(crate) request: String,
    /// The lock of the create that works for it.
    pub(crate) lock: String,
    /// When that create began, or last said that it lives.
    pub(crate) at: Timestamp,
    /// What became of it.
    pub(crate) state: State,
}

/// What became of a create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It is under way, or its process has died.
    Open,
    /// This sandbox was made.
    Done(Reference),
    /// Nothing was made.
    Failed,
}

/// Which sandbox it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reference {
    /// Namespace and name.
    pub(crate) key: Key,
    /// Which of that name.
    pub(crate) uid: Arc<str>,
}

impl Reference {
    /// This one.
    pub(crate) fn of(seen: &Seen<SandboxFacts>) -> Self {
        Self { key: seen.key.clone(), uid: Arc::clone(&seen.uid) }
    }

    fn read(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, '/');
        let (namespace, name, uid) = (parts.next()?, parts.next()?, parts.next()?);
        Some(Self { key: Key::new(namespace, name), uid: uid.into() })
    }
}

impl Marker {
    /// Reads a marker.
    ///
    /// # Errors
    /// Somebody else has written it.
    pub(crate) fn read(seen: Arc<Seen<ConfigMapFacts>>) -> Result<Self, Error> {
        let text = |name: &str| seen.data.get(name).map(String::as_str);
        let state = match text("state") {
            Some("open") => Some(State::Open),
            Some("failed") => Some(State::Failed),
            Some("done") => text("sandbox").and_then(Reference::read).map(State::Done),
            _ => None,
        };
        let read =
            state.zip(text("request")).zip(text("lock")).zip(text("at").and_then(|at| at.parse().ok()));
        let Some((((state, request), lock), at)) = read else {
            let message = format!("ConfigMap {} is no marker of a create", seen.key);
            return Err(Error::new(ErrorKind::Internal, message));
        };
        let (request, lock) = (request.to_owned(), lock.to_owned());
        Ok(Self { request, lock, at, state, seen })
    }

    /// What the labels of its sandboxes say.
    pub(in crate::claim) fn mark(&self) -> Mark {
        let name = &*self.seen.key.name;
        Mark { name: name.strip_prefix(PREFIX).unwrap_or(name).to_owned(), uid: Arc::clone(&self.seen.uid) }
    }
}

/// The name of the marker of an owner's key. Without the secret that a key may be taken for.
pub(crate) fn name_of(owner: &str, key: &str) -> String {
    let text = json!([owner, key]).to_string();
    hex(&digest(&SHA256, text.as_bytes()).as_ref()[..16])
}

/// The place of the marker of this name.
pub(crate) fn key(namespace: &str, name: &str) -> Key {
    Key::new(namespace, &format!("{PREFIX}{name}"))
}

/// A marker that a create begins with.
pub(crate) fn new(key: &Key, owner: &str, request: &str, lock: &str, at: Timestamp) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": &*key.name,
            "namespace": &*key.namespace,
            "labels": { LABEL_KIND: KIND_CREATE },
        },
        "data": { "state": "open", "owner": owner, "request": request, "lock": lock, "at": at.to_string() },
    })
}

/// The patch by which another create takes a marker over.
pub(crate) fn taken_over(lock: &str, at: Timestamp) -> Value {
    json!({ "data": { "state": "open", "lock": lock, "at": at.to_string(), "sandbox": null } })
}

/// The patch by which a create says that it lives.
pub(crate) fn renewed(at: Timestamp) -> Value {
    json!({ "data": { "at": at.to_string() } })
}

/// The patch that says how a create ended.
pub(crate) fn closed(state: &State) -> Value {
    match state {
        State::Open => json!({ "data": { "state": "open" } }),
        State::Failed => json!({ "data": { "state": "failed" } }),
        State::Done(Reference { key, uid }) => {
            json!({ "data": { "state": "done", "sandbox": format!("{key}/{uid}") } })
        }
    }
}

/// The hash of what was asked for. Fields that are not given do not count, so that a manager that knows more
/// of them has the same hash for the same request.
pub(crate) fn request_hash(wanted: &NewSandbox) -> String {
    let NewSandbox {
        template,
        timeout,
        auto_pause,
        auto_resume,
        metadata,
        labels,
        env_vars,
        allow_internet_access,
        network,
        private_traffic,
        idempotency_key: _,
        extensions,
    } = wanted;
    let network = network.as_ref().map(|Network { allow_out, deny_out }| json!([allow_out, deny_out]));
    let given = [
        ("template", json!(template)),
        ("timeout", json!(timeout.map(|timeout| timeout.as_millis().to_string()))),
        ("autoPause", json!(auto_pause)),
        ("autoResume", json!(auto_resume)),
        ("metadata", json!(metadata)),
        ("labels", json!(labels)),
        ("envVars", json!(env_vars)),
        ("allowInternetAccess", json!(allow_internet_access)),
        ("network", json!(network)),
        ("privateTraffic", json!(private_traffic)),
        ("extensions", wishes(extensions)),
    ];
    let is_given = |value: &Value| match value {
        Value::Null | Value::Bool(false) => false,
        Value::Object(map) => !map.is_empty(),
        _ => true,
    };
    let given: Vec<_> = given.into_iter().filter(|(_, value)| is_given(value)).collect();
    hex(digest(&SHA256, json!(given).to_string().as_bytes()).as_ref())
}

fn wishes(extensions: &crate::Extensions) -> Value {
    let wishes = format!("{extensions:?}");
    if *extensions == crate::Extensions::default() { Value::Null } else { wishes.into() }
}
