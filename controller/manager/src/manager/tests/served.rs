//! The API of a manager of the world, as HTTP.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use http::{HeaderMap, Request, StatusCode};
use hyper::body::Bytes;
use serde_json::Value;
use tower::ServiceExt as _;

use super::world::{World, caller};
use crate::{ApiSettings, ApiState, Caller, CreatedKey, Doing, KeyFacts, Keys, NewKey, Team, router};

/// The API of one manager. The ID of a key is the key.
pub(crate) struct Api(Router);

/// What it answers.
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Api {
    /// Sends a request with a key; an empty body is none. Its ID is always the same.
    pub(crate) async fn send(&self, key: &str, method: &str, path: &str, body: &'static str) -> Reply {
        let request = Request::builder().method(method).uri(path).header("X-API-KEY", key);
        let request = request.header("X-Request-ID", "same").header("content-type", "application/json");
        let reply = self.0.clone().oneshot(request.body(Body::from(body)).unwrap()).await.unwrap();
        let (parts, body) = reply.into_parts();
        let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        Reply { status: parts.status, headers: parts.headers, body }
    }
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// Every key is good, and is the ID of its owner.
struct AnyKey;

impl Keys for AnyKey {
    fn authenticate(&self, presented: &str) -> Option<Caller> {
        Some(caller(presented, &[]))
    }

    fn teams(&self, _: &Caller) -> Vec<Team> {
        Vec::new()
    }

    fn list(&self, _: &Caller) -> Vec<KeyFacts> {
        Vec::new()
    }

    fn create<'a>(&'a self, _: &'a Caller, _: NewKey) -> Doing<'a, CreatedKey> {
        unreachable!("nobody here makes keys")
    }

    fn revoke<'a>(&'a self, _: &'a Caller, _: &'a str) -> Doing<'a, ()> {
        unreachable!("nobody here revokes keys")
    }
}

impl World {
    /// The API of a manager.
    pub(crate) fn api(&self, replica: usize) -> Api {
        let lifecycle = Arc::new(self.manager(replica));
        Api(router(ApiState::new(lifecycle, Arc::new(AnyKey), ApiSettings::default())))
    }
}
