//! The API server refuses writes to some pods, or to make pods.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;

use super::world::{World, run};
use crate::Again;

/// How often a request was sent since the last call for all requests.
fn sent(world: &World, line: &str) -> usize {
    world.asked().iter().filter(|asked| *asked == line).count()
}

fn told(world: &World, reason: &str) -> usize {
    world.process.events.take().iter().filter(|event| event.reason == reason).count()
}

/// Claims every pod of a pool, and refuses writes to the first of them.
fn claimed(world: &mut World, refused: usize) -> Vec<String> {
    let names = world.live();
    for name in &names {
        assert!(world.claim(name));
    }
    world.nodes();
    let lines = names.iter().take(refused).map(|name| format!("PATCH pods/{name}"));
    world.script.lock().refused = lines.collect();
    world.asked();
    names
}

fn running(world: &World) -> usize {
    world.phases().values().filter(|phase| *phase == "running").count()
}

#[test]
fn a_pod_whose_chore_is_refused_holds_up_no_other_and_is_looked_at_again() {
    run(async {
        let mut world = World::ready(20).await;
        let names = claimed(&mut world, 1);
        let line = format!("PATCH pods/{}", names[0]);
        world.look().await.unwrap();
        assert_eq!((running(&world), sent(&world, &line)), (19, 1));
        // It changes meanwhile, and is left alone.
        world.edit_pod(&names[0], |pod| pod["metadata"]["annotations"]["other"] = json!("1"));
        world.pass(29);
        world.look().await.unwrap();
        assert_eq!(sent(&world, &line), 0);
        world.pass(1);
        let Ok(Again::After(_)) = world.look().await else { panic!("it failed") };
        assert_eq!((sent(&world, &line), told(&world, "FailedWrite")), (1, 1), "it is told once");
        world.script.lock().refused.clear();
        world.pass(30);
        world.look().await.unwrap();
        assert_eq!(running(&world), 20);
    });
}

#[test]
fn many_refused_chores_hold_up_no_others() {
    run(async {
        let mut world = World::ready(20).await;
        claimed(&mut world, 16);
        for _ in 0..2 {
            world.look().await.unwrap();
        }
        assert_eq!(running(&world), 4);
    });
}

#[test]
fn a_refused_chore_is_not_written_each_second_after_a_pod_has_ended() {
    run(async {
        let mut world = World::ready(2).await;
        let ended = world.live()[0].clone();
        world.edit_pod(&ended, |pod| pod["status"]["phase"] = json!("Failed"));
        world.settle().await;
        let names = claimed(&mut world, 1);
        let mut count = 0;
        for _ in 0..29 {
            let _ = world.look().await;
            count += sent(&world, &format!("PATCH pods/{}", names[0]));
            world.pass(1);
        }
        assert_eq!(count, 1);
        assert_eq!(told(&world, "FailedWrite"), 1);
    });
}

#[test]
fn where_a_pod_may_not_be_deleted_another_one_goes() {
    run(async {
        let mut world = World::new(2);
        world.look().await.unwrap();
        let before = world.live();
        world.scale(1);
        let mut lines: Vec<_> = before.iter().map(|name| format!("DELETE pods/{name}")).collect();
        world.asked();
        // Whichever is chosen first may not go, the other one may.
        world.script.lock().refused.clone_from(&lines);
        world.look().await.unwrap();
        let chosen: BTreeSet<_> = world.asked().into_iter().filter(|line| lines.contains(line)).collect();
        assert_eq!(chosen.len(), 1);
        lines.retain(|line| chosen.contains(line));
        world.script.lock().refused = lines;
        world.look().await.unwrap();
        let after = world.live();
        assert_eq!(after.len(), 1);
        assert!(chosen.contains(&format!("DELETE pods/{}", after[0])));
    });
}

#[test]
fn pods_that_are_refused_are_asked_for_ever_more_seldom_and_are_no_failure() {
    run(async {
        let mut world = World::ready(1).await;
        world.scale(2);
        world.script.lock().refused.push("POST pods".to_owned());
        let (mut passed, mut posts) = (0, 0);
        while passed < 60 {
            let Ok(Again::After(wait)) = world.look().await else { panic!("it failed") };
            posts += sent(&world, "POST pods");
            let wait = wait.max(Duration::from_secs(1)).as_secs();
            passed += wait;
            world.pass(i64::try_from(wait).unwrap());
        }
        assert!((4..=8).contains(&posts), "{posts} requests in {passed} s");
        assert_eq!(told(&world, "FailedCreate"), 1);
        world.script.lock().refused.clear();
        world.settle().await;
        assert_eq!(world.live().len(), 2);
    });
}
