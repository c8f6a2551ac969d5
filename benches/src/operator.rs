//! The operator as benches see it: what it counts of itself, and when it rests.

use std::time::Duration;

use sandgate_tests::cluster::Operator;
use tokio::time::Instant;

use crate::proc;

/// The operator rests when it has used less than this in a look's time.
const REST: (u64, Duration) = (1_000_000, Duration::from_millis(500));

/// Its metrics at one moment.
pub struct Metrics(String);

impl Metrics {
    /// Asks for them.
    pub async fn of(operator: &Operator) -> Self {
        Self(operator.metrics().await)
    }

    /// The sum of a metric over everything that has these labels (`key="value"`).
    pub fn sum(&self, name: &str, labels: &[&str]) -> f64 {
        let value = |line: &str| {
            let rest = line.strip_prefix(name)?;
            if !rest.starts_with(['{', ' ']) || !labels.iter().all(|label| rest.contains(label)) {
                return None;
            }
            rest.rsplit(' ').next()?.parse::<f64>().ok()
        };
        self.0.lines().filter_map(value).sum()
    }

    /// How often a controller has looked at objects.
    pub fn reconciles(&self, controller: &str) -> f64 {
        self.sum("sandgate_operator_reconciles_total", &[&format!("controller=\"{controller}\"")])
    }

    /// How many writes of this verb and kind were done.
    pub fn writes(&self, verb: &str, kind: &str) -> f64 {
        let [verb, kind] = [format!("verb=\"{verb}\""), format!("kind=\"{kind}\"")];
        self.sum("sandgate_operator_writes_total", &[&verb, &kind, "outcome=\"ok\""])
    }
}

/// Waits until the operator uses next to nothing.
pub async fn at_rest(operator: &Operator) {
    let (most, time) = REST;
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut before = proc::cpu_nanos(operator.pid());
    loop {
        tokio::time::sleep(time).await;
        let now = proc::cpu_nanos(operator.pid());
        if now - before < most {
            return;
        }
        assert!(Instant::now() < deadline, "the operator does not come to rest");
        before = now;
    }
}
