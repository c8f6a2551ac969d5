//! An API server that has one lease, behind the real client.

use std::convert::Infallible;
use std::sync::Arc;

use http::{Method, Request, Response, StatusCode};
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};

#[derive(Default)]
struct State {
    lease: Option<Value>,
    versions: u64,
    writes: Vec<Value>,
    /// Requests do not arrive.
    cut: bool,
    /// So many writes are done and not answered.
    unanswered: usize,
}

#[derive(Clone, Default)]
pub(super) struct LeaseServer(Arc<Mutex<State>>);

impl LeaseServer {
    pub(super) fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move { server.answer(request).await }
        });
        Client::new(service, "ns")
    }

    pub(super) fn cut(&self, cut: bool) {
        self.0.lock().cut = cut;
    }

    pub(super) fn lose_answers(&self, count: usize) {
        self.0.lock().unanswered = count;
    }

    pub(super) fn holder(&self) -> Option<String> {
        let state = self.0.lock();
        state.lease.as_ref()?["spec"]["holderIdentity"].as_str().map(str::to_owned)
    }

    pub(super) fn put(&self, lease: Value) {
        self.0.lock().store(lease);
    }

    /// The lease as each write left it.
    pub(super) fn writes(&self) -> Vec<Value> {
        self.0.lock().writes.clone()
    }

    async fn answer(&self, request: Request<Body>) -> Result<Response<Body>, Infallible> {
        let (head, body) = request.into_parts();
        let body = body.collect_bytes().await.unwrap();
        if self.0.lock().cut {
            std::future::pending::<()>().await;
        }
        let (code, answer, answered) = self.0.lock().perform(&head.method, &body);
        if !answered {
            std::future::pending::<()>().await;
        }
        let code = StatusCode::from_u16(code).unwrap();
        Ok(Response::builder().status(code).body(Body::from(answer.to_string().into_bytes())).unwrap())
    }
}

impl State {
    fn perform(&mut self, method: &Method, body: &[u8]) -> (u16, Value, bool) {
        let refusal = |code: u16, reason: &str| {
            let status = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
                "reason": reason, "message": reason, "metadata": {} });
            (code, status, true)
        };
        if *method == Method::GET {
            return match &self.lease {
                Some(lease) => (200, lease.clone(), true),
                None => refusal(404, "NotFound"),
            };
        }
        let new: Value = serde_json::from_slice(body).unwrap();
        let known = self.lease.as_ref().map(|lease| &lease["metadata"]["resourceVersion"]);
        let code = match (method, known) {
            (&Method::POST, None) => 201,
            (&Method::PUT, Some(version)) if *version == new["metadata"]["resourceVersion"] => 200,
            (&Method::PUT, None) => return refusal(404, "NotFound"),
            _ => return refusal(409, "Conflict"),
        };
        let lease = self.store(new);
        let answered = self.unanswered == 0;
        self.unanswered = self.unanswered.saturating_sub(1);
        (code, lease, answered)
    }

    fn store(&mut self, mut lease: Value) -> Value {
        self.versions += 1;
        lease["metadata"]["resourceVersion"] = json!(self.versions.to_string());
        self.lease = Some(lease.clone());
        self.writes.push(lease.clone());
        lease
    }
}
