use std::time::Duration;

use sandgate_sim::model::{DeleteOptions, SANDBOXES, object};
use sandgate_sim::network::{Operation, UnderWay};
use serde_json::{Value, json};

use super::world::{Fate, NAMESPACE, World, caller, kind, place, run, somebody, wanted};
use crate::{Connected, Described, Error, ErrorKind, Filter, ShownState};

const MINUTE: Duration = Duration::from_secs(60);

/// Runs something on a manager to its end.
macro_rules! on {
    ($world:expr, $replica:expr, |$manager:ident| $work:expr) => {{
        let $manager = $world.manager($replica);
        $world.end(async move { $work.await }).await
    }};
}

fn is_patch(call: &UnderWay) -> bool {
    matches!(&*call.operation, Operation::Patch(place, ..) if place.kind == &SANDBOXES)
}

/// Every patch of a sandbox has this fate once; everything else is done.
fn once(fate: Fate) -> impl FnMut(&UnderWay) -> Fate {
    let mut is_used = false;
    move |call| if is_patch(call) && !std::mem::replace(&mut is_used, true) { fate } else { Fate::Done }
}

fn is_paused(world: &World, sandbox: &Described) -> bool {
    world.sandbox(sandbox)["spec"]["paused"] == true
}

#[test]
fn a_life_from_create_to_kill_is_told_to_the_gateways_and_the_runtime() {
    run(async {
        let mut world = World::with(1, 1);
        let sandbox = world.created(&somebody()).await;
        assert_eq!(world.states(), ["running"]);
        assert_eq!((sandbox.state, sandbox.cpu_millis, sandbox.memory_mb), (ShownState::Running, 500, 1024));
        assert_eq!(sandbox.metadata, [("user".to_owned(), "ada".to_owned())].into());
        let id = sandbox.id.clone();
        on!(world, 0, |manager| manager.pause(&somebody(), &id, None)).unwrap();
        assert_eq!(world.states(), ["paused", "paused"]);
        let id = sandbox.id.clone();
        let shown = on!(world, 0, |manager| manager.get(&somebody(), &id)).unwrap();
        assert_eq!(shown.state, ShownState::Paused);
        let id = sandbox.id.clone();
        let (resumed, how) =
            on!(world, 0, |manager| manager.connect(&somebody(), &id, Some(MINUTE))).unwrap();
        assert_eq!((resumed.state, how), (ShownState::Running, Connected::Resumed));
        assert_eq!(world.states(), ["running"]);
        let asked = world.envd.asked.lock().clone();
        let urls: Vec<_> = asked.iter().map(|(url, _)| url.as_str()).collect();
        assert_eq!(urls, ["http://10.0.0.1:49983/init", "http://10.0.0.2:49983/init"]);
        assert_eq!(asked[0].1, asked[1].1);
        let token = resumed.access_token.unwrap();
        assert!(asked[1].1.contains(token.reveal()));
        let id = sandbox.id.clone();
        on!(world, 0, |manager| manager.kill(&somebody(), &id)).unwrap();
        assert_eq!(world.states(), ["dead"]);
        let id = sandbox.id.clone();
        assert_eq!(kind(on!(world, 0, |manager| manager.kill(&somebody(), &id))), ErrorKind::NotFound);
    });
}

#[test]
fn a_traffic_token_is_one_sandboxs_for_its_whole_life_and_is_told_to_the_gateways() {
    run(async {
        let mut world = World::with(1, 2);
        let open = world.created(&somebody()).await;
        assert_eq!(open.traffic_token, None);
        let new = crate::NewSandbox { private_traffic: true, ..wanted() };
        world.told.messages.lock().clear();
        let sandbox = on!(world, 0, |manager| manager.create(&somebody(), new)).unwrap();
        let token = sandbox.traffic_token.clone().unwrap();
        assert!(token.reveal().len() >= 32 && Some(&token) != sandbox.access_token.as_ref());
        let annotation = |world: &World, sandbox: &Described| {
            world.sandbox(sandbox)["metadata"]["annotations"]["sandgate.dev/traffic-access-token"].clone()
        };
        assert_eq!(annotation(&world, &sandbox), token.reveal());
        assert!(annotation(&world, &open).is_null());
        let id = sandbox.id.clone();
        on!(world, 0, |manager| manager.pause(&somebody(), &id, None)).unwrap();
        let id = sandbox.id.clone();
        let (resumed, _) = on!(world, 0, |manager| manager.connect(&somebody(), &id, Some(MINUTE))).unwrap();
        assert_eq!(resumed.traffic_token.as_ref(), Some(&token));
        let told = world.told.messages.lock().clone();
        assert!(told.len() > 2 && told.iter().all(|told| told.traffic_access_token == token.reveal()));
        let asked = world.envd.asked.lock().clone();
        assert!(asked.iter().all(|(_, body)| !body.contains(token.reveal())), "nothing in it needs to know");
    });
}

