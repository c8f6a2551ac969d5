use super::super::predicate::Predicate;
use super::super::profile::Balance;
use super::super::profile::Complaint;
use super::super::{Profile, profile};
use super::offer;
use crate::assign::PoolOffer;

fn of(predicates: Vec<Predicate>, scores: Vec<(Balance, i64)>) -> Profile {
    Profile { predicates, scores }
}

#[test]
fn the_default_is_used_where_there_is_no_profile() {
    let others = r#"[{"name": "other", "plugins": {}}]"#;
    for text in [None, Some(""), Some("[]"), Some("null"), Some(others)] {
        assert_eq!(profile(text, "default"), (Profile::default(), vec![]), "{text:?}");
    }
    let expected = of(
        vec![Predicate::Image, Predicate::Resource, Predicate::NodeSelector],
        vec![(Balance::LeastAllocated, 100)],
    );
    assert_eq!(Profile::default(), expected);
}

#[test]
fn a_profile_is_read() {
    let keys = |keys: &[&str]| Predicate::LabelSelector(keys.iter().map(|key| (*key).to_owned()).collect());
    let most = r#""pluginConf": [{"name": "resbalance", "args": {"strategy": "MostAllocated"}}]"#;
    for (text, expected) in [
        (r#"{"name": "p"}"#.to_owned(), of(vec![], vec![])),
        (r#"{"name": "p", "plugins": null, "pluginConf": null}"#.to_owned(), of(vec![], vec![])),
        (
            format!(
                r#"{{"name": "p", "plugins": {{"predicate": ["image"], "score": [{{"name": "resbalance",
                "weight": 50}}]}}, {most}}}"#
            ),
            of(vec![Predicate::Image], vec![(Balance::MostAllocated, 50)]),
        ),
        (
            r#"{"name": "p", "plugins": {"predicate": ["image", "labelselector"]},
                "pluginConf": [{"name": "labelselector", "args": {"keys": ["env", "tier"]}}]}"#
                .to_owned(),
            of(vec![Predicate::Image, keys(&["env", "tier"])], vec![]),
        ),
        (
            r#"{"name": "p", "plugins": {"predicate": ["labelselector", "capacity", "nodeselector", "resource"]}}"#
                .to_owned(),
            of(vec![keys(&[]), Predicate::Capacity, Predicate::NodeSelector, Predicate::Resource], vec![]),
        ),
        (
            r#"{"name": "p", "plugins": {"score": [{"name": "resbalance"}]},
                "pluginConf": [{"name": "resbalance", "args": {"strategy": ""}}]}"#
                .to_owned(),
            of(vec![], vec![(Balance::LeastAllocated, 0)]),
        ),
        (
            r#"{"name": "p", "more": 1, "plugins": {"score": [{"name": "resbalance", "weight": 7}]},
                "pluginConf": [{"name": "resbalance"}, {"name": "image", "args": {"x": 1}}]}"#
                .to_owned(),
            of(vec![], vec![(Balance::LeastAllocated, 7)]),
        ),
    ] {
        assert_eq!(profile(Some(&format!("[{text}]")), "p"), (expected, vec![]), "{text}");
    }
}

#[test]
fn of_several_profiles_with_a_name_the_last_one_counts() {
    let text = r#"[
        {"name": "p", "plugins": {"predicate": ["image"]}},
        {"name": "p", "plugins": {"predicate": ["resource"]}},
        {"name": "q", "plugins": {}}
    ]"#;
    assert_eq!(profile(Some(text), "p").0, of(vec![Predicate::Resource], vec![]));
}

