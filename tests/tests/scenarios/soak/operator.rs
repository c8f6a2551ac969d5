//! The soak of the operator in short: what churn leaves behind is gone when it ends. Counts only; `make
//! soak-operator` looks at memory too, for ten minutes.

use std::time::Duration;

use sandgate_tests::eventually;
use sandgate_tests::soak::operator::OperatorSoak;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sandboxes_pods_and_templates_return_when_churn_ends() {
    let mut soak = OperatorSoak::start(4.0).await;
    let start = soak.sample().await;
    soak.begin();
    let mut most = start.clone();
    eventually("everything is done at least once", Duration::from_secs(120), async || {
        let now = soak.sample().await;
        most.values.iter_mut().zip(now.values).for_each(|(most, now)| *most = most.max(now));
        soak.has_done(1).then_some(())
    })
    .await;
    soak.end().await;
    soak.settled(&start).await;
    assert_eq!(soak.unexpected(), [""; 0]);
    // There was something to return from.
    for (name, least) in [("sandboxes", 10.0), ("pods", 10.0), ("templates", 2.0), ("sets", 2.0)] {
        let (before, most) = (start.value(name), most.value(name));
        assert!(most >= before + least, "{name}: {before}, at most {most}");
    }
}
