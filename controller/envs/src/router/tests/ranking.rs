use super::world::*;
use crate::router::{Rejected, Score, Wish};
use sandgate_objects::sandbox_env::resources::{EnvMode, MemberState};

#[test]
fn a_bare_name_is_an_environment_or_nothing() {
    let router = knows(&env("e", 1, &[member("e-a")]));
    assert_eq!(routed(&router, &wish("e"), &Loads::default()), "e-a");
    assert_eq!(routed(&router, &wish("e-a"), &Loads::default()), "NotFound(Env)", "a pool is no environment");
    let elsewhere = Wish { namespace: "other", ..wish("e") };
    assert_eq!(routed(&router, &elsewhere, &Loads::default()), "NotFound(Env)");
}

#[test]
fn a_cluster_before_the_name_makes_it_a_pools() {
    let router = knows(&env("e", 1, &[member("e-a")]));
    let in_cluster = |cluster| Wish { cluster: Some(cluster), ..wish("e-a") };
    assert_eq!(routed(&router, &in_cluster(HERE), &Loads::default()), "Pool");
    assert_eq!(routed(&router, &in_cluster("east"), &Loads::default()), "east");
}

#[test]
fn an_environment_without_members_is_not_found() {
    assert_eq!(of_members(&[], &Loads::default()), "NotFound(Members)");
}

#[test]
fn jobs_are_not_made() {
    let mut jobs = env("e", 1, &[member("a")]);
    jobs.spec.mode = EnvMode::OnDemandJob;
    assert_eq!(routed(&knows(&jobs), &wish("e"), &Loads::default()), "NotSupported");
}

#[test]
fn the_lower_priority_number_wins() {
    let members = [member("a").priority(2), member("b").priority(1)];
    assert_eq!(
        of_members(&members, &Loads::of(&[("a", 9, 0), ("b", 0, 0)])),
        "b a",
        "nine idle pods are less"
    );
    assert_eq!(of_members(&members, &Loads::of(&[("a", 11, 0), ("b", 0, 0)])), "a b", "eleven are more");
}

#[test]
fn equal_members_are_told_apart_by_their_lines() {
    let members = [member("a"), member("b")];
    assert_eq!(of_members(&members, &Loads::of(&[("a", 0, 3), ("b", 0, 2)])), "b a");
}

#[test]
fn members_with_one_score_come_in_the_order_of_their_names() {
    let members = [member("c"), member("a"), member("b")];
    assert_eq!(of_members(&members, &Loads::default()), "a b c");
}

#[test]
fn a_saturated_member_comes_last() {
    let members = [member("a").saturated(1), member("b").priority(500)];
    assert_eq!(of_members(&members, &Loads::default()), "b a");
}

#[test]
fn a_saturation_that_has_ended_counts_no_more() {
    for over in [0, -1] {
        let members = [member("a").saturated(over), member("b").priority(1)];
        assert_eq!(of_members(&members, &Loads::default()), "a b");
    }
}

#[test]
fn when_all_are_saturated_they_are_ranked_among_themselves() {
    let members = [member("a").saturated(5).priority(1), member("b").saturated(5)];
    assert_eq!(of_members(&members, &Loads::default()), "b a");
}

#[test]
fn an_idle_pod_exempts_from_saturation() {
    let members = [member("a").saturated(5), member("b")];
    assert_eq!(of_members(&members, &Loads::of(&[("a", 1, 0), ("b", 0, 0)])), "a b");
}

#[test]
fn idle_pods_are_those_of_the_status_where_no_load_is_known() {
    let members = [member("a").idle(1), member("b").idle(2)];
    assert_eq!(of_members(&members, &Loads::default()), "b a");
    assert_eq!(of_members(&members, &Loads::of(&[("b", 0, 0)])), "a b", "a load that is known goes before");
}

#[test]
fn headroom_never_beats_one_idle_pod() {
    let members = [member("a").max(1000), member("b").max(1).desired(1)];
    assert_eq!(of_members(&members, &Loads::of(&[("a", 0, 0), ("b", 1, 0)])), "b a");
}

#[test]
fn a_member_at_its_greatest_size_is_skipped() {
    let members = [member("a").max(4).desired(4), member("b").priority(9)];
    assert_eq!(of_members(&members, &Loads::default()), "b");
    assert_eq!(of_members(&members, &Loads::of(&[("a", 1, 0)])), "a b", "but not if a pod is idle");
}

#[test]
fn no_greatest_size_is_no_limit() {
    let members = [member("a").max(0).desired(1_000_000), member("b").priority(9)];
    assert_eq!(of_members(&members, &Loads::default()), "a b");
}

#[test]
fn when_all_are_at_their_greatest_size_they_are_ranked() {
    let members = [member("a").max(1).desired(1), member("b").max(2).desired(2)];
    assert_eq!(of_members(&members, &Loads::of(&[("a", 0, 1), ("b", 0, 0)])), "b a");
}

