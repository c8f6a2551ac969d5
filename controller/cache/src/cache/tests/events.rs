//! What a change tells to whom.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::Poll;

use parking_lot::Mutex;
use sandgate_objects::openkruise::resources::{SandboxFacts, SandboxSet};

use crate::testing::{TestCache, claimed, running, set, stock};
use crate::{Cache, Change, PoolWatch};

fn told(change: &Change<SandboxFacts>) -> String {
    let side = |side: &Option<Arc<crate::Seen<SandboxFacts>>>| {
        side.as_ref().map_or("-".to_owned(), |seen| seen.version.to_string())
    };
    format!("{}>{}", side(&change.before), side(&change.after))
}

#[test]
fn handlers_are_told_of_every_change_of_their_kind_in_order_with_both_sides() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let (first, second) = (Arc::clone(&log), Arc::clone(&log));
    let builder = Cache::builder()
        .on(move |change: &Change<SandboxFacts>| first.lock().push(told(change)))
        .on(move |change: &Change<SandboxSet>| second.lock().push(format!("set {}", change.after.is_some())));
    let test = TestCache::built(builder);
    let seen = test.show::<SandboxFacts>(&running("s"));
    test.show::<SandboxSet>(&set("p", 1));
    test.answer::<SandboxFacts>(&running("s"));
    let mut same = running("s");
    same["metadata"]["resourceVersion"] = "4".into();
    test.show::<SandboxFacts>(&same);
    test.end(&seen);
    assert_eq!(*log.lock(), ["->2", "set true", "2>4", "4>-"], "and what is not news is not told");
}

#[test]
fn a_handler_may_read_and_change_the_cache_and_one_that_panics_harms_nobody() {
    let cache: Arc<OnceLock<Cache>> = Arc::default();
    let log = Arc::new(Mutex::new(Vec::new()));
    let (inside, written) = (Arc::clone(&cache), Arc::clone(&log));
    let builder = Cache::builder()
        .on(|change: &Change<SandboxFacts>| assert!(change.after.is_some(), "as asked"))
        .on(move |change: &Change<SandboxFacts>| {
            written.lock().push(told(change));
            let cache = inside.get().unwrap();
            if let Some(seen) = &change.after {
                assert!(cache.get::<SandboxFacts>(&seen.key).is_some());
                cache.deleted_by_us::<SandboxFacts>(&seen.key, &seen.uid);
                assert!(cache.get::<SandboxFacts>(&seen.key).is_none());
            }
        });
    let test = TestCache::built(builder);
    assert!(cache.set(test.cache().clone()).is_ok());
    test.show::<SandboxFacts>(&running("s"));
    assert_eq!(*log.lock(), ["->2", "2>-"], "the change that a handler made is told after the first");
}

async fn has_changed(watch: &mut PoolWatch) -> bool {
    let mut changed = pin!(watch.changed());
    poll_fn(|context| Poll::Ready(changed.as_mut().poll(context).is_ready())).await
}

#[tokio::test]
async fn a_watch_of_a_pool_loses_no_change_between_the_look_and_the_wait() {
    let test = TestCache::new();
    let mut watch = test.watch_pool("p");
    assert!(!has_changed(&mut watch).await);
    test.show::<SandboxFacts>(&stock("s", "p"));
    assert!(has_changed(&mut watch).await, "it came before the wait");
    assert!(!has_changed(&mut watch).await);
    test.show::<SandboxFacts>(&stock("s", "p"));
    assert!(has_changed(&mut watch).await, "whoever lost a conflict on the old version may try the new one");
    test.show::<SandboxFacts>(&claimed("s", "ada", "i"));
    assert!(!has_changed(&mut watch).await, "there is less to claim");
    test.show::<SandboxFacts>(&stock("t", "other"));
    assert!(!has_changed(&mut watch).await);
    test.show::<SandboxSet>(&set("p", 1));
    assert!(has_changed(&mut watch).await, "its set changed");
    let mut second = test.watch_pool("p");
    assert!(!has_changed(&mut second).await, "what was before the watch is for the look to find");
    drop((watch, second));
    test.show::<SandboxFacts>(&stock("u", "p"));
    assert_eq!(test.shared.pools.len(), 0, "nobody watches");
}
