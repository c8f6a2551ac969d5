//! The parts of a create that is routed, each without a manager.

use std::net::IpAddr;
use std::time::Instant;

use futures_util::future::join_all;
use http_body_util::Full;
use kube::Client as Kubernetes;
use sandgate_tests::{Client, Gateway, Request, eventually, refresh_request};
use serde_json::{Value, json};

use super::{GATEWAYS, PATIENCE, ask, known_id, known_token, millis};
use crate::bare::{self, Mould};
use crate::site::{Site, address};

const PARTS: [&str; 4] = ["the write of a claim", "an init", "a push to every gateway", "a first request"];

/// What the parts are measured with.
pub(super) struct Parts<'a> {
    pub(super) site: &'a Site,
    pub(super) client: Kubernetes,
    pub(super) mould: Mould,
    pub(super) gateways: &'a [Gateway],
    pub(super) port: u16,
}

/// How long they took, in milliseconds.
pub(super) struct Took {
    /// Each part.
    pub(super) each: [(&'static str, Vec<f64>); 4],
    /// All four for one sandbox.
    pub(super) sum: Vec<f64>,
}

impl Parts<'_> {
    /// Goes through the parts once for each sandbox that the gateways know, with so many workers. What is
    /// claimed are as many sandboxes of a pool of their own.
    pub(super) async fn measure(&self, prefix: &str, known: &[usize], workers: usize) -> Took {
        self.site.fill(prefix, known.len()).await;
        let is_ours = |sandbox: &Value| {
            sandbox["metadata"]["name"].as_str().is_some_and(|name| name.starts_with(prefix))
        };
        // The API server's list is behind for a moment after objects that were written past it.
        let free: Vec<Value> = eventually("the pool is there", PATIENCE, async || {
            let free: Vec<Value> = self.site.sandboxes().await.into_iter().filter(is_ours).collect();
            (free.len() == known.len()).then_some(free)
        })
        .await;
        let tasks: Vec<(&Value, usize)> = free.iter().zip(known.iter().copied()).collect();
        let workers = (0..workers).map(async |worker| {
            let mut lines = join_all(self.gateways.iter().map(Gateway::client)).await;
            let mut pushed = Vec::new();
            for gateway in self.gateways {
                pushed.push(Client::http1(gateway.refresh_address().await).await.expect("a line"));
            }
            let mut times = Vec::new();
            for (sandbox, number) in tasks.iter().skip(worker).step_by(workers) {
                let line = &mut lines[number % GATEWAYS];
                times.push(self.one(sandbox, *number, line, &mut pushed).await);
            }
            times
        });
        let times = join_all(workers).await.concat();
        let part = |part: usize| times.iter().map(|times| times[part]).collect::<Vec<_>>();
        Took {
            each: std::array::from_fn(|number| (PARTS[number], part(number))),
            sum: times.iter().map(|times| times.iter().sum()).collect(),
        }
    }

    async fn one(
        &self,
        sandbox: &Value,
        number: usize,
        line: &mut Client,
        pushed: &mut [Client],
    ) -> [f64; 4] {
        let began = Instant::now();
        let claimed = bare::claim(&self.client, &self.mould, sandbox, number).await;
        let write = millis(began);

        let body = json!({ "envVars": {}, "accessToken": known_token(number) }).to_string();
        let began = Instant::now();
        let mut runtime =
            Client::http1((IpAddr::from(address(number)), self.port).into()).await.expect("a line");
        let request = Request::post("/init").header("content-type", "application/json");
        let reply = runtime.send(request.body(Full::from(body))).await.expect("an answer of the runtime");
        assert_eq!(reply.status, 200);
        let init = millis(began);

        let message = message(&claimed);
        let began = Instant::now();
        join_all(pushed.iter_mut().map(async |gateway| {
            let reply = gateway.send(refresh_request(&message)).await.expect("an answer of the gateway");
            assert_eq!(reply.status, 204, "{}", reply.text());
        }))
        .await;
        let push = millis(began);

        let began = Instant::now();
        let status = ask(line, &known_id(number), &known_token(number), self.port).await;
        assert_eq!(status, 200, "a sandbox that is known is served");
        [write, init, push, millis(began)]
    }
}

/// The route of a sandbox as a manager tells it.
fn message(sandbox: &Value) -> Value {
    let metadata = &sandbox["metadata"];
    let annotation = |name: &str| &metadata["annotations"][format!("agents.kruise.io/{name}")];
    json!({
        "id": metadata["labels"]["agents.kruise.io/sandbox-id"],
        "namespace": metadata["namespace"], "name": metadata["name"], "uid": metadata["uid"],
        "owner": annotation("owner"), "state": "running",
        "ip": sandbox["status"]["podInfo"]["podIP"], "resourceVersion": metadata["resourceVersion"],
        "accessToken": annotation("runtime-access-token"),
    })
}
