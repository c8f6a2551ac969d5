use sandgate_cache::testing::{FailingStart, TestCache};
use tokio::time::Instant;

use super::*;

#[tokio::test(start_paused = true)]
async fn a_start_that_fails_is_said_to_probes_and_tried_again_until_the_cache_runs() {
    let failing = FailingStart::at(2);
    let test = TestCache::built(Cache::builder().failing_start(&failing));
    test.listed_all();
    let began = Instant::now();
    let cache = test.cache().clone();
    let starting = tokio::spawn(async move { start(&cache).await });
    sleep(AGAIN / 2).await;
    assert!(!starting.is_finished());
    let missing = Readiness::default().missing(test.cache());
    assert!(missing[0].contains("as asked"), "{missing:?}");
    let running = starting.await.unwrap();
    assert_eq!(began.elapsed(), AGAIN, "one try failed, and the next did not");
    assert_eq!(test.healthy(), Ok(()));
    running.stop().await;
}
