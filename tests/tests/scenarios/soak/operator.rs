//! The soak of the operator in short: what churn leaves behind is gone when it ends. Counts only; `make
//! soak-operator` looks at memory too, for ten minutes.

use std::time::Duration;

use sandgate_tests::eventually_every;
use sandgate_tests::soak::Sample;
use sandgate_tests::soak::operator::{OperatorSoak, PACE};

/// There has to be something to return from: how many more there are at some moment than at the start.
const MORE: [(&str, f64); 4] = [("sandboxes", 10.0), ("pods", 10.0), ("templates", 2.0), ("sets", 2.0)];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sandboxes_pods_and_templates_return_when_churn_ends() {
    // No node is lost here, and none may seem to be.
    let mut soak = OperatorSoak::start(4.0, Duration::from_secs(60)).await;
    let start = soak.sample().await;
    soak.begin();
    let mut most = start.clone();
    let grown = |most: &Sample| MORE.iter().all(|(name, more)| most.value(name) >= start.value(name) + more);
    let what = format!("everything is done at least once, with more of {MORE:?}");
    eventually_every(PACE, &what, Duration::from_secs(120), async || {
        let now = soak.sample().await;
        most.values.iter_mut().zip(now.values).for_each(|(most, now)| *most = most.max(now));
        (soak.has_done(1) && grown(&most)).then_some(())
    })
    .await;
    soak.end().await;
    soak.settled(&start).await;
    assert_eq!(soak.unexpected(), [""; 0]);
}
