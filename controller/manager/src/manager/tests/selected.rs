//! Managers that look after the sandboxes with some labels, and not after others.

use serde_json::json;

use super::world::{Fate, World, kind, run, somebody};
use crate::ErrorKind;

/// A manager of the sandboxes of `app=web`, which the world's are.
fn world(stock: usize) -> World {
    let mut world = World::with(0, stock);
    world.settings.selector = "app=web".to_owned();
    world.start();
    world
}

/// Whoever wrote to it would not see what becomes of that.
#[test]
fn a_sandbox_that_is_not_selected_is_not_found_and_not_written_to_by_its_id() {
    run(async {
        for lags in [false, true] {
            let mut world = world(1);
            let sandbox = world.created(&somebody()).await;
            world.replicas[0].lags = lags;
            world.put(&sandbox, |sandbox| sandbox["metadata"]["labels"]["app"] = "other".into());
            let before = world.sandbox(&sandbox);
            for work in 0..4 {
                let (manager, id) = (world.manager(0), sandbox.id.clone());
                let work = tokio::spawn(async move {
                    match work {
                        0 => manager.pause(&somebody(), &id, None).await,
                        1 => manager.connect(&somebody(), &id, None).await.map(drop),
                        2 => manager.set_timeout(&somebody(), &id, std::time::Duration::from_secs(60)).await,
                        _ => manager.kill(&somebody(), &id).await,
                    }
                });
                world.controls = false;
                assert_eq!(kind(world.end_with(work, |_| Fate::Done).await), ErrorKind::NotFound, "{lags}");
            }
            assert_eq!(world.sandbox(&sandbox), before);
        }
    });
}

/// An ID that two sandboxes have is nobody's, unless only one of them is looked after here.
#[test]
fn another_managers_sandbox_of_the_same_id_hides_none_of_this_one() {
    run(async {
        let mut world = world(2);
        let other = world.start();
        world.replicas[other].lags = true;
        let (one, two) = (world.created(&somebody()).await, world.created(&somebody()).await);
        let id = one.id.clone();
        world.put(&two, |sandbox| {
            sandbox["metadata"]["labels"]["app"] = "other".into();
            sandbox["metadata"]["labels"]["agents.kruise.io/sandbox-id"] = json!(id);
        });
        let (manager, id) = (world.manager(other), one.id.clone());
        let found = world.end(async move { manager.get(&somebody(), &id).await }).await.unwrap();
        assert_eq!(found.resource, one.resource);
    });
}