#[test]
fn two_managers_that_pause_at_once_write_once_and_both_succeed() {
    run(async {
        let mut world = World::with(2, 1);
        let sandbox = world.created(&somebody()).await;
        let generation = world.sandbox(&sandbox)["metadata"]["generation"].as_i64().unwrap();
        let pauses: Vec<_> = [0, 1, 0, 1]
            .into_iter()
            .map(|replica| {
                let (manager, id) = (world.manager(replica), sandbox.id.clone());
                tokio::spawn(async move { manager.pause(&somebody(), &id, None).await })
            })
            .collect();
        for pause in pauses {
            assert_eq!(world.end_with(pause, |_| Fate::Done).await, Ok(()));
        }
        let after = world.sandbox(&sandbox);
        assert_eq!(after["metadata"]["generation"].as_i64(), Some(generation + 1));
    });
}

#[test]
fn pausing_what_is_paused_is_a_conflict() {
    run(async {
        let mut world = World::with(1, 1);
        let id = world.created(&somebody()).await.id;
        let again = id.clone();
        on!(world, 0, |manager| manager.pause(&somebody(), &id, None)).unwrap();
        assert_eq!(
            kind(on!(world, 0, |manager| manager.pause(&somebody(), &again, None))),
            ErrorKind::Conflict
        );
    });
}

#[test]
fn a_resume_during_a_pause_waits_for_it_on_the_same_manager_and_on_another() {
    run(async {
        for replica in [0, 1] {
            let mut world = World::with(2, 1);
            let sandbox = world.created(&somebody()).await;
            world.controls = false;
            let (manager, id) = (world.manager(0), sandbox.id.clone());
            let pause = tokio::spawn(async move { manager.pause(&somebody(), &id, None).await });
            world.rounds(5).await;
            assert!(is_paused(&world, &sandbox));
            let (manager, id) = (world.manager(replica), sandbox.id.clone());
            let resume = tokio::spawn(async move { manager.connect(&somebody(), &id, None).await });
            world.rounds(5).await;
            assert!(!resume.is_finished() && !pause.is_finished());
            world.controls = true;
            let (described, how) = world.end_with(resume, |_| Fate::Done).await.unwrap();
            assert_eq!((described.state, how), (ShownState::Running, Connected::Resumed));
            assert_eq!(world.end_with(pause, |_| Fate::Done).await, Ok(()));
            assert!(!is_paused(&world, &sandbox));
        }
    });
}

#[test]
fn a_pause_during_a_resume_is_refused_at_once_with_both_names() {
    run(async {
        let mut world = World::with(1, 1);
        let sandbox = world.created(&somebody()).await;
        let id = sandbox.id.clone();
        on!(world, 0, |manager| manager.pause(&somebody(), &id, None)).unwrap();
        world.controls = false;
        let (manager, id) = (world.manager(0), sandbox.id.clone());
        let resume = tokio::spawn(async move { manager.connect(&somebody(), &id, None).await });
        world.rounds(5).await;
        let id = sandbox.id.clone();
        let refused = on!(world, 0, |manager| manager.pause(&somebody(), &id, None)).unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Conflict);
        assert!(refused.message.contains("pause") && refused.message.contains("resume"), "{refused}");
        world.controls = true;
        world.end_with(resume, |_| Fate::Done).await.unwrap();
    });
}

#[test]
fn a_manager_that_dies_in_the_middle_is_followed_by_another() {
    run(async {
        let mut world = World::with(1, 1);
        let sandbox = world.created(&somebody()).await;
        let id = &sandbox.id;
        world.controls = false;
        let (manager, of) = (world.manager(0), id.clone());
        let pause = tokio::spawn(async move { manager.pause(&somebody(), &of, None).await });
        world.rounds(5).await;
        pause.abort();
        world.crash(0);
        world.controls = true;
        let next = world.start();
        let of = id.clone();
        on!(world, next, |manager| manager.connect(&somebody(), &of, None)).unwrap();
        assert!(!is_paused(&world, &sandbox));
    });
}