#[test]
fn what_cannot_be_read_is_replaced_by_the_default_and_complained_of() {
    for (text, expected) in [
        ("not json", "the profiles are no JSON list, so the default is used: "),
        (r#"{"name": "p"}"#, "the profiles are no JSON list, so the default is used: "),
        (r#"[{"name": "p", "plugins": "image"}]"#, "profile \"p\" cannot be used, so the default is: "),
        (r#"[{"name": "p", "plugins": {"predicate": "image"}}]"#, "profile \"p\" cannot be used"),
        (r#"[{"name": "p", "plugins": {"predicate": [1]}}]"#, "profile \"p\" cannot be used"),
        (
            r#"[{"name": "p", "plugins": {"score": [{"name": "resbalance", "weight": "much"}]}}]"#,
            "profile \"p\" cannot be used",
        ),
        (
            r#"[{"name": "p", "plugins": {"score": [{"name": "resbalance"}]},
                 "pluginConf": [{"name": "resbalance", "args": {"strategy": "Random"}}]}]"#,
            "profile \"p\" cannot be used, so the default is: score \"resbalance\" has no strategy \"Random\"",
        ),
        (
            r#"[{"name": "p", "plugins": {"predicate": ["labelselector"]},
                 "pluginConf": [{"name": "labelselector", "args": {"keys": "env"}}]}]"#,
            "profile \"p\" cannot be used, so the default is: predicate \"labelselector\" has no keys \"env\"",
        ),
        (
            r#"[{"name": "p", "plugins": {"predicate": ["labelselector"]},
                 "pluginConf": [{"name": "labelselector", "args": {"keys": [1]}}]}]"#,
            "profile \"p\" cannot be used, so the default is: predicate \"labelselector\" has no keys [1]",
        ),
    ] {
        let (is, complaints) = profile(Some(text), "p");
        assert_eq!(is, Profile::default(), "{text}");
        let [complaint] = &complaints[..] else { panic!("one complaint of {text}: {complaints:?}") };
        assert!(complaint.to_string().starts_with(expected), "{complaint}");
    }
}

#[test]
fn a_bad_profile_does_not_spoil_the_others() {
    let text = r#"[{"name": "bad", "plugins": 1}, 7, {"name": "p", "plugins": {"predicate": ["image"]}}]"#;
    assert_eq!(profile(Some(text), "p"), (of(vec![Predicate::Image], vec![]), vec![]));
}

#[test]
fn unknown_plugins_are_left_out_and_complained_of() {
    let text = r#"[{"name": "p", "plugins": {
        "predicate": ["image", "weather"], "score": [{"name": "luck", "weight": 5}, {"name": "resbalance", "weight": 1}]
    }}]"#;
    let unknown = |what, plugin: &str| Complaint::Unknown("p".to_owned(), what, plugin.to_owned());
    let expected = of(vec![Predicate::Image], vec![(Balance::LeastAllocated, 1)]);
    let complaints = vec![unknown("predicate", "weather"), unknown("score", "luck")];
    assert_eq!(profile(Some(text), "p"), (expected, complaints));
}

#[test]
fn the_score_is_the_share_of_what_is_allocated() {
    for (balance, total, allocated, expected) in [
        (Balance::MostAllocated, 10, 5, 0.5),
        (Balance::MostAllocated, 10, 10, 1.0),
        (Balance::MostAllocated, 10, 0, 0.0),
        (Balance::MostAllocated, 0, 0, 0.0),
        (Balance::LeastAllocated, 10, 5, 0.5),
        (Balance::LeastAllocated, 10, 10, 0.0),
        (Balance::LeastAllocated, 10, 0, 1.0),
        (Balance::LeastAllocated, 0, 0, 0.0),
    ] {
        let pool = PoolOffer { total, allocated, ..offer("pool", None) };
        let score = of(vec![], vec![(balance, 2)]).score(&pool);
        assert!(
            (score - 2.0 * expected).abs() < f64::EPSILON,
            "{balance:?}, {allocated} of {total}: {score}"
        );
    }
    let both = of(vec![], vec![(Balance::LeastAllocated, 1), (Balance::MostAllocated, 3)]);
    let pool = PoolOffer { total: 4, allocated: 1, ..offer("pool", None) };
    assert!((both.score(&pool) - 1.5).abs() < f64::EPSILON);
}
