use serde_json::Value;

use super::super::{NoPool, PoolOffer, Profile, SandboxNeeds, choose, profile};
use super::{images, needs, offer};

const MOST_ALLOCATED: &str = r#"[{
    "name": "default",
    "plugins": {"predicate": ["image"], "score": [{"name": "resbalance", "weight": 100}]},
    "pluginConf": [{"name": "resbalance", "args": {"strategy": "MostAllocated"}}]
}]"#;
const NO_SCORE: &str = r#"[{"name": "default", "plugins": {"predicate": ["image"]}}]"#;
const WITH_CAPACITY: &str = r#"[{
    "name": "default",
    "plugins": {"predicate": ["capacity", "image"], "score": [{"name": "resbalance", "weight": 100}]},
    "pluginConf": [{"name": "resbalance", "args": {"strategy": "MostAllocated"}}]
}]"#;
const AGAINST: &str = r#"[{
    "name": "default",
    "plugins": {"predicate": ["image"], "score": [{"name": "resbalance", "weight": -1}]}
}]"#;

fn by(text: Option<&str>) -> Profile {
    let (profile, complaints) = profile(text, "default");
    assert_eq!(complaints, []);
    profile
}

/// A pool of this name, image, and numbers of pods and of allocated ones.
fn pools<'a>(of: &[(&'a str, &'a Value, i32, i32)]) -> Vec<PoolOffer<'a>> {
    let pool = |(name, template, total, allocated): &(&'a str, &'a Value, i32, i32)| PoolOffer {
        most: *total,
        total: *total,
        allocated: *allocated,
        ..offer(name, Some(template))
    };
    of.iter().map(pool).collect()
}

#[test]
fn the_best_pool_that_passes_is_chosen() {
    let nginx = &images(&["nginx"]);
    let redis = &images(&["redis"]);
    for (case, profile, of, expected) in [
        ("the only one", None, vec![("a", nginx, 10, 5)], "a"),
        ("the only one that passes", None, vec![("a", redis, 10, 0), ("b", nginx, 10, 9)], "b"),
        ("the least allocated", None, vec![("a", nginx, 10, 8), ("b", nginx, 10, 2)], "b"),
        ("the least share", None, vec![("a", nginx, 10, 3), ("b", nginx, 100, 20)], "b"),
        ("the most allocated", Some(MOST_ALLOCATED), vec![("a", nginx, 10, 2), ("b", nginx, 10, 8)], "b"),
        ("a tie", Some(MOST_ALLOCATED), vec![("b", nginx, 10, 5), ("a", nginx, 10, 5)], "a"),
        ("a tie of the default", None, vec![("b", nginx, 3, 1), ("a", nginx, 6, 2)], "a"),
        ("no score", Some(NO_SCORE), vec![("b", nginx, 10, 1), ("a", nginx, 10, 5)], "a"),
        ("an empty pool", None, vec![("a", nginx, 0, 0), ("b", nginx, 10, 9)], "b"),
        ("empty pools", None, vec![("b", nginx, 0, 0), ("a", nginx, 0, 0)], "a"),
        ("a weight below zero", Some(AGAINST), vec![("a", nginx, 10, 2), ("b", nginx, 10, 8)], "b"),
        ("a full pool", Some(WITH_CAPACITY), vec![("a", nginx, 10, 10), ("b", nginx, 10, 8)], "b"),
    ] {
        let profile = by(profile);
        assert_eq!(choose(&profile, &needs(Some(nginx)), &pools(&of)), Ok(expected), "{case}");
        let reversed: Vec<_> = of.into_iter().rev().collect();
        assert_eq!(
            choose(&profile, &needs(Some(nginx)), &pools(&reversed)),
            Ok(expected),
            "{case}, reversed"
        );
    }
}

#[test]
fn a_batch_without_a_template_takes_any_pool() {
    let pools = [offer("b", None), offer("a", None)];
    assert_eq!(choose(&Profile::default(), &needs(None), &pools), Ok("a"));
}

#[test]
fn an_error_says_of_each_pool_why_not() {
    let (nginx, redis) = (&images(&["nginx"]), &images(&["redis"]));
    let none = choose(&Profile::default(), &needs(Some(nginx)), &[]).expect_err("there is none");
    assert_eq!(none.to_string(), "there is no pool");

    let full = pools(&[("b", nginx, 2, 2), ("a", redis, 1, 1)]);
    let none = choose(&by(Some(WITH_CAPACITY)), &needs(Some(nginx)), &full).expect_err("none fits");
    let expected = "no pool fits; a: it has room for 0 of 1 pods, it has none of the images nginx; \
                    b: it has room for 0 of 1 pods";
    assert_eq!(none.to_string(), expected);
}

#[test]
fn an_error_names_a_few_pools_and_counts_the_others() {
    let (nginx, redis) = (&images(&["nginx"]), &images(&["redis"]));
    let names: Vec<String> = (0..7).map(|number| format!("pool-{number}")).collect();
    let pools: Vec<_> = names.iter().map(|name| offer(name, Some(redis))).collect();
    let none: NoPool = choose(&Profile::default(), &needs(Some(nginx)), &pools).expect_err("none fits");
    assert_eq!(none.rejected.len(), 7);
    let text = none.to_string();
    assert!(text.contains("pool-4") && !text.contains("pool-5") && text.ends_with("; and 2 more"), "{text}");
}

#[test]
fn capacity_asks_for_room_for_all_pods() {
    let nginx = &images(&["nginx"]);
    let wants = |replicas| SandboxNeeds { replicas, ..needs(Some(nginx)) };
    let profile = by(Some(WITH_CAPACITY));
    for (most, allocated, replicas, fits) in
        [(1, 0, 2, false), (10, 5, 2, true), (5, 0, 5, true), (5, 5, 0, false), (5, 6, 0, false)]
    {
        let pool = PoolOffer { most, allocated, total: 0, ..offer("a", Some(nginx)) };
        let chosen = choose(&profile, &wants(replicas), &[pool]);
        assert_eq!(chosen.is_ok(), fits, "{replicas} of {most}, {allocated} allocated: {chosen:?}");
    }
}