#[test]
fn an_answer_that_is_lost_changes_nothing_of_the_outcome() {
    run(async {
        for fate in [Fate::Lost, Fate::Unanswered] {
            let mut world = World::with(1, 1);
            let sandbox = world.created(&somebody()).await;
            let id = &sandbox.id;
            let (manager, of) = (world.manager(0), id.clone());
            let pause = tokio::spawn(async move { manager.pause(&somebody(), &of, None).await });
            assert_eq!(world.end_with(pause, once(fate)).await, Ok(()), "{fate:?}");
            let (manager, of) = (world.manager(0), id.clone());
            let resume = tokio::spawn(async move { manager.connect(&somebody(), &of, Some(MINUTE)).await });
            let (described, _) = world.end_with(resume, once(fate)).await.unwrap();
            assert_eq!(described.state, ShownState::Running);
            let (manager, of) = (world.manager(0), id.clone());
            let moved = tokio::spawn(async move { manager.set_timeout(&somebody(), &of, MINUTE).await });
            assert_eq!(world.end_with(moved, once(fate)).await, Ok(()), "{fate:?}");
            let (manager, of) = (world.manager(0), id.clone());
            let kill = tokio::spawn(async move { manager.kill(&somebody(), &of).await });
            let mut lost = 2;
            let fates = |call: &UnderWay| {
                let is_delete = matches!(&*call.operation, Operation::Delete(..));
                if is_delete && lost > 0 {
                    lost -= 1;
                    return fate;
                }
                Fate::Done
            };
            assert_eq!(world.end_with(kill, fates).await, Ok(()), "{fate:?}");
            assert_eq!(world.claimed(), (0, 0));
        }
    });
}

#[test]
fn a_server_that_is_silent_is_told_as_such() {
    run(async {
        let mut world = World::with(1, 1);
        let id = world.created(&somebody()).await.id;
        let (manager, of) = (world.manager(0), id.clone());
        let pause = tokio::spawn(async move { manager.pause(&somebody(), &of, None).await });
        assert_eq!(kind(world.end_with(pause, |_| Fate::Refused(503)).await), ErrorKind::Unavailable);
        let (manager, of) = (world.manager(0), id.clone());
        let moved = tokio::spawn(async move { manager.set_timeout(&somebody(), &of, MINUTE).await });
        let mut is_cut = false;
        let fate = |call: &UnderWay| {
            is_cut |= is_patch(call);
            if is_cut { Fate::Lost } else { Fate::Done }
        };
        assert_eq!(kind(world.end_with(moved, fate).await), ErrorKind::Unknown);
    });
}

/// <https://github.com/openkruise/agents/issues/792>
#[test]
fn another_sandbox_of_the_same_name_is_never_touched() {
    run(async {
        for work in 0..4 {
            let mut world = World::with(1, 1);
            let sandbox = world.created(&somebody()).await;
            world.replicas[0].lags = true;
            world.controls = false;
            let mut other = world.sandbox(&sandbox);
            world.model.delete(&place(&sandbox), &DeleteOptions::default()).unwrap();
            for field in ["uid", "resourceVersion", "creationTimestamp", "generation"] {
                other["metadata"].as_object_mut().unwrap().remove(field);
            }
            let status = other["status"].take();
            let mut other = Value::clone(&world.model.create(&SANDBOXES, NAMESPACE, other).unwrap());
            other["status"] = status;
            let other = world.model.put(&place(&sandbox), other);
            let (manager, id) = (world.manager(0), sandbox.id.clone());
            let done = world.end(async move {
                match work {
                    0 => manager.pause(&somebody(), &id, None).await,
                    1 => manager.set_timeout(&somebody(), &id, MINUTE).await,
                    2 => manager.connect(&somebody(), &id, None).await.map(drop),
                    _ => manager.kill(&somebody(), &id).await,
                }
            });
            let done = done.await;
            // A kill of what is gone has nothing left to do.
            assert!(work == 3 && done == Ok(()) || kind(done) == ErrorKind::NotFound, "{work}");
            let is = world.model.get(&place(&sandbox)).unwrap();
            assert_eq!(object::version(is), object::version(&other), "{work}");
        }
    });
}

