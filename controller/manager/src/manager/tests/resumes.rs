use std::time::Duration;

use jiff::Timestamp;
use sandgate_sim::network::UnderWay;
use serde_json::Value;
use tokio::task::JoinHandle;

use super::world::{Fate, World, kind, run, somebody, wanted};
use crate::{Connected, Described, Error, ErrorKind, Extensions, NewSandbox, ShownState};

const MINUTE: Duration = Duration::from_secs(60);
/// The annotation of a sandbox that was resumed and is not initialised.
const PENDING: &str = "sandgate.dev/init-pending";

type Answer = Result<(Described, Connected), Error>;

fn connect(world: &World, replica: usize, sandbox: &Described, timeout: Duration) -> JoinHandle<Answer> {
    let (manager, id) = (world.manager(replica), sandbox.id.clone());
    tokio::spawn(async move { manager.connect(&somebody(), &id, Some(timeout)).await })
}

async fn connected(world: &mut World, replica: usize, sandbox: &Described) -> Answer {
    let connect = connect(world, replica, sandbox, MINUTE);
    world.end_with(connect, |_| Fate::Done).await
}

/// So many managers and a sandbox that is paused.
async fn paused(replicas: usize) -> (World, Described) {
    let mut world = World::with(replicas, 1);
    let sandbox = world.created(&somebody()).await;
    pause(&mut world, &sandbox).await;
    (world, sandbox)
}

async fn pause(world: &mut World, sandbox: &Described) {
    let (manager, id) = (world.manager(0), sandbox.id.clone());
    world.end(async move { manager.pause(&somebody(), &id, None).await }).await.unwrap();
}

/// Rounds until the sandbox is asked to run again.
async fn until_written(world: &mut World, sandbox: &Described) {
    world.until(|world| world.sandbox(sandbox)["spec"]["paused"] != true, |_| Fate::Done).await;
}

fn is_pending(world: &World, sandbox: &Described) -> bool {
    world.sandbox(sandbox)["metadata"]["annotations"][PENDING].is_string()
}

/// How often the runtimes were asked.
fn asked(world: &World) -> usize {
    world.envd.asked.lock().len()
}

#[test]
fn an_init_that_fails_is_made_up_for_by_whoever_connects_next() {
    run(async {
        for replica in [0, 1] {
            let (mut world, sandbox) = paused(2).await;
            *world.envd.answers.lock() = 500;
            for _ in 0..2 {
                let before = asked(&world);
                assert_eq!(kind(connected(&mut world, 0, &sandbox).await), ErrorKind::Unavailable);
                assert_eq!((asked(&world), is_pending(&world, &sandbox)), (before + 5, true));
            }
            *world.envd.answers.lock() = 204;
            let before = asked(&world);
            let (described, how) = connected(&mut world, replica, &sandbox).await.unwrap();
            assert_eq!((described.state, how), (ShownState::Running, Connected::Resumed));
            assert_eq!((asked(&world), is_pending(&world, &sandbox)), (before + 1, false));
            // Now it just runs.
            let (_, how) = connected(&mut world, replica, &sandbox).await.unwrap();
            assert_eq!((asked(&world), how), (before + 1, Connected::Running));
        }
    });
}

#[test]
fn a_resume_goes_on_though_its_client_is_gone() {
    run(async {
        let (mut world, sandbox) = paused(1).await;
        let connect = connect(&world, 0, &sandbox, MINUTE);
        until_written(&mut world, &sandbox).await;
        connect.abort();
        let before = asked(&world);
        world.rounds(20).await;
        assert_eq!((asked(&world), is_pending(&world, &sandbox)), (before + 1, false));
        assert_eq!(world.states().last().map(String::as_str), Some("running"));
    });
}

/// A sandbox whose resume is written, by a manager that died then. The other one lives.
async fn left_by_the_dead() -> (World, Described) {
    let (mut world, sandbox) = paused(2).await;
    world.controls = false;
    let connect = connect(&world, 0, &sandbox, MINUTE);
    until_written(&mut world, &sandbox).await;
    connect.abort();
    world.crash(0);
    world.controls = true;
    (world, sandbox)
}

#[test]
fn a_manager_that_dies_before_the_init_is_followed_by_another() {
    run(async {
        let (mut world, sandbox) = left_by_the_dead().await;
        let before = asked(&world);
        // It runs and is ready by itself.
        world.rounds(20).await;
        assert_eq!(world.sandbox(&sandbox)["status"]["phase"], "Running");
        assert_eq!((asked(&world), is_pending(&world, &sandbox)), (before, true));
        let (_, how) = connected(&mut world, 1, &sandbox).await.unwrap();
        assert_eq!(how, Connected::Resumed);
        assert_eq!((asked(&world), is_pending(&world, &sandbox)), (before + 1, false));
    });
}

