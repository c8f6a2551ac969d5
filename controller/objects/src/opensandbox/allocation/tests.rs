use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;

use super::{Allocation, Malformed};
use crate::opensandbox::names::ANNOTATION_ALLOC_STATUS;

fn read(text: &str) -> Result<Option<Allocation>, Malformed> {
    let annotations = BTreeMap::from([(ANNOTATION_ALLOC_STATUS.to_owned(), text.to_owned())]);
    Allocation::read(&annotations, ANNOTATION_ALLOC_STATUS)
}

fn of(pods: &[&str]) -> Allocation {
    pods.iter().copied().map(str::to_owned).collect()
}

fn words(text: &str) -> Vec<String> {
    Allocation::words(text).into_iter().collect()
}

#[test]
fn a_list_is_read_in_its_order() {
    assert_eq!(read(r#"{"pods":["b","a-1","c.d"]}"#), Ok(Some(of(&["b", "a-1", "c.d"]))));
    assert_eq!(read(r#" {"later": {"x": 1}, "pods" : [] } "#), Ok(Some(of(&[]))));
}

#[test]
fn nothing_is_not_a_list_of_none() {
    assert_eq!(Allocation::read(&BTreeMap::new(), ANNOTATION_ALLOC_STATUS), Ok(None));
    assert_eq!(read(""), Ok(None));
    for none in ["null", "{}", r#"{"pods":null}"#, r#"{"pods":[]}"#] {
        assert_eq!(read(none), Ok(Some(of(&[]))), "{none}");
    }
}

#[test]
fn what_is_not_a_list_of_pods_is_malformed() {
    let deep = format!("{{\"pods\":{}{}}}", "[".repeat(500), "]".repeat(500));
    let long = json!({ "pods": ["a".repeat(254)] }).to_string();
    for wrong in [
        " ",
        "{",
        "[]",
        "7",
        "\"a\"",
        r#"["a"]"#,
        r#"{"pods":"a"}"#,
        r#"{"pods":{"a":1}}"#,
        r#"{"pods":[1]}"#,
        r#"{"pods":[null]}"#,
        r#"{"pods":["a"],"pods":["b"]}"#,
        r#"{"pods":["a"]} x"#,
        r#"{"pods":[""]}"#,
        r#"{"pods":["A"]}"#,
        r#"{"pods":["a/b"]}"#,
        r#"{"pods":["../../kube-system/pods/a"]}"#,
        r#"{"pods":["a?b=c"]}"#,
        r#"{"pods":["a..b"]}"#,
        r#"{"pods":["-a"]}"#,
        r#"{"pods":["a "]}"#,
        &deep,
        &long,
    ] {
        let error = read(wrong).unwrap_err();
        assert_eq!(error.key, ANNOTATION_ALLOC_STATUS, "{wrong}");
        assert!(error.to_string().starts_with("annotation sandbox.opensandbox.io/alloc-status: expected"));
    }
}

/// The annotations of an object have 256 KiB together.
#[test]
fn a_huge_list_is_read() {
    let pods: Allocation = (0..20_000).map(|i| format!("pool-{i}")).collect();
    assert_eq!(read(&pods.text()), Ok(Some(pods)));
}

#[test]
fn a_pod_that_comes_twice_keeps_its_first_slot() {
    let twice = read(r#"{"pods":["a","b","a","c","b","a"]}"#).unwrap().unwrap();
    assert_eq!(twice.pods.len(), 6, "the others keep theirs too");
    assert_eq!(twice.repeated().collect::<Vec<_>>(), [2, 4, 5]);
    assert_eq!(of(&["a", "b"]).repeated().count(), 0);
}

#[test]
fn a_list_is_written_as_it_is_read() {
    assert_eq!(of(&["b", "a"]).text(), r#"{"pods":["b","a"]}"#);
    assert_eq!(of(&[]).text(), r#"{"pods":[]}"#);
}

#[test]
fn every_name_in_a_malformed_text_is_a_word() {
    assert_eq!(words(r#"{"pods":["pool-b2", "pool-c3""#), ["pods", "pool-b2", "pool-c3"]);
    assert_eq!(words("pool-a.,-b\npool-c_d Pool-e"), ["b", "d", "ool-e", "pool-a", "pool-c"]);
    assert!(words(r#"{"pods":[{"\u0070ool-x":["\u0061-1"]}]}"#).contains(&"pool-x".to_owned()));
    assert_eq!(words(""), [""; 0]);
}

proptest! {
    #[test]
    fn a_text_is_read_or_refused_and_no_name_of_it_is_lost(
        pods in prop::collection::vec("[a-z0-9]([-a-z0-9]{0,8}[a-z0-9])?", 0..6),
        cut in 0..80_usize,
        noise in ".{0,40}",
    ) {
        let list: Allocation = pods.iter().cloned().collect();
        let text = list.text();
        prop_assert_eq!(read(&text), Ok(Some(list)));
        let cut = text.get(..cut).unwrap_or(&text);
        for pod in pods.iter().filter(|pod| cut.contains(&format!("\"{pod}\""))) {
            prop_assert!(Allocation::words(cut).contains(pod), "{cut}");
        }
        let _ = read(&noise);
        let _ = Allocation::words(&noise);
    }
}