#[test]
fn a_timeout_is_set_while_it_runs_and_a_connect_only_extends_it() {
    run(async {
        let mut world = World::with(1, 1);
        let sandbox = world.created(&somebody()).await;
        let ends =
            |world: &World| world.sandbox(&sandbox)["spec"]["shutdownTime"].as_str().unwrap().to_owned();
        let before = ends(&world);
        let id = sandbox.id.clone();
        let (_, how) = on!(world, 0, |manager| manager.connect(&somebody(), &id, Some(MINUTE))).unwrap();
        assert_eq!((ends(&world), how), (before.clone(), Connected::Running));
        let id = sandbox.id.clone();
        on!(world, 0, |manager| manager.refresh(&somebody(), &id, MINUTE)).unwrap();
        assert_eq!(ends(&world), before);
        let id = sandbox.id.clone();
        on!(world, 0, |manager| manager.connect(&somebody(), &id, Some(20 * MINUTE))).unwrap();
        assert!(ends(&world) > before);
        let id = sandbox.id.clone();
        on!(world, 0, |manager| manager.set_timeout(&somebody(), &id, MINUTE)).unwrap();
        assert!(ends(&world) < before);
        let id = sandbox.id.clone();
        on!(world, 0, |manager| manager.pause(&somebody(), &id, None)).unwrap();
        let id = sandbox.id.clone();
        let refused = on!(world, 0, |manager| manager.set_timeout(&somebody(), &id, MINUTE));
        assert_eq!(kind(refused), ErrorKind::Conflict);
        let id = sandbox.id.clone();
        let (resumed, _) = on!(world, 0, |manager| manager.connect(&somebody(), &id, Some(MINUTE))).unwrap();
        let left = resumed.ends.unwrap().duration_since(resumed.started);
        assert!(left.as_secs() >= 300, "a resume gives five minutes: {left}");
    });
}

#[test]
fn a_sandbox_that_is_not_ready_for_a_moment_runs_and_can_be_paused() {
    run(async {
        let mut world = World::with(1, 1);
        let sandbox = world.created(&somebody()).await;
        world.put(&sandbox, |sandbox| sandbox["status"]["conditions"][0]["status"] = "False".into());
        let id = sandbox.id.clone();
        let shown = on!(world, 0, |manager| manager.get(&somebody(), &id)).unwrap();
        assert_eq!(shown.state, ShownState::Running);
        let listed = world.manager(0).list(&somebody(), &Filter { limit: 10, ..Filter::default() }).unwrap();
        assert_eq!(listed.items.len(), 1);
        let id = sandbox.id.clone();
        let (_, how) = on!(world, 0, |manager| manager.connect(&somebody(), &id, None)).unwrap();
        assert_eq!(how, Connected::Running);
        let id = sandbox.id.clone();
        on!(world, 0, |manager| manager.pause(&somebody(), &id, None)).unwrap();
    });
}

#[test]
fn a_sandbox_that_failed_is_not_found_and_is_killed_all_the_same() {
    run(async {
        for phase in ["Failed", "Succeeded"] {
            let mut world = World::with(1, 1);
            let sandbox = world.created(&somebody()).await;
            world.put(&sandbox, |sandbox| sandbox["status"]["phase"] = phase.into());
            let id = sandbox.id.clone();
            assert_eq!(kind(on!(world, 0, |manager| manager.get(&somebody(), &id))), ErrorKind::NotFound);
            let id = sandbox.id.clone();
            on!(world, 0, |manager| manager.kill(&somebody(), &id)).unwrap();
            assert_eq!(world.claimed(), (0, 0));
        }
    });
}

#[test]
fn a_sandbox_that_is_kept_for_inspection_is_not_found_and_not_killed() {
    run(async {
        let mut world = World::with(1, 1);
        let sandbox = world.created(&somebody()).await;
        world.put(&sandbox, |sandbox| {
            sandbox["metadata"]["labels"]["agents.kruise.io/reserved-failed-sandbox"] = "true".into();
        });
        let id = sandbox.id.clone();
        assert_eq!(kind(on!(world, 0, |manager| manager.kill(&somebody(), &id))), ErrorKind::NotFound);
        assert_eq!(world.claimed(), (1, 1));
    });
}

#[test]
fn anothers_sandbox_and_a_missing_one_are_the_same() {
    run(async {
        let mut world = World::with(1, 1);
        let id = world.created(&somebody()).await.id;
        let other = caller("owner-2", &[]);
        let mut answers = Vec::new();
        for of in [id, "nosuchsandbox0000000".to_owned()] {
            for work in 0..4 {
                let (manager, other, id) = (world.manager(0), other.clone(), of.clone());
                let done: Result<(), Error> = world
                    .end(async move {
                        match work {
                            0 => manager.get(&other, &id).await.map(drop),
                            1 => manager.kill(&other, &id).await,
                            2 => manager.pause(&other, &id, None).await,
                            _ => manager.connect(&other, &id, None).await.map(drop),
                        }
                    })
                    .await;
                answers.push(done.unwrap_err().message.replace(&of, "ID"));
            }
        }
        answers.dedup();
        assert_eq!(answers, ["sandbox ID was not found"]);
        assert_eq!(world.claimed(), (1, 1));
    });
}

