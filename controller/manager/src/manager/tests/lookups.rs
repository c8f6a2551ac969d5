use std::time::Duration;

use sandgate_sim::network::{Operation, UnderWay};

use super::world::{Fate, World, caller, kind, run, somebody};
use crate::{Caller, ErrorKind};

const MINUTE: Duration = Duration::from_secs(60);

/// An ID that nobody has.
fn unknown(number: usize) -> String {
    format!("nosuchsandbox{number:07}")
}

/// Whether the request asks which sandboxes have a label.
fn is_list(call: &UnderWay) -> bool {
    matches!(&*call.operation, Operation::List(..))
}

/// Another key, of another namespace than the sandboxes here.
fn elsewhere() -> Caller {
    Caller { namespace: Some("elsewhere".into()), ..caller("owner-3", &[]) }
}

#[test]
fn a_question_about_the_use_of_many_asks_the_api_server_for_none() {
    run(async {
        let mut world = World::with(2, 2);
        world.replicas[1].lags = true;
        let mine = world.created(&somebody()).await.id;
        let other = world.created(&caller("owner-2", &[])).await.id;
        *world.envd.answers.lock() = 200;
        *world.envd.body.lock() = r#"{"cpu_count":2}"#.into();
        let asked: Vec<_> = (0..98).map(unknown).chain([mine.clone(), other]).collect();
        let path = format!("/sandboxes/metrics?sandbox_ids={}", asked.join(","));
        // The manager that has made the sandbox knows it, whatever its watch shows; the other one does not.
        for (replica, known) in [(0, vec![mine]), (1, Vec::new())] {
            let api = world.api(replica);
            let path = path.clone();
            let asked = tokio::spawn(async move { Ok(api.send("owner-1", "GET", &path, "").await) });
            let reply =
                world.end_with(asked, |call| panic!("it asked for {}", call.operation)).await.unwrap();
            let sandboxes = reply.json()["sandboxes"].as_object().unwrap().clone();
            assert_eq!(sandboxes.keys().cloned().collect::<Vec<_>>(), known);
        }
    });
}

#[test]
fn what_one_key_does_not_find_is_not_hidden_from_another() {
    run(async {
        let mut world = World::with(2, 1);
        world.replicas[1].lags = true;
        let id = world.created(&somebody()).await.id;
        for (who, is_found) in [(elsewhere(), false), (somebody(), true)] {
            let (manager, id) = (world.manager(1), id.clone());
            let found = world.end(async move { manager.get(&who, &id).await }).await;
            assert_eq!(found.is_ok(), is_found, "{found:?}");
        }
    });
}

#[test]
fn a_sandbox_whose_end_another_manager_has_moved_is_found_though_the_watch_lags() {
    run(async {
        let mut world = World::with(2, 1);
        let id = world.created(&somebody()).await.id;
        world.replicas[1].lags = true;
        let (manager, of) = (world.manager(0), id.clone());
        world.end(async move { manager.set_timeout(&somebody(), &of, 12 * MINUTE).await }).await.unwrap();
        for (passes, is_found) in [(10 * MINUTE, true), (10 * MINUTE, false)] {
            tokio::time::sleep(passes).await;
            let (manager, of) = (world.manager(1), id.clone());
            let found = world.end(async move { manager.get(&somebody(), &of).await }).await;
            assert_eq!(found.is_ok(), is_found, "{found:?}");
        }
        let (manager, of) = (world.manager(1), id.clone());
        let again = tokio::spawn(async move { manager.get(&somebody(), &of).await });
        let again = world.end_with(again, |call| panic!("it asked for {}", call.operation)).await;
        assert_eq!(kind(again), ErrorKind::NotFound);
    });
}

#[test]
fn questions_of_one_key_hold_up_no_other() {
    run(async {
        let mut world = World::with(2, 1);
        world.replicas[1].lags = true;
        let id = world.created(&somebody()).await.id;
        let manager = world.manager(1);
        let nosy: Vec<_> = (0..100)
            .map(|number| {
                let manager = manager.clone();
                tokio::spawn(async move { manager.get(&elsewhere(), &unknown(number)).await })
            })
            .collect();
        // The API server answers none of the lists of the one.
        let slow = |call: &UnderWay| {
            let text = format!("{:?}", call.operation);
            if is_list(call) && text.contains("nosuchsandbox") { Fate::Held } else { Fate::Done }
        };
        world.round(slow).await;
        let get = tokio::spawn(async move { manager.get(&somebody(), &id).await });
        assert!(world.end_with(get, slow).await.is_ok());
        assert!(
            nosy.iter().filter(|asked| asked.is_finished()).count() >= 36,
            "they come too many at a time"
        );
        let mut kinds = Vec::new();
        for asked in nosy {
            kinds.push(kind(world.end_with(asked, |_| Fate::Done).await));
        }
        let busy = kinds.iter().filter(|kind| **kind == ErrorKind::Busy).count();
        let missing = kinds.iter().filter(|kind| **kind == ErrorKind::NotFound).count();
        assert_eq!((busy, missing), (36, 64));
    });
}

#[test]
fn those_who_wait_for_the_same_answer_ask_once() {
    run(async {
        let mut world = World::with(1, 0);
        let manager = world.manager(0);
        let asked: Vec<_> = (0..20)
            .map(|_| {
                let manager = manager.clone();
                tokio::spawn(async move { manager.get(&somebody(), &unknown(1)).await })
            })
            .collect();
        let mut lists = std::collections::BTreeSet::new();
        for asked in asked {
            let counted = |call: &UnderWay| {
                lists.extend(is_list(call).then_some(call.number));
                Fate::Done
            };
            assert_eq!(kind(world.end_with(asked, counted).await), ErrorKind::NotFound);
        }
        assert!(lists.len() <= 4, "as many as may ask at a time: {lists:?}");
    });
}
