//! No pod in two sandboxes, none lost, whoever comes, goes and dies meanwhile.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use futures_util::future::join_all;
use sandgate_tests::cluster::{Batches, allocated, holds, is_ready, name, pod_template, pool, pooled};
use sandgate_tests::{DEADLINE, eventually};
use serde_json::json;

use super::{EVICT, capacity, names, recycling, replicas, uids};

#[tokio::test]
async fn sandboxes_that_come_at_once_share_no_pod() {
    let place = Batches::shared("atonce").await;
    let _operator = place.operator().start().await;
    place.pools.create(&pool("p", &pod_template("hollow"), [10, 10], [0, 80])).await;
    place.levels("p", 10, 0, 10).await;
    let name = |index: u32| format!("one-{index}");
    // More than are ready, of different sizes.
    let all: Vec<_> = (0..20).map(|index| pooled(&name(index), 1 + index % 3, "p")).collect();
    join_all(all.iter().map(|one| place.batches.create(one))).await;
    let wanted = |index: u32| usize::try_from(1 + index % 3).expect("small");
    let all = place
        .watch_apart("all have theirs", |all| {
            (0..20).all(|index| {
                let one = all.iter().find(|one| one["metadata"]["name"] == name(index).as_str());
                one.is_some_and(|one| is_ready(one, wanted(index)))
            })
        })
        .await;
    let held: usize = all.iter().map(|one| holds(one).len()).sum();
    assert_eq!(held, 39);
    place.levels("p", 49, 39, 10).await;
}

#[tokio::test]
async fn pods_that_are_used_again_and_again_do_not_leak() {
    let place = Batches::shared("cycles").await;
    let _operator = place.operator().start().await;
    let three = recycling(pool("p", &pod_template("hollow"), [0, 3], [3, 3]), "Noop");
    place.pools.create(&three).await;
    place.levels("p", 3, 0, 3).await;
    let pods = names(&place.pods_of("p").await);
    let before = uids(&place, &pods).await;
    for round in 0..5 {
        let name = |index: u32| format!("one-{round}-{index}");
        for index in 0..3 {
            place.batches.create(&pooled(&name(index), 1, "p")).await;
        }
        for index in 0..3 {
            place.ready(&name(index), 1).await;
        }
        place.levels("p", 3, 3, 0).await;
        place.assert_no_pod_is_shared().await;
        join_all((0..3).map(|index| {
            let name = name(index);
            async { place.end(&{ name }).await }
        }))
        .await;
        place.levels("p", 3, 0, 3).await;
    }
    assert_eq!(names(&place.pods_of("p").await), pods, "the same ones");
    assert_eq!(uids(&place, &pods).await, before);
}

#[tokio::test]
async fn a_pool_at_its_most_lets_the_next_ones_wait_in_their_order() {
    let place = Batches::shared("most").await;
    let _operator = place.operator().start().await;
    // Between two looks a pod too many could come and go.
    let most = Arc::new(AtomicUsize::new(2));
    let may_be = Arc::clone(&most);
    let pods = place.pods.follow(move |pods| {
        let most = may_be.load(Relaxed);
        assert!(pods.len() <= most, "{:?}, and {most} may be there", pods.keys());
    });
    let pods = pods.await;
    place.pools.create(&pool("p", &pod_template("hollow"), [1, 1], [0, 2])).await;
    place.batches.create(&pooled("first", 2, "p")).await;
    place.ready("first", 2).await;
    place.levels("p", 2, 2, 0).await;
    // The names would have it the other way round.
    place.batches.create(&pooled("z-second", 2, "p")).await;
    let second = place.batches.get("z-second").await.expect("the batch");
    let is_later = async || {
        let third = place.batches.create(&pooled("a-third", 1, "p")).await;
        let later = third["metadata"]["creationTimestamp"] != second["metadata"]["creationTimestamp"];
        if !later {
            place.end("a-third").await;
        }
        later.then_some(())
    };
    eventually("the third comes a second later", DEADLINE, is_later).await;
    place.levels("p", 2, 2, 0).await;
    for waits in ["z-second", "a-third"] {
        let waits = place.batches.get(waits).await.expect("the batch");
        assert!(allocated(&waits).is_empty(), "{waits:#}");
    }
    place.end("first").await;
    place.ready("z-second", 2).await;
    let third = place.batches.get("a-third").await.expect("the batch");
    assert!(allocated(&third).is_empty(), "{third:#}");
    place.levels("p", 2, 2, 0).await;
    most.store(3, Relaxed);
    place.pools.patch("p", &capacity([1, 1], [0, 3])).await;
    place.ready("a-third", 1).await;
    place.levels("p", 3, 3, 0).await;
    pods.finish().await;
}

