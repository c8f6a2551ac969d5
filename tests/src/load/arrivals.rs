//! The schedule.

use std::future::Future;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

/// Waits until it is said, or nobody is left to say it.
pub(super) async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _said = stop.wait_for(|stop| *stop).await;
}

/// Begins `one` at the rate, and again whether or not those before it are done; after the stop, waits for the
/// last.
pub(super) async fn keep<F>(
    rate: u32,
    mut stop: watch::Receiver<bool>,
    one: impl Fn(u64, Instant) -> F + Send + 'static,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let begun = Instant::now();
    let mut under_way = JoinSet::new();
    for number in 0_u64.. {
        // Of the whole time, not of the last turn: who was late catches up.
        let due = begun + Duration::from_nanos(number * 1_000_000_000 / u64::from(rate));
        tokio::select! {
            biased;
            () = stopped(&mut stop) => break,
            () = sleep_until(due) => {}
        }
        under_way.spawn(one(number, due));
        while let Some(ended) = under_way.try_join_next() {
            ended.expect("no request panics");
        }
    }
    while let Some(ended) = under_way.join_next().await {
        ended.expect("no request panics");
    }
}
