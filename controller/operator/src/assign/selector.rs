//! Node selectors, as OpenSandbox's operator reads them, with the labels of a pool in place of a node's.
//!
//! A term matches if all of its expressions do, so one without expressions matches. Of several terms one is
//! enough; an affinity that requires no term requires nothing. `matchFields` are about the node itself and
//! are not looked at, nor are values that an operator has no use for. The scheduler is stricter, but it sees
//! the pods of the pool and never these terms: to be strict would only keep a batch waiting for ever.

use std::collections::BTreeMap;

use serde_json::Value;

use super::PoolOffer;

/// What speaks against a pool. None if it is where the pods of this template want to be.
pub(super) fn against(template: &Value, pool: &PoolOffer<'_>) -> Option<String> {
    let labels = labels(pool);
    let selector = template.pointer("/spec/nodeSelector").and_then(Value::as_object);
    for (key, wanted) in selector.into_iter().flatten() {
        if labels.get(&**key).copied() != wanted.as_str() {
            return Some(format!("it is not where {key} is {wanted}"));
        }
    }
    let required = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution";
    let required = template.pointer(required).filter(|required| !required.is_null())?;
    let terms = required.get("nodeSelectorTerms").and_then(Value::as_array)?;
    let is_met = terms.is_empty() || terms.iter().any(|term| matches(term, &labels));
    (!is_met).then(|| "no term of the node affinity matches it".to_owned())
}

/// The labels of a pool, overlaid by the node selector of its pods.
fn labels<'a>(pool: &PoolOffer<'a>) -> BTreeMap<&'a str, &'a str> {
    let own = pool.labels.into_iter().flatten().map(|(key, value)| (&**key, &**value));
    let selector = pool.template.and_then(|template| template.pointer("/spec/nodeSelector"));
    let selector = selector.and_then(Value::as_object).into_iter().flatten();
    own.chain(selector.filter_map(|(key, value)| Some((&**key, value.as_str()?)))).collect()
}

fn matches(term: &Value, labels: &BTreeMap<&str, &str>) -> bool {
    let mut expressions = term.get("matchExpressions").and_then(Value::as_array).into_iter().flatten();
    expressions.all(|expression| holds(expression, labels))
}

fn holds(expression: &Value, labels: &BTreeMap<&str, &str>) -> bool {
    let text = |name: &str| expression.get(name).and_then(Value::as_str).unwrap_or_default();
    let values = expression.get("values").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let label = labels.get(text("key")).copied();
    let is_listed = |label: &str| values.iter().any(|value| value == label);
    let number = |text: &str| text.parse::<i64>().ok();
    let bound = values.first().and_then(Value::as_str).and_then(number);
    match text("operator") {
        "In" => label.is_some_and(is_listed),
        "NotIn" => !label.is_some_and(is_listed),
        "Exists" => label.is_some(),
        "DoesNotExist" => label.is_none(),
        "Gt" => label.and_then(number).zip(bound).is_some_and(|(label, bound)| label > bound),
        "Lt" => label.and_then(number).zip(bound).is_some_and(|(label, bound)| label < bound),
        _ => false,
    }
}
