//! The port that peers push routes to.

use std::net::SocketAddr;

use http_body_util::Full;
use hyper::body::Bytes;
use serde_json::{Value, json};

use super::{Builder, Gateway};
use crate::{Client, DEADLINE, Reply, Request, eventually};

impl Builder {
    /// Receives routes from peers on a free port, with these keys of the `refresh` section; OpenKruise's
    /// unless they name another provider. The routes file is an empty one unless it is given.
    #[must_use]
    pub fn refresh(self, mut refresh: Value) -> Self {
        refresh["address"] = json!("127.0.0.1");
        if refresh["port"].is_null() {
            refresh["port"] = json!(0);
        }
        if refresh["provider"].is_null() {
            refresh["provider"] = json!("openkruise");
        }
        self.default_routes("routes: []").setting("refresh", refresh)
    }
}

impl Gateway {
    /// Where peers push to.
    pub async fn refresh_address(&self) -> SocketAddr {
        eventually("the receiver listens", DEADLINE, async || {
            self.status().await["refresh"]["listening"].as_str()?.parse().ok()
        })
        .await
    }

    /// Pushes a message as it is.
    pub async fn push(&self, message: &Value) -> Reply {
        let mut client = Client::http1(self.refresh_address().await).await.expect("connect");
        client.send(refresh_request(message)).await.expect("an answer of the receiver")
    }

    /// The whole table as the admin port tells it, but for the numbers that are the process's own.
    pub async fn table_dump(&self) -> String {
        let mut page = self.admin("/sandgate/routes?limit=10000").await.json();
        assert_eq!(page["next"], Value::Null, "the table is larger than a page");
        for route in page["routes"].as_array_mut().expect("routes are a list") {
            route.as_object_mut().expect("a route is an object").remove("identity");
        }
        format!("{:#}", page["routes"])
    }
}

/// `POST /refresh` with a message.
pub fn refresh_request(message: &Value) -> Request {
    Request::post("/refresh")
        .header("content-type", "application/json")
        .body(Full::from(Bytes::from(message.to_string())))
}