#[test]
fn what_a_dead_manager_has_resumed_is_initialised_though_nobody_connects() {
    run(async {
        let (mut world, sandbox) = left_by_the_dead().await;
        let (manager, before) = (world.manager(1), asked(&world));
        let sweeps = tokio::spawn(async move { manager.keep_swept().await });
        for _ in 0..700 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            world.rounds(1).await;
        }
        assert_eq!((asked(&world), is_pending(&world, &sandbox)), (before + 1, false));
        sweeps.abort();
    });
}

#[test]
fn nobody_is_answered_before_the_runtime_is_initialised() {
    run(async {
        for replica in [0, 1] {
            let (mut world, sandbox) = paused(2).await;
            *world.envd.answers.lock() = 500;
            let before = asked(&world);
            let first = connect(&world, 0, &sandbox, MINUTE);
            world.until(|world| asked(world) > before, |_| Fate::Done).await;
            let second = connect(&world, replica, &sandbox, MINUTE);
            world.rounds(50).await;
            assert!(!first.is_finished() && !second.is_finished());
            *world.envd.answers.lock() = 204;
            for connect in [second, first] {
                let (described, _) = world.end_with(connect, |_| Fate::Done).await.unwrap();
                assert_eq!(described.state, ShownState::Running);
            }
            assert!(!is_pending(&world, &sandbox));
        }
    });
}

/// The first resume is initialised, and its note is taken away late: after another pause and resume.
#[test]
fn the_note_of_a_later_resume_stays() {
    run(async {
        let (mut world, sandbox) = paused(2).await;
        let first = connect(&world, 0, &sandbox, MINUTE);
        until_written(&mut world, &sandbox).await;
        let before = asked(&world);
        let hold = |call: &UnderWay| if call.caller == 1 { Fate::Held } else { Fate::Done };
        world.until(|world| asked(world) > before, hold).await;
        let note = world.sandbox(&sandbox)["metadata"]["annotations"][PENDING].clone();
        assert!(note.is_string());
        // Another manager pauses it, and dies after it has resumed it.
        let (manager, id) = (world.manager(1), sandbox.id.clone());
        let pause = tokio::spawn(async move { manager.pause(&somebody(), &id, None).await });
        assert_eq!(world.end_with(pause, hold).await, Ok(()));
        world.controls = false;
        let second = connect(&world, 1, &sandbox, MINUTE);
        for _ in 0..20 {
            world.round(hold).await;
        }
        second.abort();
        world.crash(1);
        let later = world.sandbox(&sandbox)["metadata"]["annotations"][PENDING].clone();
        assert!(later.is_string() && later != note);
        world.end_with(first, |_| Fate::Done).await.unwrap();
        assert_eq!(world.sandbox(&sandbox)["metadata"]["annotations"][PENDING], later);
    });
}

#[test]
fn an_answer_that_is_lost_after_the_init_costs_another_init_at_most() {
    run(async {
        for fate in [Fate::Lost, Fate::Unanswered, Fate::Refused(409), Fate::Refused(429)] {
            let (mut world, sandbox) = paused(1).await;
            let resume = connect(&world, 0, &sandbox, MINUTE);
            until_written(&mut world, &sandbox).await;
            let (before, mut number) = (asked(&world), 0);
            let fates = |_: &_| {
                number += 1;
                if number == 1 { fate } else { Fate::Done }
            };
            world.end_with(resume, fates).await.unwrap();
            connected(&mut world, 0, &sandbox).await.unwrap();
            assert!(asked(&world) <= before + 2, "{fate:?}");
            assert!(!is_pending(&world, &sandbox), "{fate:?}");
        }
    });
}

#[test]
fn whoever_joins_a_resume_gets_as_much_time_as_asked_for() {
    run(async {
        let (mut world, sandbox) = paused(2).await;
        world.controls = false;
        let first = connect(&world, 0, &sandbox, MINUTE);
        until_written(&mut world, &sandbox).await;
        let second = connect(&world, 1, &sandbox, 60 * MINUTE);
        world.rounds(5).await;
        world.controls = true;
        for connect in [first, second] {
            world.end_with(connect, |_| Fate::Done).await.unwrap();
        }
        let ends: Timestamp =
            world.sandbox(&sandbox)["spec"]["shutdownTime"].as_str().unwrap().parse().unwrap();
        assert!((3590..=3600).contains(&ends.duration_since(world.model.now()).as_secs()));
    });
}

#[test]
fn a_sandbox_without_a_runtime_to_initialise_has_no_note() {
    run(async {
        let mut world = World::with(1, 1);
        let extensions = Extensions { skip_init_runtime: true, ..Extensions::default() };
        let (manager, new) = (world.manager(0), NewSandbox { extensions, ..wanted() });
        let sandbox = world.end(async move { manager.create(&somebody(), new).await }).await.unwrap();
        pause(&mut world, &sandbox).await;
        let connect = connect(&world, 0, &sandbox, MINUTE);
        until_written(&mut world, &sandbox).await;
        assert_eq!(world.sandbox(&sandbox)["metadata"]["annotations"][PENDING], Value::Null);
        let (_, how) = world.end_with(connect, |_| Fate::Done).await.unwrap();
        assert_eq!((how, asked(&world)), (Connected::Resumed, 0));
    });
}
