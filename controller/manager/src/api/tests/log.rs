//! What is logged of a request, and what never is.

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::json;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;

use super::Api;
use super::fake::{KEY, TOKEN};

/// A log that is kept.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

#[tokio::test]
async fn each_request_has_a_line_without_secrets() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .json()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(log.clone())
        .finish();
    // Where a process has one subscriber, the thread that first comes to a line decides whether anybody wants
    // it, and another test's thread has none. Where it has two, both are asked.
    let silent = tracing_subscriber::fmt().with_max_level(LevelFilter::OFF).finish();
    let _second = tracing::Dispatch::new(silent);
    let guard = tracing::subscriber::set_default(subscriber);
    let api = Api::new();
    let secret = json!({"templateID": "base", "envVars": {"PASSWORD": "hunter2"}});
    let made = api.post("/v2/sandboxes", secret).await;
    api.post("/v2/sandboxes", json!({"templateID": "base", "envVars": {"PASSWORD": ["hunter2"]}})).await;
    api.get("/sandboxes/sbx1").await;
    api.post("/api-keys", json!({"name": "ci"})).await;
    api.get("/sandboxes/missing-hunter2").await;
    drop(guard);
    let text = String::from_utf8(log.0.lock().clone()).unwrap();
    for never in [TOKEN, KEY, "hunter2"] {
        assert!(!text.contains(never), "{never} is in {text}");
    }
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 5, "{text}");
    let fields = &lines[0]["fields"];
    assert_eq!(fields["method"], "POST");
    assert_eq!(fields["route"], "/v2/sandboxes");
    assert_eq!(fields["status"], 201);
    assert_eq!(fields["request_id"], made.header("x-request-id").unwrap());
    assert_eq!(fields["key"], "8c1f03a2-0b4d-4e5f-9a6b-7c8d9e0f1a2b");
    assert!(fields["ms"].is_u64());
    assert_eq!(lines[4]["fields"]["route"], "/sandboxes/{sandboxID}");
}