#[tokio::test]
async fn pods_that_vanish_leave_no_hole_in_the_count() {
    let place = Batches::shared("vanish").await;
    let _operator = place.operator().start().await;
    place.pools.create(&pool("p", &pod_template("hollow"), [3, 3], [0, 12])).await;
    place.batches.create(&pooled("one", 3, "p")).await;
    place.ready("one", 3).await;
    place.levels("p", 6, 3, 3).await;
    // All of them, those that are a sandbox's too.
    let all = names(&place.pods_of("p").await);
    join_all(all.iter().map(|pod| place.pods.delete_at_once(pod))).await;
    place
        .batches
        .until("one", "it has others", |one| {
            is_ready(one, 3) && allocated(one).iter().all(|pod| !all.contains(pod))
        })
        .await;
    place.levels("p", 6, 3, 3).await;
    place.end("one").await;
    place.levels("p", 3, 0, 3).await;
    place.settled(3).await;
}

#[tokio::test]
async fn to_evict_all_of_a_pool_protects_what_is_allocated() {
    let place = Batches::shared("evictall").await;
    let _operator = place.operator().start().await;
    place.pools.create(&pool("p", &pod_template("hollow"), [2, 2], [0, 12])).await;
    for index in 0..3 {
        place.batches.create(&pooled(&format!("one-{index}"), 1, "p")).await;
    }
    let mut held = Vec::new();
    for index in 0..3 {
        held.extend(allocated(&place.ready(&format!("one-{index}"), 1).await));
    }
    place.levels("p", 5, 3, 2).await;
    let before = uids(&place, &held).await;
    let old = names(&place.pods_of("p").await);
    let label = json!({ "metadata": { "labels": { EVICT: "now" } } });
    join_all(old.iter().map(|pod| place.pods.patch(pod, &label))).await;
    let others = eventually("the idle ones are others", 3 * DEADLINE, async || {
        let pods = names(&place.pods_of("p").await);
        let others = pods.iter().filter(|pod| !old.contains(*pod)).count();
        (pods.len() == 5 && others == 2).then_some(pods)
    });
    let others = others.await;
    assert!(held.iter().all(|pod| others.contains(pod)));
    assert_eq!(uids(&place, &held).await, before);
    place.levels("p", 5, 3, 2).await;
    for index in 0..3 {
        place.end(&format!("one-{index}")).await;
    }
    place.levels("p", 2, 0, 2).await;
    assert!(names(&place.pods_of("p").await).iter().all(|pod| !old.contains(pod)));
}

