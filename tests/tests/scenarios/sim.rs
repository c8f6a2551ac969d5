//! The model of the simulation, held against the API server itself.
//!
//! Both get the same lists of requests: creates, replaces, patches and deletes, with right, wrong and no
//! versions and UIDs, with finalizers and grace periods. After each request both must have answered alike and
//! hold the same object; at the end both must have told their watchers the same. `SANDGATE_SEED=…` makes one
//! list again.

mod requests;

use futures_util::future::join_all;
use http::Response;
use http_body_util::BodyExt as _;
use kube::client::Body;
use sandgate_sim::Random;
use sandgate_sim::model::{BATCHES, CONFIG_MAPS, JOBS, Kind, Model, PODS, SANDBOXES, object};
use sandgate_sim::network::answer;
use sandgate_tests::kubernetes::ApiServer;
use serde_json::{Value, json};

use requests::{Known, Wish};

/// One of the two servers, and what its client knows.
struct Side<'a> {
    server: Server<'a>,
    namespace: String,
    known: [Known; 2],
}

enum Server<'a> {
    Real(kube::Client),
    Model(&'a mut Model),
}

impl Side<'_> {
    async fn ask(&mut self, request: http::Request<Vec<u8>>) -> (u16, Value) {
        let (code, body) = self.ask_text(request).await;
        (code, serde_json::from_slice(&body).unwrap_or(Value::Null))
    }

    async fn ask_text(&mut self, request: http::Request<Vec<u8>>) -> (u16, Vec<u8>) {
        match &mut self.server {
            Server::Real(client) => {
                let answer: Response<Body> = client.send(request.map(Body::from)).await.expect("an answer");
                let code = answer.status().as_u16();
                (code, answer.into_body().collect().await.expect("a body").to_bytes().to_vec())
            }
            Server::Model(model) => {
                let answer = answer(model, request);
                (answer.status().as_u16(), answer.into_body())
            }
        }
    }

    /// Sends the request, reads the object anew, and says what a client can know of both, without what must
    /// differ.
    async fn wish(&mut self, kind: &Kind, wish: &Wish) -> Value {
        let request = wish.request(kind, &self.namespace, &self.known[wish.object]);
        let (code, answer) = self.ask(request).await;
        let (_, now) = self.ask(requests::get(kind, &self.namespace, wish.object)).await;
        let known = &mut self.known[wish.object];
        let changed = known.observe(&now);
        json!({
            "code": code,
            "reason": if code >= 400 { answer["reason"].clone() } else { Value::Null },
            "changed": changed,
            "object": projection(&now),
        })
    }

    /// What the watchers of the namespace were told since this version, by a watch of so many seconds.
    async fn told(&mut self, kind: &Kind, since: &str, seconds: u32) -> Vec<Value> {
        let request = requests::watch(kind, &self.namespace, since, seconds);
        let (_, lines) = self.ask_text(request).await;
        let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let events = lines.map(|line| serde_json::from_slice::<Value>(line).expect("JSON"));
        let told = events.filter(|event| event["type"] != "BOOKMARK");
        told.map(|event| json!([event["type"], projection(&event["object"])])).collect()
    }

    async fn version(&mut self, kind: &Kind) -> String {
        let (_, list) = self.ask(requests::list(kind, &self.namespace)).await;
        object::text(&list, "/metadata/resourceVersion").to_owned()
    }
}

/// What the two servers must agree on. UIDs, versions and times are their own.
fn projection(of: &Value) -> Value {
    let sorted = |pointer: &str| of.pointer(pointer).cloned().unwrap_or(Value::Null);
    json!({
        "name": sorted("/metadata/name"),
        "generation": sorted("/metadata/generation"),
        "deleting": object::deleting(of),
        "grace": sorted("/metadata/deletionGracePeriodSeconds"),
        "finalizers": sorted("/metadata/finalizers"),
        "labels": sorted("/metadata/labels"),
        "owners": object::list(of, "/metadata/ownerReferences").len(),
        "paused": sorted("/spec/paused"),
        "pause": sorted("/spec/pause"),
        "suspend": sorted("/spec/suspend"),
        "image": sorted("/spec/containers/0/image"),
        "data": sorted("/data"),
        "phase": sorted("/status/phase"),
        "active": sorted("/status/active"),
    })
}

/// One list of requests, for one kind.
async fn compare(api: &ApiServer, kind: &'static Kind, seed: u64) {
    let namespace = api.namespace("sim").await;
    let mut random = Random::new(seed);
    let mut model = Model::new(random.next(), "2026-11-18T10:00:00Z".parse().expect("a time"), 10_000);
    let side = |server| Side { server, namespace: namespace.clone(), known: Default::default() };
    let mut real = side(Server::Real(api.client()));
    let mut model = side(Server::Model(&mut model));
    let since = (real.version(kind).await, model.version(kind).await);

    let mut sent = Vec::new();
    for _ in 0..30 {
        let wish = Wish::choose(kind, &mut random);
        let (is, modelled) = (real.wish(kind, &wish).await, model.wish(kind, &wish).await);
        sent.push(format!("{wish:?}"));
        let list = || sent.join("\n  ");
        assert_eq!(
            modelled,
            is,
            "model (left) and server differ: SANDGATE_SEED={seed}, {}\n  {}",
            kind.plural,
            list()
        );
    }
    let modelled = model.told(kind, &since.1, 1).await;
    let mut told = real.told(kind, &since.0, 1).await;
    if told.len() < modelled.len() {
        // A loaded server may not have said everything within a second.
        told = real.told(kind, &since.0, 15).await;
    }
    let list = sent.join("\n  ");
    assert_eq!(modelled, told, "watchers differ: SANDGATE_SEED={seed}, {}\n  {list}", kind.plural);
}

async fn compare_all(kind: &'static Kind) {
    let api = ApiServer::shared().await;
    let seeds = match std::env::var("SANDGATE_SEED") {
        Ok(seed) => vec![seed.parse().expect("SANDGATE_SEED is a number")],
        Err(_) => (0..12).collect(),
    };
    // At the same time, each in a namespace of its own: most of the time of each is the wait for its watch.
    join_all(seeds.into_iter().map(|seed| compare(&api, kind, seed))).await;
}

#[tokio::test]
async fn the_model_does_to_sandboxes_what_the_api_server_does() {
    compare_all(&SANDBOXES).await;
}

#[tokio::test]
async fn the_model_does_to_pods_what_the_api_server_does() {
    compare_all(&PODS).await;
}

#[tokio::test]
async fn the_model_does_to_config_maps_what_the_api_server_does() {
    compare_all(&CONFIG_MAPS).await;
}

/// Pools and snapshots are custom resources with a status, as batches are.
#[tokio::test]
async fn the_model_does_to_batches_what_the_api_server_does() {
    compare_all(&BATCHES).await;
}

#[tokio::test]
async fn the_model_does_to_jobs_what_the_api_server_does() {
    compare_all(&JOBS).await;
}
