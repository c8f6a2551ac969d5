//! Waits for objects that the cache does not have: they are read live.

use std::sync::Arc;

use kube::Client;
use kube::client::Body;
use sandgate_objects::openkruise::resources::{Checkpoint, SandboxFacts};
use serde_json::{Value, json};
use tokio::task::yield_now;

use super::{LONG, labelled};
use crate::testing::{TestCache, key, running};
use crate::{Action, Cache, Kind, Seen, WaitError};

const READY: Action = Action::Ready;

/// An API server that has one object, or none, or no answer.
fn server(answer: Option<Value>, code: u16) -> Client {
    let service = tower::service_fn(move |_: http::Request<Body>| {
        let status =
            json!({"kind": "Status", "status": "Failure", "code": code, "message": "no", "reason": ""});
        let body = answer.clone().unwrap_or(status).to_string();
        let response = http::Response::builder().status(code).body(Body::from(body.into_bytes()));
        async move { Ok::<_, std::io::Error>(response.unwrap()) }
    });
    Client::new(service, "default")
}

fn live(uid: &str, value: &str) -> Value {
    let mut object = running("s");
    object["metadata"]["labels"] = json!({"x": value});
    object["metadata"]["namespace"] = "default".into();
    object["metadata"]["uid"] = uid.into();
    object["metadata"]["resourceVersion"] = "90".into();
    object
}

#[tokio::test(start_paused = true)]
async fn an_object_that_the_cache_does_not_have_is_read_live() {
    for (answer, code, expected) in [
        (Some(live("u", "yes")), 200, Ok(90)),
        (Some(live("u", "failed")), 200, Err(WaitError::Failed("x failed".to_owned()))),
        (Some(live("another", "yes")), 200, Err(WaitError::Gone)),
        (None, 404, Err(WaitError::Gone)),
        (None, 500, Err(WaitError::Timeout)),
    ] {
        let test = TestCache::built(Cache::builder().client(server(answer, code)));
        test.listed_all();
        let seen = Seen {
            key: key("s"),
            uid: "u".into(),
            version: test.next_version(),
            object: SandboxFacts::default(),
        };
        let ended = labelled(&test, &Arc::new(seen), READY, "x").within(LONG).await;
        assert_eq!(ended.map(|seen| seen.version.get()), expected, "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_live_read_is_kept_and_the_watch_goes_on_from_there() {
    let mut first = live("u", "");
    first["metadata"]["labels"] = json!({});
    let test = TestCache::built(Cache::builder().client(server(Some(first), 200)));
    let seen = Seen {
        key: key("s"),
        uid: "u".into(),
        version: test.next_version(),
        object: SandboxFacts::default(),
    };
    let steps = async {
        while test.get::<SandboxFacts>(&key("s")).is_none() {
            yield_now().await;
        }
        let mut done = live("u", "yes");
        done["metadata"]["resourceVersion"] = "91".into();
        test.show::<SandboxFacts>(&done);
    };
    let (ended, ()) = tokio::join!(labelled(&test, &Arc::new(seen), READY, "x").within(LONG), steps);
    assert_eq!(ended.unwrap().version.get(), 91);
}

#[tokio::test(start_paused = true)]
async fn an_object_outside_of_the_filters_is_judged_once_and_not_waited_for() {
    let client = server(Some(live("u", "yes")), 200);
    let test = TestCache::built(Cache::builder().client(client).selector("x=other"));
    let seen = Seen {
        key: key("s"),
        uid: "u".into(),
        version: test.next_version(),
        object: SandboxFacts::default(),
    };
    let seen = Arc::new(seen);
    assert!(labelled(&test, &seen, READY, "x").within(LONG).await.is_ok());
    let ended = labelled(&test, &seen, READY, "y").within(LONG).await.unwrap_err();
    assert!(matches!(&ended, WaitError::Failed(why) if why.contains("outside")), "{ended}");
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_followed_is_judged_once_and_not_kept() {
    let metadata = json!({"name": "v", "namespace": "default", "uid": "u", "resourceVersion": "90"});
    let mut claim = json!({"metadata": metadata, "spec": {}, "status": {"phase": "Pending"}});
    for is_bound in [false, true] {
        if is_bound {
            claim["spec"]["volumeName"] = "v1".into();
            claim["status"]["phase"] = "Bound".into();
        }
        let client = server(Some(claim.clone()), 200);
        let test = TestCache::built(Cache::builder().client(client).without(Kind::Pvc));
        let ended = test.pvc_bound(&key("v"), "u").within(LONG).await;
        match ended {
            Ok(_) => assert!(is_bound),
            Err(error) => {
                let is_outside = matches!(&error, WaitError::Failed(why) if why.contains("outside"));
                assert!(is_outside && !is_bound, "{error}");
            }
        }
        assert_eq!(test.count(Kind::Pvc), 0, "nobody would tell how it changes");
    }
}

#[tokio::test(start_paused = true)]
async fn a_checkpoint_is_read_from_the_cache_or_else_live_or_is_gone() {
    let checkpoint = |id: &str| {
        json!({
            "metadata": {"name": "c", "namespace": "default", "uid": "u", "resourceVersion": "90"},
            "spec": {"podName": "s"}, "status": {"phase": "Succeeded", "checkpointId": id},
        })
    };
    for (cached, live, expected) in [
        (Some("cached"), Some("live"), Ok("cached")),
        (None, Some("live"), Ok("live")),
        (None, None, Err(WaitError::Gone)),
    ] {
        let code = if live.is_some() { 200 } else { 404 };
        let test = TestCache::built(Cache::builder().client(server(live.map(checkpoint), code)));
        test.listed_all();
        if let Some(id) = cached {
            test.show::<Checkpoint>(&checkpoint(id));
        }
        let ended = test.checkpoint_done(&key("c"), "u").within(LONG).await;
        let id = ended.as_ref().map(|seen| seen.status.as_ref().unwrap().checkpoint_id.as_deref().unwrap());
        assert_eq!(id, expected.as_ref().copied());
        assert_eq!(test.count(Kind::Checkpoint), usize::from(expected.is_ok()), "what was read is kept");
    }
}
