//! What a gateway that is not ready waits for, for the person who started it.
//!
//! Its listeners are closed until the first list of every source is in, and a source that cannot be reached
//! is tried for ever. So this is said after a few seconds, and again each minute: a message from an hour ago
//! is not seen.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use crate::admin::Admin;
use crate::terminal::note;

/// Lists of this length are normal.
const PATIENCE: Duration = Duration::from_secs(3);
const AGAIN: Duration = Duration::from_secs(60);

pub(super) struct Waiting {
    since: Instant,
    next: Instant,
}

impl Waiting {
    pub(super) fn new() -> Self {
        let since = Instant::now();
        Waiting { since, next: since + PATIENCE }
    }

    /// Says what is waited for, if it is time to.
    pub(super) async fn report(&mut self, admin: &Admin) {
        let Some(waited) = self.due(Instant::now()) else { return };
        let status = admin.get("/sandgate/status").await.ok().and_then(|answer| answer.json());
        note(&words(waited, status.as_ref()));
    }

    /// How long it has been, each time that is to be said.
    fn due(&mut self, now: Instant) -> Option<Duration> {
        (now >= self.next).then(|| {
            self.next = now + AGAIN;
            now.duration_since(self.since)
        })
    }
}

fn words(waited: Duration, status: Option<&Value>) -> String {
    let seconds = waited.as_secs();
    let mut text = format!("warning: not ready after {seconds} s, and the listeners are closed until it is");
    let sources = status.and_then(|status| status.get("sources")).and_then(Value::as_array);
    let missing: Vec<String> = sources.into_iter().flatten().flat_map(missing).collect();
    if missing.is_empty() {
        text.push_str(". Waiting for Envoy: its own messages above may say why");
        return text;
    }
    text.push_str(". Waiting for:");
    for line in missing {
        let _ = write!(text, "\n  {line}");
    }
    text
}

/// A line for each part of a source that has not been read once.
fn missing(source: &Value) -> Vec<String> {
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    let error = |of: &Value| text(of, "error").unwrap_or_else(|| "no answer yet".to_owned());
    match source.get("scopes").and_then(Value::as_array) {
        Some(scopes) => {
            let unread = scopes.iter().filter(|scope| scope.get("listed") != Some(&Value::Bool(true)));
            unread
                .map(|scope| {
                    let resource = text(scope, "resource").unwrap_or_default();
                    let place = text(scope, "namespace")
                        .map_or_else(|| "all namespaces".to_owned(), |name| format!("the namespace {name}"));
                    format!("the list of {resource} in {place} from the API server: {}", error(scope))
                })
                .collect()
        }
        None if source.get("generation").and_then(Value::as_u64) == Some(0) => {
            vec![format!("the routes file {}: {}", text(source, "path").unwrap_or_default(), error(source))]
        }
        None => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn it_is_said_after_a_few_seconds_and_then_each_minute() {
        let mut waiting = Waiting::new();
        let start = waiting.since;
        let reported = (0..=200).filter(|second| waiting.due(start + Duration::from_secs(*second)).is_some());
        assert_eq!(reported.collect::<Vec<_>>(), [3, 63, 123, 183]);
    }

    #[test]
    fn the_words_name_each_source_that_is_missing_and_why() {
        let scope = |listed, error| json!({ "resource": "sandboxes.x/v1", "namespace": null, "listed": listed, "error": error });
        let status = json!({ "sources": [
            { "kind": "file", "path": "/r.yaml", "generation": 0, "error": "2:1: name: missing" },
            { "kind": "file", "path": "/s.yaml", "generation": 1, "error": null },
            { "kind": "kubernetes", "scopes": [scope(true, json!(null)), scope(false, json!("connection refused"))] },
        ]});
        assert_eq!(
            words(Duration::from_secs(63), Some(&status)),
            "warning: not ready after 63 s, and the listeners are closed until it is. Waiting for:\n  the routes file /r.yaml: 2:1: \
             name: missing\n  the list of sandboxes.x/v1 in all namespaces from the API server: connection refused"
        );
        assert!(words(Duration::from_secs(3), None).contains("Waiting for Envoy"));
    }
}
