//! The process dies before or after each of its requests, and another one goes on.

use std::collections::BTreeSet;

use sandgate_objects::opensandbox::names;
use serde_json::json;

use super::world::{Fate, World, run};

/// Batches that are served, scaled, moved and deleted. The requests before `number` are done; that one is the
/// process's last. Whether there was one.
async fn life(strategy: &str, number: usize, fate: Fate) -> bool {
    let mut world = World::new([1, 3, 0, 12]);
    world.recycle_by(strategy);
    world.fate(number, fate);
    let mut has_died = false;
    for step in 0..7 {
        match step {
            0 => {}
            1 => (0..3).for_each(|at| world.batch(&format!("b{at}"), 2)),
            2 => world.delete_batch("b0"),
            3 => {
                if let Some(last) = world.alloc("b1").last().cloned() {
                    world.edit_batch("b1", |batch| batch["spec"]["replicas"] = json!(1));
                    world.wish("b1", &[&last]);
                }
            }
            4 => {
                if let Some(pod) =
                    world.alloc("b2").first().cloned().filter(|pod| world.of_pod(pod).is_some())
                {
                    world.lose_pod(&pod);
                }
            }
            5 => world.edit_batch("b1", |batch| batch["spec"]["replicas"] = json!(3)),
            _ => world.image("base:2"),
        }
        for _ in 0..4 {
            has_died |= world.look_and_die().await;
            for command in world.restarts().await {
                let pod = command.split(' ').next().unwrap().to_owned();
                if world.of_pod(&pod).is_some() {
                    world.restarted(&pod);
                }
            }
            world.nodes();
            world.pass(31);
        }
    }
    world.settle(true).await;
    // Everybody has what was asked for, and every other pod is free.
    assert_eq!(world.of_batch("b0"), None);
    let mut held = BTreeSet::new();
    for (batch, replicas) in [("b1", 3), ("b2", 2)] {
        let released = world.released(batch);
        let pods = world.alloc(batch);
        assert_eq!(pods.len(), replicas, "{batch} has {pods:?}");
        for pod in pods.into_iter().filter(|pod| !released.contains(pod)) {
            assert!(world.of_pod(&pod).is_some(), "{pod} of {batch} is gone");
            assert_eq!(world.mark(&pod), batch);
            held.insert(pod);
        }
    }
    for pod in world.live() {
        if !held.contains(&pod) {
            assert_eq!(world.mark(&pod), "", "{pod} is nobody's");
            let object = world.of_pod(&pod).unwrap();
            assert_eq!(object["metadata"]["labels"].get(names::LABEL_BATCH_NAME), None);
        }
    }
    let all = world.live().len();
    assert!((5..=12).contains(&all), "{all} pods");
    has_died
}

fn dies_everywhere(strategy: &str) {
    for fate in [Fate::DiesBefore, Fate::DiesAfter, Fate::Lost, Fate::Unanswered] {
        let is_death = matches!(fate, Fate::DiesBefore | Fate::DiesAfter);
        let mut number = 0;
        while run(life(strategy, number, fate)) || (!is_death && number < 60) {
            number += 1;
        }
        assert!(number > 30, "{strategy} {fate:?}: {number} requests");
    }
}

#[test]
fn pods_that_are_deleted_are_neither_lost_nor_given_twice() {
    dies_everywhere("Delete");
}

#[test]
fn pods_that_are_kept_are_neither_lost_nor_given_twice() {
    dies_everywhere("Noop");
}

#[test]
fn pods_that_are_restarted_are_neither_lost_nor_given_twice() {
    dies_everywhere("Restart");
}
