//! Writes of custom resources into etcd, over connections that stay.

use std::net::SocketAddr;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http_body_util::Full;
use sandgate_tests::{Client, Request};
use serde_json::{Value, json};

/// One object as the API server stores it.
pub(crate) struct Stored {
    pub(crate) key: String,
    pub(crate) value: String,
}

pub(crate) struct Etcd(Client);

impl Etcd {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        Etcd(Client::http1(address).await.expect("reach etcd"))
    }

    /// Writes all of these at once, and gives the revision.
    pub(crate) async fn put(&mut self, objects: impl IntoIterator<Item = Stored>) -> u64 {
        let encode = |text: &str| BASE64_STANDARD.encode(text);
        let puts: Vec<Value> = objects
            .into_iter()
            .map(|Stored { key, value }| {
                json!({ "requestPut": { "key": encode(&key), "value": encode(&value) } })
            })
            .collect();
        let body = json!({ "success": puts }).to_string();
        let reply = self.0.send(Request::post("/v3/kv/txn").body(Full::from(body))).await;
        let reply = reply.expect("an answer of etcd");
        assert_eq!(reply.status, 200, "{}", reply.text());
        let revision = reply.json()["header"]["revision"].as_str().and_then(|text| text.parse().ok());
        revision.expect("a revision")
    }
}
