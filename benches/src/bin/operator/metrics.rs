//! What the operator counts of itself.

use sandgate_tests::cluster::Operator;

/// Its metrics at one moment.
pub(crate) struct Metrics(String);

impl Metrics {
    pub(crate) async fn of(operator: &Operator) -> Self {
        Self(operator.metrics().await)
    }

    /// The sum of a metric over everything that has these labels (`key="value"`).
    pub(crate) fn sum(&self, name: &str, labels: &[&str]) -> f64 {
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
    pub(crate) fn reconciles(&self, controller: &str) -> f64 {
        self.sum("sandgate_operator_reconciles_total", &[&format!("controller=\"{controller}\"")])
    }

    /// How many writes of this verb and kind were done.
    pub(crate) fn writes(&self, verb: &str, kind: &str) -> f64 {
        let [verb, kind] = [format!("verb=\"{verb}\""), format!("kind=\"{kind}\"")];
        self.sum("sandgate_operator_writes_total", &[&verb, &kind, "outcome=\"ok\""])
    }
}
