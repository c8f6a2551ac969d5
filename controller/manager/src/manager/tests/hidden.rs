//! What is another's, as its owner's neighbour is told of it over HTTP.

use std::collections::BTreeSet;

use http::StatusCode;
use serde_json::{Value, json};

use super::served::Reply;
use super::world::{World, caller, run, somebody};
use crate::document;

/// What each operation on a sandbox is sent with.
const BODIES: [(&str, &str, &str); 18] = [
    ("GET", "/sandboxes/{sandboxID}", ""),
    ("DELETE", "/sandboxes/{sandboxID}", ""),
    ("POST", "/sandboxes/{sandboxID}/connect", r#"{"timeout":60}"#),
    ("POST", "/v2/sandboxes/{sandboxID}/connect", r#"{"timeout":60}"#),
    ("POST", "/sandboxes/{sandboxID}/timeout", r#"{"timeout":60}"#),
    ("POST", "/sandboxes/{sandboxID}/refreshes", r#"{"duration":60}"#),
    ("POST", "/sandboxes/{sandboxID}/pause", "{}"),
    ("POST", "/sandboxes/{sandboxID}/resume", r#"{"timeout":60}"#),
    ("PUT", "/sandboxes/{sandboxID}/network", r#"{"allowOut":["1.1.1.1"],"allow_internet_access":false}"#),
    ("PUT", "/sandboxes/{sandboxID}/network", "{}"),
    ("POST", "/sandboxes/{sandboxID}/fork", r#"{"count":2}"#),
    ("POST", "/sandboxes/{sandboxID}/snapshots", r#"{"name":"one"}"#),
    ("GET", "/sandboxes/{sandboxID}/metrics", ""),
    ("GET", "/sandboxes/{sandboxID}/logs", ""),
    ("GET", "/v2/sandboxes/{sandboxID}/logs", ""),
    // Not documented, because nothing stands behind them.
    ("POST", "/sandboxes/{sandboxID}/traffic-access-token", ""),
    ("GET", "/browser/{sandboxID}/json/version", ""),
    ("GET", "/kruise/api/sandboxes/{sandboxID}", ""),
];

#[test]
fn every_documented_operation_on_a_sandbox_is_looked_at_here() {
    let document = serde_json::to_value(document()).unwrap();
    let mut documented = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        let methods = item.as_object().unwrap().keys().map(|method| (method.to_uppercase(), path.clone()));
        documented.extend(methods.filter(|(_, path)| path.contains("{sandboxID}")));
    }
    let known = BODIES.map(|(method, path, _)| (method.to_owned(), path.to_owned())).into();
    let missing: Vec<_> = documented.difference(&known).collect();
    assert!(!documented.is_empty() && missing.is_empty(), "{missing:?}");
}

/// Everything of an answer but the ID that was asked for.
fn without(id: &str, reply: &Reply) -> (StatusCode, Vec<(String, String)>, String) {
    let headers =
        reply.headers.iter().map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()));
    let body = String::from_utf8(reply.body.to_vec()).unwrap();
    (reply.status, headers.collect(), body.replace(id, "ID"))
}

/// The request's own ID is the same for both: it is the caller's.
#[test]
fn anothers_sandbox_and_a_missing_one_are_the_same_404_for_every_operation() {
    run(async {
        // A manager that sees the sandbox, and one that has to ask for it.
        for replica in [0, 1] {
            let mut world = World::with(2, 3);
            world.replicas[1].lags = true;
            let running = world.created(&somebody()).await;
            let paused = world.created(&somebody()).await;
            let (manager, id) = (world.manager(0), paused.id.clone());
            world.end(async move { manager.pause(&somebody(), &id, None).await }).await.unwrap();
            let failed = world.created(&somebody()).await;
            world.put(&failed, |sandbox| sandbox["status"]["phase"] = "Failed".into());
            let before = world.model.revision();
            // It is as long as the others, so the answer is too.
            let nobodys = "n".repeat(running.id.len());
            let mut answers = BTreeSet::new();
            for id in [&nobodys, &running.id, &paused.id, &failed.id] {
                for (method, path, body) in BODIES {
                    let api = world.api(replica);
                    let path = path.replace("{sandboxID}", id);
                    let asked = async move { Ok(api.send("owner-2", method, &path, body).await) };
                    let reply = world.end(asked).await.unwrap();
                    answers.insert(without(id, &reply));
                }
            }
            let answers: Vec<_> = answers.into_iter().collect();
            let [(status, _, body)] = answers.as_slice() else { panic!("they differ: {answers:#?}") };
            assert_eq!(*status, 404);
            let body: Value = serde_json::from_str(body).unwrap();
            let expected = json!({"code": 404, "message": "sandbox ID was not found", "request_id": "same"});
            assert_eq!(body, expected);
            assert_eq!(world.model.revision(), before, "nothing was written");
        }
    });
}

/// The same requests are no 404 for the owner, so it is not the requests.
#[test]
fn the_owner_of_a_sandbox_is_never_told_that_it_is_missing() {
    run(async {
        for (method, path, body) in BODIES {
            let mut world = World::with(0, 1);
            world.settings.snapshots.executor = false;
            world.start();
            let id = world.created(&caller("owner-2", &[])).await.id;
            let api = world.api(0);
            let of = path.replace("{sandboxID}", &id);
            let asked = async move { Ok(api.send("owner-2", method, &of, body).await) };
            let reply = world.end(asked).await.unwrap();
            assert_ne!(reply.status, 404, "{method} {path}");
        }
    });
}
