use super::world::*;
use crate::router::Wish;

#[test]
fn a_pod_that_is_idle_here_is_taken_before_more_elsewhere() {
    let here = env("e", 1, &[member("a").max(1).desired(1)]);
    let router = knows(&heard(here, "east", 1, &[member("x").idle(50)]));
    assert_eq!(routed(&router, &wish("e"), &Loads::of(&[("a", 1, 0)])), "a");
    assert_eq!(routed(&router, &wish("e"), &Loads::of(&[("a", 0, 0)])), "east, else a");
}

#[test]
fn a_pool_that_can_grow_here_is_waited_for() {
    let here = grouped(env("e", 1, &[member("a").max(5).desired(1)]), "g", None);
    let router = knows(&heard(here.clone(), "east", 1, &[member("x").idle(50)]));
    assert_eq!(routed(&router, &wish("e"), &Loads::default()), "a");
    let full = grouped(env("e", 1, &[member("a").max(5).desired(5)]), "g", None);
    let router = knows(&heard(full, "east", 1, &[member("x").idle(50)]));
    assert_eq!(routed(&router, &wish("e"), &Loads::default()), "east, else a");
    let saturated = grouped(env("e", 1, &[member("a").saturated(5)]), "g", None);
    let router = knows(&heard(saturated, "east", 1, &[member("x").idle(50)]));
    assert_eq!(routed(&router, &wish("e"), &Loads::default()), "east, else a");
    let by_hand = env("e", 1, &[member("a").max(5).desired(1)]);
    let router = knows(&heard(by_hand, "east", 1, &[member("x").idle(50)]));
    assert_eq!(routed(&router, &wish("e"), &Loads::default()), "east, else a", "nobody lets it grow");
}

#[test]
fn idle_pods_elsewhere_go_before_headroom() {
    let mut here = env("e", 1, &[member("a")]);
    for (cluster, idle, headroom) in [("b", 0, Some(900)), ("d", 1, None), ("c", 1, None), ("f", 0, None)] {
        let member = member("x").idle(idle);
        let member = if headroom.is_some() { member.headroom(headroom) } else { member };
        here = heard(here, cluster, 1, &[member]);
    }
    assert_eq!(routed(&knows(&here), &wish("e"), &Loads::default()), "c, else a", "by name among equals");
    let here = heard(env("e", 1, &[member("a")]), "b", 1, &[member("x").headroom(Some(3))]);
    let here = heard(here, "c", 1, &[member("x").headroom(None)]);
    let here = heard(here, "d", 1, &[member("x").headroom(None).saturated(5)]);
    assert_eq!(routed(&knows(&here), &wish("e"), &Loads::default()), "c, else a", "no limit is the most");
}

#[test]
fn where_nobody_has_anything_the_claim_waits_here() {
    let here = heard(env("e", 1, &[member("a")]), "east", 1, &[member("x"), member("y").headroom(Some(0))]);
    assert_eq!(routed(&knows(&here), &wish("e"), &Loads::default()), "a");
}

#[test]
fn a_cluster_that_was_not_heard_for_long_does_not_count() {
    for (ago, expected) in [(60, "east, else a"), (61, "a"), (-60, "east, else a")] {
        let here = heard(env("e", 1, &[member("a")]), "east", ago, &[member("x").idle(1)]);
        assert_eq!(routed(&knows(&here), &wish("e"), &Loads::default()), expected, "{ago}");
    }
    let mut never = heard(env("e", 1, &[member("a")]), "east", 0, &[member("x").idle(1)]);
    never.status.as_mut().unwrap().clusters[1].last_snapshot_time = None;
    assert_eq!(routed(&knows(&never), &wish("e"), &Loads::default()), "a");
}

#[test]
fn an_environment_that_is_only_elsewhere_is_found_there() {
    let elsewhere = heard(env("e", 1, &[]), "east", 1, &[member("x").idle(1)]);
    assert_eq!(routed(&knows(&elsewhere), &wish("e"), &Loads::default()), "east");
    let empty = heard(env("e", 1, &[]), "east", 1, &[member("x")]);
    assert_eq!(routed(&knows(&empty), &wish("e"), &Loads::default()), "Saturated");
}

#[test]
fn full_lines_here_send_a_claim_elsewhere() {
    let here = heard(env("e", 1, &[member("a").idle(3)]), "east", 1, &[member("x").idle(1)]);
    assert_eq!(routed(&knows(&here), &wish("e"), &Loads::of(&[("a", 3, 0)]).full("a")), "east");
}

#[test]
fn a_scaling_group_is_wished_for_elsewhere_too() {
    let here = env("e", 1, &[member("a").idle(1)]);
    let here = heard(here, "b", 1, &[member("x").idle(9)]);
    let here = heard(here, "c", 1, &[member("x").group("gpu").idle(1)]);
    let gpu = Wish { scaling_group: Some("gpu"), ..wish("e") };
    assert_eq!(routed(&knows(&here), &gpu, &Loads::default()), "c");
}