#[tokio::test]
async fn two_pools_are_apart() {
    let place = Batches::shared("apart").await;
    let _operator = place.operator().start().await;
    for name in ["a", "b"] {
        let two = recycling(pool(name, &pod_template("hollow"), [0, 2], [2, 2]), "Noop");
        place.pools.create(&two).await;
    }
    // One is used up; the other's pods do not help.
    for index in 0..3 {
        place.batches.create(&pooled(&format!("a-{index}"), 1, "a")).await;
    }
    place.batches.create(&pooled("b-0", 1, "b")).await;
    place.ready("b-0", 1).await;
    place.levels("a", 2, 2, 0).await;
    place.levels("b", 2, 1, 1).await;
    for one in place.batches.list().await {
        for pod in allocated(&one) {
            assert_eq!(pod[..2], name(&one)[..2], "{pod} of {}", name(&one));
        }
    }
    place.end("b-0").await;
    place.levels("b", 2, 0, 2).await;
    place.levels("a", 2, 2, 0).await;
    // One of them goes, and the other does not mind.
    place.batches.create(&pooled("b-1", 2, "b")).await;
    let held = allocated(&place.ready("b-1", 2).await);
    let before = uids(&place, &held).await;
    place.pools.delete("a").await;
    place
        .pods
        .until_all("only pods of the other pool are left", |pods| {
            pods.iter().all(|pod| name(pod).starts_with("b-"))
        })
        .await;
    assert_eq!(allocated(&place.ready("b-1", 2).await), held);
    assert_eq!(uids(&place, &held).await, before);
    place.end("b-1").await;
    place.levels("b", 2, 0, 2).await;
    // The same names in another namespace are others.
    let other = Batches::new(&place.cluster, "apart").await;
    let _its = other.operator().start().await;
    other.pools.create(&pool("a", &pod_template("hollow"), [1, 1], [0, 4])).await;
    other.batches.create(&pooled("a-0", 1, "a")).await;
    other.ready("a-0", 1).await;
    place.settled(2).await;
    place.levels("b", 2, 0, 2).await;
}

#[tokio::test]
async fn pods_that_come_back_one_after_the_other_go_to_who_waits() {
    let place = Batches::shared("staggered").await;
    let _operator = place.operator().start().await;
    let four = recycling(pool("p", &pod_template("hollow"), [0, 4], [4, 4]), "Noop");
    place.pools.create(&four).await;
    place.batches.create(&pooled("big", 4, "p")).await;
    let big = allocated(&place.ready("big", 4).await);
    place.batches.create(&pooled("waits", 4, "p")).await;
    for left in (0..4_u32).rev() {
        place.batches.patch("big", &replicas(left)).await;
        let taken = 4 - usize::try_from(left).expect("small");
        let all = place
            .watch_apart("what is given back is taken", |all| {
                let of = |name: &str| all.iter().find(|one| one["metadata"]["name"] == name);
                of("waits").is_some_and(|one| holds(one).len() == taken)
            })
            .await;
        let waits = all.iter().find(|one| name(one) == "waits").expect("the batch");
        let last = &big[usize::try_from(left).expect("small")];
        assert!(allocated(waits).contains(last), "{last} in {:?}", allocated(waits));
    }
    place.ready("waits", 4).await;
    place.levels("p", 4, 4, 0).await;
    place.end("big").await;
    place.end("waits").await;
    place.levels("p", 4, 0, 4).await;
    place.settled(4).await;
}

#[tokio::test]
async fn sandboxes_that_go_in_waves_make_room_for_who_comes() {
    let place = Batches::shared("waves").await;
    let _operator = place.operator().start().await;
    let four = recycling(pool("p", &pod_template("hollow"), [0, 4], [4, 4]), "Noop");
    place.pools.create(&four).await;
    place.levels("p", 4, 0, 4).await;
    let pods = names(&place.pods_of("p").await);
    let before = uids(&place, &pods).await;
    let old = ["one-0", "one-1", "one-2", "one-3"];
    join_all(old.map(|name| pooled(name, 1, "p")).iter().map(|one| place.batches.create(one))).await;
    for name in old {
        place.ready(name, 1).await;
    }
    place.levels("p", 4, 4, 0).await;
    let mut left = 4;
    for wave in [&old[..1], &old[1..3]] {
        let held = allocated(&place.ready("one-3", 1).await);
        join_all(wave.iter().map(|name| place.end(name))).await;
        left -= u32::try_from(wave.len()).expect("small");
        place.levels("p", 4, left, 4 - left).await;
        place.assert_no_pod_is_shared().await;
        assert_eq!(allocated(&place.ready("one-3", 1).await), held, "who stays keeps its pod");
    }
    // A newcomer takes all that has come back.
    place.batches.create(&pooled("new", 3, "p")).await;
    place.ready("new", 3).await;
    place.levels("p", 4, 4, 0).await;
    place.assert_no_pod_is_shared().await;
    assert_eq!(uids(&place, &pods).await, before, "the same pods all the time");
}
