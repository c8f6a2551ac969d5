use std::sync::Arc;

use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tower::service_fn;

use super::world::*;
use crate::{Category, EnvSettings, Leadership, Metrics, Random, SandboxEnvReconciler, Writes};

/// The API server, but that it answers with this code where a pool of one of these names is made or changed.
fn refusing(world: &World, code: u16, names: &'static [&'static str]) -> Client {
    let server = world.server.client();
    let service = service_fn(move |request: Request<Body>| {
        let server = server.clone();
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect_bytes().await.unwrap();
            let object: Value = serde_json::from_slice(&body).unwrap_or_default();
            let path = parts.uri.path();
            let name = match parts.method {
                Method::POST => object["metadata"]["name"].as_str(),
                Method::PATCH if path.contains(POOLS) => path.rsplit('/').next(),
                _ => None,
            };
            match name.filter(|name| names.contains(name)) {
                Some(name) => {
                    let status = json!({"kind": "Status", "code": code, "reason": "X", "message": name});
                    let body = Body::from(status.to_string().into_bytes());
                    Ok(Response::builder().status(code).body(body).unwrap())
                }
                None => server.send(Request::from_parts(parts, Body::from(body))).await,
            }
        }
    });
    Client::new(service, "n")
}

/// A world with the pools of `e-a`, `e-b` and `e-d`. Then `e-z` comes before them, `e-c` after, `e-a` and
/// `e-b` change, and `e-d` goes. The API server answers with this code for `e-z` and `e-a`.
async fn world(code: u16) -> World {
    let mut world = World::of(&[frozen("e-a", 1), frozen("e-b", 1), frozen("e-d", 1)]);
    world.settle().await;
    world.server.change(ENVS, "e", |env| {
        let members = ["e-z", "e-a", "e-b", "e-c"].map(|name| frozen(name, 4));
        env["spec"]["clusters"][0]["members"] = json!(members);
    });
    let view = world.process.view.clone();
    let metrics = Metrics::register(&mut prometheus_client::registry::Registry::default());
    let client = refusing(&world, code, &["e-z", "e-a"]);
    let writes = Writes::new(client, view.clone(), Leadership::always(), metrics.writes);
    let (events, clock) = (Arc::clone(&world.events), Arc::clone(&world.clock));
    let settings = EnvSettings::of_cluster("local");
    world.process.envs = SandboxEnvReconciler::new(view, writes, events, clock, Random::seeded(1), settings);
    world
}

fn replicas(world: &World) -> Vec<(String, Value)> {
    let pools = world.pools().into_iter();
    pools.map(|name| (name.clone(), world.pool(&name)["spec"]["replicas"].clone())).collect()
}

fn pools(expected: &[(&str, i32)]) -> Vec<(String, Value)> {
    expected.iter().map(|(name, replicas)| ((*name).to_owned(), json!(replicas))).collect()
}

#[tokio::test]
async fn a_pool_that_is_refused_keeps_no_other_from_being_made_changed_or_deleted() {
    for code in [403, 422] {
        let world = world(code).await;
        let failed = world.look().await.unwrap_err();
        assert_eq!(failed.category, Category::Refused);
        assert!(failed.message.contains("e-z"), "the first is told: {}", failed.message);
        assert_eq!(replicas(&world), pools(&[("e-a", 1), ("e-b", 4), ("e-c", 4)]));
        // What is there is observed.
        assert_eq!(world.condition("Ready").1, "Missing");
        assert_eq!(world.env()["status"]["desiredReplicas"], 9);
    }
}

#[tokio::test]
async fn a_failure_that_is_not_of_one_pool_ends_the_look() {
    for (code, category) in [(409, Category::Conflict), (429, Category::PutOff), (500, Category::Unanswered)]
    {
        let world = world(code).await;
        assert_eq!(world.look().await.unwrap_err().category, category);
        assert_eq!(replicas(&world), pools(&[("e-a", 1), ("e-b", 1), ("e-d", 1)]), "{code}");
    }
}
