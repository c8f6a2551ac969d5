//! Sees sandboxes come, by a watch of its own: the same one for whoever makes them.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, WatchEvent, WatchParams};
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

/// The API server ends a watch after this at the latest; no round takes so long.
const WATCH_SECONDS: u32 = 290;

/// Where a watch of a namespace begins that has nothing in it: with whatever the server knows.
pub(crate) const FROM_NOTHING: &str = "0";

/// When the last of so many sandboxes was seen.
pub(crate) struct Seen {
    /// … to exist.
    pub(crate) all_exist: Instant,
    /// … to be available.
    pub(crate) all_available: Instant,
}

/// The sandboxes of a namespace.
pub(crate) fn sandboxes(client: Client, namespace: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("agents.kruise.io", "v1alpha1", "Sandbox");
    let resource = ApiResource { plural: "sandboxes".to_owned(), ..ApiResource::from_gvk(&kind) };
    Api::namespaced_with(client, namespace, &resource)
}

/// Whether a sandbox could be claimed: it runs and is ready.
pub(crate) fn is_available(status: &Value) -> bool {
    let conditions = status["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    status["phase"] == "Running"
        && conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == "True")
}

/// The object that an event shows as it is now.
pub(crate) fn shown(event: WatchEvent<DynamicObject>) -> Option<DynamicObject> {
    match event {
        WatchEvent::Added(object) | WatchEvent::Modified(object) => Some(object),
        WatchEvent::Error(error) => panic!("the watch ends: {error:?}"),
        WatchEvent::Deleted(_) | WatchEvent::Bookmark(_) => None,
    }
}

/// Watches a namespace that is empty now, until `count` sandboxes are available.
pub(crate) fn observe(client: Client, namespace: &str, count: usize) -> JoinHandle<Seen> {
    let api = sandboxes(client, namespace);
    tokio::spawn(async move {
        let watch = async {
            let events = api.watch(&WatchParams::default().timeout(WATCH_SECONDS), FROM_NOTHING).await;
            let mut events = std::pin::pin!(events.expect("a watch"));
            let (mut exist, mut available) = (BTreeSet::new(), BTreeSet::new());
            let mut all_exist = None;
            while let Some(event) = events.try_next().await.expect("an event") {
                let Some(object) = shown(event) else { continue };
                let name = object.metadata.name.unwrap_or_default();
                if is_available(&object.data["status"]) {
                    available.insert(name.clone());
                }
                exist.insert(name);
                if exist.len() >= count {
                    all_exist.get_or_insert_with(Instant::now);
                }
                if let Some(all_exist) = all_exist
                    && available.len() >= count
                {
                    return Seen { all_exist, all_available: Instant::now() };
                }
            }
            panic!("the watch ended after {} of {count} sandboxes", available.len());
        };
        let all = timeout(Duration::from_secs(WATCH_SECONDS.into()), watch);
        all.await.expect("a round ends before its watch")
    })
}
