//! Objects for tests, made field by field.

use std::time::{Duration, SystemTime};

use sandgate_routes::{MAX_TOKEN, State, TokenKind};
use serde_json::{Value, json};

use crate::provider::{Projection, Provider, Unreadable};

/// The time of every test: 2026-11-16T06:00:00Z.
pub(crate) fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_794_808_800)
}

pub(crate) const BEFORE_NOW: &str = "2026-11-16T05:59:59.999Z";
pub(crate) const NOW: &str = "2026-11-16T07:00:00+01:00";
pub(crate) const IN_AN_HOUR: &str = "2026-11-16T07:00:00Z";

/// An object of some kind.
#[derive(Clone, Debug)]
pub(crate) struct Object(pub(crate) Value);

impl Object {
    /// What every object has: `team-a/demo`, version 41.
    pub(crate) fn new() -> Self {
        Self(json!({
            "metadata": {
                "name": "demo",
                "namespace": "team-a",
                "uid": "8c1f03a2-0b4d-4e5f-9a6b-7c8d9e0f1a2b",
                "resourceVersion": "41",
            },
        }))
    }

    /// Sets a field, and makes the objects on the way to it.
    pub(crate) fn with(mut self, path: &[&str], value: impl Into<Value>) -> Self {
        let mut at = &mut self.0;
        for key in path {
            if !at.is_object() {
                *at = json!({});
            }
            at = at.as_object_mut().expect("just made").entry(*key).or_insert(Value::Null);
        }
        *at = value.into();
        self
    }

    pub(crate) fn label(self, key: &str, value: impl Into<Value>) -> Self {
        self.with(&["metadata", "labels", key], value)
    }

    pub(crate) fn annotation(self, key: &str, value: impl Into<Value>) -> Self {
        self.with(&["metadata", "annotations", key], value)
    }

    pub(crate) fn deleting(self) -> Self {
        self.with(&["metadata", "deletionTimestamp"], BEFORE_NOW)
    }

    /// Adds a condition of the status.
    pub(crate) fn condition(mut self, kind: &str, status: &str, reason: &str) -> Self {
        let list = self.0.pointer("/status/conditions").and_then(Value::as_array).cloned();
        let mut list = list.unwrap_or_default();
        list.push(json!({ "type": kind, "status": status, "reason": reason }));
        self = self.with(&["status", "conditions"], list);
        self
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.0.to_string().into_bytes()
    }

    pub(crate) fn seen_by(&self, provider: &dyn Provider) -> Result<Projection, Unreadable> {
        provider.project(&self.bytes(), now())
    }

    pub(crate) fn state(&self, provider: &dyn Provider) -> State {
        match self.seen_by(provider) {
            Ok(projection) => projection.observation.state,
            Err(error) => panic!("{error} in {}", self.0),
        }
    }
}

/// That a provider reads OpenSandbox's secure access as OpenSandbox does.
pub(crate) fn assert_reads_secure_access(running: &Object, provider: &dyn Provider) {
    const KEY: &str = "opensandbox.io/secure-access-token";
    let token =
        |text: &str| running.clone().annotation(KEY, text).seen_by(provider).unwrap().observation.token;
    for text in ["s3cret", " s3cret", "s3cret\n", "\t\u{a0}s3cret \r\n"] {
        let found = token(text).unwrap_or_else(|| panic!("{text:?} is a token"));
        assert!(found.matches(b"s3cret"), "{text:?}");
        assert_eq!(found.kind(), TokenKind::SecureAccess, "the owner has closed it");
    }
    assert!(token("two words").unwrap().matches(b"two words"), "only the ends are trimmed");
    // Not closed, to OpenSandbox too.
    for text in ["", " ", "\t\n"] {
        assert!(token(text).is_none(), "{text:?}");
    }
    assert!(running.seen_by(provider).unwrap().observation.token.is_none());
    // What cannot be compared is not served at all.
    let long = "x".repeat(MAX_TOKEN);
    assert!(token(&format!(" {long} ")).unwrap().matches(long.as_bytes()));
    let error = running.clone().annotation(KEY, format!("{long}x")).seen_by(provider).unwrap_err();
    assert!(error.path.contains(KEY) && !error.to_string().contains("xx"), "{error}");
}

/// That a provider reads the traffic token, beside another token and without one.
pub(crate) fn assert_reads_traffic_token(running: &Object, provider: &dyn Provider) {
    const KEY: &str = "sandgate.dev/traffic-access-token";
    let read = |text: &str| running.clone().annotation(KEY, text).seen_by(provider);
    let token = |text: &str| read(text).unwrap().observation.traffic_token;
    assert!(running.seen_by(provider).unwrap().observation.traffic_token.is_none());
    for text in ["s3cret", " s3cret", "s3cret\n", "\t\u{a0}s3cret \r\n"] {
        assert!(token(text).is_some_and(|token| token.matches(b"s3cret")), "{text:?}");
    }
    for text in ["", " ", "\t\n"] {
        assert!(token(text).is_none(), "{text:?}");
    }
    let first = running.seen_by(provider).unwrap().observation.token;
    assert_eq!(read("s3cret").unwrap().observation.token, first, "the other token is what it was");
    // What cannot be compared is not served at all.
    let long = "x".repeat(MAX_TOKEN);
    assert!(token(&format!(" {long} ")).unwrap().matches(long.as_bytes()));
    let error = read(&format!("{long}x")).unwrap_err();
    assert!(error.path.contains(KEY) && !error.to_string().contains("xx"), "{error}");
}
