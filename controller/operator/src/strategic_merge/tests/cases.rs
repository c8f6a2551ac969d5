//! The cases that kubectl was asked, with what it answered. A scenario asks it again
//! (`tests/tests/scenarios/strategic_merge.rs`).

use serde_json::Value;

use super::super::pod;

fn cases() -> Vec<Value> {
    let text = include_str!("../../../tests/strategic_merge/cases.json");
    serde_json::from_str(text).expect("the cases are JSON")
}

#[test]
fn every_case_ends_as_recorded() {
    let cases = cases();
    assert!(cases.len() > 100, "there are {} cases", cases.len());
    for case in cases {
        let merged = pod(&case["pod"], &case["patch"]);
        match case.get("refused") {
            Some(why) => {
                let refused = merged.expect_err(&case["case"].to_string()).to_string();
                assert!(why == &refused, "{}: {refused}", case["case"]);
            }
            None => assert_eq!(merged.as_ref(), Ok(&case["expected"]), "{}", case["case"]),
        }
    }
}

/// Nulls and directives that kubectl leaves in what it adds are the only difference.
#[test]
fn what_kubectl_leaves_behind_means_nothing() {
    for case in cases() {
        if let Some(by_kubectl @ Value::Object(_)) = case.get("kubectl") {
            assert_ne!(by_kubectl, &case["expected"], "{} is no difference", case["case"]);
            assert_eq!(meaning(by_kubectl).as_ref(), Some(&case["expected"]), "{}", case["case"]);
        }
    }
}

fn meaning(value: &Value) -> Option<Value> {
    match value {
        Value::Object(fields) if fields.contains_key("$patch") => None,
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(name, value)| !name.starts_with('$') && !value.is_null());
            kept.map(|(name, value)| Some((name.clone(), meaning(value)?))).collect()
        }
        Value::Array(elements) => Some(elements.iter().filter_map(meaning).collect()),
        single => Some(single.clone()),
    }
}
