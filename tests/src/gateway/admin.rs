//! Envoy's admin port: its own pages and the module's.

use serde_json::Value;

use super::Gateway;
use crate::{Client, DEADLINE, Reply, Request, eventually};

impl Gateway {
    /// Reads a page of the admin port. A page that is made while we wait is waited for.
    pub async fn admin(&self, path: &str) -> Reply {
        let mut asked = path.to_owned();
        eventually(&format!("{path} is made"), DEADLINE * 3, async || {
            let reply = self.admin_send(Request::get(&asked)).await;
            match reply.status {
                202 => {
                    asked = reply.json()["again"].as_str().expect("where to ask again").to_owned();
                    None
                }
                503 if reply.text().contains("other pages are being made") => None,
                _ => Some(reply),
            }
        })
        .await
    }

    /// Sends any request to the admin port.
    pub async fn admin_send(&self, request: Request) -> Reply {
        let mut client = Client::http1(self.admin_address()).await.expect("connect to the admin port");
        client.send(request).await.expect("an answer from the admin port")
    }

    /// `/sandgate/status`.
    pub async fn status(&self) -> Value {
        let reply = self.admin("/sandgate/status").await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.json()
    }

    /// What `/sandgate/status` says of the newest cluster of this name.
    pub async fn cluster_status(&self, name: &str) -> Value {
        let status = self.status().await;
        let clusters = status["clusters"].as_array().expect("clusters are a list");
        clusters
            .iter()
            .rfind(|cluster| cluster["name"] == name)
            .unwrap_or_else(|| panic!("no {name} in {status}"))
            .clone()
    }

    /// The value of a counter or gauge, `None` when there is none of that name.
    pub async fn stat(&self, name: &str) -> Option<u64> {
        let reply = self.admin(&format!("/stats?filter=^{}$", name.replace('.', "\\."))).await;
        let text = reply.text().trim().to_owned();
        text.strip_prefix(name)?.strip_prefix(": ")?.parse().ok()
    }

    /// What Envoy's heap has given out, in bytes.
    pub async fn heap(&self) -> u64 {
        let memory = self.admin("/memory").await.json();
        memory["allocated"].as_str().and_then(|bytes| bytes.parse().ok()).expect("a number of bytes")
    }

    /// Waits until a counter or gauge has a value.
    pub async fn stat_is(&self, name: &str, value: u64) {
        let mut last = None;
        let waited = tokio::time::timeout(DEADLINE, async {
            eventually(&format!("{name} is {value}"), DEADLINE * 2, async || {
                last = self.stat(name).await;
                (last == Some(value)).then_some(())
            })
            .await;
        });
        assert!(waited.await.is_ok(), "{name} is {last:?} where {value} was expected");
    }

    /// Waits until the table is the one of the `generation`-th good load of the routes file.
    pub async fn generation(&self, generation: u64) {
        eventually(&format!("load {generation} of the routes file"), DEADLINE, async || {
            (self.status().await["sources"][0]["generation"].as_u64()? >= generation).then_some(())
        })
        .await;
    }

    /// The answer of `/ready`: `LIVE` or `INITIALIZING` and others.
    pub async fn readiness(&self) -> String {
        self.admin("/ready").await.text().trim().to_owned()
    }
}
