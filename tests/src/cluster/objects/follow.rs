//! Every change of objects, one after the other: what lasts only between two looks is seen, too.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::TryStreamExt as _;
use kube::api::{DynamicObject, ListParams, WatchEvent, WatchParams};
use serde_json::Value;
use tokio::task::JoinHandle;

use super::{Objects, json};
use crate::{DEADLINE, eventually};

/// All objects, by name.
type All = BTreeMap<String, Value>;

/// Whoever sees every change. Dropping it ends that.
pub struct Follower {
    objects: Objects,
    known: Arc<Mutex<All>>,
    watch: JoinHandle<()>,
}

impl Objects {
    /// From now on `see` is called for each change, with all objects that there are then.
    pub async fn follow(&self, mut see: impl FnMut(&All) + Send + 'static) -> Follower {
        let list = self.api.list(&ListParams::default()).await.expect("a list");
        let version = list.metadata.resource_version.expect("the list has a version");
        let all: All = list.items.into_iter().map(|object| (name(&object), json(object))).collect();
        see(&all);
        let known = Arc::new(Mutex::new(all));
        let (api, shared) = (self.api.clone(), Arc::clone(&known));
        let watch = tokio::spawn(async move {
            let events = api.watch(&WatchParams::default().timeout(290), &version).await.expect("a watch");
            let mut events = pin!(events);
            while let Some(event) = events.try_next().await.expect("the watch goes on") {
                let mut all = lock(&shared);
                match event {
                    WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                        all.insert(name(&object), json(object));
                    }
                    WatchEvent::Deleted(object) => {
                        all.remove(&name(&object));
                    }
                    WatchEvent::Bookmark(_) => continue,
                    WatchEvent::Error(error) => panic!("the watch ends: {error:?}"),
                }
                see(&all);
            }
        });
        Follower { objects: self.clone(), known, watch }
    }
}

impl Follower {
    /// Waits until everything was seen that has changed by now.
    ///
    /// # Panics
    /// If whoever looked has panicked, or the watch has ended.
    pub async fn finish(self) {
        eventually("every change is seen", DEADLINE, async || {
            assert!(!self.watch.is_finished(), "whoever follows {:?} has ended", self.objects.resource);
            let now = self.objects.list().await;
            let known = lock(&self.known);
            let is_known = |object: &Value| {
                let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                known.get(name).is_some_and(|known| version(known) == version(object))
            };
            (known.len() == now.len() && now.iter().all(is_known)).then_some(())
        })
        .await;
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.watch.abort();
    }
}

/// Whoever looks may panic: what is known is whole all the same.
fn lock(known: &Mutex<All>) -> MutexGuard<'_, All> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

fn name(object: &DynamicObject) -> String {
    object.metadata.name.clone().unwrap_or_default()
}
