//! What the tests of both projects' whole objects have in common.

use std::time::{Duration, SystemTime};

use proptest::prelude::*;
use sandgate_objects::Kind;
use serde_json::{Value, json};

fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_794_808_800)
}

/// Every answer of an object in one text.
pub(crate) fn answers(object: &impl Kind) -> String {
    let [token, traffic_token] = [object.token(), object.traffic_token()]
        .map(|token| token.map(|token| token.map(|token| (token.matches(b"s3cret"), token.kind()))));
    format!(
        "{:?}",
        (
            (object.identity(), object.id(), object.state(now()), object.pool(), object.owner()),
            (object.address(), token, traffic_token, object.requires_traffic_auth(), object.ends()),
        )
    )
}

/// One of these texts.
pub(crate) fn some(values: &[&str]) -> BoxedStrategy<Value> {
    prop::sample::select(values.iter().map(|text| json!(text)).collect::<Vec<_>>()).boxed()
}

/// An object with these fields, each missing now and then.
pub(crate) fn object(fields: Vec<(&'static str, BoxedStrategy<Value>)>) -> BoxedStrategy<Value> {
    let (keys, values): (Vec<_>, Vec<_>) = fields.into_iter().unzip();
    let values: Vec<_> = values.into_iter().map(|value| prop::option::weighted(0.8, value)).collect();
    let known = move |values: Vec<Option<Value>>| {
        keys.iter().zip(values).filter_map(|(key, value)| Some(((*key).to_owned(), value?))).collect()
    };
    values.prop_map(move |values| Value::Object(known(values))).boxed()
}
