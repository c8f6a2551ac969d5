use std::time::Duration;

use sandgate_sim::model::{CHECKPOINTS, Place, SANDBOX_TEMPLATES};
use sandgate_sim::network::{Operation, UnderWay};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::world::{Fate, World, caller, kind, run, somebody, wanted};
use crate::{Error, ErrorKind, NewSandbox, NewSnapshot, Snapshot};

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
    run(async { lives(World::with(1, 1)).await });
}

/// The labels that select sets and sandboxes are not on what is made of them.
#[test]
fn a_snapshot_lives_where_sandboxes_are_selected_by_labels_too() {
    run(async {
        let mut world = World::with(0, 1);
        world.settings.selector = "app=web".to_owned();
        world.start();
        lives(world).await;
    });
}

async fn lives(mut world: World) {
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
    let refused = world.end(async move { deleting.delete_snapshot(&caller("owner-2", &[]), "cp-1").await });
    assert_eq!(kind(refused.await), ErrorKind::NotFound);
    let deleting = world.manager(0);
    world.end(async move { deleting.delete_snapshot(&somebody(), "cp-1").await }).await.unwrap();
    assert_eq!(world.model.list(&CHECKPOINTS).count(), 0);
    assert_eq!(world.model.list(&SANDBOX_TEMPLATES).count(), 0);
    let deleting = world.manager(0);
    let refused = world.end(async move { deleting.delete_snapshot(&somebody(), "base").await }).await;
    assert_eq!(kind(refused), ErrorKind::Forbidden);
}

#[test]
fn a_fork_of_a_sandbox_without_public_traffic_has_none_either_and_another_token() {
    run(async {
        let mut world = World::with(1, 1);
        let (manager, new) = (world.manager(0), NewSandbox { private_traffic: true, ..wanted() });
        let origin = world.end(async move { manager.create(&somebody(), new).await }).await.unwrap();
        let token = origin.traffic_token.unwrap();
        let manager = world.manager(0);
        let forking = tokio::spawn(async move { manager.fork(&somebody(), &origin.id, None, 1).await });
        world.rounds(5).await;
        let mut checkpoint = Value::clone(world.model.list(&CHECKPOINTS).next().unwrap());
        assert!(!checkpoint.to_string().contains(token.reveal()), "no snapshot has it");
        checkpoint["status"] = json!({"phase": "Succeeded", "checkpointId": "cp-1"});
        world.model.put(&Place::of(&CHECKPOINTS, &checkpoint), checkpoint);
        world.show();
        let forks = world.end_with(forking, |_| Fate::Done).await.unwrap();
        let fork = forks.into_iter().next().unwrap().unwrap();
        assert!(fork.traffic_token.is_some_and(|own| own != token));
        assert!(world.model.list(&SANDBOX_TEMPLATES).all(|kept| !kept.to_string().contains(token.reveal())));
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

fn is_checkpoint(call: &UnderWay) -> bool {
    call.operation.target().is_some_and(|place| place.kind == &CHECKPOINTS)
}

/// How many checkpoints and templates there are.
fn objects(world: &World) -> (usize, usize) {
    (world.model.list(&CHECKPOINTS).count(), world.model.list(&SANDBOX_TEMPLATES).count())
}

/// A snapshot that was begun by the first of so many managers, and that nobody executes yet.
async fn begun(replicas: usize) -> (World, JoinHandle<Result<Snapshot, Error>>) {
    let mut world = World::with(replicas, 1);
    let id = world.created(&somebody()).await.id;
    let manager = world.manager(0);
    let making = tokio::spawn(async move { manager.snapshot(&somebody(), &id, named("one")).await });
    world.rounds(5).await;
    assert_eq!(objects(&world), (1, 1));
    (world, making)
}

/// The executor says this of the one checkpoint.
fn execute(world: &mut World, status: Value) {
    let mut checkpoint = Value::clone(world.model.list(&CHECKPOINTS).next().unwrap());
    checkpoint["status"] = status;
    world.model.put(&Place::of(&CHECKPOINTS, &checkpoint), checkpoint);
    world.show();
}

#[test]
fn a_snapshot_whose_client_is_gone_leaves_nothing() {
    run(async {
        for is_begun in [false, true] {
            let (mut world, making) = begun(1).await;
            if is_begun {
                execute(&mut world, json!({"phase": "Creating"}));
            }
            making.abort();
            world.rounds(10).await;
            assert_eq!(objects(&world), (0, 0));
        }
    });
}

#[test]
fn a_snapshot_whose_create_is_not_answered_leaves_nothing() {
    run(async {
        let mut world = World::with(1, 1);
        let id = world.created(&somebody()).await.id;
        let manager = world.manager(0);
        let making = tokio::spawn(async move { manager.snapshot(&somebody(), &id, named("one")).await });
        let mut made = 0;
        let silent = |call: &UnderWay| {
            let is_create = is_checkpoint(call) && matches!(&*call.operation, Operation::Create(..));
            made += usize::from(is_create);
            if is_create { Fate::Unanswered } else { Fate::Done }
        };
        assert_eq!(kind(world.end_with(making, silent).await), ErrorKind::Unknown);
        assert!(made > 1);
        assert_eq!(objects(&world), (0, 0));
    });
}

#[test]
fn what_a_dead_manager_has_left_of_a_snapshot_is_swept() {
    run(async {
        for status in [None, Some(json!({"phase": "Creating"}))] {
            let (mut world, making) = begun(2).await;
            making.abort();
            world.crash(0);
            if let Some(status) = status {
                execute(&mut world, status);
            }
            swept(&mut world, 1).await;
            assert_eq!(objects(&world), (0, 0));
        }
    });
}

#[test]
fn a_snapshot_that_is_complete_is_not_swept() {
    run(async {
        for has_died in [false, true] {
            let (mut world, making) = begun(2).await;
            if has_died {
                making.abort();
                world.crash(0);
                execute(&mut world, json!({"phase": "Succeeded", "checkpointId": "cp-1"}));
            } else {
                execute(&mut world, json!({"phase": "Succeeded", "checkpointId": "cp-1"}));
                world.end_with(making, |_| Fate::Done).await.unwrap();
            }
            swept(&mut world, 1).await;
            assert_eq!(objects(&world), (1, 1));
        }
    });
}

/// Lets a manager sweep, for as long as it takes until nobody waits for a snapshot.
async fn swept(world: &mut World, replica: usize) {
    let manager = world.manager(replica);
    let sweeps = tokio::spawn(async move { manager.keep_swept().await });
    for _ in 0..700 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        world.rounds(1).await;
    }
    sweeps.abort();
}
