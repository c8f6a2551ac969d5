use sandgate_sim::model::{CHECKPOINTS, Place, SANDBOX_TEMPLATES};
use serde_json::{Value, json};

use super::world::{Fate, World, caller, kind, run, somebody};
use crate::{ErrorKind, NewSnapshot};

fn named(name: &str) -> NewSnapshot {
    NewSnapshot { name: Some(name.to_owned()), ..NewSnapshot::default() }
}

#[test]
fn a_snapshot_that_nobody_executes_is_refused_and_leaves_nothing() {
    run(async {
        let mut world = World::with(1, 1);
        let id = world.created(&somebody()).await.id;
        let (manager, of) = (world.manager(0), id.clone());
        let refused = world.end(async move { manager.snapshot(&somebody(), &of, named("one")).await }).await;
        assert_eq!(kind(refused), ErrorKind::Unsupported);
        assert_eq!(world.model.list(&CHECKPOINTS).count(), 0);
        assert_eq!(world.model.list(&SANDBOX_TEMPLATES).count(), 0);
        let (manager, of) = (world.manager(0), id.clone());
        let refused = world.end(async move { manager.fork(&somebody(), &of, None, 2).await }).await;
        assert_eq!(refused.unwrap_err().kind, ErrorKind::Unsupported);
    });
}

#[test]
fn a_cluster_that_is_known_to_execute_nothing_is_not_asked() {
    run(async {
        let mut world = World::with(0, 1);
        world.settings.snapshots.executor = false;
        world.start();
        let id = world.created(&somebody()).await.id;
        let manager = world.manager(0);
        let refused = world.end(async move { manager.snapshot(&somebody(), &id, named("one")).await }).await;
        assert_eq!(kind(refused), ErrorKind::Unsupported);
    });
}

#[test]
fn a_snapshot_is_made_listed_and_deleted_with_its_template() {
    run(async {
        let mut world = World::with(1, 1);
        let id = world.created(&somebody()).await.id;
        let (manager, of) = (world.manager(0), id.clone());
        let making = tokio::spawn(async move { manager.snapshot(&somebody(), &of, named("one")).await });
        for phase in ["Creating", "Succeeded"] {
            world.rounds(5).await;
            let mut checkpoint = Value::clone(world.model.list(&CHECKPOINTS).next().unwrap());
            checkpoint["status"] = json!({"phase": phase, "checkpointId": "cp-1"});
            world.model.put(&Place::of(&CHECKPOINTS, &checkpoint), checkpoint);
            world.show();
        }
        let made = world.end_with(making, |_| Fate::Done).await.unwrap();
        assert_eq!((made.id.as_str(), made.sandbox.as_str()), ("cp-1", id.as_str()));
        assert_eq!(world.model.list(&SANDBOX_TEMPLATES).count(), 1);
        world.rounds(1).await;
        let manager = world.manager(0);
        let listed = |name| manager.snapshots(&somebody(), Some(&id), name, 10, None).unwrap().items;
        assert_eq!(listed(Some("one")), [made]);
        assert_eq!(listed(Some("two")), []);
        assert_eq!(manager.snapshots(&caller("owner-2", &[]), None, None, 10, None).unwrap().items, []);
        let deleting = world.manager(0);
        let refused =
            world.end(async move { deleting.delete_snapshot(&caller("owner-2", &[]), "cp-1").await });
        assert_eq!(kind(refused.await), ErrorKind::NotFound);
        let deleting = world.manager(0);
        world.end(async move { deleting.delete_snapshot(&somebody(), "cp-1").await }).await.unwrap();
        assert_eq!(world.model.list(&CHECKPOINTS).count(), 0);
        assert_eq!(world.model.list(&SANDBOX_TEMPLATES).count(), 0);
        let deleting = world.manager(0);
        let refused = world.end(async move { deleting.delete_snapshot(&somebody(), "base").await }).await;
        assert_eq!(kind(refused), ErrorKind::Forbidden);
    });
}

#[test]
fn a_snapshot_that_fails_leaves_nothing_and_says_why() {
    run(async {
        let mut world = World::with(1, 1);
        let id = world.created(&somebody()).await.id;
        let manager = world.manager(0);
        let making = tokio::spawn(async move { manager.snapshot(&somebody(), &id, named("one")).await });
        world.rounds(5).await;
        let mut checkpoint = Value::clone(world.model.list(&CHECKPOINTS).next().unwrap());
        checkpoint["status"] = json!({"phase": "Failed", "message": "no space"});
        world.model.put(&Place::of(&CHECKPOINTS, &checkpoint), checkpoint);
        let failed = world.end_with(making, |_| Fate::Done).await.unwrap_err();
        assert!(failed.message.contains("no space"), "{failed}");
        assert_eq!(world.model.list(&CHECKPOINTS).count(), 0);
    });
}