#[test]
fn every_replica_answers_right_after_a_create_and_asks_once_for_what_is_missing() {
    run(async {
        let mut world = World::with(2, 1);
        world.replicas[1].lags = true;
        let id = world.created(&somebody()).await.id;
        let of = id.clone();
        assert_eq!(on!(world, 1, |manager| manager.get(&somebody(), &of)).unwrap().id, id);
        let mut lists = 0;
        for _ in 0..3 {
            let manager = world.manager(1);
            let get = tokio::spawn(async move { manager.get(&somebody(), "nosuchsandbox0000000").await });
            let fate = |call: &UnderWay| {
                lists += usize::from(matches!(&*call.operation, Operation::List(..)));
                Fate::Done
            };
            assert_eq!(kind(world.end_with(get, fate).await), ErrorKind::NotFound);
        }
        assert_eq!(lists, 1);
    });
}

#[test]
fn a_pause_that_no_runtime_can_do_is_taken_back_and_says_why() {
    run(async {
        let mut world = World::with(1, 1);
        let sandbox = world.created(&somebody()).await;
        let ends = world.sandbox(&sandbox)["spec"]["shutdownTime"].clone();
        assert!(ends.is_string());
        world.controls = false;
        let (manager, id) = (world.manager(0), sandbox.id.clone());
        let pause = tokio::spawn(async move { manager.pause(&somebody(), &id, None).await });
        world.rounds(5).await;
        world.refuse_pause(&sandbox);
        let refused = world.end_with(pause, |_| Fate::Done).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Unsupported);
        assert!(refused.message.contains("nothing keeps a pod's state"));
        assert!(!is_paused(&world, &sandbox));
        assert_eq!(world.sandbox(&sandbox)["spec"]["shutdownTime"], ends, "it ends when it would have");
    });
}

#[test]
fn rules_for_the_network_are_refused_where_nobody_enforces_them() {
    run(async {
        let mut world = World::with(1, 1);
        let network = crate::Network { allow_out: vec!["example.com".to_owned()], deny_out: Vec::new() };
        let new = crate::NewSandbox { network: Some(network.clone()), ..wanted() };
        let manager = world.manager(0);
        let refused = world.end(async move { manager.create(&somebody(), new).await }).await;
        assert_eq!(kind(refused), ErrorKind::Unsupported);
        assert_eq!(world.claimed(), (0, 0));
        let sandbox = world.created(&somebody()).await;
        let id = sandbox.id.clone();
        let refused = on!(world, 0, |manager| manager.update_network(&somebody(), &id, network, None));
        assert_eq!(kind(refused), ErrorKind::Unsupported);
    });
}

/// A create and an update, each for a sandbox that must not reach the internet.
async fn cut_off(world: &mut World) -> [Result<(), Error>; 2] {
    let sandbox = world.created(&somebody()).await;
    let new = crate::NewSandbox { allow_internet_access: Some(false), ..wanted() };
    let manager = world.manager(0);
    let created = world.end(async move { manager.create(&somebody(), new).await }).await;
    let none = crate::Network::default();
    let id = sandbox.id.clone();
    let updated = on!(world, 0, |manager| manager.update_network(&somebody(), &id, none, Some(false)));
    for (sandbox, is_done) in [(created.as_ref().ok(), true), (Some(&sandbox), updated.is_ok())] {
        let Some(sandbox) = sandbox else { continue };
        let is = world.sandbox(sandbox);
        for labels in [&is["metadata"]["labels"], &is["spec"]["template"]["metadata"]["labels"]] {
            let expected = if is_done { "false" } else { "true" };
            assert_eq!(labels["agents.kruise.io/allow-internet-access"], json!(expected));
        }
        let id = sandbox.id.clone();
        let shown = on!(world, 0, |manager| manager.get(&somebody(), &id)).unwrap();
        assert_eq!(shown.allow_internet_access, !is_done);
    }
    [created.map(drop), updated]
}

#[test]
fn a_sandbox_without_the_internet_is_refused_where_nobody_keeps_it_from_there() {
    run(async {
        let mut world = World::with(1, 2);
        for refused in cut_off(&mut world).await {
            let error = refused.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Unsupported);
            assert!(error.message.starts_with("allow_internet_access: "), "{}", error.message);
        }
        assert_eq!(world.claimed(), (1, 1), "nothing is made of it");
    });
}

#[test]
fn a_sandbox_without_the_internet_has_the_label_that_the_policy_of_its_namespace_selects() {
    run(async {
        let mut world = World::with(0, 2);
        world.settings.no_internet = crate::NoInternet::enforced_in(&[NAMESPACE.to_owned()]);
        world.start();
        assert_eq!(cut_off(&mut world).await, [Ok(()), Ok(())]);
        assert_eq!(world.claimed(), (2, 2));
    });
}
