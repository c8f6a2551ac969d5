//! The API against a manager that only remembers what it was asked for.

mod answers;
mod auth;
mod documented;
mod failures;
mod fake;
mod log;
mod property;
mod reference;

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use http::{HeaderMap, Method, Request, StatusCode};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::{ApiSettings, ApiState, router};
use fake::{Fake, KEY};

/// An API over a fake.
pub(super) struct Api {
    pub(super) fake: Arc<Fake>,
    router: Router,
}

/// What was answered.
pub(super) struct Reply {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Value,
}

impl Api {
    pub(super) fn new() -> Self {
        Self::with(ApiSettings { domain: Some("sandboxes.test".to_owned()), ..ApiSettings::default() })
    }

    pub(super) fn with(settings: ApiSettings) -> Self {
        let fake = Arc::new(Fake::default());
        let state = ApiState::new(fake.clone(), fake.clone(), settings);
        Self { fake, router: router(state) }
    }

    /// A request with a valid key.
    pub(super) async fn ask(&self, method: &str, path: &str, body: Option<Value>) -> Reply {
        let mut request = Request::builder().method(method).uri(path).header("X-API-KEY", KEY);
        let body = body.map_or_else(Body::empty, |value| Body::from(value.to_string()));
        request = request.header("content-type", "application/json");
        self.send(request.body(body).unwrap()).await
    }

    pub(super) async fn get(&self, path: &str) -> Reply {
        self.ask("GET", path, None).await
    }

    pub(super) async fn post(&self, path: &str, body: Value) -> Reply {
        self.ask("POST", path, Some(body)).await
    }

    /// Whatever request.
    pub(super) async fn send(&self, request: Request<Body>) -> Reply {
        let head = request.method() == Method::HEAD;
        let reply = self.router.clone().oneshot(request).await.unwrap();
        let (status, headers) = (reply.status(), reply.headers().clone());
        let bytes = to_bytes(reply.into_body(), 1 << 24).await.unwrap();
        assert!(headers.contains_key("x-request-id"), "no ID on {status}");
        if bytes.is_empty() {
            assert!(status == 204 || head, "an empty {status}");
            return Reply { status, headers, body: Value::Null };
        }
        assert_eq!(headers["content-type"], "application/json");
        let body = serde_json::from_slice(&bytes).unwrap();
        Reply { status, headers, body }
    }
}

impl Reply {
    /// A failure with this status, whose message has all of these.
    #[track_caller]
    pub(super) fn fails(&self, status: u16, words: &[&str]) {
        assert_eq!(self.status, status, "{}", self.body);
        assert_eq!(self.body["code"], status);
        assert_eq!(self.body["request_id"], self.header("x-request-id").unwrap());
        let message = self.body["message"].as_str().unwrap();
        for word in words {
            assert!(message.contains(word), "{word:?} is not in {message:?}");
        }
    }

    #[track_caller]
    pub(super) fn is(&self, status: u16, body: &Value) {
        assert_eq!((self.status.as_u16(), &self.body), (status, body));
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

/// The least that a create needs.
fn least() -> Value {
    json!({"templateID": "base"})
}
