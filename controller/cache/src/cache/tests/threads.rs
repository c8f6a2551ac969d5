//! The same on real threads: no wake-up is lost, and nothing waits for ever.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use sandgate_objects::openkruise::resources::SandboxFacts;
use serde_json::json;

use super::labelled;
use crate::testing::{TestCache, running, stock};
use crate::{Action, Cache};

/// Far longer than it takes; a lost wake-up ends here.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn waiters_of_many_threads_are_all_woken_by_writers_of_others() {
    let test = Arc::new(TestCache::built(Cache::builder()));
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    let seen: Vec<_> =
        (0..200).map(|number| test.show::<SandboxFacts>(&running(&format!("s{number}")))).collect();
    let waits: Vec<_> = seen
        .iter()
        .flat_map(|seen| [(seen, "x"), (seen, "y")])
        .map(|(seen, label)| {
            let wait = labelled(&test, seen, Action::Ready, label);
            runtime.spawn(async move { wait.within(PATIENCE).await.map(|seen| seen.key.clone()) })
        })
        .collect();
    let writers: Vec<_> = (0..2)
        .map(|half| {
            let test = Arc::clone(&test);
            thread::spawn(move || {
                for number in (0..200).filter(|number| number % 2 == half) {
                    for labels in [json!({"x": "1"}), json!({"x": "1", "y": "1"})] {
                        let mut object = running(&format!("s{number}"));
                        object["metadata"]["labels"] = labels;
                        // One by the watch, one by the answer to a write.
                        if number % 3 == 0 {
                            test.answer::<SandboxFacts>(&object)
                        } else {
                            test.show::<SandboxFacts>(&object)
                        };
                    }
                }
            })
        })
        .collect();
    for writer in writers {
        writer.join().unwrap();
    }
    for (at, wait) in waits.into_iter().enumerate() {
        assert_eq!(runtime.block_on(wait).unwrap().as_ref(), Ok(&seen[at / 2].key));
    }
    assert_eq!(test.waiting::<SandboxFacts>(), 0);
}

#[test]
fn whoever_waits_for_stock_sees_all_of_it() {
    let test = Arc::new(TestCache::built(Cache::builder()));
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    let taker = Arc::clone(&test);
    let taken = runtime.spawn(async move {
        let mut taken = 0;
        while taken < 500 {
            let mut watch = taker.watch_pool("p");
            while let Some(seen) = taker.pick(None, "p", None, 0, |_| true) {
                taker.deleted_by_us::<SandboxFacts>(&seen.key, &seen.uid);
                taken += 1;
            }
            if taken < 500 {
                tokio::time::timeout(PATIENCE, watch.changed()).await.expect("a change was lost");
            }
        }
    });
    for number in 0..500 {
        test.show::<SandboxFacts>(&stock(&format!("s{number}"), "p"));
    }
    runtime.block_on(taken).unwrap();
}
