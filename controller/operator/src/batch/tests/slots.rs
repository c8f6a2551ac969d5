//! Which slot of a batch a pod of its own has.

use serde_json::{Value, json};

use super::case::own_pod;
use crate::snapshot::index_of;
use crate::view::{OwnPod, Viewed as _};

#[test]
fn the_slot_of_a_pod_is_its_label_or_else_the_number_at_the_end_of_its_name() {
    for (name, label, expected) in [
        ("b-7", json!("3"), Some(3)),
        ("b-7", Value::Null, Some(7)),
        ("b-2-11", Value::Null, Some(11)),
        ("b-x", json!("0"), Some(0)),
        ("b-x", Value::Null, None),
        ("b-7", json!("x"), Some(7)),
        ("b-7", json!("-1"), Some(7)),
        ("b-x", json!("x"), None),
        ("b", Value::Null, None),
    ] {
        let mut pod = own_pod(name, true);
        pod["metadata"]["labels"] = match &label {
            Value::Null => json!({}),
            label => json!({"batch-sandbox.sandbox.opensandbox.io/pod-index": label}),
        };
        let seen = OwnPod::read(pod.to_string().as_bytes()).unwrap();
        assert_eq!(seen.index, expected, "{name} {label}");
        assert_eq!(index_of(&pod), expected.unwrap_or_default(), "{name} {label}");
    }
}