#[test]
fn a_group_leaves_a_member_what_its_siblings_do_not_want() {
    // The group's 10 less the sibling's 5.
    let of = |desired| {
        let members = [member("a").max(8).desired(desired), member("b").desired(5), member("z").group("")];
        let router = knows(&grouped(env("e", 1, &members), "g", Some(10)));
        let explained = router.explain(&wish("e"), now(), &Loads::default()).unwrap();
        explained.into_iter().find(|explained| &*explained.pool == "a").unwrap().rejected
    };
    assert_eq!(of(4), None);
    assert_eq!(of(5), Some(Rejected::MaxedOut { desired: 5, max: 5 }));
}

#[test]
fn siblings_that_want_more_than_the_group_may_have_leave_nothing() {
    let members = [member("a").desired(0), member("b").desired(30), member("z").group("").priority(9)];
    let router = knows(&grouped(env("e", 1, &members), "g", Some(10)));
    assert_eq!(routed(&router, &wish("e"), &Loads::default()), "z");
}

#[test]
fn the_four_reasons_to_leave_a_member_out() {
    let mut missing = member("d-missing");
    missing.1.state = Some(MemberState::Missing);
    let mut inconsistent = member("e-inconsistent").idle(3);
    inconsistent.1.state = Some(MemberState::Inconsistent);
    let members = [member("a"), member("b-max").max(1).desired(1), member("c-full"), missing, inconsistent];
    assert_eq!(of_members(&members, &Loads::default().full("c-full")), "a");
    let others = &members[1..];
    let last_resorts = of_members(others, &Loads::default().full("c-full"));
    assert_eq!(last_resorts, "d-missing b-max", "a full line is none, nor is another's pool");
}

#[test]
fn a_pool_of_another_is_no_last_resort() {
    let mut inconsistent = member("b").idle(3);
    inconsistent.1.state = Some(MemberState::Inconsistent);
    let members = [member("a"), inconsistent];
    assert_eq!(of_members(&members[1..], &Loads::default()), "Inconsistent");
    assert_eq!(of_members(&members, &Loads::default().full("a")), "Saturated", "a retry may help");
}

#[test]
fn when_every_line_is_full_the_environment_is_saturated() {
    let members = [member("a"), member("b")];
    assert_eq!(of_members(&members, &Loads::default().full("a")), "b");
    assert_eq!(of_members(&members, &Loads::default().full("a").full("b")), "Saturated");
    assert_eq!(of_members(&members[..1], &Loads::default().full("a")), "Saturated");
}

#[test]
fn a_wish_for_a_scaling_group_is_hard() {
    let router = knows(&env("e", 1, &[member("a"), member("b").group("gpu").priority(9)]));
    let of = |group| Wish { scaling_group: Some(group), ..wish("e") };
    assert_eq!(routed(&router, &of("gpu"), &Loads::default()), "b");
    assert_eq!(routed(&router, &of("tpu"), &Loads::default()), "NoSuchGroup");
}

#[test]
fn a_member_that_was_not_observed_yet_wants_what_was_asked_for() {
    let mut fresh = env("e", 1, &[member("a").max(3), member("b").priority(1)]);
    fresh.spec.clusters[0].members[0].spec.replicas = 3;
    fresh.status = None;
    assert_eq!(routed(&knows(&fresh), &wish("e"), &Loads::default()), "b");
}

#[test]
fn members_of_other_clusters_are_no_candidates() {
    let mut env = env("e", 1, &[member("a")]);
    let mut other = env.spec.clusters[0].clone();
    other.cluster_id = "east".to_owned();
    other.members[0].name = "x".to_owned();
    env.spec.clusters.push(other);
    assert_eq!(routed(&knows(&env), &wish("e"), &Loads::default()), "a");
}

#[test]
fn an_explanation_has_the_parts_of_every_score() {
    let members =
        [member("a").priority(2).max(5).desired(2), member("b").saturated(9), member("c").max(1).desired(1)];
    let router = knows(&env("e", 1, &members));
    let loads = Loads::of(&[("a", 3, 4), ("b", 0, 1)]);
    let explained = router.explain(&wish("e"), now(), &loads).unwrap();
    let [a, b, c] = &explained[..] else { panic!("{explained:?}") };
    assert_eq!((&*a.pool, a.rank, a.rejected), ("a", Some(0), None));
    assert_eq!(a.score, Score { priority: -2000, idle: 300, headroom: 15, queue: -8, saturation: 0 });
    assert_eq!(a.score.total(), -1693);
    assert_eq!((&*b.pool, b.rank, b.rejected), ("b", Some(1), None));
    assert_eq!(b.score, Score { priority: 0, idle: 0, headroom: 50, queue: -2, saturation: -1_000_000 });
    assert_eq!((&*c.pool, c.rank), ("c", None));
    assert_eq!(c.rejected, Some(Rejected::MaxedOut { desired: 1, max: 1 }));
    assert!(router.explain(&wish("none"), now(), &loads).is_none());
}
