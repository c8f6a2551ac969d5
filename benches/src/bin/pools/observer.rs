//! Sees batches get their pods and become ready, by watches of its own: the same ones for whoever does it.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, WatchEvent, WatchParams};
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use crate::site::batches;

/// The API server ends a watch after this at the latest; no round takes so long.
const WATCH_SECONDS: u32 = 290;
/// Whatever the server knows, and what follows.
const FROM_NOTHING: &str = "0";

/// What is looked for in an object; none while it is not there. The text is kept beside the time.
pub(crate) type Sought = fn(&DynamicObject) -> Option<String>;

/// When something was seen of each object, and what.
pub(crate) type Seen = BTreeMap<String, (Instant, String)>;

/// The pod that a batch was given.
pub(crate) fn allocated(batch: &DynamicObject) -> Option<String> {
    let text = batch.metadata.annotations.as_ref()?.get("sandbox.opensandbox.io/alloc-status")?;
    let held: Value = serde_json::from_str(text).ok()?;
    held["pods"][0].as_str().map(str::to_owned)
}

/// The pod of a batch of one that is ready: the one that it was given, or the one of its name.
pub(crate) fn ready_batch(batch: &DynamicObject) -> Option<String> {
    let own = || format!("{}-0", batch.metadata.name.as_deref().unwrap_or_default());
    is_ready(&batch.data["status"]).then(|| allocated(batch).unwrap_or_else(own))
}

/// A pod that is ready.
pub(crate) fn ready_pod(pod: &DynamicObject) -> Option<String> {
    is_ready(&pod.data["status"]).then(String::new)
}

fn is_ready(status: &Value) -> bool {
    let conditions = status["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == "True")
}

/// Watches the batches of a namespace until so many of them show what is sought.
pub(crate) fn see_batches(client: Client, namespace: &str, count: usize, sought: Sought) -> JoinHandle<Seen> {
    see(batches(client, namespace), count, sought)
}

/// The same of the pods.
pub(crate) fn see_pods(client: Client, namespace: &str, count: usize, sought: Sought) -> JoinHandle<Seen> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Pod"));
    see(Api::namespaced_with(client, namespace, &resource), count, sought)
}

fn see(api: Api<DynamicObject>, count: usize, sought: Sought) -> JoinHandle<Seen> {
    tokio::spawn(async move {
        let watch = async {
            let (mut seen, mut version) = (Seen::new(), FROM_NOTHING.to_owned());
            // The API server ends a watch that falls behind. The next one goes on where it was.
            loop {
                let events = api.watch(&WatchParams::default().timeout(WATCH_SECONDS), &version).await;
                let mut events = std::pin::pin!(events.expect("a watch"));
                while let Some(event) = events.try_next().await.expect("an event") {
                    let (object, lives) = match event {
                        WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, true),
                        WatchEvent::Deleted(object) => (object, false),
                        WatchEvent::Error(error) => panic!("the watch ends: {error:?}"),
                        WatchEvent::Bookmark(_) => continue,
                    };
                    version = object.metadata.resource_version.clone().unwrap_or_default();
                    let lives = lives && object.metadata.deletion_timestamp.is_none();
                    if let Some(found) = sought(&object).filter(|_| lives) {
                        let name = object.metadata.name.unwrap_or_default();
                        seen.entry(name).or_insert_with(|| (Instant::now(), found));
                    }
                    if seen.len() >= count {
                        return seen;
                    }
                }
            }
        };
        let all = timeout(Duration::from_secs(WATCH_SECONDS.into()), watch);
        all.await.expect("a round ends before its watch")
    })
}
