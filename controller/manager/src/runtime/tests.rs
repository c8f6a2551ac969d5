use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::Request;
use hyper::body::Bytes;
use parking_lot::Mutex;
use sandgate_cache::testing::{TestCache, claimed};
use sandgate_objects::openkruise::resources::SandboxFacts;
use serde_json::Value;
use tokio::time::Instant;

use super::{Init, Runtime, Transport};
use crate::ErrorKind;

/// A runtime with a list of answers: statuses, or none for silence.
struct Script {
    answers: Mutex<Vec<Option<u16>>>,
    asked: Mutex<Vec<(String, Option<String>, Bytes)>>,
}

impl Transport for Script {
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'static, Result<(u16, Bytes), String>> {
        let token = request.headers().get("x-access-token").map(|token| token.to_str().unwrap().to_owned());
        self.asked.lock().push((request.uri().to_string(), token, request.body().clone()));
        match self.answers.lock().remove(0) {
            Some(status) => {
                let body = r#"{"ts": 7, "cpu_count": 2, "cpu_used_pct": 1.5, "mem_used": 10, "extra": 1}"#;
                std::future::ready(Ok((status, Bytes::from_static(body.as_bytes())))).boxed()
            }
            None => std::future::pending().boxed(),
        }
    }
}

fn script(answers: &[Option<u16>]) -> (Arc<Script>, Runtime) {
    let script = Arc::new(Script { answers: Mutex::new(answers.to_vec()), asked: Mutex::default() });
    let runtime = Runtime::new(Arc::clone(&script) as Arc<dyn Transport>, 49983);
    (script, runtime)
}

fn sandbox() -> Value {
    let mut sandbox = claimed("one", "ada", "id1");
    let annotations = &mut sandbox["metadata"]["annotations"];
    annotations["agents.kruise.io/init-runtime-request"] = r#"{"accessToken":"t"}"#.into();
    annotations["agents.kruise.io/runtime-access-token"] = "t".into();
    sandbox
}

#[tokio::test(start_paused = true)]
async fn a_runtime_is_asked_five_times_and_longer_apart_each_time() {
    let test = TestCache::new();
    let seen = test.show::<SandboxFacts>(&sandbox());
    let took = async |answers: &[Option<u16>], init| {
        let (script, runtime) = script(answers);
        let began = Instant::now();
        let done = runtime.init(&test, &seen, init).await;
        (done.map_err(|error| error.kind), began.elapsed().as_millis(), script.asked.lock().len())
    };
    let failed = Err(ErrorKind::Unavailable);
    assert_eq!(took(&[Some(204)], Init::First).await, (Ok(()), 0, 1));
    assert_eq!(took(&[Some(500), None, Some(204)], Init::First).await, (Ok(()), 1600, 3));
    assert_eq!(took(&[Some(503); 5], Init::First).await, (failed, 3000, 5));
    assert_eq!(took(&[None; 5], Init::First).await, (failed, 8000, 5));
    assert_eq!(took(&[Some(400)], Init::First).await, (failed, 0, 1));
    assert_eq!(took(&[Some(401)], Init::First).await, (failed, 0, 1));
    assert_eq!(took(&[Some(401)], Init::Again).await, (Ok(()), 0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_runtime_is_where_the_annotation_or_the_newest_pod_says() {
    let test = TestCache::new();
    let url = async |first: &Value, now: Option<&Value>| {
        let (script, runtime) = script(&[Some(503), Some(204)]);
        let seen = test.show::<SandboxFacts>(first);
        if let Some(now) = now {
            test.show::<SandboxFacts>(now);
        }
        runtime.init(&test, &seen, Init::First).await.unwrap();
        let (url, token, body) = script.asked.lock().pop().unwrap();
        assert_eq!((token.as_deref(), &body[..]), (Some("t"), &br#"{"accessToken":"t"}"#[..]));
        url
    };
    assert_eq!(url(&sandbox(), None).await, "http://10.0.0.1:49983/init");
    let mut moved = sandbox();
    moved["status"]["podInfo"]["podIP"] = "fd00::1".into();
    assert_eq!(url(&sandbox(), Some(&moved)).await, "http://[fd00::1]:49983/init");
    let mut named = sandbox();
    named["metadata"]["annotations"]["agents.kruise.io/runtime-url"] = "http://127.0.0.1:1/".into();
    assert_eq!(url(&named, None).await, "http://127.0.0.1:1/init");
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_without_a_request_is_not_initialised_and_one_with_tls_is_refused() {
    let test = TestCache::new();
    let (script, runtime) = script(&[]);
    let seen = test.show::<SandboxFacts>(&claimed("two", "ada", "id2"));
    assert_eq!(runtime.init(&test, &seen, Init::First).await, Ok(()));
    let mut tls = sandbox();
    tls["metadata"]["annotations"]["agents.kruise.io/runtime-tls-port"] = "49984".into();
    let seen = test.show::<SandboxFacts>(&tls);
    let refused = runtime.init(&test, &seen, Init::First).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Unsupported);
    assert!(script.asked.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn metrics_are_what_the_runtime_says_or_nothing() {
    let test = TestCache::new();
    let seen = test.show::<SandboxFacts>(&sandbox());
    let (_, runtime) = script(&[Some(200), Some(404), None]);
    let metric = runtime.metrics(&seen, test.now()).await.unwrap();
    assert_eq!((metric.at.as_second(), metric.cpu_count, metric.mem_used), (7, 2, 10));
    assert_eq!(runtime.metrics(&seen, test.now()).await, None);
    assert_eq!(runtime.metrics(&seen, test.now()).await, None);
}
