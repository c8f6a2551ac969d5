//! What the admin port says about the Kubernetes watch and about the table.

use serde_json::Value;

use super::Gateway;
use crate::kubernetes::Object;
use crate::{DEADLINE, eventually};

/// As many routes as a page of the admin port has at most.
const PAGE: usize = 10_000;

impl Gateway {
    /// The status of a scope of the watch: scopes are numbered as the config has them, provider by provider.
    pub async fn scope(&self, number: usize) -> Value {
        let status = self.status().await;
        let sources = status["sources"].as_array().map(Vec::as_slice).unwrap_or_default();
        let source = sources.iter().find(|source| source["kind"] == "kubernetes");
        source.unwrap_or_else(|| panic!("no watch in {status}"))["scopes"][number].clone()
    }

    /// Waits until a scope's status has what is asked for.
    pub async fn scope_where(&self, number: usize, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        let found = tokio::time::timeout(DEADLINE, async {
            eventually(what, DEADLINE * 2, async || {
                last = self.scope(number).await;
                holds(&last).then_some(())
            })
            .await;
        });
        let found = found.await.is_ok();
        assert!(found, "not within {DEADLINE:?}: {what}, but {last:#}");
        last
    }

    /// Every route of the table, in the order of their IDs.
    pub async fn table(&self) -> Vec<Value> {
        let (mut routes, mut after) = (Vec::new(), String::new());
        loop {
            let reply = self.admin(&format!("/sandgate/routes?limit={PAGE}{after}")).await;
            assert_eq!(reply.status, 200, "{}", reply.text());
            let mut page = reply.json();
            routes.append(page["routes"].as_array_mut().expect("routes"));
            match page["next"].as_str() {
                Some(next) => after = format!("&after={next}"),
                None => return routes,
            }
        }
    }

    /// The digest of the table.
    pub async fn digest(&self) -> String {
        let status = self.admin("/sandgate/status?digest=1").await.json();
        status["digest"].as_str().unwrap_or_else(|| panic!("no digest in {status}")).to_owned()
    }

    /// Waits until the table has the object as the server has it now. Events of one scope come in their
    /// order, so then it has everything in the scope that happened before this call.
    pub async fn follows(&self, object: &Object) {
        let (wanted, id) = (object.version().await, object.id());
        let wanted: u64 = wanted.parse().expect("a number");
        let what = format!("the table has {id} at version {wanted}");
        let mut last = Value::Null;
        // After failures in a row the gateway may wait 30 s before it asks again.
        let patience = DEADLINE * 2;
        let found = tokio::time::timeout(patience, async {
            eventually(&what, patience * 2, async || {
                let reply = self.admin(&format!("/sandgate/routes?id={id}")).await;
                last = reply.json();
                let version: u64 = last["version"].as_str()?.parse().ok()?;
                (last["uid"] == object.uid() && version >= wanted).then_some(())
            })
            .await;
        });
        let found = found.await.is_ok();
        assert!(found, "not within {patience:?}: {what}, but {last}");
    }
}
