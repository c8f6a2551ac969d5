//! The servers at the addresses. Each answers as the sandbox that has the address now, and refuses what is
//! for another.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use sandgate_tests::Place;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::client::{ASKED, STARTED};
use super::ledger::Ledger;
use crate::support::PORT;

pub(super) struct Tenant {
    place: Place,
    accepting: JoinHandle<()>,
}

impl Tenant {
    /// Serves the address of this number.
    pub(super) async fn start(number: usize, ledger: &Arc<Ledger>) -> Self {
        let place = Place::reserve();
        let listener = TcpListener::bind((place.ip(), PORT)).await.expect("a free address");
        let ledger = Arc::clone(ledger);
        let accepting = tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { continue };
                let ledger = Arc::clone(&ledger);
                let service = service_fn(move |request| {
                    let answer = answer(number, &request, &ledger);
                    async move { Ok::<_, Infallible>(answer) }
                });
                tokio::spawn(async move {
                    // How a connection ends shows in the request that was on it.
                    let _ended = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Self { place, accepting }
    }

    pub(super) fn ip(&self) -> IpAddr {
        self.place.ip()
    }
}

impl Drop for Tenant {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

fn answer(number: usize, request: &Request<Incoming>, ledger: &Ledger) -> Response<Full<Bytes>> {
    let header = |name: &str| {
        let value = request.headers().get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_default().to_owned()
    };
    let (uid, asked) = (header("x-sandbox-uid"), header(ASKED));
    let started = header(STARTED).parse().expect("clients say when they start");
    let answers = ledger.request(number, &uid, &asked, started);
    let body = json!({ "name": asked, "uid": uid }).to_string();
    let mut response = Response::new(Full::from(body));
    if !answers {
        *response.status_mut() = StatusCode::MISDIRECTED_REQUEST;
    }
    response
}
