use super::*;

#[tokio::test(start_paused = true)]
async fn a_bucket_refills_evenly_and_no_further_than_its_burst() {
    let buckets = Buckets::new(Rate { per_second: 10, burst: 2 });
    assert_eq!([buckets.take(&1), buckets.take(&1)], [Ok(()), Ok(())]);
    assert_eq!(buckets.take(&1), Err(Duration::from_millis(100)));
    assert_eq!(buckets.take(&2), Ok(()), "another's bucket is its own");
    tokio::time::advance(Duration::from_millis(100)).await;
    assert_eq!(buckets.take(&1), Ok(()));
    assert!(buckets.take(&1).is_err());
    tokio::time::advance(Duration::from_secs(3600)).await;
    assert_eq!([buckets.take(&1), buckets.take(&1)], [Ok(()), Ok(())]);
    assert!(buckets.take(&1).is_err());
}

#[tokio::test(start_paused = true)]
async fn buckets_do_not_pile_up() {
    let buckets = Buckets::new(Rate { per_second: 1, burst: 1 });
    for who in 0..MOST * 3 {
        assert_eq!(buckets.take(&who), Ok(()));
    }
    assert!(buckets.all.lock().buckets.len() <= MOST);
    tokio::time::advance(Duration::from_secs(2)).await;
    assert_eq!(buckets.take(&usize::MAX), Ok(()));
    assert_eq!(buckets.all.lock().buckets.len(), 1, "the full ones went");
}

#[test]
fn zero_is_without_limit() {
    let buckets = Buckets::new(Rate { per_second: 0, burst: 0 });
    assert!((0..1000).all(|_| buckets.take(&0).is_ok()));
}
